"""Statements of one instrument in parts that need nothing of each other, for a warp each.

    first | parts, beside each other | last

A thread that makes one statement after the other waits for memory most of the time. What costs
little and is read by several is made first, what ends what they read is made last, and what is
between falls apart into what reads or writes in common; parts are filled evenly with that.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from quantdsl.ir import ops
from quantdsl.ir.walk import expressions
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import Path, overlap
from quantdsl.passes.scopes import declared_names

Body = tuple[ops.Stmt, ...]
Meets = Sequence[Sequence[bool]]
"""Of each two units whether their order matters."""
LIGHT = 64
"""Nodes of a statement that costs little."""


class Beside(NamedTuple):
    """What is done before the parts, in each of them, and after them."""

    first: Body
    parts: tuple[Body, ...]
    last: Body


class _Unit(NamedTuple):
    """A statement, under a condition that nothing in its branch changes."""

    cond: ops.Expr | None
    stmt: ops.Stmt
    reads: frozenset[Path]
    writes: frozenset[Path]
    weight: int
    own: bool
    """Whether it has to do with locals, which threads of other parts do not see."""

    @property
    def light(self) -> bool:
        """Whether one thread makes it as well while the others wait."""
        return self.weight <= LIGHT and not self.own


def beside(body: Body, analysis: Analysis, most: int, apart: Container[str]) -> Beside | None:
    """At most so many parts; None where there would be one. What lies in buffers of the names
    `apart` is written at different places and read by nobody."""
    units = [*_units(body, analysis, apart)]
    meets = [[_meet(one, other) for other in units] for one in units]
    first: set[int] = set()
    last: set[int] = set()
    for _ in range(2):  # who ends what others read does not make a reader of them
        first = _ahead(units, meets, last)
        last = _behind(units, meets, first)
    numbers = [n for n in range(len(units)) if n not in first | last]
    groups = _groups(numbers, meets)
    parts = _even(groups, lambda group: sum(units[n].weight for n in group), most)
    if len(parts) < 2:
        return None
    made = (_body([units[n] for n in part]) for part in (sorted(first), *parts, sorted(last)))
    before, *between, after = made
    return Beside(before, tuple(between), after)


def _ahead(units: Sequence[_Unit], meets: Meets, last: Container[int]) -> set[int]:
    """The light ones that several need, and that need none but such."""
    found: set[int] = set()
    for n, unit in enumerate(units):
        before = (m for m in range(n) if meets[n][m])
        after = [m for m in range(n + 1, len(units)) if meets[n][m] and m not in last]
        if unit.light and len(after) > 1 and all(m in found for m in before):
            found.add(n)
    return found


def _behind(units: Sequence[_Unit], meets: Meets, first: Container[int]) -> set[int]:
    """The light ones that wait for several, and that none waits for but such."""
    found: set[int] = set()
    for n in reversed(range(len(units))):
        before = [m for m in range(n) if meets[n][m] and m not in first]
        after = (m for m in range(n + 1, len(units)) if meets[n][m])
        if n not in first and units[n].light and len(before) > 1 and all(m in found for m in after):
            found.add(n)
    return found


def _units(body: Body, analysis: Analysis, apart: Container[str]) -> Iterator[_Unit]:
    """The statements in order, those of a branch one by one where it allows that."""
    locals_ = declared_names(body)

    def unit(cond: ops.Expr | None, stmt: ops.Stmt) -> _Unit:
        found, nodes = analysis.body((stmt,)), sum(1 for _ in expressions((stmt,)))
        asked = frozenset[Path]() if cond is None else analysis.expr(cond).reads
        made = frozenset[Path]({(stmt.name,)} if isinstance(stmt, ops.Let) else ())
        reads, writes = (
            frozenset(path for path in paths if path[0] not in apart)
            for paths in (found.reads | asked, found.writes | made)
        )
        own = any(path[0] in locals_ for path in reads | writes)
        return _Unit(cond, stmt, reads, writes, nodes, own)

    for stmt in body:
        if isinstance(stmt, ops.If) and _settled(stmt, analysis):
            yield from (unit(stmt.cond, inner) for inner in stmt.then)
        else:
            yield unit(None, stmt)


def _settled(stmt: ops.If, analysis: Analysis) -> bool:
    """Whether a branch can be asked again by each part of it."""
    asked, written = analysis.expr(stmt.cond).reads, analysis.body(stmt.then).writes
    return not stmt.otherwise and not any(overlap(x, y) for x in asked for y in written)


def _meet(one: _Unit, other: _Unit) -> bool:
    """Whether the order of two units matters."""
    pairs = ((one.writes, other.reads | other.writes), (other.writes, one.reads))
    return any(x[0] == y[0] and overlap(x, y) for xs, ys in pairs for x in xs for y in ys)


def _groups(numbers: Sequence[int], meets: Meets) -> list[list[int]]:
    """Those that meet, directly or through others, together, each in order."""
    groups: list[list[int]] = []
    for n in numbers:
        mine = [group for group in groups if any(meets[n][m] for m in group)]
        groups = [group for group in groups if group not in mine]
        groups.append(sorted([n, *(m for group in mine for m in group)]))
    return groups


def _even(
    groups: list[list[int]], weight: Callable[[list[int]], int], most: int
) -> list[list[int]]:
    """Groups put together so that the heaviest of at most so many is as light as can be: the
    heaviest first, each to the lightest so far."""
    parts: list[list[int]] = [[] for _ in range(min(most, len(groups)))]
    for group in sorted(groups, key=weight, reverse=True):
        min(parts, key=weight).extend(group)
    return [sorted(part) for part in parts]


def _body(units: Sequence[_Unit]) -> Body:
    """Units as statements; neighbours of one branch share its condition again, so a local that is
    declared in one is there for all of it."""
    made: list[ops.Stmt] = []
    for cond, group in groupby(units, key=lambda unit: unit.cond):
        body = tuple(unit.stmt for unit in group)
        made += body if cond is None else [ops.If(cond, body)]
    return tuple(made)
