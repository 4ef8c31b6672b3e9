"""f32: single precision, as IEEE 754 has it, computed in floats that every operation rounds.

The sum, difference, product and quotient of two binary32 values, and the square root of one,
rounded to a double and then to binary32 are what one rounding gives, so an f32 needs no type of its
own in the IR, and a target may use its 32-bit instructions. All other functions compute in double
precision and round their result once. A constant or an int beside an f32 is the nearest f32; a
float beside it makes a float of it, which loses nothing; the way back is written: `f32(x)`.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from quantdsl.check.context import Context
from quantdsl.check.types import F32, FLOAT, NUMERIC, Type
from quantdsl.check.values import Value
from quantdsl.ir import ops, scalar

NAN = ops.Const(ops.F64_T, ops.CANONICAL_NAN_BITS)


def is_f32(value: Value) -> bool:
    """Whether the value has single precision."""
    return value.type.of == F32.of


def rounded(value: Value) -> Value:
    """A number stored as F64 as the nearest f32, optional as it was."""
    if is_f32(value):
        return value
    type_ = msgspec.structs.replace(F32, optional=value.type.optional)
    if isinstance(value.ir, ops.Const):
        near = scalar.f32(ops.bits_to_f64(value.ir.bits))
        return replace(value, type=type_, ir=ops.f64(near), const=near)
    return replace(value, type=type_, ir=ops.Unary("f32", value.ir), const=None)


def widened(value: Value) -> Value:
    """An f32 as the float that it is; any other value as it is."""
    if not is_f32(value):
        return value
    return replace(value, type=msgspec.structs.replace(FLOAT, optional=value.type.optional))


def _adapts(value: Value) -> bool:
    """Whether beside an f32 the value becomes one: an int, or what constants alone make."""
    return is_f32(value) or value.type.kind in ("int", "na") or _constant(value.ir)


def _constant(ir: ops.Expr) -> bool:
    if isinstance(ir, ops.Binary):
        return _constant(ir.x) and _constant(ir.y)
    return _constant(ir.x) if isinstance(ir, ops.Unary) else isinstance(ir, ops.Const)


def meet(*values: Value) -> bool:
    """Whether what is computed from these values is an f32."""
    return any(is_f32(value) for value in values) and all(_adapts(value) for value in values)


def operands(x: Value, y: Value) -> tuple[Value, Value]:
    """Two floats as they meet: both rounded where the result is an f32."""
    return (rounded(x), rounded(y)) if not x.bad and not y.bad and _both(x, y) else (x, y)


def _both(x: Value, y: Value) -> bool:
    """As `meet`, of ints that became floats already too."""
    return any(map(is_f32, (x, y))) and all(_adapts(v) or _of_int(v.ir) for v in (x, y))


def _of_int(ir: ops.Expr) -> bool:
    return isinstance(ir, ops.Unary) and ir.op == "i64_to_f64"


def narrowed(given: Sequence[Value], result: Value) -> Value:
    """The result of an operation on such values: rounded where it is an f32."""
    if result.bad or result.type.plain() != FLOAT or not meet(*given):
        return result
    return rounded(result)


def fused(given: Sequence[Value], parts: Sequence[Value]) -> Value:
    """x * y + z of what is given, as floats: an f32, rounded once to it, where it is one."""
    if not meet(*given):
        x, y, z = (part.ir for part in parts)
        return Value(FLOAT, ops.Fma(x, y, z))
    x, y, z = (rounded(part).ir for part in parts)
    return Value(F32, ops.Fma(x, y, z, single=True))


def coerced(cx: Context, value: Value, wanted: Type) -> Value:
    """A value where an f32 is wanted: only what is one, or a constant, int or na, fits."""
    if value.type.kind == "na":
        return replace(value, type=wanted, ir=NAN)
    if not _adapts(value) or value.type.kind not in NUMERIC:
        return cx.error(
            "QD0301",
            f"an f32 is needed here, this is a {value.type}",
            value.span,
            help="round it: f32(...)" if value.type.kind in NUMERIC else None,
        )
    if value.type.kind == "int":
        value = replace(value, type=FLOAT, ir=_float_of_int(value), low=None, high=None)
    return replace(rounded(value), type=wanted)


def _float_of_int(value: Value) -> ops.Expr:
    if isinstance(value.const, int):
        return ops.f64(float(value.const))
    return ops.Unary("i64_to_f64", value.ir)
