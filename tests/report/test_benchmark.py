"""Benchmarks: holding the run's own instrument, and the prices of a file."""

from base64 import b64decode
from datetime import UTC, datetime

import numpy as np
import pytest
from msgspec.structs import replace

from quantdsl.events.layout import EVENT, RECORD, Action, Kind
from quantdsl.report.benchmark import benchmark_of
from quantdsl.report.chart_data import equity_curve
from quantdsl.report.metrics import evaluate
from tests.report.synthetic import BARS_A_DAY, synthetic_run

RUN = replace(synthetic_run(20), benchmark=None)


NONE = np.empty(0, EVENT)


def actions(*rows: tuple[int, Action, int, int]) -> np.ndarray:
    """Of the first instrument: when, what, and the words of its value."""
    events = np.zeros(len(rows), EVENT)
    for event, (ts, side, over, under) in zip(events, rows, strict=True):
        event["ts_event"], event["side"] = ts, side
        event["payload"][:2] = over, under
    return events


def test_holding_begins_with_the_run_at_its_first_close():
    levels = benchmark_of("hold", RUN, NONE).levels
    assert levels[0] == RUN.bars["close"][0]
    assert np.array_equal(levels[1:], RUN.bars["close"][BARS_A_DAY - 1 :: BARS_A_DAY])
    value = evaluate(replace(RUN, benchmark=benchmark_of("hold", RUN, NONE)))["benchmark_return"]
    assert value == pytest.approx(RUN.bars["close"][-1] / RUN.bars["close"][0] - 1.0)


def test_a_run_that_begins_within_a_bar_of_the_chart_begins_at_its_open():
    ticks = replace(RUN, curve_ts=RUN.curve_ts - 1)
    assert benchmark_of("hold", ticks, NONE).levels[0] == RUN.bars["open"][0]


def test_what_is_listed_late_is_flat_until_then():
    days = RUN.of_kind(Kind.DAY)
    days["d"][:5] = 0
    late = replace(RUN, records=days, bars=RUN.bars[5 * BARS_A_DAY :])
    benchmark = benchmark_of("hold", late, NONE)
    assert np.all(np.isnan(benchmark.levels[:6]))
    value = evaluate(replace(late, benchmark=benchmark))["benchmark_return"]
    assert value == pytest.approx(days["d"][-1] / days["d"][5] - 1.0)
    drawn = equity_curve(replace(late, benchmark=benchmark))["benchmark"]
    assert len(b64decode(drawn["time"])) == 8 * (len(days) - 5)


def test_holding_has_the_splits_and_what_is_paid():
    close = RUN.bars["close"].astype(np.float64)
    moments = RUN.bars["ts_event"][BARS_A_DAY - 1 :: BARS_A_DAY]
    before = benchmark_of("hold", RUN, NONE).levels
    paid = 2 * RUN.instruments[0].tick_value * 10**RUN.money_digits  # two ticks a lot
    told = actions(
        (moments[3], Action.SPLIT, 4, 1),
        (moments[6], Action.DIVIDEND, paid.numerator, paid.denominator),
        (moments[8], Action.FUNDING, 1, 100),
    )
    levels = benchmark_of("hold", RUN, told).levels
    assert np.array_equal(levels[:5], before[:5])  # of its instant it comes last
    assert np.array_equal(levels[5:8], 4 * before[5:8])
    assert np.allclose(levels[8:10], 4 * before[8:10] + 8)
    assert np.allclose(levels[10:], 4 * before[10:] + 8 - 4 * close[9 * BARS_A_DAY - 1] / 100)


def test_a_run_that_never_began_has_no_benchmark(tmp_path):
    file = tmp_path / "index.csv"
    file.write_text("time,open,high,low,close\n2024-01-02,1,1,1,1\n2024-01-03,1,1,1,1\n")
    empty = {"records": NONE.view(RECORD), "bars": RUN.bars[:0], "plots": ()}
    nothing = replace(RUN, curve_ts=RUN.curve_ts[:0], curve_equity=RUN.curve_equity[:0], **empty)
    for choice in ("hold", str(file)):
        levels = benchmark_of(choice, nothing, NONE).levels
        assert len(levels) == 1
        assert np.isnan(levels[0])


def test_a_file_is_read_at_the_samples(tmp_path):
    rows = ["time,open,high,low,close"]
    for day in range(25):
        date = datetime.fromtimestamp(1_703_980_800 + day * 86_400, UTC).date()  # 2023-12-31
        rows.append(f"{date},{100 + day},{100 + day},{100 + day},{100 + day}")
    file = tmp_path / "index.csv"
    file.write_text("\n".join(rows) + "\n")
    benchmark = benchmark_of(str(file), RUN, NONE)
    assert benchmark.name == "index"
    assert len(benchmark.levels) == len(RUN.of_kind(Kind.DAY)) + 1
    assert np.all(np.diff(benchmark.levels[np.isfinite(benchmark.levels)]) >= 0)


def test_a_file_that_ended_long_ago_is_no_benchmark(tmp_path):
    file = tmp_path / "old.csv"
    file.write_text(
        "time,open,high,low,close\n2010-01-04,1,1,1,1\n2010-01-05,2,2,2,2\n2010-01-06,2,2,2,2\n"
    )
    assert np.all(np.isnan(benchmark_of(str(file), RUN, NONE).levels))
