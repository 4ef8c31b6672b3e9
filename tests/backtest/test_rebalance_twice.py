"""Of several rebalances of one instant the last one says where all instruments go."""

from collections import Counter
from pathlib import Path

import pytest

from quantdsl.backtest.run import run_checked
from quantdsl.events.layout import Kind
from tests.std.universe import compiled, table

TEXT = """language 1
strategy Twice:
    bars 1d
    universe "ALL"
    let daily  = 30% if close < 100 else 30%
    let weekly = 50% if close < 15 else 0%
    at 15:45:
        rebalance(daily, via = moc)
        {more}
    at 15:45 on week_end:
        rebalance(weekly, via = moc, min_trade = {least})
    session "XNYS"
    risk:
        max_gross = 100% of equity
    backtest:
        cash = 100_000 USD
"""
CLOSES: dict[str, list[float | None]] = {"A": [10.0] * 20, "B": [20.0] * 20}


def held(days: int, least: str = "0%", more: str = "") -> dict[int, int]:
    """Lots of each instrument after so many days since 2020, a Wednesday."""
    return held_by(TEXT.format(least=least, more=more), days)


def held_by(text: str, days: int) -> dict[int, int]:
    """The same of another strategy."""
    closes = {name: column[:days] for name, column in CLOSES.items()}
    result = run_checked(compiled(text), Path("x"), data=table(closes))
    fills = result.records[result.records["kind"] == Kind.FILL]
    lots: Counter[int] = Counter()
    for fill in fills:
        lots[int(fill["instrument"])] += int(fill["b"])
    return {instrument: count for instrument, count in lots.items() if count}


@pytest.mark.parametrize("days", [3, 10, 17], ids=["first", "second", "third"])
def test_the_last_one_counts(days: int) -> None:
    """What it left as it was went where an earlier one said: 30 % of B on the first Friday."""
    assert held(days) == {0: 5_000}


def test_what_the_last_one_leaves_out_as_too_small_stays() -> None:
    """On Thursday 3,000 and 1,500 are held; 2,000 more of A are a fifth of equity."""
    assert held(9) == {0: 3_000, 1: 1_500}
    assert held(10, least="25%") == {0: 3_000}


def test_other_orders_of_the_instant_stay() -> None:
    more = "for i in universe:\n            if close == 20:\n                buy(i, 10 shares)"
    assert held(3, more=more)[1] == 10


CLOSING = """language 1
strategy Anew:
    bars 1d
    universe "ALL"
    let weight = 30% if close > 0 else 0%
    at 15:45:
        {close}
        rebalance(weight, via = moc)
    session "XNYS"
    risk:
        max_gross = 100% of equity
    backtest:
        cash = 100_000 USD
"""
EACH = "for i in universe:\n            close_position(i)"


@pytest.mark.parametrize("close", ["flatten()", EACH], ids=["all", "each"])
@pytest.mark.parametrize("days", [5, 6])
def test_what_the_instant_closes_is_bought_anew(days: int, close: str) -> None:
    """A rebalance that saw nothing to trade left all of it closed, each second day."""
    assert held_by(CLOSING.format(close=close), days) == {0: 3_000, 1: 1_500}
