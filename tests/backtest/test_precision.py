"""`--precision f32`: one result on every target, and a measured difference to double precision."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from quantdsl import cli
from quantdsl.backtest.precision import SAMPLE_POINTS, measured
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.stream import materialised
from quantdsl.backtest.sweep import prepare_sweep, run
from quantdsl.backtest.sweep_table import result_of
from quantdsl.backtest.verify import (
    InterpretedRunner,
    Lanes,
    Target,
    compared,
    draw,
    targets,
    usual_plan,
)
from quantdsl.check import Checked, compile_file
from quantdsl.devices.cpu import CpuRunner
from quantdsl.events.layout import Kind
from quantdsl.report.sweep_result import Apart
from tests.backtest.programs import strategy
from tests.backtest.test_every_target import EVENTS, FILES, UNIVERSE_EVENTS
from tests.backtest.test_lane_entry import checked_of, checked_text
from tests.strategies.headers import ON_UNIVERSES
from tests.truth.test_oracle import market

ROOT = Path(__file__).parents[2]
EMA_CROSS = ROOT / "bench/strategies/ema_cross.qdsl"
BARS, RANGES = 15_000, {"fast": "20..62:42", "slow": "568..589:21"}
FRACTION = """language 1

strategy Fraction:
    "Trades on digits of an average that single precision does not have."

    bars 1m

    param fast = 4 in 2..20 step 3

    let mean = ta.ema(close, fast)

    on bar:
        target(1 shares if mean * 1e6 - floor(mean * 1e6) > 0.5 else 0 shares)
"""
POINTS, GENERATED, GENERATED_EVENTS = 4, 4, 300
CHOSEN = {
    "analog_gpu", "bracket", "ema_cross", "macd_trend", "pairs_z", "rsi2_pullback",
    "supertrend_trail", "xs_momentum",
}  # fmt: skip
"""Strategies with floats of every kind: averages, moments, ranks, a kernel, cross-sections."""
CASES = [path for path in FILES if path.stem in CHOSEN]


@pytest.fixture
def fraction(tmp_path: Path) -> Path:
    path = tmp_path / "fraction.qdsl"
    path.write_text(FRACTION)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "bars.parquet"
    pq.write_table(market(1_000), path)
    return path


def assert_one_hash(checked: Checked, n_events: int) -> None:
    arranged = arrange(checked)
    checked = arranged.sized(checked)
    points = draw(checked, arranged, POINTS, np.random.default_rng(1))
    every = materialised(arranged.data)
    events = np.concatenate([every[:n_events], every[-1:]])
    lanes = Lanes(checked, arranged, points, events, "f32")
    machine = targets(usual_plan(checked, n_events), lambda _: None)
    outcomes = compared(lanes, [Target("interpreter", InterpretedRunner()), *machine])
    assert len(outcomes) >= 4
    assert [outcome.difference for outcome in outcomes] == [""] * len(outcomes)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_target_leaves_the_same_bits_in_single_precision(path: Path) -> None:
    assert_one_hash(checked_of(path), UNIVERSE_EVENTS if path in ON_UNIVERSES else EVENTS)


@pytest.mark.parametrize("seed", range(GENERATED))
def test_generated_strategies_too(seed: int) -> None:
    assert_one_hash(checked_text(strategy(seed)), GENERATED_EVENTS)


def crossing(ticks: np.ndarray, per_unit: int, fast: int, slow: int, start: int) -> int:
    """Finished trades of the average cross, by numpy's operations in single precision."""
    f32 = np.float32
    closes = ticks.astype(f32) / f32(per_unit)  # rounded twice: 2^24 ticks are too many for one
    held, trades, pending = False, 0, False
    lines = []
    for length in (fast, slow):
        weight = float(f32(2.0 / (length + 1)))
        line = f32(closes[:length].astype(np.float64).sum()) / f32(length)
        values = [line] * length
        for close in closes[length:]:
            line = f32(weight * float(close - line) + float(line))
            values.append(line)
        lines.append(np.array(values))
    over, under = lines[0] > lines[1], lines[0] < lines[1]
    for k in range(start, len(closes)):
        trades += pending and held
        held ^= pending
        pending = bool(under[k] > under[k - 1] if held else over[k] > over[k - 1])
    return trades + held


def test_a_sweep_trades_as_numpy_does_in_single_precision() -> None:
    """So many bars that averages come to be equal, which only single precision sees."""
    sweep = prepare_sweep(
        compile_file(EMA_CROSS), EMA_CROSS, data=market(BARS), ranges=RANGES,
        sweep={"precision": "f32", "device": "cpu"},
    )  # fmt: skip
    result = result_of(sweep, run(sweep, CpuRunner()), "cpu")
    assert result.precision == "f32"
    events = np.concatenate(list(sweep.arranged.data.chunks()))
    bars = events[events["kind"] == Kind.BAR]
    tick = sweep.arranged.data.instruments[0].tick
    assert tick.numerator == 1
    start = int(np.searchsorted(sweep.bar_ns, sweep.start_ns))
    for row in range(len(result)):
        point = {name: int(value) for name, value in result.params(row).items()}
        ticks = bars["payload"][:, 3]
        trades = crossing(ticks, tick.denominator, point["fast"], point["slow"], start)
        assert result.metric("trades")[row] == trades > 0


def test_the_difference_is_that_of_the_sweep_in_double_precision(fraction: Path) -> None:
    whole = [
        prepare_sweep(
            compile_file(fraction), fraction, data=market(1_000), sweep={"precision": precision}
        )
        for precision in ("f32", "f64")
    ]
    runner = CpuRunner()
    lanes = [run(sweep, runner) for sweep in whole]
    ours, theirs = (result_of(sweep, one, "") for sweep, one in zip(whole, lanes, strict=True))
    difference = measured(whole[0], lanes[0], ours, runner)
    assert difference.points == len(ours) <= SAMPLE_POINTS
    equal = (lanes[0].words == lanes[1].words).all(axis=0)
    assert difference.changed == (~equal).sum() > 0
    far = np.abs(ours.metric("net_profit") - theirs.metric("net_profit"))
    assert difference.metrics["net_profit"] == Apart(far.max(), float(np.median(far)))
    assert set(difference.metrics) == set(ours.metric_names)


def test_a_large_sweep_is_sampled_by_its_seed(
    fraction: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantdsl.backtest.precision.SAMPLE_POINTS", 5)
    found = []
    for seed in (1, 1, 2):
        sweep = prepare_sweep(
            compile_file(fraction), fraction, data=market(300), ranges={"fast": "2..20:1"},
            sweep={"precision": "f32", "seed": seed},
        )  # fmt: skip
        lanes = run(sweep, CpuRunner())
        found.append(measured(sweep, lanes, result_of(sweep, lanes, ""), CpuRunner()))
    assert 5 <= found[0].points <= 6  # the best one is among them in any case
    assert found[0] == found[1] != found[2]


def test_what_needs_no_floats_does_not_change() -> None:
    """An average of prices is a sum of ticks, and the account counts in integers."""
    path = ROOT / "tests/truth/oracle_sma.qdsl"
    sweep = prepare_sweep(
        compile_file(path), path, data=market(2_000), sweep={"precision": "f32"},
        ranges={"fast": "2..20:6", "slow": "30..90:20"},
    )  # fmt: skip
    runner = CpuRunner()
    lanes = run(sweep, runner)
    difference = measured(sweep, lanes, result_of(sweep, lanes, ""), runner)
    assert difference.changed == 0
    assert {one.largest for one in difference.metrics.values()} == {0.0}


def test_the_report_and_the_terminal_tell_the_difference(
    fraction: Path, data: Path, tmp_path: Path, capfd
) -> None:
    out = tmp_path / "out"
    command = ["sweep", str(fraction), "--data", str(data), "--device", "cpu", "--out", str(out)]
    assert cli.run([*command, "--precision", "f32"]) == 0
    said = " ".join(capfd.readouterr().out.split())
    assert "Equations are in f32. Of 7 points that ran in f64 too, the trades of " in said
    assert "f32 against f64 at most median" in said
    assert "a point run by itself is computed in f64" in said
    kept = json.loads((out / "result.json").read_text())
    assert kept["precision"] == "f32"
    assert kept["difference"]["points"] == 7
    assert kept["difference"]["changed"] > 0
    assert set(kept["difference"]["metrics"]["sharpe"]) == {"largest", "median"}
    assert "f32 against f64" in (out / "report.html").read_text()


def test_a_sweep_of_another_precision_is_not_resumed(
    fraction: Path, data: Path, tmp_path: Path, capfd
) -> None:
    out = str(tmp_path / "out")
    command = ["sweep", str(fraction), "--data", str(data), "--device", "cpu", "--out", out]
    assert cli.run(command) == 0
    assert cli.run([*command, "--precision", "f32", "--resume"]) == 2
    assert "since then the precision changed" in capfd.readouterr().err


def test_verify_takes_the_precision(fraction: Path, data: Path, capsys) -> None:
    hashes = []
    for precision in ("f64", "f32"):
        command = ["verify", str(fraction), "--data", str(data), "--points", "3"]
        assert cli.run([*command, "--precision", precision]) == 0
        shown = capsys.readouterr().out
        assert shown.endswith("every target leaves the same bits\n")
        hashes.append(shown.splitlines()[1].split()[0])
    assert hashes[0] != hashes[1]


def test_a_walk_forward_chooses_in_single_precision(fraction: Path, data: Path) -> None:
    sweep = prepare_sweep(
        compile_file(fraction), fraction, data=str(data), sweep={"precision": "f32"}
    )
    assert sweep.window(sweep.start_ns, int(sweep.bar_ns[400])).precision == "f32"
    assert sweep.exact(np.array([0])).precision == "f64"
