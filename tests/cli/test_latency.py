"""`quantdsl bench latency`, `bench` and `explain --stage proof` as users type them."""

import json
import re

import pytest
from click.testing import CliRunner

from quantdsl.cli import cli
from quantdsl.codegen.target import native
from quantdsl.errors import UnavailableError
from quantdsl.lang.diagnostics import SourceError
from quantdsl.shipped import shipped

pytestmark = pytest.mark.skipif(
    not native().triple.startswith("x86_64"), reason="measured on x86-64 only"
)
HOLD = str(shipped("strategies/buy_and_hold.qdsl"))
EVENTS = ["--events", "2000"]


def quantdsl(*args: str, folder) -> tuple[int, str]:
    runner = CliRunner()
    done = runner.invoke(cli, list(args), standalone_mode=False, catch_exceptions=False)
    code = done.return_value if isinstance(done.return_value, int) else done.exit_code
    return code, done.output


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_bench_lists_what_there_is(folder):
    code, text = quantdsl("bench", folder=folder)
    assert code == 0
    assert "quantdsl bench latency" in text
    assert "quantdsl bench device" in text
    assert "bench_backtest.py" in text


def test_a_run_is_printed_saved_drawn_and_compared(folder):
    code, text = quantdsl("bench", "latency", HOLD, *EVENTS, "--html", folder=folder)
    assert code == 0
    assert re.search(r"placement  engine on core \d+", text)
    assert re.search(r"noise floor +1,000,000 +\d", text)
    saved = folder / "out/latency/buy_and_hold.json"
    assert json.loads(saved.read_text())["strategy"] == "BuyAndHold"
    assert (folder / "out/latency/buy_and_hold.html").read_text().startswith("<!doctype html>")

    again = quantdsl(
        "bench", "latency", HOLD, *EVENTS, "--compare", str(saved), "--fail-over", "900%",
        "--out", "second.json", folder=folder,
    )  # fmt: skip
    assert again[0] == 0
    assert "no median grew by more than 900%" in again[1]

    document = json.loads(saved.read_text())
    for row in document["rows"]:
        row["percentiles_ns"] = [ns / 100 for ns in row["percentiles_ns"]]
        row["passes_ns"] = [ns / 100 for ns in row["passes_ns"]]
        row["percentiles_ns"][0] += 1.0 if row["name"] != "noise floor" else 1e6
    saved.write_text(json.dumps(document))
    worse = quantdsl("bench", "latency", HOLD, *EVENTS, "--compare", str(saved), folder=folder)
    assert worse[0] == 1
    assert "SLOWER" in worse[1]


def test_a_rate_counts_from_when_an_event_was_due(folder):
    code, text = quantdsl(
        "bench", "latency", HOLD, *EVENTS, "--rate", "1e6", "--json", folder=folder
    )
    assert code == 0
    document = json.loads(text)
    turn = next(row for row in document["rows"] if row["name"] == "turn")
    assert "due every 1,000 ns" in turn["how"]
    assert document["rate"] == 1e6


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """An earlier run."""
    folder = tmp_path_factory.mktemp("saved")
    path = folder / "run.json"
    assert quantdsl("bench", "latency", HOLD, *EVENTS, "--out", str(path), folder=folder)[0] == 0
    return path


@pytest.mark.parametrize("growth", ["much", "0%"])
def test_a_growth_that_is_none_is_told(folder, saved, growth):
    options = ["--compare", str(saved), "--fail-over", growth]
    with pytest.raises(Exception, match=re.escape("latency.fail_over")):
        quantdsl("bench", "latency", HOLD, *options, folder=folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fail-over", "10%"], "name a saved run with --compare"),
        (["--config", "nowhere"], "there is no such file"),
        (["--set", "x"], "sets nothing"),
    ],
)
def test_bad_options_are_told(folder, options, message):
    with pytest.raises(Exception, match=re.escape(message)):
        quantdsl("bench", "latency", HOLD, *options, folder=folder)


def test_a_core_that_is_not_there_is_replaced(folder):
    code, text = quantdsl("bench", "latency", HOLD, *EVENTS, "--cpu", "4000", folder=folder)
    assert code == 0
    assert "command line asks for core 4000" in text


def test_the_proof_of_a_file(folder):
    code, text = quantdsl("explain", HOLD, "--stage", "proof", folder=folder)
    assert code == 0
    assert "the whole turn, from ring to ring" in text
    assert "holds      no call, no system call" in text
    assert "an estimate" in text


NARROW = """language 1

@vectorizable
fn total(a: array[float, 64]) -> float:
    var sum = 0.0
    for i in 0..<64:
        sum += a[i]
    return sum

strategy Narrow:
    "A promise that its machine code does not keep."
    bars 1h
    state kept: array[float, 64] = 0.0
    on bar:
        kept[bar_index mod 64] = close - open
        if flat and total(kept) > 0.0:
            buy(1 share)
"""


def test_a_proof_that_fails_is_shown_and_is_an_error(folder):
    (folder / "narrow.qdsl").write_text(NARROW, encoding="utf-8")
    with pytest.raises(SourceError) as told:
        quantdsl("explain", "narrow.qdsl", "--stage", "proof", folder=folder)
    assert [one.code for one in told.value.diagnostics] == ["QD0901"]
    assert NARROW[told.value.diagnostics[0].span[0] :].startswith("for i in 0..<64")


@pytest.mark.parametrize(
    "text",
    [
        "    quotes\n    state n = 0\n    on quote:\n        n = n + 1\n",
        "    quotes\n    state n = 0\n    on fill:\n        n = n + 1\n",
        "    bars 1h\n    plot(close)\n",
    ],
    ids=["a handler", "a handler of news", "none"],
)
def test_a_strategy_that_sends_no_order_has_its_turn_measured(folder, text):
    (folder / "idle.qdsl").write_text(f"language 1\n\nstrategy Idle:\n{text}")
    code, said = quantdsl("bench", "latency", "idle.qdsl", "--events", "2000", folder=folder)
    assert code == 0
    assert "tick to order: not measured: no order in the run" in said
    assert "\nturn " in said


def test_what_no_session_runs_is_not_measured(folder):
    """It was told to give --host, which is no option of a measurement."""
    text = (
        'language 1\n\n@host("math:fabs")\nindicator away(src: series[float]) -> float?:\n'
        '    "Of Python."\n\nstrategy Hosted:\n    bars 1d\n    plot(away(close))\n'
    )
    (folder / "hosted.qdsl").write_text(text, encoding="utf-8")
    with pytest.raises(UnavailableError, match="of a session of a strategy with a '@host' indic"):
        quantdsl("bench", "latency", "hosted.qdsl", folder=folder)
