"""The entry functions of a strategy: init, run, and the step that is one instant.

One instant (language.md section 3): the engine moves the market; equations are evaluated, once,
in the order of their dependence; handlers run; limits are renewed; intents pass the risk gate;
metrics are counted. What the host sends is events, what it gets back are records in the engine's
outbox and, per bar, a row of the curve.
"""

from typing import TYPE_CHECKING

from quantdsl.check import hosted
from quantdsl.check.cross import Across, Gather
from quantdsl.check.equations import STATE, Equation
from quantdsl.check.functions import BAR_UNITS
from quantdsl.check.graph import Use, used_by
from quantdsl.check.logs import LOG_RECORD
from quantdsl.check.market import ENGINE
from quantdsl.check.news import handler_loop
from quantdsl.check.panel_step import ROW, PanelStep, band
from quantdsl.check.signals import SignalStep
from quantdsl.check.tick_step import TickStep
from quantdsl.check.ticks import SOURCES
from quantdsl.check.values import PANEL_SHIFT, Warm
from quantdsl.events.codes import MORE, Kind, TimerSide
from quantdsl.events.messages import Message
from quantdsl.ir import ops

if TYPE_CHECKING:
    from quantdsl.check.strategy import Handler, Strategy

CURVE_WORDS = 2
"""Words of a row of the curve before the plots: time, equity."""

STATE_TYPE = ops.StructType("State")
NAN = ops.Const(ops.F64_T, ops.CANONICAL_NAN_BITS)
TICKED, TIMERS = ops.Field(STATE, "ticked"), ops.Field(STATE, "timers")
ROWS = ops.Field(STATE, "rows")
STARTED = ops.Field(STATE, "started")
TRADING = ops.Field(ENGINE, "counting")
"""Whether handlers run, and bars and days count."""
BAR_WORDS = {"ts": "ts_event", "open": "a", "high": "b", "low": "c", "close": "d", "volume": "e"}
"""The words of a bar and those of the event that brings it."""
EVENT = ops.Var("ev")
OPENS = 0
"""The side of a session's event that opens it."""
KIND, SIDE, INSTRUMENT, CLOCK = map(ops.Var, ("kind", "side", "inst", "at"))
"""What an event says: of a bar, `at` is the bit of its clock."""
STATE_PARAM = ops.ParamDecl("s", STATE_TYPE, inout=True)
EVENT_IN = (STATE_PARAM, ops.ParamDecl("ev", ops.StructType("engine.Event")))
EVENTS_IN = (
    STATE_PARAM,
    ops.ParamDecl("events", ops.BufferType(ops.StructType("engine.Event"))),
    ops.ParamDecl("n", ops.I64_T),
)
BASE_FIELDS = (
    ops.FieldDecl("e", ops.StructType("engine.Engine")),
    ops.FieldDecl("money_scale", ops.F64_T),
    ops.FieldDecl("trade_from", ops.I64_T),  # no handler runs before this time
    ops.FieldDecl("ticked", ops.I64_T),  # clocks that tick at this instant
    ops.FieldDecl("timers", ops.I64_T),  # timers that fire at this instant
    ops.FieldDecl("rows", ops.I64_T),  # rows of the curve written by this call
    ops.FieldDecl("started", ops.BOOL_T),
    ops.FieldDecl("curve_on", ops.BOOL_T),
    ops.FieldDecl("outbound", ops.I64_T),  # where a live turn shows orders; 0 between its calls
)

HOST_FIELDS = ("money_scale", "trade_from", "curve_on")
HOST_LATCHES = ("watch.killed", "watch.executions")
HOST_ENGINE = ("config", "instruments", "venues", "house", "outbox_count", *HOST_LATCHES)
"""What of the state and of its engine the host writes besides params; all else begins as zeros."""


def all_of(conditions: list[ops.Expr]) -> ops.Expr:
    """Every condition holds."""
    total = conditions[0] if conditions else ops.boolean(True)
    for condition in conditions[1:]:
        total = ops.Binary("and", total, condition)
    return total


ENGINE_WORDS = ("instruments", "now", "midnight")
"""What equations read of the engine, which where they stand alone is no more than that."""

RANK = {
    "start": 0,
    "session_open": 1,
    "fill": 2,
    "order": 2,
    "halt": 3,
    "flat_by": 4,  # from here to the next open no handler of the market runs
    "bar": 5,
    **dict.fromkeys((*SOURCES.values(), "stale", "ready", "late"), 5),
    "timer": 6,
    "session_close": 7,
    "stop": 8,
}


def _order(handler: "Handler") -> tuple[int, int]:
    """Bars coarse to fine; all else as it stands in the source."""
    return RANK[handler.event], -handler.clocks if handler.event == "bar" else 0


class Assembly:
    """Builds the State struct and the entry functions of one elaborated strategy."""

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy
        self.equations = strategy.equations
        self.clocks = strategy.width
        self.own_loops = tuple(strategy.loops)  # those that handlers and limits make
        self.tick_step = TickStep(strategy)
        self.signal_step = SignalStep(self)
        self.panel = PanelStep(self) if strategy.universe is not None else None
        for bit in sorted({bit for one in strategy.handlers for bit in one.reads}):
            if bit >= PANEL_SHIFT:  # counted with the equations, which are made before handlers
                self.equations.counter(1 << bit)
        self.warm_fields: dict[ops.Expr, ops.Field] = {}
        self.warm_init: list[ops.Stmt] = []
        self.invariants = self._invariants()
        self.halted: ops.Field | None = None  # handlers know that it is, where any asks
        if any(handler.event == "halt" for handler in strategy.handlers):
            self.halted = self.equations.field("g", ops.BOOL_T)
        self.opened: ops.Field | None = None  # the day or session whose opening was handled last
        if any(handler.event == "session_open" for handler in strategy.handlers):
            self.opened = self.equations.field("g", ops.I64_T)
        self.engine_init = self._do("engine.init")
        self.used: set[Use] = set()
        """What is read of bars and of the rest."""
        self.counted: dict[int, ops.Field] = {}
        """Tick counters of a run by clock mask; what computes signals alone adds more."""

    def define(self) -> None:
        """Hand State, init, step and run to the library."""
        strategy, library = self.strategy, self.strategy.library
        step = ops.Func("step", (STATE_PARAM,), None, self.step(self.equations_of()))
        run = self._run()
        readers = (*strategy.funcs, step, run, self.init(), self.admits(), self.warm_up())
        self.used = used_by((*readers, *strategy.loops))
        for func in (*readers, self.ingest(self.used), *strategy.loops):
            library.define(func)
        self.counted = dict(self.equations.masks)
        fields = (*BASE_FIELDS, *self.equations.fields)
        if self.panel is not None:
            fields = (*fields, *self.panel.fields())
            library.define_struct(self.panel.struct())
        library.define_struct(ops.StructDecl("State", fields))

    def _do(self, routine: str, *args: ops.Expr) -> ops.Do:
        return ops.Do(ops.Call(self.strategy.core(routine), (ENGINE, *args)))

    # ---- warm-up ----

    def _warm(self, warm: Warm) -> ops.Expr:
        """A warm-up count: a literal, or a word computed once in init."""
        if isinstance(warm.count, ops.Const | ops.Field):
            return warm.count
        if warm.count not in self.warm_fields:
            field = self.equations.field("w", ops.I64_T)
            self.warm_fields[warm.count] = field
            self.warm_init.append(ops.Assign(field, warm.count))
        return self.warm_fields[warm.count]

    def needs(self, needs: tuple[tuple[int, Warm], ...], *, always: int = 0) -> list[ops.Expr]:
        """Conditions that every clock has ticked often enough; `always` has ticked once."""
        conditions: list[ops.Expr] = []
        for bit, warm in needs:
            if warm.count == ops.i64(1) and always & (1 << bit):
                continue
            count = self.equations.counter(1 << bit)
            conditions.append(ops.Binary("ige", count, self._warm(warm)))
        return conditions

    # ---- the step ----

    def step(self, equations: list[ops.Stmt]) -> tuple[ops.Stmt, ...]:
        """One instant; `equations` evaluates them."""
        since = ops.Binary("ige", ops.Field(ENGINE, "now"), ops.Field(STATE, "trade_from"))
        begins = ops.Binary("and", ops.Unary("not", TRADING), since)
        body: list[ops.Stmt] = [
            ops.If(begins, (self._do("engine.begin"),)),
            self._do("engine.market"),
        ]
        body += self.signal_step.lapse()
        body += equations
        if self.panel is not None:  # a rebalance keeps to the limits as they are now
            body += self.strategy.risk.values
        body += self._handlers()
        body += self._limits()
        body.append(self._do("engine.submit"))
        body.append(self._do("engine.finish"))
        body += self.invariants
        body += [ops.Assign(TICKED, ops.i64(0)), ops.Assign(TIMERS, ops.i64(0))]
        body += self.tick_step.clear()
        body += self.signal_step.clear()
        if self.panel is not None:
            body.append(self.panel.done())
        return tuple(body)

    def equations_of(
        self,
        chosen: set[int] | None = None,
        *,
        worker: bool = False,
        asked: list[tuple[ops.Expr, list[ops.Stmt]]] | None = None,
    ) -> list[ops.Stmt]:
        """Bar histories, then the equations, or those `chosen` by number; then what is `asked`, by
        default the requests for signals, whose values a `worker` may compute."""
        if self.panel is not None:
            stmts = self.panel.equations_of_step(TICKED, BAR_WORDS, chosen)
            if asked is None:
                return stmts + self.signal_step.ask_all(worker=worker)
            return stmts + [ops.If(due, tuple(said)) for due, said in asked]
        bars = [
            (self.ticks(*key), self.equations.record(ops.Field(place, name)))
            for key, place in self.strategy.bars.items()
            for name in BAR_WORDS
        ]
        own = [
            (self.guard(one), self.equations.evaluate(one))
            for number, one in enumerate(self.equations.all)
            if chosen is None or number in chosen
        ]
        asked = self.signal_step.ask(worker=worker) if asked is None else asked
        return grouped([*bars, *self.tick_step.histories(), *own, *asked])

    def ticks(self, instrument: int, clock: int) -> ops.Expr:
        """Whether the clock ticks at this instant."""
        return band(TICKED, 1 << self.strategy.clock_bit(instrument, clock))

    def guard(self, equation: Equation) -> ops.Expr:
        """Whether an equation is evaluated at this instant."""
        return self.due(equation.clocks, equation.needs)

    def due(self, clocks: int, needs: tuple[tuple[int, Warm], ...]) -> ops.Expr:
        """Whether one of the clocks ticks at this instant, and all that is needed is there."""
        single = clocks if clocks.bit_count() == 1 else 0
        return all_of([band(TICKED, clocks), *self.needs(needs, always=single)])

    def _handlers(self) -> list[ops.Stmt]:
        """In the order of language.md: start, fill, flat_by, market events, timers, stop."""
        handlers = sorted(self.strategy.handlers, key=_order)
        stmts: list[ops.Stmt] = []
        for handler in handlers:
            if self.panel is not None and (handler.clocks or handler.each):
                stmts.append(self._of_each(self.panel, handler))
                continue
            call: ops.Stmt = ops.Do(ops.Call(handler.func, (STATE,)))
            if handler.event in ("fill", "order"):
                call = handler_loop(self.strategy, handler.func, handler.event, self._own(handler))
            stmts.append(ops.If(self._when(handler), (call,)))
        tail: list[ops.Stmt] = []
        if any(handler.event == "start" for handler in handlers):
            tail.append(ops.Assign(STARTED, ops.boolean(True)))
        if self.halted is not None:
            tail.append(ops.Assign(self.halted, self._halted()))
        if self.opened is not None:
            tail.append(ops.If(self._opens(), (ops.Assign(self.opened, self._opening()),)))
        forget = [self._do("engine.forget")] if "USES_NEWS" in self.strategy.uses else []
        return [ops.If(TRADING, (*stmts, *tail)), *forget] if stmts else []

    def _of_each(self, panel: PanelStep, handler: "Handler") -> ops.Stmt:
        """A handler that runs for each instrument of a universe to which its event has come."""
        needs = self.needs(tuple(sorted(handler.reads.items(), key=lambda item: item[0])))
        if handler.event == "stale":
            some = band(self.strategy.ticks.stale_bits(), handler.clocks)
            return ops.If(some, (panel.handler(handler, needs),))
        each = panel.handler(handler, needs)
        due = [band(TICKED, handler.clocks)] if handler.clocks else []
        if "flat_by" in self.strategy.session and handler.event != "late":
            due.append(ops.Unary("not", ops.Field(ENGINE, "flat_until_open")))
        return ops.If(all_of(due), (each,)) if due else each

    def _limits(self) -> list[ops.Stmt]:
        """The user's limits, as they stand at this instant."""
        risk = self.strategy.risk
        if not risk.limits or "USES_LATE" in self.strategy.uses:  # an order is sized as it fills
            return list(risk.values)
        sends = ops.Binary("igt", ops.Field(ENGINE, "intent_count"), ops.i64(0))
        return [*risk.watched, ops.If(sends, tuple(risk.limits))]

    def _when(self, handler: "Handler") -> ops.Expr:
        """The condition on which a handler runs: its event, and all that it reads is warm."""
        event = handler.event
        if event == "start":
            first: ops.Expr = ops.Unary("not", STARTED)
        elif event in ("fill", "order"):
            first = ops.Binary("igt", ops.Field(ENGINE, "news_count"), ops.i64(0))
        elif event == "halt":
            assert self.halted is not None
            first = ops.Binary("and", self._halted(), ops.Unary("not", self.halted))
        elif event in ("timer", "flat_by"):
            first = band(TIMERS, 1 << handler.timer)
            if event == "flat_by" and self.strategy.ticks:
                first = ops.Binary("or", first, ops.Field(ENGINE, "flat_until_open"))
        elif event in ("ready", "late"):
            signal = self.strategy.signals.all[handler.timer]
            first = band(signal.ready if event == "ready" else signal.late, 1 << signal.number)
        elif event == "stale":
            first = band(self.strategy.ticks.stale_bits(), handler.clocks)
        elif handler.clocks:
            first = band(TICKED, handler.clocks)
        elif event == "session_open":
            first = self._opens()
        else:
            name = {"session_close": "closing", "stop": "ending"}[event]
            first = ops.Field(ENGINE, name)
        single = event != "stale" and handler.clocks.bit_count() == 1
        ticks = handler.clocks if single else 0
        market = event == "ready" or (handler.clocks and event != "stale")
        if market and "flat_by" in self.strategy.session:
            first = all_of([first, ops.Unary("not", ops.Field(ENGINE, "flat_until_open"))])
        return all_of(
            [
                first,
                *self.needs(
                    tuple(
                        one
                        for one in sorted(handler.reads.items(), key=lambda item: item[0])
                        if self.panel is None or one[0] < PANEL_SHIFT
                    ),
                    always=ticks,
                ),
            ]
        )

    def _own(self, handler: "Handler") -> list[ops.Expr]:
        """What a handler on a universe needs of the instrument that it runs for."""
        reads = sorted(handler.reads.items(), key=lambda item: item[0])
        return self.needs(tuple(one for one in reads if one[0] >= PANEL_SHIFT))

    def _halted(self) -> ops.Expr:
        """Whether no order passes that opens or adds to a position."""
        return ops.Call(self.strategy.core("engine.stopped"), (ENGINE,))

    def _opening(self) -> ops.Expr:
        """A number of the day or session that this instant opens, 0 where it opens none."""
        return ops.Call(self.strategy.core("engine.opens"), (ENGINE,))

    def _opens(self) -> ops.Expr:
        """The first instant of a session; without sessions, a day's first bar."""
        assert self.opened is not None
        some = ops.Binary("ine", self._opening(), ops.i64(0))
        return ops.Binary("and", some, ops.Binary("ine", self._opening(), self.opened))

    def _invariants(self) -> list[ops.Stmt]:
        stmts: list[ops.Stmt] = []
        for block, condition, text in self.strategy.invariants:
            number = len(self.strategy.messages)
            self.strategy.messages.append(Message("invariant", text, ()))
            emit = self._do(
                "engine.emit",
                ops.i64(LOG_RECORD),
                ops.i64(0),
                ops.i64(1),
                ops.i64(0),
                ops.i64(number),
                *[ops.i64(0)] * 4,
            )
            stmts += [*block, ops.If(ops.Unary("not", condition), (emit,))]
        return stmts

    def _row(self) -> list[ops.Stmt]:
        """A row of the curve, from the start on: time, equity, plots."""
        width = CURVE_WORDS + len(self.strategy.plots)
        at = ops.Binary("imul", ROWS, ops.i64(width))
        words: list[ops.Expr] = [
            ops.Field(ENGINE, "now"),
            ops.Call(self.strategy.core("engine.equity"), (ENGINE,)),
        ]
        for plot in self.strategy.plots:
            assert plot.value.series is not None
            defined = all_of(self.needs(plot.value.series.warm))
            words.append(ops.Unary("bits", ops.Select(defined, plot.value.ir, NAN)))
        row: list[ops.Stmt] = [
            ops.Assign(ops.Elem(ops.Var("curve"), ops.Binary("iadd", at, ops.i64(n))), word)
            for n, word in enumerate(words)
        ]
        row.append(ops.Assign(ROWS, ops.Binary("iadd", ROWS, ops.i64(1))))
        return row

    def _stepped(self) -> list[ops.Stmt]:
        """The step, and a row of the curve: of each bar; on ticks each second, and with fills."""
        step, curve_on = ops.Do(ops.Call("step", (STATE,))), ops.Field(STATE, "curve_on")
        if self.strategy.ticks:
            due = all_of([TRADING, curve_on, self.tick_step.row_due()])
            return [step, ops.If(due, (*self._row(), *self.tick_step.row_done()))]
        ticked = ops.Binary("and", band(TICKED, self.strategy.mask(0)), curve_on)
        row = ops.If(ops.Var("row"), (ops.If(TRADING, tuple(self._row())),))
        return [ops.Let("row", ops.BOOL_T, ticked), step, row]

    # ---- init, ingest, run ----

    def init(self) -> ops.Func:
        """Words of the host (config, params) are there already."""
        body = (self.engine_init, *self.prepared())
        return ops.Func("init", (STATE_PARAM,), None, body)

    def prepared(self) -> list[ops.Stmt]:
        """What stands in the state before the first event, the engine's own left out."""
        body: list[ops.Stmt] = [
            ops.Assign(equation.place, NAN)
            for equation in self.equations.all
            if equation.type.kind in ("float", "na") and _single(equation)
        ]
        body += self.equations.at_start
        body += self.strategy.initial
        body += self.warm_init
        body += self.strategy.risk.once
        if self.panel is not None:
            return body + self.panel.prepared()
        for (instrument, _), place in self.strategy.bars.items():
            source = ops.Elem(ops.Field(ENGINE, "instruments"), ops.i64(instrument))
            for name in BAR_UNITS:
                body.append(ops.Assign(ops.Field(place, name), ops.Field(source, name)))
        return body

    def admits(self) -> ops.Func:
        """The number of the first `require` that the params break, or -1."""
        body: list[ops.Stmt] = [
            *self.equations.at_start,
            *(
                ops.If(ops.Unary("not", value.ir), (ops.Return(ops.i64(number)),))
                for number, (value, _) in enumerate(self.strategy.requires)
            ),
        ]
        return ops.Func("admits", (STATE_PARAM,), ops.I64_T, (*body, ops.Return(ops.i64(-1))))

    def warm_up(self) -> ops.Func:
        """After `admits`: raises needs[bit] to the ticks of each clock that all handlers need."""
        need = ops.Var("needs")
        raised: list[ops.Stmt] = [
            ops.Assign(
                ops.Elem(need, ops.i64(bit)),
                ops.Binary("imax", ops.Elem(need, ops.i64(bit)), warm.count),
            )
            for handler in self.strategy.handlers
            for bit, warm in sorted(handler.reads.items())
        ]
        needs = ops.ParamDecl("needs", ops.BufferType(ops.I64_T), inout=True)
        return ops.Func("warm", (STATE_PARAM, needs), None, tuple(raised))

    def ingest(self, uses: set[Use], *, answers: bool = True) -> ops.Func:
        """One event into the engine, and into what is used of bars and timers; without `answers`
        none of a signal ever comes."""
        timer = ops.Binary("shl", ops.i64(1), ops.Field(EVENT, "a"))
        fired: tuple[ops.Stmt, ...] = (
            ops.Assign(TIMERS, ops.Binary("ior", TIMERS, timer)),
        )
        closes = self.tick_step.bar_step.closes(uses)
        if closes:
            fired = (ops.If(ops.Binary("ieq", SIDE, ops.i64(TimerSide.CLOSES)), closes, fired),)
        fires = ops.If(ops.Binary("ieq", KIND, ops.i64(Kind.TIMER)), fired)
        into = self._do("engine.ingest", EVENT, KIND, SIDE, INSTRUMENT)
        other = self.signal_step.ingest((fires,)) if answers else (fires,)
        return ops.Func("ingest", EVENT_IN, None, self._ingested(uses, (into,), other))

    def ingest_bars(self, uses: set[Use]) -> ops.Func:
        """One event into what is used of bars, its time, and the midnight of its session."""
        now = ops.Assign(ops.Field(ENGINE, "now"), ops.Field(EVENT, "ts_event"))
        first: tuple[ops.Stmt, ...] = (now,) if ("e", "now") in uses else ()
        if ("e", "midnight") in uses:
            opens = ops.Binary("ieq", KIND, ops.i64(Kind.SESSION))
            opens = ops.Binary("and", opens, ops.Binary("ieq", SIDE, ops.i64(OPENS)))
            midnight = ops.Assign(ops.Field(ENGINE, "midnight"), ops.Field(EVENT, "a"))
            first = (*first, ops.If(opens, (midnight,)))
        return ops.Func("ingest", EVENT_IN, None, self._ingested(uses, first, ()))

    def _ingested(
        self, uses: set[Use], first: tuple[ops.Stmt, ...], no_bar: tuple[ops.Stmt, ...]
    ) -> tuple[ops.Stmt, ...]:
        head = ops.Field(EVENT, "head")
        kind = ops.Binary("iand", ops.Binary("lshr", head, ops.i64(32)), ops.i64(255))
        side = ops.Binary("iand", ops.Binary("lshr", head, ops.i64(40)), ops.i64(255))
        inst = ops.Binary("iand", head, ops.i64(0xFFFFFFFF))
        clock: ops.Expr = ops.Binary(
            "iadd", ops.Binary("imul", INSTRUMENT, ops.i64(self.clocks)), SIDE
        )
        single = len(self.strategy.instruments) * self.clocks == 1
        if self.panel is not None:
            clock, single = SIDE, False
            no_bar = (*no_bar, *self.panel.trait(KIND, INSTRUMENT, SIDE, EVENT))
        if self.strategy.hosts:
            no_bar += hosted.ingest(self.strategy, KIND, INSTRUMENT, SIDE, EVENT, uses)
        bit = ops.Binary("shl", ops.i64(1), CLOCK)
        ticked = ops.i64(1) if single else ops.Binary("ior", TICKED, bit)
        stmts: list[ops.Stmt] = [ops.Assign(TICKED, ticked)]
        if self.panel is not None:
            rows = (ROW, "") in uses
            stmts += self.panel.bar(INSTRUMENT, SIDE, BAR_WORDS, EVENT, rows=rows)
        for key, place in () if self.panel is not None else self.strategy.bars.items():
            copies = tuple(
                ops.Assign(ops.Field(place, name), ops.Field(EVENT, word))
                for name, word in BAR_WORDS.items()
                if not uses.isdisjoint({(place.name, name), (place.name, "")})
            )
            here = ops.Binary("ieq", CLOCK, ops.i64(self.strategy.clock_bit(*key)))
            stmts += copies if single or not copies else (ops.If(here, copies),)
        return (
            ops.Let(KIND.name, ops.I64_T, kind),
            ops.Let(SIDE.name, ops.I64_T, side),
            ops.Let(INSTRUMENT.name, ops.I64_T, inst),
            ops.Let(CLOCK.name, ops.I64_T, clock),
            *first,
            *self._by_kind(tuple(stmts), no_bar, uses),
        )

    def _by_kind(
        self, bar: tuple[ops.Stmt, ...], other: tuple[ops.Stmt, ...], uses: set[Use]
    ) -> tuple[ops.Stmt, ...]:
        if self.strategy.ticks:
            return self.tick_step.ingest(KIND, INSTRUMENT, uses, other)
        return (ops.If(ops.Binary("ieq", KIND, ops.i64(Kind.BAR)), bar, other),)

    def counters(self) -> list[ops.Stmt]:
        """Count the ticks of every mask of clocks that something counts."""
        stmts: list[ops.Stmt] = []
        for mask, counter in self.equations.masks.items():
            if mask >> PANEL_SHIFT and self.panel is not None:
                continue  # each instrument counts its own
            one = ops.Unary("bool_to_i64", band(TICKED, mask))
            stmts.append(ops.Assign(counter, ops.Binary("iadd", counter, one)))
        return stmts

    def _run(self) -> ops.Func:
        """All instants with their records and curve, as long as the outbox has room."""
        stepped = self._stepped()  # before the counters that it asks for are collected
        loop: list[ops.Stmt] = [
            *instant(self.counters()),
            *stepped,
            ops.If(
                ops.Call(self.strategy.core("engine.full"), (ENGINE,)),
                (ops.Return(ops.Binary("iadd", ops.Var("k"), ops.i64(1))),),
            ),
        ]
        curve = ops.ParamDecl("curve", ops.BufferType(ops.I64_T), inout=True)
        body = (
            ops.Assign(ROWS, ops.i64(0)),
            ops.For("k", ops.i64(0), ops.Var("n"), tuple(loop)),
            ops.Return(ops.Var("n")),
        )
        return ops.Func("run", (*EVENTS_IN, curve), ops.I64_T, body)


def _single(equation: Equation) -> bool:
    """Whether the value is one word, and not one of each instrument."""
    if isinstance(equation, Across):
        return not equation.fills
    return equation.place.base == STATE and not isinstance(equation, Gather)


def instant(counters: list[ops.Stmt]) -> list[ops.Stmt]:
    """Take an event in and go on to the next one until the instant is complete."""
    event = ops.Elem(ops.Var("events"), ops.Var("k"))
    return [
        ops.Do(ops.Call("ingest", (STATE, event))),
        ops.If(band(ops.Field(event, "head"), MORE << 48), (ops.Continue(),)),
        *counters,
    ]


def grouped(parts: list[tuple[ops.Expr, list[ops.Stmt]]]) -> list[ops.Stmt]:
    """Statements under their guards; neighbours with one guard share it."""
    groups: list[tuple[ops.Expr, list[ops.Stmt]]] = []
    for guard, stmts in parts:
        if groups and groups[-1][0] == guard:
            groups[-1][1].extend(stmts)
        elif stmts:
            groups.append((guard, list(stmts)))
    return [ops.If(guard, tuple(stmts)) for guard, stmts in groups]
