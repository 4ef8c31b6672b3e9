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
    "on bar:\n        if position > 0 and close > entry_price:",
    "on bar:\n        if position != 0 and close > entry_price:",
    "on bar:\n        if position >= 9 and close > entry_price:",
    "on bar:\n        if position >= 0:\n            return\n        elif close > entry_price:",
    "on bar when long:\n        if close > entry_price:",
)
PERHAPS = (
    "on bar:\n        if close > entry_price:",
    "on bar:\n        if long or close > entry_price:",
    "on bar:\n        if not long and close > entry_price:",
    "on bar when flat:\n        if close > entry_price:",
    "on bar:\n        if position == 9:\n            return\n        elif close > entry_price:",
    "on bar:\n        if not (position == 9 shares) and close > entry_price:",
    "on bar:\n        if position > -1 and close > entry_price:",
    "on bar:\n        if position >= 0 and close > entry_price:",
    "on bar:\n        if position < 9 and close > entry_price:",
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


PAIR = """\
strategy Pair:
    instrument "A" as y
    instrument "B" as x
    {source}
    {handler}
            flatten()
    risk:
        max_gross = 9 USD
    backtest:
        fees = 1bps
"""
SOURCES = {"bar": "bars 5m", "quote": "quotes"}


def of_pair(event: str, condition: str) -> list[tuple[str, str]]:
    handler = f"on {event}:\n        if {condition}:"
    source = Source(PAIR.format(source=SOURCES[event], handler=handler), "example.qdsl")
    return [(finding.code, finding.help) for finding in check_source(source)[1]]


@pytest.mark.parametrize("event", SOURCES)
@pytest.mark.parametrize(
    "condition",
    [
        "y.position > 0 and y.entry_price > 9.0 and not x.pending",
        "(x.entry_price ?? 0.0) > 9.0 or y.pending",
    ],
)
def test_each_of_several_instruments_has_an_entry(event: str, condition: str) -> None:
    assert of_pair(event, condition) == []


def test_bars_since_the_entry_of_one_of_several() -> None:
    assert of_pair("bar", "y.bars_since(entry) > 9") == []


def test_a_position_tells_nothing_of_another_one() -> None:
    assert [code for code, _ in of_pair("bar", "y.position > 0 and x.entry_price > 9.0")] == [
        "QD0501"
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("entry_price > 9.0", "write y.entry_price or x.entry_price"),
        ("flat", "write y.position == 0 or x.position == 0"),
        ("bars_since(entry) > 9", "write y.bars_since(entry) or x.bars_since(entry)"),
        ("close > open", "write y.close or x.close"),
    ],
)
def test_without_a_name_it_is_told_how_one_is_asked(asked: str, told: str) -> None:
    assert ("QD0307", told) in of_pair("bar", asked)
