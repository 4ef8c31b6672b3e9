"""A strategy: its declarations in order, its equations on demand, its handlers one by one."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from quantdsl import limits
from quantdsl.check import (
    civil,
    consistency,
    elsewhere,
    grid,
    hosted,
    lints,
    naming,
    params,
    plots,
    settings,
    signals,
    sources,
    timers,
    trading,
    universe,
)
from quantdsl.check.actions import alone, inline
from quantdsl.check.annotations import Promises, promises
from quantdsl.check.arith import an, coerce, returns_nothing
from quantdsl.check.bindings import Binding, EnumBinding, Local, unknown
from quantdsl.check.context import Context, LimitExceeded, Scope
from quantdsl.check.cross import CrossNamespace
from quantdsl.check.equations import EACH, LOOP, STATE, THIS, Equations
from quantdsl.check.expr import facts as shown_by
from quantdsl.check.expr import truth
from quantdsl.check.functions import BAR, BAR_PRICES
from quantdsl.check.lazy import Lazy
from quantdsl.check.library import Library
from quantdsl.check.logs import LogFunction
from quantdsl.check.lowered import Lowered
from quantdsl.check.market import (
    ENGINE,
    OF_ACCOUNT,
    OF_ENTRY,
    OF_INSTRUMENT,
    OF_POSITION,
    BarsBinding,
    Clock,
    Computed,
    OfWhich,
    Traded,
    Units,
    bar_index,
    clock_figures,
    figures,
    sides,
)
from quantdsl.check.modules import Module
from quantdsl.check.news import INDEX, News
from quantdsl.check.panel_loop import each_instrument
from quantdsl.check.quoting import QuoteFunction
from quantdsl.check.rebalancing import Rebalance
from quantdsl.check.replacing import ReplaceTag
from quantdsl.check.signatures import resolve
from quantdsl.check.stmts import body
from quantdsl.check.tick_bars import Built
from quantdsl.check.tick_names import TOUCH_NAMES, TicksBinding, bars_alone, names_of
from quantdsl.check.ticks import SOURCES, Ticks
from quantdsl.check.timers import TimerSpec
from quantdsl.check.types import ERROR, FLOAT, SCALAR, VOID, Type, ir_type
from quantdsl.check.values import PANEL_SHIFT, Value, Warm, error_value
from quantdsl.events.messages import Message
from quantdsl.ir import ops
from quantdsl.lang import ast

OF_UNIVERSES = {
    **dict.fromkeys(("this", "adj", "dollar_volume"), naming.FREE),
    "rebalance": "function",
    "xs": "namespace",
}
EVENTS = ("start", "bar", "fill", "order", "halt", "stop", "session_open", "session_close")
TICK_EVENTS = (*SOURCES.values(), "stale")
OF_ONE = ("bar", "fill", "order", *TICK_EVENTS)
"""Those that are about one instrument of a universe."""


class Handler(Struct):
    """A handler as an IR function, and when it runs."""

    func: str
    event: str  # start bar quote trade book stale ready late fill stop timer
    clocks: int = 0  # the mask of those that it runs on
    timer: int = -1  # the number of its timer or signal
    each: bool = False  # it runs for each instrument whose signal has come
    reads: dict[int, Warm] = field(default_factory=dict)
    promises: Promises = field(default_factory=Promises)


class ActionBinding(Binding):
    """action name(args): statements that may order and set state."""

    what = "an action"

    def __init__(self, strategy: "Strategy", node: ast.Action) -> None:
        self.strategy = strategy
        self.node = node
        self.used = False
        self.busy = False

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The body in place of the call: an action is part of the handler that calls it."""
        self.used = True
        if not self.strategy.acting:
            return cx.error("QD0801", "actions run in handlers", node.span)
        if self.busy:
            return cx.error("QD0604", f"{self.node.name.id!r} calls itself", node.span)
        return self.strategy.inline(cx, self, node)


class Strategy:
    """Elaborates one strategy of a file."""

    def __init__(
        self, library: Library, module: Module, node: ast.Strategy, lowered: Lowered
    ) -> None:
        self.library = library
        self.module = module
        self.node = node
        self.lowered = lowered
        self.name = node.name.id
        self.doc = ""
        self.equations = Equations()
        self.units = Units(self)
        self.scope = Scope(module.scope)
        self.cx = self.context()
        self.acting = False
        self.equating = False  # an equation is elaborated
        self.critical = False  # the handler that is elaborated promises to be a critical path
        self.cpu: int | None = None  # the core that handlers name
        self.atomic_group: ops.Expr | None = None
        self.asked_tags: list[tuple[str, ast.Span]] = []  # of cancel, replace and after
        self.instruments: list[Traded] = []
        self.universe: universe.Universe | None = None
        self.adjust: tuple[str, ast.Span] | None = None  # splits or all, where bars ask for it
        self.clocks: list[Clock] = []
        self.ticks = Ticks(self)
        self.built: list[Built] = []  # those of the clocks whose bars are built of ticks
        self.session: dict[str, Any] = {}
        self.sync_all = False
        self.params: list[params.Param] = []
        self.requires: list[tuple[Value, ast.Require]] = []
        self.handlers: list[Handler] = []
        self.signals = signals.Signals(self)
        self.timers: list[TimerSpec] = []
        self.plots: list[plots.PlotSpec] = []
        self.messages: list[Message] = []
        self.risk = settings.RiskBlock()
        self.chosen: list[settings.Chosen] = []
        self.invariants: list[tuple[list[ops.Stmt], ops.Expr, str]] = []
        self.initial: list[ops.Stmt] = []
        self.tests: list[ast.Test] = []
        self.tags: dict[str, int] = {}
        self.currency = ""  # in which the file states money; empty where it states none
        self.costs: dict[str, ast.Ident] = {}  # the settings of the backtest block
        self.orders: list[consistency.Written] = []
        self.funcs: list[ops.Func] = []
        self.loops: list[ops.Func] = []  # bodies of loops over the universe
        self.bars: dict[tuple[int, int], ops.Field] = {}
        self.uses: set[str] = set()  # of library.USES
        self.hosts: dict[tuple[object, ...], hosted.HostCall] = {}  # by what is called with what
        self.models: dict[str, str] = {}  # std model -> the user's fn in its place
        self.scratch: ops.Field | None = None
        self.has_risk = False
        self.has_backtest = False

    # ---- services ----

    def context(self) -> Context:
        """A context at the level of the strategy."""
        return Context(
            self.library,
            self.module,
            self.scope,
            home=self.equations,
            units=self.units,
            strategy=self,
        )

    def core(self, name: str) -> str:
        """The IR name of a std core routine, elaborated."""
        key, _, short = name.partition(".")
        binding = self.library.namespace(key).names[short]
        return self.library.routine(self.cx, binding, 0).ir_name

    def enum_value(self, enum: str, member: str) -> ops.Expr:
        """A member of a std enum as a literal."""
        key, _, short = enum.partition(".")
        binding: EnumBinding = self.library.namespace(key).names[short]
        found = binding.member(member)
        assert found is not None
        return found.value.ir

    def time_of_day(self, seconds: ops.Expr) -> ops.Expr:
        """The moment so many seconds after midnight."""
        return ops.Call(self.core("engine.time_of_day"), (ENGINE, seconds))

    def hold_currency(self, currency: str, span: ast.Span) -> bool:
        """One account holds one currency, the first that the file names; reports another."""
        self.currency = self.currency or currency
        if currency != self.currency:
            self.cx.error(
                "QD0302",
                f"{currency} beside {self.currency}: one account holds one currency",
                span,
                help=f"state the amount in {self.currency}",
            )
        return currency == self.currency

    def work(self) -> ops.Field:
        """Memory of the cross-sections, which is theirs while one is computed."""
        if self.scratch is None:
            self.scratch = self.equations.field("z", ops.StructType("xs.Work"))
        return self.scratch

    def loop(self, body: tuple[ops.Stmt, ...]) -> ops.Stmt:
        """Run statements that name THIS for each instrument of the universe."""
        name = f"{LOOP}{len(self.loops)}"
        self.loops.append(ops.Func(name, EACH, None, body))
        index = f"of.{name}"
        call = ops.Do(ops.Call(name, (STATE, ops.Var(index))))
        return ops.For(index, ops.i64(0), ops.SizeOf(ops.SizeName("N_INSTRUMENTS")), (call,))

    def over_all(self, cx: Context, node: ast.For) -> None:
        """`for i in universe:` in a handler."""
        each_instrument(self, cx, node)

    def taken(self, known: int) -> list[ops.Func]:
        """The loops that were made since there were so many, for who links them: no others do."""
        made = self.loops[known:]
        del self.loops[known:]
        return made

    def tag(self, text: str, asked: ast.Span | None = None) -> int:
        """The number of a tag; 0 is no tag. `asked` is where other orders are meant by it."""
        if asked is not None:
            self.asked_tags.append((text, asked))
        return self.tags.setdefault(text, len(self.tags) + 1)

    def clock_bit(self, instrument: int, clock: int) -> int:
        """The bit of a clock of an instrument in masks of clocks."""
        return clock + (instrument * self.width if self.universe is None else PANEL_SHIFT)

    @property
    def width(self) -> int:
        """Clocks of each instrument: those of bars, then quotes, trades and book."""
        return max(len(self.clocks) + len(self.ticks.sources), 1)

    def mask(self, clock: int) -> int:
        """The bits of a clock of all instruments; on a universe one that says that any ticks."""
        if self.universe is not None:
            return 1 << clock
        return sum(1 << self.clock_bit(traded.index, clock) for traded in self.instruments)

    def bar(self, instrument: int, clock: int) -> ops.Field:
        """Where the last bar of a clock of an instrument is kept."""
        key = (instrument, clock)
        if key not in self.bars:
            self.bars[key] = self.equations.field("b", BAR, panel=self.universe is not None)
        return self.bars[key]

    # ---- items ----

    def elaborate(self) -> None:
        """All items: data and names first, then what computes, in source order."""
        for item in self.node.items:
            if isinstance(item, ast.Data):
                sources.declare(self, item)
        if not self.instruments:
            self.instruments.append(Traded(0, "", "", None if self.universe is None else THIS))
        if not self.clocks and not self.ticks:
            self.clocks.append(Clock("", "", self.node.name.span))
        if len(self.clocks) > 1 and not self.ticks:
            self.uses.add("USES_CLOCKS")
        sources.hold(self)
        self._market_names()
        for item in self.node.items:
            self._declare(item)
        for item in self.node.items:
            self._elaborate(item)
        timers.flat_by(self)
        self._uncalled()
        universe.settle_filter(self)
        self._lints()

    def _market_names(self) -> None:
        names = self.scope.names
        several = len(self.instruments) > 1
        of = TicksBinding if self.ticks else BarsBinding
        for traded in self.instruments:
            if traded.name:
                names[traded.name] = of(self, traded, 0)
        first = self.instruments[0]
        if not several:
            names.update(names_of(self.ticks, first) if self.ticks else {})
            names.update(self._of_bars(first) if self.clocks else {})
            for name, figure in (*sides(self, first).items(), *figures(self, first).items()):
                names.setdefault(name, figure)
            for name, account in OF_INSTRUMENT.items():
                names[name] = Computed(self, account, first)
        else:
            for name in self._of_one():
                names.setdefault(name, OfWhich(self, name))
        for number, clock in enumerate(self.clocks):
            if clock.name:
                names[clock.name] = BarsBinding(self, first, number)
        if self.clocks:
            names["bar_index"] = bar_index(self)
        for name, account in OF_ACCOUNT.items():
            names[name] = Computed(self, account, first)
        names.update(clock_figures(self))
        for verb in trading.ORDERS:
            names[verb] = trading.OrderFunction(self, verb)
        names["close_position"] = trading.EngineCall(self, "orders.close", per_instrument=True)
        names["cancel_all"] = trading.EngineCall(self, "orders.cancel_all", per_instrument=True)
        names["flatten"] = trading.EngineCall(self, "orders.flatten", per_instrument=False)
        names["cancel"] = trading.CancelTag(self)
        names["replace"] = ReplaceTag(self)
        if self.ticks:
            names["quote"] = QuoteFunction(self)
        names["floor_qty"] = trading.FloorQty(self)
        names["snap"] = trading.Snap(self)
        for kind in ("log", "alert", "mark"):
            names[kind] = LogFunction(self, kind)
        if self.universe is not None:
            names.update(universe.names(self))
            names["this"] = of(self, first, 0)
            names["xs"] = CrossNamespace(self)
            names["rebalance"] = Rebalance(self)
        for name, kind in OF_UNIVERSES.items():
            names.setdefault(name, universe.NeedsUniverse(name, kind))
        for name, absent in bars_alone().items():
            names.setdefault(name, absent)
        self._own_above()

    def _own_above(self) -> None:
        """What stands above the strategy hides values of the market, as its own names do."""
        above = (ast.Const, ast.Fn, ast.Indicator, ast.Kernel)
        declared = {x.name.id: x.name for x in self.module.file.items if isinstance(x, above)}
        for name, ident in declared.items():
            if name in self.scope.names:
                self._own(ident, self.module.scope.names[name])

    def _of_bars(self, traded: Traded) -> dict[str, Any]:
        """The names of the bars of the only instrument."""
        bars = BarsBinding(self, traded, 0)
        bars.builtin = naming.VALUE
        prices = ("open", "high", "low", "close", "volume", "hl2", "hlc3", "ohlc4")
        return {
            "bars": bars,
            **{name: bars.member(name) for name in prices},
        }

    def _of_one(self) -> tuple[str, ...]:
        """What a strategy of one instrument reads without its name."""
        market = (*BAR_PRICES, "volume", "hl2", "hlc3", "ohlc4") if self.clocks else TOUCH_NAMES
        return (*market, *OF_POSITION, *OF_INSTRUMENT, *OF_ENTRY)

    def _declare(self, node: ast.Item) -> None:
        """Names that may be used before the line that declares them."""
        names = self.scope.names
        if isinstance(node, ast.Let):
            deadline = signals.deadline_of(node.annotations)
            awaited = deadline is not None and signals.SignalBinding(self, node, deadline)
            self._own(node.name, awaited or Lazy(self, node))
        elif isinstance(node, ast.Action):
            self._own(node.name, ActionBinding(self, node))
        elif isinstance(node, ast.ParamDecl):
            if len(self.params) >= limits.PARAMS:
                raise LimitExceeded(limits.PARAMS, "too many params", node.name.span)
            declared = params.declare(self, self.cx, node)
            if declared is None:
                names[node.name.id] = Local(error_value(node.span), used=True)
                return
            self.params.append(declared[0])
            self._own(node.name, Local(declared[1], node.name.span))
        elif isinstance(node, ast.State):
            self._state(node)
        elif isinstance(node, ast.Const | ast.Fn):
            self.library.declare_item(self.cx, self.scope, node)

    def _own(self, name: ast.Ident, binding: Any) -> None:
        naming.enter(self.cx, self.scope.names, name, self.scope.find(name.id), binding)

    def _state(self, node: ast.State) -> None:
        cx = self.context()
        value = cx.expr(node.value) if node.value is not None else None
        type_ = resolve(cx, node.type) if node.type is not None else ERROR
        if node.type is None and value is not None:
            type_ = value.type if value.type.kind != "na" else FLOAT.missing()
        if type_.kind not in (*SCALAR, "array", "ring", "struct", "error", "na"):
            cx.error("QD0301", f"{an(type_)} cannot be kept in a state", node.span)
            type_ = ERROR
        if type_ == ERROR or (value is not None and value.bad):
            self.scope.names[node.name.id] = Local(error_value(node.span), used=True)
            return
        place = self.equations.field("u", ir_type(type_))
        self.equations.lines[place.name] = cx.line(node)
        kept = Value(type_, place, node.span, writable=True)
        if type_.kind in ("price", "qty", "money"):
            kept.unit = self.units.of(cx, kept)
        kept.percent = value is not None and value.percent and type_.kind == "float"
        self._own(node.name, Local(kept, node.name.span))
        if value is not None:
            initial = coerce(cx, value, type_.elem if type_.elem else type_)
            self.initial += cx.block
            self._initialise(place, type_, initial)

    def _initialise(self, place: ops.Field, type_: Type, value: Value) -> None:
        if type_.kind != "array":
            self.initial.append(ops.Assign(place, value.ir))
            return
        name = self.cx.fresh("i")
        fill = ops.Assign(ops.Elem(place, ops.Var(name)), value.ir)
        self.initial.append(ops.For(name, ops.i64(0), ops.SizeOf(type_.size), (fill,)))

    def _elaborate(self, node: ast.Item) -> None:
        makers: dict[type, Callable[[Any], None]] = {
            ast.Doc: self._doc,
            ast.Let: self._let,
            ast.Require: self._require,
            ast.On: self._on,
            ast.Every: lambda node: timers.every(self, node),
            ast.At: lambda node: timers.at(self, node),
            ast.Block: self._block,
            ast.Invariant: self._invariant,
            ast.ExprStmt: lambda node: plots.output(self, node),
            ast.Test: self._test,
        }
        make = makers.get(type(node))
        if make is not None:
            make(node)

    def _doc(self, node: ast.Doc) -> None:
        self.doc = self.doc or node.value

    def _let(self, node: ast.Let) -> None:
        binding = self.scope.names.get(node.name.id)
        if isinstance(binding, Lazy):
            binding.get()

    def equation(self, node: ast.Let) -> Value:
        """The value of a strategy-level let."""
        cx, outer = self.context(), (self.acting, self.equating)
        self.acting, self.equating = False, True
        value = cx.expr(node.value)
        self.acting, self.equating = outer
        if node.type is not None and not value.bad:
            value = coerce(cx, value, resolve(cx, node.type))
        if value.bad:
            return value
        if value.type == VOID:
            return returns_nothing(cx, node.value.span)
        if value.series is None:
            text = self.module.source.text[slice(*node.value.span)]
            return cx.error(
                "QD0306",
                "an equation is made of market data and params alone",
                node.value.span,
                help=civil.IN_EQUATIONS if civil.asks_now(text) else "move this into 'on bar:'",
            )
        value.series = self.equations.settle(value.series)
        return self.equations.keep(cx, value) if value.series.clocks else self.equations.once(value)

    def _require(self, node: ast.Require) -> None:
        value = truth(self.cx, self.cx.expr(node.cond))
        if not value.bad:
            self.requires.append((value, node))

    def handler(
        self,
        event: str,
        node: ast.On | ast.Every | ast.At,
        when: ast.Expr | None = None,
        clocks: int = 0,
        timer: int = -1,
        facts: frozenset[ops.Expr] = frozenset(),
        warm: tuple[tuple[int, Warm], ...] = (),
        each: bool = False,
    ) -> None:
        """Elaborate the body of a handler into a function of the state.

        `facts` are present when it runs, and `warm` is what it needs beside all that it reads.
        """
        cx = self.context()
        cx.facts = facts
        cx.need(warm)
        promised = promises(node)
        self._pin(node, promised.cpu)
        self.critical = promised.critical
        cx.scope = Scope(self.scope)
        params = [ops.ParamDecl("s", ops.StructType("State"), inout=True)]
        if self.universe is not None:
            cx.alone = event not in OF_ONE and not each
            params += [] if cx.alone else [ops.ParamDecl(THIS.name, ops.I64_T)]
        if event in ("fill", "order"):
            self.uses.add("USES_NEWS")
            cx.scope.names[event] = News(self, cx, event)
            params.append(ops.ParamDecl(INDEX.name, ops.I64_T))
        self.acting = True
        if when is not None:
            guard = truth(cx, cx.expr(when))
            cx.emit(ops.If(ops.Unary("not", guard.ir), (ops.Return(),)))
            cx.facts |= shown_by(guard.ir, holds=True)
        cx.expected = VOID
        body(cx, node.body)
        cx.report_unused(cx.scope)
        self.acting = self.critical = False
        name = f"handler.{len(self.handlers)}"
        wide = any(mark.name == "vectorizable" for mark in promised.marks)
        self.funcs.append(ops.Func(name, tuple(params), None, tuple(cx.block), wide=wide))
        self.handlers.append(Handler(name, event, clocks, timer, each, cx.reads, promised))

    def _pin(self, node: ast.On | ast.Every | ast.At, cpu: int | None) -> None:
        """One loop runs all handlers, so they agree on its core."""
        if cpu is not None and self.cpu is not None and cpu != self.cpu:
            span = next(note.span for note in node.annotations if note.name == "cpu")
            self.cx.error(
                "QD0219",
                f"core {cpu} here and core {self.cpu} above: one loop runs all handlers",
                span,
                help="name one core",
            )
        self.cpu = cpu if self.cpu is None else self.cpu

    def own_handler(self, event: str, body: tuple[ops.Stmt, ...], timer: int = -1) -> None:
        """A handler that the language adds."""
        name = f"handler.{len(self.handlers)}"
        state = ops.ParamDecl("s", ops.StructType("State"), inout=True)
        self.funcs.append(ops.Func(name, (state,), None, body))
        self.handlers.append(Handler(name, event, timer=timer))

    def inline(self, cx: Context, action: ActionBinding, node: ast.Call) -> Value:
        """The body of an action with its parameters bound, in the caller's block."""
        return inline(self, cx, action, node)

    def _on(self, node: ast.On) -> None:
        event = node.event.id
        if event == "ready" or (event == "stale" and signals.named(self, node) is not None):
            signals.handler(self, node)
            return
        if event not in (*EVENTS, *TICK_EVENTS):
            if event == "timer":
                self.cx.error(
                    "QD0201",
                    "there is no 'timer' among the events",
                    node.event.span,
                    help="times have lines of their own, such as 'every 30s:' and 'at 15:45:'",
                )
                return
            known = [*EVENTS, *TICK_EVENTS, "ready"]
            help = elsewhere.EVENTS.get(event)
            unknown(self.cx, event, node.event.span, known, "among the events", help)
            return
        clocks = self._clocks_of(node)
        if clocks is not None:
            self.handler(event, node, node.when, clocks)

    def _clocks_of(self, node: ast.On) -> int | None:
        """The mask of the clocks on which a handler runs; None where it is not well formed."""
        event, arg = node.event.id, node.arg
        if event in TICK_EVENTS:
            return self.ticks.clocks_of(self.cx, node)
        found = self.scope.find(arg.id) if isinstance(arg, ast.Name) else None
        if arg is not None and event != "bar":
            self.cx.error("QD0212", f"'on {event}' takes nothing in brackets", arg.span)
            return None
        if event == "bar" and not self.clocks:
            self.ticks.no_bars(self.cx, node.event.span)
            return None
        if arg is not None and not isinstance(found, BarsBinding):
            self.cx.error("QD0212", "'on bar(...)' names a clock", arg.span)
            return None
        clock = found.clock if isinstance(found, BarsBinding) else 0
        return self.mask(clock) if event == "bar" else 0

    def _block(self, node: ast.Block) -> None:
        if node.kind == "risk":
            self.has_risk = True
            cx = self.context()
            cx.alone = self.universe is not None
            self.acting = True
            settings.risk(self, cx, node, self.risk)
            self.acting = False
        else:
            self.has_backtest = True
            self.chosen += settings.backtest(self, self.context(), node)

    def _invariant(self, node: ast.Invariant) -> None:
        cx = self.context()
        cx.alone = self.universe is not None
        self.acting = True
        value = truth(cx, cx.expr(node.cond))
        self.acting = False
        if not value.bad:
            self.invariants.append(
                (cx.block, value.ir, self.module.source.text[slice(*node.cond.span)])
            )

    def _test(self, node: ast.Test) -> None:
        twin = next((test for test in self.tests if test.name == node.name), None)
        if twin is not None:
            self.cx.error("QD0208", f"there is a test {node.name!r} already", node.span)
        self.tests.append(node)

    def _uncalled(self) -> None:
        """Elaborate the actions that nothing calls, so that their mistakes are seen too."""
        uses, orders, tags = set(self.uses), list(self.orders), list(self.asked_tags)
        for binding in list(self.scope.names.values()):
            if isinstance(binding, ActionBinding) and not binding.used:
                cx = self.context()
                self.acting = True
                alone(self, cx, binding)
                self.acting = False
        self.uses, self.orders, self.asked_tags = uses, orders, tags

    # ---- lints ----

    def _lints(self) -> None:
        if any(d.severity == "error" for d in self.module.report.diagnostics):
            return  # what an error cut off would look unused
        lints.unread(self)
        lints.without_effect(self)
        consistency.across(self)
        grid.check(self)
        lints.missing_blocks(self)
        lints.idle_settings(self)
        lints.unknown_tags(self)
