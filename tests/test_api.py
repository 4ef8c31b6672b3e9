"""The Python API: the same run as the command line, from any table, with tables out."""

import datetime as dt
import os
import re
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import quantdsl
from quantdsl import cli
from quantdsl.errors import ConfigError, DataError, LimitError
from quantdsl.lang.diagnostics import SourceError
from quantdsl.report.html import framed
from quantdsl.shipped import shipped
from tests.tables import Streamed, hourly

STRATEGY = """language 1

strategy Cross:
    bars 1h
    param fast = 5 in 2..10 step 1

    on bar:
        if flat and ta.sma(close, fast) crosses above ta.sma(close, 20):
            buy(10 shares)
        elif long and close crosses below ta.sma(close, 20):
            close_position()
"""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return hourly(2_000)


def test_any_table_gives_the_same_run(table, tmp_path):
    pq.write_table(table, tmp_path / "bars.parquet")
    forms = table, table.to_pandas(), Streamed(table), tmp_path / "bars.parquet"
    reports = [quantdsl.backtest(STRATEGY, form) for form in forms]
    assert reports[0].trades.num_rows > 10
    for report in reports[1:]:
        named = [one.trades.drop_columns("instrument") for one in (report, reports[0])]
        assert named[0].equals(named[1])  # only a file gives the instrument its name
        assert report.equity.equals(reports[0].equity)


def test_a_start_is_a_text_or_a_date_of_python_pandas_or_numpy(table):
    strategy = quantdsl.compile(STRATEGY)
    middle = pd.Timestamp(table["time"][1_000].as_py(), unit="s", tz="UTC")
    of_numpy = middle.tz_localize(None).to_numpy()
    forms = [middle.isoformat(), middle, middle.to_pydatetime(), of_numpy]
    runs = [strategy.backtest(table, start=form).equity for form in forms]
    assert 0 < runs[0].num_rows < table.num_rows
    assert all(run.equals(runs[0]) for run in runs[1:])
    day = dt.date(middle.year, middle.month, middle.day)
    ends = (day, str(day), np.datetime64(day))
    early, *same = (strategy.backtest(table, end=end).equity for end in ends)
    assert 0 < early.num_rows < table.num_rows
    assert all(one.equals(early) for one in same)
    month = np.datetime64("2023-12")
    assert strategy.backtest(table, start=month).equity["time"][0].as_py().month == 12


def test_a_compiled_strategy_runs_again_with_other_params(table):
    strategy = quantdsl.compile(STRATEGY)
    assert strategy.name == "Cross"
    assert strategy.params == {"fast": 5.0}
    assert any("QD0806" in line for line in strategy.warnings)
    slow, quick = strategy.backtest(table), strategy.backtest(table, fast=2)
    assert slow.result.params == {"fast": "5"}
    assert quick.result.params == {"fast": "2"}
    assert not slow.trades.equals(quick.trades)
    assert "Cross" in repr(quick)
    with pytest.raises(ConfigError, match="fsat"):
        strategy.backtest(table, fsat=2)


def test_a_report_holds_tables_figures_and_its_page(table, tmp_path):
    report = quantdsl.backtest(STRATEGY, table)
    assert report.metrics["trades"] == report.trades.num_rows
    assert isinstance(report.trades.to_pandas(), pd.DataFrame)
    assert report.orders.num_rows >= report.fills.num_rows > 0
    assert report.days.num_rows > 80
    assert "<iframe" in report._repr_html_()
    assert report.save(tmp_path / "run").read_text().startswith("<!doctype html>")
    (entry,) = os.scandir(tmp_path)  # a path of another kind
    assert report.save(entry) == tmp_path / "run/report.html"


def test_it_is_the_run_of_the_command_line(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(table, "bars.parquet")
    Path("cross.qdsl").write_text(STRATEGY)
    assert cli.run(["backtest", "cross.qdsl", "--data", "bars.parquet", "--out", "shell"]) == 0
    quantdsl.backtest("cross.qdsl", "bars.parquet").save("python")
    for path in Path("shell").iterdir():
        shell = path.read_bytes().replace(b"command line", b"Python")  # who chose the data
        assert shell == (Path("python") / path.name).read_bytes(), path.name


def test_settings_are_those_of_a_file_that_holds_them(table, tmp_path):
    """By sections or by keys; what an argument of its own says counts before."""
    path, strategy = tmp_path / "own.toml", quantdsl.compile(STRATEGY)
    path.write_text('[account]\ncash = 5e4\n[fees]\ntaker_bps = 3.5\n[data]\nto = "2024-01-15"\n')
    sections = {"account": {"cash": 5e4}, "fees": {"taker_bps": 3.5}}
    given = [path, {**sections, "data.to": dt.date(2024, 1, 15)}]
    one, other = (strategy.backtest(table, config=config) for config in given)
    assert one.fills.num_rows
    assert one.fills == other.fills
    assert one.fills != strategy.backtest(table).fills
    chosen = {s.name: s.source for s in other.result.settings if s.source != "default"}
    assert chosen == dict.fromkeys(["account.cash", "fees.taker_bps", "data.to"], "Python")
    assert one.metrics.items() == other.metrics.items()
    cut = strategy.backtest(table, config={**sections, "data.to": "1999-01-01"}, end="2024-01-15")
    assert cut.equity["time"] == one.equity["time"]
    sweeps = [strategy.sweep(table, config=config, points="random:3") for config in given]
    assert sweeps[0].table == sweeps[1].table
    assert "--config FILE" in sweeps[1].result.rerun
    assert "--config" not in strategy.sweep(table, points="random:3", seed=None).result.rerun
    odd = {"fees": MappingProxyType({"taker_bps": np.float64(3.5)}), "data": {"path": None}}
    same = [strategy.backtest(table, config={**sections, "report": None, **one}).fills
            for one in ({}, odd, {"params": {"fast": np.int64(5)}})]
    assert same[0] == same[1] == same[2]
    for wrong, said in [({"fees": {"taker": 1}}, "unknown key 'fees.taker'; did you mean"),
                        ({"fees": 1}, "fees is a section, not a value\nhelp: it has taker_bps, m"),
                        ({"fees.taker_bps": -1}, "fees.taker_bps is -1 but must be a number")]:
        with pytest.raises(ConfigError, match=f"^Python: {said}"):
            strategy.backtest(table, config=wrong)


def test_a_wrong_strategy_is_a_source_error():
    with pytest.raises(SourceError, match="did you mean close_position"):
        quantdsl.compile(STRATEGY.replace("close_position", "close_positon"))


@pytest.mark.parametrize("call", [quantdsl.compile, quantdsl.backtest, quantdsl.kernel])
def test_what_is_no_file_is_an_error_of_ours(call, tmp_path):
    with pytest.raises(quantdsl.QuantDSLError, match=r"^nope.qdsl: there is no such file$"):
        call("nope.qdsl")
    with pytest.raises(quantdsl.QuantDSLError, match="cannot be read: Is a directory"):
        call(tmp_path)
    with pytest.raises(quantdsl.QuantDSLError, match=r"^3 is no strategy"):
        call(3)
    with pytest.raises(quantdsl.QuantDSLError, match=r"^'a\\x00b' is no name of a file$"):
        call("a\0b")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"config": 5}, "config = 5 is no config\nhelp: give a file, the name"),
        ({"config": "nope"}, "nope: there is no such file. Shipped: "),
        (
            {"config": {"fees": {"taker_bps": 1}, "fees.taker_bps": 2}},
            "config gives fees.taker_bps twice: 1 and 2, once in its section",
        ),
        ({"benchmark": pd.DataFrame()}, "benchmark is a path, not a DataFrame"),
        ({"start": 20200103}, "start = 20200103 is no date"),
        ({"hosts": "os"}, r"hosts = 'os' is no list"),
        ({"hosts": None}, "hosts = None is no list"),
        ({"params": 5}, "params = 5 is no mapping"),
        ({"params": {"fast": 5}, "fast": 6}, "fast is given by its name and in params="),
    ],
)
def test_arguments_of_another_kind_are_errors_of_ours(given, said, table):
    strategy = quantdsl.compile(STRATEGY)
    for run in (strategy.backtest, strategy.signals):
        if run == strategy.backtest or "benchmark" not in given:
            with pytest.raises(ConfigError, match=said):
                run(table, **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ranges": "fast=2..5"}, "ranges = 'fast=2..5' is no mapping"),
        ({"ranges": {5: [1]}}, "is no mapping"),
        ({"params": 5}, "params = 5 is no mapping"),
        ({"out": 5}, "out is a path, not a int"),
        ({"progress": 5}, "progress is a function of points done and points in all, not 5"),
        ({"fast": 5}, "fast is a param of the strategy\nhelp: give params={'fast': VALUE}"),
    ],
)
def test_arguments_of_a_sweep_of_another_kind_are_errors_of_ours(given, said, table):
    with pytest.raises(ConfigError, match=re.escape(said)):
        quantdsl.sweep(STRATEGY, table, **given)


def test_params_and_shipped_configs_are_taken_as_on_the_command_line(table):
    strategy = quantdsl.compile(STRATEGY)
    shipped = {"config": "us_equities_minute"}
    by_name = strategy.backtest(table, fast=4, **shipped).equity
    assert strategy.backtest(table, params={"fast": 4}, **shipped).equity.equals(by_name)
    assert not strategy.backtest(table, fast=4).equity.equals(by_name)


def test_a_stream_is_read_once_and_serves_every_run(table):
    idle = quantdsl.compile(STRATEGY.replace("if flat and", "if flat and close < 0.0 and"))
    assert idle.backtest(table.to_reader()).metrics["trades"] == 0  # why is found in the data
    of_table, of_stream = (
        quantdsl.sweep(STRATEGY, data, ranges={"fast": "5,10"})
        for data in (table, table.to_reader())
    )
    assert of_stream.table.equals(of_table.table)
    assert of_stream.backtest(1).trades.equals(of_table.backtest(1).trades)


def test_a_list_of_a_file_for_each_instrument_is_told_how_to_say_so(table, tmp_path):
    files = [tmp_path / name for name in ("a.parquet", "b.parquet")]
    halves = table.slice(0, len(table) // 2), table.slice(len(table) // 2)
    for file, half in zip(files, halves, strict=True):
        pq.write_table(half, file)
    with pytest.raises(DataError, match="': a list of paths is parts of one table"):
        quantdsl.backtest(shipped("strategies/pairs_z.qdsl"), files)


@pytest.mark.parametrize("run", [quantdsl.backtest, quantdsl.sweep, quantdsl.signals])
def test_a_list_of_tables_is_an_error_of_ours(run, table):
    with pytest.raises(DataError, match="a list is of paths\nhelp: give one table"):
        run(STRATEGY, [table, table])


def test_what_arrow_cannot_read_is_an_error_of_ours(table):
    frame = table.to_pandas()
    for wrong in (frame["close"], pd.concat([frame, frame[["close"]]], axis=1)):
        with pytest.raises(DataError, match="cannot be read as a table"):
            quantdsl.backtest(STRATEGY, wrong)


def test_importing_the_package_loads_no_compiler_and_no_gpu():
    code = "import sys, quantdsl; print({'numba', 'llvmlite', 'cuda'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("first", ["quantdsl", "quantdsl.backtest.run"])
def test_the_package_is_the_function_whatever_is_imported_first(first):
    code = f"import {first}, quantdsl; assert callable(quantdsl.backtest); quantdsl.compile"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_the_package_names_is_there():
    assert set(quantdsl.__all__) <= set(quantdsl.__dir__())  # what a notebook completes
    for name in quantdsl.__all__:
        assert getattr(quantdsl, name) is not None
    with pytest.raises(AttributeError, match="paper"):
        _ = quantdsl.paper


def test_a_sweep_gives_a_table_and_the_backtests_of_its_points(table, tmp_path):
    found = quantdsl.sweep(STRATEGY, table, points="grid", device="cpu", objective="net_profit")
    assert found.table.num_rows == len(found) == 9
    assert found.table["fast"].to_pylist() == list(range(2, 11))
    best = found.best(2)
    profits = found.table["net_profit"].to_numpy()
    assert best["net_profit"].to_pylist() == sorted(profits.tolist(), reverse=True)[:2]
    report = found.backtest(0)
    assert report.metrics["net_profit"] == best["net_profit"][0].as_py()
    assert report.result.params["fast"] == found.params(0)["fast"]
    assert f"--set fast={found.params(0)['fast']}" in found.command(0)
    for rank in (-1, len(found)):
        with pytest.raises(ConfigError, match=f"^rank {rank}: the sweep has .* points, and the be"):
            found.params(rank)
    for call in (found.best, found.params, found.command, found.backtest):
        with pytest.raises(ConfigError, match=r"^(top|rank) = '2' is no whole number$"):
            call("2")
    for report in (found, found.backtest()):
        with pytest.raises(ConfigError, match=r"^folder is a path, not a int$"):
            report.save(5)
        with pytest.raises(ConfigError, match=r"^folder names nothing"):
            report.save("")
    assert "9 of 9 points" in repr(found)
    assert "<iframe" in found._repr_html_()
    assert found.save(tmp_path / "out").exists()
    assert pq.read_table(tmp_path / "out/points.parquet").equals(found.table)


def test_a_notebook_shows_the_page_that_is_saved(tmp_path):
    found = quantdsl.sweep(
        shipped("strategies/sma_cross.qdsl"),
        ranges={"fast": [5, 10]},
        params={"slow": 40, "stop_k": 2.5},
        walk_forward="train=9mo test=6mo",
        top=1,
    )
    saved = found.save(tmp_path).read_text()
    assert "walk-forward" in saved
    assert found._repr_html_() == framed(saved)


def test_a_sweep_takes_ranges_params_and_settings(table):
    strategy = quantdsl.compile(STRATEGY)
    done = []
    found = strategy.sweep(
        table,
        ranges={"fast": "2,4"},
        device="cpu",
        progress=lambda points, total: done.append((points, total)),
    )
    assert found.table["fast"].to_pylist() == [2, 4]
    assert done[-1] == (2, 2)
    with pytest.raises(ConfigError, match="there is nothing to sweep"):
        strategy.sweep(table, params={"fast": 3}, device="cpu")
    with pytest.raises(ConfigError, match="no setting ponits; did you mean points"):
        strategy.sweep(table, ponits="grid", device="cpu")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seed": -1}, '^Python: sweep.seed is -1 but must be'),
        ({"points": "all"}, "^points = all: write grid"),
        ({"objective": "x"}, "^objective = x: no point"),
        ({"metrics": ["x"]}, "^metrics = x: no point"),
        ({"walk_forward": "2y"}, "^walk_forward = 2y: it needs a length"),
        ({"choose": "best"}, "^choose = best: there is no span"),
        ({"device": "tpu"}, "^device = tpu: there is no such device"),
        ({"end": " "}, "^end names nothing"),
        ({"out": ""}, "^out names nothing"),
        ({"config": ""}, "^config names nothing"),
    ],
)
def test_settings_of_python_are_told_as_such(settings, said, table):
    """Not as those of a command line that nobody typed."""
    with pytest.raises(ConfigError, match=said):
        quantdsl.sweep(STRATEGY, table, **settings)


def test_a_sweep_takes_lists_of_values(table):
    strategy = quantdsl.compile(STRATEGY)
    text = strategy.sweep(table, ranges={"fast": "2..4:1"}, device="cpu")
    for listed in ([2, 3, 4], range(2, 5), np.array([2.0, 3.0, 4.0])):
        found = strategy.sweep(table, ranges={"fast": listed}, device="cpu")
        assert found.table.equals(text.table)
    assert text.best(0).num_rows == 0
    with pytest.raises(ConfigError, match="top = -1: that many rows are none"):
        text.best(-1)
    with pytest.raises(ConfigError, match="ranges: fast = 3 is no range"):
        strategy.sweep(table, ranges={"fast": 3}, device="cpu")
    with pytest.raises(ConfigError, match="ranges: fast has no value\n"):
        strategy.sweep(table, ranges={"fast": []}, device="cpu")


def test_a_sweep_has_a_folder_to_go_on_from_or_to_write_into(table, tmp_path):
    strategy, file = quantdsl.compile(STRATEGY), tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match="resume = True without a folder to go on from\n"):
        strategy.sweep(table, ranges={"fast": [3, 5]}, device="cpu", resume=True)
    with pytest.raises(ConfigError, match="that is a file\n"):
        strategy.sweep(table, ranges={"fast": [3, 5]}, device="cpu", out=file)
    kept = {"ranges": {"fast": [3, 5]}, "device": "cpu", "out": tmp_path / "kept"}
    strategy.sweep(table, **kept)
    with pytest.raises(ConfigError, match="nothing to resume\nhelp: without resume=True it is run"):
        strategy.sweep(table, **kept, resume=True)


def test_the_defaults_of_params_are_taken_back(table):
    declared = '    param eager = true\n    param side = "up" in {"up", "down"}\n'
    strategy = quantdsl.compile(STRATEGY.replace("    param fast", f"{declared}    param fast"))
    assert strategy.params == {"eager": True, "side": "up", "fast": 5.0}
    given = strategy.backtest(table, **strategy.params)
    assert given.trades.equals(strategy.backtest(table).trades)


def test_what_is_wrong_is_told_in_words_of_python_too(table):
    two = "param fast = 5 in 2..9000 step 1\n    param slow = 20 in 2..9000 step 1"
    wide = STRATEGY.replace("param fast = 5 in 2..10 step 1", two).replace("20)", "slow)")
    with pytest.raises(LimitError, match=r"ranges=\), or a subset .* in Python points="):
        quantdsl.sweep(wide, table)
    with pytest.raises(ConfigError, match=r"start \(--from\) before the end \(--to\)"):
        quantdsl.backtest(STRATEGY, table, start="2024-01-05", end="2024-01-04")
    for run in (quantdsl.backtest, quantdsl.sweep):
        with pytest.raises(ConfigError, match=r"^the data are 2 files for 1 instrument"):
            run(STRATEGY, "a,b")
        with pytest.raises(ConfigError, match=r"^data 'a,,b': a file's name is missing"):
            run(STRATEGY, "a,,b")


def test_an_interrupted_sweep_returns_what_is_done(table):
    def stop(done, total):
        raise KeyboardInterrupt

    found = quantdsl.sweep(STRATEGY, table, device="cpu", progress=stop)
    assert 0 < len(found) <= found.result.planned == 9
    assert found.table["fast"].to_pylist() == list(range(2, 2 + len(found)))


def test_an_interrupted_walk_forward_says_whether_it_is_kept(table, tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    def said(**where):
        found = quantdsl.sweep(
            STRATEGY, table, device="cpu", walk_forward="train=5d test=5d", **where
        )
        (note,) = (note for note in found.result.notes if "walk-forward" in note)
        return note

    monkeypatch.setattr("quantdsl.backtest.conduct.walk_forward", stop)
    assert said().endswith("nothing of it is kept: no out= names a folder")
    assert said(out=tmp_path).endswith("with --resume goes on, in Python resume=True")
    monkeypatch.setattr("quantdsl.backtest.conduct.study_on", stop)
    with pytest.raises(KeyboardInterrupt, match=r"is kept in .* in Python resume=True$"):
        said(out=tmp_path)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        said()
