"""A tile of bars in a straight line is tried without a single branch, and kept if it was right.

What a line still asks are the assembler's questions: whether a division or a root may be computed
the short way (short.py), and ours, whether one by a reciprocal may (divide.py). Here they are all
answered at the end of the tile. Until then nothing is changed that stays: locals have doubles, and
stores wait. Where one of the answers is no, the tile's bars are made one by one, as if nothing had
been tried.

What lanes keep may be asked at the beginning how large it is; then nothing that is formed of it is
missing. Of the line with these questions and the one without, that which spares more is taken.
"""

from collections.abc import Iterable, Mapping, Set

import msgspec

from quantdsl.ir import ops
from quantdsl.ir.layout import Layout
from quantdsl.ir.walk import rebuild_body, rebuild_expr
from quantdsl.passes.divide import fits, is_fallback, is_moderate, units
from quantdsl.passes.fold import settled
from quantdsl.passes.magnitudes import UNIT, Magnitudes, exponent
from quantdsl.passes.places import Path, as_place, overlap, path_of, type_at
from quantdsl.passes.scopes import (
    assigned_names,
    declared_names,
    local_types,
    reads_of_names,
    renamed,
)
from quantdsl.passes.short import QUOTIENT, ROOT, SHORT, WORD
from quantdsl.passes.warm import is_line, only_stores

Block = tuple[ops.Stmt, ...]
DONE = "done"
"""The end of the name of what tells whether a line was right."""
ASKED = 300
"""The e of numbers that lanes keep, if they are asked: less than what sums leave out."""
QUESTION, WORDED = 1, 3
"""Instructions of a question, and those that a word costs more if it may be missing."""


def try_straight(module: ops.Module, entry: str) -> ops.Module:
    """The module whose entry tries its straight tiles, as split_warm and the divider left them."""
    layout = Layout(module.structs)

    def func(old: ops.Func) -> ops.Func:
        types, known = local_types(old), _known(module, old)

        def stmt(one: ops.Stmt) -> ops.Stmt:
            match one:
                case ops.For(body=(*before, ops.If() as tile)) | ops.While(
                    body=(*before, ops.If() as tile)
                ) if is_line(tile.then):
                    beside = rebuild_body(tile.otherwise, stmt)
                    tile = msgspec.structs.replace(tile, otherwise=beside)
                    passing = declared_names(tuple(before))
                    line = _Line(layout, types, known, tile.then)
                    made = line.tried(tile, passing)
                    asking = _Line(layout, types, known, tile.then, line.formed())
                    asked = asking.tried(tile, passing)
                    if asking.gain > line.gain:
                        made = asked
                    return msgspec.structs.replace(one, body=(*before, *made))
            return one

        return msgspec.structs.replace(old, body=rebuild_body(old.body, stmt))

    funcs = tuple(func(one) if one.name == entry else one for one in module.funcs)
    if funcs == module.funcs:
        return module
    return msgspec.structs.replace(module, funcs=(*SHORT, *funcs))


def _known(module: ops.Module, func: ops.Func) -> dict[str, int]:
    """The magnitudes of a function's units, of reciprocals and of constants over constants."""
    known = dict.fromkeys(units(module, func), UNIT)
    changed = assigned_names(func.body)
    for stmt in func.body:
        match stmt:
            case ops.Let(name, _, ops.Binary("fdiv", one, ops.Var(unit))) if one == ops.f64(1.0):
                if unit in known:
                    known[name] = 0
            case ops.Let(name, _, ops.Binary("fdiv", ops.Const() as a, ops.Const() as d)) if (
                name not in changed
            ):
                most, least = exponent(a), exponent(d)
                if most is not None and least is not None and d.value:
                    known[name] = most - least + 1
    return known


def _read_first(line: Block) -> list[str]:
    """The names that a line reads before it gives them a value, if it does."""
    written: frozenset[str] = frozenset()
    found: dict[str, None] = {}
    for stmt in line:
        found |= dict.fromkeys(sorted(reads_of_names((stmt,)).keys() - written))
        written |= declared_names((stmt,)) | assigned_names((stmt,))
    return list(found)


class _RefusedError(Exception):
    """A line that cannot wait with its stores."""


class _Line:
    """The bars of a tile in a straight line, on their way to being tried."""

    def __init__(
        self,
        layout: Layout,
        types: Mapping[str, ops.Type],
        known: Mapping[str, int],
        line: Block,
        asked: Iterable[str] = (),
    ) -> None:
        self.layout, self.types, self.line = layout, types, line
        self.sizes = Magnitudes(known)
        self.gain = 0
        """Instructions spared, less those of questions about sizes."""
        assert isinstance(line[0], ops.Let)  # as is_line says
        self.name = f"tried.{line[0].name.partition('.')[0]}"
        self.outer = assigned_names(line) - declared_names(line)
        """Locals of outside that bars change."""
        self.made: list[ops.Stmt] = []
        self.kept: list[ops.Stmt] = []
        """What is done in the end: stores."""
        self.count = 0
        self.settled: dict[str, ops.Const] = {}
        """Locals that are true or false whatever happens."""
        self.indices = _Indices()
        self.passed: dict[str, frozenset[str]] = {}
        """Of locals whose values as they were before the line they may have."""
        for name in asked:
            self.ask_size(name)

    def tried(self, tile: ops.If, passing: Set[str]) -> Block:
        """The tile with its line tried, unless that cannot be or would be no gain.

        Nobody reads the locals in `passing` behind it.
        """
        try:
            for stmt in self.line:
                self.stmt(stmt)
        except _RefusedError:
            return (tile,)
        if not self.count:
            return (tile,)
        names = {name: f"{self.name}.{name}" for name in sorted(self.outer)}
        doubles = [ops.Let(new, self.types[old], ops.Var(old)) for old, new in names.items()]
        commits = [
            ops.Assign(ops.Var(old), ops.Var(new))
            for old, new in names.items()
            if old not in passing
        ]
        done = ops.Var(f"{self.name}.{DONE}")
        kept = ops.If(self.sure, (*commits, *self.kept, ops.Assign(done, ops.boolean(True))))
        return (
            ops.Let(done.name, ops.BOOL_T, ops.boolean(False)),
            ops.If(tile.cond, (*doubles, *renamed(tuple(self.made), names), kept)),
            ops.If(ops.Unary("not", done), tile.otherwise),
        )

    @property
    def sure(self) -> ops.Var:
        """Whether all is right so far."""
        return ops.Var(f"{self.name}.sure.{self.count}")

    def let(self, what: str, type_: ops.ScalarType, value: ops.Expr) -> ops.Var:
        """A local of the line."""
        name = f"{self.name}.{what}.{len(self.made)}"
        self.made.append(ops.Let(name, type_, value))
        return ops.Var(name)

    def ask(self, cond: ops.Expr) -> None:
        """One more thing that must hold."""
        if cond == ops.boolean(True):
            return
        value = ops.Binary("and", self.sure, cond) if self.count else cond
        self.count += 1
        self.made.append(ops.Let(self.sure.name, ops.BOOL_T, value))

    def formed(self) -> list[str]:
        """The numbers of outside that bars read and then form anew; one that stays as it is may be
        missing for good."""
        return [
            name
            for name in _read_first(self.line)
            if name in self.outer
            and self.types[name] == ops.F64_T
            and name not in self.passed.get(name, ())
        ]

    def before(self, value: ops.Expr) -> frozenset[str]:
        """The locals whose values as they were before the line this may be."""
        match value:
            case ops.Var(name):
                return self.passed.get(name, frozenset({name}))
            case ops.Select(_, x, y):
                return self.before(x) | self.before(y)
        return frozenset()

    def ask_size(self, name: str) -> None:
        """Ask how large a local is."""
        self.ask(ops.Binary("fle", ops.Unary("fabs", ops.Var(name)), ops.f64(2.0**ASKED)))
        self.sizes.assign(name, ASKED)
        self.gain -= QUESTION

    def number(self, what: str, value: ops.Expr) -> ops.Var:
        """One that a quotient or a root is formed of; it must fit."""
        number = self.let(what, ops.F64_T, value)
        self.sizes.assign(number.name, self.sizes.most(value))
        some = ops.Binary("fne", number, ops.f64(0.0))
        self.ask(some if is_moderate(value) else self.expr(fits(number)))
        return number

    def stmt(self, stmt: ops.Stmt) -> None:
        match stmt:
            case ops.Let(value=None):
                self.made.append(stmt)
            case ops.Let(name) | ops.Assign(ops.Var(name)):
                assert stmt.value is not None
                value = self.expr(stmt.value)
                self.made.append(msgspec.structs.replace(stmt, value=value))
                self.indices.let(name, value)
                self.passed[name] = self.before(value)
                self.sizes.assign(name, self.sizes.most(value))
                self.settled.pop(name, None)
                if isinstance(value, ops.Const) and value.type == ops.BOOL_T:
                    self.settled[name] = value
            case ops.Assign():
                self.kept.append(self.store(stmt))
            case ops.If(ops.Unary("not", cond)) if is_fallback(stmt):
                self.ask(self.expr(cond))
            case ops.If(cond, stores) if only_stores(stmt):
                which = self.let("told", ops.BOOL_T, self.expr(cond))
                made = tuple(self.store(one) for one in stores if isinstance(one, ops.Assign))
                self.kept.append(ops.If(which, made))
            case _:
                raise _RefusedError

    def store(self, stmt: ops.Assign) -> ops.Assign:
        """A store that may wait."""
        match stmt.place:
            case ops.Elem(base, index):
                path = path_of(base)
                if path is None or None in path:
                    raise _RefusedError
                type_ = type_at(self.layout, self.types[str(path[0])], (*path[1:], None))
                if not isinstance(type_, str):  # a whole struct
                    raise _RefusedError
                where = self.let("index", ops.I64_T, self.expr(index))
                value = self.let("word", type_, self.expr(stmt.value))
                self.indices.store(path, index)
                return ops.Assign(ops.Elem(as_place(base), where), value)
        raise _RefusedError

    def expr(self, expr: ops.Expr) -> ops.Expr:
        """The expression with short forms in it."""
        match expr:
            case ops.Elem():
                self.indices.load(expr)
            case ops.Unary("f32"):  # one instruction rounds as it divides
                raise _RefusedError
            case ops.Call():  # it may change what it is given, or read what waits
                raise _RefusedError
        made = rebuild_expr(expr, self.expr)
        answer = self.sizes.answer(made)
        if answer is not None:
            self.gain += QUESTION
            return ops.boolean(answer)
        match made:
            case ops.Var(name) if name in self.settled:
                return self.settled[name]
            case ops.Binary("fdiv", dividend, divisor):
                x, y = self.number("of", dividend), self.number("by", divisor)
                quotient = self.let("quotient", ops.F64_T, ops.Call(QUOTIENT, (x, y)))
                self.sizes.assign(quotient.name, self.sizes.quotient(dividend, divisor))
                return quotient
            case ops.Unary("bits", x) if self.sizes.most(x) is not None:
                self.gain += WORDED
                return ops.Call(WORD, (x,))
            case ops.Unary("sqrt", radicand):
                x = self.number("of", radicand)
                return self.let("root", ops.F64_T, ops.Call(ROOT, (x,)))
        return settled(made)


Offset = tuple[object, int]
"""A number that nothing more is known of, and what is added to it."""


class _Indices:
    """Which places in arrays are told apart, though nobody knows where they are."""

    def __init__(self) -> None:
        self.known: dict[str, Offset] = {}
        self.stores: list[tuple[Path, tuple[Offset, int]]] = []

    def let(self, name: str, value: ops.Expr) -> None:
        """A local has a value."""
        self.known[name] = self.offset(value)

    def offset(self, expr: ops.Expr) -> Offset:
        match expr:
            case ops.Const(bits=bits):
                return None, bits
            case ops.Var(name):
                return self.known.setdefault(name, (object(), 0))
            case ops.Binary("iadd", x, ops.Const(bits=more)):
                root, offset = self.offset(x)
                return root, offset + more
            case ops.Binary("isub", x, ops.Const(bits=less)):
                root, offset = self.offset(x)
                return root, offset - less
        return object(), 0

    def place(self, index: ops.Expr) -> tuple[Offset, int]:
        """Where an index points, and after how many places that repeats; 0: never."""
        match index:
            case ops.Binary("iand", at, ops.Const(bits=mask)) if mask & (mask + 1) == 0:
                return self.offset(at), mask + 1
        return self.offset(index), 0

    def store(self, array: Path, index: ops.Expr) -> None:
        """A store waits."""
        self.stores.append((array, self.place(index)))

    def load(self, word: ops.Elem) -> None:
        """Raise _RefusedError where a word may be one that a store that waits is about."""
        array = path_of(word.base)
        (root, offset), size = self.place(word.index)
        for other, ((other_root, stored), places) in self.stores:
            if array is None or not overlap(array, other):
                continue
            apart = offset - stored
            same = array == other and root is other_root and size == places
            if not same or not (apart % size if size else apart):
                raise _RefusedError
