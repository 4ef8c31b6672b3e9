"""The middle of a book is that of the touch, whoever tells it."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.book_middles import book_middles
from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.run import run_checked
from quantdsl.backtest.signals import prepare_signals
from quantdsl.check import compile_file
from quantdsl.shipped import shipped
from tests.backtest.test_lane_entry import checked_text

MAKER = shipped("strategies/skewed_maker.qdsl")
AT = 1_704_292_200_000_000_000
SECOND = 1_000_000_000
ROWS = [
    (0, "bid", 10.00, 5, True), (0, "ask", 10.04, 5, True),
    (2, "bid", 10.02, 5, False),
    (4, "ask", 10.04, 0, False),
    (6, "ask", 10.10, 5, False),
    (8, "bid", 10.02, 1, False),
]  # fmt: skip
TAKER = """language 1

strategy Taker:
    "Buys a lot at the ask, once."
    book depth = 5

    on book:
        if flat:
            buy(1 lot)

    backtest:
        fees = 1bps
        latency_entry = 0us
"""


def test_a_market_whose_quotes_are_the_touch_of_its_book() -> None:
    """The quotes of the built-in market tell what the core's book has to find."""
    data = prepare(compile_file(MAKER)).data
    moments = np.random.default_rng(1).integers(*data.span, 5_000)
    assert data.quoted
    assert np.array_equal(book_middles(data, 0, moments), data.middles(0, moments))


@pytest.fixture
def recorded(tmp_path: Path) -> str:
    """A book without quotes and trades: its ask is gone from the fourth second to the sixth."""
    lines = [f"{AT + s * SECOND},{side},{price:.2f},{size},{first}"
             for s, side, price, size, first in ROWS]  # fmt: skip
    path = tmp_path / "T.csv"
    path.write_text("\n".join(["time,side,price,size,is_snapshot", *lines, ""]))
    return str(path)


def test_a_book_with_one_side_is_no_tick(recorded: str) -> None:
    """A price that is not there was one above all: the middle was 4.5e13."""
    text = TAKER.replace("    on book:", "    let middle = mid\n\n    on book:")
    middle = prepare_signals(checked_text(text), data=recorded).table().column("middle")
    assert np.allclose(middle, [10.02, 10.03, 10.06, 10.06])


def test_before_the_first_message_and_after_the_last_there_is_none(recorded: str) -> None:
    data = prepare(checked_text(TAKER), data=recorded).data
    moments = AT + np.array([-1, 0, 2, 5, 6, 8, 9]) * SECOND
    found = book_middles(data, 0, moments) * float(data.instruments[0].tick)
    assert np.allclose(found, [np.nan, 10.02, 10.03, 10.03, 10.06, 10.06, np.nan], equal_nan=True)


def test_a_taker_pays_half_of_the_spread(recorded: str) -> None:
    execution = run_checked(checked_text(TAKER), Path("taker.qdsl"), data=recorded).execution
    assert execution is not None
    tick = 0.01
    assert execution.markout[0, 0] * tick == pytest.approx(10.02 - 10.04)
    assert execution.markout[0, 3] != execution.markout[0, 3]  # 10 s later there are no data
