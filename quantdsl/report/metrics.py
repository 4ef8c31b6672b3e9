"""METRICS: every figure of a report, with name, unit, formula and what it is computed from.

Differences from other tools, on purpose: the drawdown looks at every bar and not at days, so it
is never shallower than one of daily returns; a figure that is not defined is NaN (null in JSON)
and never 0; the first return is against the starting equity.
"""

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from quantdsl.report.day_metrics import DAY, TRIP, days_of, trips_of
from quantdsl.report.execution import EXECUTION
from quantdsl.report.formula import Floats, Metric
from quantdsl.report.lane_metrics import LANE, Sums
from quantdsl.report.result import RunResult

METRICS: tuple[Metric[Any], ...] = (*LANE.metrics, *DAY.metrics, *TRIP.metrics)
"""Of every run."""
LANE_METRICS: tuple[str, ...] = tuple(metric.name for metric in LANE.metrics)
"""Those that a lane of a sweep can report, by name."""
ALL_METRICS: tuple[Metric[Any], ...] = (*METRICS, *EXECUTION.metrics)
"""Those of runs on ticks too."""
BY_NAME: dict[str, Metric[Any]] = {metric.name: metric for metric in ALL_METRICS}


class _Noted(dict[str, float]):
    """Zeros by name that remember who asked for them."""

    def __contains__(self, name: object) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ARG002 (as a dict)
        return None

    def __missing__(self, name: str) -> float:
        self[name] = 0
        return 0


def accumulators(names: Collection[str] = LANE_METRICS) -> frozenset[str]:
    """What these metrics of a lane read of e.metrics."""
    noted = _Noted()
    evaluate_lanes(Sums(noted, 0, 1.0), names)
    return frozenset(noted)


def evaluate_lanes(sums: Sums, names: Collection[str] = LANE_METRICS) -> dict[str, Floats]:
    """Metrics that a lane can report, each an array of every lane's, in the order of LANE."""
    asked = [metric for metric in LANE.metrics if metric.name in names]
    with np.errstate(all="ignore"):
        values = {m.name: np.asarray(m.compute(sums), np.float64) for m in asked}
    return {name: np.where(np.isnan(v), math.nan, v) for name, v in values.items()}


def evaluate(result: RunResult) -> dict[str, float]:
    """All metrics of a run by name, in the order of METRICS, then those of a run on ticks.

    NaN where one is not defined.
    """
    sums = Sums(result.accumulators, result.money_digits, result.periods_per_year)
    days, trips = days_of(result), trips_of(result)
    return (
        {name: float(value) for name, value in evaluate_lanes(sums).items()}
        | {metric.name: float(metric.compute(days)) for metric in DAY.metrics}
        | {metric.name: float(metric.compute(trips)) for metric in TRIP.metrics}
        | _of_execution(result)
    )


def _of_execution(result: RunResult) -> dict[str, float]:
    found = result.execution
    if found is None:
        return {}
    return {metric.name: float(metric.compute(found)) for metric in EXECUTION.metrics}
