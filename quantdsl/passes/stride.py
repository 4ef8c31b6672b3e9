"""Several usual turns at once: no branch between them, one condition tells whether all were usual.

A turn of `Turn` breaks where it is not usual, and has a branch for what is rare. In a stride of
rows neither is looked at row by row: the turns are made on copies of the words, and what would
have stopped one is gathered. Only a stride without such a row counts; another is made again, a
turn at a time. What a stride needs to know of its rows alone (is one of them unusual by itself,
how high do they reach) `gather` computes once for all lanes, into a few words of each stride.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from quantdsl.ir.ops import (
    F64_T,
    I64_T,
    Assign,
    Binary,
    Break,
    Const,
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
    i64,
)
from quantdsl.ir.walk import expressions, nested, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.places import nodes as parts
from quantdsl.passes.rows import ROW
from quantdsl.passes.scopes import assigned_names, declared_names, reads_of_names
from quantdsl.passes.straight import DENIES, alternatives, either, requirements
from quantdsl.passes.tile import SPOT, is_word, tile_word

STRIDE_BITS = 3
STRIDE = 1 << STRIDE_BITS
"""Rows: longer strides are made again more often, shorter ones tell of themselves more often."""
GROUP, STOPS = "group@", "stops@"
"""Where a stride's own words begin in the tile; whether one of its turns is not usual."""
RUN = "run."
"""What a word is called while a stride makes it."""
EXACT_BITS = 53
"""Whole numbers of so many bits are exact as floats."""

Block = tuple[Stmt, ...]
OF_FLOATS = {"ilt": "flt", "ile": "fle", "igt": "fgt", "ige": "fge"}
EXTREMES = {"igt": "imax", "ilt": "imin"}


class Mark(NamedTuple):
    """A value at prices that come from rows: value + lots * (price - the price before)."""

    value: str
    before: str
    lots: Var
    price: Expr


class Stride:
    """Strides of the turns whose statements are `body`.

    `uniform` tells what the words of a row decide, `steady` what is the same in all usual turns.
    """

    def __init__(
        self, body: Block, uniform: Callable[[Expr], bool], steady: Callable[[Expr], bool]
    ) -> None:
        self.uniform, self.steady = uniform, steady
        self.held: dict[tuple[str, Expr], int] = {}
        """(imin or imax, of what of each row) -> the word of the stride that holds it."""
        self.before: list[Stmt] = []
        """What is computed before the first stride of several."""
        self.ready: list[Expr] = []
        """What must hold then."""
        self.tests: list[Expr] = []
        """What must not hold of a stride's words."""
        self.after: list[Stmt] = []
        """What a stride changes by its words alone."""
        self.mark, body = marked(body, uniform, steady)
        self.turn = self.made(body)
        """The turn of one row: it sets STOPS where it is not usual."""

    def made(self, body: Block) -> Block:
        reads = reads_of_names(body)
        given = Counter(
            stmt.place.name
            for stmt in statements(body)
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var)
        )
        once = {name: reads[name] for name, count in given.items() if count == 1}
        if self.mark is not None:
            self.begin(self.mark)
        turn: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, If) and stmt.then == (Break(),) and not stmt.otherwise:
                turn += self.stops(alternatives(stmt.cond))
            elif isinstance(stmt, If) and _rare(stmt):
                turn += self.stops(map(self.floated, alternatives(stmt.cond)))
            elif (extreme := self.extreme(stmt, once)) is not None:
                self.after.append(extreme)
            else:
                turn.append(stmt)
        return tuple(turn)

    # ---- what tells that a turn is not usual ----------------------------------------------

    def stops(self, conds: Iterator[Expr]) -> Iterator[Stmt]:
        """What notes that one of these holds; of those that a row decides the stride is asked."""
        left: list[Expr] = []
        for cond in conds:
            if self.of_row(cond):
                self.tests.append(self.asked(cond))
                continue
            rest: list[Expr] = []
            for part in requirements(cond):
                if self.of_row(part) and isinstance(part, Binary) and part.op in CONTRARY:
                    self.tests.append(self.asked(Binary(CONTRARY[part.op], part.x, part.y)))
                else:
                    rest.append(part)
            left.append(_all(rest))
        if left:
            yield Assign(Var(STOPS), either((Var(STOPS), *left)))

    def of_row(self, cond: Expr) -> bool:
        """Whether a condition compares a whole number of a row with one that lasts."""
        return (
            isinstance(cond, Binary)
            and cond.op in DENIES
            and self.uniform(cond.x)
            and self.steady(cond.y)
        )

    def asked(self, cond: Expr) -> Expr:
        """Such a condition of a stride: whether it holds for one of its rows."""
        assert isinstance(cond, Binary)
        op = "imin" if cond.op in ("ile", "ilt") else "imax"
        return Binary(cond.op, self.word(op, cond.x), cond.y)

    def word(self, op: str, expr: Expr) -> Expr:
        """The least or greatest value of an expression over the rows of a stride."""
        at = self.held.setdefault((op, expr), len(self.held))
        return tile_word(Var(GROUP), at)

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
                op in EXTREMES.values() and name == old and self.uniform(x) and reads.get(name) == 1
            ):
                return Assign(Var(name), Binary(op, Var(name), self.word(op, x)))
        return None

    def begin(self, mark: Mark) -> None:
        """A value at prices is, while lots last, what it would be at 0 and lots times the price."""
        at_zero = Binary("isub", Var(mark.value), Binary("imul", mark.lots, Var(mark.before)))
        self.before += [
            Let(AT_ZERO, I64_T, at_zero),
            Let(_real(AT_ZERO), F64_T, Unary("i64_to_f64", Var(AT_ZERO))),
            Let(_real(LOTS), F64_T, Unary("i64_to_f64", mark.lots)),
        ]
        self.ready += [_exact(Var(AT_ZERO)), _exact(mark.lots)]
        self.tests.append(Binary("ine", self.word("imax", _beyond(mark.price)), i64(0)))

    def floated(self, cond: Expr) -> Expr:
        """A condition on a value at prices as one of floats.

        They are exact where the limit is: a sum beyond 53 bits is rounded to one beyond it.
        """
        mark = self.mark
        if mark is None or not isinstance(cond, Binary) or cond.x != Var(mark.value):
            return cond
        assert isinstance(cond.y, Var)
        name = _real(cond.y.name)
        if all(not isinstance(stmt, Let) or stmt.name != name for stmt in self.before):
            self.before.append(Let(name, F64_T, Unary("i64_to_f64", cond.y)))
            self.ready.append(_exact(cond.y))
        price = Unary("i64_to_f64", mark.price)
        value = Fma(Var(_real(LOTS)), price, Var(_real(AT_ZERO)))
        return Binary(OF_FLOATS[cond.op], value, Var(name))

    def finish(self, price: Expr) -> Block:
        """What is left to do after strides of which the last row has this price."""
        if self.mark is None:
            return ()
        value, before, lots, _ = self.mark
        moved = Binary("iadd", Var(AT_ZERO), Binary("imul", lots, price))
        held = Binary("ine", lots, i64(0))
        return (
            Assign(Var(value), moved),
            Assign(Var(before), Select(held, price, Var(before))),
        )

    # ---- the code -------------------------------------------------------------------------

    def worth(self) -> bool:
        """Whether strides may be made and are likely to have no row that stops them.

        Where orders rest at prices, rows are compared with them, and one in a few strides fails:
        on an H200 the bracket strategy of bench/ takes a sixth longer with strides. A whole number
        must not be divided where a turn would have stopped before it.
        """
        return not any(
            isinstance(node, Binary)
            and (
                node.op in ("idiv", "imod")
                or (node.op in DENIES and any(map(is_word, (*parts(node.x), *parts(node.y)))))
            )
            for node in expressions(self.turn)
        )

    def copies(self, turn: Block, spot: Callable[[int], Expr], row: Callable[[int], Expr]) -> Block:
        """The turns of a stride, `turn` one on the tile, where `spot(k)` begins its row(k)."""
        changed, inner = assigned_names(turn) - {STOPS}, declared_names(turn)
        return tuple(
            _renamed(stmt, changed, inner, f".{k}", {SPOT: spot(k), ROW: row(k)})
            for k in range(STRIDE)
            for stmt in turn
        )

    def changed(self) -> Set[str]:
        """The words that the turns of a stride change, in their copies."""
        return assigned_names(self.turn) - {STOPS} - declared_names(self.turn)


AT_ZERO, LOTS = "at_zero@", "lots@"
CONTRARY = {"ile": "igt", "igt": "ile", "ige": "ilt", "ilt": "ige"}


def marked(
    body: Block, uniform: Callable[[Expr], bool], steady: Callable[[Expr], bool]
) -> tuple[Mark | None, Block]:
    """A value at prices that a turn computes, if it only compares it, and the turn without."""
    moves = {
        stmt.name: stmt.value
        for stmt in body
        if isinstance(stmt, Let) and isinstance(stmt.value, Binary) and stmt.value.op == "isub"
    }
    for stmt in body:
        match stmt:
            case Assign(
                Var(value), Binary("iadd", Var(old), Binary("imul", Var() as lots, Var(x)))
            ):
                move = moves.get(x)
                if move is None or value != old or not steady(lots) or not uniform(move.x):
                    continue
                if not isinstance(move.y, Var):
                    continue
                mark = Mark(value, move.y.name, lots, move.x)
                rest = _without(body, mark, x)
                if rest is not None:
                    return mark, rest
    return None, body


def _without(body: Block, mark: Mark, move: str) -> Block | None:
    """A turn without what computes a mark; None if it is used for more than comparisons."""
    value = Var(mark.value)
    held = Binary("ine", mark.lots, i64(0))
    before = Assign(Var(mark.before), Select(held, mark.price, Var(mark.before)))
    after = Assign(value, Binary("iadd", value, Binary("imul", mark.lots, Var(move))))
    alias = {stmt.name for stmt in body if isinstance(stmt, Let) and stmt.value == value}
    firm = assigned_names(tuple(stmt for stmt in body if not _rare(stmt)))

    def expr(node: Expr) -> Expr:
        if isinstance(node, Var) and node.name in alias:
            return value
        return rebuild_expr(node, expr)

    made: list[Stmt] = []
    left = [before, after]
    for stmt in body:
        if isinstance(stmt, Let) and stmt.name in {*alias, move}:
            continue
        if left and _same(stmt, left[0]):
            left.pop(0)
            continue
        if isinstance(stmt, If) and _rare(stmt) and not left:
            cond = expr(stmt.cond)
            if all(_compares(part, mark.value, firm) for part in alternatives(cond)):
                made.append(If(cond, stmt.then, (), stmt.line))
                continue
        if {mark.value, mark.before, move, *alias} & _named(stmt):
            return None
        made.append(stmt)
    return None if left else tuple(made)


def _same(stmt: Stmt, other: Assign) -> bool:
    return isinstance(stmt, Assign) and stmt.place == other.place and stmt.value == other.value


def _named(stmt: Stmt) -> Set[str]:
    return {*reads_of_names((stmt,)), *assigned_names((stmt,))}


def _compares(cond: Expr, name: str, firm: Set[str]) -> bool:
    """Whether a condition compares a local with a word that lasts, or is of other things."""
    if isinstance(cond, Binary) and cond.op in OF_FLOATS and cond.x == Var(name):
        return isinstance(cond.y, Var) and cond.y.name not in {*firm, name}
    return name not in reads_of_names((If(cond, ()),))


def _rare(stmt: Stmt) -> bool:
    """Whether a statement is a branch that most turns jump over."""
    return isinstance(stmt, If) and not stmt.otherwise and any(map(nested, stmt.then))


def _all(parts: Sequence[Expr]) -> Expr:
    whole: Expr = boolean(True)
    for part in parts:
        whole = part if isinstance(whole, Const) else Binary("and", whole, part)
    return whole


def _real(name: str) -> str:
    return f"real.{name}"


def _beyond(value: Expr) -> Expr:
    """0 for a whole number that is exact as a float."""
    lifted = Binary("iadd", value, i64(1 << EXACT_BITS))
    return Binary("lshr", lifted, i64(EXACT_BITS + 1))


def _exact(value: Expr) -> Expr:
    return Binary("ieq", _beyond(value), i64(0))


def _renamed(
    stmt: Stmt, changed: Set[str], inner: Set[str], end: str, given: Mapping[str, Expr]
) -> Stmt:
    """A statement of one copy of a turn: on copies of words, with locals of its own."""

    def name(old: str) -> str:
        if old in inner:
            return old + end
        return RUN + old if old in changed else old

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
