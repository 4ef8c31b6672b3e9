"""Several usual turns at once: no branch between them, one condition tells whether all were usual.

A turn of `Turn` breaks where it is not usual, and has a branch for what is rare. In a stride of
rows neither is looked at row by row: the turns are made on copies of the words, and what would
have stopped one is gathered. Only a stride without such a row counts; another is made again, a
turn at a time. What a stride needs to know of its rows alone (is one of them unusual by itself,
how high do they reach) `gather` computes once for all lanes, into a few words of each stride.

What stops may be more than what is not usual: a level that rises with the rows is asked where the
whole stride takes it, a value at prices at the least and the greatest price.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    I64_T,
    Assign,
    Binary,
    Expr,
    Fma,
    For,
    If,
    Let,
    Select,
    Stmt,
    Unary,
    Var,
    boolean,
    f64,
    i64,
)
from quantdsl.ir.walk import (
    expressions,
    nodes_in,
    operands,
    rebuild_expr,
    rebuild_stmt,
    statements,
)
from quantdsl.passes.changes import changes, in_last_row, loosened
from quantdsl.passes.losses import EXACT_BITS, Share, beyond, bounded_losses, exact
from quantdsl.passes.marks import OF_FLOATS, Mark, Sunk, is_number, marked, sinks
from quantdsl.passes.rows import ROW
from quantdsl.passes.scopes import assigned_names, declared_names, placed, reads_of_names
from quantdsl.passes.straight import (
    DENIES,
    all_of,
    alternatives,
    either,
    is_rare,
    often,
    only_breaks,
    plain,
    requirements,
)
from quantdsl.passes.tile import SPOT, is_word, tile_word

STRIDE_BITS, LONG_STRIDE_BITS = 3, 4
STRIDE = 1 << STRIDE_BITS
"""Rows: longer strides are made again more often, shorter ones tell of themselves more often. The
lanes of a vector make one again if any of them has to, those of a GPU each by itself."""
GROUP, STOPS = "group@", "stops@"
"""Where a stride's own words begin in the tile; whether one of its turns is not usual."""
RUN, STEP = "run.", "step."
"""What a word is called while a stride makes it, or one of its turns by itself."""

Block = tuple[Stmt, ...]
EXTREMES = {"igt": "imax", "ilt": "imin"}


class Held(NamedTuple):
    """A word of a stride: the least or greatest of an expression over its rows."""

    op: str
    """imin or imax."""
    expr: Expr
    real: bool
    """Whether the word holds it as a float."""


class Stride:
    """Strides of the turns whose statements are `body`.

    `uniform` tells what the words of a row decide, `steady` what is the same in all usual turns.
    """

    def __init__(
        self,
        body: Block,
        uniform: Callable[[Expr], bool],
        steady: Callable[[Expr], bool],
        bits: int,
    ) -> None:
        self.uniform, self.steady = uniform, steady
        self.bits, self.rows = bits, 1 << bits
        """A stride has `rows` of them."""
        self.held: dict[Held, int] = {}
        """What is gathered of the rows -> the word of the stride that holds it."""
        self.before: list[Stmt] = []
        """What is computed before the first stride of several."""
        self.ready: list[Expr] = []
        """What must hold then."""
        self.tests: list[Expr] = []
        """What must not hold of a stride's words."""
        self.after: list[Stmt] = []
        """What a stride changes by its words alone."""
        self.by_row: list[Stmt] = []
        """The same of one row."""
        self.behind: list[Stmt] = []
        """What is left to do after some rows one by one."""
        self.narrow: list[Expr] = []
        """What of each row must be exact as a float."""
        self.known: dict[tuple[str, str, str], str] = {}
        """How two words compare where a stride begins -> the name of that."""
        self.always: dict[str, str] = {}
        """Of some of those: the name of whether it was so in all rows."""
        self.ways: list[tuple[str, str]] = []
        """Pairs of them of which one must have been so in all rows."""
        self.sunk: Sunk | None = None
        self.early = False
        """Whether strides are often stopped by what they are asked."""
        self.trails = False
        """Whether a level that follows the prices is asked of strides."""
        self.limits: Mapping[str, Share] = {}
        """Words that are limits again behind the last stride of several."""
        self.mark, body = self.priced(plain(body))
        self.turn = self.made(body)
        """The turn of one row: it sets STOPS where it is not usual."""
        if self.narrow:
            first, *rest = map(beyond, dict.fromkeys(self.narrow))
            wide = functools.reduce(lambda x, y: Binary("ior", x, y), rest, first)
            self.tests.insert(0, Binary("ine", self.word("imax", wide), i64(0)))

    def priced(self, body: Block) -> tuple[Mark | None, Block]:
        """A value at prices, if there is one, and turns without what computes it.

        Limits on what an account loses ask for its value: as bounds of it, where they can.
        """
        firm = assigned_names(often(body))
        bounded = bounded_losses(body, firm, self.uniform, self.steady)
        if bounded is not None:
            self.before += bounded.before
            self.ready += bounded.ready
            self.limits, body = bounded.shares, bounded.body
        return marked(body, self.uniform, self.steady)

    def made(self, body: Block) -> Block:
        given = Counter(
            stmt.place.name
            for stmt in statements(body)
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var)
        )
        self.rising = {
            stmt.place.name: (stmt.value.op, stmt.value.y)
            for stmt in body
            if isinstance(stmt, Assign)
            and isinstance(stmt.place, Var)
            and isinstance(stmt.value, Binary)
            and stmt.value.op in EXTREMES.values()
            and stmt.value.x == stmt.place
            and given[stmt.place.name] == 1
        }
        """Words that rows only raise or only lower: (imax or imin, by what)."""
        self.kept = in_last_row(body)
        """What a local was in the last row."""
        if self.mark is not None:
            self.begin(self.mark)
        left: list[Stmt] = []
        firm = assigned_names(often(body))
        for stmt in body:
            if isinstance(stmt, If) and (only_breaks(stmt) or is_rare(stmt)):
                left += self.stops(self.at_prices(stmt, firm))
            else:
                left.append(stmt)
        left = [self.grown(stmt) for stmt in left]
        reads = reads_of_names(tuple(left))
        once = {name: reads[name] for name, count in given.items() if count == 1}
        turn: list[Stmt] = []
        for stmt in left:
            if (extreme := self.extreme(stmt, once)) is not None:
                self.after.append(extreme)
                self.by_row.append(stmt)
            else:
                turn.append(stmt)
        return tuple(turn)

    def grown(self, stmt: Stmt) -> Stmt:
        """A statement that takes counts of rows to be as large as something asks for, all of them.

        An indicator asks so until it is warm. A stride in which one is not is stopped.
        """

        def expr(node: Expr) -> Expr:
            match node:
                case Select(Binary(op, x, y) as cond, large, small) if self.of_row(cond):
                    if op in ("ile", "ilt"):
                        cond, large, small = Binary(CONTRARY[op], x, y), small, large
                    if cond.op in ("ige", "igt"):
                        test = self.asked(Binary(CONTRARY[cond.op], x, y))
                        assert test is not None
                        self.tests.append(test)
                        self.early = True
                        return expr(large)
            return rebuild_expr(node, expr)

        return rebuild_stmt(stmt, expr, self.grown)

    # ---- what tells that a turn is not usual ----------------------------------------------

    def stops(self, conds: Iterable[Expr]) -> Iterator[Stmt]:
        """What notes that one of these holds; of those that a row decides the stride is asked."""
        left: list[Expr] = []
        for cond in conds:
            parts = list(requirements(cond))
            whole = self.asked_all(parts)
            if whole is not None:
                self.tests.append(whole)
                continue
            rest: list[Expr] = []
            for part in parts:
                if self.of_row(part) and isinstance(part, Binary) and part.op in CONTRARY:
                    contrary = self.asked(Binary(CONTRARY[part.op], part.x, part.y))
                    assert contrary is not None
                    self.tests.append(contrary)
                else:
                    rest.append(part)
            left.append(all_of(rest))
        if left:
            last = {name: kept.of for name, kept in self.kept.items()}
            loose = list(dict.fromkeys(alternatives(loosened(either(left), last, self.begun))))
            yield from self.all_one_way(loose)
            if loose:
                yield Assign(Var(STOPS), either((Var(STOPS), *loose)))

    def all_one_way(self, alts: list[Expr]) -> Iterator[Stmt]:
        """What notes whether x > y holds in all rows, and x < y, in place of two of `alts`.

        If it was so where the stride began nothing has changed. Each row adds to what is known by
        the comparison itself: nothing waits for it.
        """
        for more in changes(alts, "fgt"):
            for less in changes(alts, "flt"):
                if (more.now.x, more.now.y) == (less.now.x, less.now.y):
                    for begun, now in (more, less):
                        alts.remove(Binary("xor", now, begun))
                        always = self.always.setdefault(begun.name, f"always.{begun.name}")
                        yield Assign(Var(always), Binary("and", Var(always), now))
                    self.ways.append((more.begun.name, less.begun.name))
                    break

    def begun(self, cond: Binary, beside: Sequence[Expr]) -> Expr:
        """How two locals of the last row compared, or did so where the stride began.

        Whether the comparison has changed since then tells of any row what it tells of all, if
        nothing `beside` it is another in each: then a row compares two numbers once.
        """
        if not all(map(self.steady, beside)):
            return cond
        x, y = (self.kept[word.name].word for word in (cond.x, cond.y) if isinstance(word, Var))
        return Var(self.known.setdefault((cond.op, x, y), f"begun.{len(self.known)}@"))

    def begins(self, same: Mapping[str, str]) -> Iterator[Stmt]:
        """What is asked where a stride begins, or a turn of one by itself.

        `same` are words that are held as another.
        """
        for (op, *words), name in self.known.items():
            x, y = (Var(same.get(word, word)) for word in words)
            yield Let(name, BOOL_T, Binary(op, x, y))
        for always in self.always.values():
            yield Let(always, BOOL_T, boolean(True))

    def stopped(self) -> Expr:
        """Whether one of the turns that were made is not usual, or may be."""
        return either((Var(STOPS), *(Unary("not", self.one_way(*way)) for way in self.ways)))

    def one_way(self, more: str, less: str) -> Expr:
        """Whether two numbers compared in all rows as where the stride began, and not as equal."""
        sides = (Binary("and", Var(name), Var(self.always[name])) for name in (more, less))
        return either(sides)

    def of_row(self, cond: Expr) -> bool:
        """Whether a condition compares a whole number of a row with one that lasts."""
        return (
            isinstance(cond, Binary)
            and cond.op in DENIES
            and self.uniform(cond.x)
            and self.steady(cond.y)
        )

    def asked_all(self, parts: Sequence[Expr]) -> Expr | None:
        """The same of conditions of which all must hold for one row; None if one is unknown."""
        before = dict(self.held), list(self.ready), list(self.narrow)
        asked: list[Expr] = []
        for part in parts:
            cond = self.asked(part)
            if cond is None:
                self.held, self.ready, self.narrow = before
                return None
            asked.append(cond)
        return all_of(asked)

    def asked(self, cond: Expr) -> Expr | None:
        """A condition of a stride that holds where the given one does for one of its rows.

        None where the words of a stride cannot tell.
        """
        if self.steady(cond):
            return cond
        if not isinstance(cond, Binary) or cond.op not in DENIES:
            return None
        low = cond.op in ("ile", "ilt")
        x = self.bound(cond.x, "imin" if low else "imax")
        y = self.bound(cond.y, "imax" if low else "imin")
        return _both(cond.op, x, y)

    def bound(self, expr: Expr, op: str) -> Expr | None:
        """What an expression is at least (imin) or at most (imax) in a stride; None if unknown."""
        if self.steady(expr):
            return expr
        if self.uniform(expr):
            return self.word(op, expr)
        match expr:
            case Var(name) if name in self.rising:
                self.trails = True
                way, by = self.rising[name]
                bound = self.bound(by, op) if way == op else None
                if way == op and bound is None:
                    return None
                return expr if bound is None else Binary(op, expr, bound)
            case Binary(inner, x, y) if inner in EXTREMES.values():
                return _both(inner, self.bound(x, op), self.bound(y, op))
            case Binary("isub", x, y) if self.uniform(x) and self.steady(y):
                self.narrow.append(x)
                self.ready.append(_exact_sum(y))
                return Binary("isub", self.word(op, x), y)
        return None

    def word(self, op: str, expr: Expr, *, real: bool = False) -> Expr:
        """The least or greatest value of an expression over the rows of a stride."""
        at = self.held.setdefault(Held(op, expr, real), len(self.held))
        word = tile_word(Var(GROUP), at)
        return Unary("from_bits", word) if real else word

    # ---- what a stride computes once ------------------------------------------------------

    def extreme(self, stmt: Stmt, reads: Mapping[str, int]) -> Stmt | None:
        """What a stride does in place of a turn's bound of a word that is read for that alone."""
        match stmt:
            case Assign(
                Var(name),
                Select(Binary("and", cond, Binary(op, x, Var(old))), y, Var(same)),
            ) if (
                op in EXTREMES
                and name == old == same
                and x == y
                and self.uniform(x)
                and self.steady(cond)
                and reads.get(name) == 2
            ):
                word = self.word(EXTREMES[op], x)
                value = Select(Binary("and", cond, Binary(op, word, Var(name))), word, Var(name))
                return Assign(Var(name), value)
            case Assign(Var(name), Binary(op, Var(old), x)) if (
                op in EXTREMES.values() and name == old and reads.get(name) == 1
            ):
                bound = self.bound(x, op)
                return None if bound is None else Assign(Var(name), Binary(op, Var(name), bound))
        return None

    def begin(self, mark: Mark) -> None:
        """A value at prices is, while lots last, what it would be at 0 and lots times the price."""
        at_zero = Binary("isub", Var(mark.value), Binary("imul", mark.lots, Var(mark.before)))
        self.before += [
            Let(AT_ZERO, I64_T, at_zero),
            Let(_real(AT_ZERO), F64_T, Unary("i64_to_f64", Var(AT_ZERO))),
            Let(_real(LOTS), F64_T, Unary("i64_to_f64", mark.lots)),
            Let(SHORT, BOOL_T, Binary("ilt", mark.lots, i64(0))),
        ]
        self.ready += [exact(Var(AT_ZERO)), exact(mark.lots)]
        self.narrow.append(mark.price)

    def at_prices(self, stmt: If, firm: Set[str]) -> Iterator[Expr]:
        """The conditions of a rare branch, but those on a value at prices: the stride is asked.

        It is greatest and least at the extremes of the price. As floats both are exact where the
        limit is: a sum beyond 53 bits is rounded to one beyond it. What is `firm` changes in most
        turns.
        """
        mark = self.mark
        sunk = None if mark is None else sinks(stmt, mark.value, firm)
        for cond in alternatives(stmt.cond):
            if mark is None or not isinstance(cond, Binary) or cond.x != Var(mark.value):
                yield cond
                continue
            if (fallen := self.fallen(cond.y)) is not None:
                self.tests.append(Binary("fle", self.value(mark, cond.op), fallen))
                continue
            limit, op = self.real(cond.y), OF_FLOATS[cond.op]
            test = Binary(op, self.value(mark, cond.op), limit)
            if sunk is not None and cond.y == Var(sunk.word):
                apart = Binary(cond.op, cond.y, sunk.other)
                test = Binary("and", test, Unary("not", apart))
                self.sink(mark, sunk, cond.op)
            self.tests.append(test)

    def fallen(self, limit: Expr) -> Expr | None:
        """The most of what a word is less a number of each row; rounded, it may be met by less."""
        match limit:
            case Binary("isub", x, y) if self.uniform(y):
                self.narrow.append(y)
                self.ready.append(exact(x))
                return Unary("i64_to_f64", Binary("isub", x, self.word("imin", y)))
        return None

    def real(self, limit: Expr) -> Expr:
        """A limit as a float that is held from before the strides."""
        if is_number(limit):
            return f64(float(limit.bits))
        name = _real("-".join(node.name for node in nodes_in(limit) if isinstance(node, Var)))
        if all(not isinstance(stmt, Let) or stmt.name != name for stmt in self.before):
            self.before.append(Let(name, F64_T, Unary("i64_to_f64", limit)))
            self.ready += map(exact, (limit, *operands(limit)))
        return Var(name)

    def value(self, mark: Mark, op: str) -> Expr:
        """The value at prices of a stride that is first to be less or more (`op`) than a limit."""
        price = self.price(mark, op, real=True)
        return Fma(Var(_real(LOTS)), price, Var(_real(AT_ZERO)))

    def price(self, mark: Mark, op: str, *, real: bool) -> Expr:
        """The price that it has its value at: that of fewer than no lots falls as prices rise."""
        first, other = ("imin", "imax") if op in ("ilt", "ile") else ("imax", "imin")
        held, short = (self.word(end, mark.price, real=real) for end in (first, other))
        return Select(Var(SHORT), short, held)

    def sink(self, mark: Mark, sunk: Sunk, op: str) -> None:
        """Lets a stride lower or raise a word to the value at prices."""
        word, real = Var(sunk.word), self.real(Var(sunk.word))
        value = self.value(mark, op)
        end = Unary("i64_to_f64", i64(-(1 << EXACT_BITS) if op == "ilt" else 1 << EXACT_BITS))
        self.tests.append(Binary(OF_FLOATS[op], value, end))
        moved = Binary("imul", mark.lots, self.price(mark, op, real=False))
        lowered = _put_real(word, Binary("iadd", Var(AT_ZERO), moved))
        self.after.append(If(Binary(OF_FLOATS[op], value, real), lowered))
        at_row = Binary("iadd", Var(AT_ZERO), Binary("imul", mark.lots, mark.price))
        lower, keep = _put_real(word, Binary(sunk.op, word, at_row))
        self.by_row.append(lower)
        self.behind.append(keep)

    def finish(self, price: Expr | None, same: Mapping[str, str]) -> Block:
        """What is left to do after strides of which the last row has this price.

        `same` are words that are held as another.
        """
        limits = (
            Assign(
                Var(name),
                placed(share.value, share.amount, Var(same.get(share.amount, share.amount))),
            )
            for name, share in self.limits.items()
        )
        if self.mark is None or price is None:
            return tuple(limits)
        value, before, lots, _ = self.mark
        moved = Binary("iadd", Var(AT_ZERO), Binary("imul", lots, price))
        held = Binary("ine", lots, i64(0))
        return (
            Assign(Var(value), moved),
            Assign(Var(before), Select(held, price, Var(before))),
            *limits,
        )

    # ---- the code -------------------------------------------------------------------------

    def worth(self) -> bool:
        """Whether strides may be made and are likely to have no row that stops them.

        What compares whole numbers of a row, and cannot be asked of the stride, stops too often;
        levels that follow the prices do beside what stops strides often already. A whole number
        must not be divided where a turn would have stopped before it.
        """
        return not (self.early and self.trails) and not any(
            isinstance(node, Binary)
            and (
                node.op in ("idiv", "imod")
                or (node.op in DENIES and any(map(is_word, (*nodes_in(node.x), *nodes_in(node.y)))))
            )
            for node in expressions(self.turn)
        )

    def copies(self, turn: Block, spot: Callable[[int], Expr], row: Callable[[int], Expr]) -> Block:
        """The turns of a stride, `turn` one on the tile, where `spot(k)` begins its row(k)."""
        return tuple(
            stmt
            for k in range(self.rows)
            for stmt in self.copy(turn, RUN, f".{k}", spot(k), row(k))
        )

    def copy(self, turn: Block, way: str, end: str, spot: Expr, row: Expr) -> Iterator[Stmt]:
        """One turn on copies of the words that are called `way`, its locals ending in `end`."""
        changed, inner = assigned_names(turn) - self.own(), declared_names(turn)
        given = {SPOT: spot, ROW: row}
        return (_renamed(stmt, changed, inner, end, given, way) for stmt in turn)

    def changed(self) -> Set[str]:
        """The words that the turns of a stride change, in their copies."""
        return assigned_names(self.turn) - self.own() - declared_names(self.turn)

    def own(self) -> Set[str]:
        """What the turns of a stride note of it."""
        return {STOPS, *self.always.values()}


AT_ZERO, LOTS, SHORT = "at_zero@", "lots@", "short@"
CONTRARY = {"ile": "igt", "igt": "ile", "ige": "ilt", "ilt": "ige"}


def _put_real(word: Var, value: Expr) -> tuple[Assign, Assign]:
    """A word given a value, and so what it is as a float."""
    return Assign(word, value), Assign(Var(_real(word.name)), Unary("i64_to_f64", word))


def _both(op: str, x: Expr | None, y: Expr | None) -> Expr | None:
    return None if x is None or y is None else Binary(op, x, y)


def _real(name: str) -> str:
    return f"real.{name}"


def _exact_sum(value: Expr) -> Expr:
    """Whether the difference of an exact number and this is a number of a word."""
    lifted = Binary("iadd", value, i64(1 << EXACT_BITS + 1))
    return Binary("ieq", Binary("lshr", lifted, i64(EXACT_BITS + 2)), i64(0))


def _renamed(
    stmt: Stmt, changed: Set[str], inner: Set[str], end: str, given: Mapping[str, Expr], way: str
) -> Stmt:
    """A statement of one copy of a turn: on copies of words, with locals of its own."""

    def name(old: str) -> str:
        if old in inner:
            return old + end
        return way + old if old in changed else old

    def expr(node: Expr) -> Expr:
        if isinstance(node, Var):
            return given.get(node.name) or Var(name(node.name))
        return rebuild_expr(node, expr)

    def one(inside: Stmt) -> Stmt:
        new = rebuild_stmt(inside, expr, one)
        if isinstance(new, Let):
            return Let(name(new.name), new.type, new.value, new.line)
        if isinstance(new, For):
            return For(name(new.name), new.lo, new.hi, new.body, new.line)
        return new

    return one(stmt)
