"""The scalar operations of ops.py on W lanes at once: each lane's bits are those of scalar.py.

What a CPU lacks (64-bit conversions and high products below AVX-512) is built from what it has,
exactly for every operand. No lane traps, whether it is active or not.
"""

import math
from collections.abc import Callable, Sequence

from quantdsl.codegen.scalar import END_I64_AS_F64, FMA_SINGLE, INTRINSICS
from quantdsl.codegen.simd_text import VectorText
from quantdsl.ir.ops import BINARY as SIGNATURES
from quantdsl.ir.ops import (
    CANONICAL_NAN_BITS,
    Binary,
    Const,
    Expr,
    Fma,
    Select,
    SizeOf,
    Unary,
    Var,
)

LOW_HALF = 0xFFFFFFFF
TWO_52 = 0x4330000000000000
"""The bits of 2^52: a whole number below 2^52 added to them is that number plus 2^52."""
TWO_84_AND_63 = 0x4530000080000000
"""The bits of 2^84 + 2^63, whose last place is worth 2^32."""
THEIR_SUM = 0x4530000080100000
"""The bits of 2^84 + 2^63 + 2^52."""

BINARY = {
    "iadd": "add",
    "isub": "sub",
    "imul": "mul",
    "iand": "and",
    "ior": "or",
    "ixor": "xor",
    "fadd": "fadd",
    "fsub": "fsub",
    "fmul": "fmul",
    "fdiv": "fdiv",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "ilt": "icmp slt",
    "ile": "icmp sle",
    "igt": "icmp sgt",
    "ige": "icmp sge",
    "ieq": "icmp eq",
    "ine": "icmp ne",
    "flt": "fcmp olt",
    "fle": "fcmp ole",
    "fgt": "fcmp ogt",
    "fge": "fcmp oge",
    "feq": "fcmp oeq",
    "fne": "fcmp une",
}
CHOICES = {
    "imin": "icmp slt",
    "imax": "icmp sgt",
    "fmin": "fcmp olt",
    "fmax": "fcmp ogt",
}


def unary(text: VectorText, op: str, x: str) -> str:
    """Emit a unary operation on vectors; the name of its value."""
    if op in INTRINSICS:
        return text.vector_float(INTRINSICS[op], x)
    return UNARY[op](text, x)


def binary(text: VectorText, op: str, x: str, y: str) -> str:
    """Emit a binary operation on vectors; the name of its value."""
    type_ = text.type_of(SIGNATURES[op].operand)
    if op in BINARY:
        return text.pure(f"{BINARY[op]} {type_} {x}, {y}")
    if op in CHOICES:
        chosen = text.pure(f"{CHOICES[op]} {type_} {x}, {y}")
        return text.pure(f"select {text.masks} {chosen}, {type_} {x}, {type_} {y}")
    return SPELLED[op](text, x, y)


class _Words:
    """Short hands for the integer steps of what is spelled out below."""

    def __init__(self, text: VectorText) -> None:
        self.text = text

    def op(self, instruction: str, x: str, y: str | int) -> str:
        return self.text.pure(f"{instruction} {self.text.words} {x}, {_word(y)}")

    def select(self, mask: str, x: str | int, y: str | int) -> str:
        words = self.text.words
        return self.text.pure(
            f"select {self.text.masks} {mask}, {words} {_word(x)}, {words} {_word(y)}"
        )

    def cast(self, instruction: str, from_: str, x: str, to: str) -> str:
        return self.text.pure(f"{instruction} {from_} {x} to {to}")


def _word(x: str | int) -> str:
    return f"splat (i64 {x})" if isinstance(x, int) else x


def _simple(template: str) -> Callable[[VectorText, str], str]:
    """An operation of one instruction; b, i and f stand for the vector types."""

    def emit(text: VectorText, x: str) -> str:
        types = {"b": text.masks, "i": text.words, "f": text.vector("double")}
        return text.pure(template.format(x=x, **types))

    return emit


def _bits(text: VectorText, x: str) -> str:
    """A NaN made by an operation has other bits on each machine, so all become one."""
    double = text.vector("double")
    raw = text.pure(f"bitcast {double} {x} to {text.words}")
    nan = text.pure(f"fcmp uno {double} {x}, zeroinitializer")
    return _Words(text).select(nan, CANONICAL_NAN_BITS, raw)


def fused(text: VectorText, operands: Sequence[str], *, single: bool) -> str:
    """Emit a fused multiply-add of vectors; the name of its value."""
    if not single:
        return text.vector_float(INTRINSICS["fma"], *operands)
    narrow = [_narrow(text, x) for x in operands]
    made = text.vector_float(FMA_SINGLE, *narrow)
    return text.pure(f"fpext {text.vector('float')} {made} to {text.vector('double')}")


def _narrow(text: VectorText, x: str) -> str:
    return text.pure(f"fptrunc {text.vector('double')} {x} to {text.vector('float')}")


def _f32(text: VectorText, x: str) -> str:
    double, single = text.vector("double"), text.vector("float")
    return text.pure(f"fpext {single} {_narrow(text, x)} to {double}")


def _i64_to_f64(text: VectorText, x: str) -> str:
    """Both halves as exact doubles with an offset each; the one rounding is in their sum."""
    double, words = text.vector("double"), _Words(text)
    if text.converts:
        return words.cast("sitofp", text.words, x, double)
    low = words.op("or", words.op("and", x, LOW_HALF), TWO_52)
    high = words.op("xor", words.op("lshr", x, 32), TWO_84_AND_63)
    low, high = (words.cast("bitcast", text.words, half, double) for half in (low, high))
    rest = text.pure(f"fsub {double} {high}, splat (double 0x{THEIR_SUM:016X})")
    return text.pure(f"fadd {double} {rest}, {low}")


def _f64_to_i64(text: VectorText, x: str) -> str:
    double, words = text.vector("double"), text.words
    size = text.vector_float(INTRINSICS["fabs"], x)
    fits = text.pure(f"fcmp olt {double} {size}, splat (double {END_I64_AS_F64})")
    whole = f"fptosi {double} {x} to {words}"
    number = text.pure(whole) if text.converts else _halves_to_i64(text, x)
    return text.pure(f"select {text.masks} {fits}, {words} {number}, {words} zeroinitializer")


def _halves_to_i64(text: VectorText, x: str) -> str:
    """trunc(x) as high * 2^32 + low: every step is exact, each half is whole and below 2^52."""
    double, words = text.vector("double"), _Words(text)
    whole = text.vector_float(INTRINSICS["trunc"], x)
    scaled = text.pure(f"fmul {double} {whole}, splat (double 0x3DF0000000000000)")  # 2^-32
    high = text.vector_float(INTRINSICS["floor"], scaled)
    product = text.pure(f"fmul {double} {high}, splat (double 0x41F0000000000000)")  # 2^32
    low = text.pure(f"fsub {double} {whole}, {product}")

    def number(half: str, offset: int) -> str:
        moved = text.pure(f"fadd {double} {half}, splat (double 0x{offset:016X})")
        return words.op("sub", words.cast("bitcast", double, moved, text.words), offset)

    # The high half may be negative: 2^52 + 2^51 keeps the sum within one power of two.
    upper = words.op("shl", number(high, 0x4338000000000000), 32)
    return words.op("add", upper, number(low, TWO_52))


def _idiv(text: VectorText, x: str, y: str) -> str:
    """sdiv traps on a divisor of 0 and on -2^63 / -1, so neither reaches it."""
    words = _Words(text)
    safe = _safe_divisor(words, y)
    quotient = words.op("sdiv", x, safe)
    below, _ = _rounds_down(words, x, safe)
    one = words.cast("zext", text.masks, below, text.words)
    floor = words.op("sub", quotient, one)
    if safe == y:
        return floor
    negated = words.op("sub", "zeroinitializer", x)
    divided = words.select(words.op("icmp eq", y, -1), negated, floor)
    return words.select(words.op("icmp eq", y, 0), 0, divided)


def _imod(text: VectorText, x: str, y: str) -> str:
    """The remainder by 0 and by -1 is that by 1: zero."""
    words = _Words(text)
    safe = _safe_divisor(words, y)
    below, remainder = _rounds_down(words, x, safe)
    return words.select(below, words.op("add", remainder, safe), remainder)


def _safe_divisor(words: _Words, y: str) -> str:
    """`y`, or 1 where `y` is 0 or -1."""
    if y.startswith("splat") and y not in (_word(0), _word(-1)):
        return y
    unsafe = words.op("icmp ult", words.op("add", y, 1), 2)
    return words.select(unsafe, 1, y)


def _rounds_down(words: _Words, x: str, y: str) -> tuple[str, str]:
    """Whether floor division lies one below truncation, and the truncated remainder."""
    remainder = words.op("srem", x, y)
    inexact = words.op("icmp ne", remainder, 0)
    opposite = words.op("icmp slt", words.op("xor", remainder, y), 0)
    return words.text.pure(f"and {words.text.masks} {inexact}, {opposite}"), remainder


def _shift(instruction: str) -> Callable[[VectorText, str, str], str]:
    def emit(text: VectorText, x: str, y: str) -> str:
        """A count of 64 or more is poison, so the count is masked."""
        words = _Words(text)
        return words.op(instruction, x, words.op("and", y, 63))

    return emit


def _umulh(text: VectorText, x: str, y: str) -> str:
    """From the four products of 32-bit halves, none of whose sums overflows 64 bits."""
    words = _Words(text)
    (x_low, x_high), (y_low, y_high) = (
        (words.op("and", z, LOW_HALF), words.op("lshr", z, 32)) for z in (x, y)
    )
    low, high = words.op("mul", x_low, y_low), words.op("mul", x_high, y_high)
    first, second = words.op("mul", x_high, y_low), words.op("mul", x_low, y_high)
    middle = words.op("add", first, words.op("lshr", low, 32))
    carried = words.op("add", second, words.op("and", middle, LOW_HALF))
    upper = words.op("add", high, words.op("lshr", middle, 32))
    return words.op("add", upper, words.op("lshr", carried, 32))


UNARY: dict[str, Callable[[VectorText, str], str]] = {
    "not": _simple("xor {b} {x}, splat (i1 true)"),
    "ineg": _simple("sub {i} zeroinitializer, {x}"),
    "inot": _simple("xor {i} {x}, splat (i64 -1)"),
    "fneg": _simple("fneg {f} {x}"),
    "isnan": _simple("fcmp uno {f} {x}, zeroinitializer"),
    "from_bits": _simple("bitcast {i} {x} to {f}"),
    "bool_to_i64": _simple("zext {b} {x} to {i}"),
    "bits": _bits,
    "f32": _f32,
    "i64_to_f64": _i64_to_f64,
    "f64_to_i64": _f64_to_i64,
}

SPELLED: dict[str, Callable[[VectorText, str, str], str]] = {
    **{shift: _shift(shift) for shift in ("shl", "lshr", "ashr")},
    "idiv": _idiv,
    "imod": _imod,
    "umulh": _umulh,
}

COSTS = {"imin": 2, "imax": 2, "imul": 3, "i64_to_f64": 1, "f64_to_i64": 6, "bits": 2, "f32": 2}
COSTS_UNCONVERTED = COSTS | {"imin": 3, "imax": 3, "imul": 8, "i64_to_f64": 6, "f64_to_i64": 16}
"""Instructions of what takes several, on targets that convert vectors and on others."""
NEVER_BLENDED = frozenset({"idiv", "imod", "fdiv", "sqrt"})


def instructions(text: VectorText, node: Expr) -> float:
    """About how many instructions a node takes without its operands; inf for what is not blended:
    what is slow, and what reads memory or calls, which must not be done for no lane."""
    if isinstance(node, Var | Const | SizeOf):
        return 0
    if isinstance(node, Fma | Select):
        return 1
    if not isinstance(node, Unary | Binary) or node.op in NEVER_BLENDED:
        return math.inf
    return (COSTS if text.converts else COSTS_UNCONVERTED).get(node.op, 1)
