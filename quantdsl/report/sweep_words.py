"""What a sweep's statistics mean, in plain sentences: the same on the page and in the terminal."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from quantdsl.report.metrics import BY_NAME
from quantdsl.report.result import Float64s
from quantdsl.report.statistics_splits import Splits
from quantdsl.report.statistics_trades import Resamples
from quantdsl.report.sweep_result import Difference, SweepResult
from quantdsl.report.sweep_study import Luck, Study
from quantdsl.report.sweep_walk import WalkForward
from quantdsl.report.verdict import verdict as run_verdict
from quantdsl.report.words import UNDEFINED, figure, plural

Tone = Literal["good", "open", "bad"]

SURE, EVEN = 0.95, 0.5
"""A deflated Sharpe ratio above the first is hard to explain by luck; below the second luck is the
likelier explanation."""
LOSING = 0.2
"""A best point of the past that loses money in more splits than this was no good choice."""
PLATEAU, SPIKE = 0.8, 0.5
"""The neighbours' median over the point's own objective: from here on flat, below this a spike."""


def verdict(result: SweepResult, study: Study) -> tuple[Tone, str]:
    """One sentence for somebody who reads only one, and its tone."""
    if not len(result):
        return "bad", "No point was finished."
    if study.best is None:
        why = f" {run_verdict(result.best)}" if result.best is not None else ""
        return "bad", f"{result.objective_title} is not defined for any point.{why}".rstrip()
    if study.luck is None:
        return "bad", "The best point's returns do not vary, so there is nothing to judge."
    if study.luck.sharpe <= 0.0:
        return "bad", "Even the best point did not earn more than it risked."
    # Where all points are good and alike, which is chosen is overfitted and yet does not matter.
    losing = study.splits.loss_probability if study.splits is not None else 0.0
    overfit = study.splits is not None and study.splits.overfit_probability > EVEN
    if study.luck.deflated < EVEN or (overfit and losing > LOSING):
        return "bad", "The best point is probably luck."
    if study.luck.deflated >= SURE and losing <= LOSING:
        return "good", "The best point is hard to explain by luck."
    return "open", "The best point cannot be told from luck."


def sentences(result: SweepResult, study: Study) -> tuple[str, ...]:
    """What the figures mean for the best point, most important first."""
    parts = []
    if len(result) < result.planned:
        parts.append(
            f"The sweep was stopped: {len(result):,} of {plural(result.planned, 'point')} were run."
        )
    if study.best is not None and result.best is not None and (said := run_verdict(result.best)):
        parts.append(f"Of the best point alone: {said}")
    if result.difference is not None:
        parts.append(_precision(result, result.difference))
    if study.luck is not None:
        parts += [_luck(study.luck), _alone(study.luck, result.periods_per_year)]
    if study.splits is not None:
        parts.append(_splits(study.splits, study.seed))
    if study.best is not None:
        parts.append(_surroundings(result, study))
    if study.resamples is not None:
        parts.append(_resamples(study.resamples))
    return tuple(parts)


def _precision(result: SweepResult, difference: Difference) -> str:
    """What another precision than f64 changed."""
    name = result.objective
    apart = difference.metrics[name]
    largest, median = (apart_text(result, name, x) for x in (apart.largest, apart.median))
    return (
        f"Equations are in {result.precision}. Of {plural(difference.points, 'point')} that ran in "
        f"f64 too, the trades of {difference.changed} differ; {result.objective_title} differs by "
        f"{largest} at most and by {median} in the median."
    )


def differences(result: SweepResult) -> list[tuple[str, str, str]]:
    """Title, largest and median difference of each metric of a sample to double precision."""
    found = {} if result.difference is None else result.difference.metrics
    return [
        (
            BY_NAME[name].title,
            apart_text(result, name, one.largest),
            apart_text(result, name, one.median),
        )
        for name, one in found.items()
    ]


def _luck(luck: Luck) -> str:
    """The deflated Sharpe ratio."""
    if luck.trials < 2:
        return (
            f"Only one point was tried, so its Sharpe ratio of {luck.sharpe:.2f} was not chosen "
            "among others."
        )
    best = f"the best point's {luck.sharpe:.2f}"
    if not math.isfinite(luck.deflated):
        return f"{luck.trials:,} points were tried; how far {best} is luck cannot be said."
    return (
        f"With {luck.trials:,} points tried, luck alone is expected to show a Sharpe ratio of "
        f"{luck.expected_best:.2f} at best; {best} or more is what it shows in "
        f"{of_100(1.0 - luck.deflated)} such sweeps (deflated Sharpe ratio "
        f"{chance(luck.deflated)})."
    )


def _alone(luck: Luck, periods_per_year: float) -> str:
    """The probabilistic Sharpe ratio and the length of the track record."""
    said = (
        "Had it been the only point tried, its true Sharpe ratio would be above 0 with "
        f"probability {chance(luck.probabilistic)}"
    )
    if not math.isfinite(luck.track_record_samples):
        return f"{said}."
    needed, there = (
        years(count / periods_per_year) for count in (luck.track_record_samples, luck.samples)
    )
    are = "is" if there.startswith("1 ") else "are"
    return f"{said}; 95 % certainty takes {needed} of such returns, and there {are} {there}."


def _splits(splits: Splits, seed: int) -> str:
    """The probability of backtest overfitting."""
    probability = chance(splits.overfit_probability)
    said = (
        "Chosen by Sharpe ratio on one half of the days, the best point is in the worse half of "
        f"all points on the other days in {of_100(splits.overfit_probability)} splits (probability "
        f"of backtest overfitting {probability}, {len(splits.rank):,} splits), and loses money "
        f"there in {of_100(splits.loss_probability)}."
    )
    if splits.overfit_probability > EVEN:
        said += " Choosing by the past does not help here."
    if splits.n_points < splits.n_sampled_from:
        said += (
            f" These are splits of {splits.n_points:,} points that were drawn from the "
            f"{splits.n_sampled_from:,} (seed {seed})."
        )
    return said


def _surroundings(result: SweepResult, study: Study) -> str:
    """How the objective changes one step away."""
    row, around = study.best, study.neighbourhood
    assert row is not None
    if not around.tried[row]:
        return "No point one step from the best one was tried, so its surroundings are unknown."
    own, middle = float(result.score[row]), float(around.median[row])
    median, worst = (_shown(result, result.sign * value) for value in (middle, around.worst[row]))
    said = (
        f"One step away in one param, {result.objective_title} is {median} in the middle and "
        f"{worst} at worst ({plural(int(around.tried[row]), 'neighbour')})"
    )
    if own > 0.0:
        share = middle / own
        if share >= PLATEAU:
            said += ": the best point stands on a plateau"
        elif share < SPIKE:
            said += ": the best point is a spike"
    return (
        f"{said}. Seen as the mean of its surroundings it is number {around.rank(row):,} of "
        f"{len(result):,}."
    )


def _resamples(resamples: Resamples) -> str:
    """What the same trades could have given."""
    low, high = _quantiles(resamples.final, 0.05, 0.95)
    (deep,) = _quantiles(resamples.drawdown, 0.05)
    return (
        f"Its {resamples.n_trades:,} trades drawn again {len(resamples.final):,} times return "
        f"{low * 100:z.1f} % to {high * 100:z.1f} % in 90 of 100 draws and lose money in "
        f"{of_100(resamples.loss_probability)}; in 5 of 100 the drawdown is deeper than "
        f"{-deep * 100:z.1f} %."
    )


def _quantiles(values: Float64s, *shares: float) -> list[float]:
    found: list[float] = np.quantile(values, shares).tolist()
    return found


def walk_sentences(walk: WalkForward) -> tuple[str, ...]:
    """What the tests of a walk-forward say together."""
    windows = len(walk.steps)
    inside, outside = (
        f"{annual * 100:z.1f} % a year" if math.isfinite(annual) else f"{UNDEFINED} a year"
        for annual in (walk.inside_annual, walk.metrics["annual_return"])
    )
    point = "point with the best surroundings" if walk.steady else "best point"
    made = (
        f"In {plural(windows, 'window')} the {point} over {walk.train} made {inside} there, and "
        f"{outside} in the {walk.test.removeprefix('1 ')} after"
    )
    if math.isfinite(walk.efficiency):
        made += f": a walk-forward efficiency of {walk.efficiency * 100:z.0f} %"
    said = [
        f"{made}.",
        f"{walk.gains} of {plural(windows, 'test')} made money; stitched together they "
        f"have a Sharpe ratio of {figure(walk.metrics['sharpe'], 'ratio')} and a drawdown of "
        f"{-walk.metrics['max_drawdown'] * 100:z.1f} %.",
    ]
    if any(walk.ruined):
        trainings, tests = walk.ruined
        said.append(
            f"All that an account had was lost in {plural(trainings, 'training')} and in "
            f"{plural(tests, 'test')}: an annual return is not defined there."
        )
    if walk.unranked:
        said.append(
            f"In {plural(walk.unranked, 'training')} {BY_NAME[walk.objective].title} is not "
            "defined for any point: the first of the grid stands for the best there."
        )
    begins = (
        "Each test begins flat and with the same cash; what is open at its end counts at its last "
        "price."
    )
    if windows > 1:
        begins = (
            f"Another point was chosen {walk.changes} of {windows - 1} times from one "
            f"window to the next. {begins}"
        )
    return (*said, begins)


# ---- figures ---------------------------------------------------------------------------------


def metric_text(result: SweepResult, name: str, row: int) -> str:
    """A metric of a point as a reader writes it."""
    return figure(float(result.metric(name)[row]), BY_NAME[name].unit, result.currency)


def apart_text(result: SweepResult, name: str, apart: float) -> str:
    """How far two values of a metric are apart: two digits, however small, or a whole number."""
    unit = BY_NAME[name].unit
    if apart in (0.0, math.inf):
        return "0" if apart == 0.0 else "∞"
    value = apart * 100 if unit == "fraction" else apart
    digits = f"{value:.2g}" if value < 99.5 else f"{value:,.0f}"
    named = {"fraction": "%", "money": result.currency, "seconds": "s"}.get(unit, unit)
    return digits if unit in ("ratio", "count") else f"{digits} {named}"


def neighbours_text(result: SweepResult, study: Study, row: int | None) -> str:
    """The median of the neighbours' objective."""
    if row is None or not study.neighbourhood.tried[row]:
        return UNDEFINED
    return _shown(result, result.sign * float(study.neighbourhood.median[row]))


def _shown(result: SweepResult, value: float) -> str:
    """A value of the objective."""
    return figure(value, BY_NAME[result.objective].unit, result.currency)


def extent(levels: Sequence[str]) -> str:
    """The values of a param, or the first, the last and how many."""
    if len(levels) <= 3:
        return " | ".join(levels)
    return f"{levels[0]} .. {levels[-1]} ({len(levels):,} values)"


def of_100(share: float) -> str:
    """'23 of 100'; nothing is never said of what was only not seen."""
    if share <= 0.005:  # a half rounds to the even number beside it: to none
        return "fewer than 1 of 100"
    if share >= 0.995:
        return "more than 99 of 100"
    return f"{share * 100:.0f} of 100"


def chance(share: float) -> str:
    """A probability with two digits, of which none is ever certain."""
    if math.isnan(share):
        return UNDEFINED
    if share < 0.005:
        return "below 0.01"
    return f"{share:.2f}" if share < 0.995 else "above 0.99"


def years(count: float) -> str:
    """'1.6 years', '7 months' below one and a half, '12 days' below two months, '9,000 years'."""
    if count < 1 / 6:
        return plural(max(1, math.ceil(count * 365)), "day")
    if count < 1.5:
        return plural(math.ceil(count * 12), "month")
    return f"{count:,.1f} years" if count < 100 else f"{count:,.0f} years"
