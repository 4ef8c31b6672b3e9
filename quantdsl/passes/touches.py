"""Tells the simulated device of each access to memory that threads share, so that it finds races.

Before a statement the thread says which words it is about to read, write or add to, and in which
line that stands. A condition that is asked before each turn of a loop is told of in each turn.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from quantdsl.ir import ops, tensors
from quantdsl.ir.strands import called
from quantdsl.ir.threads import ATOMIC_CALLS, ATOMICS, COPIED, RESULT
from quantdsl.ir.walk import base_name, operands, roots
from quantdsl.passes.blocks import COPY, ME, SHARED, TOUCH, TOUCH_TENSOR, added, counted

READ, WRITE, ADD = 0, 1, 2
"""From ADD on, one number for the atomics that may meet: additions among themselves, and so on."""
FAMILIES = {"add": 0, "sub": 0, "min": 1, "max": 2, "and": 3, "or": 4, "xor": 5}
IN_ORDER = ADD + 6
"""What blocks do one after the other."""
COPIED_TO, SETTLED = ADD + 16, ADD + 17
"""A copy to a word begins; all copies of the thread are there."""
OF_BLOCK = ADD + 8
"""From here on the same atomics, but only those of one block may meet."""
_COUNTED = {counted(name): ADD + FAMILIES[name] for name in ATOMICS}


class Told(NamedTuple):
    """A tensor that is told of: its number, and its elements."""

    number: int
    words: int


class Touches(msgspec.Struct):
    """Adds the telling to statements; `tensors` are told of beside shared memory."""

    tensors: Mapping[str, Told]

    def body(self, body: tuple[ops.Stmt, ...], line: int = 0) -> tuple[ops.Stmt, ...]:
        """The statements, each behind what it is about to do."""
        made: list[ops.Stmt] = []
        awaited = False  # whether blocks have waited for their turn: that is the next loop
        for stmt in body:
            at = getattr(stmt, "line", 0) or line
            awaited = awaited or _awaits(stmt)
            if isinstance(stmt, ops.For) and awaited:
                awaited = False
                made.append(_InOrder(self.tensors).loop(stmt, at))
                continue
            touches = tuple(self.touches(stmt, at))
            if isinstance(stmt, ops.Let) and called(stmt.name, RESULT) and touches:
                first = ops.Binary("ieq", ME, ops.i64(0))
                touches = (ops.If(first, touches),)  # nobody asks what the others would return
            match stmt:
                case ops.If():
                    then, otherwise = self.body(stmt.then, at), self.body(stmt.otherwise, at)
                    stmt = msgspec.structs.replace(stmt, then=then, otherwise=otherwise)
                case ops.For():
                    stmt = msgspec.structs.replace(stmt, body=self.body(stmt.body, at))
                case ops.While():
                    stmt = msgspec.structs.replace(stmt, body=(*touches, *self.body(stmt.body, at)))
                    made += (stmt, *touches)  # the last time that it is asked, there is no turn
                    continue
            made += (*touches, stmt)
        return tuple(made)

    def touches(self, stmt: ops.Stmt, line: int) -> Iterator[ops.Stmt]:
        """What a statement does to shared memory by itself."""
        if isinstance(stmt, ops.Assign) and self.seen(stmt.place):
            assert isinstance(stmt.place, ops.Elem)
            todo = [stmt.value, stmt.place.index]
            yield from self.touch(stmt.place, WRITE, line)
        elif isinstance(stmt, ops.Do) and stmt.call.func in _COUNTED:
            todo = list(stmt.call.args)
            at = ops.Elem(SHARED, stmt.call.args[0])
            yield from self.touch(at, _COUNTED[stmt.call.func], line)
        elif isinstance(stmt, ops.Do) and stmt.call.func == COPY:
            index, tensor, source = stmt.call.args
            assert isinstance(tensor, ops.Var)
            todo = [index, source]
            yield from self.touch(ops.Elem(SHARED, index), COPIED_TO, line)
            yield from self.touch(ops.Elem(tensor, source), READ, line)
        elif isinstance(stmt, ops.Do) and stmt.call.func == COPIED:
            todo = []
            yield from self.touch(ops.Elem(SHARED, ops.i64(0)), SETTLED, line)
        elif isinstance(stmt, ops.Do) and added(stmt):
            array, index, value = stmt.call.args
            assert isinstance(array, ops.Var)
            todo = [index, value]
            operation, scope = ATOMIC_CALLS[stmt.call.func.partition("[")[0]]
            how = FAMILIES[operation] + (OF_BLOCK if scope == "block" else ADD)
            yield from self.touch(ops.Elem(array, index), how, line)
        else:
            todo = list(roots(stmt))
        while todo:
            expr = todo.pop()
            if isinstance(expr, ops.Elem) and self.seen(expr):
                yield from self.touch(expr, READ, line)
            todo += operands(expr)

    def seen(self, place: ops.Expr) -> bool:
        """Whether a place is one that is told of."""
        if not isinstance(place, ops.Elem):
            return False
        return place.base == SHARED or base_name(place) in self.tensors

    def touch(self, place: ops.Elem, how: int, line: int) -> Iterator[ops.Stmt]:
        """The telling of one access, where its memory is told of."""
        what = (place.index, ops.i64(how), ops.i64(line))
        if place.base == SHARED:
            yield ops.Do(ops.Call(TOUCH, what))
        elif (one := self.tensors.get(base_name(place))) is not None:
            words = (ops.i64(one.number), ops.i64(one.words))
            yield ops.Do(ops.Call(TOUCH_TENSOR, (*words, *what)))


class _InOrder(Touches):
    """Tells of what blocks do one after the other: one place, read and written."""

    place: ops.Expr | None = None

    def loop(self, loop: ops.For, line: int) -> ops.For:
        """The turns of a block's threads."""
        turn, *rest = loop.body
        assert isinstance(turn, ops.If)
        places = (stmt.place for stmt in turn.then if isinstance(stmt, ops.Assign))
        self.place = next(place for place in places if self.seen(place))
        turn = msgspec.structs.replace(turn, then=self.body(turn.then, line))
        return msgspec.structs.replace(loop, body=(turn, *rest))

    def touch(self, place: ops.Elem, how: int, line: int) -> Iterator[ops.Stmt]:
        """As usual, but of that place."""
        return super().touch(place, IN_ORDER if place == self.place else how, line)


def told(kernel: ops.Func) -> ops.Func:
    """A kernel for blocks that tells of what it does to shared memory."""
    return msgspec.structs.replace(kernel, body=Touches({}).body(kernel.body))


def _awaits(stmt: ops.Stmt) -> bool:
    """Whether a block waits here for those before it."""
    first = stmt.then[0] if isinstance(stmt, ops.If) and stmt.then else None
    return isinstance(first, ops.Do) and first.call.func == tensors.AWAIT
