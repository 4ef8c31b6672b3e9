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


def effects(text: str) -> list[str]:
    return [d.message for d in check_source(Source(text, "example.qdsl"))[1] if d.code == "QD0704"]


DRAWN = """\
strategy S:
    bars 5m
    param n = 9 in 5..20 step 1
    plot(ta.sma(close, n))
"""
ACTS = """\
    on bar:
        if flat:
            buy(100 shares)
"""


def test_a_plot_is_an_effect_only_where_a_strategy_does_nothing_but_draw():
    assert effects(DRAWN) == []
    assert effects(DRAWN + ACTS) == ["'n' changes no order, only what is drawn"]
