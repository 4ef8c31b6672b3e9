"""Quantities of several instruments that do not say of which, and prices that replace gives."""

import pyarrow as pa
import pytest

import quantdsl
from tests.backtest.test_every_target import assert_one_hash
from tests.backtest.test_lane_entry import checked_text

SEVERAL = """language 1
strategy Pair:
    instrument "SYN1" as y
    instrument "SYN2" as x
    bars 1h

    on bar:
        {body}
"""
BARE = """if x.position == 0:
            buy(x, 100 shares)
        elif x.position > 0 shares and 0 shares <= y.position < 300 shares:
            buy(y, 100 shares if x.volume > 1_000 shares else 50 shares)
        elif y.position - 100 shares >= 150 shares:
            target(y, 0 shares)
            sell(x, floor_qty(x.position / 2), stop_loss = snap(x.close * 0.99, down))
"""
WRITTEN = """if x.position == 0:
            buy(x, floor_qty(100, x))
        elif x.position > 0 and 0 <= float(y.position) and float(y.position) < 300:
            buy(y, floor_qty(100, y) if float(x.volume) > 1_000 else floor_qty(50, y))
        elif float(y.position) - 100 >= 150:
            target(y, floor_qty(0, y))
            sell(x, floor_qty(x.position / 2, x), stop_loss = x.close * 0.99)
"""
LOTS = """
[data]
instruments = "{path}"
"""
INSTRUMENTS = """
[[instrument]]
symbol = "SYN1"
tick = "0.01"
lot = "10"
currency = "USD"

[[instrument]]
symbol = "SYN2"
tick = "0.01"
lot = "1"
currency = "USD"
"""


def report(body, config):
    text = SEVERAL.format(body=body)
    return quantdsl.compile(text).backtest(end="2022-03-01", config=config)


def test_a_bare_quantity_counts_lots_of_the_instrument_beside_it(tmp_path):
    (tmp_path / "two.toml").write_text(INSTRUMENTS)
    config = tmp_path / "run.toml"
    config.write_text(LOTS.format(path=tmp_path / "two.toml"))
    bare, written = report(BARE, config), report(WRITTEN, config)
    assert bare.fills.num_rows > 20
    assert bare.fills.equals(written.fills)


def test_every_target_leaves_the_same_bits():
    assert_one_hash(checked_text(SEVERAL.format(body=BARE)), 900)


@pytest.mark.parametrize(
    ("body", "code", "help"),
    [
        ("let n = 100 shares\n        buy(x, n)", "QD0307", "floor_qty(100, y)"),
        ("let n = floor_qty(3)\n        buy(x, n)", "QD0307", "floor_qty(x, y)"),
        ("let p = snap(3.3, up)\n        buy(x, 1 lot, limit = p)", "QD0307", "in the order"),
        ("buy(x, y.position)", "QD0302", "floor_qty(float(y.position))"),
        (
            'buy(x, 1 lot, tag = "a")\n        replace("a", limit = y.close)',
            "QD0302",
            "a price of x",
        ),
    ],
)
def test_one_of_no_instrument_or_another_is_told(body, code, help):
    with pytest.raises(quantdsl.QuantDSLError) as told:
        quantdsl.compile(SEVERAL.format(body=body))
    assert code in str(told.value)
    assert help in str(told.value)


def test_a_limit_in_lots_is_none_for_several_instruments():
    text = SEVERAL.format(body="buy(x, 1 lot)") + "\n    risk:\n        max_order = 100 shares\n"
    with pytest.raises(quantdsl.QuantDSLError, match="max_notional and max_gross limit money"):
        quantdsl.compile(text)


REPLACED = """language 1
strategy Replaced:
    bars 1d

    on bar:
        if flat and not pending:
            {order}
        else:
            replace("a", {price} = close * {part})
"""


@pytest.mark.parametrize(
    ("order", "price", "part", "level"),
    [
        ('buy(1 lot, limit = close - 5 USD, tag = "a")', "limit", 0.98766, 98.76),
        ('short(1 lot, limit = close + 5 USD, tag = "a")', "limit", 1.01234, 101.24),
        ('buy(1 lot, stop = close + 5 USD, tag = "a")', "stop", 1.01234, 101.24),
        ('short(1 lot, stop = close - 5 USD, tag = "a")', "stop", 0.98766, 98.76),
        ('buy(1 lot, touch = close - 5 USD, tag = "a")', "touch", 0.98766, 98.76),
        ('target(1 lot, limit = close - 5 USD, tag = "a")', "limit", 0.98766, 98.77),
    ],
)
def test_replace_rounds_to_the_passive_side_of_the_orders_with_the_tag(order, price, part, level):
    """As the order itself does; of 'target' nothing tells the side, and the nearest is taken."""
    text = REPLACED.format(order=order, price=price, part=part)
    days = [f"2024-01-{day:02}" for day in range(1, 7)]
    columns = {name: [100.0] * 6 for name in ("open", "low", "close")}
    high = [100.01] * 6  # so that a tick is a cent
    table = pa.table({"time": days, **columns, "high": high, "volume": [1_000] * 6})
    row = quantdsl.compile(text).backtest(table).orders.to_pylist()[0]
    assert row["limit" if price == "limit" else "trigger"] == level
