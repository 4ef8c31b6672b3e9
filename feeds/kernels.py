"""What decoders share: numbers out of text and bytes, and the head of an event.

Importing it imports numba, so only decoders do, and they only when a file is theirs. Prices and
sizes stay whole numbers from the first digit.
"""

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from quantdsl.codegen.decoders import later


def inner(signature: str) -> Any:
    """A function that only compiled code calls, compiled with the first one that does; called from
    Python it crashes. It allocates nothing: counting who holds its arrays would cost more than
    what most of them do."""
    return later(signature, no_cpython_wrapper=True, _nrt=False)


def inlined(signature: str) -> Any:
    """As `inner`, made part of each function that calls it."""
    return later(signature, no_cpython_wrapper=True, _nrt=False, forceinline=True)


@intrinsic
def byte_at(_: Any, text: Any, at: Any) -> Any:
    """text[at] as an int64, for a position known to lie inside.

    A subscript would look for a negative index first, at every byte of a message.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte = builder.load(cgutils.gep_inbounds(builder, array.data, arguments[1]))
        return builder.zext(byte, context.get_value_type(types.int64))

    return types.int64(text, at), emit


UNREADABLE = -1
"""Position that a number parser gives where there is no number, or one that 64 bits do not hold."""

_WHOLE_MAX = (2**63 - 10) // 10


@inner("int64(int64, int64, int64, int64)")
def head(instrument: int, kind: int, side: int, flags: int) -> int:
    """The packed third word of an event."""
    return instrument | kind << 32 | side << 40 | flags << 48


@inner("void(int64[:,::1], int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def put(out, at, ts_event, ts_recv, word, a, b, c, d, e):
    """Writes one event as row `at`; `word` is its head."""
    out[at, 0] = ts_event
    out[at, 1] = ts_recv
    out[at, 2] = word
    out[at, 3] = a
    out[at, 4] = b
    out[at, 5] = c
    out[at, 6] = d
    out[at, 7] = e


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64)")
def whole_number(text, at: int, end: int):
    """(value, position behind it) of a whole number that may have a sign, else UNREADABLE."""
    negative = at < end and byte_at(text, at) == 45
    at += negative
    first, value = at, 0
    while at < end:
        digit = byte_at(text, at) - 48
        if digit < 0 or digit > 9:
            break
        if value > _WHOLE_MAX:
            return 0, UNREADABLE
        value = value * 10 + digit
        at += 1
    if at == first:
        return 0, UNREADABLE
    return (-value if negative else value), at


_POWERS = np.array([10**n for n in range(19)], np.int64)
_SAFE_DIGITS = 18
"""So many digits stand for less than 2**63."""


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64, boolean)")
def _long_fixed_point(text, at: int, end: int, digits: int, rounded: bool):
    """As `fixed_point`, for any number of digits."""
    negative = at < end and byte_at(text, at) == 45
    at += negative
    first, value, seen, point, up = at, 0, 0, False, 0
    while at < end:
        byte = np.int64(text[at])
        if byte == 46 and not point:
            point = True
        elif 48 <= byte <= 57:
            if point:
                seen += 1
            if seen <= digits:
                if value > _WHOLE_MAX:
                    return 0, UNREADABLE
                value = value * 10 + (byte - 48)
            elif rounded:
                up = np.int64(byte >= 53) if seen == digits + 1 else up
            elif byte != 48:
                return 0, UNREADABLE
        else:
            break
        at += 1
    if at == first + point:
        return 0, UNREADABLE
    while seen < digits:
        if value > _WHOLE_MAX:
            return 0, UNREADABLE
        value *= 10
        seen += 1
    value += up
    return (-value if negative else value), at


@inlined("UniTuple(int64, 2)(uint8[::1], int64, int64, int64)")
def digits_behind(text, at: int, end: int, value: int):
    """(number, position behind it) of digits that follow those of `value`; more than 18 digits in
    all may not fit."""
    while at < end:
        digit = byte_at(text, at) - 48
        if digit < 0 or digit > 9:
            break
        value = value * 10 + digit
        at += 1
    return value, at


@inner("UniTuple(int64, 2)(uint8[::1], int64, int64, int64, boolean)")
def fixed_point(text, at: int, end: int, digits: int, rounded: bool):
    """(value in units of 10**-digits, position behind it) of a plain decimal, else UNREADABLE.

    Digits beyond `digits` must be zeros, so that nothing is lost unseen; `rounded` rounds them, as
    for a time that went through a float on its way into the file.
    """
    begin = at
    negative = at < end and byte_at(text, at) == 45
    at += negative
    first = at
    value, at = digits_behind(text, at, end, 0)
    whole = at - first
    if whole + digits > _SAFE_DIGITS:
        return _long_fixed_point(text, begin, end, digits, rounded)
    seen = 0
    if at < end and byte_at(text, at) == 46:
        at += 1
        stop = min(end, at + digits)
        point = at
        value, at = digits_behind(text, at, stop, value)
        seen = at - point
        if at == stop and at < end and 48 <= byte_at(text, at) <= 57:
            return _long_fixed_point(text, begin, end, digits, rounded)
        if at < end and byte_at(text, at) == 46:
            return _long_fixed_point(text, begin, end, digits, rounded)
    if whole + seen == 0:
        return 0, UNREADABLE
    value *= _POWERS[digits - seen]
    return (-value if negative else value), at


@inner("int64(uint8[::1], int64, int64)")
def big_endian(data, at: int, size: int) -> int:
    """The unsigned number of `size` bytes, at most 8, most significant first."""
    value = np.uint64(0)
    for offset in range(size):
        value = (value << np.uint64(8)) | np.uint64(data[at + offset])
    return np.int64(value)
