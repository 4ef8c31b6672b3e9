"""What has an effect is not warned of, however it gets to an order."""

import pytest

from quantdsl.check import check_source
from quantdsl.lang.source import Source

TEXT = """\
strategy S:
    bars 5m
    param n = 9 in 5..20 step 1
    @async(deadline = 2ms)
    let a = ta.sma(close, n)
    on ready(a):
        if flat and a > close:
            buy(100 shares)
    risk:
        max_position = 1_000 shares
    backtest:
        fees = 1bps
"""


def test_a_param_that_an_answer_depends_on_changes_orders():
    assert check_source(Source(TEXT, "example.qdsl"))[1] == []


def test_parts_of_prices_that_add_up_are_a_price():
    """They were told to be a distance, and close less them to be meant."""
    limit = "100 shares, limit = 0.4 * high + 0.3 * low + 0.3 * close"
    assert check_source(Source(TEXT.replace("100 shares", limit), "example.qdsl"))[1] == []


NEITHER = """\
strategy Own:
    bars 1d
    param cash = 100.0 in 50.0..200.0 step 50.0
    param share = 50% in 10%..90% step 10%
    param gap = 0.5 in -2.0..2.0 step 0.5
    let flat = ta.rsi(close, 14) > 45 and ta.rsi(close, 14) < 55
    on bar:
        if gap < 0.0:
            buy(10 shares, stop = close - gap * ta.atr(14))
        let n = 1000 * share
        buy(floor_qty(n))
        buy(floor_qty(200 * 50%))
        buy(floor_qty(cash))
        if flat and long:
            sell(10 shares)
"""


def test_what_only_looks_like_a_mistake_is_none():
    """A param called cash, one that may be below zero, and an own `flat`."""
    found = check_source(Source(NEITHER, "example.qdsl"))[1]
    assert {one.code for one in found} <= {"QD0206", "QD0805", "QD0806"}


def test_a_level_stands_for_a_series_of_an_own_indicator():
    head = "indicator above(src: series[float], low: series[float]) -> float:"
    own = f"{head}\n    return src - low\n"
    text = TEXT.replace("ta.sma(close, n)", "above(close, 30.0 + n)")
    assert check_source(Source(own + text, "example.qdsl"))[1] == []


def test_an_exit_that_waits_for_its_entry_holds_something():
    both = 'buy(100 shares, tag = "in")\n            sell(100 shares, stop = low, after = "in")'
    assert check_source(Source(TEXT.replace("buy(100 shares)", both), "example.qdsl"))[1] == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("volume", ("warning", "'volume' hides what the language calls so")),
        ("equity", ("warning", "'equity' hides what the language calls so")),
        ("buy", ("error", "'buy' is a function of the language")),
        ("trade", ("error", "'trade' is a namespace of the language")),
    ],
)
def test_a_fn_above_the_strategy_is_named_as_one_inside_it(name, said):
    """Its calls were those of the market's name."""
    text = f"fn {name}(r: float) -> float:\n    return r\n{TEXT.replace('ta.sma', name)}"
    text = text.replace(f"{name}(close, n)", f"{name}(ta.sma(close, n))")
    found = check_source(Source(text, "example.qdsl"))[1]
    assert [(one.severity, one.message) for one in found] == [said]


def test_a_kernel_is_called_by_a_name_that_means_something_on_ticks_alone():
    """'mid' was told to need quotes."""
    text = f"kernel mid(r: window[float, 9]) -> float:\n    return r[4]\n{TEXT}"
    text = text.replace("ta.sma(close, n)", "mid(close) + ta.sma(close, n)")
    assert check_source(Source(text, "example.qdsl"))[1] == []
