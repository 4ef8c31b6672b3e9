"""Branches of a kernel of threads that groups of them take, and how they meet in them.

Where a condition follows from a thread's number alone, and holds for whole warps or for the same
lanes of each, every side of the branch has a group of threads. What is of a warp, or of a barrier
with a number, may stand where whole warps come, and everywhere a barrier of the warp whose mask
names the lanes that come. The sides are put one behind the other in an order that is one of those
that may be: each goes on until it waits for another at a barrier. A number stands for the same
warps everywhere, so that no warp that is ahead can come to the barrier of another meeting.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from quantdsl.check.context import Context
from quantdsl.check.waits import ID, WAITS, Body, Mark, mark_of, wait_of
from quantdsl.ir import ops, scalar
from quantdsl.ir import threads as form
from quantdsl.ir.walk import expressions, statements
from quantdsl.lang.diagnostics import Label

Group = int
"""A bit for each thread of the block; the warps that have any of it have the same lanes."""
OF_WARPS = (form.NAMED_BARRIER, form.WARP_BARRIER, form.SHUFFLE, form.BALLOT, form.MATCH)
"""Where whole warps may wait without the others."""
LEFT = (WAITS + form.NAMED_BARRIER, WAITS + form.WARP_BARRIER)


def _by_warp(group: Group) -> Iterator[int]:
    """A bit for each lane of a group, warp by warp."""
    while group:
        yield group & form.LANES
        group >>= form.WARP


def lanes_of(group: Group) -> int | None:
    """A bit for each lane that warps of a group have, 0 for nobody; None: not the same ones."""
    found = {lanes for lanes in _by_warp(group) if lanes}
    return None if len(found) > 1 else max(found, default=0)


def waits_alone(group: Group, kind: str) -> bool:
    """Whether a group may wait so without the others."""
    whole = lanes_of(group) in (0, form.LANES)
    return kind in OF_WARPS if whole else kind == form.WARP_BARRIER


def member(group: Group) -> ops.Expr:
    """Whether this thread is of a group."""
    warps = sum(bool(lanes) << warp for warp, lanes in enumerate(_by_warp(group)))
    lanes = lanes_of(group)
    assert lanes is not None
    bit = _bit(warps, ops.Binary("lshr", ID, ops.i64(form.WARP.bit_length() - 1)))
    if lanes != form.LANES:
        lane = ops.Binary("iand", ID, ops.i64(form.WARP - 1))
        bit = ops.Binary("iand", bit, _bit(lanes, lane))
    return ops.Binary("ieq", bit, ops.i64(1))


def _bit(bits: int, at: ops.Expr) -> ops.Binary:
    return ops.Binary("iand", ops.Binary("lshr", ops.i64(bits), at), ops.i64(1))


class Grouping:
    """Which threads a condition holds for."""

    def __init__(self, body: Body, threads: int) -> None:
        self.all: Group = (1 << threads) - 1
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

    def parted(self, cond: ops.Expr, group: Group | None) -> tuple[Group | None, Group | None]:
        """Those of a group for which it holds, and the others; None twice where these are none."""
        value = self._value(cond)
        if group is None or value is None:
            return None, None
        holds: Group = 0
        for number in range(group.bit_length()):
            holds |= bool(value([number])) << number
        sides = group & holds, group & ~holds
        return (None, None) if None in map(lanes_of, sides) else sides

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

    group: Group
    todo: list[ops.Stmt]

    @property
    def call(self) -> ops.Call | None:
        """The barrier that it stands at."""
        return wait_of(self.todo[0]) if self.todo else None


class Barrier(NamedTuple):
    """A barrier of fewer than the block."""

    kind: str
    which: int
    """Its number, or the mask of the lanes of a warp."""


def barrier_of(call: ops.Call) -> Barrier:
    """Which barrier threads come to."""
    assert isinstance(call.args[1], ops.Const)
    return Barrier(call.func.removeprefix(WAITS), call.args[1].bits)


class Meetings:
    """Who meets at each number, in a whole kernel; reports what cannot be."""

    def __init__(self, cx: Context, marks: Sequence[Mark]) -> None:
        self.cx, self.marks = cx, marks
        self.known: dict[int, tuple[Group, int]] = {}  # who comes to a number, and the first place
        self.refused = False

    def admit(self, call: ops.Call, group: Group) -> bool:
        """Whether a group may meet at a barrier that says how many come, or which lanes."""
        kind, number = barrier_of(call)
        if kind == form.WARP_BARRIER:
            return self._named(call, number, group)
        assert isinstance(call.args[2], ops.Const)
        said, mark, many = call.args[2].bits, mark_of(call), group.bit_count()
        if said != many:
            told = f"barrier {number} waits for {said} threads, and {many} come to it"
            return self._refuse(mark, told, "write how many come, of all sides of the branch")
        known, first = self.known.setdefault(number, (group, mark))
        if known != group:
            told = f"barrier {number} is that of other warps"
            help_ = "take another number, 1 to 15"
            return self._refuse(mark, told, help_, self.marks[first])
        return True

    def _named(self, call: ops.Call, mask: int, group: Group) -> bool:
        """Whether the lanes that come are those that a mask names."""
        come = next((lanes for lanes in _by_warp(group) if lanes not in (0, mask)), mask)
        if come == mask:
            return True
        lane = (come ^ mask).bit_length() - 1
        told = f"lane {lane} comes to this warp_barrier, and its mask does not name it"
        if mask >> lane & 1:
            told = f"lane {lane} does not come to this warp_barrier, and its mask names it"
        help_ = "write a mask with a bit for each lane that comes, of all sides of the branch"
        return self._refuse(mark_of(call), told, help_)

    def stuck(self, call: ops.Call) -> bool:
        """Those who come to a barrier wait for ever."""
        kind, number = barrier_of(call)
        which = f"barrier {number}" if kind == form.NAMED_BARRIER else "this warp_barrier"
        told = f"the others do not come to {which} now"
        help_ = "let all sides come to the same barriers as often, in one order, outside of loops"
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
        self, sides: Sequence[Side], meet: Callable[[Group, ops.Call], ops.Stmt]
    ) -> Iterator[ops.Stmt]:
        """What the sides do in one order; `meet` makes the meeting of a group."""
        groups: dict[Barrier, Group] = {}
        calls = [(side.group, call) for side in sides for call in map(wait_of, side.todo) if call]
        for group, call in calls:
            groups[barrier_of(call)] = groups.get(barrier_of(call), 0) | group
        admitted = [self.admit(call, groups[barrier_of(call)]) for _, call in calls]
        if not all(admitted):
            return
        while any(side.todo for side in sides):
            for side in sides:
                while side.todo and side.call is None:
                    yield side.todo.pop(0)
            here = [(barrier_of(side.call), side) for side in sides if side.call is not None]
            come = {one: sum(side.group for at, side in here if at == one) for one, _ in here}
            met = [one for one, group in come.items() if group == groups[one]]
            if here and not met:
                self.stuck(next(side.call for _, side in here if side.call is not None))
            if not met:
                return
            for one in met:
                first, *others = [side for at, side in here if at == one]
                assert first.call is not None
                yield meet(groups[one], first.call)
                for side in (first, *others):
                    side.todo.pop(0)


def left_over(body: Body) -> Iterator[ops.Call]:
    """Barriers for more than those who come, that no branch has put into an order."""
    for expr in expressions(body):
        if isinstance(expr, ops.Call) and expr.func in LEFT:
            yield expr
