"""All events of the data as one block of words, for lanes that read it many times."""

import tempfile
from typing import IO

import numpy as np
import numpy.typing as npt

from quantdsl.backtest import settings
from quantdsl.backtest.run import run_end
from quantdsl.data.tick_data import RunData
from quantdsl.errors import DataError
from quantdsl.events.layout import MORE, WORDS, Kind

Int64s = npt.NDArray[np.int64]
SPOOL_BYTES = 2 << 30
"""Of events that a sweep keeps in memory."""
PART_EVENTS = 1 << 20
NS_PER_DAY = 86_400_000_000_000


def materialised(data: RunData, memory_bytes: int = SPOOL_BYTES) -> Int64s:
    """Every event of the data, then the end of the run: i64[event, word].

    More than `memory_bytes` lie in an unnamed file, from which the system pages them in.
    """
    pieces: list[npt.NDArray[np.void]] = []
    size, last = 0, 0
    with tempfile.TemporaryFile() as file:
        for events in data.chunks():
            last = int(max(events["ts_event"][-1], events["ts_recv"][-1]))
            pieces.append(events)
            size += events.nbytes
            if size > memory_bytes:
                _spool(pieces, file)
        if not size:
            raise DataError(
                f"{data.name}: there is no bar to run on in the span that was asked for"
            )
        pieces.append(run_end(last))
        if size <= memory_bytes:
            return np.concatenate(pieces).view(np.int64).reshape(-1, WORDS)
        _spool(pieces, file)
        return np.memmap(file, np.int64, "r").reshape(-1, WORDS)  # outlives the descriptor


def _spool(pieces: list[npt.NDArray[np.void]], file: IO[bytes]) -> None:
    """Move pieces from memory to the end of a file."""
    for piece in pieces:
        file.write(piece.tobytes())
    file.flush()
    pieces.clear()


def market_times(events: Int64s) -> Int64s:
    """When the market moved, ascending: a bar of the finest clock closed, or ticks came in."""
    times = np.concatenate([_moved(part) for part in np.array_split(events, _parts(events))])
    different: Int64s = times[np.diff(times, prepend=-1) != 0]
    return different


def _moved(events: Int64s) -> Int64s:
    head = events[:, 2]
    kind = (head >> 32) & 255
    bars = (kind == Kind.BAR) & ((head >> 40) & 255 == 0)
    ticks = (kind >= Kind.QUOTE) & (kind <= Kind.BOOK_SNAPSHOT) & ((head >> 48) & MORE == 0)
    times: Int64s = np.where(ticks, events[:, 1], events[:, 0])[bars | ticks]
    return times


def _parts(events: Int64s) -> int:
    """How many parts the events are read in, so that what is made of them stays small."""
    return len(events) // PART_EVENTS + 1


def day_samples(events: Int64s, day_rule: int) -> int:
    """About how many returns between days the core will sample."""
    if day_rule != settings.DAY_UTC:
        head = events[:-1, 2]  # the end of the run closes no session
        closes = ((head >> 32) & 255 == Kind.SESSION) & ((head >> 40) & 255 == 1)
        if day_rule == settings.DAY_SESSION:
            return int(np.count_nonzero(closes))
        # A bar of a week ends a day, and so do the sessions within it.
        ends = np.sort(np.concatenate([market_times(events), events[:-1, 0][closes]]))
        return int(np.count_nonzero(np.diff(ends))) + (len(ends) > 0)
    days = (market_times(events) - 1) // NS_PER_DAY
    return int(np.count_nonzero(np.diff(days))) + (len(days) > 0)
