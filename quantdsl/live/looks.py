"""Two looks at memory in compiled code, without the GIL: at a word that a device writes, and at
the heads of events."""

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


@entry("boolean(int64[::1])")
def plain(rows: Any) -> bool:
    """Whether events, at least one, are an instant of bars of one clock, sorted by instrument."""
    count = len(rows) // WORDS
    kind = rows[HEAD] >> 32 & 0xFFFF
    if kind & 0xFF != _BAR:
        return False
    before = -1
    for number in range(count):
        head = rows[WORDS * number + HEAD]
        instrument = head & 0xFFFFFFFF
        # All but the last say that more follow: they differ from the last in nothing but that.
        what = kind if number == count - 1 else kind | _MORE
        if head >> 32 & 0xFFFFFFFF != what or instrument <= before:
            return False
        before = instrument
    return True
