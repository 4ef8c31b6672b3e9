"""The Python API: `quantdsl.compile` and `quantdsl.backtest`.

    strategy = quantdsl.compile("strategies/sma_cross.qdsl")
    report = strategy.backtest("spy.parquet", fast=5)
    report.metrics["sharpe"], report.trades.to_pandas()

Data go in as a path or as any table of the Arrow C stream (pyarrow, pandas, polars); tables come
out as pyarrow. In a notebook a report shows its page.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from quantdsl.backtest.run import run_checked
from quantdsl.check import Checked, check_source
from quantdsl.lang.diagnostics import SourceError
from quantdsl.lang.source import Source
from quantdsl.report import tables
from quantdsl.report.metrics import evaluate
from quantdsl.report.result import RunResult
from quantdsl.report.store import save
from quantdsl.report.tearsheet import framed


class Report:
    """One finished backtest: metrics, tables and the page."""

    def __init__(self, result: RunResult) -> None:
        self.result = result

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Every metric by name; NaN where it is not defined."""
        return evaluate(self.result)

    @cached_property
    def trades(self) -> pa.Table:
        """Closed round trips, one row each."""
        return tables.trades(self.result)

    @cached_property
    def orders(self) -> pa.Table:
        """Every order with its fate and the reason of it."""
        return tables.orders(self.result)

    @cached_property
    def fills(self) -> pa.Table:
        """Every fill with price, quantity and fee."""
        return tables.fills(self.result)

    @cached_property
    def equity(self) -> pa.Table:
        """Equity and drawdown at every bar."""
        return tables.equity(self.result)

    @cached_property
    def days(self) -> pa.Table:
        """Equity and return at the end of every day."""
        return tables.days(self.result)

    def save(self, folder: str | Path) -> Path:
        """Write page, tables and metrics into a folder; returns the path of the page."""
        return save(self.result, self.metrics, Path(folder))

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name} {self.metrics[name]:.4g}"
            for name in ("total_return", "sharpe", "max_drawdown", "trades")
        )
        return f"<Report of {self.result.strategy}: {shown}>"

    def _repr_html_(self) -> str:
        return framed(self.result, self.metrics)


class Strategy:
    """A checked strategy, ready to run."""

    def __init__(self, checked: Checked) -> None:
        self.checked = checked

    @property
    def name(self) -> str:
        """As declared."""
        return self.checked.strategy.name

    @property
    def params(self) -> dict[str, float | str]:
        """Every param with its default, as `backtest` takes it."""
        return {
            param.name: param.choices[int(param.default)] if param.choices else float(param.default)
            for param in self.checked.strategy.params
        }

    @property
    def warnings(self) -> list[str]:
        """What the checker warns of, one line each."""
        return [f"{d.code}: {d.message}" for d in self.checked.diagnostics]

    def backtest(
        self,
        data: Any = None,
        *,
        config: str | Path | None = None,
        start: str | None = None,
        end: str | None = None,
        benchmark: str | None = None,
        **params: object,
    ) -> Report:
        """Run over `data`, a path or a table (None: the built-in market), with params by name.

        Raises DataError or ConfigError with one message that says how to mend it.
        """
        result = run_checked(
            self.checked,
            Path(self.checked.source.path),
            data=data,
            params=params,
            start=start,
            end=end,
            config=Path(config) if config is not None else None,
            benchmark=benchmark,
        )
        return Report(result)

    def __repr__(self) -> str:
        return f"<Strategy {self.name}({', '.join(self.params)})>"


def compile(source: str | Path) -> Strategy:
    """The strategy of a file, or of text that has a line break. Raises SourceError."""
    text = str(source)
    read = Source(text) if "\n" in text else Source.read(Path(text))
    checked, diagnostics = check_source(read)
    if checked is None:
        raise SourceError(read, diagnostics)
    return Strategy(checked)


def backtest(source: str | Path, data: Any = None, **options: Any) -> Report:
    """Compile and run in one call; see `Strategy.backtest`."""
    return compile(source).backtest(data, **_merged(options))


def _merged(options: Mapping[str, Any]) -> dict[str, Any]:
    """`params = {...}` beside params by name."""
    params = options.get("params", {})
    return {**{name: value for name, value in options.items() if name != "params"}, **params}
