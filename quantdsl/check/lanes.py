"""The IR of the lanes of a sweep, and of the columns that they read.

A lane is a run without what a report of one run needs: no curve, and no equation that only a plot
reads. Its state holds nothing else that no function names. Columns are filled by lanes of another
kind, one for each distinct value, which evaluate the hoisted equations alone.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from quantdsl.check.columns import Hoisted, Live, Plan, live, roots
from quantdsl.check.cross import N
from quantdsl.check.equations import OF_THIS, STATE, THIS
from quantdsl.check.graph import Graph, fields, kept, target, used_by, used_in
from quantdsl.check.market import ENGINE
from quantdsl.check.panel_rare import rare, reads
from quantdsl.check.panel_step import OWN, Spared, band, own_tick
from quantdsl.check.panel_step import ROW as ROW_FIELD
from quantdsl.check.step import (
    BAR_WORDS,
    BASE_FIELDS,
    ENGINE_WORDS,
    EVENTS_IN,
    STATE_PARAM,
    TICKED,
    Assembly,
    grouped,
    instant,
)
from quantdsl.check.types import stored
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.ir import ops

if TYPE_CHECKING:
    from quantdsl.ir.link import Decl

MARKET = ("books", "book_orders")
"""The last fields of the engine: what no lane can change, and all lanes have in common."""
STEP = "column_step"
"""Field of the state: words of the table from one event to the next."""
COLUMNS, AT = ops.Var("columns"), ops.Var("at")
"""The table, and where the words of the event at hand begin."""
ROW = ops.Binary("imul", ops.Var("k"), ops.Field(STATE, STEP))
COLUMNS_READ = ops.ParamDecl(COLUMNS.name, ops.BufferType(ops.I64_T))
COLUMNS_WRITTEN = ops.ParamDecl(COLUMNS.name, ops.BufferType(ops.I64_T), inout=True)
SEEN = ops.Var("seen")
"""How often each clock has ticked."""


def _seen(clock: int) -> str:
    """The field of an instrument that counts the ticks of one of its clocks."""
    return f"seen.{clock}"


def column(number: int | str) -> str:
    """The field of the state that says where the column of this word of the plan begins."""
    return f"column.{number}"


class Lanes:
    """Builds lanes of one strategy; `plan` says what they load."""

    def __init__(self, assembly: Assembly, plan: Plan) -> None:
        self.assembly = assembly
        self.strategy = assembly.strategy
        self.graph = Graph(assembly.strategy)
        self.plan = plan

    def lane(self) -> "list[Decl]":
        """What stands for the functions and the state of a single run."""
        found = self._found()
        known = len(self.strategy.loops)
        step = self.assembly.step(self._step_equations(found))
        handlers = [f for f in self.strategy.funcs if f.name.startswith("handler.")]
        own = [*handlers, *self.assembly.own_loops, *self.strategy.loops[known:]]
        uses = used_in(step) | used_by(own)
        named = fields(uses)
        row = [ops.Let(AT.name, ops.I64_T, ROW)] if self.plan.words else []
        told = self._told(named)
        lane = _over_events((*told, *instant(self._counters(named)), *row, *step), COLUMNS_READ)
        init = self._init(named, self.assembly.engine_init)
        ingest = self.assembly.ingest(uses)
        made = self.strategy.taken(known)
        funcs = [ingest, lane, init, *self._admission(), *made]
        always = [*(f.name for f in BASE_FIELDS), *(p.field for p in self.strategy.params)]
        return [*self._memory((*funcs, *own), always), *funcs]

    def _found(self) -> Live:
        """What a lane evaluates and loads."""
        planned = {one.number: one for one in self.plan.hoisted}
        return live(self.graph, roots(self.assembly), lambda n, _parts, _uses: planned.get(n))

    def columns(self, params: tuple[str, ...]) -> "list[Decl]":
        """Lanes that fill the columns of the equations that depend on these params alone."""
        wanted = [one for one in self.plan.hoisted if one.params == params]
        places = {(self._place(one), part) for one in wanted for part in one.parts}
        found = live(self.graph, places, lambda *_: None)
        if self.assembly.panel is not None:
            return self._panel_columns(found, wanted)
        equations = self._equations(found, wanted)
        uses = used_in(equations)
        named = fields(uses)
        loop = _over_events(self._filling(named, equations), COLUMNS_WRITTEN)
        funcs = [self.assembly.ingest_bars(uses), loop, self._init(named, None)]
        engine = self.strategy.library.lookup("engine.Engine")
        assert isinstance(engine, ops.StructDecl)
        read = tuple(f for f in engine.fields if f.name in ENGINE_WORDS)
        always = [p.field for p in self.strategy.params if p.name in params]
        return [self._state(funcs, always), ops.StructDecl(engine.name, read), *funcs]

    def warming(self) -> "list[Decl]":
        """What finds the instant at which clocks of ticks have ticked often enough.

            warming(inout s, events, n, needs, inout seen) -> the number of its last event; n: none

        Whether a book ticks only the core knows, which here builds it and does no more.
        """
        panel, width = self.assembly.panel, self.strategy.width
        of_all = width if panel is not None else len(self.strategy.instruments) * width
        of_each = range(PANEL_SHIFT, PANEL_SHIFT + width) if panel is not None else ()
        counted: list[ops.Stmt] = []
        short: ops.Expr = ops.boolean(False)
        for bit in (*range(of_all), *of_each):
            place = ops.Elem(SEEN, ops.i64(bit))
            if bit < of_all:
                one = ops.Unary("bool_to_i64", band(TICKED, 1 << bit))
                counted.append(ops.Assign(place, ops.Binary("iadd", place, one)))
            lacks = ops.Binary("ilt", place, ops.Elem(ops.Var("needs"), ops.i64(bit)))
            short = ops.Binary("or", short, lacks)
        loop = (
            *instant([]),
            *counted,
            *([] if panel is None else [self._most_seen()]),
            ops.If(ops.Unary("not", short), (ops.Return(ops.Var("k")),)),
            ops.Assign(TICKED, ops.i64(0)),
        )
        body = (ops.For("k", ops.i64(0), ops.Var("n"), loop), ops.Return(ops.Var("n")))
        counts = (
            ops.ParamDecl("needs", ops.BufferType(ops.I64_T)),
            ops.ParamDecl("seen", ops.BufferType(ops.I64_T), inout=True),
        )
        found = ops.Func("warming", (*EVENTS_IN, *counts), ops.I64_T, body)
        known = len(self.strategy.loops)
        funcs = [self.assembly.ingest(set()), found, self._init(set(), self.assembly.engine_init)]
        funcs += self.strategy.taken(known)
        state, *struct = self._memory(funcs, [f.name for f in BASE_FIELDS])
        if panel is not None:
            (own,) = struct
            assert isinstance(own, ops.StructDecl)
            ticks = tuple(ops.FieldDecl(_seen(clock), ops.I64_T) for clock in range(width))
            struct = [ops.StructDecl(own.name, (*own.fields, *ticks))]
        return [state, *struct, *funcs]

    def _most_seen(self) -> ops.Stmt:
        """Of a universe: how often each clock has ticked for the instrument that has most ticks."""
        body: list[ops.Stmt] = []
        for clock in range(self.strategy.width):
            own = ops.Field(OF_THIS, _seen(clock))
            one = ops.Unary("bool_to_i64", own_tick(1 << PANEL_SHIFT + clock))
            most = ops.Elem(SEEN, ops.i64(PANEL_SHIFT + clock))
            body.append(ops.Assign(own, ops.Binary("iadd", own, one)))
            body.append(ops.Assign(most, ops.Binary("imax", most, own)))
        body.append(ops.Assign(OWN, ops.i64(0)))
        return ops.For(THIS.name, ops.i64(0), ops.SizeOf(N), tuple(body))

    # ---- a universe ----

    def _step_equations(self, found: Live) -> list[ops.Stmt]:
        """The equations of a lane's step, and the requests for signals."""
        signals = self.assembly.signal_step
        if self.assembly.panel is None:
            return self._equations(found, (), signals.ask())
        return self._panel_equations(found) + signals.ask_all()

    def _panel_equations(self, found: Live, wanted: Sequence[Hoisted] = ()) -> list[ops.Stmt]:
        """The equations of a universe, evaluated, or loaded from a column; `wanted` are stored."""
        panel = self.assembly.panel
        assert panel is not None
        spared = Spared(
            {one.number: [self._load(one, part) for part in one.parts] for one in found.loaded},
            {one.number: [self._store(one, part) for part in one.parts] for one in wanted},
            self._rare(found, wanted),
            frozenset(fields(found.uses)),
        )
        return panel.equations_of_step(TICKED, BAR_WORDS, frozenset(found.evaluated), spared)

    def _rare(self, found: Live, wanted: Sequence[Hoisted]) -> frozenset[int]:
        """The equations that are needed only where a timer asks, in a lane, or to fill columns
        that are."""
        if not wanted:
            return rare(self.graph, found, *reads(self.assembly))
        loaded = self._rare(self._found(), ())
        often = {self._place(one) for one in wanted if one.number not in loaded}
        return rare(self.graph, found, often, set())

    def _filling(self, named: set[str], equations: Iterable[ops.Stmt]) -> tuple[ops.Stmt, ...]:
        """An instant of lanes that write the words of columns."""
        row = ops.Let(AT.name, ops.I64_T, ROW)
        ticked = ops.Assign(TICKED, ops.i64(0))
        return (*instant(self._counters(named)), row, *equations, ticked)

    def _panel_columns(self, found: Live, wanted: Sequence[Hoisted]) -> "list[Decl]":
        """As `columns`, on a universe. The engine takes all events in: factors of corporate actions
        are made of its last closes."""
        panel, known = self.assembly.panel, len(self.strategy.loops)
        assert panel is not None
        equations = self._panel_equations(found, wanted)
        uses = used_in(equations)
        named = fields(uses)
        loop = (*self._told(named), *self._filling(named, equations), panel.done())
        ingest = self.assembly.ingest(uses)
        init = self._init(named, self.assembly.engine_init)
        lane = _over_events(loop, COLUMNS_WRITTEN)
        funcs = [ingest, lane, init, *self.strategy.taken(known)]
        always = [*(f.name for f in BASE_FIELDS), *(p.field for p in self.strategy.params)]
        return [*self._memory(funcs, always), *funcs]

    def _told(self, named: set[str]) -> list[ops.Stmt]:
        """Where the words of the event at hand begin, for the instrument whose bar it is."""
        return [ops.Assign(ops.Field(STATE, ROW_FIELD), ROW)] if ROW_FIELD in named else []

    def _memory(self, funcs: Sequence[ops.Func], always: Iterable[str]) -> "list[Decl]":
        """The state, and what of it each instrument of a universe has."""
        panel = self.assembly.panel
        if panel is None:
            return [self._state(funcs, always)]
        own = [field.name for field in panel.fields()]
        return [self._state(funcs, [*always, *own]), panel.struct(fields(used_by(funcs)))]

    # ---- equations ----

    def _place(self, one: Hoisted) -> str:
        return self.graph.all[one.number].place.name

    def _equations(
        self,
        found: Live,
        wanted: Sequence[Hoisted],
        asked: Sequence[tuple[ops.Expr, list[ops.Stmt]]] = (),
    ) -> list[ops.Stmt]:
        """Histories of bars and ticks, then the equations: evaluated, or loaded from a column; then
        what is `asked` for."""
        names = fields(found.uses)
        parts = [
            (self.assembly.ticks(*key), ring.record(source))
            for key, place in self.strategy.bars.items()
            for source, ring in self.graph.kept(place.name, names)
        ]
        parts += self.assembly.tick_step.histories(names)
        loads = {one.number: one for one in found.loaded}
        stores = {one.number: one for one in wanted}
        for number in sorted([*found.evaluated, *loads]):
            equation = self.graph.all[number]
            if number in loads:
                stmts = [self._load(loads[number], part) for part in loads[number].parts]
            else:
                stmts = [ops.Assign(equation.place, equation.value, equation.line)]
            if number in stores:
                stmts += [self._store(stores[number], part) for part in stores[number].parts]
            for source, ring in self.graph.kept(equation.place.name, names):
                stmts += ring.record(source)
            parts.append((self.assembly.guard(equation), stmts))
        return grouped([*parts, *asked])

    def _word(self, one: Hoisted, part: str) -> tuple[ops.Field, ops.ScalarType, ops.Elem]:
        """A part of an equation's value, its type, and its word in the row at hand."""
        equation = self.graph.all[one.number]
        number = self.plan.words.index((one, part))
        begins: ops.Expr = AT
        if equation.place.base == OF_THIS:
            begins = ops.Field(OF_THIS, ROW_FIELD)
        index = ops.Binary("iadd", begins, ops.Field(STATE, column(number)))
        if not part:
            return equation.place, stored(equation.type), ops.Elem(COLUMNS, index)
        decl = self.strategy.library.lookup(equation.type.of)
        assert isinstance(decl, ops.StructDecl)
        type_ = next(field.type for field in decl.fields if field.name == part)
        assert isinstance(type_, str)
        return ops.Field(equation.place, part), type_, ops.Elem(COLUMNS, index)

    def _load(self, one: Hoisted, part: str) -> ops.Stmt:
        place, type_, word = self._word(one, part)
        return ops.Assign(place, ops.as_value(word, type_))

    def _store(self, one: Hoisted, part: str) -> ops.Stmt:
        place, type_, word = self._word(one, part)
        return ops.Assign(word, ops.as_word(place, type_))

    # ---- what stands around them ----

    def _counters(self, named: set[str]) -> list[ops.Stmt]:
        return [stmt for stmt in self.assembly.counters() if target(stmt) in named]

    def _init(self, named: set[str], engine: ops.Stmt | None) -> ops.Func:
        """Prepares what is named; without an engine, nothing of it."""
        body = self.assembly.prepared()
        if engine is None:
            body = [stmt for stmt in body if target(stmt) not in ("", ENGINE.name)]
        else:
            body = [engine, *body]
        always = {place.name for place in self.assembly.tick_step.bar_step.limits.values()}
        return ops.Func("init", (STATE_PARAM,), None, tuple(kept(body, named | always)))

    def _admission(self) -> list[ops.Func]:
        """`warm`, and `admits` with what both of them read."""
        warm, admits = self.assembly.warm_up(), self.assembly.admits()
        body = kept(admits.body, fields(used_in(warm.body)))
        return [warm, msgspec.structs.replace(admits, body=tuple(body))]

    def _state(self, funcs: Iterable[ops.Func], always: Iterable[str]) -> ops.StructDecl:
        """The fields that functions name; those of the host in any case."""
        named = {*always, *fields(used_by(funcs))}
        words = (STEP, ROW_FIELD, *(column(number) for number in range(len(self.plan.words))))
        engine, *base = BASE_FIELDS
        every = (
            *base,
            *self.assembly.equations.fields,
            *(() if self.assembly.panel is None else self.assembly.panel.fields()),
            *(ops.FieldDecl(name, ops.I64_T) for name in words),
            engine,  # last, so that what it holds of the market is the end of a lane
        )
        return ops.StructDecl("State", tuple(one for one in every if one.name in named))


def _over_events(loop: tuple[ops.Stmt, ...], columns: ops.ParamDecl) -> ops.Func:
    body = (ops.For("k", ops.i64(0), ops.Var("n"), loop),)
    return ops.Func("lane", (*EVENTS_IN, columns), None, body)
