"""The first pass over an instrument's rows: size, span, bar length, price step and size step.

The steps must be known before the first event, hence a pass of its own. Small data are kept, so
that they are parsed once; large data are read again.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.data.counts import listed
from quantdsl.data.instrument import (
    EXACT_MAX,
    MONEY_DIGITS_MAX,
    MONEY_DIGITS_MIN,
    PRICE_ROOM,
    Instrument,
    decimals,
    show_fraction,
)
from quantdsl.data.rows import Reader, Rows
from quantdsl.data.times import DAY_NS, Interval
from quantdsl.errors import DataError

Float64s = npt.NDArray[np.float64]

KEPT_ROWS_MAX = 2_000_000
"""Rows of all instruments kept in memory between the two passes: 48 bytes each, 96 MB."""

TICK_DIGITS_MAX = 8
"""Decimals of a price that can be its own step; more are the trace of an adjustment."""

TICK_SHARE, TICK_SHARE_MAX = 6, 4
"""An inferred tick is about 1e-6 of the lowest price, at most 1e-4."""

POSITION_WORTH = 100_000
"""Money that a position of an inferred instrument may be worth at the lowest price of the data."""

STEP_EVIDENCE = 1_000
"""Prices needed before a step coarser than their last decimal is believed (0.25, 0.00005)."""

JUMP, JUMP_MOST = 1.9, 50.0
"""Between these factors an open is held against the close before it: a split of two, or more."""
JUMP_NEAR = 0.03
"""How far from a whole number such a factor may be: prices move on the day of a split too."""
JUMPS_FEW, ROWS_A_JUMP = 4, 250
"""Where more than a few come more often, prices are wild or some ticks high: no split."""
_ULPS = 1e-15
_UNTOLD = Interval(1, "y")
"""Stands for a bar length that one row alone does not tell: no other is longer."""
_FEW = ("holds no usable row", "holds one usable row only")
_QUOTES = ("USDT", "USDC", "USD", "EUR", "GBP", "JPY", "CHF", "AUD", "CAD", "NZD", "BTC", "ETH")


class StepFinder:
    """The largest step that holds every number added, as digits after the point and a divisor."""

    def __init__(self) -> None:
        self.digits, self.divisor, self.count, self.exact = 0, 0, 0, True

    def add(self, values: Float64s) -> None:
        self.count += len(values)
        while self.exact:
            scale = 10.0**self.digits
            whole = np.rint(values * scale)
            if bool(np.all(np.abs(whole / scale - values) <= _ULPS * np.abs(values))):
                if whole.max(initial=0.0) >= EXACT_MAX:
                    break
                common = int(np.gcd.reduce(whole.astype(np.int64)))
                self.divisor = math.gcd(self.divisor, common)
                return
            if self.digits == TICK_DIGITS_MAX:
                break
            self.digits += 1
            self.divisor *= 10
        self.exact = False

    def step(self) -> Fraction:
        """The step; without enough numbers the last decimal rather than a chance multiple of it."""
        believed = self.count >= STEP_EVIDENCE and self.divisor > 0
        return Fraction(self.divisor if believed else 1, 10**self.digits)


class Jump(NamedTuple):
    """An open that is a whole part, or a whole multiple, of the close before it."""

    ts: int
    before: float
    after: float


class Found(msgspec.Struct, frozen=True):
    """What a pass found but for price and size steps, to be kept."""

    count: int
    first_ts: int
    last_ts: int
    price_min: float
    price_max: float
    volume_max: float
    longest_gap: tuple[int, int]
    steps: dict[int, int]  # ns between rows -> how often
    weekdays: tuple[int, ...]  # how many days with rows there are of each of a week


class Scan:
    """What one pass over the rows found; iterate `rows()` for the second pass.

    With `found`, of an earlier pass over the same rows, there is none now. `alone`: no other
    instrument can tell how long a bar is.
    """

    def __init__(
        self,
        reader: Reader,
        kept_rows_max: int,
        *,
        find_steps: bool = True,
        found: Found | None = None,
        alone: bool = True,
    ) -> None:
        self._reader, self._kept_rows_max, self._find_steps = reader, kept_rows_max, find_steps
        self._kept: list[Rows] | None = []
        self._steps: Counter[int] = Counter()
        self._weekdays = np.zeros(7, np.int64)
        self.prices, self.sizes = StepFinder(), StepFinder()
        self.count = 0
        self.first_ts = self.last_ts = 0
        self.price_min, self.price_max, self.volume_max = math.inf, 0.0, 0.0
        self.longest_gap: tuple[int, int] = (0, 0)
        self.jump: Jump | None = None
        """Where prices first jump as by a split, and how often they do."""
        self.jumps = 0
        self._last_close = math.nan
        if found is None:
            for rows in reader.chunks():
                self._add(rows)
            if self.jumps > max(self.count // ROWS_A_JUMP, JUMPS_FEW):
                self.jump = None
        else:
            self._restore(found)
        if not self._steps and (alone or self.count == 0):
            raise self.too_few()
        self.interval = self._interval()

    @property
    def found(self) -> Found:
        """What spares a later run this pass."""
        return Found(
            self.count,
            self.first_ts,
            self.last_ts,
            self.price_min,
            self.price_max,
            self.volume_max,
            self.longest_gap,
            dict(self._steps),
            tuple(self._weekdays.tolist()),
        )

    def _restore(self, found: Found) -> None:
        self._kept, self._steps = None, Counter(found.steps)
        self._weekdays = np.array(found.weekdays)
        self.count, self.first_ts, self.last_ts = found.count, found.first_ts, found.last_ts
        self.price_min, self.price_max = found.price_min, found.price_max
        self.volume_max, self.longest_gap = found.volume_max, found.longest_gap

    def rows(self) -> Iterator[Rows]:
        return iter(self._kept) if self._kept is not None else self._reader.chunks()

    @property
    def gaps(self) -> int:
        """Steps longer than the usual one, within a day."""
        usual = self.interval.nominal_ns
        return sum(n for step, n in self._steps.items() if usual < step < DAY_NS)

    @property
    def days_a_week(self) -> int:
        """Days of a week of UTC that usually have bars; 7 where the data are shorter than one."""
        if self.last_ts - self.first_ts < 6 * DAY_NS:
            return 7
        return int(np.count_nonzero(self._weekdays * 2 > self._weekdays.max()))

    def _add(self, rows: Rows) -> None:
        if self.count == 0:
            self.first_ts = int(rows.ts[0])
        else:
            self._step(np.array([self.last_ts, rows.ts[0]]))
        self._step(rows.ts)
        self._count_days(rows.ts)
        self._find_jumps(rows)
        self.count += rows.size
        self.last_ts = int(rows.ts[-1])
        self.price_min = min(self.price_min, float(rows.low.min()))
        self.price_max = max(self.price_max, float(rows.high.max()))
        self.volume_max = max(self.volume_max, float(rows.volume.max()))
        if self._find_steps:
            for column in (rows.close,) if self._reader.close_only else rows[1:5]:
                self.prices.add(column)
            if self._reader.has_volume:
                self.sizes.add(rows.volume)
        if self._kept is not None:
            self._kept.append(rows)
            if self.count > self._kept_rows_max:
                self._kept = None

    def _step(self, ts: npt.NDArray[np.int64]) -> None:
        steps = np.diff(ts)
        if not len(steps):
            return
        at = int(steps.argmax())
        self.longest_gap = max(self.longest_gap, (int(steps[at]), int(ts[at])))
        lengths, counts = np.unique(steps, return_counts=True)
        self._steps.update(dict(zip(lengths.tolist(), counts.tolist(), strict=True)))

    def _find_jumps(self, rows: Rows) -> None:
        before = np.concatenate(([self._last_close], rows.close[:-1]))
        self._last_close = float(rows.close[-1])
        far = np.flatnonzero((rows.open * JUMP < before) | (rows.open > before * JUMP))
        ratio = rows.open[far] / before[far]
        ratio = np.maximum(ratio, 1 / ratio)
        found = far[(np.abs(ratio / np.rint(ratio) - 1) < JUMP_NEAR) & (ratio < JUMP_MOST)]
        if len(found) and self.jump is None:
            at = found[0]
            self.jump = Jump(int(rows.ts[at]), float(before[at]), float(rows.open[at]))
        self.jumps += len(found)

    def _count_days(self, ts: npt.NDArray[np.int64]) -> None:
        """Add the days that begin in these rows to those of their days of the week."""
        days = np.arange(int(ts[0]) // DAY_NS, int(ts[-1]) // DAY_NS + 1)
        begins = np.searchsorted(ts, days * DAY_NS)
        some = np.diff(begins, append=len(ts)) > 0
        if self.count and self.last_ts // DAY_NS == days[0]:
            some[0] = False
        self._weekdays += np.bincount(days[some] % 7, minlength=7)

    def left_out(self) -> str:
        """Why there are so few rows, where bad ones are left out."""
        dropped = self._reader.dropped
        if not dropped:
            return ""
        counts = listed(dropped)
        return f"\nhelp: left out are {counts}; the first: {self._reader.first_fault}"

    def too_few(self) -> DataError:
        """What is wrong with rows that do not tell how long a bar is."""
        return DataError(
            f"{self._reader.name}: {_FEW[self.count]}: a run needs two at least, to tell how "
            f"long a bar is{self.left_out()}"
        )

    def _interval(self) -> Interval:
        """The commonest step between rows; months and years count as one each."""
        if not self._steps:
            return _UNTOLD
        named: Counter[Interval] = Counter()
        for step, n in self._steps.items():
            named[Interval.of_ns(step)] += n
        return max(named, key=lambda interval: (named[interval], -interval.nominal_ns))


def infer(scan: Scan, symbol: str, venue: str) -> tuple[Instrument, list[str]]:
    """The instrument that the data imply, and what was assumed in lines for the report."""
    notes = []
    if scan.prices.exact:
        tick = scan.prices.step()
    else:
        digits = _tick_digits(scan)
        tick = Fraction(1, 10**digits)
        notes.append(
            f"prices hold more than {TICK_DIGITS_MAX} decimals, as adjusted ones do: rounded to "
            f"a tick of 1e-{digits}, and price levels are not historical"
        )
    lot = Fraction(1)
    if scan.sizes.digits > 0 or not scan.sizes.exact:
        held = min(TICK_DIGITS_MAX, _digits_held(scan))
        digits = min(scan.sizes.digits, max(0, held - (decimals(tick) or 0)))
        lot = Fraction(1, 10**digits)
        if digits < scan.sizes.digits or not scan.sizes.exact:
            notes.append(f"volumes are finer than the lot of {show_fraction(lot)}: rounded to it")
    prices: Literal["traded", "adjusted"] = "traded" if scan.prices.exact else "adjusted"
    return Instrument(
        symbol=symbol,
        venue=venue,
        tick=tick,
        lot=lot,
        currency=quote_currency(symbol),
        inverse=coin_margined(symbol),
        prices=prices,
    ), notes


def _tick_digits(scan: Scan) -> int:
    """Decimals of a tick for prices that tell none."""
    above = -math.log10(scan.price_min)
    coarsest = math.ceil(TICK_SHARE_MAX + above)
    finest = min(math.ceil(TICK_SHARE + above), max(coarsest, _digits_held(scan)))
    return min(MONEY_DIGITS_MAX, max(0, finest))


def _digits_held(scan: Scan) -> int:
    """The most decimals of the money of a tick with which POSITION_WORTH is counted exactly.

    What is bought at the lowest price is counted at the highest too. Money never has fewer.
    """
    span = PRICE_ROOM * scan.price_max / scan.price_min
    return max(MONEY_DIGITS_MIN, math.floor(math.log10(EXACT_MAX / (span * POSITION_WORTH))))


def quote_currency(symbol: str) -> str:
    """The last letters of a pair such as EURUSD or btc-usdt; USD for anything else."""
    letters = "".join(c for c in symbol.upper() if c.isalnum())
    for quote in _QUOTES:
        base = letters.removesuffix(quote)
        if base != letters and (base in _QUOTES or base in _BASES):
            return quote
    return "USD"


def coin_margined(symbol: str) -> bool:
    """Whether the name is one of a coin-margined contract, such as BTCUSD_PERP or ETHUSD_240927."""
    return _COIN_MARGINED.fullmatch(symbol.upper()) is not None


_COIN_MARGINED = re.compile(r"[A-Z0-9]+USD_(PERP|\d{6})")
_BASES = ("XAU", "XAG", "SOL", "XRP", "LTC", "ADA", "DOGE", "BNB", "DOT", "AVAX", "LINK", "TRX")
