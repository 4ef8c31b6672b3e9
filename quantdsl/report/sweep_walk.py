"""`WalkForward`: what the best point of each stretch of the past did in the stretch after it.

The stretches after are stitched into one equity curve: each test begins flat and with the same
cash, and its growth multiplies what the tests before it left, until nothing is left: a debt does
not grow. A position that is open when a test ends is counted at its last price.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from quantdsl.events.layout import Kind
from quantdsl.report.lane_metrics import Sums
from quantdsl.report.metrics import BY_NAME, evaluate_lanes
from quantdsl.report.result import Float64s, Int64s, RunResult

STITCHED = """
    total_return annual_return sharpe sortino volatility max_drawdown
    trades win_rate profit_factor fees
""".split()
"""What is said of all tests together; their trades are counted at the cash that each began with."""

ADDED = """
    ret_n ret_bad ret_sum ret_sq ret_down_sq trades wins gross_profit gross_loss fees_paid
""".split()
"""Accumulators of the tests that add up."""


class Step(Struct, frozen=True, kw_only=True):
    """One window: the point that was best in training, and what it did in the test after it."""

    train_ns: int
    test_ns: int
    end_ns: int
    params: Mapping[str, str]
    inside: Mapping[str, float]  # lane metrics of the training
    outside: Mapping[str, float]  # and of the test
    sums: Mapping[str, float]  # ADDED of the test
    curve_ts: Int64s  # bars of the test
    growth: Float64s  # equity at them over the equity that the test began with


class WalkForward(Struct, frozen=True, kw_only=True):
    """All windows of a walk-forward test, in order of time."""

    train: str  # lengths in words: "2 years"
    test: str
    steady: bool  # chosen by the best surroundings, not by the best point
    objective: str
    currency: str
    cash: float  # that each test begins with
    trials: int  # points of each training
    steps: tuple[Step, ...]
    metrics: Mapping[str, float]  # of the stitched tests
    curve_ts: Int64s
    level: Float64s  # stitched, 1 at the start

    @property
    def gains(self) -> int:
        """Tests that made money."""
        return sum(step.outside["total_return"] > 0.0 for step in self.steps)

    @property
    def inside_annual(self) -> float:
        """Mean annual return of the chosen points in their training; NaN if one lost all."""
        return float(np.mean([step.inside["annual_return"] for step in self.steps]))

    @property
    def efficiency(self) -> float:
        """Annual return of the tests over that of the training (Pardo 1992); NaN without a gain."""
        inside = self.inside_annual
        return self.metrics["annual_return"] / inside if inside > 0.0 else math.nan

    @property
    def ruined(self) -> tuple[int, int]:
        """Trainings and tests at whose end nothing was left."""
        inside, outside = zip(*((step.inside, step.outside) for step in self.steps), strict=True)
        return sum(map(_lost, inside)), sum(map(_lost, outside))

    @property
    def unranked(self) -> int:
        """Trainings in which no point had the objective: there the first of the grid was taken."""
        return sum(math.isnan(step.inside[self.objective]) for step in self.steps)

    @property
    def changes(self) -> int:
        """How often the chosen point was another than in the window before."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return sum(before.params != after.params for before, after in pairs)


def _lost(metrics: Mapping[str, float]) -> bool:
    return metrics["total_return"] <= -1.0


def figures(run: RunResult) -> dict[str, float]:
    """Every lane metric of a run."""
    sums = Sums(run.accumulators, run.money_digits, run.periods_per_year)
    return {name: float(value) for name, value in evaluate_lanes(sums).items()}


def step_of(
    params: Mapping[str, str],
    inside: RunResult,
    outside: RunResult,
    train_ns: int,
    test_ns: int,
    end_ns: int,
) -> Step:
    """One window from the chosen point's runs over the training and over the test."""
    after = outside.curve_ts > test_ns  # the bar at the border is the last of the test before
    first = float(outside.accumulators["equity_first"])
    growth = outside.curve_equity[after] / first
    growth[-1:] = outside.accumulators["equity_last"] / first  # with what closing at the end costs
    return Step(
        train_ns=train_ns,
        test_ns=test_ns,
        end_ns=end_ns,
        params=params,
        inside=figures(inside),
        outside=figures(outside),
        sums=_plain(outside, test_ns),
        curve_ts=outside.curve_ts[after],
        growth=growth,
    )


def _plain(run: RunResult, start_ns: int) -> dict[str, float]:
    """ADDED of a run, its returns summed about 0, without what was sampled at its very start."""
    sums = Sums(run.accumulators, run.money_digits, run.periods_per_year)
    n, origin, total, squares = (
        float(sums[name]) for name in ("ret_n", "ret_origin", "ret_sum", "ret_sq")
    )
    at_start = np.count_nonzero(run.of_kind(Kind.DAY)["ts_event"] <= start_ns)  # returns of 0
    return {name: float(sums[name]) for name in ADDED} | {
        "ret_n": n - at_start,
        "ret_sum": n * origin + total,
        "ret_sq": squares + 2.0 * origin * total + n * origin**2,
    }


def stitched(steps: Sequence[Step], run: RunResult) -> tuple[dict[str, float], Int64s, Float64s]:
    """Metrics of all tests together, and their curve: times and level, 1 at the start.

    `run` is any of the runs: it says the unit of money and the samples in a year.
    """
    level = 1.0
    parts = []
    for step in steps:
        parts.append(level * (step.growth if level > 0.0 else np.ones_like(step.growth)))
        level = float(parts[-1][-1]) if len(step.growth) else level
    curve = np.concatenate([[1.0], *parts])
    high = np.maximum.accumulate(curve)
    deepest = int(np.argmax((high - curve) / high))
    sums = {name: math.fsum(step.sums[name] for step in steps) for name in ADDED}
    sums |= {
        "equity_first": 1.0,
        "equity_last": level,
        "ret_origin": 0.0,
        "dd_drop": float(high[deepest] - curve[deepest]),
        "dd_peak": float(high[deepest]),
    }
    whole = Sums(sums, run.money_digits, run.periods_per_year)
    metrics = {name: float(BY_NAME[name].compute(whole)) for name in STITCHED}
    return metrics, np.concatenate([step.curve_ts for step in steps]), curve[1:]
