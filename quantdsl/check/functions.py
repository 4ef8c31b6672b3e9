"""fn and indicator: each is elaborated once, on its first call, into one IR function.

How a parameter is passed: a scalar by value; a price, qty or money as three values (count, num,
den: how it becomes a float); bars, structs and arrays by reference. An indicator also takes its
instance, a struct of its states, histories and inner instances, as the first argument `self`.
"""

from itertools import pairwise

from msgspec import Struct, field

from quantdsl.check import annotations, arith, civil, naming, sizes, windows
from quantdsl.check.arith import an
from quantdsl.check.bindings import Binding, Local
from quantdsl.check.context import Context, Scope
from quantdsl.check.modules import Module
from quantdsl.check.signatures import Parameter, least_of, parameters, resolve
from quantdsl.check.stmts import body, leaves
from quantdsl.check.types import ERROR, FLOAT, INT, TIME, VOID, Type, ir_type, stored
from quantdsl.check.values import Series, Unit, Value, Warm, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import has_errors

SCALED = frozenset({"price", "qty", "money"})
BAR = ops.StructType("Bar")
BAR_PRICES = ("open", "high", "low", "close")
BAR_COUNTS = ("ts", *BAR_PRICES, "volume")
BAR_UNITS = ("tick_num", "tick_den", "lot_num", "lot_den")
BAR_FIELDS = (*BAR_COUNTS, *BAR_UNITS)


def bar_struct() -> ops.StructDecl:
    """The last closed bar of one instrument on one clock, with how its counts become floats."""
    counts = (ops.FieldDecl(name, ops.I64_T) for name in BAR_COUNTS)
    units = (ops.FieldDecl(name, ops.F64_T, unit=True) for name in BAR_UNITS)
    return ops.StructDecl("Bar", (*counts, *units))


class Routine(Struct):
    """An elaborated fn or indicator: what a caller must know."""

    ir_name: str
    params: list[Parameter]
    result: Type
    sizes: tuple[str, ...]
    impure: bool
    state: str | None = None  # the struct of an indicator's instance
    warm: Warm | None = None
    of: str = ""  # the parameter whose instrument the result counts, if any


class Declared(Struct, Binding):
    """A declared fn or indicator, with its overloads."""

    module: Module
    nodes: list[ast.Fn | ast.Indicator | ast.Kernel]
    routines: dict[int, Routine] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)

    what = "a function"

    @property
    def kernel(self) -> bool:
        """Whether it is a kernel, which takes windows of series."""
        return isinstance(self.nodes[0], ast.Kernel)

    @property
    def builtin(self) -> str:  # type: ignore[override]
        """Those of std belong to the language."""
        return "function" if self.module.std else ""

    @property
    def span(self) -> ast.Span:
        """Where it is declared."""
        return self.nodes[0].name.span

    @property
    def name(self) -> str:
        """As declared."""
        return self.nodes[0].name.id

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The value of a call."""
        return cx.library.call(cx, self, node)


def bars_value(
    base: ops.Place,
    of: str,
    span: ast.Span,
    series: Series | None,
    source: ops.Place | None = None,
) -> Value:
    """A bars place with its readable parts; `source` says what a tick and a lot are, if not it."""
    value = Value(Type("bars", of), base, span, series=series)
    source = source or base
    tick = Unit(ops.Field(source, "tick_num"), ops.Field(source, "tick_den"))
    lot = Unit(ops.Field(source, "lot_num"), ops.Field(source, "lot_den"))
    for name in BAR_PRICES:
        value.names[name] = Value(
            Type("price", of), ops.Field(base, name), unit=tick, series=series
        )
    value.names["volume"] = Value(
        Type("qty", of), ops.Field(base, "volume"), unit=lot, series=series
    )
    value.names["time"] = Value(Type("time"), ops.Field(base, "ts"), series=series)
    for name, parts in (
        ("hl2", ("high", "low")),
        ("hlc3", ("high", "low", "close")),
        ("ohlc4", BAR_PRICES),
    ):
        value.names[name] = _mean(value, parts, tick, series)
    return value


def _mean(bars: Value, parts: tuple[str, ...], tick: Unit, series: Series | None) -> Value:
    """The mean of prices: an exact integer sum, then one multiplication and one division."""
    total = bars.names[parts[0]].ir
    for name in parts[1:]:
        total = ops.Binary("iadd", total, bars.names[name].ir)
    scaled = ops.Binary("fmul", ops.Unary("i64_to_f64", total), tick.num)
    count = ops.Binary("fmul", tick.den, ops.f64(float(len(parts))))
    return Value(FLOAT, ops.Binary("fdiv", scaled, count), series=series)


def pass_parameter(param: Parameter) -> tuple[list[ops.ParamDecl], Value]:
    """How a parameter arrives in IR, and the value it is inside the body."""
    name, type_ = f"p.{param.name}", param.type
    here = Series(1, ((1, Warm(ops.i64(1), 1)),)) if param.series else Series()
    if type_.kind == "bars":
        value = bars_value(ops.Var(name), type_.of, param.node.span, here)
        return [ops.ParamDecl(name, BAR)], value
    value = Value(type_, ops.Var(name), param.node.span, series=here, writable=param.inout)
    decls = [ops.ParamDecl(name, ir_type(type_), param.inout)]
    if type_.kind in SCALED:
        value.unit = Unit(ops.Var(name + ".num"), ops.Var(name + ".den"))
        decls += [ops.ParamDecl(name + ".num", ops.F64_T), ops.ParamDecl(name + ".den", ops.F64_T)]
    if param.const and type_ == INT:
        value.low, value.high = least_of(param), ops.SizeName(param.name)
    return decls, value


def implicit_sizes(nodes: tuple[ast.Param, ...], cx: Context) -> dict[str, ast.Span]:
    """Names that stand as sizes of arrays in a parameter list, inferred from the arguments."""
    found: dict[str, ast.Span] = {}
    for node in nodes:
        type_ = node.type
        if type_ is None or type_.name not in ("array", "tensor"):
            continue
        for size in type_.args[1:]:
            if (
                isinstance(size, ast.Type)
                and size.name not in found
                and cx.library.size_value(cx, size.name) is None
            ):
                found[size.name] = size.span
    return found


class Builder:
    """Elaborates one fn or indicator."""

    def __init__(self, cx: Context, binding: Declared, number: int) -> None:
        self.node = binding.nodes[number]
        self.module = binding.module
        suffix = f".{number}" if number else ""
        self.ir_name = f"{binding.module.key}.{binding.name}{suffix}"
        self.cx = self.module.context(cx)
        self.cx.scope = Scope(self.module.scope)
        self.cx.units = cx.library.unitless
        self.sizes: list[str] = []

    def signature(self) -> list[Parameter]:
        """Resolve the parameter list and bring every parameter into scope."""
        cx = self.cx
        consts = [p.name.id for p in self.node.params if p.const]
        self.sizes = consts
        cx.size_names = frozenset(consts)
        inferred = implicit_sizes(self.node.params, cx)
        self.sizes = [*consts, *inferred]
        cx.size_names = frozenset(self.sizes)
        for name, span in inferred.items():
            size = ops.SizeName(name)
            value = Value(INT, ops.SizeOf(size), low=1, high=size)
            cx.scope.names[name] = Local(value, span, used=True)
        for node in self.node.params:
            if node.name.id in inferred:
                naming.admit(cx, node.name, cx.scope.find(node.name.id), own=True)
        return parameters(cx, self.node.params)

    def bind(self, params: list[Parameter]) -> list[ops.ParamDecl]:
        """Declare the parameters; returns how they arrive."""
        decls: list[ops.ParamDecl] = []
        for param in params:
            span = param.node.name.span
            if param.type.kind == "window":
                more, value = windows.arriving(param.name, param.type, param.node.span)
                decls += more
                self.sizes.append(windows.ring_size(param.name))
                self.cx.scope.names[param.name] = Local(value, span, used=True)
                continue
            if param.type == ERROR:
                self.cx.scope.names[param.name] = Local(error_value(span), span, used=True)
                continue
            more, value = pass_parameter(param)
            decls += more
            if value.low is not None:
                self.cx.ranges.least[value.ir] = value.low
            self.cx.scope.names[param.name] = Local(value, span, used=True)
        return decls

    def run(self) -> Routine:
        """Elaborate; the IR goes to the library."""
        cx, node = self.cx, self.node
        params = self.signature()
        decls = self.bind(params)
        declared = resolve(cx, node.returns) if node.returns is not None else None
        if declared is None and isinstance(node.body, ast.Suite) and not _returns(node.body):
            declared = VOID
        cx.expected = declared
        self.elaborate_body()
        result = declared or (cx.returns[0].type if cx.returns else VOID)
        of = ""
        if result.kind in SCALED:
            of = cx.returns[0].type.of if cx.returns else ""
            result = Type(result.kind, of, result.optional)
        self.require_return(result)
        impure = any(param.inout for param in params)
        routine = Routine(self.ir_name, params, result, tuple(self.sizes), impure, of=of)
        self.finish(routine, decls)
        return routine

    def elaborate_body(self) -> None:
        """The statements, or the one expression, of the body."""
        node = self.node
        if isinstance(node.body, ast.Suite):
            body(self.cx, node.body)
            return
        value = self.cx.expr(node.body)
        if not value.bad and self.cx.expected is not None:
            value = arith.coerce(self.cx, value, self.cx.expected)
        if not value.bad:
            self.cx.returns.append(value)
            self.cx.emit(ops.Return(value.ir))

    def require_return(self, result: Type) -> None:
        """A result must be returned on every path."""
        falls_through = result not in (VOID, ERROR) and not leaves(tuple(self.cx.block))
        if falls_through and not has_errors(self.module.report.diagnostics):
            self.cx.error("QD0209", f"not every path returns {an(result)}", self.node.name.span)

    def finish(self, routine: Routine, decls: list[ops.ParamDecl]) -> None:
        """Hand the IR function to the library."""
        result = None if routine.result in (VOID, ERROR) else ir_type(routine.result)
        notes = {note.name for note in self.node.annotations}
        if not self.module.std and (found := annotations.marks(self.node)):
            self.cx.library.marked[self.ir_name] = self.module, found
        self.cx.library.define(
            ops.Func(
                self.ir_name,
                tuple(decls),
                result,
                tuple(self.cx.block),
                routine.sizes,
                cold="cold" in notes,
                wide="vectorizable" in notes,
            )
        )


def _returns(suite: ast.Suite) -> bool:
    """True when a `return value` stands somewhere in the suite."""
    for stmt in suite.body:
        if isinstance(stmt, ast.Return) and stmt.value is not None:
            return True
        if any(_returns(inner) for inner in ast.suites(stmt)):
            return True
    return False


RECENT_MAX = 2
"""What is looked back at no further than that, always by the same number, is kept in words that
each tick moves up by one: unlike a ring's slot a word has an address that never changes, so it
can live in a register."""


def moved_up(place: ops.Place, depth: int, newest: ops.Expr) -> list[ops.Stmt]:
    """The value of k ticks ago goes to k + 1, the newest one to 0."""
    words = [ops.Elem(place, ops.i64(back)) for back in range(depth, -1, -1)]
    moved: list[ops.Stmt] = [ops.Assign(to, value) for to, value in pairwise(words)]
    return [*moved, ops.Assign(words[-1], newest)]


class IndicatorBuilder(Builder):
    """Elaborates an indicator: owns its states, histories and inner instances."""

    def __init__(self, cx: Context, binding: Declared, number: int) -> None:
        super().__init__(cx, binding, number)
        self.cx.home = self
        self.fields = [ops.FieldDecl("step", ops.I64_T)]
        self.self_ = ops.Var("self")
        self.rings: dict[tuple[ops.Expr, bool], tuple[str, ops.Size, ops.ScalarType]] = {}
        self.lets: dict[str, int] = {}
        self.skipped: set[ops.Expr] = set()  # lets that an early return leaves out
        self.needs: list[Warm] = []
        self.step: ops.Expr = ops.Var("step")
        self.implicit = ImplicitBars(self)
        self.now = ImplicitNow(self)

    def elaborate_body(self) -> None:
        """The body, then the histories that it turned out to need."""
        value = Value(INT, self.step, low=0)
        names = self.cx.scope.names
        names["step"] = Local(value, used=True)
        if not self.module.std:
            names.setdefault("bars", self.implicit)
            for name in (*BAR_PRICES, "volume", "hl2", "hlc3", "ohlc4"):
                names.setdefault(name, ImplicitPrice(self.implicit, name))
            names.setdefault("now", self.now)
        super().elaborate_body()
        self._keep_histories()
        step = ops.Field(self.self_, "step")
        self.cx.block[:0] = [
            ops.Let("step", ops.I64_T, step),
            ops.Assign(step, ops.Binary("iadd", step, ops.i64(1))),
        ]

    def finish(self, routine: Routine, decls: list[ops.ParamDecl]) -> None:
        """The instance struct beside the function."""
        for parameter in (self.implicit.parameter, self.now.parameter, *self.now.parts.values()):
            if parameter is not None:
                routine.params.append(parameter)
                decls = [*decls, *pass_parameter(parameter)[0]]
        routine.state = self.ir_name + ".self"
        routine.impure = True
        routine.warm = self.warm_up()
        library = self.cx.library
        library.define_struct(ops.StructDecl(routine.state, tuple(self.fields), routine.sizes))
        sizes_ = tuple(ops.SizeName(name) for name in routine.sizes)
        me = ops.ParamDecl("self", ops.StructType(routine.state, sizes_), inout=True)
        super().finish(routine, [me, *decls])

    # ---- warm-up ----

    def warm_up(self) -> Warm:
        """What `@warmup` says, otherwise the longest history and inner warm-up of the body."""
        for annotation in self.node.annotations:
            if annotation.name == "warmup" and annotation.args:
                outer, self.cx.block = self.cx.block, []
                value = self.cx.expr(annotation.args[0].value)
                self.cx.block = outer
                if value.bad:
                    break
                if value.type != INT or value.high is None:
                    self.cx.error(
                        "QD0404",
                        "a warm-up is an int made of the const parameters",
                        annotation.span,
                    )
                    break
                return Warm(value.ir, value.high)
        total = Warm(ops.i64(1), 1)
        for need in self.needs:
            total = total.latest(need)
        return total

    # ---- what the body may use ----

    def declare_state(self, cx: Context, node: ast.State) -> None:
        """`state x = init`: a field of the instance, set at the first step."""
        if cx.depth:
            cx.error("QD0606", "a state stands at the top level of the body", node.span)
            return
        value = cx.expr(node.value) if node.value is not None else None
        if value is not None and value.bad:
            cx.scope.names[node.name.id] = Local(value, node.name.span, used=True)
            return
        type_ = resolve(cx, node.type) if node.type is not None else value.type if value else ERROR
        if type_ == ERROR:
            return
        if type_.kind == "na":
            type_ = FLOAT
        name = f"s.{node.name.id}"
        self.fields.append(ops.FieldDecl(name, ir_type(type_)))
        place = ops.Field(self.self_, name)
        if value is not None:
            self._initialise(cx, place, type_, value)
        kept = Value(
            type_, place, node.span, writable=True, unit=value.unit if value is not None else None
        )
        cx.scope.names[node.name.id] = Local(kept, node.name.span, used=True)

    def _initialise(self, cx: Context, place: ops.Place, type_: Type, value: Value) -> None:
        """Set the state at the first step; zeros it is already, as is all memory of a new run."""
        scalar = type_.elem if type_.kind == "array" else type_
        assert scalar is not None
        init = arith.coerce(cx, value, scalar).ir
        if isinstance(init, ops.Const) and init.bits == 0:
            return
        stmt: ops.Stmt = ops.Assign(place, init)
        if type_.kind == "array":
            name = cx.fresh("i")
            fill = ops.Assign(ops.Elem(place, ops.Var(name)), init)
            stmt = ops.For(name, ops.i64(0), ops.SizeOf(type_.size), (fill,))
        cx.emit(ops.If(ops.Binary("ieq", self.step, ops.i64(0)), (stmt,)))

    def note_local(self, cx: Context, name: str, kept: Value, value: Value) -> None:
        """Remember where a top-level let is made: its history is kept right after it."""
        if cx.depth == 0 and not kept.writable:
            self._note(cx, name)

    def _note(self, cx: Context, name: str) -> None:
        self.lets[name] = len(cx.block)
        if cx.returns:
            self.skipped.add(ops.Var(name))

    def history(self, cx: Context, node: ast.Index, value: Value, index: Value) -> Value:
        """`x[k]`: what x was k steps ago; na (0 for a fixed type) before there is one."""
        if value.ir in self.skipped:
            return self._skipped(cx, "what is looked back at", node.span)
        if not self._has_history(value):
            return cx.error(
                "QD0402",
                "only a parameter or a top-level let has history",
                node.value.span,
                help="name it first: let x = ...",
            )
        if value.type.kind == "struct":
            help = "name the part first: let x = m.hist, then x[1]"
            why = "here only a part of a result has history"
            return cx.error("QD0402", why, node.value.span, help=help)
        inside = index.low is not None and index.low >= 0
        if index.high is None or not (inside or cx.ranges.never_negative(index.ir)):
            return cx.error(
                "QD0403",
                "how far back this looks must be known when compiling",
                node.index.span,
                help="use a constant or a 'const int' parameter",
            )
        depth, known = sizes.add(index.high, 1), _only_consts(index.ir)
        need = ops.Binary("iadd", index.ir, ops.i64(1)) if known else ops.SizeOf(depth)
        self.needs.append(Warm(need, depth))
        recent = isinstance(index.const, int) and index.const <= RECENT_MAX
        name = self._ring(value, depth, recent=recent)
        slot = index.ir if recent else self._slot(name, ops.Binary("isub", self.step, index.ir))
        old = ops.Elem(ops.Field(self.self_, name), slot)
        missing = arith.NAN if stored(value.type) == ops.F64_T else ops.Const(stored(value.type), 0)
        ir = ops.Select(ops.Binary("ige", self.step, index.ir), old, missing)
        return Value(value.type, ir, unit=value.unit, series=value.series)

    def _has_history(self, value: Value) -> bool:
        ir = value.ir
        if isinstance(ir, ops.Field):
            return isinstance(ir.base, ops.Var) and ir.base.name.startswith("p.")
        return isinstance(ir, ops.Var) and (ir.name.startswith("p.") or ir.name in self.lets)

    def _slot(self, name: str, step: ops.Expr) -> ops.Expr:
        return ops.Binary("iand", step, ops.Var("mask." + name))

    def _ring(self, value: Value, depth: ops.Size, *, recent: bool) -> str:
        key = (value.ir, recent)
        name, known, type_ = self.rings.get(key, (f"h{len(self.rings)}", 1, stored(value.type)))
        self.rings[key] = (name, sizes.larger(known, depth), type_)
        return name

    def _keep_histories(self) -> None:
        """Store each step's value of whatever is looked back at, as soon as it is there."""
        inserts: list[tuple[int, list[ops.Stmt]]] = []
        masks: list[ops.Stmt] = []
        for (source, recent), (name, depth, type_) in self.rings.items():
            place = ops.Field(self.self_, name)
            at = self.lets.get(source.name, 0) if isinstance(source, ops.Var) else 0
            if recent:
                assert isinstance(depth, int)
                self.fields.append(ops.FieldDecl(name, ops.ArrayType(type_, depth)))
                inserts.append((at, moved_up(place, depth - 1, source)))
                continue
            size = sizes.pow2(depth)
            self.fields.append(ops.FieldDecl(name, ops.ArrayType(type_, size)))
            masks.append(ops.Let("mask." + name, ops.I64_T, ops.SizeOf(sizes.sub(size, 1))))
            inserts.append((at, [ops.Assign(ops.Elem(place, self._slot(name, self.step)), source)]))
        for at, stmts in sorted(inserts, key=lambda item: -item[0]):
            self.cx.block[at:at] = stmts
        self.cx.block[:0] = masks

    def crosses(self, cx: Context, node: ast.Crosses, left: Value, right: Value) -> Value:
        """Both sides one step ago and now."""
        sides = []
        for side in (left, right):
            if not self._has_history(side) and side.const is None:
                side = self._named(cx, side)
            sides.append(side)
        one = Value(INT, ops.i64(1), low=1, high=1, const=1)
        index = ast.Index(node.span, node.left, node.right)
        before = [
            side if side.const is not None else self.history(cx, index, side, one) for side in sides
        ]
        return crossing(cx, node, sides, before)

    def _skipped(self, cx: Context, what: str, span: ast.Span) -> Value:
        return cx.error(
            "QD0305",
            f"{what} stands behind a 'return' and would miss the steps that return there",
            span,
            help="name it before the first return: let x = ...",
        )

    def _named(self, cx: Context, value: Value) -> Value:
        if cx.depth:
            return cx.error("QD0402", "name this at the top level first: let x = ...", value.span)
        name = cx.fresh("x")
        cx.emit(ops.Let(name, ir_type(value.type), value.ir))
        self._note(cx, name)
        return Value(value.type, ops.Var(name), value.span, unit=value.unit, series=value.series)

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
        """A call of another indicator: an instance of its own inside this one."""
        if cx.depth:
            return cx.error(
                "QD0305",
                "an indicator is called at the top level of the body",
                node.span,
                help="name its result first: let x = ...",
            )
        if cx.returns:
            return self._skipped(cx, "the indicator called", node.span)
        assert routine.state is not None
        name = f"i{len(self.fields)}"
        self.fields.append(ops.FieldDecl(name, ops.StructType(routine.state, bound)))
        call = ops.Call(routine.ir_name, (ops.Field(self.self_, name), *args), bound)
        local = cx.fresh("c")
        cx.emit(ops.Let(local, ir_type(routine.result), call, cx.line(node)))
        self.lets[local] = len(cx.block)
        self.needs.append(warm)
        return Value(routine.result, ops.Var(local), node.span, series=arith.joined(values))


class ImplicitBars(Binding):
    """`bars` inside an indicator that declares none: the bars of whoever calls it.

    So `ta.atr(14)` works in an indicator too. The first use adds a last parameter to it.
    """

    what = "the bars of the caller"
    has_members = True

    def __init__(self, builder: IndicatorBuilder) -> None:
        self.builder = builder
        self.parameter: Parameter | None = None

    def value(self) -> Value:
        """The bars, as a parameter of the indicator."""
        if self.parameter is None:
            self.parameter = _of_caller(self.builder, "bars", Type("bars", "'bars"))
        return pass_parameter(self.parameter)[1]

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The bars as an argument."""
        return self.value()

    def member(self, name: str) -> Local | None:
        """A price or the volume of the bar."""
        found = self.value().names.get(name)
        return Local(found, used=True) if found is not None else None


class ImplicitNow(Binding):
    """`now` inside an indicator that declares none: the time of the event that steps it."""

    what = "the time of the caller"
    has_members = True

    def __init__(self, builder: IndicatorBuilder) -> None:
        self.builder = builder
        self.parameter: Parameter | None = None
        self.parts: dict[str, Parameter] = {}  # now.weekday and the like

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The time, as a parameter of the indicator; the first use adds it."""
        if self.parameter is None:
            self.parameter = _of_caller(self.builder, "now", TIME)
        return pass_parameter(self.parameter)[1]

    def member(self, name: str) -> Local | None:
        """A figure of the calendar, as a parameter of the indicator too."""
        if name in civil.FIGURES and name not in self.parts:
            self.parts[name] = _of_caller(self.builder, "now", INT, name)
        known = self.parts.get(name)
        return None if known is None else Local(pass_parameter(known)[1], used=True)

    def members(self) -> list[str]:
        """What may follow the dot."""
        return list(civil.FIGURES)


def _of_caller(builder: IndicatorBuilder, name: str, type_: Type, part: str = "") -> Parameter:
    """A parameter that a caller does not give: what the name, or a part of it, means where the
    call stands."""
    span = builder.node.name.span
    default: ast.Expr = ast.Name(span, name)
    if part:
        name, default = f"{name}.{part}", ast.Attr(span, default, part, span)
    node = ast.Param(span, ast.Ident(span, name), None, default=default)
    return Parameter(name, type_, node, series=True)


class ImplicitPrice(Binding):
    """`close` inside an indicator that declares no such name: of the caller's bars."""

    what = "a price of the caller's bars"

    def __init__(self, bars: ImplicitBars, name: str) -> None:
        self.bars = bars
        self.name = name

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The price."""
        return self.bars.value().names[self.name]


def _only_consts(ir: ops.Expr) -> bool:
    """True when an index is made of constants and parameters alone, so that a caller can use it."""
    if isinstance(ir, ops.Binary):
        return _only_consts(ir.x) and _only_consts(ir.y)
    return isinstance(ir, ops.Const | ops.SizeOf) or (
        isinstance(ir, ops.Var) and ir.name.startswith("p.")
    )


def crossing(cx: Context, node: ast.Crosses, now: list[Value], before: list[Value]) -> Value:
    """a crosses above b: a > b now and not a > b one step ago (which both must have had)."""
    op, was = (">", "<=") if node.direction == "above" else ("<", ">=")
    after = arith.compare(cx, op, now[0], now[1], node.span)
    earlier = arith.compare(cx, was, before[0], before[1], node.span)
    if after.bad or earlier.bad:
        return error_value(node.span)
    return Value(
        after.type, ops.Binary("and", after.ir, earlier.ir), series=arith.joined([*now, *before])
    )
