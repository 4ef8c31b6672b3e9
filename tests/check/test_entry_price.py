"""Where a position is held its entry price is known: `long` tells that it is not na."""

import pytest

from quantdsl.check import check_source
from quantdsl.lang.source import Source

STRATEGY = """\
strategy S:
    bars 5m
    {handler}
            close_position()
    on bar when flat:
        buy(9 shares)
    risk:
        max_position = 9 shares
    backtest:
        fees = 1bps
"""
HELD = (
    "on bar:\n        if long and close > entry_price * 1.05:",
    "on bar:\n        if short and close < entry_price - 1.0:",
    "on bar:\n        if not flat and close > entry_price:",
    "on bar:\n        if flat:\n            return\n        elif close > entry_price:",
    "on bar when long:\n        if close > entry_price:",
)
PERHAPS = (
    "on bar:\n        if close > entry_price:",
    "on bar:\n        if long or close > entry_price:",
    "on bar:\n        if not long and close > entry_price:",
    "on bar when flat:\n        if close > entry_price:",
)


def codes(handler: str) -> list[str]:
    source = Source(STRATEGY.format(handler=handler), "example.qdsl")
    return [finding.code for finding in check_source(source)[1]]


@pytest.mark.parametrize("handler", HELD)
def test_what_is_held_has_an_entry_price(handler: str) -> None:
    assert codes(handler) == []


@pytest.mark.parametrize("handler", PERHAPS)
def test_what_may_be_flat_may_have_none(handler: str) -> None:
    assert codes(handler) == ["QD0501"]


def test_when_tells_what_is_not_na() -> None:
    handler = "on bar when entry_price is not na:\n        if close > entry_price:"
    assert codes(handler) == []
