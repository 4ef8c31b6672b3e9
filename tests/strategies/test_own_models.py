"""A user's own models for fees, slippage, fills and size: the figures change as by hand.

The functions are those of strategies/own_models.qdsl; the strategies here trade as little as shows
each of them.
"""

import datetime as dt

import pyarrow as pa
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.check.checked import check_source
from quantdsl.lang.source import Source
from quantdsl.report import tables
from tests.strategies import headers

FUNCTIONS = (
    (headers.ROOT / "strategies" / "own_models.qdsl")
    .read_text(encoding="utf-8")
    .partition("strategy ")[0]
)
STRATEGY = """
strategy Small:
    "Sends one order."

    bars 1h

    state sent = false

    on bar:
        if not sent:
            sent = true
            {order}

    risk:
        max_notional = 100% of equity

    backtest:
        cash = 100_000 USD
        {setting}
"""
VOLUMES = (50_000.0, 50_000.0, 50_000.0, 50_000.0)


def fills(folder, order, setting, volumes=VOLUMES):
    """(quantity, price, fee) of each fill on bars that stand still at 100.00."""
    count = len(volumes)
    start = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    table = pa.table(
        {
            "time": [start + dt.timedelta(hours=n) for n in range(count)],
            **{name: [100.0] * count for name in ("open", "close")},
            "high": [100.05] * count,
            "low": [99.95] * count,
            "volume": list(volumes),
        }
    )
    path = folder / "small.qdsl"
    path.write_text(FUNCTIONS + STRATEGY.format(order=order, setting=setting), encoding="utf-8")
    found = tables.fills(backtest(path, data=table)).to_pylist()
    return [(row["quantity"], row["price"], row["fee"]) for row in found]


def test_without_a_model_nothing_is_charged(tmp_path):
    assert fills(tmp_path, "buy(500 shares)", "fees = 0bps") == [(500.0, 100.0, 0.0)]


@pytest.mark.parametrize(
    ("order", "fee"),
    [
        ("buy(500 shares)", 2.50),  # 0.005 * 500
        ("buy(100 shares)", 1.00),  # the least
        ("buy(1 share)", 1.00),  # 1% of 100
        ("buy(500 shares, limit = 99.95 USD)", 1.25),  # it rested: half
    ],
)
def test_the_fee_is_the_functions(tmp_path, order, fee):
    ((_, _, charged),) = fills(tmp_path, order, "fees = per_share")
    assert charged == fee


def test_slippage_is_the_functions_up_to_the_next_tick(tmp_path):
    # 0.01 + 0.003 * 100 * sqrt(500 / 50,000) = 0.04
    assert fills(tmp_path, "buy(500 shares)", "slippage = square_root") == [(500.0, 100.04, 0.0)]
    # 0.01 + 0.3 * sqrt(600 / 50,000) = 0.0428...
    assert fills(tmp_path, "buy(600 shares)", "slippage = square_root") == [(600.0, 100.05, 0.0)]


def test_a_bar_fills_no_more_than_the_function_allows(tmp_path):
    volumes = (2_000.0, 2_000.0, 900.0, 2_000.0, 2_000.0, 2_000.0)
    found = fills(tmp_path, "buy(500 shares)", "fill = thin", volumes)
    assert [quantity for quantity, _, _ in found] == [200.0, 200.0, 100.0]


def test_the_size_is_the_functions(tmp_path):
    order = "buy(value = 25% of equity, size_at = fill)"
    # 20,000 + 5,000 / 2 at 100.00
    assert fills(tmp_path, order, "sizing = damped") == [(225.0, 100.0, 0.0)]
    assert fills(tmp_path, order, "fees = 0bps") == [(250.0, 100.0, 0.0)]


def test_a_function_that_does_not_fit_is_refused_with_the_signature_that_would():
    text = FUNCTIONS + STRATEGY.format(order="buy(1 share)", setting="fees = thin")
    checked, found = check_source(Source(text, "small.qdsl"))
    assert checked is None
    (error,) = [one for one in found if one.severity == "error"]
    assert error.code == "QD0807"
    assert error.help is not None
    assert "notional: float" in error.help
