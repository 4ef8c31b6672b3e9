"""A strategy file of this folder beside what an outside program recorded for the same rules."""

import csv
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.run import backtest
from quantdsl.report import tables
from quantdsl.report.result import RunResult

HERE = Path(__file__).parent
Column = npt.NDArray[Any]


def run(name: str, data: Any, config: Path, settings: str = "", **params: object) -> RunResult:
    """The strategy file `name` on `data`; `settings` is the text of a config, kept at `config`."""
    config.write_text(settings)
    return backtest(HERE / f"{name}.qdsl", data=data, params=params, config=config)


def instrument(name: str) -> str:
    """The settings that name an instrument file of this folder."""
    return f'[data]\ninstruments = "{HERE / "instruments" / f"{name}.toml"}"\n'


def trades(result: RunResult) -> dict[str, Column]:
    """The trades by column: times in ns since 1970, sizes signed."""
    table = tables.trades(result)
    times = {name: table[name].cast("int64") for name in ("entry_time", "exit_time")}
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    columns |= {name: column.to_numpy() for name, column in times.items()}
    columns["size"] = np.where(columns["side"] == "long", 1, -1) * columns["quantity"]
    return columns


def records(path: Path) -> list[Mapping[str, str]]:
    """The rows of a CSV file, plain or gzipped."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def column(rows: list[Mapping[str, str]], name: str) -> Column:
    """One column of numbers."""
    return np.array([float(row[name]) for row in rows])
