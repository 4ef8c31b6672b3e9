"""Put what can only have one value in place of its computation, in the whole program at once.

The core serves every strategy: it knows nine verbs, exits, groups, tags and refusals. possible.py
finds which of them this program ever makes; here loads of words that hold one value become that
value, comparisons that it decides fall, and with them the branches that nothing can reach. So
nobody has to say what a strategy does not use. A store of the one value that a word ever has is
dropped too: memory begins with it, be it zero or what the host has settled, but for tables that
nobody reads from outside (Given.blank). So is a call of a function that is left without effects.
What the host reads stays as it was to the bit.
"""

from collections.abc import Set

import msgspec

from quantdsl.ir.ops import (
    Assign,
    Binary,
    Call,
    Const,
    Do,
    Elem,
    Expr,
    Field,
    For,
    Func,
    If,
    Let,
    Module,
    Place,
    Return,
    Select,
    Stmt,
    Table,
    Var,
    While,
    boolean,
)
from quantdsl.ir.walk import ENDS, nodes, rebuild_expr, statements
from quantdsl.passes.fold import Folder
from quantdsl.passes.places import path_of
from quantdsl.passes.possible import Frame, Possible, Values
from quantdsl.passes.scopes import assigned_names

Block = tuple[Stmt, ...]


def settle_known(module: Module) -> Module:
    """The module with what is known of all its memory, locals and calls settled, and folded."""
    possible = Possible(module)
    idle: set[str] = set()
    funcs: list[Func] = []
    for func in module.funcs:  # callees stand before their callers
        frame = possible.frames.get(func.name)
        if frame is not None and frame.reached:
            body = _Settler(possible, frame, idle).body(func.body)
            funcs.append(func if body is func.body else msgspec.structs.replace(func, body=body))
            # What has no body to begin with is for somebody else to write.
            if func.body and not _acts(func, body, idle):
                idle.add(func.name)
    return msgspec.structs.replace(module, funcs=tuple(funcs))


def _acts(func: Func, body: Block, idle: Set[str]) -> bool:
    """Whether a body of a function may change what others see."""
    given = {param.name for param in func.params if param.inout}
    for stmt in statements(body):
        if isinstance(stmt, Assign) and (path_of(stmt.place) or ("",))[0] in given:
            return True
    return any(type(node) is Call and node.func not in idle for node in nodes(body))


class _Settler(Folder):
    """Rewrites one function that is reached; of its callees the `idle` ones change nothing."""

    def __init__(self, possible: Possible, frame: Frame, idle: Set[str]) -> None:
        super().__init__(assigned_names(frame.func.body))
        self.possible, self.frame, self.idle = possible, frame, idle

    # ---- statements ---------------------------------------------------------------------

    def body(self, body: Block) -> Block:
        """What is left of a block, up to where nothing gets any more."""
        new: list[Stmt] = []
        for stmt in body:
            new += self.stmt(stmt)
            if new and type(new[-1]) in ENDS:
                break
            if type(stmt) is If and not self.passed(stmt):
                break
        same = len(new) == len(body) and all(a is b for a, b in zip(body, new, strict=True))
        return body if same else tuple(new)

    def stmt(self, stmt: Stmt) -> Block:
        match stmt:
            case Let():
                return self.let(stmt)
            case Assign():
                return self.assign(stmt)
            case Do():
                if not self.acts(stmt.call):
                    return ()
                call = self.same_call(stmt.call)
                return (stmt if call is stmt.call else msgspec.structs.replace(stmt, call=call),)
            case Return(value=Call() as call) if self.acts(call):
                return (Return(rebuild_expr(call, self.expr)),)
            case While() if 1 not in self.ways(stmt):
                return ()
            case For(lo=Const() as lo, hi=Const() as hi) if hi.bits <= lo.bits:
                return ()
        return super().stmt(stmt)

    def branch(self, stmt: If) -> Block:
        """What is left of an if."""
        ways = self.ways(stmt)
        if len(ways) == 1:
            return self.body(stmt.then if 1 in ways else stmt.otherwise)
        return super().branch(stmt)

    def let(self, stmt: Let) -> Block:
        if isinstance(stmt.type, str) and self.single(self.frame.names[stmt.name][0]):
            return self.effect(stmt.value, stmt.line)  # who reads it reads the value itself
        if not isinstance(stmt.value, Call) or not self.acts(stmt.value):
            return super().stmt(stmt)
        value = rebuild_expr(stmt.value, self.expr)
        return (stmt if value is stmt.value else msgspec.structs.replace(stmt, value=value),)

    def assign(self, stmt: Assign) -> Block:
        cell, type_ = self.possible.place(stmt.place, self.frame)
        if isinstance(type_, str) and self.single(cell):  # it is there already
            return self.effect(stmt.value, stmt.line)
        acts = isinstance(stmt.value, Call) and self.acts(stmt.value)
        value = rebuild_expr(stmt.value, self.expr) if acts else self.expr(stmt.value)
        place = self.place(stmt.place)
        if value is stmt.value and place is stmt.place:
            return (stmt,)
        return (Assign(place, value, stmt.line),)

    def effect(self, value: Expr | None, line: int) -> Block:
        """What is left of a statement whose value nobody needs."""
        if isinstance(value, Call) and self.acts(value):
            return (Do(self.same_call(value), line),)
        return ()

    def same_call(self, call: Call) -> Call:
        """A call that stays one, whatever its value."""
        new = rebuild_expr(call, self.expr)
        assert isinstance(new, Call)
        return new

    def place(self, place: Expr) -> Place:
        """A place that is written to: only its indices are values."""
        if isinstance(place, Field):
            base = self.place(place.base)
            return place if base is place.base else Field(base, place.name)
        if isinstance(place, Elem):
            base, index = self.place(place.base), self.expr(place.index)
            same = base is place.base and index is place.index
            return place if same else Elem(base, index)
        assert isinstance(place, Var | Table)
        return place

    # ---- expressions --------------------------------------------------------------------

    def expr(self, expr: Expr) -> Expr:
        kind = type(expr)
        if kind is Const:
            return expr
        if kind is Var or kind is Field or kind is Elem or kind is Call:
            known = self.possible.const(self.frame.cells.get(id(expr), 0))
            if known is not None:
                return known
            if type(expr) is Var:
                return self.known.get(expr.name, expr)
            return rebuild_expr(expr, self.expr)
        if type(expr) is Binary and type(expr.y) is Const and expr.op in ("ieq", "ine"):
            if self.differs(expr.x, expr.y):
                return boolean(expr.op == "ine")
        elif type(expr) is Select:
            ways = self.possible.of(expr.cond, self.frame)
            if ways is not None and len(ways) == 1:  # of the other side nothing is known
                return self.expr(expr.x if 1 in ways else expr.y)
        return super().expr(expr)

    def differs(self, place: Expr, const: Const) -> bool:
        """Whether a place never holds a value."""
        values = self.possible.cells[self.frame.cells.get(id(place), 0)]
        return values is not None and const.bits not in values

    # ---- what is known ------------------------------------------------------------------

    def ways(self, stmt: If | While) -> set[int]:
        """The ways that a branch can go."""
        return {way for one in self.frame.branches[id(stmt)] for way in one.taken}

    def passed(self, stmt: If) -> bool:
        """Whether what follows a branch is reached."""
        return any(one.rest is None or one.rest.reached for one in self.frame.branches[id(stmt)])

    def single(self, cell: int) -> bool:
        values: Values = self.possible.cells[cell]
        return values is not None and len(values) == 1

    def acts(self, call: Call) -> bool:
        """Whether a call may do more than give a value."""
        return call.func not in self.idle
