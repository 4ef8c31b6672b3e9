"""`@async` equations: asked for on their clock, answered by an event, read as the newest answer.

    @async(deadline = 2ms)
    let fc = ta.linreg(close, 200)     on ready(fc):   on stale(fc):   fc   fc.age

The equation is one like any other; what is asynchronous is that handlers see its value no sooner
than a SIGNAL event says so. Requests and answers are kept by std/engine_signals.qdsl.
"""

from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quantdsl.check.arith import an
from quantdsl.check.bindings import Local
from quantdsl.check.equations import THIS
from quantdsl.check.lazy import Lazy
from quantdsl.check.literals import DURATION_NS
from quantdsl.check.market import ENGINE, NEVER
from quantdsl.check.panel_step import all_true, own_tick
from quantdsl.check.types import DURATION, FLOAT
from quantdsl.check.values import Series, Value
from quantdsl.events.codes import Kind
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.context import Context
    from quantdsl.check.step import Assembly
    from quantdsl.check.strategy import Strategy

NOTE = "async"
SHAPE = "@async(deadline = 2ms), a fixed length of time of 1ns to 366d"
DEADLINE_NS_MAX = 366 * DURATION_NS["d"]
"""A time of this century and a deadline are far below 2^63 together."""
SIGNAL = ops.StructType("engine.Signal")
NOW, TRADING = ops.Field(ENGINE, "now"), ops.Field(ENGINE, "counting")
EVENT, KIND, INSTRUMENT = ops.Var("ev"), ops.Var("kind"), ops.Var("inst")
NAN = ops.Const(ops.F64_T, ops.CANONICAL_NAN_BITS)
AS_FLOAT = {
    "struct": "of a result with several values choose one: ta.macd(close).hist",
    "bool": "write 1.0 if ... else 0.0",
}
NOT_DUE = 2**62
ALL = -1
"""In a SIGNAL event: the answers of all signals to the requests of that instant."""


class Signal(Struct, frozen=True):
    """One `@async` equation: where it is evaluated, and where its answers are kept."""

    name: str
    number: int
    equation: Value
    place: ops.Field
    deadline_ns: int
    ready: ops.Field
    late: ops.Field

    @property
    def panel(self) -> bool:
        """Whether there is one of each instrument of a universe."""
        return self.series.panel

    @property
    def series(self) -> Series:
        """When it asks."""
        assert self.equation.series is not None
        return self.equation.series

    @property
    def bit(self) -> ops.Expr:
        """Its bit in the words of an instant."""
        return ops.i64(1 << self.number)


class Signals(Struct):
    """Those of a strategy, and two words of each instant: which are ready, which are too late.

    Of a universe each instrument has its own signals, and such words, in its part of the state.
    """

    strategy: "Strategy"
    all: list[Signal] = field(default_factory=list)
    words: dict[bool, tuple[ops.Field, ops.Field]] = field(default_factory=dict)  # by `panel`

    def __bool__(self) -> bool:
        return bool(self.all)

    def add(self, node: ast.Let, equation: Value, deadline_ns: int) -> Signal:
        """One more; `equation` has a place of its own."""
        fields = self.strategy.equations
        assert equation.series is not None
        panel = equation.series.panel
        if panel not in self.words:
            ready = fields.field("f", ops.I64_T, panel=panel)
            self.words[panel] = (ready, fields.field("f", ops.I64_T, panel=panel))
        place = fields.field("a", SIGNAL, panel=panel)
        words = self.words[panel]
        signal = Signal(node.name.id, len(self.all), equation, place, deadline_ns, *words)
        self.all.append(signal)
        if not panel:
            self.strategy.initial += self.initial(signal)
        return signal

    def initial(self, signal: Signal) -> list[ops.Stmt]:
        """Nothing is asked for, and nothing has come."""
        first = (("value", NAN), ("of_ts", ops.i64(NEVER)), ("due", ops.i64(NOT_DUE)))
        return [ops.Assign(ops.Field(signal.place, name), word) for name, word in first]

    @property
    def clocks(self) -> int:
        """The mask of all clocks on which something is asked for."""
        mask = 0
        for signal in self.all:
            mask |= signal.series.clocks
        return mask


class SignalBinding(Lazy):
    """The name of an `@async` equation: its newest answer, for handlers."""

    what = "an asynchronous signal"
    has_members = True

    def __init__(self, strategy: "Strategy", node: ast.Let, deadline_ns: int) -> None:
        super().__init__(strategy, node)
        self.deadline_ns = deadline_ns
        self.signal: Signal | None = None

    def get(self) -> Value:
        """Elaborate the equation, once; the value is that of the newest answer."""
        if self.value is None:
            equation = super().get()
            self.value = equation if equation.bad else self._kept(equation)
        return self.value

    def series(self) -> Value:
        """The value of the equation itself, which no handler sees at once."""
        value = self.get()
        return value if self.signal is None else self.signal.equation

    def _kept(self, equation: Value) -> Value:
        cx = self.strategy.cx
        if equation.type.kind != "float":
            return cx.error(
                "QD0301",
                f"an asynchronous signal is a float, and this is {an(equation.type)}",
                self.node.value.span,
                help=AS_FLOAT.get(equation.type.kind, "write float(...) around it"),
            )
        if equation.series is None or not equation.series.clocks:
            return cx.error(
                "QD0311",
                "nothing here changes over time",
                self.node.value.span,
                reason="there is no bar or tick on which it would be asked for",
            )
        self.signal = self.strategy.signals.add(self.node, equation, self.deadline_ns)
        value = ops.Field(self.signal.place, "value")
        return Value(FLOAT.missing(), value, self.node.name.span)

    def read(self, cx: "Context", node: ast.Expr) -> Value:
        """The newest answer, na before the first."""
        self.used = True
        value = self._read(cx, node)
        return value if value.bad else Value(value.type, value.ir, node.span)

    def _read(self, cx: "Context", node: ast.Expr) -> Value:
        if self.strategy.equating:
            return cx.error(
                "QD0405",
                f"{self.node.name.id!r} comes as an event, so no equation is made of it",
                node.span,
                reason="an equation has its value at its instant, an answer comes some time later",
                help="compute it inside the '@async' equation, or read it in 'on ready'",
            )
        value = self.get()
        if self.signal is not None and self.signal.panel and cx.alone:
            return cx.error(
                "QD0307",
                "of which instrument? There is one answer for each here",
                node.span,
                help=f"read it in 'on ready({self.node.name.id})' or 'on bar', which run for each",
            )
        if self.signal is not None:
            cx.need(self.signal.series.warm)
        return value

    def attr(self, cx: "Context", node: ast.Attr) -> Value:
        """`fc.age`: how long ago the inputs of the newest answer were."""
        if node.name != "age":
            return super().attr(cx, node)
        self.used = True
        value = self._read(cx, node)
        if value.bad:
            return value
        assert self.signal is not None
        then = ops.Field(self.signal.place, "of_ts")
        return Value(DURATION, ops.Binary("isub", NOW, then), node.span)

    def member(self, name: str) -> Local | None:
        """Only `age`, which `attr` reads."""
        return None

    def members(self) -> list[str]:
        """What may follow the dot."""
        return ["age"]


def deadline_of(notes: tuple[ast.Annotation, ...]) -> int | None:
    """The deadline of an `@async` in ns, any where it is malformed (that is reported), or None."""
    for note in notes:
        if note.name == NOTE and not fits(note):
            return 1
        if note.name == NOTE:
            number = note.args[0].value
            assert isinstance(number, ast.Num)
            assert number.unit is not None
            return int(Fraction(number.text) * DURATION_NS[number.unit])
    return None


def fits(note: ast.Annotation) -> bool:
    """Whether it is `@async(deadline = D)`, D a duration of 1 ns to DEADLINE_NS_MAX."""
    if len(note.args) != 1 or note.args[0].name != "deadline":
        return False
    number = note.args[0].value
    return (
        isinstance(number, ast.Num)
        and number.unit in DURATION_NS
        and 1 <= Fraction(number.text) * DURATION_NS[number.unit] <= DEADLINE_NS_MAX
    )


def named(strategy: "Strategy", node: ast.On) -> SignalBinding | None:
    """The signal that `on ready(x)` or `on stale(x)` names, or None."""
    if not isinstance(node.arg, ast.Name):
        return None
    found = strategy.scope.find(node.arg.id)
    return found if isinstance(found, SignalBinding) else None


def handler(strategy: "Strategy", node: ast.On) -> None:
    """`on ready(x)` runs when an answer has come in time, `on stale(x)` when one has not."""
    binding, event = named(strategy, node), node.event.id
    if binding is None:
        equation = node.arg is not None and isinstance(
            strategy.scope.find(getattr(node.arg, "id", "")), Lazy
        )
        strategy.cx.error(
            "QD0406",
            f"'on {event}(...)' names an '@async' equation",
            node.arg.span if node.arg is not None else node.event.span,
            reason="an equation without '@async' has its value at once, on its clock"
            if equation
            else "",
            help="write '@async(deadline = 2ms)' above the equation"
            if equation
            else f"such as 'on {event}(fc):', below '@async(deadline = 2ms)' and 'let fc = ...'",
        )
        return
    binding.used = True
    value = binding.get()
    if binding.signal is None:
        return
    plain = not binding.signal.equation.type.optional
    facts = frozenset({value.ir}) if plain and event == "ready" else frozenset()
    strategy.handler(
        {"ready": "ready", "stale": "late"}[event],
        node,
        node.when,
        timer=binding.signal.number,
        each=binding.signal.panel,
        facts=facts,
        warm=binding.signal.series.warm,
    )


class SignalStep:
    """The part of an instant that is about signals."""

    def __init__(self, assembly: "Assembly") -> None:
        self.assembly = assembly
        self.strategy = assembly.strategy
        self.signals = assembly.strategy.signals

    def _call(self, name: str, signal: Signal, *args: ops.Expr) -> ops.Call:
        core = self.strategy.core(f"engine.signal_{name}")
        return ops.Call(core, (signal.place, NOW, ops.i64(signal.deadline_ns), *args))

    def _each(self, stmts: dict[bool, list[ops.Stmt]]) -> list[ops.Stmt]:
        """Statements of signals, by `panel`: those of instruments for each of them."""
        loop = [self.strategy.loop(tuple(stmts[True]))] if stmts.get(True) else []
        return [*stmts.get(False, []), *loop]

    def ingest(self, rest: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
        """A SIGNAL event answers one signal or all; `rest` is for other kinds."""
        if not self.signals:
            return rest
        stmts: dict[bool, list[ops.Stmt]] = {}
        which, of_ts = ops.Field(EVENT, "a"), ops.Field(EVENT, "b")
        given = ops.Unary("from_bits", ops.Field(EVENT, "c"))
        for signal in self.signals.all:
            mine = ops.Binary("ieq", which, ops.i64(signal.number))
            if signal.panel:
                mine = ops.Binary("and", mine, ops.Binary("ieq", INSTRUMENT, THIS))
            one = ops.Binary("or", mine, ops.Binary("ieq", which, ops.i64(ALL)))
            answer = self._call("answer", signal, of_ts, given)
            said = ops.If(one, self._noted(signal, answer, signal.ready))
            stmts.setdefault(signal.panel, []).append(said)
        answers = tuple(stmts.get(False, ()))
        if True in stmts:  # in place: a function of an instrument does not see the event
            count = ops.SizeOf(ops.SizeName("N_INSTRUMENTS"))
            answers += (ops.For(THIS.name, ops.i64(0), count, tuple(stmts[True])),)
        return (ops.If(ops.Binary("ieq", KIND, ops.i64(Kind.SIGNAL)), answers, rest),)

    def _noted(self, signal: Signal, call: ops.Call, word: ops.Field) -> tuple[ops.Stmt, ...]:
        """A call, and the signal's bit in a word of the instant where it says yes."""
        name = f"said.{word.name}.{signal.number}"
        said = ops.Let(name, ops.BOOL_T, call)
        note = ops.Assign(word, ops.Binary("ior", word, signal.bit))
        return (said, ops.If(ops.Var(name), (note,)))

    def lapse(self) -> list[ops.Stmt]:
        """What is past its deadline at this instant is given up."""
        stmts: dict[bool, list[ops.Stmt]] = {}
        for signal in self.signals.all:
            late = ops.Binary("igt", NOW, ops.Field(signal.place, "due"))
            given_up = self._noted(signal, self._call("lapse", signal), signal.late)
            stmts.setdefault(signal.panel, []).append(ops.If(late, given_up))
        return self._each(stmts)

    def ask(self, *, worker: bool = False) -> list[tuple[ops.Expr, list[ops.Stmt]]]:
        """The requests of this instant, each with its condition; a worker computes by itself."""
        return [
            (ops.Binary("and", self.due(signal), TRADING), [self._asks(signal, worker=worker)])
            for signal in self.signals.all
        ]

    def ask_all(self, *, worker: bool = False) -> list[ops.Stmt]:
        """The requests of a universe; a worker computes by itself."""
        stmts: dict[bool, list[ops.Stmt]] = {}
        for signal, (due, asks) in zip(
            self.signals.all, self.ask(worker=worker), strict=True
        ):
            stmts.setdefault(signal.panel, []).append(ops.If(due, tuple(asks)))
        return self._each(stmts)

    def _asks(self, signal: Signal, *, worker: bool) -> ops.Stmt:
        return ops.Do(self._call("ask", signal, NAN if worker else signal.equation.ir))

    def due(self, signal: Signal) -> ops.Expr:
        """Whether a signal is asked for at this instant, on a universe that of THIS."""
        series, panel = signal.series, self.assembly.panel
        if not signal.panel or panel is None:
            return self.assembly.due(series.clocks, series.warm)
        return all_true([own_tick(series.clocks), *self.assembly.needs(series.warm)])

    def clear(self) -> list[ops.Stmt]:
        """What an instant leaves to the next one."""
        zero = ops.i64(0)
        return self._each(
            {
                panel: [ops.Assign(word, zero) for word in words]
                for panel, words in self.signals.words.items()
            }
        )
