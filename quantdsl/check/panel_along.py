"""The IR of a stage along time: a lane is an instrument, or the universe as a whole."""

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quantdsl.check.cross import Across, Gather, Scatter, nothing, present
from quantdsl.check.equations import OF_THIS, Equation
from quantdsl.check.graph import Use, fields, used, used_in
from quantdsl.check.market import ENGINE
from quantdsl.check.panel_builder import (
    AHEAD,
    COUNT,
    PLACED,
    SKIPPED,
    Builder,
    Form,
    Kernel,
)
from quantdsl.check.panel_shared import Sharing
from quantdsl.check.panel_stages import Stage
from quantdsl.check.panel_step import unit_paths
from quantdsl.check.panel_tiles import LONG_TILE, TILE, in_tiles, tiled
from quantdsl.check.panel_words import CLOCK, FACTOR, INSTANTS, READ, SEEN, TRAIT, WRITTEN, at
from quantdsl.check.signal_turn import column_word
from quantdsl.check.step import BAR_WORDS, all_of
from quantdsl.check.types import FLOAT, stored
from quantdsl.check.values import PANEL_SHIFT, Warm
from quantdsl.ir import ops
from quantdsl.ir.own import ROW
from quantdsl.ir.walk import expressions

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Signals

Needs = tuple[tuple[int, Warm], ...]
TOLD = ops.Binary("ige", ops.Var("k"), SKIPPED)
"""Whether a bar is one that a lane of a piece of time tells."""


class AlongBuilder(Builder):
    """A stage along time."""

    @cached_property
    def sharing(self) -> Sharing:
        """Its equations that are told the same as others of it."""
        return Sharing(self.strategy.library.lookup, (self.all[n] for n in self.stage.equations))

    @property
    def cut(self) -> bool:
        """Whether lanes may begin amid time, with bars that they only take in. Where some lack bars
        it takes more of these, which pays where they cost nothing beside those that are told."""
        window = self.stage.window
        return window is not None and (not self.gaps or (window.heavy and window.anywhere))

    def kernel(self, wanted: frozenset[str]) -> Kernel:
        written = [name for name in self._names() if name in wanted - self.again.keys()]
        usual, self.usual = self.usual, False
        body = self._body(written)
        split = self.stage.window is not None
        named = fields(used_in(body)) | (set(PLACED) if split else set())  # of either kind
        if usual:
            self.usual, self.reads = True, {}
            body = self._body(written)
        else:
            body = self._where_there(body, written)
        units = tuple(one for one in unit_paths(self.strategy) if one.partition(".")[0] in named)
        start = [
            ops.Assign(one.place, nothing(one.type))
            for one in self.all
            if one.place.base == OF_THIS
            and one.type.kind in ("float", "na")
            and one.place.name in named
        ]
        points = units if self.flat else (*units, "count")
        ends = (ops.Assign(one, ops.i64(0)) for one in (SKIPPED, AHEAD) if split)
        lane = (*self._loop(body), *ends)
        return self.built(lane, written, (), start, points=points, named=named)

    def _where_there(self, body: list[ops.Stmt], written: list[str]) -> list[ops.Stmt]:
        """What is done of each bar, where some lanes lack some."""
        if self.gaps:
            return [self._seen(body, written)]
        if self.flat:
            return body
        return [ops.If(ops.Binary("ilt", ops.Var("k"), COUNT), tuple(body))]

    def _counts(self, mask: int) -> bool:
        """Whether a lane counts the ticks of these clocks itself."""
        return mask >> PANEL_SHIFT != 0

    def _place(self, instant: ops.Expr, row: ops.SizeName) -> ops.Expr:
        """Where in a column an instant of the chunk is."""
        if self.stage.window is not None:
            instant = ops.Binary("iadd", instant, AHEAD)
        return ops.Binary("imul", instant, ops.SizeOf(row))

    def _loop(self, body: list[ops.Stmt]) -> list[ops.Stmt]:
        """What is done of each bar, over the bars of a chunk."""
        k, own = ops.Var("k"), ops.SizeName(ROW)
        places = {"at": self._place(k, own), "to": self._place(k, self.made_row)}
        first = [ops.Let(name, ops.I64_T, place) for name, place in places.items()]
        if self.flat:
            columns = {name: self.column(name) for name in self.reads}
            size = LONG_TILE if self.stage.window is None else TILE
            where = partial(self._place, row=own)
            return in_tiles(columns, where, (*first, *body), size)
        return [ops.For("k", ops.i64(0), ops.Var("n"), (*first, *body))]

    def _seen(self, body: list[ops.Stmt], written: list[str]) -> ops.If:
        """What is done of a bar that is there; cross-sections find nothing of one that is not."""
        seen = ops.Binary("ine", self._read(SEEN), ops.i64(0))
        columns = self.columns
        lacks = [
            ops.Assign(at(READ, self.column(name)), ops.as_word(nothing(type_), stored(type_)))
            for name in written
            if name in columns
            for type_ in (self.all[columns[name]].type,)
        ]
        again = {number for number in self.again.values() if number in self.stage.shown}
        word = ops.as_word(nothing(FLOAT), ops.F64_T)
        lacks += [ops.Assign(self._shown_at(number), word) for number in sorted(again)]
        return ops.If(seen, tuple(body), tuple(lacks))

    def _body(self, written: list[str]) -> list[ops.Stmt]:
        """What is done of each bar."""
        stores = [*self._stores(written)]
        parts = self.sharing.answers()
        parts += [stmt for n in self.stage.equations for stmt in self._evaluated(n)]
        uses = used_in([*parts, *stores])
        before = [*self._counters(uses), *self._loads(uses), *self._bars(uses)]
        if self.cut:
            stores = [ops.If(TOLD, tuple(stores))]
        return [*before, *parts, *stores]

    @property
    def columns(self) -> dict[str, int]:
        """The gathers of this stage by the name of their column."""
        return {self.all[n].place.name: n for n in self.own if isinstance(self.all[n], Gather)}

    def _names(self) -> Iterator[str]:
        for n in self.stage.equations:
            equation = self.all[n]
            if isinstance(equation, Gather):
                yield equation.place.name
            else:
                yield from (name for name, _, _ in self.types(equation.place, equation.type))

    def _evaluated(self, n: int) -> list[ops.Stmt]:
        """The statements of one equation of this stage."""
        equation = self.all[n]
        if isinstance(equation, Gather):
            return []
        if isinstance(equation, Scatter):
            ((source, _),) = used(equation.value)
            value = ops.as_value(self._read(source), stored(equation.type))
            return [ops.Assign(equation.place, value), *self._kept(equation)]
        stmts = [*self.sharing.assigned(equation), *self._kept(equation)]
        if self.cut and self.strategy.library.calls_kernel(equation.value):
            stmts = [ops.If(TOLD, tuple(stmts))]
        return self._guarded(equation, stmts)

    def _guarded(self, equation: Equation, stmts: list[ops.Stmt]) -> list[ops.Stmt]:
        """Statements that wait until all that an equation needs is there."""
        needs = self._needs(equation.needs)
        return [ops.If(all_of(needs), tuple(stmts))] if needs and stmts else stmts

    def _needs(self, needs: Needs) -> list[ops.Expr]:
        """The conditions under which it is, where that is not known."""
        conditions = self.assembly.needs(needs)  # the state has the same words in any case
        return [] if self.usual else conditions

    def _kept(self, equation: Equation) -> list[ops.Stmt]:
        """Its histories grow by its value."""
        return self.turn.strategy.equations.evaluate(equation)[1:]

    def _read(self, name: str) -> ops.Expr:
        number = self.read(name)
        return tiled(name) if self.flat else at(READ, number)

    def _loads(self, uses: set[Use]) -> list[ops.Stmt]:
        """What stages before this one, and the host, have for this bar."""
        stmts: list[ops.Stmt] = []
        universe = self.strategy.universe
        assert universe is not None
        names = fields(uses)
        for which, (place, _) in universe.traits.items():
            if place.name in names:
                stmts.append(ops.Assign(place, self._read(f"{TRAIT}{int(which)}")))
        factor = universe.factor
        if factor is not None and factor.name in names:
            stmts.append(ops.Assign(factor, ops.as_value(self._read(FACTOR), ops.F64_T)))
        for mask, counter in self.strategy.equations.masks.items():
            if not self._counts(mask) and counter.name in names:
                stmts.append(ops.Assign(counter, self._read(INSTANTS)))
        for name, column in CLOCK.items():
            if (ENGINE.name, name) in uses:
                stmts.append(ops.Assign(ops.Field(ENGINE, name), self._read(column)))
        for n, equation in enumerate(self.all):
            if n in self.own or isinstance(equation, Gather):
                continue
            rings = self.graph.kept(equation.place.name, names)
            if equation.place.name not in names and not rings:
                continue
            if isinstance(equation, Across) and equation.fills:
                continue  # who reads it is a Scatter
            for name, place, type_ in self.types(equation.place, equation.type):
                stmts.append(ops.Assign(place, ops.as_value(self._read(name), type_)))
            history = self._kept(equation)
            always = isinstance(equation, Across | Scatter)
            stmts += history if always else self._guarded(equation, history)
        (place,) = self.strategy.bars.values()
        read = {part for name, part in uses if name == place.name and part}
        read |= {
            part
            for call in self._calls()
            for number, arg in enumerate(call.args)
            if arg == place
            for part in self._parts(call.func, number)
        }
        read |= {
            source.name
            for source, _ in self.graph.kept(place.name, names)
            if isinstance(source, ops.Field)
        }
        for name in BAR_WORDS:
            if name in read:
                stmts.append(ops.Assign(ops.Field(place, name), self._read(f"bar.{name}")))
        return stmts

    def _calls(self) -> Iterator[ops.Call]:
        """The indicators of this stage."""
        for n in self.stage.equations:
            if isinstance(call := self.all[n].value, ops.Call):
                yield call

    def _parts(self, func: str, number: int) -> set[str]:
        """The fields of its parameter of this number that a function reads, or what it calls."""
        decl = self.strategy.library.lookup(func)
        assert isinstance(decl, ops.Func)
        own = ops.Var(decl.params[number].name)
        found: set[str] = set()
        for node in expressions(decl.body):
            if isinstance(node, ops.Field) and node.base == own:
                found.add(node.name)
            elif isinstance(node, ops.Call):
                for at_, arg in enumerate(node.args):
                    if arg == own:
                        found |= self._parts(node.func, at_)
        return found

    def _counters(self, uses: set[Use]) -> list[ops.Stmt]:
        names = fields(uses)
        return [
            ops.Assign(counter, ops.Binary("iadd", counter, ops.i64(1)))
            for mask, counter in self.strategy.equations.masks.items()
            if self._counts(mask) and counter.name in self._counted(names)
        ]

    def _counted(self, names: set[str]) -> set[str]:
        """What is counted: by a guard, or for the slots of a history."""
        rings = self.strategy.equations.rings.values()
        counters = {r.counter.name for r in rings if r.counter and r.place.name in names}
        return names | counters

    def _bars(self, uses: set[Use]) -> list[ops.Stmt]:
        """Histories of the bars themselves."""
        (place,) = self.strategy.bars.values()
        kept_ = self.graph.kept(place.name, fields(uses))
        return [stmt for source, ring in kept_ for stmt in ring.record(source)]

    def _stores(self, written: list[str]) -> Iterator[ops.Stmt]:
        for name in written:
            yield ops.Assign(at(READ, self.column(name)), self._value(name))
        for number, column in self.shown():
            if self.usual:
                column = replace(column, defined=ops.boolean(True))
            yield ops.Assign(self._shown_at(number), column_word(column))

    def _shown_at(self, number: int) -> ops.Elem:
        """The word of this bar of a column that is shown."""
        column_at = ops.Binary("imul", ops.i64(number), self.made_span)
        return ops.Elem(WRITTEN, ops.Binary("iadd", column_at, ops.Var("to")))

    def _value(self, name: str) -> ops.Expr:
        """The word of a column that a later stage reads."""
        columns = self.columns
        if name in columns:
            gather = self.all[columns[name]]
            assert isinstance(gather, Gather)
            conditions = [*gather.conditions, *self._needs(gather.needs)]
            conditions.append(present(gather.type, gather.value))
            value = ops.Select(all_of(conditions), gather.value, nothing(gather.type))
            return ops.as_word(value, stored(gather.type))
        equation = self.all[self.numbers[name.partition(".")[0]]]
        found = {n: (place, t) for n, place, t in self.types(equation.place, equation.type)}
        return ops.as_word(*found[name])


class WholeBuilder(AlongBuilder):
    """A stage of the universe as a whole: one lane, which every instant is a bar of.

    Of flat columns each thread is that lane once more, and writes the word that it will read.
    """

    def __init__(self, turn: "Signals", stage: Stage, table: dict[str, int], form: Form) -> None:
        super().__init__(turn, stage, table, form._replace(usual=False, gaps=False))

    def kernel(self, wanted: frozenset[str]) -> Kernel:
        made = super().kernel(wanted)
        if self.flat:
            return made
        return replace(
            made, common=frozenset(made.writes), shown_common=self.stage.shown, points=()
        )

    def _where_there(self, body: list[ops.Stmt], written: list[str]) -> list[ops.Stmt]:
        return body

    def _counts(self, mask: int) -> bool:
        return True
