"""What a sweep finds in its folder and beside it, and what it leaves there."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import quantdsl
from quantdsl import cli
from tests.cli.test_sweep import RANGES, STRATEGY, Stopping, swept
from tests.truth.test_oracle import market


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "bars.parquet"
    pq.write_table(market(2_000), path)
    return path


def test_what_sweeps_left_goes_before_several_files_are_swept(data, tmp_path, monkeypatch):
    """Ctrl-C left the table of all files of an earlier run, and the report of one file's sweep."""
    other, out = tmp_path / "other.parquet", tmp_path / "out"
    other.write_bytes(data.read_bytes())
    both = ("--data", f"{data},{other}", *RANGES, "--out", out)
    assert swept("--data", data, *RANGES, "--out", out, "--trades", 20) == 0
    kept = {path.name for path in out.iterdir()}
    assert swept(*both, "--trades", 9999) == 2  # what is refused takes nothing away
    assert {path.name for path in out.iterdir()} == kept
    assert swept(*both) == 0
    names = {"bars", "other", "points.arrow", "points.parquet"}
    assert {path.name for path in out.iterdir()} == names
    monkeypatch.setattr("quantdsl.backtest.conduct.runner", lambda *_: Stopping(1))
    assert swept(*both) == 130
    assert {path.name for path in out.iterdir()} == {"bars", "other"}


def test_what_no_sweep_left_stays(data, tmp_path):
    """The report of a backtest was taken away, and files that are only called like a sweep's."""
    other, out = tmp_path / "other.parquet", tmp_path / "out"
    other.write_bytes(data.read_bytes())
    out.mkdir()
    own = {"report.html", "trace.json", "trades-7.parquet"}
    for name in own:
        (out / name).touch()
    assert swept("--data", f"{data},{other}", *RANGES, "--out", out) == 0
    assert own <= {path.name for path in out.iterdir()}
    ranges = dict(one.split("=") for one in RANGES[1::2])
    quantdsl.sweep(STRATEGY, str(data), ranges=ranges, device="cpu", out=out)
    assert own <= {path.name for path in out.iterdir()}


def test_the_trace_of_an_earlier_sweep_does_not_stay(data, tmp_path):
    out = tmp_path / "out"
    assert swept("--data", data, *RANGES, "--out", out, "--profile", "--trades", 20) == 0
    assert (out / "trace.json").exists()
    ranges = dict(one.split("=") for one in RANGES[1::2])
    quantdsl.sweep(STRATEGY, str(data), ranges=ranges, device="cpu", out=out)
    assert not [*out.glob("trace*"), *out.glob("trades-*")]


def test_a_best_point_of_no_objective_is_not_said_to_be_the_best(data, tmp_path):
    """Its file said "The best of 28 points by sharpe"."""
    best = tmp_path / "best.toml"
    ends = ("--to", "2020-01-01T01:33:00Z")  # two bars, in which nothing is traded
    arguments = ("--data", data, *RANGES, *ends, "--out", tmp_path / "out")
    assert swept(*arguments, "--save-best", best) == 0
    assert best.read_text().startswith(
        "# sharpe is not defined for any point: the first of 28. Run it with:\n"
    )


def test_the_best_point_never_takes_the_place_of_what_is_read(data, tmp_path, capfd):
    """The config of the sweep, or its data, were lost."""
    config = tmp_path / "own.toml"
    config.write_text("[sweep]\ntop = 3\n")
    before = data.read_bytes()
    arguments = ("--data", data, "--config", config, *RANGES, "--out", tmp_path / "out")
    for best in (config, data):
        assert swept(*arguments, "--save-best", best) == 2
        assert f"{best}: is what this command reads, and would be lost" in capfd.readouterr().err
    assert config.read_text() == "[sweep]\ntop = 3\n"
    assert data.read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_a_range_of_a_config_that_another_replaces_is_not_looked_at(data, tmp_path, capfd):
    """It was refused, with the very --range that was to mend it."""
    config = tmp_path / "own.toml"
    config.write_text('[sweep.ranges]\nfast = "2..2_000_000:3"\nslow = "30..90:20"\n')
    arguments = ("--data", data, "--config", config, "--out", tmp_path / "out")
    assert swept(*arguments) == 2
    assert f"{config}:2: sweep.ranges.fast: " in capfd.readouterr().err
    for replaced in (("--range", "fast=2,5"), ("--set", "fast=2")):
        assert swept(*arguments, *replaced) == 0


def test_a_folder_of_another_kind_is_told(data, tmp_path, capfd):
    """It was "no session", and that alone, where its page was there already."""
    point, both, run = tmp_path / "point", tmp_path / "both", tmp_path / "run"
    other = tmp_path / "other.parquet"
    other.write_bytes(data.read_bytes())
    assert swept("--data", data, *RANGES, "--out", point) == 0
    assert swept("--data", f"{data},{other}", *RANGES, "--out", both) == 0
    assert cli.run(["backtest", str(STRATEGY), "--data", str(data), "--out", str(run)]) == 0
    capfd.readouterr()
    of_sweep = "it holds a sweep of OracleSma, 28 points, as 'quantdsl sweep "
    takers = ("report", "halt", "replay", "journal verify")
    for folder, page in ((point, point / "report.html"), (both, both / "bars" / "report.html")):
        for words in (*takers, f"compare {run}"):
            assert cli.run([*words.split(), str(folder)]) == 2
            said = capfd.readouterr().err
            assert of_sweep in said
            assert f" is {page}; the command beside a point there makes it a run" in said
            assert "such as: quantdsl backtest" in said
    for words in takers:
        assert cli.run([*words.split(), str(run)]) == 2
        said = capfd.readouterr().err
        assert f"it holds a run of OracleSma, as 'quantdsl backtest {STRATEGY}'" in said
        assert f"its page is {run / 'report.html'}" in said
    (run / "metrics.json").unlink()
    assert cli.run(["compare", str(run), str(run)]) == 2
    assert "it has no metrics.json" in capfd.readouterr().err
    (point / "result.json").write_text("{}")
    assert cli.run(["report", str(point)]) == 2
    assert "help: name the folder of a session" in capfd.readouterr().err
