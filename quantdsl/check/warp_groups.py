"""Branches of a kernel of threads that whole warps take, and how they meet in them.

Where a condition follows from a thread's number alone and is the same in each warp, every side of
the branch has a group of warps, and what is of a warp, or of a barrier with a number, may stand
there. The sides are put one behind the other in an order that is one of those that may be: each
goes on until it waits for another at a barrier. A number stands for the same warps everywhere, so
that no warp that is ahead of others can come to the barrier of another meeting.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from quantdsl.check.context import Context
from quantdsl.check.waits import ID, WAITS, Body, Mark, mark_of, wait_of
from quantdsl.ir import ops, scalar
from quantdsl.ir import threads as form
from quantdsl.ir.walk import expressions, statements
from quantdsl.lang.diagnostics import Label

Warps = int
"""A bit for each warp of the block."""
IN_GROUPS = (form.NAMED_BARRIER, form.WARP_BARRIER, form.SHUFFLE, form.BALLOT, form.MATCH)
"""Where a group may wait without the others."""


def many(group: Warps) -> int:
    """The threads of a group."""
    return form.WARP * group.bit_count()


def member(group: Warps) -> ops.Expr:
    """Whether this thread is of a group."""
    warp = ops.Binary("lshr", ID, ops.i64(form.WARP.bit_length() - 1))
    bit = ops.Binary("iand", ops.Binary("lshr", ops.i64(group), warp), ops.i64(1))
    return ops.Binary("ieq", bit, ops.i64(1))


class Grouping:
    """Which warps a condition holds for."""

    def __init__(self, body: Body, threads: int) -> None:
        self.all: Warps = (1 << threads // form.WARP) - 1
        changed = {
            stmt.place.name
            for stmt in statements(body)
            if isinstance(stmt, ops.Assign) and isinstance(stmt.place, ops.Var)
        }
        self._made = {
            stmt.name: stmt.value
            for stmt in statements(body)
            if isinstance(stmt, ops.Let) and stmt.value is not None and stmt.name not in changed
        }

    def parted(self, cond: ops.Expr, group: Warps | None) -> tuple[Warps | None, Warps | None]:
        """Those of a group for which it holds, and the others; None twice where that is not so."""
        value = self._value(cond)
        if group is None or value is None:
            return None, None
        holds: Warps = 0
        for warp in range(group.bit_length()):
            first = warp * form.WARP
            found = {bool(value([number])) for number in range(first, first + form.WARP)}
            if group >> warp & 1 and len(found) > 1:
                return None, None
            holds |= found.pop() << warp
        return group & holds, group & ~holds

    def _value(self, expr: ops.Expr) -> scalar.Thunk | None:
        """What an expression is for a thread of which the number is given, if that says it."""
        match expr:
            case ops.Const():
                return lambda _: expr.value
            case ops.Var() if expr == ID:
                return lambda frame: frame[0]
            case ops.Var() if expr.name in self._made:
                return self._value(self._made[expr.name])
            case ops.Unary():
                x = self._value(expr.x)
                return None if x is None else scalar.UNARY[expr.op](x)
            case ops.Binary():
                x, y = self._value(expr.x), self._value(expr.y)
                return None if x is None or y is None else scalar.BINARY[expr.op](x, y)
        return None


class Side(Struct):
    """One side of a branch: who takes it, and what is left of it to do."""

    group: Warps
    todo: list[ops.Stmt]

    @property
    def number(self) -> int | None:
        """The number of the barrier that it stands at."""
        call = wait_of(self.todo[0]) if self.todo else None
        return None if call is None else number_of(call)


def number_of(call: ops.Call) -> int:
    """The number of a barrier."""
    assert isinstance(call.args[1], ops.Const)
    return call.args[1].bits


class Meetings:
    """Who meets at each number, in a whole kernel; reports what cannot be."""

    def __init__(self, cx: Context, marks: Sequence[Mark]) -> None:
        self.cx, self.marks = cx, marks
        self.known: dict[int, tuple[Warps, int]] = {}  # the warps, and the first place
        self.refused = False

    def admit(self, call: ops.Call, group: Warps) -> bool:
        """Whether a group may meet at a barrier that says how many come."""
        assert isinstance(call.args[2], ops.Const)
        number, said, mark = number_of(call), call.args[2].bits, mark_of(call)
        if said != many(group):
            told = f"barrier {number} waits for {said} threads, and {many(group)} come to it"
            return self._refuse(mark, told, "write how many come, of all sides of the branch")
        known, first = self.known.setdefault(number, (group, mark))
        if known != group:
            told = f"barrier {number} is that of other warps"
            help_ = "take another number, 1 to 15"
            return self._refuse(mark, told, help_, self.marks[first])
        return True

    def stuck(self, call: ops.Call) -> bool:
        """Those who come to a barrier wait for ever."""
        told = f"the others do not come to barrier {number_of(call)} now"
        help_ = "let all sides come to the same numbers as often, in one order, outside of loops"
        return self._refuse(mark_of(call), told, help_)

    def _refuse(self, mark: int, told: str, help_: str, first: Mark | None = None) -> bool:
        self.refused = True
        labels = () if first is None else (Label(first.span, "here it is"),)
        self.cx.error(
            "QD0909",
            told,
            self.marks[mark].span,
            reason="those that come would wait for the others for ever",
            help=help_,
            labels=labels,
        )
        return False

    def woven(
        self, sides: Sequence[Side], meet: Callable[[Warps, ops.Call], ops.Stmt]
    ) -> Iterator[ops.Stmt]:
        """What the sides do in one order; `meet` makes a group's part of a meeting."""
        groups: dict[int, Warps] = {}
        calls = [(side.group, call) for side in sides for call in map(wait_of, side.todo) if call]
        for group, call in calls:
            groups[number_of(call)] = groups.get(number_of(call), 0) | group
        admitted = [self.admit(call, groups[number_of(call)]) for _, call in calls]
        if not all(admitted):
            return
        while any(side.todo for side in sides):
            for side in sides:
                while side.todo and side.number is None:
                    yield side.todo.pop(0)
            here = dict.fromkeys(groups, 0)
            for side in sides:
                if side.number is not None:
                    here[side.number] |= side.group
            met = [number for number, group in groups.items() if here[number] == group]
            if not met and any(here.values()):
                waits = (wait_of(side.todo[0]) for side in sides if side.todo)
                self.stuck(next(call for call in waits if call is not None))
                return
            for side in sides:
                if side.number in met:
                    came = wait_of(side.todo.pop(0))
                    assert came is not None
                    yield meet(side.group, came)


def left_over(body: Body) -> Iterator[ops.Call]:
    """Barriers for more than those who come, that no branch has put into an order."""
    for expr in expressions(body):
        if isinstance(expr, ops.Call) and expr.func == WAITS + form.NAMED_BARRIER:
            yield expr
