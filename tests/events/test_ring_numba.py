"""The ring inside users' own compiled code, beside Python's operations on the same memory."""

import threading

import numpy as np
import pytest

from quantdsl.events.ring import AHEAD, PUBLISHED, Ring

numba = pytest.importorskip("numba")

TOTAL = 200_000


@pytest.fixture(scope="module")
def user_code():
    """What a user may write: a feed and a sink of their own."""
    from quantdsl.events import ring_numba

    @numba.njit(nogil=True)
    def produce(words, records, total):
        sent = 0
        while sent < total:
            at, room = ring_numba.claim(words, 50)
            room = min(room, total - sent)
            for k in range(room):
                records[at + k]["ts_event"] = sent + k
                records[at + k]["payload"][4] = sent + k
            ring_numba.publish(words, room)
            sent += room

    @numba.njit(nogil=True)
    def consume(words, records, total):
        seen, torn = 0, 0
        while seen < total:
            at, count = ring_numba.take(words, 50)
            for k in range(count):
                one = records[at + k]
                if one["ts_event"] != seen + k or one["payload"][4] != seen + k:
                    torn += 1
            ring_numba.release(words, count)
            seen += count
        return torn

    return produce, consume


def test_both_ends_in_compiled_code(user_code):
    produce, consume = user_code
    ring = Ring.create(None, 128)
    produce(ring.words, ring.records, 1)  # compiled before the clock of the test runs
    assert consume(ring.words, ring.records, 1) == 0
    thread = threading.Thread(target=produce, args=(ring.words, ring.records, TOTAL))
    thread.start()
    assert consume(ring.words, ring.records, TOTAL) == 0
    thread.join()
    assert ring.waiting == 0


def test_compiled_code_and_python_share_a_ring(user_code):
    produce, consume = user_code
    ring = Ring.create(None, 8, first=2**63 - 3)
    produce(ring.words, ring.records, 6)
    assert ring.consumer().pop(8)["ts_event"].tolist() == [0, 1, 2]  # to the end of the memory
    records = np.zeros(2, ring.records.dtype)
    records["ts_event"] = records["payload"][:, 4] = [0, 1]
    empty = Ring.create(None, 8)
    assert empty.producer().push(records) == 2
    assert consume(empty.words, empty.records, 2) == 0


def test_ahead_is_what_python_sees():
    from quantdsl.events import ring_numba

    ring = Ring.create(None, 8)
    assert ring_numba.ahead(ring.words) == (0, 0)
    ring.cells[AHEAD] = 3
    assert ring_numba.ahead(ring.words) == (0, 3)
    assert len(ring.consumer().ahead()) == 3
    ring.cells[PUBLISHED] = 4
    assert ring_numba.ahead(ring.words) == (4, 0)
