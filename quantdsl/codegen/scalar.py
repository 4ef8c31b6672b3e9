"""The scalar operations of ops.py in LLVM instructions.

No instruction here carries a fast-math, nsw, nuw or exact flag: each means on every input what
ops.py says. What LLVM leaves undefined (shift counts, division, conversions) is spelled out.
"""

from collections.abc import Callable, Sequence

from quantdsl.codegen.target import TRAILING_ZEROS
from quantdsl.codegen.text import Text
from quantdsl.ir.ops import CANONICAL_NAN_BITS

END_I64_AS_F64 = "0x43E0000000000000"
"""2^63, the first double that is too large for an i64."""

UNARY = {
    "not": "xor i1 {x}, true",
    "ineg": "sub i64 0, {x}",
    "inot": "xor i64 {x}, -1",
    "fneg": "fneg double {x}",
    "isnan": "fcmp uno double {x}, 0.0",
    "from_bits": "bitcast i64 {x} to double",
    "i64_to_f64": "sitofp i64 {x} to double",
    "bool_to_i64": "zext i1 {x} to i64",
}

INTRINSICS = {
    "fabs": "llvm.fabs.f64",
    "sqrt": "llvm.sqrt.f64",
    "floor": "llvm.floor.f64",
    "ceil": "llvm.ceil.f64",
    "trunc": "llvm.trunc.f64",
    "rint": "llvm.roundeven.f64",
    "fma": "llvm.fma.f64",
}
FMA_SINGLE = "llvm.fma.f32"

BINARY = {
    "iadd": "add i64 {x}, {y}",
    "isub": "sub i64 {x}, {y}",
    "imul": "mul i64 {x}, {y}",
    "iand": "and i64 {x}, {y}",
    "ior": "or i64 {x}, {y}",
    "ixor": "xor i64 {x}, {y}",
    "fadd": "fadd double {x}, {y}",
    "fsub": "fsub double {x}, {y}",
    "fmul": "fmul double {x}, {y}",
    "fdiv": "fdiv double {x}, {y}",
    "and": "and i1 {x}, {y}",
    "or": "or i1 {x}, {y}",
    "xor": "xor i1 {x}, {y}",
    "ilt": "icmp slt i64 {x}, {y}",
    "ile": "icmp sle i64 {x}, {y}",
    "igt": "icmp sgt i64 {x}, {y}",
    "ige": "icmp sge i64 {x}, {y}",
    "ieq": "icmp eq i64 {x}, {y}",
    "ine": "icmp ne i64 {x}, {y}",
    "flt": "fcmp olt double {x}, {y}",
    "fle": "fcmp ole double {x}, {y}",
    "fgt": "fcmp ogt double {x}, {y}",
    "fge": "fcmp oge double {x}, {y}",
    "feq": "fcmp oeq double {x}, {y}",
    "fne": "fcmp une double {x}, {y}",
}

CHOICES = {
    "imin": ("icmp slt", "i64"),
    "imax": ("icmp sgt", "i64"),
    "fmin": ("fcmp olt", "double"),
    "fmax": ("fcmp ogt", "double"),
}


def lowest_bit(text: Text, x: str, none: int) -> str:
    """Emit the index of the lowest bit of a word, or `none` where it has no bit."""
    text.called.add(TRAILING_ZEROS)
    index = text.pure(f"call i64 @{TRAILING_ZEROS}(i64 {x}, i1 false)")
    empty = text.pure(f"icmp eq i64 {x}, 0")
    return text.pure(f"select i1 {empty}, i64 {none}, i64 {index}")


def kept(text: Text, fits: str, x: str) -> str:
    """A double as a whole number where it fits, else 0.

    What fptosi makes of another is poison, which is not chosen: so nothing waits for `fits` first.
    """
    number = text.pure(f"fptosi double {x} to i64")
    return text.pure(f"select i1 {fits}, i64 {number}, i64 0")


def unary(text: Text, op: str, x: str) -> str:
    """Emit a unary operation; the name of its value."""
    if op in UNARY:
        return text.pure(UNARY[op].format(x=x))
    if op in INTRINSICS:
        return text.intrinsic(INTRINSICS[op], x)
    return SPELLED_UNARY[op](text, x)


def binary(text: Text, op: str, x: str, y: str) -> str:
    """Emit a binary operation; the name of its value."""
    if op in BINARY:
        return text.pure(BINARY[op].format(x=x, y=y))
    if op in CHOICES:
        compare, type_ = CHOICES[op]
        chosen = text.pure(f"{compare} {type_} {x}, {y}")
        return text.pure(f"select i1 {chosen}, {type_} {x}, {type_} {y}")
    return SPELLED[op](text, x, y)


def _bits(text: Text, x: str) -> str:
    """A NaN made by an operation has other bits on each machine, so all become one."""
    raw = text.pure(f"bitcast double {x} to i64")
    nan = text.pure(f"fcmp uno double {x}, 0.0")
    return text.pure(f"select i1 {nan}, i64 {CANONICAL_NAN_BITS}, i64 {raw}")


def fused(text: Text, operands: Sequence[str], *, single: bool) -> str:
    """Emit a fused multiply-add; the name of its value."""
    if not single:
        return text.intrinsic(INTRINSICS["fma"], *operands)
    narrow = [text.pure(f"fptrunc double {x} to float") for x in operands]
    return text.pure(f"fpext float {text.intrinsic(FMA_SINGLE, *narrow)} to double")


def _f32(text: Text, x: str) -> str:
    """LLVM makes one f32 instruction of an operation between such roundings."""
    return text.pure(f"fpext float {text.pure(f'fptrunc double {x} to float')} to double")


def _f64_to_i64(text: Text, x: str) -> str:
    size = text.intrinsic(INTRINSICS["fabs"], x)
    return kept(text, text.pure(f"fcmp olt double {size}, {END_I64_AS_F64}"), x)


def _idiv(text: Text, x: str, y: str) -> str:
    """sdiv traps on a divisor of 0 and on -2^63 / -1, so neither reaches it."""
    safe = _safe_divisor(text, y)
    quotient = text.pure(f"sdiv i64 {x}, {safe}")
    below, _ = _rounds_down(text, x, safe)
    one = text.pure(f"zext i1 {below} to i64")
    floor = text.pure(f"sub i64 {quotient}, {one}")
    if safe == y:
        return floor
    negated = text.pure(f"sub i64 0, {x}")
    minus_one = text.pure(f"icmp eq i64 {y}, -1")
    divided = text.pure(f"select i1 {minus_one}, i64 {negated}, i64 {floor}")
    zero = text.pure(f"icmp eq i64 {y}, 0")
    return text.pure(f"select i1 {zero}, i64 0, i64 {divided}")


def _imod(text: Text, x: str, y: str) -> str:
    """The remainder by 0 and by -1 is that by 1: zero."""
    safe = _safe_divisor(text, y)
    below, remainder = _rounds_down(text, x, safe)
    lifted = text.pure(f"add i64 {remainder}, {safe}")
    return text.pure(f"select i1 {below}, i64 {lifted}, i64 {remainder}")


def _safe_divisor(text: Text, y: str) -> str:
    """`y`, or 1 where `y` is 0 or -1."""
    if not y.startswith("%") and int(y) not in (0, -1):
        return y
    next_ = text.pure(f"add i64 {y}, 1")
    unsafe = text.pure(f"icmp ult i64 {next_}, 2")
    return text.pure(f"select i1 {unsafe}, i64 1, i64 {y}")


def _rounds_down(text: Text, x: str, y: str) -> tuple[str, str]:
    """Whether floor division lies one below truncation, and the truncated remainder."""
    remainder = text.pure(f"srem i64 {x}, {y}")
    inexact = text.pure(f"icmp ne i64 {remainder}, 0")
    mixed = text.pure(f"xor i64 {remainder}, {y}")
    opposite = text.pure(f"icmp slt i64 {mixed}, 0")
    return text.pure(f"and i1 {inexact}, {opposite}"), remainder


def _shift(instruction: str) -> Callable[[Text, str, str], str]:
    def emit(text: Text, x: str, y: str) -> str:
        """A count of 64 or more is poison, so the count is masked."""
        count = text.pure(f"and i64 {y}, 63") if y.startswith("%") else str(int(y) % 64)
        return text.pure(f"{instruction} i64 {x}, {count}")

    return emit


def _umulh(text: Text, x: str, y: str) -> str:
    """LLVM makes one widening multiply of this."""
    wide_x = text.pure(f"zext i64 {x} to i128")
    wide_y = text.pure(f"zext i64 {y} to i128")
    product = text.pure(f"mul i128 {wide_x}, {wide_y}")
    high = text.pure(f"lshr i128 {product}, 64")
    return text.pure(f"trunc i128 {high} to i64")


SPELLED_UNARY: dict[str, Callable[[Text, str], str]] = {
    "bits": _bits,
    "f32": _f32,
    "f64_to_i64": _f64_to_i64,
}
SPELLED: dict[str, Callable[[Text, str, str], str]] = {
    "idiv": _idiv,
    "imod": _imod,
    "shl": _shift("shl"),
    "lshr": _shift("lshr"),
    "ashr": _shift("ashr"),
    "umulh": _umulh,
}
