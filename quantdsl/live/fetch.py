"""Bars of a venue into one Parquet file: a page at a time, taken up again where it was broken off.

    PATH.parts/<first bar, ns>.parquet   a page each, written whole or not at all
    PATH                                 all of them in order, replaced in one step at the end

So a run that is killed leaves the file as it was and the pages that it had; the next run goes on
behind the last bar that is there.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from quantdsl.data.times import Interval, show_instant
from quantdsl.errors import DataError, FeedError, RefusedError
from quantdsl.live.connection import Backoff

SOURCES = {
    "binance": "quantdsl.feeds.binance_rest:spot",
    "binance_futures": "quantdsl.feeds.binance_rest:futures",
}
"""Venue -> what makes its Source of (rest_url, ca_file)."""

TRIES_MAX = 8
"""Times that one page is asked for before it is given up."""

_COLUMNS = ("open", "high", "low", "close", "volume")


class Bars(NamedTuple):
    """Bars in order: times of their opening, ns; the rest int64[n] in units of 10**-digits."""

    open_ns: npt.NDArray[np.int64]
    open: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    close: npt.NDArray[np.int64]
    volume: npt.NDArray[np.int64]


class Source(Protocol):
    """Who has bars; `digits` are the decimals of their numbers."""

    digits: int

    def bars(self, symbol: str, interval: Interval, first_ns: int, end_ns: int) -> Iterator[Bars]:
        """Bars that opened from `first_ns` on and closed by `end_ns`, a page at a time."""
        ...


class Wanted(NamedTuple):
    """What is fetched: it stands in the file too, so that no other bars are added to it."""

    venue: str
    symbol: str
    interval: Interval
    first_ns: int
    end_ns: int

    @property
    def mark(self) -> bytes:
        return f"{self.venue} {self.symbol} {self.interval}".encode()


def source_of(venue: str, rest_url: str = "", ca_file: str = "") -> Source:
    """Who has the venue's bars; FeedError where nobody is known."""
    if venue not in SOURCES:
        raise FeedError(f"no bars can be fetched from {venue!r}; known: {', '.join(SOURCES)}")
    module, _, name = SOURCES[venue].partition(":")
    found: Source = getattr(import_module(module), name)(rest_url, ca_file)
    return found


def fetch(
    source: Source,
    wanted: Wanted,
    path: Path,
    *,
    told: Callable[[int], None] = lambda _: None,
    wait: Callable[[float], None] = time.sleep,
) -> int:
    """Fills `path` and says how many bars were new; `told` hears of each bar's time reached.

    DataError where the file holds other bars. A venue that fails is asked again, with growing
    waits; FeedError at last.
    """
    parts = path.with_name(path.name + ".parts")
    known = [path] if path.exists() else []
    known += sorted(parts.glob("*.parquet")) if parts.exists() else []
    start = max([wanted.first_ns, *(_after(one, wanted) for one in known)])
    new = 0
    for page in _pages(source, wanted, start, wait):
        parts.mkdir(parents=True, exist_ok=True)
        part = parts / f"{int(page.open_ns[0]):020d}.parquet"
        _write(part, _table(page, source.digits), wanted, wanted.first_ns)
        new += len(page.open_ns)
        told(int(page.open_ns[-1]))
    pieces = sorted(parts.glob("*.parquet")) if parts.exists() else []
    if pieces:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pieces = [path, *pieces] if path.exists() else pieces
        first_ns = int(pq.read_schema(pieces[0]).metadata[b"quantdsl.from"])
        _write(path, pa.concat_tables(map(pq.read_table, pieces)), wanted, first_ns)
        shutil.rmtree(parts)
    return new


def _pages(
    source: Source, wanted: Wanted, start: int, wait: Callable[[float], None]
) -> Iterator[Bars]:
    """All pages from `start` on; after a failure from where the last one ended."""
    backoff, failures = Backoff(), 0
    while True:
        try:
            for page in source.bars(wanted.symbol, wanted.interval, start, wanted.end_ns):
                start = int(page.open_ns[-1]) + wanted.interval.nominal_ns
                backoff, failures = Backoff(), 0
                yield page
            return
        except FeedError as error:
            failures += 1
            if failures == TRIES_MAX or isinstance(error, RefusedError):
                raise
            wait(max(backoff.next_s(), error.retry_s))


def _table(page: Bars, digits: int) -> Any:
    import pyarrow as pa

    times = pa.array(page.open_ns).cast(pa.timestamp("ns", "UTC"))
    scale = float(10**digits)
    numbers = {name: pa.array(getattr(page, name) / scale) for name in _COLUMNS}
    return pa.table({"time": times, **numbers})


def _write(path: Path, table: Any, wanted: Wanted, first_ns: int) -> None:
    """The whole table or nothing, on the disk before it has its name."""
    import pyarrow.parquet as pq

    passing = path.with_name(path.name + ".new")
    path.parent.mkdir(parents=True, exist_ok=True)
    with passing.open("wb") as file:
        pq.write_table(
            table.replace_schema_metadata(
                {b"quantdsl.bars": wanted.mark, b"quantdsl.from": str(first_ns).encode()}
            ),
            file,
            compression="zstd",
        )
        file.flush()
        os.fsync(file.fileno())
    passing.replace(path)


def _after(path: Path, wanted: Wanted) -> int:
    """When the bar after the last one of a file opens; DataError where it holds other bars."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
        mark = metadata.get(b"quantdsl.bars", b"")
        times = pq.read_table(path, columns=["time"]).column("time").cast(pa.int64()).to_numpy()
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if mark != wanted.mark:
        held = mark.decode("utf-8", "replace") or "what was not fetched"
        raise DataError(
            f"{path}: holds {held}, not {wanted.mark.decode()}: name another file with --out"
        )
    if wanted.first_ns < int(metadata[b"quantdsl.from"]):
        begins = show_instant(int(metadata[b"quantdsl.from"]))
        raise DataError(
            f"{path}: was fetched from {begins}, and bars are only added behind its last: name "
            "another file with --out to have earlier ones"
        )
    return int(times[-1]) + wanted.interval.nominal_ns if len(times) else wanted.first_ns
