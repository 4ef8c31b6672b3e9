"""`max_net` is asked of a rebalance as a whole: a neutral book may have sides of any size."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.run import run_checked
from quantdsl.events.layout import Kind
from tests.std.universe import compiled, table

TEXT = """language 1
strategy Neutral:
    bars 1d
    universe "ALL"
    let weight = {weight}
    at session_close - 5m:
        rebalance(weight, via = moc)
        {then}
    session "XNYS"
    risk:
        max_net = 5% of equity
        {limit}
    backtest:
        cash = 1_000_000 USD
        fees = 1bps
        {pays}
"""


def ran(weight, prices, limit="", then="", pays=""):
    """What a run of TEXT leaves; `then` is done behind the rebalance."""
    text = TEXT.format(weight=weight, limit=limit, then=then, pays=pays)
    return run_checked(compiled(text), Path("x"), data=table(prices))


def of(kind, result):
    return result.records[result.records["kind"] == kind]


def nets(result):
    """The net value of the book behind each day's fills, at their prices, as a share of cash."""
    lots, price = Counter(), {}
    for fills in np.split(of(Kind.FILL, result), ends_of_days(of(Kind.FILL, result))):
        for fill in fills:
            at = int(fill["instrument"])
            lots[at] += int(fill["b"])
            price[at] = float(fill["c"] * result.instruments[at].tick)
        yield sum(lots[i] * price[i] for i in price) / 1_000_000


def ends_of_days(fills):
    return np.flatnonzero(np.diff(fills["ts_event"])) + 1


def walks(count, days):
    """Prices with four digits, one of each instrument on each day."""
    random = np.random.default_rng(7)
    steps = np.exp(random.normal(0.0, 0.02, (count, days)).cumsum(axis=1)) * 50
    return {f"A{n}": np.round(row, 4).tolist() for n, row in enumerate(steps)}


def test_a_neutral_book_is_built_and_kept_within_its_net():
    result = ran("xs.scale(xs.demean(close / close[1]), gross = 60%)", walks(6, 60))
    assert len(of(Kind.FILL, result)) > 200
    assert not len(of(Kind.REJECT, result))
    assert max(map(abs, nets(result))) <= 0.05


def test_a_book_that_leans_is_refused():
    result = ran("xs.scale(close / close, gross = 50%)", walks(6, 20))
    assert set(result.reasons_of(Kind.REJECT)) == {"max net"}
    assert not len(of(Kind.FILL, result))


@pytest.mark.parametrize("last", [False, True], ids=["large one first", "large one last"])
def test_nothing_opens_against_what_is_refused(last):
    """Half of equity is too much of one, so two quarters of others would stand alone."""
    prices = (10.0, 10.0, 1_000.0) if last else (1_000.0, 10.0, 10.0)
    closes = {name: [price] * 9 for name, price in zip("ABC", prices, strict=True)}
    result = ran("25% if close < 100 else -50%", closes, "max_notional = 30% of equity")
    refused = {"max notional"} if last else {"max notional", "max net"}
    assert set(result.reasons_of(Kind.REJECT)) == refused
    assert set(result.reasons_of(Kind.CANCEL)) == ({"max net"} if last else set())
    assert not len(of(Kind.FILL, result))


def test_an_order_by_itself_counts_those_of_its_side_alone():
    """They may fill, and the others not."""
    text = TEXT.format(weight="close", limit="", then="", pays="").replace(
        "at session_close - 5m:\n        rebalance(weight, via = moc)",
        "on bar:\n        if close > 100:\n            short(value = 20% of equity)\n"
        "        else:\n            buy(value = 20% of equity)",
    )
    closes = {"A": [10.0] * 9, "B": [1_000.0] * 9}
    result = run_checked(compiled(text), Path("x"), data=table(closes))
    assert set(result.reasons_of(Kind.REJECT)) == {"max net"}
    assert not len(of(Kind.FILL, result))


def test_what_is_bought_behind_a_rebalance_is_not_withdrawn_with_it():
    closes = {"A": [1_000.0] * 9, "B": [1_000.0] * 9, "C": [10.0] * 9, "D": [20.0] * 9}
    weight = "-20% if close == 1_000 else (40% if close == 10 else 0%)"
    buys = "for i in universe:\n            if close == 20:\n                buy(i, 10 shares)"
    result = ran(weight, closes, "max_notional = 30% of equity", buys)
    assert set(result.reasons_of(Kind.REJECT)) == {"max notional"}
    assert set(result.reasons_of(Kind.CANCEL)) == {"max net"}
    assert set(of(Kind.FILL, result)["b"].tolist()) == {10, -10}


def test_each_of_two_rebalances_of_an_instant_is_a_whole():
    closes = {"A": [10.0] * 9, "B": [20.0] * 9}
    grown = "rebalance(xs.scale(xs.demean(close), gross = 80%), via = moc)"
    result = ran("xs.scale(xs.demean(close), gross = 60%)", closes, then=grown)
    assert not len(of(Kind.REJECT, result))
    assert max(map(abs, nets(result))) <= 0.05


@pytest.mark.parametrize("pays", ["", "unaffordable = reject"], ids=["cut", "rejected"])
def test_a_book_that_cannot_be_paid_for_is_not_built_by_half(pays):
    """One side of it fills, and what is left of the other would be cut or refused."""
    closes = {"A": [10.0] * 9, "B": [20.0] * 9}
    result = ran("xs.scale(xs.demean(close), gross = 180%)", closes, pays=pays)
    assert set(result.reasons_of(Kind.CANCEL)) == {"max net"}
    assert not len(of(Kind.FILL, result))


def test_what_makes_room_goes_before_what_takes_it():
    """B turns from 60 % long to 10 % short: A, declared before it, was refused 50 % for its 60."""
    weight = "50% if close == 11 else (60% if close == 20 else (-10% if close == 21 else 0%))"
    prices = {"A": [10.0] * 5 + [11.0] * 5, "B": [20.0] * 5 + [21.0] * 5}
    limits = "max_gross = 70% of equity"
    text = TEXT.format(weight=weight, limit=limits, then="", pays="").replace("5%", "70%")
    result = run_checked(compiled(text), Path("x"), data=table(prices))
    assert not len(of(Kind.REJECT, result))
