"""A folder of ticks: files of one instrument, such as its quotes, its trades or its days, as one.

Their messages are merged by time of receipt, at one instant in order of the files' names. What
would make that wrong is refused: a file out of order, and two of the same kind at the same time.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from quantdsl.data.table import joined_sha256
from quantdsl.data.ticks import Events, Tally, TickReader
from quantdsl.data.times import show_instant
from quantdsl.errors import DataError
from quantdsl.events.layout import Kind
from quantdsl.events.merge import Merge, in_turns


class _Part(Struct):
    """What has been read of one file."""

    name: str
    first: int = np.iinfo(np.int64).max
    last: int = np.iinfo(np.int64).min
    kinds: set[int] = set()

    def add(self, events: Events) -> int:
        """Take the next events in; DataError where they are not in order. Says how far it is."""
        ts = events["ts_recv"]
        before = np.concatenate(([self.last], ts[:-1]))
        if np.any(ts < before):
            at = show_instant(int(ts[np.argmax(ts < before)]))
            raise DataError(
                f"{self.name}: {at}: backward time, and files of a folder are merged by time\n"
                "help: put the file in order, or run it by itself with --bad-rows drop"
            )
        self.first, self.last = min(self.first, int(ts[0])), int(ts[-1])
        self.kinds |= set(np.unique(events["kind"]).tolist()) - {Kind.FEED.value}
        return self.last

    def beside(self, other: "_Part") -> bool:
        """Whether both tell of the same things at the same time."""
        apart = self.last < other.first or other.last < self.first
        return bool(self.kinds & other.kinds) and not apart


class TickFolder:
    """The messages of several readers in order of receipt, as a TickReader."""

    def __init__(
        self, path: Path, readers: Sequence[TickReader], bad_rows: Literal["stop", "drop"]
    ) -> None:
        self._readers, self.name = readers, str(path)
        self.format = " and ".join(dict.fromkeys(reader.format for reader in readers))
        symbols = {one.symbol for one in readers if one.symbol}  # others are of the same one
        self.symbol = self._alike(f"symbols ({', '.join(sorted(symbols))})", symbols or {""})
        self.has_recv = self._alike("times of receipt", {one.has_recv for one in readers})
        digits = {(one.price_digits, one.size_digits) for one in readers}
        self.price_digits, self.size_digits = self._alike("numbers of digits", digits)
        self.tells = frozenset().union(*(one.tells for one in readers))
        self.tally, self.notes = Tally(self.name, bad_rows), list[str]()

    def _alike(self, what: str, found: set[Any]) -> Any:
        if len(found) > 1:
            raise DataError(f"{self.name}: its files are no parts of one: they differ in {what}")
        return found.pop()

    def sha256(self) -> str:
        """One hash of all files."""
        return joined_sha256([one.sha256() for one in self._readers])

    def chunks(self) -> Iterator[Events]:
        """Whole messages; a few blocks of each file are held at a time."""
        self.tally.clear()
        merge = Merge(len(self._readers), "ts_recv")
        parts = [_Part(reader.name) for reader in self._readers]

        def add(index: int, events: Events) -> int:
            merge.push(index, events)
            return parts[index].add(events)

        for before in in_turns([reader.chunks() for reader in self._readers], add):
            yield from merge.take(before)
        for one, other in itertools.combinations(parts, 2):
            if one.beside(other):
                raise DataError(
                    f"{one.name} and {Path(other.name).name} hold the same kind of ticks of the "
                    "same time\nhelp: files of a folder are those of one instrument; give a file, "
                    "or a folder, for each"
                )
        self.notes[:] = [f"{Path(r.name).name}: {note}" for r in self._readers for note in r.notes]
        for reader in self._readers:
            self.tally.counts.update(reader.tally.counts)
            self.tally.first = self.tally.first or reader.tally.first
