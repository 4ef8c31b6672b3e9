"""Tells the simulated device of each access to shared memory, so that it finds races.

Before a statement the thread says which words it is about to read, write or add to, and in which
line that stands. A condition that is asked before each turn of a loop is told of in each turn.
"""

from collections.abc import Iterator

import msgspec

from quantdsl.ir import ops
from quantdsl.ir.strands import called
from quantdsl.ir.threads import ATOMICS, RESULT
from quantdsl.ir.walk import operands, roots
from quantdsl.passes.blocks import ME, SHARED, TOUCH, counted

READ, WRITE, ADD = 0, 1, 2
"""From ADD on, one number for the atomics that may meet: additions among themselves, and so on."""
FAMILIES = {"add": 0, "sub": 0, "min": 1, "max": 2, "and": 3, "or": 4, "xor": 5}
_COUNTED = {counted(name): ADD + FAMILIES[name] for name in ATOMICS}


def told(kernel: ops.Func) -> ops.Func:
    """A kernel for blocks that tells of what it does to shared memory."""
    return msgspec.structs.replace(kernel, body=_body(kernel.body, 0))


def _body(body: tuple[ops.Stmt, ...], line: int) -> tuple[ops.Stmt, ...]:
    made: list[ops.Stmt] = []
    for stmt in body:
        at = getattr(stmt, "line", 0) or line
        touches = tuple(_touches(stmt, at))
        if isinstance(stmt, ops.Let) and called(stmt.name, RESULT) and touches:
            first = ops.Binary("ieq", ME, ops.i64(0))
            touches = (ops.If(first, touches),)  # nobody asks what the others would return
        match stmt:
            case ops.If():
                then, otherwise = _body(stmt.then, at), _body(stmt.otherwise, at)
                stmt = msgspec.structs.replace(stmt, then=then, otherwise=otherwise)
            case ops.For():
                stmt = msgspec.structs.replace(stmt, body=_body(stmt.body, at))
            case ops.While():
                stmt = msgspec.structs.replace(stmt, body=(*touches, *_body(stmt.body, at)))
                made += (stmt, *touches)  # the last time that it is asked, there is no turn
                continue
        made += (*touches, stmt)
    return tuple(made)


def _touches(stmt: ops.Stmt, line: int) -> Iterator[ops.Stmt]:
    """What a statement does to shared memory by itself."""
    if isinstance(stmt, ops.Assign) and _word(stmt.place):
        assert isinstance(stmt.place, ops.Elem)
        todo = [stmt.value, stmt.place.index]
        yield _touch(stmt.place.index, WRITE, line)
    elif isinstance(stmt, ops.Do) and stmt.call.func in _COUNTED:
        todo = list(stmt.call.args)
        yield _touch(stmt.call.args[0], _COUNTED[stmt.call.func], line)
    else:
        todo = list(roots(stmt))
    while todo:
        expr = todo.pop()
        if isinstance(expr, ops.Elem) and _word(expr):
            yield _touch(expr.index, READ, line)
        todo += operands(expr)


def _word(place: ops.Expr) -> bool:
    return isinstance(place, ops.Elem) and place.base == SHARED


def _touch(index: ops.Expr, how: int, line: int) -> ops.Stmt:
    return ops.Do(ops.Call(TOUCH, (index, ops.i64(how), ops.i64(line))))
