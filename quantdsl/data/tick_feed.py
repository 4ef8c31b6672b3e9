"""One instrument's ticks of a run: judged at the edge, counted in ticks and lots.

    reader (the file's units) -> scan: span, kinds, tick, lot, clock -> judge -> ticks and lots

What is wrong never reaches the core: a bad trade is left out, a bad quote becomes one without
prices, and a bad change of a book becomes a gap, after which the book counts as invalid until
the next snapshot. Each is counted under its code.
"""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from quantdsl.data import times
from quantdsl.data.counts import counted, listed
from quantdsl.data.feed import symbol_of
from quantdsl.data.instrument import EXACT_MAX, Instrument, show_fraction
from quantdsl.data.scan import STEP_EVIDENCE, coin_margined, quote_currency
from quantdsl.data.ticks import MISSING, UNSIZED, WORDS, Events, Fault, Tally, TickReader
from quantdsl.errors import DataError
from quantdsl.events.layout import MORE, NO_PRICE, Feed, Kind
from quantdsl.events.merge import keep

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

KEPT_EVENTS_MAX = 1_500_000
"""Events of all instruments kept in memory between the two passes: 64 bytes each, 96 MB."""

KINDS = {
    "quotes": (Kind.QUOTE,),
    "trades": (Kind.TRADE,),
    "book": (Kind.BOOK_DELTA, Kind.BOOK_SNAPSHOT),
}
"""What a strategy may ask for, and the events that bring it; the state of the feed always comes."""


class Step:
    """The largest step, in a reader's units, of which every number added is a multiple."""

    def __init__(self) -> None:
        self.divisor, self.count = 0, 0

    def add(self, values: Int64s) -> None:
        self.count += len(values)
        if self.divisor:
            values = values[values % self.divisor != 0]
        if len(values):
            self.divisor = math.gcd(self.divisor, int(np.gcd.reduce(values)))

    def units(self, coarse: int) -> int:
        """The step; without enough numbers the last decimal of one rather than a chance multiple.

        `coarse` is the step where nothing was added.
        """
        if not self.divisor:
            return coarse
        if self.count >= STEP_EVIDENCE:
            return self.divisor
        decimal = 1
        while self.divisor % (decimal * 10) == 0 and decimal < coarse:
            decimal *= 10
        return decimal


def _why(tally: Tally) -> str:
    """Why no message of a file was used, with what mends it where that is known."""
    found = tally.dropped + tally.left_out
    counts = ", ".join(counted(n, word) for word, n in sorted(found.items()))
    if not found:
        return ""
    if list(found) == [WORDS[Fault.NO_SNAPSHOT]]:
        return f": {counts}\nhelp: record the venue's snapshot of the book beside its changes"
    return f": {counts}" + (f"; the first: {tally.first}" if tally.first else "")


class TickScan:
    """What one pass over a reader found; `events()` gives them once more.

    Times are those of receipt, as recorded. `clock_ns` puts the recorder's clock right: it is the
    smallest constant that lets no message be received before it happened.
    """

    def __init__(self, reader: TickReader, kept_max: int) -> None:
        self._reader, self._kept_max = reader, kept_max
        self._kept: list[Events] | None = []
        self.kinds = dict.fromkeys(Kind, 0)
        self.count = self.messages = 0
        self.first_ts = self.last_ts = 0
        self.prices = {kind: Step() for kind in (Kind.BOOK_DELTA, Kind.QUOTE, Kind.TRADE)}
        self.sizes = Step()
        self._price_min, self._price_max, self._size_max = MISSING, 0, 0
        self.longest_gap = (0, 0)
        self.untimed = 0
        soonest = np.iinfo(np.int64).max
        for events in reader.chunks():
            self._add(events)
            if reader.has_recv:
                took = events["ts_recv"] - events["ts_event"]
                self.untimed += int(np.count_nonzero(took == 0))
                soonest = min(soonest, int(took.min()))
        if not self.count:
            raise DataError(f"{reader.name}: holds no message that can be used{_why(reader.tally)}")
        self.clock_ns = max(0, -soonest) if reader.has_recv else 0

    def events(self) -> Iterator[Events]:
        return iter(self._kept) if self._kept is not None else self._reader.chunks()

    def _add(self, events: Events) -> None:
        ts = events["ts_recv"]
        if not self.count:
            self.first_ts = int(ts[0])
        else:
            self.longest_gap = max(self.longest_gap, (int(ts[0]) - self.last_ts, self.last_ts))
        if len(ts) > 1:
            steps = np.diff(ts)
            at = int(steps.argmax())
            self.longest_gap = max(self.longest_gap, (int(steps[at]), int(ts[at])))
        self.last_ts = max(self.last_ts, int(ts[-1]))
        self.count += len(events)
        self.messages += int(np.count_nonzero(events["flags"] & MORE == 0))
        found, counts = np.unique(events["kind"], return_counts=True)
        for kind, n in zip(found.tolist(), counts.tolist(), strict=True):
            self.kinds[Kind(kind)] += n
        payload = events["payload"]
        for kind, step in self.prices.items():
            own = payload[events["kind"] == kind]
            for column in (0, 1) if kind == Kind.QUOTE else (0,):
                prices = own[:, column]
                self._price(step, prices[(prices > 0) & (prices < MISSING)])
            for column in _SIZES[kind]:
                self._size(own[:, column])
        if self._kept is not None:
            self._kept.append(events)
            if self.count > self._kept_max:
                self._kept = None

    def _price(self, step: Step, prices: Int64s) -> None:
        if len(prices):
            step.add(prices)
            self._price_min = min(self._price_min, int(prices.min()))
            self._price_max = max(self._price_max, int(prices.max()))

    def _size(self, sizes: Int64s) -> None:
        sizes = sizes[(sizes > 0) & (sizes < MISSING)]
        if len(sizes):
            self.sizes.add(sizes)
            self._size_max = max(self._size_max, int(sizes.max()))

    @property
    def price_min(self) -> float:
        return self._price_min / float(10**self._reader.price_digits)

    @property
    def price_max(self) -> float:
        return self._price_max / float(10**self._reader.price_digits)

    @property
    def volume_max(self) -> float:
        """Of one message."""
        return self._size_max / float(10**self._reader.size_digits)

    @property
    def tick_units(self) -> int:
        """The price step: that of the book, else of the quotes, else of the trades.

        A trade may lie between the ticks of a book (a hidden order at the middle); a quote not.
        """
        coarse = 10 ** max(0, self._reader.price_digits - 2)
        step = next((step for step in self.prices.values() if step.count), Step())
        return step.units(coarse)

    @property
    def lot_units(self) -> int:
        return self.sizes.units(10**self._reader.size_digits)


_SIZES: dict[Kind, tuple[int, ...]] = {
    Kind.BOOK_DELTA: (1, 4),
    Kind.QUOTE: (2, 3),
    Kind.TRADE: (1,),
}
"""Payload words that hold sizes."""


class TickFeed:
    """Messages of one instrument in ticks and lots, in order of receipt."""

    def __init__(
        self,
        reader: TickReader,
        symbol: str,
        venue: str,
        own: Instrument | None,
        latency_ns: int,
        kept_max: int = KEPT_EVENTS_MAX,
        *,
        clock_shift_ns: int = 0,
    ) -> None:
        self.reader, self.name = reader, reader.name
        self.scan = TickScan(reader, kept_max)
        self._decoded = reader.tally.counts.copy()
        price_unit = Fraction(1, 10**reader.price_digits)
        size_unit = Fraction(1, 10**reader.size_digits)
        symbol = symbol or reader.symbol or symbol_of(reader.name)
        found = Instrument(
            symbol=symbol,
            venue=venue,
            tick=price_unit * self.scan.tick_units,
            lot=size_unit * self.scan.lot_units,
            currency=quote_currency(symbol),
            inverse=coin_margined(symbol),
        )
        self.instrument = found if own is None else _merged(found, own)
        self._tick = _whole(self.instrument.tick / price_unit, "tick", self.name)
        self._lot = _whole(self.instrument.lot / size_unit, "lot", self.name)
        self._shift = self.scan.clock_ns + (0 if reader.has_recv else latency_ns)
        self._latency_ns, self._clock_shift_ns = latency_ns, clock_shift_ns
        self.first_ts = self.scan.first_ts + self._shift + clock_shift_ns
        self.last_ts = self.scan.last_ts + self._shift + clock_shift_ns

    def said_of_kinds(self) -> str:
        """How many messages of each kind there are."""
        return ", ".join(
            f"{count:,} {words[count != 1]}"
            for kind, words in _KIND_WORDS.items()
            if (count := self.scan.kinds[kind])
        )

    def said_of_time(self) -> list[str]:
        """What was assumed of the times, in lines without the file's name."""
        scan, reader, lines = self.scan, self.reader, []
        if scan.clock_ns:
            lines.append(
                f"the recorder's clock was behind the venue's: {scan.clock_ns:,} ns were added to "
                "each time of receipt, so that the quickest message took no time"
            )
        if not reader.has_recv:
            took = f"{self._latency_ns:,} ns" if self._latency_ns else "no time"
            lines.append(f"no times of receipt: each message took {took} to arrive")
        if reader.has_recv and scan.untimed:
            lines.append(
                f"{scan.untimed:,} messages carry no time of the venue: that of receipt is taken"
            )
        return lines

    def facts(self) -> list[str]:
        """What was found, in lines for the report."""
        first, last = times.show_instant(self.first_ts), times.show_instant(self.last_ts)
        said = f"{self.reader.format}: {self.said_of_kinds()}, from {first} to {last}"
        lines = [said, *self.said_of_time(), *self.reader.notes]
        return [f"{self.name}: {line}" for line in lines]

    def counted(self) -> list[str]:
        """What was left out or bad, in lines for the report; complete after `chunks()`."""
        lines = []
        for words, found in (
            ("bad ticks", self.reader.tally.dropped),
            ("counted, no fault of the file", self.reader.tally.left_out),
        ):
            if found:
                lines.append(f"{self.name}: {words}: {listed(found)}")
        return lines

    def chunks(self, index: int, kinds: frozenset[Kind] | None = None) -> Iterator[Events]:
        """The messages as instrument `index`, of these kinds alone if given; whole messages."""
        tally = self.reader.tally
        own = self.scan.events()
        tally.counts = self._decoded.copy()  # a reader that is read again counts anew
        latest = np.iinfo(np.int64).min
        for raw in own:
            events = raw.copy()
            events["instrument"] = index
            if self._shift:
                if self.reader.has_recv:
                    # What carries no time of the venue was stamped with that of receipt.
                    untimed = events["ts_event"] == events["ts_recv"]
                    events["ts_event"][untimed] += self._shift
                events["ts_recv"] += self._shift
            if self._clock_shift_ns:
                events["ts_event"] += self._clock_shift_ns
                events["ts_recv"] += self._clock_shift_ns
            events, latest = self._judged(events, latest)
            if kinds is not None:
                events = keep(events, np.isin(events["kind"], [*kinds, Kind.FEED]))
            if len(events):
                yield events

    def _judged(self, events: Events, latest: int) -> tuple[Events, int]:
        """The events in ticks and lots, the bad ones made harmless."""
        kind, payload = events["kind"], events["payload"]
        fault = np.full(len(events), -1, np.int8)
        trades, quotes, deltas = (kind == k for k in (Kind.TRADE, Kind.QUOTE, Kind.BOOK_DELTA))
        self._ticks(payload, 0, trades | deltas, fault, floor=trades)
        for side in (0, 1):
            there = quotes & (payload[:, side] != MISSING)
            payload[quotes & ~there, side] = NO_PRICE
            self._ticks(payload, side, there, fault)
        for of, own in ((Kind.TRADE, trades), (Kind.QUOTE, quotes), (Kind.BOOK_DELTA, deltas)):
            for column in _SIZES[of]:
                self._lots(payload, column, own, fault)
        fault[trades & (payload[:, 1] <= 0) & (fault < 0)] = Fault.SIZE
        both = quotes & (payload[:, 0] != NO_PRICE) & (payload[:, 1] != NO_PRICE) & (fault < 0)
        fault[both & (payload[:, 0] > payload[:, 1])] = Fault.CROSSED
        fault[both & (payload[:, 0] == payload[:, 1])] = Fault.LOCKED
        ts = events["ts_recv"]
        reached = np.maximum.accumulate(np.maximum(ts, latest))
        backward = ts < reached
        if backward.any():
            fault[backward] = Fault.BACKWARD
            events["ts_recv"] = reached
        if np.any(fault >= 0):
            events = self._mended(events, fault)
        return events, int(reached[-1])

    def _ticks(
        self, payload: Int64s, column: int, own: Bools, fault: npt.NDArray[np.int8],
        floor: Bools | None = None,
    ) -> None:  # fmt: skip
        prices = payload[own, column]
        ticks, rest = np.divmod(prices, self._tick)
        found = np.full(len(prices), -1, np.int8)
        off = rest != 0
        if floor is not None and off.any():
            between = off & floor[own]
            self.reader.tally.note(Fault.MIDPOINT, int(np.count_nonzero(between)))
            off &= ~between
        found[off] = Fault.OFF_TICK
        found[ticks >= EXACT_MAX] = Fault.RANGE
        found[prices <= 0] = Fault.PRICE
        payload[own, column] = ticks
        fault[own] = np.where(found >= 0, found, fault[own])

    def _lots(self, payload: Int64s, column: int, own: Bools, fault: npt.NDArray[np.int8]) -> None:
        sizes = payload[own, column]
        lots, rest = np.divmod(sizes, self._lot)
        found = np.full(len(sizes), -1, np.int8)
        found[rest != 0] = Fault.OFF_LOT
        found[lots >= EXACT_MAX] = Fault.RANGE
        unsized = sizes == MISSING
        lots[unsized], found[unsized] = UNSIZED, -1
        found[sizes < 0] = Fault.SIZE
        payload[own, column] = lots
        fault[own] = np.where(found >= 0, found, fault[own])

    def _mended(self, events: Events, fault: npt.NDArray[np.int8]) -> Events:
        """The events with bad trades left out, bad quotes emptied, bad changes made gaps."""
        tally = self.reader.tally
        for code in np.unique(fault[fault >= 0]).tolist():
            at = int(np.argmax(fault == code))
            where = times.show_instant(int(events["ts_recv"][at]), exact=True)
            where = f"after {where}" if code == Fault.BACKWARD else where
            tally.note(Fault(code), int(np.count_nonzero(fault == code)), where)
        bad, kind = fault >= 0, events["kind"]
        empty = bad & (kind == Kind.QUOTE)
        events["payload"][empty] = (NO_PRICE, NO_PRICE, 0, 0, 0)
        gaps = bad & np.isin(kind, KINDS["book"])
        events["kind"][gaps], events["side"][gaps] = Kind.FEED, Feed.GAP
        events["payload"][gaps, 1], events["payload"][gaps, 3:] = 0, 0
        events["payload"][gaps, 0] = fault[gaps]
        return keep(events, ~(bad & (kind == Kind.TRADE)))


_KIND_WORDS = {
    Kind.QUOTE: ("quote", "quotes"),
    Kind.TRADE: ("trade", "trades"),
    Kind.BOOK_DELTA: ("change of the book", "changes of the book"),
    Kind.BOOK_SNAPSHOT: ("snapshot", "snapshots"),
    Kind.FEED: ("gap or halt of the feed", "gaps and halts of the feed"),
}


def _whole(steps: Fraction, what: str, name: str) -> int:
    if steps.denominator != 1 or steps < 1:
        raise DataError(
            f"{name}: the {what} of the instrument is finer than the data's own unit: name one "
            f"that is {show_fraction(steps)} times as coarse, or leave it out to have it inferred"
        )
    return int(steps)


def _merged(found: Instrument, own: Instrument) -> Instrument:
    """What the data imply, under what the user named."""
    from msgspec.structs import replace

    return replace(found, **{field: getattr(own, field) for field in own.named}, named=own.named)


assert len(WORDS) == len(Fault)
