"""A recording of single orders (L3) is a book to all that run on ticks, not to a backtest alone."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.run import run_checked
from quantdsl.backtest.signals import prepare_signals
from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.errors import DataError
from tests.backtest.test_lane_entry import checked_text

BUY, SELL, ADD, DELETE = 1, -1, 1, 3
FIRST = [(ADD, 1, 5, 100_000, BUY), (ADD, 2, 5, 100_400, SELL)]
LATER = [
    order
    for k in range(40)
    for order in ((ADD, 10 + k, 5, 100_200, BUY), (DELETE, 10 + k, 5, 100_200, BUY))
]
TAKER = """language 1

strategy Taker:
    "Buys a lot at the ask, once."
    book depth = 5

    param n = 3 in 2..4

    let middle = ta.sma(mid, n)

    on book:
        if flat and not pending and middle > 0.0:
            buy(1 lot)

    backtest:
        latency = 0us
"""


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """LOBSTER messages: ten cents of a spread, then a bid that comes and goes."""
    path = tmp_path / "T_2012-06-21_34200000_57600000_message_5.csv"
    rows = [
        f"{34_200 + second}.0,{','.join(map(str, message))}"
        for second, message in enumerate([*FIRST, *LATER])
    ]
    path.write_text("\n".join([*rows, ""]))
    return str(path)


def test_signals_are_those_of_its_book(recorded: str) -> None:
    table = prepare_signals(checked_text(TAKER), data=recorded).table()
    assert np.allclose(table.column("middle")[2:4], [10.02 + 0.01 / 3, 10.02 + 0.02 / 3])


def test_a_sweep_finds_where_its_points_are_warm(recorded: str) -> None:
    assert prepare_sweep(checked_text(TAKER), Path("taker.qdsl"), data=recorded).grid.size == 3


def test_fills_are_marked_against_its_middle(recorded: str) -> None:
    execution = run_checked(checked_text(TAKER), Path("taker.qdsl"), data=recorded).execution
    assert execution is not None
    assert np.isfinite(execution.markout[0, :3]).all()


def test_a_day_without_a_trade_runs_where_the_source_would_have_told_of_one(recorded: str) -> None:
    """It was refused as data that hold no trades."""
    text = TAKER.replace("depth = 5\n", "depth = 5\n    trades\n")
    text = text.replace("    backtest:", "    on trade:\n        sell(1 lot)\n\n    backtest:")
    ran = run_checked(checked_text(text), Path("taker.qdsl"), data=recorded)
    assert ran.execution is not None
    assert ran.execution.position_lots.tolist() == [1]


def test_a_source_of_quotes_and_no_trades_is_refused_still(tmp_path: Path) -> None:
    path = tmp_path / "Q.csv"
    path.write_text("time,bid,ask\n2024-01-03T15:00:00,10.0,10.1\n")
    text = TAKER.replace("book depth = 5", "quotes\n    trades").replace("on book", "on quote")
    with pytest.raises(DataError, match="holds quotes, and the strategy asks for trades"):
        run_checked(checked_text(text), Path("taker.qdsl"), data=str(path))
