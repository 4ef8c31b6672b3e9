"""What a kernel reads in place of a sweep's events: rows that are made once for all lanes.

Where a strategy's lanes share nothing, the events themselves. Events too many for a device are
walked in pieces, cut between instants; the rows of a piece go on from those of the one before.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from quantdsl.codegen.lanes import FINISH, START
from quantdsl.codegen.rows import RowsCode
from quantdsl.devices.work import LaneWork, Words

PIECE_BYTES = 1 << 30
"""Events and columns that are walked in one call; more lies on disk and passes through memory."""


class Piece(NamedTuple):
    """Arguments of the kernel for one stretch of the events."""

    words: Words
    """Rows, or events."""
    turns: int
    columns: Words
    mode: int


class Feed:
    """The pieces of some work in order, as often as they are asked for."""

    def __init__(self, work: LaneWork, rows: RowsCode | None, bytes_max: int) -> None:
        self.work, self._rows = work, rows
        self.width = width_of(work, rows)
        """Words of a row."""
        self.ends = list(pieces(work, bytes_max, self.width))
        self.whole = len(self.ends) <= 2
        self._kept = list(self._made()) if self.whole else None

    def __iter__(self) -> Iterator[Piece]:
        """From the first on; one piece is made once, several are made anew each time."""
        return self._made() if self._kept is None else iter(self._kept)

    @property
    def rows_max(self) -> int:
        """Rows of the longest piece; one more follows its turns."""
        return max(b - a for a, b in itertools.pairwise(self.ends)) + 1

    @property
    def words_max(self) -> int:
        """Words of the longest piece, without its columns."""
        if self._rows is None:
            return self.rows_max * self.width
        if self._rows.common:
            return max(piece.words.size for piece in self)  # how long a history is, it tells itself
        return self._rows.words(self.rows_max - 1)

    def _made(self) -> Iterator[Piece]:
        work, maker = self.work, None
        if self._rows is not None:
            maker = self._rows.start(work.template, work.params, work.points[:, 0])
        for a, b in itertools.pairwise(self.ends):
            mode = START * (a == 0) | FINISH * (b == len(work.events))
            events = work.events[a:b]
            words, turns = (events, b - a) if maker is None else maker.rows(events)
            yield Piece(words, turns, work.columns[a:b], mode)


def width_of(work: LaneWork, rows: RowsCode | None) -> int:
    """Words of a row that a kernel takes, with its share of what stands behind all rows."""
    return rows.room if rows is not None else work.events.shape[1]


def whole_bytes(work: LaneWork, rows: RowsCode | None) -> int:
    """How large a piece must be to hold all events."""
    return 8 * len(work.events) * _words(work, width_of(work, rows))


def _words(work: LaneWork, width: int) -> int:
    """Words of an event and of its row, whichever are more, and of its columns."""
    return int(max(work.events.shape[1], width) + work.columns.shape[1])


def pieces(work: LaneWork, bytes_max: int, width: int = 0) -> Iterator[int]:
    """Where pieces of the events begin, and the end; `width` words are read of each event."""
    events_max = max(bytes_max // (8 * _words(work, width)), 1)
    start, n_events = 0, len(work.events)
    while start < n_events:
        yield start
        start = _instant(work.events[:, 0], min(start + events_max, n_events), start)
    yield n_events


def _instant(times: Words, end: int, start: int) -> int:
    """The last start of an instant up to `end`; the first one after it if that is `start`."""
    first = end
    while start < first < len(times) and times[first] == times[first - 1]:
        first -= 1
    if first > start:
        return first
    while end < len(times) and times[end] == times[end - 1]:
        end += 1
    return end
