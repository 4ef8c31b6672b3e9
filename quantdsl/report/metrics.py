"""METRICS: every figure of a report, with name, unit, formula and what it is computed from.

Differences from other tools, on purpose: the drawdown looks at every bar and not at days, so it
is never shallower than one of daily returns; a figure that is not defined is NaN (null in JSON)
and never 0; the first return is against the starting equity.
"""

from typing import Any

from quantdsl.report.day_metrics import DAY, TRIP, days_of, trips_of
from quantdsl.report.formula import Metric
from quantdsl.report.lane_metrics import LANE, Sums
from quantdsl.report.result import RunResult

METRICS: tuple[Metric[Any], ...] = (*LANE.metrics, *DAY.metrics, *TRIP.metrics)
BY_NAME: dict[str, Metric[Any]] = {metric.name: metric for metric in METRICS}


def evaluate(result: RunResult) -> dict[str, float]:
    """All metrics of a run by name, in the order of METRICS; NaN where one is not defined."""
    sums = Sums(result.accumulators, result.money_digits, result.periods_per_year)
    days, trips = days_of(result), trips_of(result)
    return (
        {metric.name: float(metric.compute(sums)) for metric in LANE.metrics}
        | {metric.name: float(metric.compute(days)) for metric in DAY.metrics}
        | {metric.name: float(metric.compute(trips)) for metric in TRIP.metrics}
    )
