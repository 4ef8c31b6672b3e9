"""What the messages of a session took, as a file that backtests accept (data/latency.py)."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from quantdsl.live.feed import FeedSpec, LiveFeed

FILE = "latency.csv"
HEADER = "time,symbol,entry_us,response_us\n"


class Measured:
    """Appends to the file of a session's folder; a row that a kill tore goes first.

    Word of a fill takes as long as any message of the venue. The way there is not measured, for
    no order goes there: it is taken to be as long as the way back. Below 0, by an error of the
    clocks' offset, a latency counts as 0.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / FILE
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._file = os.fdopen(descriptor, "r+", encoding="ascii", newline="")
        whole = self._file.read().rpartition("\n")
        self._file.seek(len(whole[0]) + len(whole[1]))
        self._file.truncate()
        if not whole[1]:
            self._file.write(HEADER)
        self._had: dict[int, int] = {}

    def add(self, feeds: Sequence[LiveFeed], specs: Sequence[FeedSpec]) -> None:
        """A row for each symbol of those feeds of ticks that have received something since."""
        for number, (feed, spec) in enumerate(zip(feeds, specs, strict=True)):
            health = feed.health
            new = health.received > self._had.get(number, 0) and health.last_event_ns > 0
            if not new or not spec.ticks - {"funding"}:
                continue
            self._had[number] = health.received
            moment = np.datetime64(health.last_recv_ns, "ns")
            took_us = max(health.latency_ns, 0) / 1_000
            for symbol in feed.symbols:
                self._file.write(f"{moment}Z,{symbol},{took_us:.3f},{took_us:.3f}\n")
        self._file.flush()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
