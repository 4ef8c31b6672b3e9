"""Latencies of orders from a file, as a session measured them: what holds changes as a run goes on.

    time,                        symbol,  entry_us, response_us
    2024-08-08T23:00:56.121372Z, BTCUSDT, 2100.5,   2100.5

From each row on an order takes `entry_us` to the venue, and word of it `response_us` back, until
the next row of its instrument; the first row holds before itself too. A table without symbols is
of every instrument. Where rows lie within the span of the data they keep their time; a file of
another time is played from the start of the data on, in its own pace, and again when it has ended.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantdsl.data.columns import plain
from quantdsl.data.instrument import Instrument
from quantdsl.data.table import Table, open_table
from quantdsl.data.time_columns import parse_times
from quantdsl.errors import DataError, LimitError
from quantdsl.events.layout import EVENT, Feed, Kind
from quantdsl.limits import LATENCY_ROWS

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]

COLUMNS = ("time", "symbol", "entry_us", "response_us")
LATENCY_US_MAX = 1e9


class Latencies:
    """The latencies of a run's instruments within a span, as events in order of receipt.

    `events` is empty where no file is named. DataError where the file is no such table, tells of
    none of the instruments, or holds what is no latency; LimitError where it would be repeated
    too often.
    """

    def __init__(
        self, path: str, instruments: Sequence[Instrument], span: tuple[int, int]
    ) -> None:
        self.path = path
        self._tables = open_table(Path(path)) if path else []
        rows = _rows(self._tables, instruments)
        found, self.repeats = [np.empty(0, EVENT)], 0
        for index, own in rows.items():
            if len(own):
                placed, repeats = _placed(own, span, path)
                self.repeats = max(self.repeats, repeats)
                found.append(_events(placed, index))
        joined = np.concatenate(found)
        self.events: Events = joined[np.argsort(joined["ts_recv"], kind="stable")]
        if path and not len(joined):
            names = ", ".join(one.name for one in instruments)
            raise DataError(f"{path}: holds no latency of {names}")

    def hashes(self) -> list[str]:
        """Of each file that was read."""
        return [table.sha256() for table in self._tables]

    def statement(self) -> list[str]:
        """One line that says what was used of the file, none where none was named."""
        if not self.path:
            return []
        entry, response = (
            np.median(self.events["payload"][:, word]) / 1_000 for word in range(2)
        )
        how = f", of another time: played {self.repeats:,} times" if self.repeats else ""
        return [
            f"latencies from {self.path}: {len(self.events):,} rows, medians {entry:,.6g} and "
            f"{response:,.6g} microseconds{how}"
        ]


def _rows(tables: list[Table], instruments: Sequence[Instrument]) -> dict[int, Int64s]:
    """Rows i64[n, 3] of ts, entry and response in ns, by instrument, in order of time."""
    found: dict[int, list[Int64s]] = {index: [] for index in range(len(instruments))}
    for table in tables:
        columns = {plain(name): name for name in table.columns()}
        known = {name: columns.get(plain(name)) for name in COLUMNS}
        time, symbol, entry, response = known.values()
        if time is None or entry is None or response is None:
            raise DataError(
                f"{table.name}: is no table of latencies; it has {', '.join(table.columns())}\n"
                "help: time, symbol, entry_us and response_us, as latency.csv of a session"
            )
        text = [time] if symbol is None else [time, symbol]
        for batch in table.batches(text, [entry, response]):
            try:
                moments = parse_times(batch.column(time))
            except DataError as error:
                raise DataError(f"{table.name}: {error}") from None
            values = [batch.column(name).to_numpy(zero_copy_only=False) * 1_000
                      for name in (entry, response)]  # fmt: skip
            wrong = ~moments.valid
            for value in values:
                wrong |= ~((value >= 0) & (value <= LATENCY_US_MAX * 1_000))
            if wrong.any():
                raise DataError(
                    f"{table.name}: row {int(np.argmax(wrong)) + 1} has no time, or a latency that "
                    f"is not within 0 and {LATENCY_US_MAX:,.0f} microseconds"
                )
            rows = np.stack([moments.ns, *(np.rint(v).astype(np.int64) for v in values)], axis=1)
            names = None if symbol is None else batch.column(symbol).to_numpy(zero_copy_only=False)
            for index, one in enumerate(instruments):
                own = slice(None) if names is None else np.isin(names, (one.symbol, one.name))
                found[index].append(rows[own])
    joined = {index: np.concatenate([np.empty((0, 3), np.int64), *parts])
              for index, parts in found.items()}  # fmt: skip
    return {k: rows[np.argsort(rows[:, 0], kind="stable")] for k, rows in joined.items()}


def _placed(rows: Int64s, span: tuple[int, int], path: str) -> tuple[Int64s, int]:
    """The rows that hold within the span, the first from its start on; how often they repeat."""
    first, last = span
    times = rows[:, 0]
    begin = max(int(np.searchsorted(times, first, "right")) - 1, 0)
    end = int(np.searchsorted(times, last, "right"))
    if times[-1] >= first and times[0] <= last:
        kept = rows[begin:end].copy()
        kept[0, 0] = first
        return kept, 0
    steps = np.diff(times)
    period = int(times[-1] - times[0]) + max(int(np.median(steps)) if len(steps) else 0, 1)
    repeats = 1 if len(rows) == 1 else -(-(last - first + 1) // period)
    if repeats * len(rows) > LATENCY_ROWS:
        raise LimitError(
            f"{path}: its {len(rows):,} rows would be played {repeats:,} times over the data\n"
            f"help: {LATENCY_ROWS} at most; use fewer data, or a longer file"
        )
    again = np.tile(rows, (repeats, 1))
    again[:, 0] += first - times[0] + np.repeat(np.arange(repeats) * period, len(rows))
    return again[again[:, 0] <= last], repeats


def _events(rows: Int64s, index: int) -> Events:
    """What the feed of an instrument tells: heard at a row's time, as old as a message is then."""
    events = np.zeros(len(rows), EVENT)
    events["ts_recv"], events["ts_event"] = rows[:, 0], rows[:, 0] - rows[:, 2]
    events["instrument"], events["kind"], events["side"] = index, Kind.FEED, Feed.LATENCY
    events["payload"][:, :2] = rows[:, 1:]
    return events
