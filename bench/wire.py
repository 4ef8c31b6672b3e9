"""A whole session in this process on a venue in another, with a clock at each place of the way.

    venue: stamp, send --> socket --> feed's thread: recv, decode, push --> ring --> engine --> ring
                 sent            received                  decoded   pushed           ordered

The session is the one that `quantdsl paper` runs, its threads and its journal included; what is
added waits in compiled code, on the feed's own thread, until the engine's records can be seen.
"""

import gc
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.venue import FIRST
from quantdsl.codegen.decoders import entry
from quantdsl.events.layout import QUOTE, Kind
from quantdsl.events.ring import CONSUMED, PUBLISHED
from quantdsl.events.ring_numba import load_acquire
from quantdsl.live.channel import Sender
from quantdsl.live.creation import Wish, create
from quantdsl.live.feed import _EPOCH_NS, LiveFeed
from quantdsl.live.session import Session, steady

ROOT = Path(__file__).parents[1]
POLLS = 20_000_000
"""Looks at a ring before a record is given up: tens of milliseconds."""
STAGES = ("received", "decoded", "pushed", "ordered")
Int64s = npt.NDArray[np.int64]

ECHO = """language 1

strategy Echo:
    "Answers each quote with an order."

    quotes

    on quote:
        if flat:
            buy(floor_qty(0.001))
        elif long:
            close_position()
"""
TENTH = """language 1

strategy Tenth:
    "Answers every tenth quote with an order."

    quotes

    state heard = 0

    on quote:
        heard += 1
        if heard == 10:
            heard = 0
            if flat:
                buy(floor_qty(0.001))
            elif long:
                close_position()
"""
WATCHER = """language 1

strategy Watcher:
    "Follows each quote, and trades when the average crosses a price that it never sees."

    quotes

    let slow = ts.ewm_mean(mid, halflife = 1s)

    on quote:
        if flat and slow > 70_000:
            buy(floor_qty(0.001))
"""
CONFIG = """
[[feed]]
feed = "binance_futures"
symbols = ["BTCUSDT"]
stream_url = "{stream_url}"
rest_url = "{rest_url}"
ca_file = "{ca_file}"

[account]
cash = 100_000.0
currency = "USDT"

[live]
wait = "{wait}"

[limits]
order_value = 250_000.0
position_value = 250_000.0
gross_value = 500_000.0
daily_loss = 50_000.0
drawdown = 50_000.0
price_collar = 0.05
orders_per_second = 256
"""


@entry("int64(int64[::1], int64, int64[::1], int64)")
def until_taken(outbound: Any, known: int, inbound: Any, polls: int) -> int:
    """Waits without the GIL until an engine has taken all that waits for it, or has answered; how
    far its records go then, which was `known` before."""
    for _ in range(polls):
        if load_acquire(outbound, PUBLISHED) != known:
            break
        if load_acquire(inbound, CONSUMED) == inbound[PUBLISHED]:  # records are published before
            break
    return load_acquire(outbound, PUBLISHED)


class Quoted(NamedTuple):
    """The addresses of a venue's process, and when it sent each place of its tape."""

    places: dict[str, Any]
    sent_ns: Int64s


@contextmanager
def venue(count: int, every_us: int, *, at_once: int = 1, tls: bool = False) -> Iterator[Quoted]:
    """A venue that sends `at_once` quotes each `every_us`, `count` in all, once one subscribes."""
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(8 * (count // at_once))
        stamps = np.memmap(file.name, np.int64, "r")
        words = (file.name, count, every_us, at_once, "tls" if tls else "plain")
        command = [sys.executable, "-m", "bench.venue", *map(str, words)]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            yield Quoted(json.loads(process.stdout.readline()), stamps)
            process.stdin.close()


def anchored(places: dict[str, Any], count: int) -> Int64s:
    """What bare TCP takes from stamp to read, ns: i64[count]."""
    took = []
    with socket.create_connection(("127.0.0.1", places["anchor"])) as one:
        while len(took) < count and len(data := one.recv(8)) == 8:
            took.append(time.monotonic_ns() - struct.unpack("q", data)[0])
    return np.array(took)


class Probe:
    """Stands between a feed and its session; notes times, 40 bytes for each order."""

    def __init__(self, session: Session) -> None:
        self.session, (self.one,) = session, session.strategies
        self.words, self.count = array("q"), 0
        until_taken.ready()

    def push(self, events: npt.NDArray[np.void]) -> None:
        decoded = time.monotonic_ns()
        ring = self.one.outbound
        known = ring.cells[PUBLISHED]
        self.session.sequencer.push(events)
        pushed = time.monotonic_ns()
        seen = until_taken(ring.words, known, self.one.inbound.words, POLLS)
        ordered = time.monotonic_ns()
        last = events[-1]
        if last["kind"] == Kind.QUOTE and seen != known:
            number = int(events[-1:].view(QUOTE)["sequence"][0]) - FIRST
            received = int(last["ts_recv"]) - _EPOCH_NS
            self.words.extend((number, received, decoded, pushed, ordered))
            self.count += 1


class Measured(Session):
    """A session on a thread, whose feed may have a probe."""

    probe: Probe | None = None
    probed = False

    def _feed(self, feed: LiveFeed) -> None:
        if not self.probed:
            super()._feed(feed)
            return
        self.probe = Probe(self)
        feed.run(self.probe, self.stopping)

    def _listen_to_signals(self) -> None:
        """They are the bench's."""


@contextmanager
def session(
    folder: Path, text: str, places: dict[str, Any], *, wait: str = "spin", probed: bool = False
) -> Iterator[Measured]:
    """A session of one strategy, running; at the end it is stopped in order."""
    file, config = folder / "strategy.qdsl", folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    config.write_text(CONFIG.format(wait=wait, **places), encoding="utf-8")
    create(folder / "session", [Wish(file, {})], config=config, said={})
    commands, snapshots = os.pipe(), os.pipe()
    live = Measured(folder / "session", commands[0], snapshots[1])
    switch_s = sys.getswitchinterval()
    steady()
    live.probed = probed
    sender, over = Sender(commands[1]), threading.Event()

    def beat() -> None:
        while not over.wait(0.2):
            sender.send(None)

    def hear() -> None:
        while os.read(snapshots[0], 1 << 20):
            pass

    threads = [threading.Thread(target=body) for body in (live.run, beat, hear)]
    for thread in threads:
        thread.start()
    try:
        yield live
    finally:
        live._stop("the bench is over")
        threads[0].join()
        over.set()
        os.close(snapshots[1])
        for thread in threads[1:]:
            thread.join()
        for descriptor in (*commands, snapshots[0]):
            os.close(descriptor)
        sys.setswitchinterval(switch_s)
        gc.unfreeze()


def stages(probe: Probe, sent_ns: Int64s) -> dict[str, Int64s]:
    """How long each stage took for each order, ns; `all` from the socket to the order."""
    rows = np.array(probe.words).reshape(-1, 1 + len(STAGES))
    times = np.column_stack((sent_ns[rows[:, 0]], rows[:, 1:]))
    took = {name: times[:, k + 1] - times[:, k] for k, name in enumerate(STAGES)}
    return took | {"all": times[:, -1] - times[:, 0]}
