"""`Study`: what is computed about a sweep as a whole, once, for page, terminal and files."""

import math

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from quantdsl.report import statistics_sharpe as sharpe
from quantdsl.report.day_metrics import days_of
from quantdsl.report.result import RunResult
from quantdsl.report.statistics_grid import Neighbourhood, neighbourhood
from quantdsl.report.statistics_splits import (
    POINTS_MAX,
    Follow,
    Splits,
    cross_validate,
    followed_here,
)
from quantdsl.report.statistics_trades import (
    Redraw,
    Resamples,
    bootstrap,
    redrawn_here,
    trade_growth,
)
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.tables import trade_numbers


class Luck(Struct, frozen=True, kw_only=True):
    """How far the best point's Sharpe ratio is from what luck gives. Sharpe ratios are annual."""

    sharpe: float
    skew: float
    kurtosis: float  # 3 for normal returns
    samples: int
    trials: int
    expected_best: float  # by luck alone among so many trials
    probabilistic: float
    deflated: float
    track_record_samples: float  # until it is above 0 with 95 %


class Study(Struct, frozen=True, kw_only=True):
    """What is known of a sweep as a whole; None where a part cannot be said."""

    best: int | None  # the row of the best point; None if no point has an objective
    neighbourhood: Neighbourhood
    luck: Luck | None
    splits: Splits | None
    resamples: Resamples | None
    seed: int


class Device(Struct, frozen=True, kw_only=True):
    """What a device computes in place of this module's own arrays, to the same bits."""

    follow: Follow = followed_here
    redraw: Redraw = redrawn_here
    points_max: int = POINTS_MAX  # of cross-validation; more are sampled


def study(
    result: SweepResult, *, n_resamples: int = 0, seed: int = 0, device: Device | None = None
) -> Study:
    """Everything about the sweep; `n_resamples` bootstraps the best point's trades, 0 does not."""
    device = device or Device()
    ranked = result.ranked(1)
    best = int(ranked[0]) if len(ranked) and result.score[ranked[0]] > -np.inf else None
    splits = resamples = None
    if result.blocks is not None and best is not None:
        splits = cross_validate(result.blocks, seed, device.follow, device.points_max)
    if n_resamples and result.best is not None:
        resamples = bootstrap(_growth(result.best), n_resamples, seed, device.redraw)
    return Study(
        best=best,
        neighbourhood=neighbourhood(result),
        luck=_luck(result, best) if best is not None else None,
        splits=splits,
        resamples=resamples,
        seed=seed,
    )


def _luck(result: SweepResult, best: int) -> Luck | None:
    """None where the best point's returns are not there or do not vary."""
    shape = sharpe.sample_of(days_of(result.best).known) if result.best is not None else None
    if result.best is None or shape is None:
        return None
    per_sample = 1.0 / math.sqrt(result.periods_per_year)
    over_trials = result.metric("sharpe") * per_sample
    n = int(result.best.accumulators["ret_n"])
    sample = replace(shape, sharpe=float(over_trials[best]), n=n)
    known = over_trials[np.isfinite(over_trials)]
    variance = float(known.var(ddof=1)) if len(known) > 1 else math.nan
    return Luck(
        sharpe=sample.sharpe / per_sample,
        skew=sample.skew,
        kurtosis=sample.kurtosis,
        samples=sample.n,
        trials=result.trials,
        expected_best=sharpe.expected_best_sharpe(result.trials, variance) / per_sample,
        probabilistic=sharpe.probabilistic_sharpe(sample),
        deflated=sharpe.deflated_sharpe(sample, result.trials, variance),
        track_record_samples=sharpe.track_record_length(sample),
    )


def _growth(run: RunResult) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The factor by which each closed trade changed the equity."""
    profits = np.asarray(trade_numbers(run)["profit"], np.float64)
    return trade_growth(profits, float(run.money(run.accumulators["equity_first"])))
