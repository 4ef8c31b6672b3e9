"""A metric is a function with a documented formula; a `Formulas` collects those of one source."""

import inspect
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

Unit = Literal["fraction", "ratio", "money", "count", "days", "bars", "seconds", "ticks"]
Group = Literal["return", "risk", "drawdown", "trades", "costs", "orders", "execution", "benchmark"]

Floats = npt.NDArray[Any]
"""One number without an axis, or one a lane; integers where all are whole."""
S = TypeVar("S")
F = TypeVar("F", bound=Callable[..., float | Floats])


class Metric(Struct, Generic[S], frozen=True):
    """One figure of the report: what it is called, what it means and how it is computed."""

    name: str  # the key in metrics.json
    title: str
    unit: Unit
    group: Group
    formula: str
    source: str  # what it is computed from
    compute: Callable[[S], float | Floats]


class Formulas(Struct, Generic[S]):
    """The metrics that are computed from one source `S`, in the order of their definition."""

    source: str
    metrics: list[Metric[S]] = field(default_factory=list)

    def add(self, group: Group, unit: Unit) -> Callable[[F], F]:
        """Register a function as a metric: its docstring is the title, then the formula."""

        def register(function: F) -> F:
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


def ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Floats:
    """Division: x/0 is infinite with the sign of x, and 0/0 is NaN, where Python would raise."""
    x, y = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(x / (y + 0.0))  # of -0 it makes 0
