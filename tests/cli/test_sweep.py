"""`quantdsl sweep` as a user meets it: its files, its messages, and what a killed run leaves."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdsl import cli
from quantdsl.backtest.sweep import prepare_sweep, run
from quantdsl.backtest.sweep_parts import FOLDER, MANIFEST, Parts
from quantdsl.check import compile_file
from quantdsl.devices.cpu import CpuRunner
from quantdsl.errors import DeviceError
from quantdsl.report.store import load
from tests.truth.test_oracle import market
from tests.waiting import WAIT_S, until

ROOT = Path(__file__).parents[2]
STRATEGY = ROOT / "tests/truth/oracle_sma.qdsl"
RANGES = ("--range", "fast=2..20:3", "--range", "slow=30..90:20")
POINTS = 28


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "bars.parquet"
    pq.write_table(market(2_000), path)
    return path


def swept(*arguments: str | Path, strategy: Path = STRATEGY) -> int:
    device = () if "--device" in arguments else ("--device", "cpu")
    return cli.run(["sweep", str(strategy), *device, *map(str, arguments)])


def points_of(folder: Path) -> pa.Table:
    return pq.read_table(folder / "points.parquet")


def test_a_sweep_leaves_a_table_a_page_and_commands(data, tmp_path, capfd):
    out, best = tmp_path / "out", tmp_path / "best.toml"
    assert swept("--data", data, *RANGES, "--out", out, "--save-best", best, "--trades", 20) == 0
    said = capfd.readouterr().out
    table = points_of(out)
    assert table.num_rows == POINTS
    assert table.equals(pa.ipc.open_file(out / "points.arrow").read_all())
    assert f"{POINTS} of {POINTS} points, 2,000 bars, all trade from 2020-01-01T01:31:00Z" in said
    assert "bytes a lane" in said
    assert "lanes a chunk" in said
    assert "an account of its own, with one instrument" in said
    assert (out / "report.html").exists()
    assert not (out / FOLDER).exists()
    command = next(line for line in said.splitlines() if "quantdsl backtest" in line)
    again = command[command.index("quantdsl backtest") :].split()[1:]
    assert cli.run([*again, "--out", str(tmp_path / "one")]) == 0
    single = load(tmp_path / "one").metrics
    top = int(np.argmax(table["sharpe"].to_numpy()))
    number = table["point"][top].as_py()
    assert f"  1  point {number}  quantdsl backtest" in command
    assert json.loads((out / "result.json").read_text())["best"][0]["point"] == number
    for name in table.column_names:
        if name in single:
            assert np.float64(table[name][top].as_py()).tobytes() == (
                np.float64(single[name]).tobytes()
            )
    told = next(line for line in best.read_text().splitlines() if "quantdsl backtest" in line)
    again = told.removeprefix("# quantdsl ").split()
    assert "--config" in again
    assert cli.run([*again, "--out", str(tmp_path / "two")]) == 0
    assert load(tmp_path / "two").metrics == pytest.approx(single, nan_ok=True, abs=0, rel=0)
    assert pq.read_table(out / "trades-20.parquet").num_rows == _of_point(table, 20, "trades")


def test_a_command_says_the_default_that_a_config_would_replace(data, tmp_path, capfd):
    """It ran another point: that with the config's value."""
    config, out = tmp_path / "own.toml", tmp_path / "out"
    config.write_text("[params]\nslow = 60")
    fixed = ("--config", config, "--set", "slow=30")
    assert swept("--data", data, *fixed, "--range", "fast=2..8:3", "--out", out) == 0
    command = json.loads((out / "result.json").read_text())["best"][0]["command"]
    assert "--set slow=30" in command
    assert cli.run([*command.split()[1:], "--out", str(tmp_path / "one")]) == 0
    assert load(tmp_path / "one").metrics["sharpe"] == points_of(out)["sharpe"].to_numpy().max()


def test_trades_of_a_point_of_an_earlier_sweep_do_not_stay(data, tmp_path):
    """They passed for those of the point that now has this number."""
    out = tmp_path / "out"
    arguments = ("--data", data, "--range", "slow=30", "--out", out)
    assert swept(*arguments, "--range", "fast=2..8:3", "--trades", 0, "--trades", 1) == 0
    (out / "trades-mine.parquet").touch()
    assert swept(*arguments, "--range", "fast=3..9:3", "--trades", 1) == 0
    kept = {path.name for path in out.glob("trades-*.parquet")}
    assert kept == {"trades-1.parquet", "trades-mine.parquet"}


def test_params_named_as_columns_are_told_from_them(data, tmp_path):
    """The table of several files could not be read, and a param passed for a metric."""
    strategy, out = tmp_path / "own.qdsl", tmp_path / "out"
    text = STRATEGY.read_text().replace("fast", "instrument").replace("slow", "turnover")
    strategy.write_text(text)
    other = tmp_path / "other.parquet"
    other.write_bytes(data.read_bytes())
    ranges = ("--range", "instrument=2..8:3", "--range", "turnover=30", "--metrics", "sharpe")
    assert swept("--data", f"{data},{other}", *ranges, "--out", out, strategy=strategy) == 0
    assert points_of(out)["instrument"].unique().to_pylist() == ["bars", "other"]
    assert points_of(out)["param.instrument"].unique().to_pylist() == [2, 5, 8]
    best = json.loads((out / "bars/result.json").read_text())["best"][0]
    assert [*best["metrics"]] == ["sharpe"]
    assert [*best["params"]] == ["instrument", "turnover"]


def test_the_best_point_of_data_named_by_a_number_is_a_config(data, tmp_path, monkeypatch):
    """`path = 2024` was no text."""
    monkeypatch.chdir(tmp_path)
    Path("2024").mkdir()
    data.rename("2024/bars.parquet")
    assert swept("--data", "2024", *RANGES, "--out", "out", "--save-best", "best.toml") == 0
    again = ["backtest", str(STRATEGY), "--config", "best.toml", "--from", "2020-01-01T01:31:00Z"]
    assert cli.run([*again, "--out", "one"]) == 0


def test_a_place_for_the_best_point_that_cannot_be_written_is_refused_before_the_run(
    data, tmp_path, capfd
):
    best = tmp_path / "missing" / "best.toml"
    assert swept("--data", data, *RANGES, "--out", tmp_path / "out", "--save-best", best) == 2
    assert capfd.readouterr().err == f"error: {best}: No such file or directory\n"
    assert list(tmp_path.iterdir()) == [data]


def _of_point(table: pa.Table, number: int, column: str) -> float:
    row = table["point"].to_pylist().index(number)
    return float(table[column][row].as_py())


def test_the_shipped_config_runs_as_it_stands(data, tmp_path, capfd):
    shipped = ("--config", "sweep", "--out", tmp_path / "out")
    assert swept("--data", data, *RANGES, *shipped) == 0
    settings = (tmp_path / "out/result.json").read_text()
    assert '"sweep.bootstrap"' in settings
    assert points_of(tmp_path / "out")["fees"].to_numpy().min() > 0
    assert "times" in capfd.readouterr().out


def test_equal_sweeps_leave_equal_files(data, tmp_path):
    for name in ("one", "two"):
        assert swept("--data", data, *RANGES, "--out", tmp_path / name) == 0
    for file in ("points.parquet", "points.arrow", "report.html", MANIFEST):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


class Stopping(CpuRunner):
    """Ctrl-C comes after so many chunks."""

    def __init__(self, chunks: int) -> None:
        super().__init__(threads=1)
        self.chunks = chunks

    def run(self, work, lo, hi, finished):
        done = 0

        def counted(*block):
            nonlocal done
            finished(*block)
            done += 1
            if done == self.chunks:
                raise KeyboardInterrupt

        super().run(work, lo, hi, counted)


def test_a_sweep_of_few_metrics_is_shown_by_these(data, tmp_path, capfd):
    out = tmp_path / "out"
    assert swept("--data", data, *RANGES, "--out", out, "--metrics", "fees, exposure") == 0
    told, page = capfd.readouterr().out, (out / "report.html").read_text()
    assert points_of(out).column_names == ["point", "fast", "slow", "exposure", "sharpe", "fees"]
    for text in (told, page):
        assert "Sharpe" in text
        assert "Profit factor" not in text


def test_ctrl_c_in_the_walk_forward_leaves_the_points(data, tmp_path, capfd, monkeypatch):
    out, walk = tmp_path / "out", ("--walk-forward", "train=1d test=1d")
    arguments = ("--data", data, *RANGES, "--out", out, *walk)

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("quantdsl.backtest.conduct.walk_forward", stopped)
    assert swept(*arguments) == 130
    told = capfd.readouterr()
    assert "28 of 28 points are done and written, the walk-forward is not; the same" in told.err
    assert "the walk-forward was stopped" in " ".join(told.out.split())
    assert points_of(out).num_rows == POINTS
    monkeypatch.undo()
    assert swept(*arguments, "--resume") == 0
    assert swept("--data", data, *RANGES, "--out", tmp_path / "whole", *walk) == 0
    for name in ("report.html", "result.json", "points.parquet"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize(
    ("raised", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted: what is computed is kept in"),
        (OSError(28, "No space left on device", "x"), 2, "error: x: No space left on device"),
    ],
)
def test_what_ends_the_statistics_tells_that_the_lanes_are_kept(
    data, tmp_path, capfd, monkeypatch, raised, status, words
):
    walk = ("--walk-forward", "train=1d test=1d")
    arguments = ("--data", data, *RANGES, "--out", tmp_path / "out", *walk)

    def stopped(*_, **__):
        raise raised

    monkeypatch.setattr("quantdsl.backtest.conduct.study_on", stopped)
    assert swept(*arguments) == status
    said = capfd.readouterr().err
    assert words in said
    assert "the same command with --resume goes on" in said
    monkeypatch.undo()
    ran = []
    monkeypatch.setattr(CpuRunner, "run", _counting(CpuRunner.run, ran))
    assert swept(*arguments, "--resume") == 0
    assert not ran  # the training of the walk-forward is kept too
    assert not [*(tmp_path / "out").glob("window-*")]


def test_ctrl_c_leaves_a_partial_sweep_that_goes_on(data, tmp_path, capfd, monkeypatch):
    out = tmp_path / "out"
    arguments = ("--data", data, *RANGES, "--out", out)
    monkeypatch.setattr("quantdsl.backtest.conduct.runner", lambda *_: Stopping(1))
    assert swept(*arguments) == 130
    said = capfd.readouterr().err
    assert "interrupted: 16 of 28 points are done and written" in said
    assert "--resume goes on" in said
    assert points_of(out).num_rows == 16
    monkeypatch.undo()
    ran = []
    monkeypatch.setattr(CpuRunner, "run", _counting(CpuRunner.run, ran))
    assert swept(*arguments, "--resume") == 0
    assert ran[-1] == POINTS - 16  # before it perhaps the columns
    assert swept("--data", data, *RANGES, "--out", tmp_path / "whole") == 0
    assert points_of(out).equals(points_of(tmp_path / "whole"))
    assert (out / "report.html").read_bytes() == (tmp_path / "whole/report.html").read_bytes()
    capfd.readouterr()
    assert swept(*arguments, "--resume", "--trades", 0) == 0
    assert capfd.readouterr().out == f"{out} is complete and left as it is\n"
    assert (out / "trades-0.parquet").exists()
    assert swept(*arguments, "--resume", "--objective", "sortino") == 0  # is not what lies there
    assert json.loads((out / "result.json").read_text())["objective"] == "sortino"


def test_a_device_that_fails_reports_nothing_as_complete(data, tmp_path, capfd, monkeypatch):
    out = tmp_path / "out"

    class Failing(Stopping):
        def run(self, work, lo, hi, finished):
            try:
                super().run(work, lo, hi, finished)
            except KeyboardInterrupt:
                raise DeviceError("cuda:0: cuLaunchKernel failed", "launch") from None

    monkeypatch.setattr("quantdsl.backtest.conduct.runner", lambda *_: Failing(1))
    arguments = ("--data", data, *RANGES, "--out", out)
    assert swept(*arguments) == 2
    assert "cuLaunchKernel failed" in capfd.readouterr().err
    assert sorted(path.name for path in out.iterdir()) == [FOLDER, MANIFEST]
    monkeypatch.undo()
    assert swept(*arguments, "--resume") == 0
    assert points_of(out).num_rows == POINTS


@pytest.mark.parametrize("error", [MemoryError("3.00 GiB for an array"), OSError(28, "no space")])
def test_a_full_memory_or_disk_is_a_message(error, data, tmp_path, capfd, monkeypatch):
    def full(*_):
        raise error

    monkeypatch.setattr(CpuRunner, "run", full)
    assert swept("--data", data, *RANGES, "--out", tmp_path / "out") == 2
    told = capfd.readouterr().err
    assert "not enough memory: 3.00 GiB" in told or "no space" in told
    assert not (tmp_path / "out/points.parquet").exists()


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_a_profile_and_its_trace(device, data, tmp_path, capfd):
    asked = "--data", data, *RANGES, "--device", device, "--out", tmp_path / "out", "--profile"
    assert swept(*asked) == 0
    told = capfd.readouterr().out
    _, row = told[told.index("part ") :].splitlines()
    assert row.split()[:2] == ["lanes", device]
    trace = json.loads((tmp_path / "out/trace.json").read_text())
    ran = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(ran) == int(row.split()[2])
    assert min(event["args"]["lane_steps"] for event in ran) > 0


def _counting(real, ran):
    def run(self, work, lo, hi, finished):
        ran.append(hi - lo)
        real(self, work, lo, hi, finished)

    return run


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("--range", "slow=30..90:10"), "the ranges, the params or the points"),
        (("--points", "random:9"), "the ranges, the params or the points"),
        (("--to", "2020-01-02"), "the data, their span, bars or session"),
        (("--bars", "5m"), "the data, their span, bars or session"),
        (
            ("--config", "borrow.toml"),
            "the strategy, its bars or settings that it is compiled for",
        ),
        (("--from", "2020-01-01T05:00"), "the settings"),
        (("--metrics", "fees, exposure"), "the metrics"),
    ],
)
def test_another_sweep_is_not_resumed(changed, said, data, tmp_path, capfd, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.chdir(tmp_path)
    Path("borrow.toml").write_text("[account]\nborrow_bps = 50\n")
    monkeypatch.setattr("quantdsl.backtest.conduct.runner", lambda *_: Stopping(1))
    assert swept("--data", data, *RANGES, "--out", out) == 130
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capfd.readouterr()
    kept = RANGES[:2] if changed[0] == "--range" else RANGES
    assert swept("--data", data, *kept, *changed, "--out", out, "--resume") == 2
    error = capfd.readouterr().err
    assert f"holds another sweep: since then {said} changed" in error
    assert "start anew without --resume" in error
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_part_that_a_full_disk_refuses_is_named_and_leaves_nothing(data, tmp_path):
    sweep = prepare_sweep(compile_file(STRATEGY), STRATEGY, data=data)
    parts = Parts(tmp_path, sweep.manifest())
    parts.begin()
    parts.add(np.arange(100), np.zeros((len(sweep.code.words), 100), np.int64))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as refused:
            parts.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert Path(refused.value.filename).parent == tmp_path / FOLDER
    assert not list((tmp_path / FOLDER).iterdir())


@pytest.mark.parametrize("files", ["{},", ",{}", "{0},,{0}", ","])
def test_a_file_without_a_name_is_not_the_built_in_market(files, data, tmp_path, capfd):
    assert swept("--data", files.format(data), *RANGES, "--out", tmp_path / "out") == 2
    assert "a file's name is missing at a comma" in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_second_sweep_into_a_folder_that_one_writes_to_is_refused(data, tmp_path, capfd):
    out = tmp_path / "out"
    sweep = prepare_sweep(compile_file(STRATEGY), STRATEGY, data=data)
    first = Parts(out, sweep.manifest())
    first.take()
    assert swept("--data", data, *RANGES, "--out", out) == 2
    assert f"{out}: another sweep is writing into it" in capfd.readouterr().err
    assert [path.name for path in out.iterdir()] == [FOLDER]
    first.release()
    assert swept("--data", data, *RANGES, "--out", out) == 0


def test_a_damaged_part_counts_as_not_done(data, tmp_path):
    sweep = prepare_sweep(
        compile_file(STRATEGY), STRATEGY, data=str(data), ranges={"fast": "2..20:3", "slow": "30"}
    )
    whole = run(sweep, CpuRunner())
    parts = Parts(tmp_path, sweep.manifest())
    parts.begin()
    for lo in (0, 3):
        parts.add(np.arange(lo, lo + 3), whole.words[:, lo : lo + 3])
        parts.flush()
    files = sorted((tmp_path / FOLDER).glob("*.npy"))
    assert len(files) == 2
    files[0].write_bytes(files[0].read_bytes()[:-8])
    (tmp_path / FOLDER / "left.part").write_bytes(b"half")
    again = run(sweep, CpuRunner(), parts=Parts(tmp_path, sweep.manifest()), resume=True)
    assert again.complete
    assert np.array_equal(again.words, whole.words)


CHILD = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
from quantdsl.backtest import sweep_parts
from quantdsl.devices.cpu import CpuRunner
from quantdsl.errors import DeviceError
from quantdsl import cli
sweep_parts.FLUSH_S = 0.0
class Halting(CpuRunner):
    def run(self, work, lo, hi, finished):
        blocks = []
        def halting(*block):
            finished(*block)
            blocks.append(block)
            if len(blocks) == 2:
                time.sleep(3600)  # the signal comes here
        super().run(work, lo, hi, halting)
import quantdsl.backtest.conduct as conduct
conduct.runner = lambda *_: Halting(threads=1)
sys.exit(cli.run(sys.argv[1:]))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_sweep_goes_on_where_it_was(how, data, tmp_path):
    out = tmp_path / "out"
    ranges = ("--range", "fast=2..20:1", "--range", "slow=30..90:10")
    arguments = ["sweep", str(STRATEGY), "--device", "cpu", "--data", str(data), *ranges]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments, "--out", str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: len(list((out / FOLDER).glob("*.npy"))) >= 2, child.poll)
    child.send_signal(how)
    assert child.wait(WAIT_S) == (-9 if how == signal.SIGKILL else 130)
    assert (out / "points.parquet").exists() == (how == signal.SIGINT)
    kept = len(list((out / FOLDER).glob("*.npy")))
    assert kept >= 2
    assert cli.run([*arguments, "--out", str(out), "--resume"]) == 0
    assert cli.run([*arguments, "--out", str(tmp_path / "whole")]) == 0
    assert points_of(out).equals(points_of(tmp_path / "whole"))
    assert not (out / FOLDER).exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--range", "fast=50..5:5"), "fast=50..5:5: the range is empty"),
        (("--range", "fast=5%..50%:5%"), "fast = 5%: a number is needed"),
        (("--range", "fats=5..50:5"), "no param 'fats'; did you mean fast?"),
        (("--range", "fast"), "--range fast sets nothing"),
        (("--range", "fast=2", "--range", "fast=5"), "--range gives fast twice"),
        (("--set", "fast=5..50:5"), "fast=10; several are given to a sweep, by --range"),
        (("--set", "fast=5", "--range", "fast=2..5"), "is given a value and a range"),
        (("--range", "fast=90", "--range", "slow=30..60:10"), "none of the 4 points"),
        (("--objective", "sharp"), "has such a metric; did you mean sharpe?"),
        (("--metrics", "all"), "help: leave it out for all, or take one of total_return"),
        (("--points", "all"), "write grid, random:N or sobol:N"),
        (("--device", "tpu"), "--device tpu: there is no such device"),
        (("--from", "2031-01-01"), "the data end"),
        (("--to", "2010-01-01"), "there is no bar to run on"),
        (("--trades", "999999"), "point 999999 is not in this sweep"),
        (("--set", "fast=5", "--set", "slow=30"), "there is nothing to sweep"),
        (("--data", "b.csv"), ".parquet,b.csv"),
    ],
)
def test_bad_input_is_one_clear_message_and_writes_nothing(arguments, said, data, tmp_path, capfd):
    assert swept("--data", data, *arguments, "--out", tmp_path / "out") == 2
    error = capfd.readouterr().err
    assert error.startswith("error")
    assert said in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--device", "cuda:99"), "device cuda:99: "),
        (("--device", "tpu"), "--device tpu: there is no such device"),
        (("--objective", "sharp"), "has such a metric; did you mean sharpe?"),
        (("--points", "all"), "write grid, random:N or sobol:N"),
        (("--choose", "steady"), "--choose steady: there is no span to choose on"),
        (("--walk-forward", "train=2y"), "--walk-forward train=2y: it needs a length for train"),
    ],
)
def test_what_no_data_can_mend_is_said_before_they_are_read(arguments, said, tmp_path, capfd):
    damaged = tmp_path / "bars.csv"
    damaged.write_text("no,bars\n")
    assert swept("--data", damaged, *RANGES, *arguments) == 2
    error = capfd.readouterr().err
    assert said in error
    assert "bars.csv" not in error
    assert swept("--data", damaged, *RANGES) == 2
    assert "bars.csv: no column for time" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[sweep.ranges]\nfast = "2..8:2"\nslwo = "30"', ":3: sweep.ranges.slwo: the strategy has"),
        ('[sweep]\nranges = { slwo = "30" }', ":2: sweep.ranges.slwo: the strategy has"),
        ('[sweep.ranges]\nslow = "9..8"', ":2: sweep.ranges.slow: range slow=9..8: the range is"),
        ("[params]\nslwo = 30", ":2: params.slwo: the strategy has no param"),
    ],
)
def test_a_param_that_a_config_misspells_is_told_with_its_line(text, said, tmp_path, capfd):
    config, damaged = tmp_path / "own.toml", tmp_path / "bars.csv"
    config.write_text(text)
    damaged.write_text("no,bars\n")
    assert swept("--data", damaged, "--config", config) == 2
    error = capfd.readouterr().err
    assert error.startswith(f"error: {config}{said}")
    assert "slwo" not in text or "did you mean slow?\nhelp: its params are fast, slow" in error


def test_too_little_memory_is_said_before_anything_runs(data, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("quantdsl.backtest.sweep.available_bytes", lambda: 1 << 10)
    assert swept("--data", data, *RANGES, "--out", tmp_path / "out") == 2
    error = capfd.readouterr().err
    assert "the results of 28 points need" in error
    assert "--points random:N" in error
    assert not (tmp_path / "out").exists()


def test_several_files_are_swept_one_by_one(data, tmp_path, capfd):
    """A strategy of one instrument has an account for each file; pairs share one."""
    other = tmp_path / "other.parquet"
    pq.write_table(market(3_000), other)
    out = tmp_path / "out"
    arguments = ("--data", f"{data},{other}", *RANGES, "--out", out)
    assert swept(*arguments) == 0
    table = points_of(out)
    assert table["instrument"].to_pylist() == ["bars"] * POINTS + ["other"] * POINTS
    alone = points_of(out / "other")
    assert table.drop_columns("instrument").slice(POINTS).equals(alone)
    assert swept("--data", other, *RANGES, "--out", tmp_path / "alone") == 0
    assert points_of(tmp_path / "alone").equals(alone)
    capfd.readouterr()
    assert swept(*arguments, "--resume") == 0
    assert capfd.readouterr().out.count("is complete") == 2
    assert points_of(out).equals(table)
    more = ("--trades", 0, "--save-best", tmp_path / "best.toml")  # which nobody asked for so far
    assert swept(*arguments, "--resume", *more) == 0
    assert (out / "other/trades-0.parquet").is_file()
    assert capfd.readouterr().out.count(".toml is written by a run without --resume") == 2
    assert swept(*arguments, "--resume", "--bootstrap", 10) == 0  # which nobody made so far
    assert "bootstrap" in json.loads((out / "other/result.json").read_text())["statistics"]
    pair = ROOT / "strategies/pairs_z.qdsl"
    subset = ("--data", f"{data},{other}", "--points", "random:3", "--out", tmp_path / "pair")
    assert swept(*subset, "--session", "none", "--bars", "1m", strategy=pair) == 0
    assert "whose cash 2 instruments share" in capfd.readouterr().out


def test_files_of_one_name_have_a_folder_each_whatever_another_is_called(data, tmp_path):
    """The third was written over the first."""
    files = [tmp_path / "x/a.parquet", tmp_path / "y/a.parquet", tmp_path / "a-1.parquet"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        pq.write_table(market(300 + 100 * len(file.parts)), file)
    out, ranges = tmp_path / "out", ("--range", "fast=5", "--range", "slow=30..90:20")
    assert swept("--data", ",".join(map(str, files)), *ranges, "--out", out) == 0
    names = points_of(out)["instrument"].unique().to_pylist()
    assert names == ["a-1", "a-2", "a-1-3"]
    assert {path.name for path in out.iterdir() if path.is_dir()} == {*names}


def test_a_second_file_that_is_not_there_is_said_before_the_first_is_swept(data, tmp_path, capfd):
    out = tmp_path / "out"
    assert swept("--data", f"{data},{tmp_path}/none.csv", *RANGES, "--out", out) == 2
    assert "none.csv: there is no such file or folder" in capfd.readouterr().err
    assert not out.exists()


def test_what_to_choose_on_no_span_is_refused(data, tmp_path, capfd):
    out = tmp_path / "out"
    assert swept("--data", data, *RANGES, "--choose", "steady", "--out", out) == 2
    assert "--choose steady: there is no span to choose on" in capfd.readouterr().err
    assert not out.exists()


def test_a_walk_forward_without_surroundings_says_that_the_best_points_were_chosen(
    data, tmp_path, capfd
):
    pq.write_table(market(5_000), data)
    walk = "--walk-forward", "train=1d test=1d", "--choose", "steady", "--out", tmp_path / "out"
    for points, chose in (("grid", "point with the best surroundings"), ("sobol:2", "best point")):
        assert swept("--data", data, *RANGES, "--points", points, *walk) == 0
        told = " ".join(capfd.readouterr().out.split())
        assert f"windows the {chose} over 1 day" in told
        assert ("none has surroundings" in told) == (points != "grid")


def test_files_that_are_too_short_are_named_before_the_first_is_swept(data, tmp_path, capfd):
    short = tmp_path / "short.csv"
    rows = "".join(f"2024-01-02 15:0{minute},100\n" for minute in range(3))
    short.write_text(f"time,close\n{rows}")
    out = tmp_path / "out"
    assert swept("--data", f"{data},{short}", *RANGES, "--out", out) == 2
    error = capfd.readouterr().err
    assert "1 of 2 files cannot be swept" in error
    assert f"{short}: the data are too short for this sweep" in error
    assert not out.exists()
    assert swept("--data", short, *RANGES, "--out", out) == 2
    assert f"{short}: the data are too short for this sweep" in capfd.readouterr().err


def test_a_file_without_spans_to_walk_is_named_before_the_first_is_swept(data, tmp_path, capfd):
    short, out = tmp_path / "short.parquet", tmp_path / "out"
    pq.write_table(market(1_200), short)
    pq.write_table(market(5_000), data)
    files = ("--data", f"{data},{short}", "--walk-forward", "train=1d test=1d")
    assert swept(*files, *RANGES, "--out", out) == 2
    error = capfd.readouterr().err
    assert f"error: {short}: the data are too short to train for 1 day" in error
    assert not out.exists()


def test_files_of_other_bars_are_named_before_the_first_is_swept(data, tmp_path, capfd):
    hours, days = tmp_path / "hours.csv", tmp_path / "days.csv"
    for path, times in (
        (hours, [f"2024-01-02 {hour:02}:00" for hour in range(24)]),
        (days, [f"2024-01-{day:02}" for day in range(1, 29)]),
    ):
        path.write_text("time,close\n" + "".join(f"{time},100\n" for time in times))
    out = tmp_path / "out"
    assert swept("--data", f"{data},{hours},{days}", *RANGES, "--out", out) == 2
    error = " ".join(capfd.readouterr().err.split())
    assert "2 of 3 files cannot be swept" in error
    assert f"{hours}: holds bars of 1h and the strategy asks for bars of 1m" in error
    assert f"{days}: holds bars of 1d and the strategy asks for bars of 1m" in error
    assert not out.exists()
