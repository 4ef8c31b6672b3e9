"""A sweep's row is what the single backtest of its point says, to the bit."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from quantdsl.backtest import lane_code
from quantdsl.backtest import sweep as sweep_module
from quantdsl.backtest.sweep import Sweep, prepare_sweep, prepare_sweeps, run
from quantdsl.backtest.sweep_table import result_of
from quantdsl.check import compile_file
from quantdsl.data.events import Data, Events
from quantdsl.devices import cpu
from quantdsl.devices.cpu import CpuRunner
from quantdsl.errors import ConfigError, DataError
from quantdsl.report.metrics import evaluate
from quantdsl.report.sweep_result import SweepResult
from tests.strategies.headers import ON_BARS, ON_UNIVERSES
from tests.truth.test_oracle import SWEEP, market

ROOT = Path(__file__).parents[2]
ORACLE = ROOT / "tests/truth/oracle_sma.qdsl"
BENCH = ROOT / "bench/strategies"
BARS = 3_000


@pytest.fixture(scope="module")
def bars() -> pa.Table:
    return market(BARS)


def prepared(path: Path, data: object, **options: object) -> Sweep:
    return prepare_sweep(compile_file(path), path, data=data, **options)


def finished(sweep: Sweep) -> SweepResult:
    return result_of(sweep, run(sweep, CpuRunner()), "cpu")


CASES = {
    "oracle": (ORACLE, {"fast": "2..20:6", "slow": "25..100:25"}, "grid"),
    "ema_cross": (BENCH / "ema_cross.qdsl", {}, "random:6"),
    "bracket": (BENCH / "bracket.qdsl", {}, "sobol:6"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_the_single_backtest_to_the_bit(name: str, bars: pa.Table) -> None:
    path, ranges, points = CASES[name]
    sweep = prepared(path, bars, ranges=ranges, sweep={"points": points})
    result = finished(sweep)
    assert sum(result.metric("trades")) > 0
    for row in range(0, len(result), max(len(result) // 6, 1)):
        single = evaluate(sweep.single(row))
        for column in result.table.column_names:
            if column in single:
                mine = result.metric(column)[row]
                assert mine.tobytes() == np.float64(single[column]).tobytes(), (row, column)


@pytest.mark.parametrize("start", [None, "2020-01-02"])
def test_the_bars_that_are_told_are_those_of_the_single_backtest(
    start: str | None, bars: pa.Table
) -> None:
    sweep = prepared(ORACLE, bars, ranges={"fast": "2..8:6", "slow": "25,50"}, start=start)
    result, single = finished(sweep), sweep.single(0)
    assert result.start_ns <= single.curve_ts[0]
    assert result.end_ns == single.curve_ts[-1]
    assert result.bars == len(single.curve_ts) < BARS


def test_metrics_asked_for_are_those_of_a_whole_sweep(bars: pa.Table) -> None:
    ranges = {"fast": "2..20:6", "slow": "25..100:25"}
    whole = finished(prepared(ORACLE, bars, ranges=ranges))
    asked = {"metrics": ["fees", "max_drawdown"], "objective": "net_profit"}
    sweep = prepared(ORACLE, bars, ranges=ranges, sweep=asked)
    result = finished(sweep)
    assert result.metric_names == ["net_profit", "sharpe", "max_drawdown", "fees"]
    for name in result.table.column_names:
        assert result.table[name].equals(whole.table[name]), name
    assert len(sweep.work.results) < len(prepared(ORACLE, bars, ranges=ranges).work.results)


def test_a_metric_that_no_lane_has_is_told_with_the_nearest(bars: pa.Table) -> None:
    with pytest.raises(ConfigError, match="such a metric; did you mean fees"):
        prepared(ORACLE, bars, sweep={"metrics": ["fee"]})


SHIPPED = [path for path in (*ON_BARS, *ON_UNIVERSES) if path.stem != "buy_and_hold"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_strategy_sweeps_to_the_bit(path: Path) -> None:
    sweep = prepared(path, None, end="2023-02-01", sweep={"points": "random:3"})
    result = finished(sweep)
    for row in range(len(result)):
        single = evaluate(sweep.single(row))
        for column in result.table.column_names:
            if column in single:
                mine = result.metric(column)[row]
                assert mine.tobytes() == np.float64(single[column]).tobytes(), (row, column)


BY_TIME = """
strategy S:
    bars 1m
    param h = 20m in 10m..40m step 10m
    param k = 1.0 in 0.1..4.0 step 0.1
    let slow = ts.ewm_mean(ts.ewm_mean(ts.ewm_mean(close, h), h), h)
    on bar:
        if flat and close > slow + k * ts.ewm_std(close - slow, h):
            buy(10 shares)
        elif long and close < slow:
            close_position()
"""


def test_a_half_life_in_time_sweeps_to_the_bit(
    bars: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_code, "LOAD_CPU", 0)
    path = tmp_path / "s.qdsl"
    path.write_text(BY_TIME)
    sweep = prepared(path, bars)
    assert sweep.table is not None  # read from columns, whose lanes know the time too
    result = finished(sweep)
    for row in range(0, len(result), 31):
        single = evaluate(sweep.single(row))
        for name in ("net_profit", "trades", "sharpe"):
            mine = result.metric(name)[row]
            assert mine.tobytes() == np.float64(single[name]).tobytes(), (row, name)


def test_the_oracle_of_ten_thousand_points() -> None:
    ranges = {"fast": "2..101:1", "slow": "102..201:1"}
    table = finished(prepared(ORACLE, market(10_000), ranges=ranges)).table
    profit = np.rint(table["net_profit"].to_numpy() * 1e6).astype(np.int64)
    found = {
        "trades": int(table["trades"].to_numpy().sum()),
        "profit": int(profit.sum()),
        "best": int(profit.max()),
    }
    assert found == SWEEP


def test_a_window_is_the_single_backtest_of_its_span(bars: pa.Table) -> None:
    sweep = prepared(BENCH / "ema_cross.qdsl", bars, sweep={"points": "random:3"})
    start, end = int(sweep.bar_ns[1_500]), int(sweep.bar_ns[2_500])
    window = sweep.window(start, end)
    assert (window.start_ns, window.bar_ns[-1]) == (start, end)
    result = finished(window)
    for row in range(3):
        single = evaluate(window.single(row))
        for name in ("sharpe", "trades", "net_profit", "max_drawdown"):
            assert result.metric(name)[row].tobytes() == np.float64(single[name]).tobytes()


def test_data_larger_than_memory_lie_in_a_file_and_are_walked_in_pieces(
    bars: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = {"fast": "2..20:6", "slow": "25..100:25"}
    expected = run(prepared(ORACLE, bars, ranges=ranges), CpuRunner()).words
    monkeypatch.setattr(sweep_module, "SPOOL_BYTES", 1)
    for module in (cpu, sweep_module):
        monkeypatch.setattr(module, "PIECE_BYTES", 1 << 16)
    large = prepared(ORACLE, bars, ranges=ranges)
    assert isinstance(large.work.events.base, np.memmap)
    assert np.array_equal(run(large, CpuRunner()).words, expected)


def test_data_without_rows_are_refused(bars: pa.Table) -> None:
    with pytest.raises(DataError, match="no usable row"):
        prepared(ORACLE, bars.slice(0, 0))
    with pytest.raises(DataError, match="its points need 203 bars of 1m before"):
        prepared(ORACLE, bars.slice(0, 100))
    with pytest.raises(DataError, match=r"need 203 bars of 5m before .* and there are 20\n"):
        prepared(ORACLE, bars.slice(0, 100), bars="5m")


def test_several_files_are_read_once_each_and_wait_on_disk_where_memory_is_short(
    bars: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    chunks = Data.chunks

    def counted(data: Data) -> Iterator[Events]:
        read.append(data.name)
        return chunks(data)

    one, other = bars.slice(0, 600), bars.slice(600)
    ranges = {"fast": "2..20:6", "slow": "25..100:25"}
    alone = [prepared(ORACLE, part, ranges=ranges) for part in (one, other)]
    expected = [run(sweep, CpuRunner()).words for sweep in alone]
    monkeypatch.setattr(sweep_module, "SPOOL_BYTES", 64 * 700)
    monkeypatch.setattr(Data, "chunks", counted)
    sweeps = [*prepare_sweeps(compile_file(ORACLE), ORACLE, [one, other], ranges=ranges)]
    assert len(read) == 2
    assert all(sweep.levels is sweeps[0].levels for sweep in sweeps)  # points are held once
    on_disk = [isinstance(sweep.work.events.base, np.memmap) for sweep in sweeps]
    assert on_disk == [False, True]
    for sweep, words in zip(sweeps, expected, strict=True):
        assert np.array_equal(run(sweep, CpuRunner()).words, words)
