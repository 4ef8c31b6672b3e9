"""What is asked of the entry and the orders of one of several instruments, as the run goes."""

import quantdsl
from quantdsl.report.messages import messages
from tests.backtest.test_every_target import assert_one_hash
from tests.backtest.test_lane_entry import checked_text

TEXT = """language 1
strategy Pair:
    instrument "SYN1" as y
    instrument "SYN2" as x
    bars 1h

    param n = 3 in 2..5 step 1

    on bar:
        if x.position == 0 and not x.pending:
            buy(x, floor_qty(100.0, x), limit = x.close * 0.999)
        elif x.position > 0 and x.bars_since(entry) >= n:
            close_position(x)
        if x.position > 0 and y.position == 0 and x.close < x.entry_price:
            buy(y, floor_qty(50.0, y))
        elif y.position > 0 and y.bars_since(entry) > 2 * n:
            let bars = y.bars_since(entry)
            log("{y.entry_price} {bars} {y.pending}")
            close_position(y)
"""


def test_they_are_those_of_the_fills() -> None:
    report = quantdsl.compile(TEXT).backtest(end="2022-06-01")
    bought = [row for row in report.fills.to_pylist() if row["side"] == "buy"]
    entries = [row["price"] for row in bought if row["instrument"] == "SYN1"]
    told = [row["text"].split() for row in messages(report.result).to_pylist()]
    assert len(told) == 3
    assert [float(price) for price, _, _ in told] == entries[:3]
    assert {(bars, pending) for _, bars, pending in told} == {("7", "false")}


def test_every_target_leaves_the_same_bits() -> None:
    assert_one_hash(checked_text(TEXT), 900)
