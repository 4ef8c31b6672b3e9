"""What a session has shown so far, bounded: the one memory of page, terminal, metrics and alerts.

The supervisor gives it every snapshot; anybody reads it, from any thread. Rows get numbers of its
own that only grow, so that a reader asks for what came after the last that it has, even across a
restart of the session.
"""

import threading
import time
from typing import Generic, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from quantdsl.live.view import BarRow, BookView, FillRow, Level, LogLine, Snapshot

FILLS_MAX, LOG_MAX, BARS_MAX, POINTS_MAX = 300, 300, 4_000, 4_000
"""Rows as many as the page lists: more would let the memory of a session grow for hours."""
SILENT_S = 1.0
"""Ten snapshots a second are due; after this long without one the figures are old."""


Row = TypeVar("Row", FillRow, LogLine)


class Rows(Generic[Row]):
    """The last rows of a kind, each once: a session that began anew may tell of some again."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.rows: dict[tuple[int, int], Row] = {}

    def add(self, row: Row, number: int) -> None:
        """Keeps the row under a number of ours, unless it is here."""
        if (row.seq, row.ts) not in self.rows:
            self.rows[row.seq, row.ts] = replace(row, seq=number)
            if len(self.rows) > self.most:
                del self.rows[next(iter(self.rows))]

    def after(self, number: int) -> list[Row]:
        """Those with a greater number, oldest first."""
        found: list[Row] = []
        for row in reversed(self.rows.values()):
            if row.seq <= number:
                break
            found.append(row)
        return found[::-1]


BAR = np.dtype(
    [
        ("seq", "<i8"),
        ("ts", "<i8"),
        *((name, "<f8") for name in ("open", "high", "low", "close", "volume")),
        ("closed", "?"),
    ]
)
POINT = np.dtype([("ts", "<i8"), ("equity", "<f8"), ("drawdown", "<f8")])


class Point(Struct, frozen=True, array_like=True):
    """Equity at a time: ns, money, share lost since the highest."""

    ts: int
    equity: float
    drawdown: float


class Curve:
    """Points of equity over the whole session: when there are too many, every other one goes."""

    def __init__(self) -> None:
        self._points = np.ones(POINTS_MAX + 1, POINT)  # the pages are there from the beginning
        self.count = 0
        self.every_ns = 1_000_000_000
        self.thinned = 0
        """How often; who follows the curve starts over when it grows."""

    def add(self, point: Point) -> None:
        """Keeps the point if it is due."""
        if self.count and point.ts - int(self._points["ts"][self.count - 1]) < self.every_ns:
            return
        self._points[self.count] = (point.ts, point.equity, point.drawdown)
        self.count += 1
        if self.count > POINTS_MAX:
            left = self._points[::2].copy()
            self._points[: len(left)] = left
            self.count = len(left)
            self.every_ns *= 2
            self.thinned += 1

    def since(self, start: int) -> list[Point]:
        """All but the first `start`."""
        return [Point(*row) for row in self._points[start : self.count].tolist()]


class Bars:
    """The last bars of one symbol, each with the number of its newest change."""

    def __init__(self) -> None:
        self._rows = np.ones(BARS_MAX, BAR)  # as above: rows as objects would grow for an hour
        self._came = 0
        """How many have come, those that were dropped too."""
        self._newest = 0
        """The latest time of all."""

    def add(self, row: BarRow, number: int) -> None:
        """Keeps a bar, in the place of the one of its time."""
        place = self._place(row.ts)
        if place is None:
            place = self._came % BARS_MAX
            self._came += 1
        prices = (row.open, row.high, row.low, row.close, row.volume)
        self._rows[place] = (number, row.ts, *prices, row.closed)

    def _place(self, ts: int) -> int | None:
        """Where the bar of a time is; most are newer than all that have come."""
        if ts > self._newest:
            self._newest = ts
            return None
        found = np.flatnonzero(self._rows["ts"][: self._came] == ts)
        return int(found[0]) if len(found) else None

    def after(self, symbol: str, number: int) -> list[BarRow]:
        """Those that changed after a number, oldest first."""
        count = min(self._came, BARS_MAX)
        order = (self._came - count + np.arange(count)) % BARS_MAX
        own = order[self._rows["seq"][order] > number]
        return [BarRow(seq, ts, symbol, *row) for seq, ts, *row in self._rows[own].tolist()]


class Cursor(Struct, frozen=True):
    """How far a reader is."""

    symbol: str = ""
    """Whose bars and book it follows; empty: those of the first instrument."""
    bars: int = 0
    """Number of the last bar that it has."""
    number: int = 0
    """Number of the last row of another kind."""
    points: int = 0
    thinned: int = 0


class News(Struct, frozen=True):
    """What came after a cursor, and the cursor for the next time."""

    snapshot: Snapshot | None
    age_s: float
    """Since the last snapshot came."""
    book: BookView | None
    bars: list[BarRow]
    fills: list[FillRow]
    log: list[LogLine]
    points: list[Point]
    bars_whole: bool
    """The bars are all there are of the symbol; so are the points of the session, and fills and log
    all that is kept."""
    points_whole: bool
    rows_whole: bool
    cursor: Cursor


class Told(Struct, frozen=True):
    """What is news to who has no use for bars, books and the curve, which are many rows."""

    snapshot: Snapshot | None
    age_s: float
    """Since the last snapshot came."""
    fills: list[FillRow]
    log: list[LogLine]
    number: int
    """Of the last row, for the next time."""


class History:
    """See above; every method may be called by any thread and holds the lock for microseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._came_s = time.monotonic()
        self._number = self._own = 0
        self._fills = Rows[FillRow](FILLS_MAX)
        self._log = Rows[LogLine](LOG_MAX)
        self._bars: dict[str, Bars] = {}
        self._books: dict[str, BookView] = {}
        self._curve = Curve()

    def take(self, snapshot: Snapshot) -> None:
        """Adds one snapshot."""
        with self._lock:
            for fill in snapshot.fills:
                self._fills.add(fill, self._next())
            for line in snapshot.log:
                self._log.add(line, self._next())
            for bar in snapshot.bars:
                if bar.symbol not in self._bars:
                    self._bars[bar.symbol] = Bars()
                self._bars[bar.symbol].add(bar, self._next())
            for book in snapshot.books:
                self._books[book.symbol] = book
            if snapshot.state != "starting":  # until then there is no money to speak of
                self._curve.add(Point(snapshot.ts, snapshot.equity, snapshot.drawdown))
            self._snapshot = replace(snapshot, fills=(), bars=(), log=(), books=())
            self._came_s = time.monotonic()

    def say(self, level: Level, source: str, text: str) -> None:
        """Adds a line of the host's own, stamped by the wall clock."""
        with self._lock:
            self._own -= 1  # the session's own numbers are positive
            line = LogLine(self._own, time.time_ns(), level, source, text)
            self._log.add(line, self._next())

    def snapshot(self) -> tuple[Snapshot | None, float]:
        """The last one without its rows, and its age in seconds."""
        with self._lock:
            return self._snapshot, time.monotonic() - self._came_s

    def news(self, cursor: Cursor) -> News:
        """All that came after the cursor."""
        with self._lock:
            symbol = cursor.symbol or next(iter(self._bars), next(iter(self._books), ""))
            bars = self._bars.get(symbol)
            start = cursor.points if cursor.thinned == self._curve.thinned else 0
            curve = self._curve
            return News(
                self._snapshot,
                time.monotonic() - self._came_s,
                self._books.get(symbol),
                bars.after(symbol, cursor.bars) if bars is not None else [],
                self._fills.after(cursor.number),
                self._log.after(cursor.number),
                curve.since(start),
                not cursor.bars,
                not start,
                not cursor.number,
                Cursor(symbol, self._number, self._number, curve.count, curve.thinned),
            )

    def told(self, number: int) -> Told:
        """The session as it is, its fills and what was said after the row of a number."""
        with self._lock:
            return Told(
                self._snapshot,
                time.monotonic() - self._came_s,
                self._fills.after(number),
                self._log.after(number),
                self._number,
            )

    def _next(self) -> int:
        self._number += 1
        return self._number
