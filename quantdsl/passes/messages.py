"""Pass the events of a message in groups: most of them are no concern of a lane's.

A lane that follows a book looks at each event: is it of a level at which an order rests, has one
arrived by then? Nine in ten are inside a message, where a turn ends early, and hardly any is of
concern. What lanes ask of events is gathered of sixteen at a time, as a stride's rows are
(stride.py): the bits of all levels, the latest time. So a lane asks once a group, of words that
stand side by side behind all rows. Only events of concern have their turn. One of no concern only
writes words that the next one writes again; that it does is looked at for each message. So the
turn of the event before leaves the words as all before would, and is made first where an event of
concern reads them; and a message whose last event had no turn ends with what that one writes.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from quantdsl.ir.ops import (
    BOOL_T,
    I64_T,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Const,
    Continue,
    Elem,
    Expr,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Select,
    Stmt,
    Unary,
    Var,
    While,
    boolean,
    i64,
)
from quantdsl.ir.walk import nodes, operands, rebuild_expr
from quantdsl.passes.group import OF_NONE
from quantdsl.passes.rows import BASE, OUT, ROW, ROW_WORDS, ROWS
from quantdsl.passes.scopes import assigned_names, declared_names, reads_of_names, renamed
from quantdsl.passes.straight import alternatives, either, requirements
from quantdsl.passes.tile import is_word, of_row

MESSAGES = "messages"
"""The function that gathers: messages(rows, n, inout out), for all rows."""
MESSAGE_WORDS = "MESSAGE_WORDS"
"""The module's size that says how many words stand behind the rows for each of them."""
NONE_OF = OF_NONE | {"ior": 0}
"""What is gathered of no row at all."""
GREATEST = {"igt": "imax", "ige": "imax", "ilt": "imin", "ile": "imin"}
TURNED = {"igt": "ilt", "ige": "ile", "ilt": "igt", "ile": "ige"}
GROUP = 16
"""Events at most: more are of concern to some lane too often, of fewer there are many groups."""
MANTISSA_BITS, EXPONENT_BIAS = 52, 1023
"""Of a binary64."""
FIRST, LAST, FRESH, NUMBER, GROUP_AT = "first@", "last@", "fresh@", "number@", "group@"
SPAN, SPAN_BITS, MORE, CUT = "span@", 2, 1, 2
"""Beside a group's last row: whether more of its message follow, or would behind the last row."""
AGAIN = "again@"
LOOKED, WEIGHS, HEAVY = "looked@", "weighs@", "heavy@"
LOW, AT = "low@", "at@"
WRITTEN, BROKEN, BEGAN, GROUPS = "written@", "broken@", "began@", "groups@"

Block = tuple[Stmt, ...]


def pass_messages(module: Module, entry: str) -> Module:
    """The module whose entry passes messages at once, with the function MESSAGES.

    It comes as it is where the entry has no rows, or no turn of it ends early.
    """
    sizes = dict(module.sizes)
    func = next(func for func in module.funcs if func.name == entry)
    loops = [at for at, stmt in enumerate(func.body) if isinstance(stmt, For)]
    if ROW_WORDS not in sizes or len(loops) != 1:
        return module
    loop = func.body[loops[0]]
    assert isinstance(loop, For)
    ends = [at for at, stmt in enumerate(loop.body) if _ends(stmt)]
    if not ends:
        return module
    maker = _Maker(func, loop, ends[0], sizes[ROW_WORDS])
    if not maker.may():
        return module
    body = (*func.body[: loops[0]], *maker.loop(), *func.body[loops[0] + 1 :])
    new = msgspec.structs.replace(func, body=body)
    funcs = [
        one for each in module.funcs for one in ((maker.gather(), new) if each is func else (each,))
    ]
    sizes[MESSAGE_WORDS] = maker.words
    entries = (*module.entries, MESSAGES)
    return msgspec.structs.replace(
        module, funcs=tuple(funcs), entries=entries, sizes=tuple(sorted(sizes.items()))
    )


def _ends(stmt: Stmt) -> bool:
    return isinstance(stmt, If) and stmt.then == (Continue(),) and not stmt.otherwise


class Asked(NamedTuple):
    """What lanes ask of events: whether what is gathered, by an operation, holds beside a word."""

    op: str
    """imax, imin or ior."""
    compared: str
    """How; a bit that both have, for ior."""
    word: Expr
    """What lasts."""

    def holds(self, gathered: Expr) -> Expr:
        if self.op == "ior":
            return Binary("ine", Binary("iand", gathered, self.word), i64(0))
        return Binary(self.compared, gathered, self.word)


ALWAYS = Asked("ior", "ine", i64(1))
"""What every lane has to look at."""


class _Maker:
    """Takes a turn apart: what is done of each event, and what at the end of a message."""

    def __init__(self, func: Func, loop: For, ends: int, width: int) -> None:
        self.func, self.whole, self.width = func, loop, width
        self.count = func.params[2].name
        head = loop.body[:ends]
        self.loads = tuple(stmt for stmt in head if isinstance(stmt, Let) and _loads(stmt))
        self.early = tuple(stmt for stmt in head if stmt not in self.loads)
        self.late = loop.body[ends + 1 :]
        self.given: dict[str, Expr] = {}
        """What locals of a turn are made of."""
        self.changing = assigned_names(loop.body)
        self.own = declared_names(self.early)
        for stmt in self.loads[1:]:
            self.note(stmt)
        ending = loop.body[ends]
        assert isinstance(ending, If)
        self.inside = self.known(ending.cond)
        """Whether more events of the message follow an event."""
        self.asked: dict[Asked, list[Expr]] = {ALWAYS: []}
        """What is asked, and of what of a row it is gathered."""
        self.writes: dict[str, list[Expr]] = {}
        """The words that an event of no concern gives a value, and when."""
        self.left: list[Stmt] = []
        """What does that, without a branch."""
        self.done: dict[Asked, list[Stmt]] = {}
        """What is done where it holds."""
        self.look(self.early, boolean(True))
        self.of_one = max(len(self.asked) + 1, GROUP - 1)
        """Words of a group; as many as are read behind the last row are there."""
        self.words = len(self.asked) + self.of_one

    def may(self) -> bool:
        """Whether what is asked lasts as long as no event is of concern."""
        return (
            of_row(self.inside)
            and not self.lasting() & (self.writes.keys() | self.own)
            and not self.own & reads_of_names(self.late).keys()
        )

    # ---- what is of concern ---------------------------------------------------------------

    def note(self, stmt: Let) -> None:
        assert stmt.value is not None
        self.given[stmt.name] = self.known(stmt.value)

    def known(self, expr: Expr) -> Expr:
        """An expression over the words of its row, and words that last."""
        if isinstance(expr, Var) and expr.name in self.given:
            return self.given[expr.name]
        return expr if is_word(expr) else rebuild_expr(expr, self.known)

    def lasts(self, expr: Expr) -> bool:
        """Whether a value is made of words of the lane alone."""
        if isinstance(expr, Var):
            return expr.name not in (BASE, ROW)
        return isinstance(expr, Const | Unary | Binary | Select) and all(
            map(self.lasts, operands(expr))
        )

    def look(self, body: Block, when: Expr) -> None:
        """Notes what of a block, that is come by `when` a row says so, is of concern."""
        for stmt in body:
            match stmt:
                case Let() if self.follows(stmt):
                    self.note(stmt)
                case If():
                    cond = self.known(stmt.cond)
                    if of_row(cond):
                        self.look(stmt.then, _both(when, cond))
                        self.look(stmt.otherwise, _both(when, Unary("not", cond)))
                        continue
                    for part in alternatives(cond):
                        self.concern(when, part, stmt)
                    if stmt.otherwise:
                        self.concern(when, boolean(True), stmt)
                case Assign(Var(name)) if name in self.own:
                    continue  # nothing of it is left behind the turn that declares it
                case Assign(Var(name), value) if of_row(self.known(value)):
                    self.writes.setdefault(name, []).append(when)
                    kept = Select(when, self.known(value), Var(name))
                    self.left.append(Assign(Var(name), kept, stmt.line))
                case _:
                    self.concern(when, boolean(True), stmt)

    def follows(self, stmt: Let) -> bool:
        return (
            stmt.value is not None
            and stmt.name not in self.changing
            and not any(isinstance(node, Call) for node in nodes((stmt,)))
        )

    def concern(self, when: Expr, cond: Expr, done: Stmt) -> None:
        """An event is of concern where a row says so, `when`, and this holds."""
        left: list[Expr] = []
        for part in requirements(cond):
            if of_row(part):
                when = _both(when, part)
            else:
                left.append(part)
        found = list(self.question(left[0], when)) if len(left) == 1 else []
        for ask, value in found or [(ALWAYS, Select(when, i64(1), i64(0)))]:
            self.asked.setdefault(ask, []).append(value)
            self.done.setdefault(ask, []).append(done)

    def weighs(self, ask: Asked) -> bool:
        """Whether what is done reads what events of no concern write, or changes what is asked."""
        done = tuple(self.done.get(ask, ()))
        changed = assigned_names(done) & self.lasting()
        return bool(changed or reads_of_names(done).keys() & self.writes.keys())

    def lasting(self) -> frozenset[str]:
        """The words that events are asked beside."""
        return frozenset(reads_of_names(tuple(Return(ask.word) for ask in self.asked)))

    def question(self, cond: Expr, when: Expr) -> Iterator[tuple[Asked, Expr]]:
        """A condition as what is asked, and of what; none where it is of another form."""
        match cond:
            case Binary(op, x, y) if op in GREATEST and self.lasts(x) and of_row(y):
                yield from self.question(Binary(TURNED[op], y, x), when)
            case Binary(op, x, y) if op in GREATEST and of_row(x) and self.lasts(y):
                way = GREATEST[op]
                yield Asked(way, op, y), Select(when, x, i64(NONE_OF[way]))
            case Binary("ine", Binary("iand", Binary("lshr", bits, at), Const(_, 1)), Const(_, 0)):
                yield from self.bit(bits, at, when)

    def bit(self, bits: Expr, at: Expr, when: Expr) -> Iterator[tuple[Asked, Expr]]:
        """Whether a bit is on that a row names, of a word that it may choose."""
        if isinstance(bits, Select) and of_row(bits.cond):
            yield from self.bit(bits.x, at, _both(when, bits.cond))
            yield from self.bit(bits.y, at, _both(when, Unary("not", bits.cond)))
        elif self.lasts(bits) and of_row(at):
            yield Asked("ior", "ine", bits), Select(when, Binary("shl", i64(1), at), i64(0))

    # ---- what a lane does -----------------------------------------------------------------

    def loop(self) -> Block:
        """In place of the loop over rows: one over messages, in it one over their groups.

        So that lanes of a warp come together once behind a group, and once behind a message. What
        is asked may have changed behind an event that weighs: the rest of its group is asked again,
        in a loop of its own, so that the lanes of a warp stay at the same group.
        """
        rows = Var(self.count)
        asked = [ask.holds(self.of_group(k)) for k, ask in enumerate(self.asked)]
        concerns = [f"concern.{k}@" for k in range(len(asked))]
        turns: Block = (
            Assign(Var(AGAIN), boolean(False)),
            *(Let(name, BOOL_T, held) for name, held in zip(concerns, asked, strict=True)),
            *self.marked(concerns),
            *self.events(),
            If(Var(AGAIN), (Assign(Var(FIRST), Var(FRESH)),)),
        )
        group: Block = (
            Assign(Var(SPAN), self.of_group(len(asked))),
            Assign(Var(LAST), Binary("ashr", Var(SPAN), i64(SPAN_BITS))),
            Let(AGAIN, BOOL_T, either(asked)),
            While(Var(AGAIN), i64(GROUP), turns),
            Assign(Var(GROUP_AT), _sum(Var(GROUP_AT), i64(self.of_one))),
            Assign(Var(FIRST), _sum(Var(LAST), i64(1))),
        )
        message: Block = (
            Let(LAST, I64_T, i64(0)),
            Let(SPAN, I64_T, i64(MORE)),
            While(_both_have(Var(SPAN), i64(MORE)), rows, group),
            If(_both_have(Var(SPAN), i64(CUT)), (Break(),)),
            Let(ROW, I64_T, Var(LAST)),
            *self.loads,
            If(Binary("ile", Var(FRESH), Var(LAST)), tuple(self.left)),
            Assign(Var(FRESH), Var(FIRST)),
            *self.late,
        )
        whole = While(Binary("ilt", Var(FIRST), rows), rows, message, self.whole.line)
        groups = _sum(self.behind(), self.group_word(i64(0), 0))
        zeros = (Let(name, I64_T, i64(0)) for name in (FIRST, FRESH))
        return (Let(GROUP_AT, I64_T, groups), *zeros, whole)

    def marked(self, concerns: list[str]) -> Iterator[Stmt]:
        """Finds a bit for each event of a group that has its turn, and for those that weigh.

        All are asked at once, those behind the group too: so no load waits for another.
        """
        yield from (Let(name, I64_T, i64(0)) for name in (LOOKED, WEIGHS))
        for k, (name, ask) in enumerate(zip(concerns, self.asked, strict=True)):
            kind = Var(WEIGHS if self.weighs(ask) else LOOKED)
            bits: list[Expr] = [
                Select(ask.holds(self.of_row(_sum(Var(FIRST), i64(j)), k)), i64(1 << j), i64(0))
                for j in range(GROUP)
            ]
            yield If(Var(name), (Assign(kind, Binary("ior", kind, _folded("ior", bits))),))
        behind = Binary("shl", i64(-2), Binary("isub", Var(LAST), Var(FIRST)))
        yield Assign(Var(WEIGHS), _without(Var(WEIGHS), behind))
        looked = _without(Var(LOOKED), behind)
        yield Assign(Var(LOOKED), Binary("ior", looked, Var(WEIGHS)))

    def events(self) -> Block:
        """The turns of a group's events that are of concern.

        Each lane goes from one of its own bits to the next: lanes of a warp, each at its own event,
        make their turns together.
        """
        turn, low, at = (*self.loads, *self.early), Var(LOW), Var(AT)
        names = {name: f"{name}.inside" for name in (*declared_names(turn), ROW)}
        before = Binary("imax", Var(FRESH), Binary("isub", at, i64(1)))
        again = (Assign(Var(AGAIN), boolean(True)), Break())
        looked: Block = (
            Let(LOW, I64_T, Binary("iand", Var(LOOKED), Unary("ineg", Var(LOOKED)))),
            Assign(Var(LOOKED), Binary("ixor", Var(LOOKED), low)),
            Let(AT, I64_T, _sum(Var(FIRST), _number(low))),
            Let(HEAVY, BOOL_T, _both_have(Var(WEIGHS), low)),
            For(
                names[ROW],
                Select(Var(HEAVY), before, at),
                _sum(at, i64(1)),
                renamed(turn, names),
                self.whole.line,
            ),
            Assign(Var(FRESH), _sum(at, i64(1))),
            If(Binary("and", Var(HEAVY), Binary("ilt", at, Var(LAST))), again),
        )
        return (While(Binary("ine", Var(LOOKED), i64(0)), i64(GROUP), looked, self.whole.line),)

    def of_row(self, row: Expr, word: int) -> Expr:
        """What is asked of an event."""
        return Elem(Var(ROWS), _sum(self.behind(), self.row_word(row, word)))

    def of_group(self, word: int) -> Expr:
        """The same of a group; the last word tells its last row, and whether more follow."""
        return Elem(Var(ROWS), _sum(Var(GROUP_AT), i64(word)))

    def behind(self) -> Expr:
        """Where what stands behind all rows begins."""
        return Binary("imul", _sum(Var(self.count), i64(1)), i64(self.width))

    def row_word(self, row: Expr, word: int) -> Expr:
        return _sum(Binary("imul", Var(self.count), i64(word)), row)

    def group_word(self, number: Expr, word: int) -> Expr:
        groups = Binary("imul", Var(self.count), i64(len(self.asked)))
        own = _sum(Binary("imul", number, i64(self.of_one)), i64(word))
        return _sum(groups, own)

    # ---- what is gathered -----------------------------------------------------------------

    def gather(self) -> Func:
        """Writes what is asked of each row, and of each group, as `of_row` and `of_group` find it.

        A message whose rows do not write again what those before wrote is looked at row by row,
        and one that goes on beyond the last row ends with it.
        """
        rows, row, ops = Var(self.count), Var(ROW), [ask.op for ask in self.asked]
        values = [_folded(ask.op, exprs) for ask, exprs in self.asked.items()]
        group = [f"group.{k}@" for k in range(len(ops))]
        own = [f"own.{k}@" for k in range(len(ops))]
        mask = _folded("ior", [_mask(when, bit) for bit, when in enumerate(self.writes.values())])
        cut = Binary("ieq", row, Binary("isub", rows, i64(1)))
        full = Binary("ieq", Binary("isub", row, Var(FIRST)), i64(GROUP - 1))
        ends = Unary("not", self.inside)
        more = Select(self.inside, Select(cut, i64(CUT), i64(MORE)), i64(0))
        begin = tuple(
            Assign(Var(name), i64(NONE_OF[op])) for name, op in zip(group, ops, strict=True)
        )
        grouped: Block = (
            *(_put(self.group_word(Var(NUMBER), k), Var(name)) for k, name in enumerate(group)),
            _put(
                self.group_word(Var(NUMBER), len(ops)),
                Binary("ior", Binary("shl", row, i64(SPAN_BITS)), more),
            ),
            Assign(Var(NUMBER), _sum(Var(NUMBER), i64(1))),
            Assign(Var(FIRST), _sum(row, i64(1))),
            *begin,
        )
        turn: Block = (
            Let(BASE, I64_T, Binary("imul", row, i64(self.width))),
            *(Let(name, I64_T, value) for name, value in zip(own, values, strict=True)),
            *(_put(self.row_word(row, k), Var(name)) for k, name in enumerate(own)),
            *(
                Assign(Var(name), Binary(op, Var(name), Var(one)))
                for name, op, one in zip(group, ops, own, strict=True)
            ),
            Let("mask@", I64_T, mask),
            Assign(Var(BROKEN), Binary("ior", Var(BROKEN), _without(Var(WRITTEN), Var("mask@")))),
            Assign(Var(WRITTEN), Binary("ior", Var(WRITTEN), Var("mask@"))),
            If(Binary("and", self.inside, cut), (Assign(Var(BROKEN), i64(1)),)),
            If(either((ends, full, cut)), grouped),
            If(Binary("or", ends, cut), self.message(row)),
        )
        zeros = (NUMBER, FIRST, WRITTEN, BROKEN, BEGAN, GROUPS)
        body: Block = (
            *(Let(name, I64_T, i64(NONE_OF[op])) for name, op in zip(group, ops, strict=True)),
            *(Let(name, I64_T, i64(0)) for name in zeros),
            For(ROW, i64(0), rows, turn),
        )
        words = BufferType(I64_T)
        params = (
            ParamDecl(ROWS, words),
            ParamDecl(self.count, I64_T),
            ParamDecl(OUT, words, inout=True),
        )
        return Func(MESSAGES, params, None, body)

    def message(self, row: Expr) -> Block:
        """What is done behind a message: one that is broken has to be looked at row by row."""
        always = list(self.asked).index(ALWAYS)
        each_row = _put(self.row_word(Var("each@"), always), i64(1))
        each_group = _put(self.group_word(Var("one@"), always), i64(1))
        looked_at: Block = (
            For("each@", Var(BEGAN), _sum(row, i64(1)), (each_row,)),
            For("one@", Var(GROUPS), Var(NUMBER), (each_group,)),
        )
        return (
            If(Binary("ine", Var(BROKEN), i64(0)), looked_at),
            Assign(Var(BEGAN), _sum(row, i64(1))),
            Assign(Var(GROUPS), Var(NUMBER)),
            Assign(Var(WRITTEN), i64(0)),
            Assign(Var(BROKEN), i64(0)),
        )


def _loads(stmt: Let) -> bool:
    """Whether a statement loads a word of a row, or says where the row begins."""
    return stmt.name == BASE or (stmt.value is not None and is_word(stmt.value))


def _put(at: Expr, value: Expr) -> Stmt:
    return Assign(Elem(Var(OUT), at), value)


def _both(x: Expr, y: Expr) -> Expr:
    return y if x == boolean(True) else Binary("and", x, y)


def _sum(x: Expr, y: Expr) -> Expr:
    return Binary("iadd", x, y)


def _both_have(x: Expr, bit: Expr) -> Expr:
    return Binary("ine", Binary("iand", x, bit), i64(0))


def _number(bit: Expr) -> Expr:
    """Which bit of a word is on: the exponent of its value."""
    exponent = Binary("lshr", Unary("bits", Unary("i64_to_f64", bit)), i64(MANTISSA_BITS))
    return Binary("isub", exponent, i64(EXPONENT_BIAS))


def _without(x: Expr, y: Expr) -> Expr:
    """The bits of one word that another has not."""
    return Binary("iand", x, Binary("ixor", y, i64(-1)))


def _mask(when: list[Expr], bit: int) -> Expr:
    return Select(either(when), i64(1 << bit), i64(0))


def _folded(op: str, parts: list[Expr]) -> Expr:
    none: Expr = i64(NONE_OF[op])
    return functools.reduce(lambda x, y: Binary(op, x, y), parts, none)
