"""Put what can only have one value in place of its computation, in the whole program at once.

The core serves every strategy: it knows nine verbs, exits, groups, tags and refusals. possible.py
finds which of them this program ever makes; here loads of words that hold one value become that
value, comparisons that it decides fall, and with them the branches that nothing can reach. So
nobody has to say what a strategy does not use. A store of zero into a word that is never anything
else is dropped too, for memory begins as zeros; what the host reads stays as it was to the bit.
"""

import msgspec

from quantdsl.ir.ops import (
    BINARY,
    BOOL_T,
    Assign,
    Binary,
    Break,
    Call,
    Const,
    Continue,
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
)
from quantdsl.ir.walk import rebuild_expr
from quantdsl.passes.fold import Folder, reassigned
from quantdsl.passes.possible import ZERO, Frame, Possible, Values

Block = tuple[Stmt, ...]


def settle_known(module: Module) -> Module:
    """The module with what is known of all its memory, locals and calls settled, and folded."""
    possible = Possible(module)
    funcs = tuple(_settled(possible, func) for func in module.funcs)
    return msgspec.structs.replace(module, funcs=funcs)


def _settled(possible: Possible, func: Func) -> Func:
    frame = possible.frames.get(func.name)
    if frame is None or not frame.reached:
        return func
    body = _Settler(possible, frame).body(func.body)
    return func if body is func.body else msgspec.structs.replace(func, body=body)


class _Settler(Folder):
    """Rewrites one function that is reached."""

    def __init__(self, possible: Possible, frame: Frame) -> None:
        super().__init__(reassigned(frame.func.body))
        self.possible, self.frame = possible, frame

    # ---- statements ---------------------------------------------------------------------

    def body(self, body: Block) -> Block:
        """What is left of a block, up to where nothing gets any more."""
        new: list[Stmt] = []
        for stmt in body:
            new += self.stmt(stmt)
            if new and isinstance(new[-1], Return | Break | Continue):
                break
            if isinstance(stmt, If) and not self.passed(stmt):
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
                call = rebuild_expr(stmt.call, self.expr)
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
        local = isinstance(stmt.place, Var)
        if isinstance(type_, str) and cell and self.single(cell):
            if local or self.possible.cells[cell] == ZERO:
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
            return (Do(rebuild_expr(value, self.expr), line),)
        return ()

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
        elif isinstance(expr, Binary) and BINARY[expr.op].result == BOOL_T:
            values = self.possible.of(expr, self.frame)
            if values is not None and len(values) == 1:
                return Const(BOOL_T, min(values))
        elif isinstance(expr, Select):
            cond = self.expr(expr.cond)
            if isinstance(cond, Const):
                return self.expr(expr.x if cond.bits else expr.y)
        return super().expr(expr)

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
        return any(param.inout for param in self.possible.funcs[call.func].params)
