"""The equations of a strategy: clocked series, each evaluated once per tick of its clock.

Every indicator call is an equation of its own, shared when written twice, so where it stands
cannot matter. An equation is evaluated from the tick on which all that it reads is defined, and
its value lives in a field of the strategy's state; a history that is looked back at is a ring
beside it, indexed by the number of ticks of its clock, or a few words that move up by one.
"""

from collections.abc import Container

from msgspec import Struct, field

from quantdsl import limits
from quantdsl.check import arith, sizes, windows
from quantdsl.check.bindings import Local
from quantdsl.check.context import Context, LimitExceeded
from quantdsl.check.functions import RECENT_MAX, Routine, crossing, moved_up
from quantdsl.check.signatures import Parameter
from quantdsl.check.types import INT, Type, ir_type
from quantdsl.check.values import PANEL_SHIFT, Series, Value, Warm, error_value
from quantdsl.ir import ops
from quantdsl.ir.walk import nodes
from quantdsl.lang import ast
from quantdsl.lang.ast import Span

STATE = ops.Var("s")
THIS = ops.Var("this")
"""The instrument of a universe that is looked at, by its index."""
PANEL = ops.Field(STATE, "panel")
OF_THIS = ops.Elem(PANEL, THIS)
"""What the state keeps of this instrument."""
EACH = (
    ops.ParamDecl("s", ops.StructType("State"), inout=True),
    ops.ParamDecl(THIS.name, ops.I64_T),
)
"""The parameters of a function of one instrument."""
LOOP = "each."
"""What the names of those begin with that a loop over all instruments calls."""


def for_all(cx: Context, value: Value, help: str) -> Value:
    """The value, or an error where it counts in ticks or lots of the one instrument at hand, and
    what is being built is of the universe.
    """
    if value.bad or not of_one(value.ir):
        return value
    return cx.error(
        "QD0307", "of which instrument? This is one number for all of them", value.span, help=help
    )


def of_one(*exprs: ops.Expr) -> bool:
    """Whether expressions name the one instrument at hand."""
    return any(THIS in nodes((ops.Return(expr),)) for expr in exprs)


MARKET = frozenset({"open", "high", "low", "close", "volume"})
"""Parameters of these names take the market's own series, of an indicator of the library."""


def _still(routine: Routine, values: list[Value], node: ast.Call) -> Parameter | None:
    """A parameter for a series that is given a constant where a length was meant: `ta.mfi(14)`.

    A level, as in `ta.crossover(close, 30)`, stands beside a series that is written too.
    """
    named = {arg.name for arg in node.args}
    written = {
        param.name: value
        for position, (param, value) in enumerate(zip(routine.params, values, strict=True))
        if position < len(node.args) - len(named - {None}) or param.name in named
    }
    moving = {name for name, value in written.items() if value.series and value.series.clocks}
    market = MARKET if isinstance(node.func, ast.Attr) else frozenset()
    for param in routine.params:
        fixed = param.series and param.name in written and param.name not in moving
        if fixed and (not moving or param.name in market):
            return param
    return None


class Equation(Struct):
    """`place = value` whenever one of `clocks` ticks and `needs` are met."""

    place: ops.Field
    type: Type
    value: ops.Expr
    clocks: int
    needs: tuple[tuple[int, Warm], ...]
    line: int


class Ring(Struct):
    """The history of a place: `depth` values back; `size` is the name of its length.

    Without a counter it moves up, and the value of k ticks ago is at k.
    """

    place: ops.Field
    size: str
    counter: ops.Field | None
    depth: int = 1

    @property
    def length(self) -> int:
        """A power of two above its depth where a counter picks the slot."""
        return self.depth + 1 if self.counter is None else 1 << self.depth.bit_length()

    def at(self, back: ops.Expr) -> ops.Elem:
        """The value of so many ticks ago."""
        if self.counter is None:
            return ops.Elem(self.place, back)
        mask = ops.SizeOf(sizes.sub(ops.SizeName(self.size), 1))
        return ops.Elem(
            self.place, ops.Binary("iand", ops.Binary("isub", self.counter, back), mask)
        )

    def record(self, source: ops.Expr) -> list[ops.Stmt]:
        """Store the newest value."""
        if self.counter is not None:
            return [ops.Assign(self.at(ops.i64(0)), source)]
        return moved_up(self.place, self.depth, source)


class Equations(Struct):
    """All equations and histories of a strategy, and the state fields they live in."""

    fields: list[ops.FieldDecl] = field(default_factory=list)
    panel: list[ops.FieldDecl] = field(default_factory=list)  # those of each instrument
    all: list[Equation] = field(default_factory=list)
    rings: dict[tuple[ops.Expr, bool], Ring] = field(default_factory=dict)  # place, is it recent
    masks: dict[int, ops.Field] = field(default_factory=dict)  # tick counters by clock mask
    at_start: list[ops.Stmt] = field(default_factory=list)  # what only params decide
    lines: dict[str, int] = field(default_factory=dict)  # of source, by field of the state
    across: dict[tuple[object, ...], Value] = field(default_factory=dict)  # cross-sections
    columns: dict[tuple[object, ...], ops.Field] = field(default_factory=dict)  # their arguments
    _shared: dict[tuple[object, ...], Value] = field(default_factory=dict)

    def field(self, stem: str, type_: ops.Type, *, panel: bool = False) -> ops.Field:
        """A new field of the state; with `panel` of the part that each instrument has."""
        name = f"{stem}{len(self.fields) + len(self.panel)}"
        (self.panel if panel else self.fields).append(ops.FieldDecl(name, type_))
        return ops.Field(OF_THIS if panel else STATE, name)

    def counter(self, clocks: int) -> ops.Field:
        """How often one of these clocks has ticked."""
        if clocks not in self.masks:
            self.masks[clocks] = self.field("n", ops.I64_T, panel=clocks >> PANEL_SHIFT != 0)
        return self.masks[clocks]

    def _count(self, span: Span) -> None:
        if len(self.all) >= limits.SERIES:
            raise LimitExceeded(limits.SERIES, "this strategy has too many series", span)

    def once(self, value: Value) -> Value:
        """A value without a clock, computed once at the start of a run and kept.

        Without a place of its own, `let b = a + a`, `let c = b + b` and so on would double.
        """
        if value.const is not None or isinstance(value.ir, ops.Field):
            return value
        place = self.field("k", ir_type(value.type))
        self.at_start.append(ops.Assign(place, value.ir))
        return Value(
            value.type,
            place,
            value.span,
            value.low,
            value.high,
            value.unit,
            value.series,
            names=value.names,
            percent=value.percent,
        )

    def settle(self, series: Series) -> Series:
        """The series with every warm-up that depends on params counted once, at the start."""
        warm = []
        for clock, need in series.warm:
            if not isinstance(need.count, ops.Const | ops.Field):
                place = self.field("w", ops.I64_T)
                self.at_start.append(ops.Assign(place, need.count))
                need = Warm(place, need.most)
            warm.append((clock, need))
        return Series(series.clocks, tuple(warm))

    # ---- the home of equation and handler contexts ----

    def keep(self, cx: Context, value: Value) -> Value:
        """The value as an equation of its own; a value that has a place already stays there."""
        if value.series is None or (isinstance(value.ir, ops.Field) and not self._was(value.ir)):
            return value
        if not value.series.clocks:
            return self.once(value)  # no clock would ever evaluate its equation
        key = ("value", value.ir)
        if key not in self._shared:
            series = value.series
            place = self.field("v", ir_type(value.type), panel=series.panel)
            self._count(value.span)
            self.all.append(
                Equation(
                    place,
                    value.type,
                    value.ir,
                    series.clocks,
                    series.warm,
                    cx.module.source.position(value.span[0]).line,
                )
            )
            self._shared[key] = Value(value.type, place, value.span, unit=value.unit, series=series)
        known = self._shared[key]
        return Value(
            known.type, known.ir, value.span, value.low, value.high, value.unit, value.series
        )

    def _was(self, part: ops.Expr) -> bool:
        """Whether it is a part of what was: no equation fills that, so none would keep its past."""
        while isinstance(part, ops.Field):
            part = part.base
        places = {ring.place for ring in self.rings.values()}
        return isinstance(part, ops.Elem) and part.base in places

    def instance(
        self,
        cx: Context,
        routine: Routine,
        args: tuple[ops.Expr, ...],
        bound: tuple[ops.Size, ...],
        values: list[Value],
        warm: Warm,
        node: ast.Call,
    ) -> Value:
        """An indicator call: an instance in the state and an equation that steps it."""
        series = arith.joined(values)
        if series is None:
            bad = next(value for value in values if value.series is None)
            return cx.error(
                "QD0305",
                "an indicator runs on every bar, so its arguments must be series",
                bad.span,
                reason="this value exists only when the handler runs",
                help="write the argument as an equation: a 'let' at the level of the strategy",
            )
        if not series.clocks:
            return cx.error(
                "QD0311",
                "nothing here changes over time",
                node.span,
                reason="every argument is a constant, so there is no bar to step on",
                help="give the indicator a series, such as close, as its first argument",
            )
        still = _still(routine, values, node)
        if still is not None:
            name = cx.module.source.text[slice(*node.func.span)].rpartition(".")[2]
            order = ", ".join(param.name for param in routine.params)
            return cx.error(
                "QD0311",
                f"{still.name!r} is a series, and this never changes",
                values[routine.params.index(still)].span,
                help=f"it takes {name}({order})",
            )
        key = (routine.ir_name, args, bound)
        if key not in self._shared:
            assert routine.state is not None
            self._count(node.span)
            state = self.field("i", ops.StructType(routine.state, bound), panel=series.panel)
            place = self.field("v", ir_type(routine.result), panel=series.panel)
            self.lines[state.name] = cx.line(node)
            call = ops.Call(routine.ir_name, (state, *args), bound)
            self.all.append(
                Equation(place, routine.result, call, series.clocks, series.warm, cx.line(node))
            )
            self._shared[key] = Value(routine.result, place, node.span, series=series)
        known = self._shared[key]
        return Value(known.type, known.ir, node.span, series=series)

    def history(self, cx: Context, node: ast.Index, value: Value, index: Value) -> Value:
        """`x[k]`: the value k ticks of its clock ago."""
        if value.series is None or not value.series.clocks:
            return cx.error(
                "QD0402",
                "only a series has history; this is computed when the handler runs"
                if value.series is None
                else "a constant has no history",
                node.value.span,
                help="keep what it was in a 'state' of a handler"
                if value.series is None and cx.strategy is not None and cx.strategy.equating
                else "write it as an equation: a 'let' of the strategy",
            )
        if index.series is None or not isinstance(index.high, int):
            return cx.error(
                "QD0403",
                "how far back this looks must be known when compiling",
                node.index.span,
                help="use a constant or a param with a range",
            )
        if index.low is None or index.low < 0:
            return cx.error(
                "QD0401",
                "this may read the future",
                node.index.span,
                help="the index must not be negative over the param's whole range",
            )
        if index.high > limits.WINDOW:
            return cx.error(
                "QD0611",
                "this looks too far back",
                node.index.span,
                reason=f"the limit is {limits.WINDOW}; here it is {index.high:,}",
            )
        kept = self.keep(cx, value)
        ring = self._ring(kept, recent=index.const is not None and index.high <= RECENT_MAX)
        ring.depth = max(ring.depth, index.high)
        self.lines[ring.place.name] = cx.line(node)
        assert value.series is not None
        warm = tuple((clock, need.plus(index.ir, index.high)) for clock, need in value.series.warm)
        past = Value(
            value.type,
            ring.at(index.ir),
            node.span,
            unit=value.unit,
            series=Series(value.series.clocks, warm),
        )
        whole = cx.strategy is not None and cx.strategy.universe and not value.series.panel
        # Of a universe as a whole it is computed once, where that is, for all who ask.
        return self.keep(cx, past) if whole else past

    def window(self, cx: Context, value: Value, length: int) -> Value:
        """The last `length` values of a series, newest first, as a kernel reads them."""
        if value.series is None or not value.series.clocks:
            return cx.error(
                "QD0907",
                "a window is the history of an equation, and this is computed in a handler"
                if value.series is None
                else "a window is the history of a series, and this never changes",
                value.span,
                help="write it as an equation: a 'let' of the strategy",
            )
        if length > limits.WINDOW:
            return cx.error(
                "QD0611",
                "this window is too long",
                value.span,
                reason=f"the limit is {limits.WINDOW}; here it is {length:,}",
            )
        kept = self.keep(cx, value)
        ring = self._ring(kept, recent=False)
        assert ring.counter is not None
        ring.depth = max(ring.depth, length - 1)
        self.lines[ring.place.name] = cx.module.source.position(value.span[0]).line
        more = ops.i64(length - 1)
        warm = tuple((clock, need.plus(more, length - 1)) for clock, need in value.series.warm)
        return Value(
            Type("window", elem=value.type, size=ops.SizeName(ring.size)),
            ring.place,
            value.span,
            series=Series(value.series.clocks, warm),
            names={windows.AT: Value(INT, ring.counter)},
        )

    def _ring(self, kept: Value, *, recent: bool) -> Ring:
        assert kept.series is not None
        key = (kept.ir, recent)
        if key not in self.rings:
            size = f"H{len(self.rings)}"
            type_ = ops.ArrayType(ir_type(kept.type), ops.SizeName(size))
            place = self.field("h", type_, panel=kept.series.panel)
            counter = None if recent else self.counter(kept.series.clocks)
            self.rings[key] = Ring(place, size, counter)
        return self.rings[key]

    def crosses(self, cx: Context, node: ast.Crosses, left: Value, right: Value) -> Value:
        """Both sides one tick ago and now."""
        one = Value(INT, ops.i64(1), low=1, high=1, const=1, series=Series())
        index = ast.Index(node.span, node.left, node.right)
        now, before = [], []
        for side in (left, right):
            timeless = side.series is not None and not side.series.clocks
            now.append(side)
            before.append(side if timeless else self.history(cx, index, side, one))
        if any(value.bad for value in before):
            return before[0] if before[0].bad else before[1]
        return crossing(cx, node, now, before)

    def note_local(self, cx: Context, name: str, kept: Value, value: Value) -> None:
        """A local of a handler is no series, whatever it was computed from."""

    def declare_state(self, cx: Context, node: ast.State) -> None:
        """A state inside a handler would be another strategy-level state in disguise."""
        cx.error(
            "QD0606",
            "a state stands at the level of the strategy",
            node.span,
            help="move it out of the handler",
        )
        cx.scope.names[node.name.id] = Local(error_value(node.span), used=True)

    # ---- IR ----

    def evaluate(
        self, equation: Equation, kept: Container[str] | None = None
    ) -> list[ops.Stmt]:
        """The statements of one equation, its histories included, without its guard."""
        stmts: list[ops.Stmt] = [ops.Assign(equation.place, equation.value, equation.line)]
        # A result of several values may be looked back at by field: macd.hist[1].
        sources = [source for source, _ in self.rings if _holds(equation.place, source)]
        return stmts + [
            stmt for source in dict.fromkeys(sources) for stmt in self.record(source, kept)
        ]

    def record(self, source: ops.Expr, kept: Container[str] | None = None) -> list[ops.Stmt]:
        """Store the newest value of a place into its histories, if it has any; into those whose
        field is in `kept`, or into all."""
        found = [self.rings.get((source, recent)) for recent in (False, True)]
        rings = [ring for ring in found if ring is not None]
        return [
            stmt
            for ring in rings
            if kept is None or ring.place.name in kept
            for stmt in ring.record(source)
        ]

    def ring_sizes(self) -> dict[str, int]:
        """The length of every history."""
        return {ring.size: ring.length for ring in self.rings.values()}


def _holds(place: ops.Field, source: ops.Expr) -> bool:
    """Whether `source` is `place` or a field inside it."""
    while isinstance(source, ops.Field) and source != place:
        source = source.base
    return source == place
