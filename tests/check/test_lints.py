"""What has an effect is not warned of, however it gets to an order."""

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
