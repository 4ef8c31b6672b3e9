"""The scalar operations of ops.py in exact Python arithmetic: the oracle's arithmetic.

Each entry of UNARY and BINARY takes the operand thunks (frame -> value) and gives the thunk of
the result. An i64 is an int in range, an f64 a float, a bool a bool.
"""

import ctypes
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from quantdsl.ir.ops import CANONICAL_NAN_BITS

Frame = list[Any]
Thunk = Callable[[Frame], Any]

HALF = 1 << 63
MASK = (1 << 64) - 1
INTEGRAL_FROM = 2.0**52
"""From here on every double is an integer."""


def wrap(value: int) -> int:
    """The i64 with the low 64 bits of `value`."""
    return ((value + HALF) & MASK) - HALF


def bits(x: float) -> int:
    """The bit pattern as an i64; every NaN gives the canonical one."""
    if x != x:
        return CANONICAL_NAN_BITS
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def from_bits(n: int) -> float:
    """The double with this bit pattern."""
    return float(struct.unpack("<d", struct.pack("<q", n))[0])


def fdiv(x: float, y: float) -> float:
    """IEEE division."""
    if y:
        return x / y
    if x != x or y != y or not x:
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def sqrt(x: float) -> float:
    """IEEE square root: NaN below zero."""
    return math.sqrt(x) if x >= 0.0 else (x if x == 0.0 else math.nan)


def fma(x: float, y: float, z: float) -> float:
    """x * y + z rounded once, computed with integers of any size."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        # An infinite z wins over any finite product, also one that x * y would round to inf.
        return z if math.isfinite(x) and math.isfinite(y) else x * y + z
    if not (x and y):
        return x * y + z
    x_num, x_den = x.as_integer_ratio()
    y_num, y_den = y.as_integer_ratio()
    z_num, z_den = z.as_integer_ratio()
    num = x_num * y_num * z_den + z_num * x_den * y_den
    if not num:
        return x * y + z if not z else 0.0
    try:
        return num / (x_den * y_den * z_den)  # int / int rounds correctly, subnormals included
    except OverflowError:
        return math.inf if num > 0 else -math.inf


def fma32(x: float, y: float, z: float) -> float:
    """x * y + z of binary32 values, rounded once to binary32.

    Rounded to a double first, to an odd last bit where that is not exact: the second rounding
    then sees on which side of a tie the sum lies.
    """
    near = fma(x, y, z)
    if not math.isfinite(near):
        return near
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if Fraction(near) != exact and not bits(near) & 1:
        near = math.nextafter(near, math.inf if exact > near else -math.inf)
    return f32(near)


def integral(x: float, rounding: Callable[[float], int]) -> float:
    """`rounding` applied to a double that may be anything; the sign of zero is kept."""
    if not abs(x) < INTEGRAL_FROM:
        return x
    return math.copysign(float(rounding(x)), x)


def f32(x: float) -> float:
    """The nearest binary32 as a double: infinite where it is out of range."""
    return ctypes.c_float(x).value


def f64_to_i64(x: float) -> int:
    """Truncation; 0 for NaN and from 2^63 on, either way."""
    return int(x) if abs(x) < 9223372036854775808.0 else 0


def umulh(x: int, y: int) -> int:
    """The high half of the unsigned product."""
    return wrap(((x & MASK) * (y & MASK)) >> 64)


def idiv(x: int, y: int) -> int:
    """Floor division; 0 for a divisor of 0."""
    return wrap(x // y) if y else 0


def imod(x: int, y: int) -> int:
    """The remainder of floor division, with the sign of `y`; 0 for a divisor of 0."""
    return x % y if y else 0


UNARY: dict[str, Callable[[Thunk], Thunk]] = {
    "not": lambda x: lambda f: not x(f),
    "ineg": lambda x: lambda f: wrap(-x(f)),
    "inot": lambda x: lambda f: ~x(f),
    "fneg": lambda x: lambda f: -x(f),
    "fabs": lambda x: lambda f: abs(x(f)),
    "sqrt": lambda x: lambda f: sqrt(x(f)),
    "floor": lambda x: lambda f: integral(x(f), math.floor),
    "ceil": lambda x: lambda f: integral(x(f), math.ceil),
    "trunc": lambda x: lambda f: integral(x(f), math.trunc),
    "rint": lambda x: lambda f: integral(x(f), round),
    "f32": lambda x: lambda f: f32(x(f)),
    "isnan": lambda x: lambda f: math.isnan(x(f)),
    "bits": lambda x: lambda f: bits(x(f)),
    "from_bits": lambda x: lambda f: from_bits(x(f)),
    "i64_to_f64": lambda x: lambda f: float(x(f)),
    "f64_to_i64": lambda x: lambda f: f64_to_i64(x(f)),
    "bool_to_i64": lambda x: lambda f: int(x(f)),
}


def _min(x: Thunk, y: Thunk) -> Thunk:
    def thunk(f: Frame) -> Any:
        a, b = x(f), y(f)
        return a if a < b else b

    return thunk


def _max(x: Thunk, y: Thunk) -> Thunk:
    def thunk(f: Frame) -> Any:
        a, b = x(f), y(f)
        return a if a > b else b

    return thunk


BINARY: dict[str, Callable[[Thunk, Thunk], Thunk]] = {
    # Written out instead of calling wrap: a call would double the cost of an addition.
    "iadd": lambda x, y: lambda f: ((x(f) + y(f) + HALF) & MASK) - HALF,
    "isub": lambda x, y: lambda f: ((x(f) - y(f) + HALF) & MASK) - HALF,
    "imul": lambda x, y: lambda f: ((x(f) * y(f) + HALF) & MASK) - HALF,
    "idiv": lambda x, y: lambda f: idiv(x(f), y(f)),
    "imod": lambda x, y: lambda f: imod(x(f), y(f)),
    "imin": _min,
    "imax": _max,
    "iand": lambda x, y: lambda f: x(f) & y(f),
    "ior": lambda x, y: lambda f: x(f) | y(f),
    "ixor": lambda x, y: lambda f: x(f) ^ y(f),
    "shl": lambda x, y: lambda f: wrap(x(f) << (y(f) & 63)),
    "lshr": lambda x, y: lambda f: wrap((x(f) & MASK) >> (y(f) & 63)),
    "ashr": lambda x, y: lambda f: x(f) >> (y(f) & 63),
    "umulh": lambda x, y: lambda f: umulh(x(f), y(f)),
    "fadd": lambda x, y: lambda f: x(f) + y(f),
    "fsub": lambda x, y: lambda f: x(f) - y(f),
    "fmul": lambda x, y: lambda f: x(f) * y(f),
    "fdiv": lambda x, y: lambda f: fdiv(x(f), y(f)),
    "fmin": _min,
    "fmax": _max,
    "and": lambda x, y: lambda f: x(f) & y(f),
    "or": lambda x, y: lambda f: x(f) | y(f),
    "xor": lambda x, y: lambda f: x(f) ^ y(f),
}
for _prefix in "if":
    BINARY |= {
        _prefix + "lt": lambda x, y: lambda f: x(f) < y(f),
        _prefix + "le": lambda x, y: lambda f: x(f) <= y(f),
        _prefix + "gt": lambda x, y: lambda f: x(f) > y(f),
        _prefix + "ge": lambda x, y: lambda f: x(f) >= y(f),
        _prefix + "eq": lambda x, y: lambda f: x(f) == y(f),
        _prefix + "ne": lambda x, y: lambda f: x(f) != y(f),
    }
