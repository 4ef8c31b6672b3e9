"""What every source of recorded ticks is to the rest: events in the file's own units, and faults.

A reader decodes one file or table into `layout.EVENT` arrays of whole messages in order of
receipt. Its prices and sizes are whole numbers of 10**-digits, for the tick and the lot are only
known once the data have been seen; `tick_feed` makes ticks and lots of them.
"""

from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from quantdsl.data.rows import LEAVE_OUT
from quantdsl.errors import DataError

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]

MISSING = 2**63 - 1
"""Price of a side of a quote on which nobody stands, in a reader's units."""

ORDERS = frozenset({"book", "trades"})
"""What a source of single orders tells of."""

UNSIZED = 1 << 40
"""Lots of a quote in data without sizes (MISSING in a reader's units): more than an order takes."""


class Fault(IntEnum):
    """What can be wrong with recorded ticks; `WORDS` says it to people."""

    UNREADABLE = 0
    TRUNCATED = 1
    PRICE = 2
    SIZE = 3
    OFF_TICK = 4
    OFF_LOT = 5
    RANGE = 6
    BACKWARD = 7
    CROSSED = 8
    LOCKED = 9
    GAP = 10
    UNKNOWN_ORDER = 11
    UNKNOWN_INSTRUMENT = 12
    NO_SNAPSHOT = 13
    MIDPOINT = 14
    SUSPICIOUS = 15
    DUPLICATE = 16
    JUMP = 17
    CHECKSUM = 18


WORDS = {
    Fault.UNREADABLE: "message not understood",
    Fault.TRUNCATED: "message cut off",
    Fault.PRICE: "price not positive",
    Fault.SIZE: "size not positive",
    Fault.OFF_TICK: "price off the tick",
    Fault.OFF_LOT: "size off the lot",
    Fault.RANGE: "number beyond 2^53",
    Fault.BACKWARD: "backward time",
    Fault.CROSSED: "crossed quote",
    Fault.LOCKED: "locked quote",
    Fault.GAP: "gap in the venue's sequence",
    Fault.UNKNOWN_ORDER: "change of an order that was never added",
    Fault.UNKNOWN_INSTRUMENT: "message of another instrument",
    Fault.NO_SNAPSHOT: "change of a book before its snapshot",
    Fault.MIDPOINT: "trade between two ticks, rounded down",
    Fault.SUSPICIOUS: "marked as suspicious by the source",
    Fault.DUPLICATE: "message received twice, or after a later one",
    Fault.JUMP: "price a thousand times away from the last",
    Fault.CHECKSUM: "book with another checksum than the venue's",
}

FAULTS = len(Fault)

MARKET = frozenset(
    {
        Fault.CROSSED,
        Fault.LOCKED,
        Fault.GAP,
        Fault.UNKNOWN_ORDER,
        Fault.UNKNOWN_INSTRUMENT,
        Fault.NO_SNAPSHOT,
        Fault.MIDPOINT,
        Fault.SUSPICIOUS,
        Fault.DUPLICATE,
    }
)
"""What a sound recording of a real market may hold: counted and printed, but never a stop."""

EXPECTED = frozenset({Fault.UNKNOWN_INSTRUMENT, Fault.NO_SNAPSHOT, Fault.MIDPOINT})
"""Counted apart, for they are no fault of the file."""


class Tally:
    """Faults by kind and where the first one stands; damage stops the run unless it is dropped."""

    def __init__(self, name: str, bad_rows: Literal["stop", "drop"]) -> None:
        self.name, self._stops = name, bad_rows == "stop"
        self.counts: Counter[Fault] = Counter()
        self.first = ""

    def clear(self) -> None:
        self.counts.clear()
        self.first = ""

    def note(self, fault: Fault, count: int, where: str = "") -> None:
        """Count `count` faults, the first of which stands at `where`; DataError if they stop."""
        if count == 0:
            return
        self.counts[fault] += count
        if fault in EXPECTED:
            return
        said = f"{self.name}: {where}: {WORDS[fault]}" if where else f"{self.name}: {WORDS[fault]}"
        self.first = self.first or said
        if self._stops and fault not in MARKET:
            raise DataError(f"{said}. {LEAVE_OUT}")

    def note_all(self, counts: Int64s, first_unreadable: str = "") -> None:
        """Count faults as a decoder did, by kind; where the first stands that nobody can read."""
        for fault in Fault:
            where = first_unreadable if fault is Fault.UNREADABLE else ""
            self.note(fault, int(counts[fault]), where)

    @property
    def dropped(self) -> Counter[str]:
        """The counts in words, those left out by design not among them."""
        return Counter({WORDS[f]: n for f, n in self.counts.items() if f not in EXPECTED and n})

    @property
    def left_out(self) -> Counter[str]:
        """What is no fault of the file, in words."""
        return Counter({WORDS[f]: n for f, n in self.counts.items() if f in EXPECTED and n})


class TickReader(Protocol):
    """The messages of one instrument in order of receipt, readable any number of times.

    `format` names what was recognised. `has_recv`: the data tell when each message was received;
    else ts_recv equals ts_event, as in a message without the venue's time. `tells` names what the
    source always tells of: where it holds none, none happened. `notes` are lines for the report,
    complete after a reading.
    """

    name: str
    format: str
    symbol: str
    price_digits: int
    size_digits: int
    has_recv: bool
    tells: frozenset[str]
    notes: list[str]
    tally: Tally

    def chunks(self) -> Iterator[Events]: ...

    def sha256(self) -> str: ...


class Window:
    """A file's bytes, unpacked, a block at a time; what a decoder leaves stands before the next."""

    _SIZE_MAX = 1 << 28

    def __init__(self, path: Path, size: int = 1 << 20) -> None:
        from quantdsl.data.table import open_bytes

        self._path, self._stream = path, open_bytes(path)
        self._data = np.empty(size, np.uint8)
        self._held = 0
        self.offset = 0  # in the unpacked file, of the first byte held
        self.ended = False

    def fill(self) -> bool:
        """Read on; whether there are bytes left. DataError where the packing is damaged."""
        if self._held == len(self._data):
            if len(self._data) >= self._SIZE_MAX:
                raise DataError(f"{self._path}: a message at byte {self.offset} is endless")
            self._data = np.concatenate((self._data, np.empty_like(self._data)))
        while not self.ended and self._held < len(self._data):
            try:
                read = self._stream.read(len(self._data) - self._held)
            except (OSError, EOFError) as error:
                raise DataError(f"{self._path}: is damaged: {error}") from None
            self.ended = len(read) == 0
            self._data[self._held : self._held + len(read)] = np.frombuffer(read, np.uint8)
            self._held += len(read)
        return self._held > 0

    @property
    def bytes(self) -> npt.NDArray[np.uint8]:
        return self._data[: self._held]

    def take(self, count: int) -> None:
        """Drop the first `count` bytes."""
        left = self._held - count
        self._data[:left] = self._data[count : self._held].copy()
        self._held = left
        self.offset += count
