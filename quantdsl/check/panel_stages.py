"""A panel's equations in stages: along time for each instrument, then across all at each instant.

An equation of one instrument needs that instrument's own bars alone, so it can be computed over
the whole of its history before the next instrument is looked at; and a cross-section needs one
instant alone. An equation of the universe as a whole, such as an average of what cross-sections
have found, goes along time like one of an instrument that has a bar at every instant. What stands
between is columns: a word for each instrument and bar, or one for each instant. A stage holds all
that can be computed from the columns before it, so there are as many stages along time as
cross-sections are nested, and one more, and as many of the universe as need each other's results
by way of one of these.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check.columns import live
from quantdsl.check.cross import Across, Scatter
from quantdsl.check.equations import OF_THIS, Equation, of_one
from quantdsl.check.graph import Graph, Use, fields, used
from quantdsl.check.market import ENGINE
from quantdsl.check.panel_step import of_each
from quantdsl.check.panel_words import CLOCK
from quantdsl.check.step import BASE_FIELDS
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.ir.own import Window

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Column, Signals
    from quantdsl.check.strategy import Strategy


class Stage(Struct, frozen=True):
    """Equations by number, in order, and the shown columns by number that are ready with them.

    Along time they are those of one instrument, gathers included, or of the universe as a `whole`;
    `across` they are cross-sections.
    """

    across: bool
    equations: tuple[int, ...]
    shown: tuple[int, ...]
    only: frozenset[str] | None = None
    """The columns that it writes for later ones, where it is a part that has others beside it."""
    window: Window | None = None
    """What its equations look at, where that is no more than a window."""
    whole: bool = False

    @property
    def of_instruments(self) -> bool:
        """Whether a lane is an instrument."""
        return not self.across and not self.whole


WHOLE, ALONG, ACROSS = range(3)
KINDS = 3
"""Stages of these kinds take turns."""


def stages(turn: "Signals") -> tuple[Stage, ...]:
    """The stages in order; see `unstaged` for what has none."""
    return _Staging(turn).found()


def unstaged(strategy: "Strategy") -> str:
    """Why the equations have no stages, for people; empty where they have."""
    universe = strategy.universe
    if universe is None:
        return "it has no universe"
    if strategy.ticks:
        return "it is on ticks"
    if len(strategy.bars) != 1:
        return "its bars have several clocks"
    if strategy.hosts:
        return "functions of the host bring columns of their own"
    engine = {one.name for one in BASE_FIELDS} - {"money_scale"}
    clock = {(ENGINE.name, name) for name in CLOCK}
    rings = strategy.equations.rings.values()
    histories = {ring.place.name for ring in rings if ring.place.base != OF_THIS}
    graph = Graph(strategy)
    for equation, uses in zip(graph.all, graph.reads, strict=True):
        if engine & fields(uses - clock):
            return f"line {equation.line} reads what the core keeps of a run"
        if of_each(equation) and histories & fields(uses):
            return f"line {equation.line} is given a window of the universe as a whole"
    return ""


class _Staging:
    def __init__(self, turn: "Signals") -> None:
        self.turn = turn
        self.graph = Graph(turn.strategy)
        self.number = {one.place.name: n for n, one in enumerate(self.graph.all)}
        self.counters = {
            place.name
            for mask, place in turn.strategy.equations.masks.items()
            if not mask >> PANEL_SHIFT
        }
        self.at: dict[int, int] = {}

    def found(self) -> tuple[Stage, ...]:
        """The kind of a stage is its place modulo KINDS; empty ones are left out."""
        direct = {n: self.column(one) for n, one in enumerate(self.turn.table)}
        roots: set[Use] = set()
        for n, one in enumerate(self.turn.table):
            number = direct[n]
            roots |= used(one.value, one.defined) if number is None else {(self.place(number), "")}
        evaluated = sorted(live(self.graph, roots, lambda *_: None).evaluated)
        for number in evaluated:
            self.at[number] = self.stage(number)
        ready = [self.ready(one, direct[n]) for n, one in enumerate(self.turn.table)]
        last = max([*self.at.values(), *ready])
        made = [self.made(at, evaluated, ready) for at in range(last + 1)]
        return tuple(one for one in made if one.equations or one.shown)

    def made(self, at: int, evaluated: Sequence[int], ready: Sequence[int]) -> Stage:
        """The stage of one place."""
        return Stage(
            across=at % KINDS == ACROSS,
            whole=at % KINDS == WHOLE,
            equations=tuple(n for n in evaluated if self.at[n] == at),
            shown=tuple(n for n, place in enumerate(ready) if place == at),
        )

    def place(self, number: int) -> str:
        return self.graph.all[number].place.name

    def column(self, column: "Column") -> int | None:
        """The cross-section whose own result a column is; None for any other column."""
        number = across_of(self.graph.all, self.number, column)
        if number is None:
            return None
        equation = self.graph.all[number]
        assert isinstance(equation, Across)
        if equation.fills:  # who is not warm is missing, and has a missing result (std/xs.qdsl)
            return number if equation.type.kind == "float" else None
        names = fields(used(column.defined))
        return number if names <= self.counters | self.settled() else None

    def settled(self) -> set[str]:
        """Fields that params alone decide."""
        strategy = self.turn.strategy
        made = {f.name for f in strategy.equations.fields if f.name not in self.number}
        return {*made, *(param.field for param in strategy.params)} - self.counters

    def stage(self, number: int) -> int:
        """Where an equation is computed, after all that it reads."""
        equation = self.graph.all[number]
        kind = ALONG if of_each(equation) else WHOLE
        inputs = [n for n in self.graph.inputs(number) if n != number]
        return self.after(inputs, ACROSS if isinstance(equation, Across) else kind)

    def after(self, inputs: Iterable[int], kind: int) -> int:
        """The first stage of its kind in which all inputs are there."""
        at = max((self.at[n] for n in inputs), default=0)
        return at + (kind - at) % KINDS

    def ready(self, column: "Column", number: int | None) -> int:
        """The stage that a shown column is ready with."""
        if number is not None:
            return self.at[number]
        names = fields(used(column.value, column.defined))
        numbers = {self.number[name] for name in names if name in self.number}
        rings = {
            ring.place.name: name
            for name, kept in self.graph.histories.items()
            for _, ring in kept
        }
        numbers |= {self.number[rings[n]] for n in names if rings.get(n) in self.number}
        return self.after(numbers, ALONG if of_one(column.value, column.defined) else WHOLE)


def across_of(
    equations: Sequence[Equation], number: dict[str, int], column: "Column"
) -> int | None:
    """The number of the cross-section that a column shows as it is."""
    (place, *more) = used(column.value) or {("", "")}
    at = number.get(place[0])
    if more or at is None:
        return None
    equation = equations[at]
    if column.value != equation.place:
        return None
    if isinstance(equation, Scatter):
        (source,) = used(equation.value)
        return number[source[0]]
    return at if isinstance(equation, Across) else None
