"""The ring's operations for users' own `numba.njit` code, on `Ring.words` and `Ring.records`.

    at, room = ring_numba.claim(words, n)         # records[at : at + room] may be written
    ring_numba.publish(words, room)
    at, count = ring_numba.take(words, n)         # records[at : at + count] may be read
    ring_numba.release(words, count)
    at, count = ring_numba.ahead(words)           # orders whose instant is not over

They are the same claim, publish, take and release as those of ring.py, with a load that acquires
and a store that releases, and no check of misuse: the caller owns its end of the ring and publishes
or releases no more than it got. Importing this module imports numba.
"""

from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from quantdsl.events.ring import (
    AHEAD,
    BEAT,
    CAPACITY_WORD,
    CONSUMED,
    CONSUMER,
    PRODUCER,
    PUBLISHED,
)

ALIGN_BYTES = 8


_item_pointer: Any = cgutils.get_item_pointer


def _load(_: Any, words: Any, at: Any) -> Any:
    """words[at], before everything that follows."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature, args)
        return builder.load_atomic(pointer, "acquire", ALIGN_BYTES)

    return types.int64(words, at), generate


def _store(_: Any, words: Any, at: Any, value: Any) -> Any:  # noqa: ARG001 (in args)
    """words[at] = value, after everything before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature, args)
        builder.store_atomic(args[2], pointer, "release", ALIGN_BYTES)
        return context.get_dummy_value()

    return types.void(words, at, types.int64), generate


def _pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    type_ = signature.args[0]
    array = context.make_array(type_)(context, builder, args[0])
    return _item_pointer(context, builder, type_, array, [args[1]])


load_acquire: Any = intrinsic(_load)
_store_release: Any = intrinsic(_store)


@njit
def claim(words: Any, n: int) -> tuple[int, int]:
    """(first record, how many up to n) that may be written; none when the ring is full."""
    capacity, published = words[CAPACITY_WORD], words[PUBLISHED]
    free = capacity - (published - load_acquire(words, CONSUMED))
    at = published & (capacity - 1)
    return at, min(n, free, capacity - at)


@njit
def publish(words: Any, n: int) -> None:
    """Show the first n claimed records to the consumer."""
    _store_release(words, PUBLISHED, words[PUBLISHED] + n)
    words[PRODUCER + BEAT] += 1


@njit
def take(words: Any, n: int) -> tuple[int, int]:
    """(first record, how many up to n) that may be read."""
    capacity, consumed = words[CAPACITY_WORD], words[CONSUMED]
    waiting = load_acquire(words, PUBLISHED) - consumed
    at = consumed & (capacity - 1)
    return at, min(n, waiting, capacity - at)


@njit
def release(words: Any, n: int) -> None:
    """Give the first n taken records back to the producer."""
    _store_release(words, CONSUMED, words[CONSUMED] + n)
    words[CONSUMER + BEAT] += 1


@njit
def ahead(words: Any) -> tuple[int, int]:
    """(first record, how many) that are there although their instant is not over."""
    capacity, until = words[CAPACITY_WORD], load_acquire(words, AHEAD)
    published = load_acquire(words, PUBLISHED)
    at, count = published & (capacity - 1), until - published
    return at, min(count, capacity - at) if 0 <= count <= capacity else 0
