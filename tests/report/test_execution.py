"""Figures of orders on ticks, by hand."""

import numpy as np
import pytest

from quantdsl.events.layout import RECORD, Kind
from quantdsl.report.execution import EXECUTION, HORIZONS_S, execution_of, fill_ratio, queue_ahead
from quantdsl.report.execution_page import section

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def record(kind, seconds, a, b=0, c=0, d=0, e=0, flags=0, instrument=0):
    ts = START + round(seconds * SECOND)
    # Heard 5 ms after it happened.
    return (ts + 5_000_000, ts, instrument, kind, int(b < 0), flags, a, b, c, d, e)


def middles(instrument, moments):
    """100 ticks at the start, one more each second, for 100 seconds."""
    assert instrument == 0
    seconds = (moments - START) / SECOND
    return np.where(seconds <= 100.0, 100.0 + seconds, np.nan)


RECORDS = np.array(
    [
        record(Kind.ORDER, 0, 1, 100, 99),
        record(Kind.ACK, 1, 1, 100, 99, 30),
        record(Kind.ORDER, 1, 2, -50, 105),
        record(Kind.REJECT, 1, 2, -50, 105),
        record(Kind.ORDER, 2, 3, 100, 98),
        record(Kind.ACK, 2, 3, 100, 98, 10),
        record(Kind.FILL, 4, 1, 40, 99, 0, 40, flags=1),
        record(Kind.FILL, 6, 1, 60, 99, 0, 100, flags=1),
        record(Kind.ORDER, 10, 4, -100),
        record(Kind.FILL, 10, 4, -100, 109, 0, 0),
        record(Kind.CANCEL, 20, 3, 100),
    ],
    RECORD,
)


@pytest.fixture
def execution():
    return execution_of(RECORDS, middles, START + 14 * SECOND, ("nothing",))


def test_each_figure(execution):
    values = {m.name: float(m.compute(execution)) for m in EXECUTION.metrics}
    assert values["fill_ratio"] == pytest.approx(200 / 300)
    assert values["orders_filled_share"] == pytest.approx(2 / 3)
    assert values["maker_share"] == values["taker_share"] == 0.5
    assert values["queue_ahead"] == 20.0
    assert values["queue_time"] == values["queue_time_95"] == 3.0  # from 1 s to 4 s
    # Buys at 99 with the middle at 104 (40 lots) and 106 (60), a sale at 109 with it at 110.
    at_fill = (40 * 5 + 60 * 7 + 100 * -1) / 200
    assert values["markout_0s"] == pytest.approx(at_fill)
    assert values["markout_1s"] == pytest.approx(at_fill + (100 - 100) / 200)
    assert values["markout_60s"] == pytest.approx(at_fill)
    assert values["inventory_max"] == 100
    # 40 lots for 2 s, 100 for 4 s, none for 4 s.
    assert values["inventory_mean"] == pytest.approx((40 * 2 + 100 * 4) / 10)


def test_a_queue_that_is_not_known_is_not_counted():
    """Behind the touch of a quote: 2^53 stands for it, and was taken into the mean."""
    records = [
        record(Kind.ACK, 1, 1, 100, 99, 30),
        record(Kind.ACK, 1, 2, 100, 98, 2**53),
    ]
    found = execution_of(np.array(records, RECORD), middles, START, ())
    assert float(queue_ahead(found)) == 30.0
    assert np.isnan(queue_ahead(execution_of(np.array(records[1:], RECORD), middles, START, ())))


def test_the_time_in_the_queue_is_that_before_the_first_fill():
    """What became of the order later hid it: a new place took it out, fewer lots began it anew."""
    records = [
        record(Kind.ACK, 1, 1, 100, 99, 30),
        record(Kind.ACK, 2, 1, 50, 99, 20, flags=1),
        record(Kind.FILL, 4, 1, 20, 99, 0, 20, flags=1),
        record(Kind.ACK, 5, 1, 30, 98, 40),
    ]
    found = execution_of(np.array(records, RECORD), middles, START, ())
    assert found.queue_s.tolist() == [3.0]
    assert found.queue_ahead.tolist() == [30, 40]


def test_no_more_is_filled_than_was_asked_for():
    """An order is as large as it was last made, an exit as the position that it guards."""
    changed, exits = [
        record(Kind.ORDER, 0, 1, 100, 99),
        record(Kind.FILL, 1, 1, 40, 99, 0, 40, flags=1),
        record(Kind.ORDER, 2, 1, 140, 98, flags=1),
        record(Kind.FILL, 3, 1, 100, 98, 0, 140, flags=1),
    ], [
        record(Kind.ORDER, 0, 2, 0, 110),
        record(Kind.ORDER, 0, 3, 0, 2**53, 90),
        record(Kind.FILL, 4, 2, -140, 110, 0, 0, flags=1),
        record(Kind.CANCEL, 4, 3, -140),
    ]  # fmt: skip
    ratios = []
    for records in (changed, changed + exits):
        execution = execution_of(np.array(records, RECORD), middles, START, ())
        ratios.append(float(fill_ratio(execution)))
    assert ratios == [1.0, pytest.approx(280 / 420)]


def test_beyond_the_data_there_is_no_mark(execution):
    late = HORIZONS_S.index(300.0)
    assert np.isnan(execution.markout[:, late]).all()


def test_a_run_without_fills_has_no_figures():
    empty = execution_of(RECORDS[:0], middles, START, ())
    values = {m.name: float(m.compute(empty)) for m in EXECUTION.metrics}
    assert {name for name, value in values.items() if not np.isnan(value)} == {"inventory_max"}
    assert "Nothing was filled" in section(empty)


def test_the_page_tells_what_was_assumed(execution):
    text = section(execution)
    assert "<li>nothing</li>" in text
    assert section(None) == ""
    assert text.count("<polyline") == 2
