"""A live feed into Parquet files that backtests read: what came, when it came, in order.

    FOLDER/000000.parquet, 000001.parquet, ...   so many minutes each, written whole or not at all

A feed's thread only copies; the files are written by the caller's. A recording that is killed
keeps every file that was finished. What the feed said of itself (gap, stale, good) is recorded
too, so a backtest's book is invalid where that of the recorder was.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from quantdsl.data.instrument import Instrument, show_fraction
from quantdsl.data.recording import MARK, Head, Recorded
from quantdsl.errors import DataError
from quantdsl.events.arrow import table_of
from quantdsl.events.layout import EVENT
from quantdsl.live.feed import Events, LiveFeed

EVENTS_MAX = 4_000_000
"""Events that wait for the disk: 256 MB; a recorder that falls behind further stops."""

LOOK_S = 0.2
GROUP_EVENTS = 1 << 17
"""Events that are written together: a group of rows of the file."""


class Recorder:
    """A sink that keeps what is pushed until it is taken. Two threads use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[Events] = []
        self.waiting = 0
        self.overrun = False

    def push(self, events: Events) -> None:
        copy = events.copy()
        with self._lock:
            self.overrun |= self.waiting + len(copy) > EVENTS_MAX
            if not self.overrun:
                self._held.append(copy)
                self.waiting += len(copy)

    def take(self) -> Events:
        """All that waited, in order."""
        with self._lock:
            held, self._held, self.waiting = self._held, [], 0
        return np.concatenate(held) if held else np.empty(0, EVENT)


class Files:
    """The files of one recording; a new one each `seconds`."""

    def __init__(
        self,
        folder: Path,
        feed: str,
        instruments: list[Instrument],
        seconds: float,
        *,
        ticks: bool = True,
        bars: str = "",
    ) -> None:
        if folder.exists() and any(folder.iterdir()):
            raise DataError(f"{folder}: is not empty; name another folder with --out")
        folder.mkdir(parents=True, exist_ok=True)
        listed = [
            Recorded(
                symbol=one.symbol,
                venue=one.venue,
                tick=show_fraction(one.tick),
                lot=show_fraction(one.lot),
                currency=one.currency,
            )
            for one in instruments
        ]
        head = Head(feed=feed, instruments=listed, ticks=ticks, bars=bars)
        self._metadata = {MARK: msgspec.json.encode(head)}
        self._folder, self._seconds = folder, seconds
        self._number, self._began = 0, 0.0
        self._writer: Any = None
        self._file: Any = None
        self._group: list[Events] = []
        self._grouped = 0
        self.events = 0

    def write(self, events: Events) -> None:
        """Take whole messages, and end the file at hand where its time is over."""
        self._began = self._began or time.monotonic()
        self._group.append(events)
        self._grouped += len(events)
        self.events += len(events)
        if self._grouped >= GROUP_EVENTS:
            self._write_group()
        if time.monotonic() - self._began > self._seconds:
            self.close()

    def _write_group(self) -> None:
        import pyarrow.parquet as pq

        table = table_of(np.concatenate(self._group)).replace_schema_metadata(self._metadata)
        self._group, self._grouped = [], 0
        if self._writer is None:
            self._file = self._passing.open("wb")
            self._writer = pq.ParquetWriter(
                self._file, table.schema, compression="zstd", write_page_checksum=True
            )
        self._writer.write_table(table)

    def close(self) -> None:
        """The file at hand is whole, on the disk, and has its name."""
        if self._group:
            self._write_group()
        if self._writer is None:
            return
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._passing.replace(self._folder / f"{self._number:06d}.parquet")
        self._writer, self._number, self._began = None, self._number + 1, 0.0

    @property
    def _passing(self) -> Path:
        return self._folder / f"{self._number:06d}.part"


def record(
    feed: LiveFeed,
    folder: Path,
    stop: threading.Event,
    *,
    ticks: bool = True,
    bars: str = "",
    seconds_a_file: float = 600.0,
    told: Callable[[int], None] = lambda _: None,
) -> int:
    """Records until `stop`, and says how many events; `told` hears of them as they grow.

    `ticks` and `bars` are what the feed was asked for: whether any, and the length of bars.
    DataError where the folder is not empty or the disk is too slow; OSError of the disk.
    """
    files = Files(
        folder, feed.name, feed.instruments(), seconds_a_file, ticks=ticks, bars=bars
    )
    recorder = Recorder()
    thread = threading.Thread(target=feed.run, args=(recorder, stop), name=feed.name)
    thread.start()
    try:
        while True:
            ended = not thread.is_alive()
            events = recorder.take()
            if len(events):
                files.write(events)
                told(files.events)
            if recorder.overrun:
                raise DataError(f"{folder}: the disk is too slow for what comes")
            if ended:
                return files.events
            stop.wait(LOOK_S)
            if stop.is_set():
                thread.join()
    finally:
        stop.set()
        thread.join()
        files.close()
