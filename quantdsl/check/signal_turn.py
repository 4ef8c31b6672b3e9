"""The IR of `quantdsl signals`: the equations of a strategy without its handlers and orders.

The turn takes events in, evaluates the very equations of a run that a `let` of the strategy needs,
and writes a row for each bar of the finest clock, on ticks for each instant at which a clock of
the instrument ticks: time, instrument, a word of each column. What is not defined yet is missing
there: NaN of a float, MISSING of anything else.
"""

from collections.abc import Iterator

from msgspec import Struct

from quantdsl.check import arith
from quantdsl.check.bindings import Local
from quantdsl.check.columns import NO_COLUMNS, live
from quantdsl.check.equations import STATE, THIS
from quantdsl.check.graph import fields, kept, target, used, used_by, used_in
from quantdsl.check.hosted import HostCall
from quantdsl.check.lanes import Lanes
from quantdsl.check.market import ENGINE, BarsBinding
from quantdsl.check.panel_step import band, own_tick
from quantdsl.check.step import (
    BAR_WORDS,
    ENGINE_WORDS,
    EVENTS_IN,
    NAN,
    STATE_PARAM,
    TICKED,
    Assembly,
    all_of,
    instant,
)
from quantdsl.check.types import MISSING, NUMERIC
from quantdsl.check.universe import takes_part
from quantdsl.check.values import PANEL_SHIFT, Value, Warm
from quantdsl.ir import ops
from quantdsl.ir.link import Decl
from quantdsl.lang import ast

ROW_WORDS = 2
"""Words of a row before those of the columns: time, number of the instrument."""
OUT, CAPACITY, ROWS = ops.Var("out"), ops.Var("capacity"), ops.Var("rows")
ENTRY = "signals"


class Column(Struct, frozen=True):
    """A column of the table: `kind` is float, int, bool or time; `warm` tells what it waits for."""

    name: str
    kind: str
    value: ops.Expr
    defined: ops.Expr
    warm: tuple[tuple[int, Warm], ...] = ()


class Signals(Lanes):
    """Builds the turn of one strategy; with `closes` a row ends with the close of its bar and, of a
    universe that not all are in, with whether its instrument is.

    Its columns are the strategy's equations, or the arguments `of` a function of the host.
    """

    def __init__(
        self, assembly: Assembly, *, closes: bool = False, of: HostCall | None = None
    ) -> None:
        super().__init__(assembly, NO_COLUMNS)
        self.constants: list[str] = []
        """Equations that are no series: params alone decide them."""
        self.shown = tuple(self._columns() if of is None else self._arguments(of))
        self.closes = tuple(self._closes()) if closes else ()
        self.partaking = tuple(self._partaking()) if closes else ()

    @property
    def table(self) -> tuple[Column, ...]:
        """All columns of a row of an instrument of a universe, those of a description included."""
        closes = (Column("close", "float", one, ops.boolean(True)) for one in self.closes)
        return (*self.shown, *closes, *self.partaking)

    def decls(self) -> list[Decl]:
        """What stands for the functions and the state of a run."""
        strategy, panel = self.strategy, self.assembly.panel
        known = len(strategy.loops)
        rows = self._rows()
        columns = (*self.shown, *self.partaking)
        read = [part for one in columns for part in (one.value, one.defined)]
        found = live(self.graph, used(*read), lambda *_: None)
        if panel is None:
            equations, done = self._equations(found, ()), []
        else:
            wanted = frozenset(found.evaluated)
            equations, done = panel.equations_of_step(TICKED, BAR_WORDS, wanted), [panel.done()]
        uses = used_in([*equations, *rows]) | used_by(strategy.loops[known:])
        ticks = ops.Binary("ine", TICKED, ops.i64(0))
        clear = ops.Assign(TICKED, ops.i64(0))
        turn = (
            *instant(self._counters(fields(uses))),
            ops.If(ticks, (*equations, *rows, *done, clear)),
        )
        adjusts = strategy.universe is not None and strategy.universe.factor is not None
        whole = adjusts or bool(strategy.ticks)  # the core makes factors, and keeps books
        ingest = self.assembly.ingest(uses) if whole else self.assembly.ingest_bars(uses)
        init = self._start(fields(uses), whole=whole)
        funcs = [ingest, _entry(turn), init, self._admission()[1], *strategy.taken(known)]
        return [*self._structs(funcs, whole=whole), *funcs]

    # ---- columns ----

    def _columns(self) -> Iterator[Column]:
        awaited = {signal.name: signal.equation for signal in self.strategy.signals.all}
        for node in self.strategy.node.items:
            if not isinstance(node, ast.Let):
                continue
            name = node.name.id
            value = awaited[name] if name in awaited else self.strategy.scope.names[name].get()
            if value.series is None or not value.series.clocks:
                self.constants.append(node.name.id)
            else:
                yield from self._parts(node.name.id, value, node)

    def _arguments(self, call: HostCall) -> Iterator[Column]:
        """What a function of the host takes: its series, then its constants."""
        for number, value in enumerate(call.series):
            yield self._column(f"{number}", value)
        for name, value in call.constants:
            yield Column(name, "float", value.ir, ops.boolean(True))

    def _parts(self, name: str, value: Value, node: ast.Let) -> Iterator[Column]:
        """The column of a value; of a struct one for each of its fields."""
        if value.type.kind != "struct":
            yield self._column(name, value)
            return
        library = self.strategy.library
        for entry in library.struct_bindings[value.type.of].fields:
            part = ast.Attr(node.span, node.value, entry.name, node.span)
            yield from self._parts(
                f"{name}.{entry.name}", library.field(self.strategy.cx, value, part), node
            )

    def _column(self, name: str, value: Value) -> Column:
        assert value.series is not None
        kind, warm = value.type.kind, value.series.warm
        defined = all_of(self.assembly.needs(warm))
        if kind in ("bool", "time"):
            return Column(name, kind, value.ir, defined, warm)
        if kind in ("float", "na") or (kind in NUMERIC and kind != "int"):
            number = arith.as_float(self.strategy.cx, value).ir
            return Column(name, "float", number, defined, warm)
        return Column(name, "int", value.ir, defined, warm)

    def _closes(self) -> Iterator[ops.Expr]:
        """The last close of each, of a universe of THIS one: adjusted if asked for."""
        universe = self.strategy.universe
        for traded in self.strategy.instruments:
            close = BarsBinding(self.strategy, traded, 0).member("close")
            assert isinstance(close, Local)
            price = arith.as_float(self.strategy.cx, close.value).ir
            factor = None if universe is None else universe.factor
            yield price if factor is None else ops.Binary("fmul", price, factor)

    def _partaking(self) -> Iterator[Column]:
        """Whether THIS one takes part in a cross-section, where there are conditions."""
        universe = self.strategy.universe
        conditions = [] if universe is None else takes_part(self.strategy, self.strategy.cx)
        if universe is not None and conditions:
            chosen = universe.chosen
            warm = chosen.series.warm if chosen is not None and chosen.series is not None else ()
            defined = all_of(self.assembly.needs(warm))
            yield Column("partaking", "bool", all_of(conditions), defined, warm)

    # ---- statements ----

    def _rows(self) -> list[ops.Stmt]:
        """A row for each instrument whose finest bar closes now, or that ticks, from the start of
        trading on."""
        strategy = self.strategy
        clocks = range(strategy.width if strategy.ticks else 1)
        since = ops.Binary("ige", ops.Field(ENGINE, "now"), ops.Field(STATE, "trade_from"))
        if self.assembly.panel is not None:
            mask = sum(1 << PANEL_SHIFT + clock for clock in clocks)
            each = ops.If(own_tick(mask), tuple(self._row(0, THIS)))
            size = ops.SizeOf(ops.SizeName("N_INSTRUMENTS"))
            return [ops.If(since, (ops.For(THIS.name, ops.i64(0), size, (each,)),))]
        bars = [
            ops.If(
                band(TICKED, sum(1 << strategy.clock_bit(traded.index, clock) for clock in clocks)),
                tuple(self._row(traded.index, traded.ir)),
            )
            for traded in strategy.instruments
        ]
        return [ops.If(since, tuple(bars))]

    def _row(self, number: int, instrument: ops.Expr) -> list[ops.Stmt]:
        words = [ops.Field(ENGINE, "now"), instrument, *map(column_word, self.shown)]
        words += map(_bits, self.closes[number : number + 1])
        words += map(column_word, self.partaking)
        stmts: list[ops.Stmt] = []
        for place, word in enumerate(words):
            first = ops.Binary("imul", ops.i64(place), CAPACITY)
            stmts.append(ops.Assign(ops.Elem(OUT, ops.Binary("iadd", first, ROWS)), word))
        return [*stmts, ops.Assign(ROWS, ops.Binary("iadd", ROWS, ops.i64(1)))]

    def _start(self, named: set[str], *, whole: bool) -> ops.Func:
        """Prepares what is named, and of a universe each instrument."""
        panel = self.assembly.panel
        body = [stmt for stmt in self.assembly.prepared() if target(stmt) not in ("", ENGINE.name)]
        limits = self.assembly.tick_step.bar_step.limits.values()
        body = kept(body, {*named, *(place.name for place in limits)})
        if whole:
            body = [self.assembly.engine_init, *body]
        if panel is not None:
            body += panel.prepared()
        return ops.Func("init", (STATE_PARAM,), None, tuple(body))

    def _structs(self, funcs: list[ops.Func], *, whole: bool) -> list[Decl]:
        """The state with what the functions name, and of the engine no more than they do."""
        always = ["e", "trade_from", "ticked", *(p.field for p in self.strategy.params)]
        found = self._memory(funcs, always)
        if not whole:
            engine = self.strategy.library.lookup("engine.Engine")
            assert isinstance(engine, ops.StructDecl)
            read = tuple(f for f in engine.fields if f.name in ENGINE_WORDS)
            found.append(ops.StructDecl(engine.name, read))
        return found


def _bits(number: ops.Expr) -> ops.Expr:
    return ops.Unary("bits", number)


def column_word(column: Column) -> ops.Expr:
    """What a row holds of a column."""
    if column.kind == "float":
        return _bits(ops.Select(column.defined, column.value, NAN))
    whole = column.value
    if column.kind == "bool":
        whole = ops.Unary("bool_to_i64", whole)
    return ops.Select(column.defined, whole, ops.i64(MISSING))


def _entry(turn: tuple[ops.Stmt, ...]) -> ops.Func:
    """signals(state, events, n, out, capacity): takes all events, says how many rows it wrote.

    Word w of row r stands at out[w * capacity + r].
    """
    out = ops.ParamDecl(OUT.name, ops.BufferType(ops.I64_T), inout=True)
    capacity = ops.ParamDecl(CAPACITY.name, ops.I64_T)
    body = (
        ops.Let(ROWS.name, ops.I64_T, ops.i64(0)),
        ops.For("k", ops.i64(0), ops.Var("n"), turn),
        ops.Return(ROWS),
    )
    return ops.Func(ENTRY, (*EVENTS_IN, out, capacity), ops.I64_T, body)
