"""The way of one message from its socket into the engine's ring: what is done, counted."""

import gc
import socket
import sys
import threading
import time
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from quantdsl.feeds.binance_live import futures
from quantdsl.feeds.edge import edges

from quantdsl.codegen.decoders import Entry
from quantdsl.data.instrument import Instrument
from quantdsl.events.layout import Kind
from quantdsl.events.ring import Ring
from quantdsl.journal.writer import Journal
from quantdsl.live.connection import FRAMES_MAX, MESSAGE_BYTES_MAX, Connection, split
from quantdsl.live.feed import FeedSpec
from quantdsl.live.sequencer import Lane, Sequencer
from quantdsl.live.straight import enter, fits
from tests.live.test_backlog import Ticks
from tests.venues.server import frame
from tests.waiting import WAIT_S

CALLS_MAX = 56
"""Of Python's functions and of compiled ones, for one message that comes alone."""
COMPILED = ("split", "decode", "fits", "enter")


def message(number: int) -> bytes:
    text = (
        f'{{"stream":"btcusdt@bookTicker","data":{{"e":"bookTicker","u":{5_000 + number},'
        f'"s":"BTCUSDT","b":"60000.1{number % 2}","B":"1.001","a":"60000.30","A":"1.001",'
        f'"T":{1_723_161_256_000 + number},"E":{1_723_161_256_000 + number}}}}}'
    )
    return frame(text.encode())


class Wire(Connection):
    """A connection whose handshake is over."""

    def __init__(self, connected: socket.socket) -> None:
        self.url, self._socket = "ws://test", connected
        self._view = memoryview(bytearray(MESSAGE_BYTES_MAX))
        self._data = np.frombuffer(self._view, np.uint8)
        self._spans = np.empty((FRAMES_MAX, 2), np.int64)
        self._split = split.ready()
        self._at = self._end = self.bytes_received = 0
        self._fragmented, self._last_heard = False, 0.0


@pytest.fixture
def way(tmp_path):
    """(the venue's end, what takes all that it sent into the ring, the ring, the journal)."""
    feed = futures(
        FeedSpec(feed="binance_futures", symbols=("BTCUSDT",), ticks=frozenset({"quotes"}))
    )
    one = Instrument(symbol="BTCUSDT", tick=Fraction(1, 100), lot=Fraction(1, 1_000))
    feed._edges[:] = edges([one], [(8, 8)], 3)
    ring = Ring.create(None, 1 << 10)
    journal = Journal.open(tmp_path / "j", manifest_digest=b"0" * 32, threaded=False)
    kinds = frozenset({Kind.QUOTE, Kind.FEED})
    sequencer = Sequencer([Lane("one", Ticks(), [0], kinds, journal, ring, conflates=True)])
    for compiled in (fits, enter):
        compiled.ready()
    venue, ours = socket.socketpair()
    wire = Wire(ours)

    def take() -> None:
        feed._take(wire.receive(), sequencer)

    with venue, ours:
        for number in range(8):  # the first ones switch the instrument on
            venue.sendall(message(number))
            take()
        yield venue, take, ring, journal
    journal.close()


def test_a_message_alone_takes_one_system_call_and_four_compiled_ones(way):
    venue, take, ring, journal = way
    venue.sendall(message(8))
    before, calls = ring.waiting, Counter[str]()

    def count(place, event, argument):
        if event == "call":
            calls[place.f_code.co_qualname] += 1
        elif event == "c_call":
            calls[getattr(argument, "__qualname__", str(argument))] += 1

    waiting = gc.isenabled()
    gc.disable()
    sys.setprofile(count)
    try:
        take()
    finally:
        sys.setprofile(None)
        if waiting:
            gc.enable()
    assert ring.waiting == before + 1
    assert journal.taken.inputs == ring.waiting
    assert calls["socket.recv_into"] == 1
    assert not calls[Entry.__call__.__qualname__], "nobody looks at the types of arguments"
    assert all(calls[f"_Closure.{name}"] == 1 for name in COMPILED), calls
    assert not [name for name in calls if "sleep" in name or "select" in name or "poll" in name]
    assert calls["lock.__exit__"] == 2, "the sequencer's and the journal's, once each"
    assert sum(calls.values()) <= CALLS_MAX, calls


def test_brief_calls_keep_pythons_lock(way):
    """Who lets go of it for a tenth of a microsecond waits for all that another thread does then.

    One that wants it all the time gets it from none of many calls.
    """
    _, _, ring, _ = way
    nothing, spans, over = np.zeros(8, np.uint8), np.empty((8, 2), np.int64), threading.Event()
    no_rows, wanted, turns = np.empty(0, np.int64), np.zeros(256, bool), [0]

    def wants() -> None:
        while not over.is_set():
            turns[0] += 1
            time.sleep(0)

    other, switch_s = threading.Thread(target=wants), sys.getswitchinterval()
    other.start()
    sys.setswitchinterval(WAIT_S)
    try:
        before = turns[0]
        for _ in range(10_000):
            split.ready()(nothing, 0, 8, spans)
            enter.ready()(no_rows, ring.words)
            fits.ready()(ring.words[-8:], wanted, ring.words, 0, 0, 0)
        assert turns[0] == before
    finally:
        sys.setswitchinterval(switch_s)
        over.set()
        other.join()


def test_messages_that_wait_are_passed_on_together(way):
    """A hundred that came at once cost the calls of one, each of a batch's steps once."""
    venue, take, ring, _ = way
    venue.sendall(b"".join(message(number) for number in range(8, 108)))
    before, calls = ring.waiting, Counter[str]()

    def count(place, event, _):
        if event == "call":
            calls[place.f_code.co_qualname] += 1

    sys.setprofile(count)
    try:
        take()
    finally:
        sys.setprofile(None)
    assert ring.waiting == before + 100
    assert sum(calls.values()) <= CALLS_MAX, calls
