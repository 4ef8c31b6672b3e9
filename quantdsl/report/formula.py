"""A metric is a function with a documented formula; a `Formulas` collects those of one source."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

Unit = Literal["fraction", "ratio", "money", "count", "days", "bars"]
Group = Literal["return", "risk", "drawdown", "trades", "costs", "orders", "benchmark"]

S = TypeVar("S")


@dataclass(frozen=True)
class Metric(Generic[S]):
    """One figure of the report: what it is called, what it means and how it is computed."""

    name: str  # the key in metrics.json
    title: str
    unit: Unit
    group: Group
    formula: str
    source: str  # what it is computed from
    compute: Callable[[S], float]


@dataclass
class Formulas(Generic[S]):
    """The metrics that are computed from one source `S`, in the order of their definition."""

    source: str
    metrics: list[Metric[S]] = field(default_factory=list)

    def add(
        self, group: Group, unit: Unit
    ) -> Callable[[Callable[[S], float]], Callable[[S], float]]:
        """Register a function as a metric: its docstring is the title, then the formula."""

        def register(function: Callable[[S], float]) -> Callable[[S], float]:
            title, _, formula = inspect.cleandoc(function.__doc__ or "").partition("\n")
            self.metrics.append(
                Metric(
                    name=function.__name__,
                    title=title.rstrip("."),
                    unit=unit,
                    group=group,
                    formula=" ".join(formula.split()),
                    source=self.source,
                    compute=function,
                )
            )
            return function

        return register


def ratio(numerator: float, denominator: float) -> float:
    """IEEE division of floats: x/0 is an infinity and 0/0 is NaN, where Python would raise."""
    if denominator == 0.0:
        return math.nan if numerator == 0.0 else math.copysign(math.inf, numerator)
    return numerator / denominator
