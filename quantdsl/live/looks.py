"""Two looks at memory in compiled code, without the GIL: at a word that a device writes, and at
the heads of events while they are copied."""

from typing import Any

from quantdsl.codegen.decoders import entry
from quantdsl.events.layout import MORE, WORDS, Kind
from quantdsl.events.ring_numba import load_acquire

HEAD = 2
"""The word of an event that holds its instrument, kind, side and flags."""
_BAR, _MORE = int(Kind.BAR), MORE << 16


@entry("boolean(int64[::1], int64, int64, int64)")
def seen(words: Any, at: int, wanted: int, times: int) -> bool:
    """Whether a word is what is wanted, as soon as it is and after so many looks at most; what
    another device wrote before that word is seen after a True."""
    looks = 0
    while looks < times and load_acquire(words, at) != wanted:
        looks += 1
    return looks < times


@entry("boolean(int64[::1], int64[::1])")
def copied(rows: Any, room: Any) -> bool:
    """Copy events; whether they are an instant of bars of one clock, sorted by instrument."""
    count = len(rows) // WORDS
    if count == 0:
        return False
    kind = rows[HEAD] >> 32 & 0xFFFF
    plain: bool = kind & 0xFF == _BAR
    before = -1
    for number in range(count):
        first = WORDS * number
        for word in range(WORDS):
            room[first + word] = rows[first + word]
        head = rows[first + HEAD]
        instrument = head & 0xFFFFFFFF
        # All but the last say that more follow: they differ from the last in nothing but that.
        what = kind if number == count - 1 else kind | _MORE
        plain = plain and head >> 32 & 0xFFFFFFFF == what and instrument > before
        before = instrument
    return plain
