"""The built-in market: seeded one-minute bars of invented instruments, the same on every machine.

It is made for trying strategies out, not for believing their results. What it has of a real
market: regimes of trend and calm that last from hours to days, busy opens and closes, overnight
gaps, volume that follows activity, and pairs of instruments (the first and the second, the third
and the fourth, ...) whose spread comes back to its mean.

Sameness: the only randomness is PCG64's raw 64-bit stream, which numpy keeps stable, and every
figure comes from integer arithmetic or from IEEE addition, multiplication and division, which
are alike everywhere; no function of a mathematics library is called.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import reduce

import numpy as np
import numpy.typing as npt

from quantdsl.data.calendar import Schedule
from quantdsl.data.rows import Rows

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

MINUTE_NS = 60_000_000_000
STEPS = 4
"""Prices within a minute; its high and low are among them."""

LEVEL = 1e-9
"""A level of one stands for this relative move, so that levels are summed as exact integers."""

_STEP_LEVEL = 150_000.0  # usual move in one step of the common walk
_STRAYING = 0.5  # moves of the spread of a pair, in usual moves
_TREND = 0.024  # drift of a trend, as a share of the usual move
_GAP_STEPS = 14.0  # usual overnight gap, in usual moves
_SPREAD_MINUTES = 120  # a pair's spread returns to its mean within about this time
_REGIME_MINUTES = (120, 900)
_SHARES = 2_000  # usual volume of a minute
_START_PRICES = (100.0, 60.0, 250.0, 40.0, 150.0, 80.0, 320.0, 25.0)


class SyntheticReader:
    """The built-in market's rows of one instrument: readable any number of times."""

    close_only = False
    has_volume = True
    zoned = True
    dates_only = False
    first_fault = ""

    def __init__(self, index: int, seed: int, schedule: Schedule, *, strays: bool) -> None:
        self._index, self._seed, self._schedule, self._strays = index, seed, schedule, strays
        self.name = f"the built-in market (seed {seed})"
        self.dropped: Counter[str] = Counter()

    def chunks(self) -> Iterator[Rows]:
        yield market(self._index, self._seed, self._schedule, self._strays)

    def sha256(self) -> str:
        """Hash of what the rows follow from; the rows themselves are the same everywhere."""
        sessions = self._schedule.open_ns.tobytes() + self._schedule.close_ns.tobytes()
        label = f"synthetic seed {self._seed} instrument {self._index} strays {self._strays} "
        return hashlib.sha256(label.encode() + sessions).hexdigest()


def market(index: int, seed: int, schedule: Schedule, strays: bool) -> Rows:
    """One-minute bars of instrument `index` in every session of `schedule`.

    Two neighbours share one walk; one of them may stray from it for a while.
    """
    minutes = (schedule.close_ns - schedule.open_ns) // MINUTE_NS
    total = int(minutes.sum())
    session = np.repeat(np.arange(len(minutes)), minutes)
    minute = np.arange(total) - np.repeat(np.cumsum(minutes) - minutes, minutes)
    activity = _activity(minute, minutes[session])
    opening = minute == 0

    pair = _Random(seed, 1, index // 2)
    drift, mood = _regimes(pair, total)
    activity *= mood
    moves = _moves(pair, activity) + drift[:, None]
    moves[opening, 0] += pair.noise(len(minutes)) * _GAP_STEPS
    level = _level(moves)
    own = _Random(seed, 2, index)
    if strays:
        level += _returning(_level(_moves(own, activity) * _STRAYING))

    price = np.rint(_relative(level) * _START_PRICES[index % len(_START_PRICES)] * 100.0) / 100.0
    # A minute opens where the last one ended, but for the first of a session: there is the gap.
    opens = np.concatenate((price[:1], price[STEPS - 1 : -1 : STEPS]))
    opens[opening] = price[::STEPS][opening]
    path = [opens, *(price[step::STEPS] for step in range(STEPS))]
    high, low = reduce(np.maximum, path), reduce(np.minimum, path)
    volume = np.rint(activity * (own.uniform(total) + own.uniform(total)) * _SHARES) + 1.0
    ts = schedule.open_ns[session] + minute * MINUTE_NS
    return Rows(ts, opens, high, low, path[-1], volume)


_LOW_HALVES = np.uint64(0x0000_FFFF_0000_FFFF)


class _Random:
    """A stream of numbers of its own for each purpose, so that one never shifts another."""

    def __init__(self, seed: int, *purpose: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, *purpose]))

    def uniform(self, n: int) -> Float64s:
        """In [0, 1), multiples of 2^-32."""
        return (self._bits.random_raw(n) >> np.uint64(32)).astype(np.float64) / 2.0**32

    def noise(self, n: int) -> Float64s:
        """Nearly normal with variance 1: the sum of four 16-bit numbers."""
        raw = self._bits.random_raw(n)
        pairs = (raw & _LOW_HALVES) + ((raw >> np.uint64(16)) & _LOW_HALVES)
        total = (pairs & np.uint64(0xFFFF_FFFF)) + (pairs >> np.uint64(32))
        return (total.astype(np.float64) - 131_070.0) / 37_837.0


def _activity(minute: Int64s, length: Int64s) -> Float64s:
    """How busy a minute of a session is: most at the open and the close, 1 on average."""
    x = 2.0 * minute / length - 1.0
    shape: Float64s = 0.78 + 1.1 * (x * x) * (x * x)
    return shape


def _moves(random: _Random, activity: Float64s) -> Float64s:
    """Moves of every step, [minutes, STEPS], in usual moves."""
    return random.noise(len(activity) * STEPS).reshape(-1, STEPS) * activity[:, None]


def _regimes(random: _Random, minutes: int) -> tuple[Float64s, Float64s]:
    """Drift and mood of each minute: stretches of hours to days, each up, down or without trend,
    and each calm or lively."""
    shortest, longest = _REGIME_MINUTES
    n = minutes // shortest + 1
    lengths = (shortest + random.uniform(n) * (longest - shortest)).astype(np.int64)
    direction = np.floor(random.uniform(n) * 3.0) - 1.0
    mood = 0.85 + 0.5 * random.uniform(n)
    drift: Float64s = np.repeat(direction * mood, lengths)[:minutes] * _TREND
    return drift, np.repeat(mood, lengths)[:minutes]


def _level(moves: Float64s) -> Int64s:
    """The walk of these moves as exact integers of LEVEL."""
    return np.cumsum(np.rint(moves * _STEP_LEVEL).astype(np.int64).ravel())


def _returning(level: Int64s) -> Int64s:
    """A walk less its own recent mean: it wanders around zero."""
    window = _SPREAD_MINUTES * STEPS
    total = np.concatenate((np.zeros(window, np.int64), np.cumsum(level)))
    mean: Int64s = (total[window:] - total[:-window]) // window
    return level - mean


def _relative(level: Int64s) -> Float64s:
    """Price relative to the start: (1 + x/64)^64 by squaring, close to exp(x)."""
    power = np.asarray(1.0 + level * (LEVEL / 64.0), np.float64)
    for _ in range(6):
        np.multiply(power, power, out=power)
    return power
