"""Operations on known values, computed now: integers, truths, and what compares floats.

Values are bits, as in ops.Const. Float arithmetic is left to LLVM, which folds it to the same bits.
"""

import operator
from collections.abc import Callable

from quantdsl.ir.ops import BINARY, F64_T, I64_T, UNARY, bits_to_f64, f64_to_bits

_SIGN = 1 << 63
_UNSIGNED = (1 << 64) - 1

_UNARY: dict[str, Callable[[int], int]] = {
    "not": lambda x: 1 - x,
    "ineg": operator.neg,
    "inot": operator.invert,
    "bool_to_i64": int,
    "i64_to_f64": lambda x: f64_to_bits(float(x)),
    "isnan": lambda x: bits_to_f64(x) != bits_to_f64(x),
}
_BINARY: dict[str, Callable[[int, int], int]] = {
    "iadd": operator.add,
    "isub": operator.sub,
    "imul": operator.mul,
    "idiv": lambda x, y: x // y if y else 0,
    "imod": lambda x, y: x % y if y else 0,
    "imin": min,
    "imax": max,
    "iand": operator.and_,
    "ior": operator.or_,
    "ixor": operator.xor,
    "shl": lambda x, y: x << (y & 63),
    "lshr": lambda x, y: (x & _UNSIGNED) >> (y & 63),
    "ashr": lambda x, y: x >> (y & 63),
    "umulh": lambda x, y: ((x & _UNSIGNED) * (y & _UNSIGNED)) >> 64,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")


def _of_floats(compare: Callable[[float, float], bool]) -> Callable[[int, int], int]:
    return lambda x, y: compare(bits_to_f64(x), bits_to_f64(y))


_BINARY |= {"i" + name: getattr(operator, name) for name in _COMPARED}
_BINARY |= {"f" + name: _of_floats(getattr(operator, name)) for name in _COMPARED}


def fold_unary(op: str, x: int) -> int | None:
    """The bits of an operation's result; None where that is not for us to compute."""
    compute = _UNARY.get(op)
    return None if compute is None else wrapped(UNARY[op].result, compute(x))


def fold_binary(op: str, x: int, y: int) -> int | None:
    """The bits of an operation's result; None where that is not for us to compute."""
    compute = _BINARY.get(op)
    return None if compute is None else wrapped(BINARY[op].result, compute(x, y))


def wrapped(type_: str, bits: int) -> int:
    """The bits of a scalar of this type: an i64 wraps, a truth is 0 or 1."""
    if type_ == I64_T:
        return ((bits + _SIGN) & _UNSIGNED) - _SIGN
    return bits if type_ == F64_T else int(bits)
