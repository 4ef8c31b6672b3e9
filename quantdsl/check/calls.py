"""Calls of fn and indicator: choosing the overload, passing arguments, binding sizes."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quantdsl import limits
from quantdsl.check import arith, civil, single, sizes, windows
from quantdsl.check.arith import an
from quantdsl.check.context import Context, any_bad
from quantdsl.check.signatures import Parameter, least_of
from quantdsl.check.types import ERROR, F32, FIXED, FLOAT, INT, NUMERIC, TIME, VOID, Type, ir_type
from quantdsl.check.values import Series, Value, Warm, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.functions import Declared, Routine


@runtime_checkable
class Windows(Protocol):
    """A home that keeps histories of whole series: the equations of a strategy."""

    def window(self, cx: Context, value: Value, length: int) -> Value:
        """The last `length` values of a series."""


class Given(Struct):
    """Arguments as written, elaborated once whichever overload takes them."""

    positional: list[Value]
    named: dict[str, Value]
    spans: dict[str, ast.Span]


def call(cx: Context, binding: "Declared", node: ast.Call) -> Value:
    """The value of `binding(args)`."""
    if binding.kernel and cx.kernel:
        return cx.error(
            "QD0907",
            "a kernel calls no other kernel",
            node.span,
            reason="each runs over windows that a strategy keeps, or over tensors of a caller",
            help="write what both compute as a fn of numbers, and call that in each",
        )
    given = _elaborate(cx, node)
    if given is None:
        return error_value(node.span)
    number = _choose(binding, given)
    routine: Routine = cx.library.routine(cx, binding, number)
    if ERROR in (routine.result, *(param.type for param in routine.params)):
        return error_value(node.span)  # its declaration is reported
    if binding.kernel and any(param.type.kind == "tensor" for param in routine.params):
        return cx.error(
            "QD0907",
            f"{binding.name!r} is a kernel of tensors, which a strategy has none of",
            node.span,
            help=f"run it from Python: quantdsl.kernel(FILE, {binding.name!r})",
        )
    values = _match(cx, binding, routine, given, node)
    if values is None or any_bad(values):
        return error_value(node.span)
    passed: list[ops.Expr] = []
    for param, value in zip(routine.params, values, strict=True):
        passed += _pass(cx, param, value)
    bound = _bind_sizes(cx, binding, routine, values, node)
    if bound is None:
        return error_value(node.span)
    if routine.state is not None:
        return _instance(cx, routine, tuple(passed), bound, values, node)
    if binding.kernel and not any(param.type.kind == "window" for param in routine.params):
        return error_value(node.span)  # its declaration is reported
    if binding.kernel:
        names = dict(zip(routine.sizes, bound, strict=True))
        if not cx.library.kernels[routine.ir_name].fits(cx, names, node.span):
            return error_value(node.span)
    result = _invoke(cx, routine, tuple(passed), bound, values, node)
    if binding.kernel:
        return single.widened(result if result.bad else cx.home.keep(cx, result))
    if binding.module.std and binding.module.key == "math":
        result = single.narrowed([*given.positional, *given.named.values()], result)
    return _with_unit(routine, values, result)


def _elaborate(cx: Context, node: ast.Call) -> Given | None:
    given = Given([], {}, {})
    for arg in node.args:
        value = cx.expr(arg.value)
        if arg.name is None:
            if given.named:
                cx.error("QD0308", "a positional argument stands before the named ones", arg.span)
                return None
            given.positional.append(value)
        else:
            given.named[arg.name] = value
            given.spans[arg.name] = arg.span
    bad = any_bad(given.positional) or any_bad(list(given.named.values()))
    return None if bad else given


def _choose(binding: "Declared", given: Given) -> int:
    """The overload that needs the fewest conversions; the first of equals."""
    if len(binding.nodes) == 1:
        return 0
    costs = [_cost(node, given) for node in binding.nodes]
    return costs.index(min(costs))


def _cost(node: ast.Fn | ast.Indicator | ast.Kernel, given: Given) -> int:
    cost = 0
    by_name = {p.name.id: p for p in node.params}
    pairs = list(zip(node.params, given.positional, strict=False))
    pairs += [(by_name[name], value) for name, value in given.named.items() if name in by_name]
    cost += 100 * (len(given.positional) > len(node.params))
    cost += 100 * sum(name not in by_name for name in given.named)
    for param, value in pairs:
        wanted = param.type
        if wanted is not None and wanted.name == "series" and isinstance(wanted.args[0], ast.Type):
            wanted = wanted.args[0]
        name = wanted.name if wanted is not None else ""
        if value.type.kind == name:
            continue
        cost += 1 if name == "float" and value.type.kind in NUMERIC else 10
    return cost


def _match(
    cx: Context, binding: "Declared", routine: "Routine", given: Given, node: ast.Call
) -> list[Value] | None:
    """One value per parameter, converted; reports what is missing or too much."""
    names = [param.name for param in routine.params]
    shape = f"{binding.name}({', '.join(names)})"
    extra = [name for name in given.named if name not in names]
    if extra or len(given.positional) > len(names):
        span = given.spans[extra[0]] if extra else node.span
        what = f"no parameter {extra[0]!r}" if extra else f"{len(names)} parameters at most"
        cx.error("QD0308", f"{binding.name} has {what}", span, help=shape)
        return None
    values: list[Value] = []
    for position, param in enumerate(routine.params):
        if position < len(given.positional):
            value: Value | None = given.positional[position]
        else:
            value = given.named.get(param.name) or _default(cx, binding, param, node.span)
        if value is None:
            if param.const and not binding.kernel:
                cx.error(
                    "QD0403",
                    f"{binding.name} needs {param.name!r}, a number of bars",
                    node.span,
                    reason="without it this would be a figure of all data, the future included",
                    help=shape,
                )
            else:
                cx.error("QD0308", f"{binding.name} needs {param.name!r}", node.span, help=shape)
            return None
        values.append(_convert(cx, param, value, shape))
    return values


def _default(
    cx: Context, binding: "Declared", param: Parameter, span: ast.Span
) -> Value | None:
    """A default of market data is read where the call stands, any other where it is declared."""
    if param.node.default is None:
        return None
    if param.series or param.type.kind == "bars":
        value = cx.expr(msgspec.structs.replace(param.node.default, span=span))
        if (value.type == TIME and value.series is None) or civil.of_now(param.node.default):
            value.series = Series()  # the time of the event: it ticks with the other arguments
        return value
    # Only its names are those of the declaration: what it computes first is emitted, or kept as
    # an equation, where the call stands.
    declared = replace(cx, module=binding.module, scope=binding.module.scope)
    return declared.expr(param.node.default)


def _convert(cx: Context, param: Parameter, value: Value, shape: str) -> Value:
    wanted, have = param.type, value.type
    if wanted == F32 and have.kind in NUMERIC and not value.bad:
        return single.rounded(arith.as_float(cx, arith.plain(cx, value)))
    if value.bad or wanted.kind == "error":
        return value
    if wanted.kind == "window":
        return _window(cx, wanted, value)
    if wanted.kind in ("price", "qty", "bars") and have.kind == wanted.kind:
        return value
    if wanted.kind == "array":
        if have.kind == "array" and have.elem == wanted.elem:
            return value
        return cx.error("QD0301", f"{an(wanted)} is needed here, this is {an(have)}", value.span)
    if not param.series and not wanted.optional and have.kind != "na":
        value = arith.plain(cx, value)
    if param.series and wanted == FLOAT and have.kind == "float":
        return value
    if param.const and wanted == INT and have.kind in FIXED:
        what = f"{param.name!r} is an int, this is {an(have)}"
        return cx.error("QD0301", what, value.span, help=f"it takes {shape}")
    return arith.coerce(cx, value, wanted, f"it takes {shape}")


def _window(cx: Context, wanted: Type, value: Value) -> Value:
    """A series as the window of its last values."""
    assert wanted.elem is not None
    assert isinstance(wanted.size, int)
    if wanted.elem == INT:
        if value.type.kind in FIXED:
            return cx.error(
                "QD0301",
                f"this window is of ints, this is {an(value.type)}",
                value.span,
                help=f"declare it as window[float, {wanted.size}], in which {an(value.type)} is a "
                "float",
            )
        value = arith.coerce(cx, value, INT)
    else:
        value = arith.as_float(cx, value)
        value = single.rounded(value) if wanted.elem == F32 and not value.bad else value
    if value.bad:
        return value
    if not isinstance(cx.home, Windows):
        return cx.error(
            "QD0907",
            "a window is the history of an equation, and nothing here keeps one",
            value.span,
            help="call the kernel in a 'let' of the strategy, and pass its value in",
        )
    return cx.home.window(cx, value, wanted.size)


def _pass(cx: Context, param: Parameter, value: Value) -> list[ops.Expr]:
    if param.inout and not value.writable:
        cx.error(
            "QD0607", f"{param.name!r} is changed by the call, so it must be a variable", value.span
        )
    if param.type.kind in ("price", "qty", "money"):
        unit = value.unit or cx.units.of(cx, value)
        return [value.ir, unit.num, unit.den]
    if param.type.kind == "window":
        return [value.ir, value.names[windows.AT].ir]
    return [value.ir]


def _bind_sizes(
    cx: Context, binding: "Declared", routine: "Routine", values: list[Value], node: ast.Call
) -> tuple[ops.Size, ...] | None:
    bound: dict[str, ops.Size] = {}
    for param, value in zip(routine.params, values, strict=True):
        if param.const:
            if value.high is None or value.low is None:
                cx.error(
                    "QD0603",
                    f"{param.name!r} must be known when compiling",
                    value.span,
                    help="use a constant or a param with a range",
                )
                return None
            least = least_of(param)
            if value.low < least:
                own = least and value.low == 0 and not binding.module.std
                cx.error(
                    "QD0603",
                    f"{param.name!r} is at least {least}",
                    value.span,
                    help=f"declare '{param.name}: const int = 0' if 0 is meant too" if own else "",
                )
                return None
            if isinstance(value.high, int) and value.high > limits.WINDOW:
                cx.error(
                    "QD0611",
                    f"{param.name!r} is too large",
                    value.span,
                    reason=f"the limit is {limits.WINDOW}; here it is {value.high:,}",
                )
                return None
            bound[param.name] = value.high
        elif param.type.kind == "window":
            bound[windows.ring_size(param.name)] = value.type.size
        elif param.type.kind == "array" and isinstance(param.type.size, ops.SizeName):
            bound.setdefault(param.type.size.name, value.type.size)
    return tuple(bound[name] for name in routine.sizes)


def substitute(
    expr: ops.Expr, mapping: dict[str, ops.Expr], bound: dict[str, ops.Size]
) -> ops.Expr:
    """An int expression over the callee's const parameters, in the caller's terms."""
    if isinstance(expr, ops.Var):
        return mapping[expr.name]
    if isinstance(expr, ops.Unary):
        return ops.Unary(expr.op, substitute(expr.x, mapping, bound))
    if isinstance(expr, ops.Binary):
        return ops.Binary(
            expr.op, substitute(expr.x, mapping, bound), substitute(expr.y, mapping, bound)
        )
    if isinstance(expr, ops.Select):
        return ops.Select(
            substitute(expr.cond, mapping, bound),
            substitute(expr.x, mapping, bound),
            substitute(expr.y, mapping, bound),
        )
    if isinstance(expr, ops.SizeOf):
        return ops.SizeOf(bind_size(expr.size, bound))
    return expr


_SIZE_OPS = {"+": sizes.add, "-": sizes.sub, "*": sizes.product, "max": sizes.larger}


def bind_size(size: ops.Size, bound: dict[str, ops.Size]) -> ops.Size:
    """A size over the callee's names, in the caller's."""
    if isinstance(size, ops.SizeName):
        return bound.get(size.name, size)
    if isinstance(size, ops.SizeOp):
        left, right = bind_size(size.left, bound), bind_size(size.right, bound)
        if size.op == "pow2":
            return sizes.pow2(left)
        return _SIZE_OPS[size.op](left, right)
    return size


def _warm_of(routine: "Routine", values: list[Value], bound: tuple[ops.Size, ...]) -> Warm:
    assert routine.warm is not None
    names = dict(zip(routine.sizes, bound, strict=True))
    mapping = {f"p.{p.name}": v.ir for p, v in zip(routine.params, values, strict=True)}
    return Warm(substitute(routine.warm.count, mapping, names), bind_size(routine.warm.most, names))


def _after(warm: Warm, more: Warm) -> Warm:
    """`more` ticks counted from the first tick on which the arguments are defined."""
    return warm.plus(more.count, more.most).plus(ops.i64(-1), -1)


def _instance(
    cx: Context,
    routine: "Routine",
    passed: tuple[ops.Expr, ...],
    bound: tuple[ops.Size, ...],
    values: list[Value],
    node: ast.Call,
) -> Value:
    if cx.home is None:
        return cx.error(
            "QD0305",
            "an indicator keeps state, and nothing here can",
            node.span,
            help="call it in an equation, and pass its value in",
        )
    need = _warm_of(routine, values, bound)
    series_in = arith.joined([v for v in values if v.series is None or v.series.clocks])
    result: Value = cx.home.instance(cx, routine, passed, bound, values, need, node)
    if result.bad:
        return result
    if series_in is not None and result.series is not None:
        warm = tuple((clock, _after(w, need)) for clock, w in series_in.warm)
        result.series = Series(series_in.clocks, warm)
    return _with_unit(routine, values, result)


def _invoke(
    cx: Context,
    routine: "Routine",
    passed: tuple[ops.Expr, ...],
    bound: tuple[ops.Size, ...],
    values: list[Value],
    node: ast.Call,
) -> Value:
    ir = ops.Call(routine.ir_name, passed, bound)
    if routine.result == VOID:
        cx.emit(ops.Do(ir, cx.line(node)))
        return Value(VOID, ops.i64(0), node.span)
    series = arith.joined(values) if not routine.impure else None
    if not routine.impure and series is not None and cx.strategy is not None:
        value = Value(routine.result, ir, node.span, series=series)
        return value if routine.result.kind != "struct" else cx.home.keep(cx, value)
    if routine.impure or routine.result.kind == "struct":
        name = cx.fresh("c")
        cx.emit(ops.Let(name, ir_type(routine.result), ir, cx.line(node)))
        return Value(routine.result, ops.Var(name), node.span, series=series)
    return Value(routine.result, ir, node.span, series=series)


def _with_unit(routine: "Routine", values: list[Value], result: Value) -> Value:
    """A price result counts the instrument of the parameter that it came from."""
    if routine.of.startswith("'"):
        for param, value in zip(routine.params, values, strict=True):
            if param.type.of == routine.of:
                result.type = Type(routine.result.kind, value.type.of, routine.result.optional)
                result.unit = value.unit
    return result
