"""The functions of the language itself: those that the IR computes, not std.

Every one is in `TABLE`, with its signature, what it computes, and an example; `quantdsl help` and
the tour are made from that table. `std_only` marks the dialect of the library.
"""

from collections.abc import Callable

from msgspec import Struct

from quantdsl.check import arith, single, sizes
from quantdsl.check.arith import an, as_float
from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context, any_bad
from quantdsl.check.types import FIXED, FLOAT, INT, NUMERIC
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

Maker = Callable[[Context, ast.Call, list[Value]], Value]


class Doc(Struct, frozen=True):
    """A row of the table."""

    name: str
    signature: str
    text: str
    example: str
    arity: tuple[int, int]
    make: Maker
    std_only: bool = False
    in_kernels: bool = False


TABLE: dict[str, Doc] = {}


def builtin(
    signature: str,
    text: str,
    example: str,
    *,
    std_only: bool = False,
    in_kernels: bool = False,
) -> Callable[[Maker], Maker]:
    """Enter a function into the table; the arity is read off the signature."""
    name, _, rest = signature.partition("(")
    params = [part for part in rest.partition(")")[0].split(",") if part.strip()]
    optional = sum("=" in part for part in params)

    def register(make: Maker) -> Maker:
        arity = (len(params) - optional, len(params))
        TABLE[name] = Doc(name, signature, text, example, arity, make, std_only, in_kernels)
        return make

    return register


OF_PERCENT = frozenset({"max", "min", "clamp", "abs"})
"""What gives a percentage where all that it is given are such."""


class Builtin(Binding):
    """A function of the language."""

    what = "a function"
    builtin = "function"

    def __init__(self, doc: Doc) -> None:
        self.doc = doc
        if doc.std_only or doc.in_kernels:
            self.builtin = "free"  # a strategy may have a `band` or `bits` of its own

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The value of the call; arguments are positional."""
        values = [cx.expr(arg.value) for arg in node.args]
        if any_bad(values):
            return error_value(node.span)
        if self.doc.std_only and not cx.module.std:
            return cx.error("QD0207", f"{self.doc.name!r} is for the standard library", node.span)
        if self.doc.in_kernels and not cx.kernel:
            return cx.error("QD0902", f"{self.doc.name!r} stands in a kernel", node.span)
        few, many = self.doc.arity
        named = next((arg for arg in node.args if arg.name is not None), None)
        if named is not None:
            return cx.error(
                "QD0308",
                f"{self.doc.name} takes its arguments by position",
                named.span,
                help=self.doc.signature,
            )
        if self.doc.name in ("max", "min") and len(values) > many:
            return self._nested(cx, node)
        if not few <= len(values) <= many:
            return cx.error(
                "QD0308",
                f"{self.doc.name} takes {_count(few, many)}, not {len(values)}",
                node.span,
                help=self.doc.signature,
            )
        result = self.doc.make(cx, node, values)
        result.percent = self.doc.name in OF_PERCENT and all(value.percent for value in values)
        return result if self.doc.name == "float" else single.narrowed(values, result)

    def _nested(self, cx: Context, node: ast.Call) -> Value:
        """The error of `max(a, b, c)`, with the calls of two that it means."""
        name, text = self.doc.name, cx.module.source.text
        written, *more = (text[slice(*arg.span)] for arg in node.args)
        for each in more:
            written = f"{name}({written}, {each})"
        what = f"{name} takes {_count(*self.doc.arity)}, not {len(node.args)}"
        edit = (node.span, written)
        return cx.error("QD0308", what, node.span, help=f"write {written}", edit=edit)


def _count(few: int, many: int) -> str:
    span = str(few) if few == many else f"{few} to {many}"
    return f"{span} argument{'' if span == '1' else 's'}"


def _float_unary(op: str) -> Maker:
    def make(cx: Context, node: ast.Call, values: list[Value]) -> Value:
        x = as_float(cx, arith.plain(cx, values[0]))
        if x.bad:
            return x
        return Value(FLOAT, ops.Unary(op, x.ir), node.span, low=x.low, high=x.high, series=x.series)

    return make


for _name, _op, _text in (
    ("sqrt", "sqrt", "Square root, correctly rounded; na below 0."),
    ("floor", "floor", "Largest whole number that is not above x."),
    ("ceil", "ceil", "Smallest whole number that is not below x."),
    ("trunc", "trunc", "x without its fraction, towards 0."),
    ("rint", "rint", "Nearest whole number, halves to even."),
):
    builtin(f"{_name}(x: float) -> float", _text, f"{_name}(close)")(_float_unary(_op))


@builtin("abs(x) -> the type of x", "Absolute value; keeps the type.", "abs(close - open)")
def _abs(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    x = arith.plain(cx, values[0])
    if x.bad or x.type.kind not in NUMERIC:
        return x if x.bad else cx.error("QD0301", "abs needs a number", node.span)
    if x.type.kind == "float":
        return Value(FLOAT, ops.Unary("fabs", x.ir), node.span, series=x.series)
    ir = ops.Select(ops.Binary("ilt", x.ir, ops.i64(0)), ops.Unary("ineg", x.ir), x.ir)
    return Value(x.type, ir, node.span, unit=x.unit, series=x.series)


def _pick(op: str) -> Maker:
    def make(cx: Context, node: ast.Call, values: list[Value]) -> Value:
        x, y = (arith.plain(cx, value) for value in values)
        if x.bad or y.bad:
            return error_value(node.span)
        if not {x.type.kind, y.type.kind} <= NUMERIC:
            return cx.error("QD0301", f"{op} needs numbers", node.span)
        type_ = arith.common_type(cx, x, y, node.span)
        if type_.kind == "error":
            return error_value(node.span)
        a, b = arith.coerce(cx, x, type_), arith.coerce(cx, y, type_)
        ir = ops.Binary(("f" if type_.kind == "float" else "i") + op, a.ir, b.ir)
        low, high = _pick_interval(op, a, b)
        return Value(type_, ir, node.span, low, high, a.unit or b.unit, arith.joined((a, b)))

    return make


def _pick_interval(op: str, a: Value, b: Value) -> tuple[int | None, ops.Size | None]:
    if op == "min":
        low = min(a.low, b.low) if a.low is not None and b.low is not None else None
        known = [value.high for value in (a, b) if value.high is not None]
        if len(known) == 2 and sizes.at_most(known[0], known[1]):
            return low, known[0]
        return low, known[-1] if known else None
    lows = [value.low for value in (a, b) if value.low is not None]
    high = sizes.larger(a.high, b.high) if a.high is not None and b.high is not None else None
    return max(lows) if lows else None, high


builtin("min(a, b)", "The smaller: a < b ? a : b.", "min(open, close)")(_pick("min"))
builtin("max(a, b)", "The larger: a > b ? a : b.", "max(open, close)")(_pick("max"))


@builtin("clamp(x, low, high)", "x held between low and high.", "clamp(ta.rsi(close, 14), 20, 80)")
def _clamp(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    raised = _pick("max")(cx, node, [values[0], values[1]])
    return raised if raised.bad else _pick("min")(cx, node, [raised, values[2]])


@builtin("sign(x) -> int", "-1, 0 or 1; 0 for na.", "sign(close - open)")
def _sign(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    x = arith.plain(cx, values[0])
    if x.type.kind in FIXED or x.type == INT:
        above = ops.Binary("igt", x.ir, ops.i64(0))
        below = ops.Binary("ilt", x.ir, ops.i64(0))
    else:
        x = as_float(cx, x)
        above = ops.Binary("fgt", x.ir, ops.f64(0.0))
        below = ops.Binary("flt", x.ir, ops.f64(0.0))
    if x.bad:
        return x
    ir = ops.Binary("isub", ops.Unary("bool_to_i64", above), ops.Unary("bool_to_i64", below))
    return Value(INT, ir, node.span, -1, 1, series=x.series)


@builtin(
    "fma(a: float, b: float, c: float) -> float",
    "a * b + c with one rounding, of three f32 to an f32.",
    "fma(close, 2.0, 1.0)",
)
def _fma(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    parts = [as_float(cx, arith.plain(cx, value)) for value in values]
    if any_bad(parts):
        return error_value(node.span)
    made, joined = single.fused(values, parts), arith.joined(parts)
    return Value(made.type, made.ir, node.span, series=joined)


@builtin(
    "float(x) -> float",
    "x as a float; a price in quote currency, a quantity in units.",
    "float(close)",
)
def _to_float(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    value = values[0]
    if value.type.kind == "bool":
        return as_float(cx, _int_of_bool(value))
    return single.widened(as_float(cx, value))


@builtin(
    "f32(x) -> f32",
    "The nearest number of single precision; in a kernel.",
    "f32(close[0])",
    in_kernels=True,
)
def _to_f32(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    x = as_float(cx, values[0])
    return x if x.bad else single.rounded(x)


def _int_of_bool(value: Value) -> Value:
    return Value(INT, ops.Unary("bool_to_i64", value.ir), value.span, 0, 1, series=value.series)


@builtin(
    "int(x) -> int",
    "x without its fraction, 0 for na or what does not fit; a time in ns.",
    "int(2.7)",
)
def _to_int(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    value = values[0]
    if value.type.kind == "bool":
        return _int_of_bool(value)
    if value.type.kind in ("int", "enum", "time", "duration"):
        return Value(
            INT, value.ir, node.span, value.low, value.high, series=value.series, const=value.const
        )
    x = as_float(cx, value)
    if x.bad:
        return x
    # na, and what does not fit, is 0, which may lie above the float's own bound.
    high = sizes.larger(x.high, 0) if x.high is not None else None
    return Value(INT, ops.Unary("f64_to_i64", x.ir), node.span, high=high, series=x.series)


# ---- the dialect of std -----------------------------------------------------------------------


def _std_int(op: str) -> Maker:
    def make(cx: Context, node: ast.Call, values: list[Value]) -> Value:
        if any(value.type != INT for value in values):
            return cx.error("QD0301", "this needs ints", node.span)
        if len(values) == 1:
            return Value(INT, ops.Unary(op, values[0].ir), node.span, series=values[0].series)
        low, high = _bit_interval(op, *values)
        return Value(
            INT,
            ops.Binary(op, values[0].ir, values[1].ir),
            node.span,
            low,
            high,
            series=arith.joined(values),
        )

    return make


def _bit_interval(op: str, a: Value, b: Value) -> tuple[int | None, ops.Size | None]:
    if op == "iand":
        for mask in (b, a):
            if mask.low is not None and mask.low >= 0 and mask.high is not None:
                return 0, mask.high
    if op == "idiv" and (b.low or 0) >= 1 and a.low is not None and a.low >= 0:
        low = a.low // b.high if isinstance(b.high, int) else 0
        if isinstance(a.high, int) and isinstance(b.low, int):
            return low, a.high // b.low
        return low, a.high
    if op == "lshr" and isinstance(b.const, int) and 0 < b.const < 64:
        return 0, (1 << (64 - b.const)) - 1
    return None, None


for _signature, _op, _text in (
    ("shl(a: int, n: int) -> int", "shl", "a shifted left."),
    ("shr(a: int, n: int) -> int", "lshr", "a shifted right, zeros enter."),
    ("ashr(a: int, n: int) -> int", "ashr", "a shifted right, the sign enters."),
    ("band(a: int, b: int) -> int", "iand", "Bitwise and."),
    ("bor(a: int, b: int) -> int", "ior", "Bitwise or."),
    ("bxor(a: int, b: int) -> int", "ixor", "Bitwise exclusive or."),
    ("bnot(a: int) -> int", "inot", "Bitwise not."),
    ("umulh(a: int, b: int) -> int", "umulh", "High half of the unsigned product."),
    ("idiv(a: int, b: int) -> int", "idiv", "a / b rounded down; 0 where b is 0."),
):
    builtin(
        _signature,
        _text,
        _signature.partition("(")[0] + "(12, 5)"
        if "b:" in _signature or "n:" in _signature
        else "bnot(12)",
        std_only=True,
    )(_std_int(_op))


@builtin("bits(x: float) -> int", "The bit pattern of x.", "bits(1.0)", std_only=True)
def _bits(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    x = as_float(cx, values[0])
    return x if x.bad else Value(INT, ops.Unary("bits", x.ir), node.span, series=x.series)


@builtin("from_bits(n: int) -> float", "The float of a bit pattern.", "from_bits(0)", std_only=True)
def _from_bits(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    return Value(FLOAT, ops.Unary("from_bits", values[0].ir), node.span, series=values[0].series)


def _count_of(kind: str) -> Maker:
    def make(cx: Context, node: ast.Call, values: list[Value]) -> Value:
        x = values[0]
        if x.type.kind != kind:
            return cx.error("QD0301", f"this needs a {kind}, not {an(x.type)}", node.span)
        return Value(INT, x.ir, node.span, series=x.series)

    return make


def _float_of(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    x, count = values
    if x.unit is None or count.type != INT:
        return cx.error("QD0301", "this needs a price or a quantity and an int", node.span)
    counted = Value(x.type, count.ir, node.span, unit=x.unit, series=arith.joined(values))
    return as_float(cx, counted)


def _mean_of(cx: Context, node: ast.Call, values: list[Value]) -> Value:
    x, total, count = values
    if x.unit is None or total.type != INT or count.type != INT:
        return cx.error("QD0301", "this needs a price or a quantity and two ints", node.span)
    ticks = ops.Binary("fmul", ops.Unary("i64_to_f64", total.ir), x.unit.num)
    over = ops.Binary("fmul", ops.Unary("i64_to_f64", count.ir), x.unit.den)
    return Value(FLOAT, ops.Binary("fdiv", ticks, over), node.span, series=arith.joined(values))


builtin("ticks(p: price) -> int", "The price in ticks.", "ticks(src)", std_only=True)(
    _count_of("price")
)
builtin("lots(q: qty) -> int", "The quantity in lots.", "lots(src)", std_only=True)(
    _count_of("qty")
)
builtin(
    "float_ticks(p: price, n: int) -> float",
    "n ticks of p's instrument in quote currency.",
    "float_ticks(src, 3)",
    std_only=True,
)(_float_of)
builtin(
    "mean_ticks(p: price, total: int, n: int) -> float",
    "total / n ticks of p's instrument in quote currency, rounded once: equal means are equal.",
    "mean_ticks(src, total, len)",
    std_only=True,
)(_mean_of)
builtin(
    "float_lots(q: qty, n: int) -> float",
    "n lots of q's instrument in units.",
    "float_lots(src, 3)",
    std_only=True,
)(_float_of)
builtin(
    "mean_lots(q: qty, total: int, n: int) -> float",
    "total / n lots of q's instrument in units, rounded once.",
    "mean_lots(src, total, len)",
    std_only=True,
)(_mean_of)
