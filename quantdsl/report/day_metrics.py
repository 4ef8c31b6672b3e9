"""Figures that need every day sample or every trade, so that a sweep lane does not report them."""

import math

import numpy as np
from msgspec import Struct

from quantdsl.events.layout import Kind
from quantdsl.report.formula import Formulas, ratio
from quantdsl.report.result import Float64s, Int64s, RunResult

TAIL = 0.05
"""Value at risk looks at the worst twentieth of the days."""


class Days(Struct, frozen=True):
    """The returns between day samples; `benchmark` is aligned to them, NaN where it has none."""

    ts: Int64s  # [n] ns, the time of the sample that ends the return
    returns: Float64s  # [n] fractions
    periods_per_year: float
    benchmark: Float64s | None = None
    since_ns: int = 0  # the first bar

    @property
    def known(self) -> Float64s:
        """The returns that are defined."""
        finite: Float64s = self.returns[np.isfinite(self.returns)]
        return finite


def days_of(result: RunResult) -> Days:
    """The day samples of a run, each return divided as the core divides it."""
    samples = result.of_kind(Kind.DAY)
    equity = np.concatenate(([result.accumulators["equity_first"]], samples["a"])).astype(np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        returns = np.diff(equity).astype(np.float64) / equity[:-1].astype(np.float64)
    returns[equity[:-1] <= 0] = np.nan
    benchmark = None
    if result.benchmark is not None:
        levels = result.benchmark.levels
        benchmark = levels[1:] / levels[:-1] - 1.0
    since_ns = int(result.curve_ts[0]) if len(result.curve_ts) else 0
    return Days(samples["ts_event"], returns, result.periods_per_year, benchmark, since_ns)


def drawdowns(returns: Float64s) -> Float64s:
    """Fraction below the high so far at each day sample, 0 or negative; an na return is flat."""
    level = np.cumprod(1.0 + np.nan_to_num(returns))
    high = np.maximum.accumulate(np.concatenate(([1.0], level)))[1:]
    under: Float64s = level / high - 1.0
    return under


class MonthlyReturn(Struct, frozen=True):
    year: int
    month: int  # 1..12
    value: float  # fraction


def monthly_returns(days: Days) -> list[MonthlyReturn]:
    """Compounded return of each calendar month (UTC) that holds a day sample, in order.

    What ends at midnight is of the day before, but for a sample at the very start, which is of no
    day: as the only one of a month it would show one without a return.
    """
    within = np.maximum(days.ts - 1, days.since_ns)
    months = within.astype("datetime64[ns]").astype("datetime64[M]").astype(np.int64)
    growth = 1.0 + np.nan_to_num(days.returns)
    table = []
    for month in sorted(set(months.tolist())):
        value = float(np.prod(growth[months == month])) - 1.0
        table.append(MonthlyReturn(1970 + month // 12, month % 12 + 1, value))
    return table


def quantile(values: Float64s, share: float) -> float:
    """To the bit numpy's, linear between values; numpy's own imports its masked arrays, which is
    a fiftieth of a backtest.
    """
    ordered = np.sort(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    part, below, above = place - low, ordered[low], ordered[min(low + 1, len(ordered) - 1)]
    rest = above - below
    return float(below + rest * part if part < 0.5 else above - rest * (1.0 - part))


DAY: Formulas[Days] = Formulas("day records")


@DAY.add("risk", "fraction")
def value_at_risk(days: Days) -> float:
    """Value at risk, 5 %.
    the 5th percentile of r, linear between samples
    """
    return quantile(days.known, TAIL) if len(days.known) else math.nan


@DAY.add("risk", "fraction")
def conditional_value_at_risk(days: Days) -> float:
    """Conditional value at risk, 5 %.
    mean of the worst floor((n - 1) * 0.05) + 1 values of r
    """
    r = np.sort(days.known)
    return float(np.mean(r[: int((len(r) - 1) * TAIL) + 1])) if len(r) else math.nan


@DAY.add("risk", "ratio")
def skew(days: Days) -> float:
    """Skew.
    m3 / m2^1.5 of the central moments of r
    """
    return _standard_moment(days.known, 3)


@DAY.add("risk", "ratio")
def kurtosis(days: Days) -> float:
    """Excess kurtosis.
    m4 / m2^2 - 3 of the central moments of r
    """
    return _standard_moment(days.known, 4) - 3.0


def _standard_moment(r: Float64s, power: int) -> float:
    """E[(r - mean)^power] / E[(r - mean)^2]^(power/2); NaN where nothing varies."""
    if len(r) < 2:
        return math.nan
    centred = r - np.mean(r)
    scale = float(np.mean(centred**2))
    if scale <= (1e-15 * float(np.max(np.abs(r)))) ** 2:  # all equal but for rounding
        return math.nan
    return float(np.mean(centred**power)) / math.pow(scale, power / 2)


@DAY.add("risk", "ratio")
def tail_ratio(days: Days) -> float:
    """Tail ratio.
    |95th percentile of r| / |5th percentile of r|
    """
    if not len(days.known):
        return math.nan
    low, high = quantile(days.known, TAIL), quantile(days.known, 1.0 - TAIL)
    return float(ratio(abs(high), abs(low)))


@DAY.add("risk", "ratio")
def stability(days: Days) -> float:
    """Stability.
    R^2 of a straight line through the cumulative sum of log(1 + r)
    """
    r = days.known
    if len(r) < 2 or np.any(r <= -1.0):
        return math.nan
    level = np.cumsum(np.log1p(r))
    time = np.arange(len(r)) - (len(r) - 1) / 2.0
    level = level - np.mean(level)
    return float(ratio(float(time @ level) ** 2, float(time @ time) * float(level @ level)))


@DAY.add("drawdown", "fraction")
def ulcer_index(days: Days) -> float:
    """Ulcer index.
    sqrt(mean(d^2)) of the drawdowns d at the day samples
    """
    return float(np.sqrt(np.mean(drawdowns(days.returns) ** 2))) if len(days.ts) else math.nan


@DAY.add("return", "fraction")
def best_month(days: Days) -> float:
    """Best month.
    largest compounded return of a calendar month
    """
    return max((month.value for month in monthly_returns(days)), default=math.nan)


@DAY.add("return", "fraction")
def worst_month(days: Days) -> float:
    """Worst month.
    smallest compounded return of a calendar month
    """
    return min((month.value for month in monthly_returns(days)), default=math.nan)


@DAY.add("benchmark", "ratio")
def beta(days: Days) -> float:
    """Beta.
    cov(r, b) / var(b) with the benchmark's returns b
    """
    r, b = _paired(days)
    if len(r) < 2:
        return math.nan
    centred = b - np.mean(b)
    variance = float(np.mean(centred**2))
    return float(np.mean(centred * r)) / variance if variance >= 1e-30 else math.nan


@DAY.add("benchmark", "fraction")
def alpha(days: Days) -> float:
    """Alpha, annual.
    (1 + mean(r - beta * b)) ^ P - 1
    """
    r, b = _paired(days)
    if len(r) < 2:
        return math.nan
    return float((1.0 + np.mean(r - beta(days) * b)) ** days.periods_per_year - 1.0)


@DAY.add("benchmark", "fraction")
def benchmark_return(days: Days) -> float:
    """Benchmark's total return.
    product of (1 + b) - 1
    """
    if days.benchmark is None:
        return math.nan
    return float(np.prod(1.0 + np.nan_to_num(days.benchmark))) - 1.0


def _paired(days: Days) -> tuple[Float64s, Float64s]:
    """The returns of run and benchmark on the samples where both are defined."""
    if days.benchmark is None:
        return np.empty(0), np.empty(0)
    both = np.isfinite(days.returns) & np.isfinite(days.benchmark)
    return days.returns[both], days.benchmark[both]


class Trips(Struct, frozen=True):
    """The closed round trips: net profit over the value at entry."""

    returns: Float64s  # [n_trades] fractions


def trips_of(result: RunResult) -> Trips:
    """The round trips of a run, in order of their exit."""
    trips = result.of_kind(Kind.ROUND_TRIP)
    value_per_tick_lot = np.array(
        [float(i.tick_value * 10**result.money_digits) for i in result.instruments]
    )[trips["instrument"]]
    entry_value = np.abs(trips["b"] * trips["d"]).astype(np.float64) * value_per_tick_lot
    with np.errstate(divide="ignore", invalid="ignore"):
        return Trips(trips["e"].astype(np.float64) / entry_value)


TRIP: Formulas[Trips] = Formulas("round trips")


@TRIP.add("trades", "fraction")
def expectancy(trips: Trips) -> float:
    """Expectancy.
    mean over trades of net profit / value at entry
    """
    return float(np.mean(trips.returns)) if len(trips.returns) else math.nan


@TRIP.add("trades", "fraction")
def best_trade_return(trips: Trips) -> float:
    """Best trade's return.
    max over trades of net profit / value at entry
    """
    return float(np.max(trips.returns)) if len(trips.returns) else math.nan


@TRIP.add("trades", "fraction")
def worst_trade_return(trips: Trips) -> float:
    """Worst trade's return.
    min over trades of net profit / value at entry
    """
    return float(np.min(trips.returns)) if len(trips.returns) else math.nan
