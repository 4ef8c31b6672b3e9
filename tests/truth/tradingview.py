"""The list of trades that TradingView exports, as columns, and the precision it shows."""

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.truth.outside import Column, column, records

SHOWN = {
    "Net P&L USD": "profit",
    "Cumulative P&L USD": "cumulative",
    "Run-up USD": "mfe",
    "Drawdown USD": "mae",
}
"""Money columns of the export and our name of each."""


def exported(path: Path) -> dict[str, Column]:
    """The trades by our column names; times in ns since 1970 UTC, sizes signed."""
    rows = records(path)
    entries, exits = rows[::2], rows[1::2]
    for entry, leave in zip(entries, exits, strict=True):
        assert entry["Trade #"] == leave["Trade #"]
        assert entry["Type"].split()[1] == leave["Type"].split()[1]
        assert (entry["Type"][:5], leave["Type"][:4]) == ("Entry", "Exit")
    sides = np.array([1 if row["Type"].endswith("long") else -1 for row in entries])
    found = {
        "size": sides * column(entries, "Position size (qty)"),
        "value": column(entries, "Position size (value)"),
        "entry_time": times(row["Date/Time"] for row in entries),
        "exit_time": times(row["Date/Time"] for row in exits),
        "entry_price": column(entries, "Price USD"),
        "exit_price": column(exits, "Price USD"),
    }
    for theirs, ours in SHOWN.items():
        found[ours] = column(exits, theirs)
        found[f"{ours}_digit"] = np.array([last_digit(row[theirs]) for row in exits])
    return found


def times(texts: Any) -> npt.NDArray[np.int64]:
    """ISO times with their own offset from UTC, as ns since 1970."""
    return np.array([round(datetime.fromisoformat(t).timestamp()) for t in texts]) * 10**9


def last_digit(shown: str) -> float:
    """What one unit of the last digit of a number shown is worth."""
    mantissa, _, exponent = shown.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(10.0 ** (int(exponent or 0) - decimals))
