"""The part of a step that a universe has: each instrument's equations, then all at once.

Equations stand in the order of their dependence. Those of single instruments that follow each
other form one function of the instrument, which a loop calls for each; a batch step over whole
columns stands between two such loops.
"""

from collections.abc import Container
from typing import TYPE_CHECKING

from quantdsl.check.cross import Across, Gather, N, Scatter, nothing, present
from quantdsl.check.equations import OF_THIS, PANEL, STATE, THIS, Equation
from quantdsl.check.universe import TICKED as OWN_TICKED
from quantdsl.check.universe import initial
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.events.codes import Kind, Trait
from quantdsl.ir import ops

if TYPE_CHECKING:
    from quantdsl.check.step import Assembly
    from quantdsl.check.strategy import Handler

OWN = ops.Field(OF_THIS, OWN_TICKED)
STRUCT = ops.StructType("Panel")


def band(x: ops.Expr, mask: int) -> ops.Expr:
    """x and mask differ from 0 in common bits."""
    return ops.Binary("ine", ops.Binary("iand", x, ops.i64(mask)), ops.i64(0))


def own_tick(clocks: int) -> ops.Expr:
    """Whether a clock of this instrument ticks at this instant."""
    return band(OWN, clocks >> PANEL_SHIFT)


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

    def struct(self) -> ops.StructDecl:
        """What is kept of each instrument."""
        return ops.StructDecl(
            "Panel", (ops.FieldDecl(OWN_TICKED, ops.I64_T), *self.equations.panel)
        )

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
            for name in ("tick_num", "tick_den", "lot_num", "lot_den"):
                stmts.append(ops.Assign(ops.Field(place, name), ops.Field(source, name)))
        return [self.strategy.loop(tuple(stmts))]

    # ---- events ----

    def bar(
        self, inst: ops.Expr, side: ops.Expr, words: dict[str, str], event: ops.Place
    ) -> list[ops.Stmt]:
        """A bar of an instrument into its part of the state."""
        part = ops.Elem(PANEL, inst)
        own = ops.Field(part, OWN_TICKED)
        bit = ops.Binary("shl", ops.i64(1), side)
        stmts: list[ops.Stmt] = [ops.Assign(own, ops.Binary("ior", own, bit))]
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
        self, ticked: ops.Expr, words: dict[str, str], wanted: Container[int] | None = None
    ) -> list[ops.Stmt]:
        """Bar histories, then the equations in order: those of these numbers, or all."""
        chosen = [
            one for n, one in enumerate(self.equations.all) if wanted is None or n in wanted
        ]
        # What the guards count is known only once all of them are made.
        parts = [(one, self._part(one)) for one in chosen]
        own: list[ops.Stmt] = list(self.counters())
        for (_, clock), place in self.strategy.bars.items():
            kept = [
                stmt
                for name in words
                for stmt in self.equations.record(ops.Field(place, name))
            ]
            if kept:
                own.append(ops.If(own_tick(1 << PANEL_SHIFT + clock), tuple(kept)))
        stmts: list[ops.Stmt] = []
        for equation, part in parts:
            if _of_each(equation):
                own += part
                continue
            stmts += [self.strategy.loop(tuple(own))] if own else []
            own = []
            stmts += part
        stmts += [self.strategy.loop(tuple(own))] if own else []
        anything = ops.Binary("ine", ticked, ops.i64(0))
        return [ops.If(anything, tuple(stmts))] if stmts else []

    def _part(self, equation: Equation) -> list[ops.Stmt]:
        if isinstance(equation, Gather):
            conditions = [own_tick(equation.clocks), *equation.conditions]
            conditions += self.assembly.needs(equation.needs)
            conditions.append(present(equation.type, equation.value))
            cell = ops.Elem(equation.place, THIS)
            missing = nothing(equation.type)
            value = ops.Select(all_true(conditions), equation.value, missing)
            return [ops.Assign(cell, value, equation.line)]
        if isinstance(equation, Scatter):
            kept = self.equations.evaluate(equation)
            first, rest = kept[:1], kept[1:]
            ticks = own_tick(equation.clocks)
            return [*first, *([ops.If(ticks, tuple(rest))] if rest else [])]
        if isinstance(equation, Across):
            ticks = band(ops.Field(STATE, "ticked"), equation.clocks)
            return [ops.If(ticks, self._batch(equation))]
        conditions = self.assembly.needs(equation.needs)
        if _of_each(equation):
            conditions = [own_tick(equation.clocks), *conditions]
        else:
            conditions = [band(ops.Field(STATE, "ticked"), equation.clocks), *conditions]
        return [ops.If(all_true(conditions), tuple(self.equations.evaluate(equation)))]

    def _batch(self, equation: Across) -> tuple[ops.Stmt, ...]:
        call = equation.value
        assert isinstance(call, ops.Call)
        if equation.fills:
            return (ops.Do(call, equation.line),)
        return tuple(self.equations.evaluate(equation))

    def handler(self, handler: "Handler", needs: list[ops.Expr]) -> ops.Stmt:
        """`on bar` for each instrument with a bar that is a member, or of which some is held; so
        too `on ready` for those whose signal has come."""
        universe = self.strategy.universe
        assert universe is not None
        conditions = [self._happens(handler), *needs]
        if Trait.MEMBER in universe.traits:
            member = ops.Binary("ieq", universe.traits[Trait.MEMBER][0], ops.i64(1))
            lots = ops.Call(self.strategy.core("engine.position"), (ops.Field(STATE, "e"), THIS))
            conditions.append(ops.Binary("or", member, ops.Binary("ine", lots, ops.i64(0))))
        call = ops.Do(ops.Call(handler.func, (STATE, THIS)))
        return self.strategy.loop((ops.If(all_true(conditions), (call,)),))

    def _happens(self, handler: "Handler") -> ops.Expr:
        """What an instrument's handler is about has happened to it at this instant."""
        if handler.event == "bar":
            return own_tick(handler.clocks << PANEL_SHIFT)
        signal = self.strategy.signals.all[handler.timer]
        return band(signal.ready if handler.event == "ready" else signal.late, 1 << signal.number)

    def done(self) -> ops.Stmt:
        """At the end of an instant no clock ticks any more."""
        return self.strategy.loop((ops.Assign(OWN, ops.i64(0)),))


def _of_each(equation: Equation) -> bool:
    """Whether an equation is evaluated for each instrument by itself."""
    return isinstance(equation, Gather | Scatter) or equation.place.base == OF_THIS


def all_true(conditions: list[ops.Expr]) -> ops.Expr:
    """Every condition holds; there is one at least."""
    total = conditions[0]
    for condition in conditions[1:]:
        total = ops.Binary("and", total, condition)
    return total
