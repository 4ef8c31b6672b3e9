"""The part of a step that a universe has: each instrument's equations, then all at once.

Equations stand in the order of their dependence. Those of single instruments that follow each
other form one function of the instrument, which a loop calls for each; a batch step over whole
columns stands between two such loops.
"""

from collections.abc import Container, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check.cross import Across, Gather, N, Scatter, missing, nothing, present
from quantdsl.check.equations import OF_THIS, PANEL, STATE, THIS, Equation
from quantdsl.check.functions import BAR_UNITS
from quantdsl.check.market import TICK_LOT
from quantdsl.check.panel_rare import ASKED, asked
from quantdsl.check.panel_shared import Sharing
from quantdsl.check.universe import TICKED as OWN_TICKED
from quantdsl.check.universe import initial
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.events.codes import Kind, Trait
from quantdsl.ir import ops

if TYPE_CHECKING:
    from quantdsl.check.step import Assembly
    from quantdsl.check.strategy import Handler, Strategy

OWN = ops.Field(OF_THIS, OWN_TICKED)
STRUCT = ops.StructType("Panel")
ROW = "row"
"""Fields of lanes that read columns: where the words of the event at hand begin, of the state; and
of an instrument where those of its newest bar do."""


class Spared(Struct, frozen=True):
    """What lanes do otherwise than a single run does, by the number of an equation.

    `loads` stand in place of evaluating it, `stores` follow it. Those in `rare` are needed only
    where ASKED holds; of the histories only those in `kept` are read.
    """

    loads: Mapping[int, list[ops.Stmt]]
    stores: Mapping[int, list[ops.Stmt]]
    rare: frozenset[int]
    kept: frozenset[str]


def band(x: ops.Expr, mask: int) -> ops.Expr:
    """Whether x has one of the bits of the mask."""
    return ops.Binary("ine", ops.Binary("iand", x, ops.i64(mask)), ops.i64(0))


def own_tick(clocks: int) -> ops.Expr:
    """Whether a clock of this instrument ticks at this instant."""
    return band(OWN, clocks >> PANEL_SHIFT)


def unit_paths(strategy: "Strategy") -> Iterator[str]:
    """What of an instrument's part of the state says what its counts are worth."""
    assert strategy.universe is not None
    for place in strategy.bars.values():
        yield from (f"{place.name}.{name}" for name in BAR_UNITS)
    if strategy.universe.worth is not None:
        yield strategy.universe.worth.name


class PanelStep:
    """What `Assembly` asks for where the strategy has a universe."""

    def __init__(self, assembly: "Assembly") -> None:
        self.assembly = assembly
        self.strategy = assembly.strategy
        self.equations = assembly.strategy.equations

    # ---- memory ----

    def fields(self) -> tuple[ops.FieldDecl, ...]:
        """What the state has for it."""
        return (ops.FieldDecl("panel", ops.ArrayType(STRUCT, N)),)

    def struct(self, named: Container[str] | None = None) -> ops.StructDecl:
        """What is kept of each instrument; of a lane, what is `named`, such as its row."""
        own = (ops.FieldDecl(OWN_TICKED, ops.I64_T), *self.equations.panel)
        if named is not None:
            own = tuple(one for one in own if one.name in named or one.name == OWN_TICKED)
            own += (ops.FieldDecl(ROW, ops.I64_T),) if ROW in named else ()
        return ops.StructDecl("Panel", own)

    def prepared(self) -> list[ops.Stmt]:
        """Before the first event: values missing, traits as `initial` has them, units of bars."""
        universe = self.strategy.universe
        assert universe is not None
        stmts: list[ops.Stmt] = [
            ops.Assign(equation.place, nothing(equation.type))
            for equation in self.equations.all
            if equation.place.base == OF_THIS and equation.type.kind in ("float", "na")
        ]
        stmts += [ops.Assign(at, initial(which)) for which, (at, _) in universe.traits.items()]
        if universe.factor is not None:
            stmts.append(ops.Assign(universe.factor, ops.f64(1.0)))
        signals = self.strategy.signals
        stmts += [one for signal in signals.all if signal.panel for one in signals.initial(signal)]
        source = ops.Elem(ops.Field(ops.Field(STATE, "e"), "instruments"), THIS)
        for place in self.strategy.bars.values():
            for name in BAR_UNITS:
                stmts.append(ops.Assign(ops.Field(place, name), ops.Field(source, name)))
        if universe.worth is not None:
            stmts.append(ops.Assign(universe.worth, ops.Field(source, TICK_LOT)))
        stmts += self.assembly.tick_step.bar_step.at_start_of_each
        return [self.strategy.loop(tuple(stmts))]

    # ---- events ----

    def bar(
        self,
        inst: ops.Expr,
        side: ops.Expr,
        words: dict[str, str],
        event: ops.Place,
        *,
        rows: bool,
    ) -> list[ops.Stmt]:
        """A bar of an instrument into its part of the state; with `rows` which row is the bar's."""
        part = ops.Elem(PANEL, inst)
        own = ops.Field(part, OWN_TICKED)
        bit = ops.Binary("shl", ops.i64(1), side)
        stmts: list[ops.Stmt] = [ops.Assign(own, ops.Binary("ior", own, bit))]
        if rows:
            stmts.append(ops.Assign(ops.Field(part, ROW), ops.Field(STATE, ROW)))
        for (_, clock), place in self.strategy.bars.items():
            there = ops.Field(part, place.name)
            copies = tuple(
                ops.Assign(ops.Field(there, name), ops.Field(event, word))
                for name, word in words.items()
            )
            stmts.append(ops.If(ops.Binary("ieq", side, ops.i64(clock)), copies))
        return stmts

    def trait(
        self, kind: ops.Expr, inst: ops.Expr, side: ops.Expr, event: ops.Place
    ) -> tuple[ops.Stmt, ...]:
        """A trait of an instrument into its part of the state."""
        universe = self.strategy.universe
        assert universe is not None
        value = ops.Field(event, "a")
        chosen = tuple(
            ops.If(
                ops.Binary("ieq", side, ops.i64(which)),
                (
                    ops.Assign(ops.Field(ops.Elem(PANEL, inst), place.name), value),
                ),
            )
            for which, (place, _) in universe.traits.items()
        )
        told = ops.Binary("ieq", kind, ops.i64(Kind.TRAIT))
        return (
            *((ops.If(told, chosen),) if chosen else ()),
            *self._adjust(kind, inst, side, event),
        )

    def _adjust(
        self, kind: ops.Expr, inst: ops.Expr, side: ops.Expr, event: ops.Place
    ) -> tuple[ops.Stmt, ...]:
        """A split or a dividend into the factor of adjusted prices, as of the last close."""
        strategy, universe = self.strategy, self.strategy.universe
        assert universe is not None
        if universe.factor is None or strategy.adjust is None:
            return ()
        dividends = ops.i64(int(strategy.adjust[0] == "all"))
        amount = (ops.Field(event, "a"), ops.Field(event, "b"))
        args = (ops.Field(STATE, "e"), inst, side, *amount, dividends)
        place = ops.Field(ops.Elem(PANEL, inst), universe.factor.name)
        factor = ops.Call(strategy.core("portfolio.factor"), args)
        acts = ops.Binary("ieq", kind, ops.i64(Kind.CORPORATE))
        return (ops.If(acts, (ops.Assign(place, ops.Binary("fmul", place, factor)),)),)

    # ---- the step ----

    def counters(self) -> list[ops.Stmt]:
        """Count the ticks of each instrument's clocks that something counts."""
        stmts: list[ops.Stmt] = []
        for mask, counter in self.equations.masks.items():
            if mask >> PANEL_SHIFT:
                one = ops.Unary("bool_to_i64", own_tick(mask))
                stmts.append(ops.Assign(counter, ops.Binary("iadd", counter, one)))
        return stmts

    def equations_of_step(
        self,
        ticked: ops.Expr,
        words: dict[str, str],
        wanted: Container[int] | None = None,
        spared: Spared | None = None,
    ) -> list[ops.Stmt]:
        """Bar histories, then the equations in order: those of these numbers, or all."""
        chosen = [
            (n, one)
            for n, one in enumerate(self.equations.all)
            if wanted is None or n in wanted or (spared is not None and n in spared.loads)
        ]
        alike = self._alike([one for _, one in chosen]) if spared is None else {}
        # What the guards count is known only once all of them are made.
        parts = [
            (n, one, self._part(n, one, spared, alike.get(one.place.name))) for n, one in chosen
        ]
        own: list[ops.Stmt] = list(self.counters())
        for (_, clock), place in self.strategy.bars.items():
            sources = [ops.Field(place, name) for name in words]
            kept = [stmt for source in sources for stmt in self._record(source, spared)]
            if kept:
                own.append(ops.If(own_tick(1 << PANEL_SHIFT + clock), tuple(kept)))
        own += [ops.If(due, tuple(kept)) for due, kept in self._histories(spared) if kept]
        rare = frozenset() if spared is None else spared.rare
        stmts = self._in_order([(e, part) for n, e, part in parts if n not in rare], own, spared)
        if rare:
            late = self._in_order([(e, part) for n, e, part in parts if n in rare], [], spared)
            stmts += [*asked(), ops.If(ASKED, tuple(late))]
        anything = ops.Binary("ine", ticked, ops.i64(0))
        return [ops.If(anything, tuple(stmts))] if stmts else []

    def _histories(self, spared: Spared | None) -> list[tuple[ops.Expr, list[ops.Stmt]]]:
        """What is looked back at of an instrument's last ticks, and when it is kept."""
        kept = None if spared is None else spared.kept
        return self.assembly.tick_step.histories(kept)

    def _in_order(
        self,
        parts: list[tuple[Equation, list[ops.Stmt]]],
        own: list[ops.Stmt],
        spared: Spared | None,
    ) -> list[ops.Stmt]:
        """Loops over the instruments, and what stands between them; `own` is in the first one."""
        stmts: list[ops.Stmt] = []
        for equation, part in parts:
            if of_each(equation):
                own += part
                continue
            stmts += [self._each(own, spared)] if own else []
            own = []
            stmts += part
        return stmts + ([self._each(own, spared)] if own else [])

    def _each(self, body: list[ops.Stmt], spared: Spared | None) -> ops.Stmt:
        """For each instrument; in the function at hand where that alone is given columns."""
        if spared is None or not (spared.loads or spared.stores):
            return self.strategy.loop(tuple(body))
        return ops.For(THIS.name, ops.i64(0), ops.SizeOf(N), tuple(body))

    def _record(self, source: ops.Expr, spared: Spared | None) -> list[ops.Stmt]:
        """The newest value of a place into its histories, or into those that are read."""
        return self.equations.record(source, None if spared is None else spared.kept)

    def _alike(self, equations: list[Equation]) -> dict[str, Sharing]:
        """Of each equation that is told the same as another of its loop: who they are. A kernel
        ends a loop: a GPU's blocks run it, and threads keep no answer until they go on."""
        found: dict[str, Sharing] = {}
        calls = self.strategy.library.calls_kernel
        for each, loop in groupby(equations, lambda one: of_each(one) and not calls(one.value)):
            sharing = Sharing(self.strategy.library.lookup, loop if each else ())
            found |= dict.fromkeys(sharing.told, sharing)
        return found

    def _part(
        self, number: int, equation: Equation, spared: Spared | None, alike: Sharing | None
    ) -> list[ops.Stmt]:
        load = None if spared is None else spared.loads.get(number)
        store = [] if spared is None else spared.stores.get(number, [])
        if isinstance(equation, Gather):
            conditions = [own_tick(equation.clocks), *equation.conditions]
            conditions += self.assembly.needs(equation.needs)
            conditions.append(present(equation.type, equation.value))
            cell = ops.Elem(equation.place, THIS)
            absent = nothing(equation.type)
            value = ops.Select(all_true(conditions), equation.value, absent)
            return [ops.Assign(cell, value, equation.line)]
        kept = None if spared is None else spared.kept
        first, *rest = self.equations.evaluate(equation, kept)
        made = [first] if load is None else load
        before: list[ops.Stmt] = []
        if alike is not None:
            before, made = alike.answer(equation.place.name), alike.assigned(equation)
        if isinstance(equation, Scatter):
            return self._scattered(equation, made, rest, store, loaded=load is not None)
        ticks = band(ops.Field(STATE, "ticked"), equation.clocks)
        if isinstance(equation, Across):
            if equation.fills:
                made = [ops.Do(_call(equation), equation.line)]
            return [ops.If(ticks, (*made, *rest, *store))]
        conditions = self.assembly.needs(equation.needs)
        conditions.insert(0, own_tick(equation.clocks) if of_each(equation) else ticks)
        return [*before, ops.If(all_true(conditions), (*made, *rest, *store))]

    def _scattered(
        self,
        equation: Scatter,
        made: list[ops.Stmt],
        rest: list[ops.Stmt],
        store: list[ops.Stmt],
        *,
        loaded: bool,
    ) -> list[ops.Stmt]:
        """What a cross-section gives each instrument. Who has no bar has no row either: it was
        missing in the cross-section, if there was one."""
        has_row = ops.Binary("ine", OWN, ops.i64(0))
        if loaded:
            nobody = ops.Assign(equation.place, missing(equation.type), equation.line)
            crossed = band(ops.Field(STATE, "ticked"), equation.clocks >> PANEL_SHIFT)
            made = [ops.If(has_row, tuple(made), (ops.If(crossed, (nobody,)),))]
        stmts = list(made)
        if rest:
            stmts.append(ops.If(own_tick(equation.clocks), tuple(rest)))
        return [*stmts, *([ops.If(has_row, tuple(store))] if store else [])]

    def handler(self, handler: "Handler", needs: list[ops.Expr]) -> ops.Stmt:
        """`on bar` for each instrument with a bar that is a member, or of which some is held; so
        too `on ready` for those whose signal has come."""
        conditions = [self._happens(handler), *needs, *member_or_held(self.strategy)]
        call = ops.Do(ops.Call(handler.func, (STATE, THIS)))
        return self.strategy.loop((ops.If(all_true(conditions), (call,)),))

    def _happens(self, handler: "Handler") -> ops.Expr:
        """What an instrument's handler is about has happened to it at this instant."""
        if handler.event == "stale":
            stale = self.strategy.ticks.own_stale
            assert stale is not None
            return band(stale, handler.clocks)
        if handler.clocks:
            return own_tick(handler.clocks << PANEL_SHIFT)
        signal = self.strategy.signals.all[handler.timer]
        return band(signal.ready if handler.event == "ready" else signal.late, 1 << signal.number)

    def done(self) -> ops.Stmt:
        """At the end of an instant no clock ticks any more, and no feed becomes stale."""
        ticks = self.strategy.ticks
        own = [place for place in (OWN, ticks.own_stale) if place is not None]
        cleared = [ops.Assign(place, ops.i64(0)) for place in own]
        return self.strategy.loop(tuple(cleared))


def member_or_held(strategy: "Strategy") -> list[ops.Expr]:
    """The condition on which a strategy still has to do with an instrument, if there is one."""
    universe = strategy.universe
    assert universe is not None
    if Trait.MEMBER not in universe.traits:
        return []
    member = ops.Binary("ieq", universe.traits[Trait.MEMBER][0], ops.i64(1))
    lots = ops.Call(strategy.core("engine.position"), (ops.Field(STATE, "e"), THIS))
    return [ops.Binary("or", member, ops.Binary("ine", lots, ops.i64(0)))]


def _call(equation: Across) -> ops.Call:
    call = equation.value
    assert isinstance(call, ops.Call)
    return call


def of_each(equation: Equation) -> bool:
    """Whether an equation is evaluated for each instrument by itself."""
    return isinstance(equation, Gather | Scatter) or equation.place.base == OF_THIS


def all_true(conditions: list[ops.Expr]) -> ops.Expr:
    """Every condition holds; there is one at least."""
    total = conditions[0]
    for condition in conditions[1:]:
        total = ops.Binary("and", total, condition)
    return total
