"""Histories of lanes by the turns of their loop.

A history is a ring, and how far it has turned is a lane's own: it began with its instrument. So a
value from so many bars ago stands at another place in each lane, and a vector of them is gathered
word by word. Here a loop works on rings of its own that have turned as far as the loop has, the
same in all lanes; they are filled before it, and the lanes' own are filled from them behind it.

So too the places of a block that begins anew when it is full: a counter that ends at their number.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from quantdsl.ir import ops
from quantdsl.ir.layout import Layout, array_size, element
from quantdsl.ir.walk import expressions, rebuild_expr, rebuild_stmt, statements


def turn_rings(module: ops.Module, entry: str) -> ops.Module:
    """The module whose entry has such rings in the loops that are statements of its own."""
    layout = Layout(module.structs)
    funcs = tuple(_turned(f, layout) if f.name == entry else f for f in module.funcs)
    return msgspec.structs.replace(module, funcs=funcs)


def _turned(func: ops.Func, layout: Layout) -> ops.Func:
    types = {param.name: param.type for param in func.params}
    body: list[ops.Stmt] = []
    for stmt in func.body:
        body += _Loop(stmt, types, layout).made() if isinstance(stmt, ops.For) else [stmt]
    return msgspec.structs.replace(func, body=tuple(body))


class Ring(Struct, frozen=True):
    """A ring that a counter turns: what it is called in the loop, and what it holds."""

    name: str
    counter: str
    type: ops.ArrayType

    @property
    def begin(self) -> ops.Var:
        """How far it has turned where the loop begins."""
        return ops.Var(f"{self.name}.begin")

    def slot(self, at: ops.Expr) -> ops.Expr:
        """A place of it, whatever the number of turns."""
        length = array_size(self.type)
        if length & (length - 1):
            return ops.Binary("imod", at, ops.i64(length))
        return ops.Binary("iand", at, ops.i64(length - 1))

    def moved(self, own: ops.Place, *, into: bool) -> list[ops.Stmt]:
        """Its words out of the lanes' own ring, or into that."""
        turn = ops.Var(f"{self.name}.{'into' if into else 'from'}")
        slot, length = ops.Var(f"{turn.name}.slot"), ops.i64(array_size(self.type))
        here, there = ops.Elem(ops.Var(self.name), turn), ops.Elem(own, slot)
        copy = ops.Assign(there, here) if into else ops.Assign(here, there)
        # One further, or at the front: no instruction finds the rest of a word of each lane.
        next_ = ops.Binary("iadd", slot, ops.i64(1))
        ends = ops.Binary("ieq", next_, length)
        return [
            ops.Let(slot.name, ops.I64_T, self.slot(self.begin)),
            ops.For(
                turn.name, ops.i64(0), length,
                (copy, ops.Assign(slot, ops.Select(ends, ops.i64(0), next_))),
            ),
        ]  # fmt: skip


class _Loop:
    def __init__(self, loop: ops.For, types: dict[str, ops.Type], layout: Layout) -> None:
        self.loop, self.types, self.layout = loop, types, layout
        self.ahead: dict[str, tuple[str, int]] = {}
        """Counters and copies of them: of which counter, and how far ahead of the loop's turns."""
        self.rings: dict[ops.Expr, Ring | None] = {}
        """By their places; None stands for one that is used in another way too."""
        self.whole = any(isinstance(one, ops.Call) for one in expressions(loop.body))
        """Whether something is used whole that may hold a ring."""
        self.lengths = dict(_blocks(loop))
        """Of the counters that begin anew, the number at which they do."""
        self.full = ""
        """Which of them has come to it, where that is known."""

    def made(self) -> list[ops.Stmt]:
        """The loop with its rings, which are filled before it and emptied behind it."""
        self.body()
        rings = {place: ring for place, ring in self.rings.items() if ring is not None}
        if self.whole or not rings:
            return [self.loop]
        loop = msgspec.structs.replace(self.loop, body=self.body())
        before: list[ops.Stmt] = []
        behind: list[ops.Stmt] = []
        for place, ring in rings.items():
            assert isinstance(place, ops.Field)
            before += [
                ops.Let(ring.begin.name, ops.I64_T, ops.Var(ring.counter)),
                ops.Let(ring.name, ring.type, None),
                *ring.moved(place, into=False),
            ]
            behind += ring.moved(place, into=True)
        return [*before, loop, *behind]

    def body(self) -> tuple[ops.Stmt, ...]:
        """The loop's statements on the rings that are known by now; it learns of others."""
        self.ahead = {name: (name, 0) for name in (*_counters(self.loop), *self.lengths)}
        return tuple(map(self.stmt, self.loop.body))

    def stmt(self, stmt: ops.Stmt) -> ops.Stmt:
        match stmt:
            case ops.Let(name, _, value) if (source := _counted(value)) in self.ahead:
                self.ahead[name] = self.ahead[source]
            case ops.Assign(ops.Var(name)) if name in self.ahead:
                self.ahead[name] = name, 1
                return stmt
            case ops.If(ops.Binary("ieq", ops.Var(name)), then, ()) if name in self.lengths:
                self.full = name
                then = tuple(map(self.stmt, then))
                self.full = ""
                return msgspec.structs.replace(stmt, then=then)
        return rebuild_stmt(stmt, self.expr, self.stmt)

    def expr(self, expr: ops.Expr) -> ops.Expr:
        match expr:
            case ops.Elem(ops.Field() as place, index):
                return self.element(place, index) or ops.Elem(place, self.expr(index))
            case ops.Elem(ops.Var() as base, index):
                return ops.Elem(base, self.expr(index))
            case ops.Field() if not isinstance(self.type_of(expr), str):
                self.whole = True
        return rebuild_expr(expr, self.expr)

    def element(self, place: ops.Field, index: ops.Expr) -> ops.Expr | None:
        """An element of a ring by the loop's turn; None where it is not known to be one."""
        counter, length, turns = self.turned(index)
        type_, new = self.type_of(place), None
        if counter and isinstance(type_, ops.ArrayType) and array_size(type_) == length:
            new = Ring(f"{self.loop.name}.ring.{len(self.rings)}", counter, type_)
        ring = self.rings.setdefault(place, new)
        if ring is None or new is None or ring.counter != new.counter:
            self.rings[place] = None
            return None
        turn = ops.Binary("iadd", ops.Var(self.loop.name), turns)
        return ops.Elem(ops.Var(ring.name), ring.slot(turn))

    def turned(self, index: ops.Expr) -> tuple[str, int, ops.Expr]:
        """The counter that an index goes by, of how many places, and how many turns it is ahead."""
        if self.full:  # the place of this turn is the last one
            return self.full, self.lengths[self.full], _plus(self.expr(index), ops.i64(1))
        match index:
            case ops.Binary("iand", at, ops.Const(bits=mask)):
                pass
            case _:
                at, mask = index, 0
        match at:
            case ops.Binary("isub", ops.Var(name), ops.Const(bits=back)):
                pass
            case _:
                name, back = _counted(at), 0
        counter, ahead = self.ahead.get(name, ("", 0))
        if counter in self.lengths:
            return counter, 0 if ahead or back or mask else self.lengths[counter], ops.i64(0)
        return counter, mask + 1, ops.i64(ahead - back)

    def type_of(self, place: ops.Expr) -> ops.Type:
        """The type of a place in what the function is given; a local of its own has no ring."""
        match place:
            case ops.Var(name):
                return self.types.get(name, ops.I64_T)
            case ops.Field(base, name) if isinstance(struct := self.type_of(base), ops.StructType):
                return self.layout.slots(struct.name)[name].type
            case ops.Elem(base) if isinstance(array := self.type_of(base), ops.ArrayType):
                return element(array)
        return ops.I64_T


def _counters(loop: ops.For) -> Iterator[str]:
    """The locals that each turn of a loop adds one to, all turns alike."""
    assigned = _assigned(loop)
    yield from (name for name in _grown(loop) if assigned[name] == 1)


def _blocks(loop: ops.For) -> Iterator[tuple[str, int]]:
    """Those that then begin anew at 0 where they are a number, and the number."""
    assigned, grown = _assigned(loop), set(_grown(loop))
    for stmt in loop.body:
        match stmt:
            case ops.If(ops.Binary("ieq", ops.Var(name) as place, ops.Const(bits=length)), then):
                begins = ((one.place, one.value) for one in then if isinstance(one, ops.Assign))
                if name in grown and assigned[name] == 2 and (place, ops.i64(0)) in begins:
                    yield name, length


def _grown(loop: ops.For) -> Iterator[str]:
    """The locals to which one is added in each turn of a loop."""
    if any(isinstance(one, ops.Break | ops.Continue | ops.Return) for one in statements(loop.body)):
        return
    for stmt in loop.body:
        match stmt:
            case ops.Assign(ops.Var(name) as place, ops.Binary("iadd", ops.Var() as x, one)):
                if x == place and one == ops.i64(1):
                    yield name


def _assigned(loop: ops.For) -> Counter[str]:
    """How often each local is assigned to."""
    return Counter(
        stmt.place.name
        for stmt in statements(loop.body)
        if isinstance(stmt, ops.Assign) and isinstance(stmt.place, ops.Var)
    )


def _counted(index: ops.Expr | None) -> str:
    """The local that an index is; it may be held to the places that there are."""
    match index:
        case ops.Binary("imin", ops.Binary("imax", ops.Var(name), ops.Const(bits=0)), ops.Const()):
            return name
        case ops.Var(name):
            return name
    return ""


def _plus(x: ops.Expr, y: ops.Expr) -> ops.Expr:
    return ops.Binary("iadd", x, y)
