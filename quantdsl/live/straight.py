"""The shortest way of ticks from a feed to an engine, in compiled calls.

    fits    may these whole messages enter as they are: wanted, in order, within the session,
            before the next timer, and with room in the ring
    enter   they are in the ring, where the engine sees all of them at once
    attend  an engine's turns, and between them its core for others

Between the first two they are handed to the journal. What does not fit takes the lane's long way,
with the same result.
"""

import ctypes
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from quantdsl.codegen.decoders import entry
from quantdsl.codegen.turn import DRY, STOP
from quantdsl.events.layout import WORDS
from quantdsl.events.ring import CAPACITY_WORD, CONSUMED, HEAD_WORDS, PUBLISHED
from quantdsl.events.ring_numba import load_acquire, publish

NO = -(2**63)
_KIND_BITS = 32


@entry("int64(int64[::1], boolean[::1], int64[::1], int64, int64, int64)", brief=True)
def fits(rows: Any, wanted: Any, ring: Any, since_ns: int, open_ns: int, until_ns: int) -> int:
    """The newest time of receipt, NO where not all of them may enter as they are."""
    count = len(rows) // WORDS
    if count > ring[CAPACITY_WORD] - (ring[PUBLISHED] - load_acquire(ring, CONSUMED)):
        return NO
    first: int = rows[1]
    last: int = rows[WORDS * (count - 1) + 1]
    if first < since_ns or first < open_ns or last >= until_ns:
        return NO
    for k in range(count):
        if not wanted[rows[WORDS * k + 2] >> _KIND_BITS & 255]:
            return NO
    return last


@entry("void(int64[::1], int64[::1])", brief=True)
def enter(rows: Any, ring: Any) -> None:
    """Publish records for which there is room; the caller is the ring's producer."""
    count = len(rows) // WORDS
    last = ring[CAPACITY_WORD] - 1
    for k in range(count):
        at = HEAD_WORDS + WORDS * ((ring[PUBLISHED] + k) & last)
        for word in range(WORDS):
            ring[at + word] = rows[WORDS * k + word]
    publish(ring, count)


_parts: Any = cgutils.unpack_tuple


def _calls(_: Any, address: Any, words: Any) -> Any:
    """Calls the C function at an address with whole numbers, some of which are addresses."""

    def emit(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * words.count).as_pointer()
        given = _parts(builder, arguments[1], words.count)
        return builder.call(builder.inttoptr(arguments[0], kind), given)

    return types.int64(address, words), emit


_call: Any = intrinsic(_calls)


@entry("int64(int64, int64, int64, int64[::1], int64, int64[::1], int64, int64, int64)")
def attend(
    turn: int, offer: int, state: int, inbound: Any, outbound: int, control: Any, curve: int,
    polls: int, offers_max: int,
) -> int:  # fmt: skip
    """Call a strategy's turn until STOPPED or FULL; after `polls` empty looks offer the core to
    others until a record waits in the ring or STOP is set. `offers_max`: then its heart beats.

    All of it without the GIL: an engine that takes it for each event waits for whoever has it.
    """
    while True:
        words = (state, inbound.ctypes.data, outbound, control.ctypes.data, curve, polls)
        status: int = _call(turn, words)
        if status != DRY:
            return status
        for _ in range(offers_max):
            _call(offer, ())
            waiting = load_acquire(inbound, PUBLISHED) != inbound[CONSUMED]
            if waiting or load_acquire(control, STOP) != 0:
                break


OFFER = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value
"""Of the system: the address of what offers the core."""
