"""An entry that fills in parts, and its exits: by volume, and as a fn of the user says."""

import pyarrow as pa
import pytest

import quantdsl
from tests.backtest.test_every_target import assert_one_hash
from tests.backtest.test_lane_entry import checked_text

TEXT = """language 1

fn half(lots: float, volume: float, volume_share: float) -> float:
    return floor(volume / 2)

strategy Parts:
    bars 1d

    param far = 3% in 1%..9% step 1%

    on bar:
        if flat and not pending:
            buy(100 shares, limit = 100, take_profit = 100 * (1 + far), stop_loss = 95)

    risk:
        max_position = 1_000 shares

    backtest:
        fees = 0bps
        {fills}
"""
BARS = [(101, 102, 100.5, 101, 1_000), (101, 104, 99, 103.5, 60), (103, 103.5, 99, 100, 1_000),
        (100, 101, 94, 94.5, 1_000), (94, 95, 90, 91, 1_000)]  # fmt: skip
FILLS = ["fill = half", "volume_share = 50%"]


def days():
    names = ("open", "high", "low", "close", "volume")
    columns = dict(zip(names, zip(*BARS, strict=True), strict=True))
    return pa.table({"time": [f"2024-01-0{n}" for n in range(1, 6)], **columns})


@pytest.mark.parametrize("fills", FILLS)
def test_what_is_left_of_an_entry_ends_with_the_exit_that_took_out_the_rest(fills):
    result = quantdsl.compile(TEXT.format(fills=fills)).backtest(days())
    bought = [row for row in result.fills.to_pylist() if row["quantity"] > 0]
    assert [(row["side"], row["quantity"]) for row in bought][:2] == [("buy", 30.0), ("sell", 30.0)]
    first = result.orders.to_pylist()[0]
    assert (first["filled"], first["status"], first["reason"]) == (30.0, "cancelled", "oco")


@pytest.mark.parametrize("fills", FILLS)
def test_every_target_leaves_the_same_bits(fills):
    assert_one_hash(checked_text(TEXT.format(fills=fills)), 400)
