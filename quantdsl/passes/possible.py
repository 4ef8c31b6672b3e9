"""Which values a program can ever hold where: found for all its functions at once, from nothing up.

A cell stands for a field of a struct in all places where such a struct lies, for a local, a
parameter or a function's result; it holds the few values that ever get there, or any. Code counts
once something reaches it, and a branch once its condition can go that way, so that values which
only unreached code makes are in no cell. A struct is one set of cells wherever it lies, hence
neither aliases nor copies of structs need a rule.

Memory begins as zeros but for what the host writes (Module.given), which it may have settled.
"""

from collections import deque
from collections.abc import Callable, Iterator, Set
from typing import NamedTuple

from quantdsl.ir.layout import Layout, of_scalars
from quantdsl.ir.ops import (
    BINARY,
    BOOL_T,
    I64_T,
    ArrayType,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Const,
    Continue,
    Do,
    Elem,
    Expr,
    Field,
    Fma,
    For,
    Func,
    Given,
    If,
    Let,
    Module,
    Return,
    Select,
    SizeOf,
    Stmt,
    StructOf,
    StructType,
    Table,
    Type,
    Unary,
    Var,
    While,
)
from quantdsl.ir.walk import operands
from quantdsl.passes.constants import fold_binary, fold_unary
from quantdsl.passes.places import field_at, leaves, spelled_path, type_at

Values = frozenset[int] | None
"""Bits of the values that may be there; None is any."""
Block = tuple[Stmt, ...]

VALUES_MAX = 12
"""A cell of more values than this may hold any."""
NEVER: Values = frozenset()
ZERO: Values = frozenset({0})
EITHER = frozenset({0, 1})
ANYTHING = 0
"""The cell that holds any value."""
_EQUAL = {"ieq": 0, "ine": 1}


class Rest:
    """What follows in the blocks around a statement, once something gets there."""

    __slots__ = ("after", "at", "block", "reached")

    def __init__(self, block: Block, at: int, after: "Rest | None") -> None:
        self.block, self.at, self.after = block, at, after
        self.reached = False


class Branch:
    """An If, or the head of a While: which ways it can go so far."""

    __slots__ = ("cond", "frame", "otherwise", "read", "rest", "taken", "then")

    def __init__(
        self, frame: "Frame", cond: Expr, then: Block, otherwise: Block, rest: Rest | None
    ) -> None:
        self.frame, self.cond, self.then, self.otherwise = frame, cond, then, otherwise
        self.rest = rest
        self.read: set[int] = set()
        """The cells that call for another look when they hold more."""
        self.taken: set[int] = set()
        """1: the first way, 0: the other."""


class Choice:
    """A Select: which of its sides are ever chosen; the other is not looked into."""

    __slots__ = ("expr", "frame", "read", "taken")

    def __init__(self, frame: "Frame", expr: Select) -> None:
        self.frame, self.expr = frame, expr
        self.read: set[int] = set()
        self.taken: set[int] = set()


class Frame:
    """One function: the cells of its names, and what is known of its nodes, by identity."""

    __slots__ = ("branches", "called", "cells", "func", "names", "reached", "result")

    def __init__(self, func: Func, result: int) -> None:
        self.func, self.result = func, result
        self.names: dict[str, tuple[int, Type]] = {}
        self.cells: dict[int, int] = {}
        """Of every scalar place that is read."""
        self.called: set[int] = set()
        """The calls and choices that were taken in."""
        self.branches: dict[int, list[Branch]] = {}
        """Of each If and While."""
        self.reached = False


class Flow:
    """What an expression can be goes into a cell."""

    __slots__ = ("cell", "expr", "frame", "read")

    def __init__(self, frame: Frame, expr: Expr, cell: int) -> None:
        self.frame, self.expr, self.cell = frame, expr, cell
        self.read: set[int] = set()


class Copy(NamedTuple):
    """What a cell holds goes into another."""

    source: int
    cell: int


Task = Flow | Copy | Branch | Choice
Item = tuple[Block, int, Frame, Rest | None]


class Possible:
    """The cells of a module; `values` of a place or expression once it is made."""

    def __init__(self, module: Module) -> None:
        self.funcs = {func.name: func for func in module.funcs}
        self.frames: dict[str, Frame] = {}
        self.cells: list[Values] = [None]
        self.types: list[Type] = [I64_T]
        self.waiting: list[list[Task]] = [[]]
        """Per cell, what must be looked at again when it holds more."""
        self.read: list[int] = []
        """Cells that the expression at hand was made of."""
        self.queue: deque[Task] = deque()
        self.todo: list[Item] = []
        self.fields: dict[str, dict[str, tuple[int, Type]]] = {}
        for struct in module.structs:
            self.fields[struct.name] = {
                name: (self.cell(type_) if of_scalars(type_) else ANYTHING, type_)
                for name, type_ in ((field.name, field.type) for field in struct.fields)
            }
        self.blank: set[int] = set()
        """Cells that are written before they are read, if the program writes them at all."""
        self.begun: set[str] = set()
        """Structs whose words hold what they begin with."""
        for name in module.entries:
            self.enter_from_host(module, self.frame(name))
        self.settle()
        while unwritten := [cell for cell in self.blank if self.cells[cell] == NEVER]:
            for cell in unwritten:
                self.add(cell, ZERO)
            self.settle()

    # ---- cells --------------------------------------------------------------------------

    def cell(self, type_: Type, values: Values = NEVER) -> int:
        """A new cell for words of this type, or for an array of them."""
        self.types.append(type_.elem if isinstance(type_, ArrayType) else type_)
        self.cells.append(values)
        self.waiting.append([])
        return len(self.cells) - 1

    def add(self, cell: int, values: Values) -> None:
        """A cell may hold these values too."""
        old = self.cells[cell]
        if old is None:
            return
        new = None if values is None else old | values
        if new == old:
            return
        if new is not None and len(new) > VALUES_MAX:
            new = None
        self.cells[cell] = new
        self.queue.extend(self.waiting[cell])
        if new is None:
            self.waiting[cell] = []

    def const(self, cell: int) -> Const | None:
        """The only value that a cell can hold, if there is just one."""
        values, type_ = self.cells[cell], self.types[cell]
        if values is None or len(values) != 1 or not isinstance(type_, str):
            return None
        return Const(type_, min(values))

    def leaves(self, type_: Type, but: Set[tuple[str, str]] = frozenset()) -> Iterator[int]:
        """Every cell of the structs inside a type, but for some fields and what is in those."""
        inner = [type_]
        seen: set[str] = set()
        while inner:
            type_ = inner.pop()
            if isinstance(type_, ArrayType | BufferType):
                inner.append(type_.elem)
            elif isinstance(type_, StructType) and type_.name not in seen:
                seen.add(type_.name)
                for name, (cell, field) in self.fields[type_.name].items():
                    if (type_.name, name) in but:
                        continue
                    if cell != ANYTHING:
                        yield cell
                    inner.append(field)

    def enter_from_host(self, module: Module, frame: Frame) -> None:
        """An entry may be called with anything; its memory holds zeros but for what is given."""
        layout, given = Layout(module.structs), module.given
        if given is not None and not set(given.entries) <= set(module.entries):
            given = None
        for param in frame.func.params:
            cell = frame.names[param.name][0]
            unknown = given is None or isinstance(param.type, BufferType)
            if isinstance(param.type, str):
                self.add(cell, None)
                continue
            if cell != ANYTHING:
                self.add(cell, None if unknown else ZERO)
            if given is None or not isinstance(param.type, StructType):
                for leaf in self.leaves(param.type):
                    self.add(leaf, None if unknown else ZERO)
            elif param.type.name not in self.begun:  # entries are called with one memory
                self.begun.add(param.type.name)
                self.begin(layout, param.type, given)
        self.enter(frame)

    def begin(self, layout: Layout, type_: StructType, given: Given) -> None:
        """What the host gives is there before the first call, zeros everywhere else."""
        paths = [spelled_path(layout, type_, path) for path in given.paths]
        outside = {field_at(layout, type_, path) for path in paths}
        tables = [spelled_path(layout, type_, path) for path in given.blank]
        for path in tables:
            self.blank.update(self.leaves(type_at(layout, type_, path)))
        outside |= {field_at(layout, type_, path) for path in tables}
        for cell in self.leaves(type_, outside):
            self.add(cell, ZERO)
        values = {spelled_path(layout, type_, path): bits for path, bits in given.values}
        for path in paths:
            for leaf, _ in leaves(layout, type_at(layout, type_, path), path):
                struct, name = field_at(layout, type_, leaf)
                bits = values.get(leaf)
                known = None if bits is None else frozenset((bits,))
                self.add(self.fields[struct][name][0], known)

    def frame(self, name: str) -> Frame:
        """The cells of a function, made when something names it."""
        frame = self.frames.get(name)
        if frame is None:
            func = self.funcs[name]
            frame = self.frames[name] = Frame(func, self.cell(func.result or I64_T))
            for param in func.params:
                own = not isinstance(param.type, BufferType) and of_scalars(param.type)
                frame.names[param.name] = (self.cell(param.type) if own else ANYTHING, param.type)
        return frame

    # ---- what is reached ----------------------------------------------------------------

    def settle(self) -> None:
        """Go on until nothing changes."""
        while self.todo or self.queue:
            while self.todo:
                self.walk(*self.todo.pop())
            if self.queue:
                task = self.queue.popleft()
                if isinstance(task, Branch):
                    self.decide(task)
                elif isinstance(task, Choice):
                    self.choose(task)
                elif isinstance(task, Copy):
                    self.add(task.cell, self.cells[task.source])
                elif self.cells[task.cell] is not None:
                    self.move(task)

    def enter(self, frame: Frame) -> None:
        if not frame.reached:
            frame.reached = True
            self.todo.append((frame.func.body, 0, frame, None))

    def go_on(self, frame: Frame, rest: Rest | None) -> None:
        if rest is not None and not rest.reached:
            rest.reached = True
            self.todo.append((rest.block, rest.at, frame, rest.after))

    def walk(self, block: Block, at: int, frame: Frame, after: Rest | None) -> None:
        """Take in the statements of a block from one on, as far as they are reached."""
        for number in range(at, len(block)):
            stmt = block[number]
            if isinstance(stmt, If):
                rest = Rest(block, number + 1, after)
                self.branch(stmt, Branch(frame, stmt.cond, stmt.then, stmt.otherwise, rest))
                return
            if isinstance(stmt, Break | Continue):  # what follows a loop is reached in any case
                return
            _STATEMENTS[type(stmt)](self, stmt, frame)
            if isinstance(stmt, Return):
                return
        self.go_on(frame, after)

    def branch(self, stmt: If | While, branch: Branch) -> None:
        branch.frame.branches.setdefault(id(stmt), []).append(branch)
        self.decide(branch)

    def decide(self, branch: Branch) -> None:
        values = self.watched(branch, branch.cond)
        for way in EITHER if values is None else values:
            if way not in branch.taken:
                branch.taken.add(way)
                block = branch.then if way else branch.otherwise
                self.todo.append((block, 0, branch.frame, branch.rest))

    def move(self, flow: Flow) -> None:
        self.add(flow.cell, self.watched(flow, flow.expr))

    def watched(self, task: Branch | Choice | Flow, expr: Expr) -> Values:
        """The values of an expression; the task is done again when one of its cells grows."""
        outer, self.read = self.read, []
        values = self.of(expr, task.frame)
        if values is not None:
            for cell in self.read:
                if cell not in task.read:
                    task.read.add(cell)
                    self.waiting[cell].append(task)
        self.read = outer
        return values

    # ---- statements ---------------------------------------------------------------------

    def let(self, stmt: Let, frame: Frame) -> None:
        if not of_scalars(stmt.type):
            frame.names[stmt.name] = (ANYTHING, stmt.type)
            if stmt.value is None:
                for leaf in self.leaves(stmt.type):
                    self.add(leaf, ZERO)
            else:
                self.struct(stmt.value, frame)
            return
        if stmt.name not in frame.names:
            frame.names[stmt.name] = (self.cell(stmt.type), stmt.type)
        cell = frame.names[stmt.name][0]
        if stmt.value is None:
            self.add(cell, ZERO)
        else:
            self.flow(stmt.value, cell, frame)

    def assign(self, stmt: Assign, frame: Frame) -> None:
        cell, type_ = self.place(stmt.place, frame)
        if isinstance(type_, str):
            self.flow(stmt.value, cell, frame)
        else:
            self.struct(stmt.value, frame)

    def do(self, stmt: Do, frame: Frame) -> None:
        self.call(stmt.call, frame)

    def loop(self, stmt: For, frame: Frame) -> None:
        lo, hi = self.of(stmt.lo, frame), self.of(stmt.hi, frame)
        values: Values = None
        if isinstance(stmt.lo, Const) and isinstance(stmt.hi, Const):
            if stmt.hi.bits <= stmt.lo.bits:
                return
            if stmt.hi.bits - stmt.lo.bits <= VALUES_MAX:
                values = frozenset(range(stmt.lo.bits, stmt.hi.bits))
        del lo, hi
        frame.names[stmt.name] = (self.cell(I64_T, values), I64_T)
        self.todo.append((stmt.body, 0, frame, None))

    def while_loop(self, stmt: While, frame: Frame) -> None:
        self.of(stmt.max, frame)
        self.branch(stmt, Branch(frame, stmt.cond, stmt.body, (), None))

    def ret(self, stmt: Return, frame: Frame) -> None:
        if stmt.value is None:
            return
        if isinstance(frame.func.result, str):
            self.flow(stmt.value, frame.result, frame)
        else:
            self.struct(stmt.value, frame)

    def flow(self, expr: Expr, cell: int, frame: Frame) -> None:
        """The values of an expression, now and later, go into a cell."""
        if type(expr) is Const:
            self.add(cell, frozenset((expr.bits,)))
        else:
            self.move(Flow(frame, expr, cell))

    def struct(self, expr: Expr, frame: Frame) -> None:
        """A struct value: its fields are cells already, but those that it makes."""
        if isinstance(expr, Call):
            self.call(expr, frame)
        elif isinstance(expr, StructOf):
            cells = self.fields[expr.type.name].values()
            for value, (cell, _) in zip(expr.values, cells, strict=True):
                self.flow(value, cell, frame)
        else:
            self.place(expr, frame)

    def call(self, expr: Call, frame: Frame) -> int:
        """Take a call in; the cell of its result."""
        callee = self.frame(expr.func)
        if id(expr) not in frame.called:
            frame.called.add(id(expr))
            for param, arg in zip(callee.func.params, expr.args, strict=True):
                cell = callee.names[param.name][0]
                if isinstance(param.type, str):
                    self.flow(arg, cell, frame)
                else:
                    self.share(self.place(arg, frame)[0], cell)
            self.enter(callee)
        return callee.result

    def share(self, cell: int, other: int) -> None:
        """An array under two names."""
        for source, to in ((cell, other), (other, cell)):
            if to != ANYTHING and other != ANYTHING:
                self.waiting[source].append(Copy(source, to))
                self.add(to, self.cells[source])

    # ---- expressions --------------------------------------------------------------------

    def place(self, expr: Expr, frame: Frame) -> tuple[int, Type]:
        """The cell and type of a place."""
        if type(expr) is Var:
            return frame.names[expr.name]
        if type(expr) is Field:
            struct = self.place(expr.base, frame)[1]
            assert isinstance(struct, StructType)
            return self.fields[struct.name][expr.name]
        assert isinstance(expr, Elem)
        if type(expr.index) is not Const:
            self.of(expr.index, frame)
        if type(expr.base) is Table:
            return ANYTHING, I64_T
        cell, type_ = self.place(expr.base, frame)
        assert isinstance(type_, ArrayType | BufferType)
        return cell, type_.elem

    def of(self, expr: Expr, frame: Frame) -> Values:
        """The values of a scalar as far as they are known now."""
        return _VALUES[type(expr)](self, expr, frame)

    def literal(self, expr: Const, _: Frame) -> Values:
        return frozenset((expr.bits,))

    def held(self, expr: Var | Field | Elem | Call, frame: Frame) -> Values:
        """What a cell holds; the task at hand depends on it."""
        cell = frame.cells.get(id(expr))
        if cell is None:
            if isinstance(expr, Call):
                cell = self.call(expr, frame)
            else:
                cell = self.place(expr, frame)[0]
            frame.cells[id(expr)] = cell
        values = self.cells[cell]
        if values is not None:
            self.read.append(cell)
        return values

    def binary(self, expr: Binary, frame: Frame) -> Values:
        x = _VALUES[type(expr.x)](self, expr.x, frame)
        return _binary(expr.op, x, _VALUES[type(expr.y)](self, expr.y, frame))

    def unary(self, expr: Unary, frame: Frame) -> Values:
        return _unary(expr.op, self.of(expr.x, frame))

    def anything(self, expr: Expr, frame: Frame) -> Values:
        """Of an operation that is not ours to follow; its operands are looked into."""
        for operand in operands(expr):
            self.of(operand, frame)
        return None

    def select(self, expr: Select, frame: Frame) -> Values:
        """What the sides that are chosen can be."""
        if id(expr) not in frame.called:
            frame.called.add(id(expr))
            self.choose(Choice(frame, expr))
        cond = self.of(expr.cond, frame)
        found: Values = NEVER
        for way, side in ((1, expr.x), (0, expr.y)):
            if cond is None or way in cond:
                values = self.of(side, frame)
                found = None if found is None or values is None else found | values
        return found

    def choose(self, choice: Choice) -> None:
        """Look into a side as soon as it can be chosen, whatever becomes of the value."""
        values = self.watched(choice, choice.expr.cond)
        for way in EITHER if values is None else values:
            if way not in choice.taken:
                choice.taken.add(way)
                outer, self.read = self.read, []
                self.of(choice.expr.x if way else choice.expr.y, choice.frame)
                self.read = outer


def _unary(op: str, x: Values) -> Values:
    return None if x is None else _found(fold_unary(op, bits) for bits in x)


def _binary(op: str, x: Values, y: Values) -> Values:
    if x is None or y is None:
        known = x if y is None else y
        if known is None or len(known) > 1:
            return None
        return known if not known or _ABSORBING.get(op) in known else None
    if not x or not y:
        return NEVER
    if op in _EQUAL and x.isdisjoint(y):
        return frozenset((_EQUAL[op],))
    if op in _ARITHMETIC and len(x) * len(y) > 1:
        return None  # a sum that runs would go through one value after the other
    return _found(fold_binary(op, a, b) for a in x for b in y)


def _found(results: Iterator[int | None]) -> Values:
    """All results, or any where one of them is not ours to compute."""
    found: set[int] = set()
    for bits in results:
        if bits is None:
            return None
        found.add(bits)
    return frozenset(found)


_ABSORBING = {"and": 0, "or": 1, "imul": 0, "iand": 0}
"""The operand that decides a result by itself."""

_ARITHMETIC = frozenset(
    op for op, kind in BINARY.items() if kind.result != BOOL_T and op not in ("imin", "imax")
)
_VALUES: dict[type, Callable[..., Values]] = {
    Const: Possible.literal,
    Var: Possible.held,
    Field: Possible.held,
    Elem: Possible.held,
    Call: Possible.held,
    Binary: Possible.binary,
    Unary: Possible.unary,
    Select: Possible.select,
    Fma: Possible.anything,
    StructOf: Possible.anything,
    SizeOf: Possible.anything,
    Table: Possible.anything,
}
_STATEMENTS: dict[type, Callable[..., None]] = {
    Let: Possible.let,
    Assign: Possible.assign,
    Do: Possible.do,
    For: Possible.loop,
    While: Possible.while_loop,
    Return: Possible.ret,
}
