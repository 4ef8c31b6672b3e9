"""A file of measured latencies in a backtest: equal to the constants, and changing as time goes."""

from pathlib import Path

import numpy as np
import pytest

import quantdsl
from quantdsl.backtest.run import backtest
from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.check import compile_file
from quantdsl.cli import run
from quantdsl.errors import ConfigError, UnavailableError
from quantdsl.events.layout import Kind
from quantdsl.shipped import shipped

TAKER = shipped("strategies/imbalance_taker.qdsl")
END = "2023-01-03T16:00"
HEAD = "time,entry_us,response_us\n"


def measured(folder: Path, *rows: str) -> dict[str, object]:
    """Options of a run with these rows of (time, entry, response)."""
    path = folder / "latency.csv"
    path.write_text(HEAD + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return {"venue.latency_file": path}


def test_one_row_is_what_constants_are(tmp_path):
    constant = {"venue.latency_entry_us": 400, "venue.latency_response_us": 700}
    expected = backtest(TAKER, more=constant, end=END)
    found = backtest(TAKER, more=measured(tmp_path, "2020-01-01T00:00:00Z,400,700"), end=END)
    assert (expected.records["kind"] == Kind.FILL).sum() > 20
    assert found.records.tobytes() == expected.records.tobytes()
    assert any("medians 400 and 700 microseconds" in line for line in found.execution.assumptions)
    assert not any("an order takes" in line for line in found.execution.assumptions)


def test_each_order_takes_as_long_as_the_row_of_its_time_says(tmp_path):
    """It fills where it arrives, for it takes what is there; word of it comes later than that."""
    change = np.datetime64("2023-01-03T15:15:00", "ns")
    more = measured(tmp_path, "2023-01-01T00:00:00Z,400,700", f"{change}Z,90000,250000")
    records = backtest(TAKER, more=more, end=END).records
    sent = {int(o["a"]): int(o["ts_event"]) for o in records[records["kind"] == Kind.ORDER]}
    seen = {False: 0, True: 0}
    for fill in records[records["kind"] == Kind.FILL]:
        at = sent[int(fill["a"])]
        late = at >= change.astype(np.int64)
        assert fill["ts_recv"] - at == (90_000_000 if late else 400_000)
        assert fill["ts_event"] - fill["ts_recv"] >= (250_000_000 if late else 700_000)
        seen[bool(late)] += 1
    assert min(seen.values()) > 5


def test_the_command_takes_the_file(tmp_path, capsys):
    options = measured(tmp_path, "2020-01-01T00:00:00Z,1500,1500")
    path = str(options["venue.latency_file"])
    words = ["backtest", str(TAKER), "--latency", path, "--to", END, "--out", str(tmp_path / "out")]
    assert run(words) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "medians 1,500 and 1,500 microseconds" in page
    capsys.readouterr()
    assert run(["backtest", str(TAKER), "--latency", f"{path}.not"]) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_other_bars_of_a_strategy_on_ticks_are_refused():
    with pytest.raises(ConfigError, match=r"^--bars 5m: .* is on ticks, and builds of them"):
        backtest(TAKER, bars="5m")
    with pytest.raises(ConfigError, match=r"^bars = 5m: "):
        quantdsl.backtest(TAKER, config={"data.bars": "5m"})


def test_bars_and_sweeps_refuse_it(tmp_path):
    more = measured(tmp_path, "2020-01-01T00:00:00Z,400,700")
    with pytest.raises(ConfigError, match="latencies are of strategies on ticks"):
        backtest(shipped("strategies/sma_cross.qdsl"), more=more)
    config = tmp_path / "own.toml"
    config.write_text(f'[venue]\nlatency_file = "{more["venue.latency_file"]}"\n', encoding="utf-8")
    with pytest.raises(UnavailableError, match="a sweep with a file of latencies"):
        prepare_sweep(compile_file(TAKER), TAKER, config=config, ranges={"size": "100..200"})
