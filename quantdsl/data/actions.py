"""Splits, dividends and funding: what changes a position or its cash without a trade, from a file.

    time,       symbol, action,   value
    2020-08-31, AAPL,   split,    4       new shares for one old
    2020-11-06, AAPL,   dividend, 0.205   money for one share, in the instrument's currency
    2024-06-14T08:00Z, BTC, funding, 0.0001   of the position's value, from longs to shorts

In place of action and value a table may have columns named split, dividend or funding (the
venues' `fundingTime`, `fundingRate` are known); cells that are empty or zero are no action. A date
alone means the start of that date's session, or of the next one. An action is applied to what is
held at its time, after the bars that end then and before what opens; prices stay as traded.

Factor files, as Lean has them, are read too: one an instrument, called after it, in a folder.

    20200828,0.9967882,0.25,499.23    up to that day a price counts so much for dividends and for
    20201105,0.9967882,1,119.03       splits; and its close, of which a dividend was a share
"""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.data import times
from quantdsl.data.calendar import Schedule
from quantdsl.data.columns import plain
from quantdsl.data.instrument import Instrument
from quantdsl.data.many import named
from quantdsl.data.table import CsvTable, Table, open_table, stem
from quantdsl.data.time_columns import TimeTextError, parse_times
from quantdsl.errors import DataError
from quantdsl.events.layout import EVENT, Action, BookSide, Kind

Events = npt.NDArray[np.void]

NAMES = {action.name.lower(): action for action in Action}
RATIO_MAX = 10_000
"""Largest denominator of a split: 1 for 7 is written 0.142857."""
RATIO_ERROR = 1e-4
"""How far a split may be from such a ratio: less than the decimals of a file may be off."""
SPLIT_SEEN = 2
"""Of a split into so many, or a merger of so many into one, the next price tells."""
PRICE_ERROR = 1e-9
"""What a price may be off by the splits since it."""
RATE_MAX = 10**15
"""Largest denominator of a rate or an amount; both words of an event stay below 2^53."""
FACTORS = re.compile(r"\d{8}")
"""What a factor file begins with, which has no header."""
FACTOR_DIGITS = 4
"""Decimals of money that factors of seven decimals tell."""
CLOSE = 3
"""The word of a bar's close."""
ASK = 1
"""The word of a quote's ask: where nobody asks it is above all prices, and holds nothing."""
LEVEL_LOTS, ORDER_LOTS = 1, 4
"""The words of a book's change that say what is there now: at its price, or of its order."""
EPOCH = dt.date(1970, 1, 1)
CLOCKS_NS = 2 * 3_600 * times.SECOND_NS
"""After the begin of a day's bar, which the change of clocks moves by an hour."""

_ALIASES = {
    "time": ("time", "date", "timestamp", "datetime", "fundingtime", "calctime", "exdate"),
    "symbol": ("symbol", "ticker", "instrument"),
    "action": ("action", "type", "kind"),
    "value": ("value", "amount", "ratio", "rate"),
    "split": ("split", "splits", "stocksplits", "splitratio"),
    "dividend": ("dividend", "dividends", "cashamount"),
    "funding": ("funding", "fundingrate", "lastfundingrate"),
}


class Actions:
    """The actions of a run's instruments within a span, as events in order of time.

    Raises DataError where the file is no table of actions, names an action that there is none of,
    or splits an instrument whose prices are adjusted already.
    """

    def __init__(
        self,
        path: str,
        instruments: Sequence[Instrument],
        money_digits: int,
        schedule: Schedule,
        span: tuple[int, int],
        *,
        begins_ns: int = 0,
    ) -> None:
        """`begins_ns` is how long after a day's open, or before it, its bar begins."""
        self.path = path
        self._late_ns = begins_ns + CLOCKS_NS if begins_ns else 0
        self._instruments, self._scale, self._schedule = instruments, 10**money_digits, schedule
        self._numbers = {
            name.upper(): number
            for number, one in reversed(list(enumerate(instruments)))
            for name in (one.symbol, one.name)
        }
        self.counts: Counter[str] = Counter()
        self._said: dict[tuple[int, int, int, int, int], tuple[str, float]] = {}
        """Of each action, by the words of its event: where it is told, and its value."""
        self._written: set[tuple[int, int, int, float]] = set()
        """When each action is told to be, of whom, which it is, and its value."""
        self._doubts: dict[str, None] = {}
        tables = open_table(Path(path)) if path else []
        self._tables = tables
        found = [events for table in tables for events in self._of(table)]
        events = np.concatenate([np.empty(0, EVENT), *found])
        inside = (events["ts_event"] >= span[0]) & (events["ts_event"] <= span[1])
        kept = events[inside]
        self.events: Events = kept[np.argsort(kept["ts_event"], kind="stable")]
        self._require_single()
        if tables and not len(events):
            raise DataError(
                f"{path}: holds no action of {named([one.name for one in instruments])}"
            )
        self._span = " to ".join(map(times.show_instant, span))
        for action in kept["side"].tolist():
            self.counts[Action(action).name.lower()] += 1

    def hashes(self) -> list[str]:
        """Of each file that was read."""
        return [table.sha256() for table in self._tables]

    def statement(self) -> list[str]:
        """Lines that say what is applied, and of what the prices make one doubt; none where no
        file was named."""
        counted = ", ".join(f"{name} {count:,}" for name, count in sorted(self.counts.items()))
        counted = counted or f"no action from {self._span}"
        return [f"{self.path}: {counted}", *self._doubts] if self.path else []

    def held(self, chunks: Iterator[Events]) -> Iterator[Events]:
        """The events of the run; DataError at a dividend above the last price before it."""
        if not self.counts["dividend"] + self.counts["split"]:
            yield from chunks
            return
        market = _Market(self._instruments)
        for events in chunks:
            begin = 0
            for at in np.flatnonzero(events["kind"] == Kind.CORPORATE).tolist():
                market.take(events[begin:at])
                self._act(market, events[at])
                begin = at
            market.take(events[begin:])
            self._doubts |= dict.fromkeys(market.doubts)
            yield events

    def _act(self, market: "_Market", event: np.void) -> None:
        """Let the market split, or hold a dividend to it."""
        at, side = int(event["instrument"]), int(event["side"])
        if side == Action.FUNDING:
            return
        words = event["payload"][:2].tolist()
        when, value = self._said[int(event["ts_event"]), at, side, *words]
        if side == Action.SPLIT:
            market.split(at, Fraction(*words), when)
            return
        price = market.prices[at] * float(self._instruments[at].tick)
        if value > price * (1 + PRICE_ERROR):
            raise DataError(
                f"{when}: {value:g} a share is more than a share is worth, by its last price "
                f"before it {price:g}\nhelp: a dividend is money for one share: not in cents, "
                "not for all shares, and not of the shares before a split of that day"
            )

    def _require_single(self) -> None:
        """DataError where an instrument is split twice at one instant."""
        splits = self.events[self.events["side"] == Action.SPLIT]
        for (moment, at), count in Counter(splits[["ts_event", "instrument"]].tolist()).items():
            if count > 1:
                raise DataError(
                    f"{self.path}: splits {self._instruments[at].name} twice at "
                    f"{times.show_instant(moment)}\nhelp: leave one of the lines out"
                )

    def _of(self, table: Table) -> list[Events]:
        if isinstance(table, CsvTable) and FACTORS.fullmatch(table.columns()[0]):
            return self._of_factors(table)
        columns = _columns(table)
        wide = [name for name in NAMES if name in columns]
        text = [columns[field] for field in ("time", "symbol", "action") if field in columns]
        numbers = [columns[name] for name in wide or ["value"]]
        found, before = [], 0
        for batch in table.batches(list(dict.fromkeys(text)), numbers):
            found += self._rows(batch, columns, wide, table.name, before)
            before += len(batch)
        return found

    def _of_factors(self, table: CsvTable) -> list[Events]:
        """What makes the factors of each line those of the next, from the session after it on."""
        at = self._index(stem(table.path))
        if at is None:
            return []
        rows = _factors_of(table)
        moments = self._opens([row.day + 1 for row in rows])
        events = []
        for line, (moment, (row, after)) in enumerate(
            zip(moments, pairwise(rows), strict=False), 1
        ):
            where, comes = f"{table.name}: line {line}", (row.day * times.DAY_NS, moment)
            if dividend := round(row.close * (1 - row.paid / after.paid), FACTOR_DIGITS):
                events.append(self._event(comes, at, "dividend", dividend, where))
            if row.split != after.split:
                ratio = after.split / row.split
                events.append(self._event(comes, at, "split", ratio, where))
        return events

    def _rows(
        self, batch: Any, columns: dict[str, str], wide: list[str], where: str, before: int
    ) -> list[Events]:
        """Of a batch of rows, so many rows `before` it."""
        moments = self._moments(batch.column(columns["time"]), where, before)
        symbols = batch.column(columns["symbol"]).to_pylist() if "symbol" in columns else None
        if symbols is None and len(self._instruments) > 1:
            raise DataError(
                f"{where}: does not say whose actions these are, and the run has "
                f"{named([one.name for one in self._instruments])}\nhelp: give it a column 'symbol'"
            )
        instruments = [self._index(one) for one in symbols] if symbols else [0] * len(moments)
        if not wide:
            words = batch.column(columns["action"]).to_pylist()
            values = batch.column(columns["value"]).to_pylist()
            rows = [*enumerate(zip(moments, instruments, words, values, strict=True), before + 1)]
        else:
            rows = [
                (number, (moment, instrument, name, value))
                for name in wide
                for number, (moment, instrument, value) in enumerate(
                    zip(moments, instruments, batch.column(columns[name]).to_pylist(), strict=True),
                    before + 1,
                )
                if value
            ]
        return [
            self._event(moment, at, str(word).strip().lower(), value, f"{where}: row {number}")
            for number, (moment, at, word, value) in rows
            if at is not None
        ]

    def _index(self, symbol: object) -> int | None:
        """Which instrument of the run a symbol is; a file may hold those of many others."""
        return self._numbers.get(str(symbol).strip().upper())

    def _moments(self, column: Any, where: str, before: int) -> list[tuple[int, int]]:
        """The time of each row as it is written, and when the action comes."""
        try:
            found = parse_times(column)
        except TimeTextError as error:
            raise DataError(f"{where}: row {before + error.at + 1}: {error}") from None
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        if not found.valid.all():
            raise DataError(f"{where}: row {before + int(np.argmin(found.valid)) + 1} has no time")
        written = list(map(int, found.ns))
        if found.zoned or np.any(found.ns % times.DAY_NS):
            return [*zip(written, written, strict=True)]
        return [*zip(written, self._opens(found.ns // times.DAY_NS), strict=True)]

    def _opens(self, days: npt.ArrayLike) -> list[int]:
        """When the session of each day opens, or the next one."""
        at = np.searchsorted(self._schedule.day, days, "left")
        # After the last session there is no instant of the run left.
        opens = np.append(self._schedule.open_ns + self._late_ns, np.iinfo(np.int64).max)
        return list(map(int, opens[at]))

    def _event(
        self, moments: tuple[int, int], at: int, word: str, value: float | None, where: str
    ) -> Events:
        """An action at its moments as `_moments` tells them."""
        written, moment = moments
        if word not in NAMES:
            raise DataError(f"{where}: {word!r} is no action\nhelp: one of {', '.join(NAMES)}")
        action, one = NAMES[word], self._instruments[at]
        when = f"{where}: {word} of {one.name} at {times.show_instant(moment)}"
        least = -np.inf if action == Action.FUNDING else 0.0
        wrong = value is None or not np.isfinite(value) or value < least
        if value is None or wrong or (action == Action.SPLIT and value == 0):
            raise DataError(f"{when}: {value} is no {'ratio' if action == 0 else 'amount'}")
        if action == Action.FUNDING and abs(value) >= 1:
            raise DataError(
                f"{when}: {value:g} is {value:,.0%} of the position's value\n"
                "help: a rate is a share of that value: 0.01 % is 0.0001"
            )
        if action != Action.FUNDING and one.prices == "adjusted":
            raise DataError(
                f"{when}: the prices of {one.name} are adjusted, so they hold it already\n"
                'help: take it out, or write prices = "traded" in the instrument file'
            )
        key = written, at, int(action), float(value)
        if key in self._written:
            raise DataError(
                f"{when}: it stands there twice\n"
                "help: leave one of the lines out; two that were paid are one line, their sum"
            )
        self._written.add(key)
        amount = Fraction(repr(float(value)))
        if action == Action.DIVIDEND:
            amount *= one.lot * one.multiplier * self._scale
        exact = amount.limit_denominator(RATIO_MAX if action == Action.SPLIT else RATE_MAX)
        if action == Action.SPLIT and abs(exact / amount - 1) > RATIO_ERROR:
            raise DataError(f"{when}: {value} is no ratio with a divisor up to {RATIO_MAX:,}")
        event = np.zeros(1, EVENT)
        event["ts_event"] = event["ts_recv"] = moment
        event["instrument"], event["kind"], event["side"] = at, Kind.CORPORATE, action
        event["payload"][0, :2] = exact.numerator, exact.denominator
        words = int(moment), at, int(action), exact.numerator, exact.denominator
        self._said[words] = when, float(value)
        return event


class _Split(NamedTuple):
    """One that no price has come after yet: the price before it, and that it makes, in ticks."""

    when: str
    before: float
    after: float


class _Market:
    """What the events so far tell of prices, and of the splits between them."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self.prices = np.full(len(instruments), np.inf)
        """The last of each instrument in ticks; before the first one nothing is held to it."""
        self.doubts: list[str] = []
        """Of splits that the next price does not show."""
        self._splits: dict[int, _Split] = {}

    def split(self, at: int, ratio: Fraction, when: str) -> None:
        """Divide a price."""
        before = self.prices[at]
        self.prices[at] /= float(ratio)
        if max(ratio, 1 / ratio) >= SPLIT_SEEN:
            self._splits[at] = _Split(when, before, self.prices[at])

    def take(self, events: Events) -> None:
        """Go through events: the last price of an instrument is an ask, where no trade beside it
        tells more; of a book the last ask that was told, which is no lower than the best one.
        """
        for at in [*self._splits]:
            self._meet(at, events)
        asks = events[(events["kind"] == Kind.BOOK_DELTA) & (events["side"] == BookSide.ASK)]
        there = asks[(asks["payload"][:, LEVEL_LOTS] > 0) | (asks["payload"][:, ORDER_LOTS] > 0)]
        self.prices[there["instrument"]] = there["payload"][:, 0]
        for kind, word in ((Kind.QUOTE, ASK), (Kind.BAR, CLOSE), (Kind.TRADE, 0)):
            own = events[events["kind"] == kind]
            self.prices[own["instrument"]] = own["payload"][:, word]

    def _meet(self, at: int, events: Events) -> None:
        """Doubt a split after which the first close or trade is nearer to the price before it."""
        priced = np.isin(events["kind"], (Kind.BAR, Kind.TRADE)) & (events["instrument"] == at)
        if not priced.any():
            return
        first = events[int(np.argmax(priced))]
        when, before, after = self._splits.pop(at)
        price = float(first["payload"][CLOSE if first["kind"] == Kind.BAR else 0])
        if not (0 < before < np.inf and price > 0):
            return
        if abs(np.log(price / before)) < abs(np.log(price / after)):
            self.doubts.append(
                f"{when}: the next price is {price / before:.3g} times that before it, where a "
                f"split makes {after / before:.3g}: do the prices hold it already? Then take "
                "it out of the file"
            )


class _Factors(NamedTuple):
    """A line of a factor file: what prices up to a day, since 1970, count; and that day's close."""

    day: int
    paid: float
    split: float
    close: float


def _factors_of(table: CsvTable) -> list[_Factors]:
    """The lines of a factor file. Raises DataError where one is none, or cannot be what it says."""
    rows = []
    try:
        for line in table.path.read_text(encoding="utf-8-sig").split():
            day = (dt.date.fromisoformat(line[:8]) - EPOCH).days
            rows.append(_Factors(day, *map(float, line.split(",")[1:])))
    except (ValueError, TypeError):
        raise DataError(
            f"{table.name}: is no factor file: lines of day, factor for dividends, factor for "
            "splits and close, such as 20200828,0.9967882,0.25,499.23"
        ) from None
    for number, (row, after) in enumerate(pairwise(rows), 1):
        if after.day <= row.day:
            raise DataError(
                f"{table.name}: line {number + 1}: its day does not come after that of line "
                f"{number}\nhelp: sort the lines from old to new, and let none stand twice"
            )
        if row.close <= 0 and row.paid != after.paid:
            raise DataError(
                f"{table.name}: line {number}: its factor for dividends is {row.paid:g} and the "
                f"next one's {after.paid:g}, and without its close nobody knows what was paid\n"
                "help: write the close of that day, as traded, as the last number"
            )
    for number, row in enumerate(rows, 1):
        if not (0 < row.paid < np.inf and 0 < row.split < np.inf and 0 <= row.close < np.inf):
            raise DataError(
                f"{table.name}: line {number}: factors above 0 and a close are needed, not "
                f"{row.paid:g}, {row.split:g} and {row.close:g}"
            )
    return rows


def _columns(table: Table) -> dict[str, str]:
    """The columns by field; DataError where there is no time, or nothing that acts."""
    names = table.columns()
    found = {}
    for field, aliases in _ALIASES.items():
        match = next((name for alias in aliases for name in names if plain(name) == alias), None)
        if match is not None:
            found[field] = match
    acts = any(name in found for name in NAMES) or {"action", "value"} <= set(found)
    if "time" not in found or not acts:
        raise DataError(
            f"{table.name}: is no table of actions; it has {', '.join(names)}\n"
            "help: time, symbol, action (split, dividend, funding) and value"
        )
    return found
