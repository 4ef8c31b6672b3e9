"""A real session on a universe, with signals of each instrument: killed, resumed and replayed."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.run import run_checked
from quantdsl.check import compile_file
from quantdsl.events.layout import Kind
from quantdsl.shipped import shipped
from tests.live.signal_sessions import held_to_its_journal, killed_and_resumed
from tests.live.test_session import (
    before_the_end,
    child_of,
    count_of,
    ended_when,
    finished,
    journalled,
    outputs_of,
    paper,
    without_commands,
)
from tests.waiting import until

STRATEGY = """language 1

strategy Crowd:
    "Follows forecasts of each member, and keeps all in proportion."

    bars 2m
    universe "AA", "BB", "CC", point_in_time = true
    session "24/7"

    let move   = close / close[3] - 1
    let weight = xs.weights(xs.demean(move), gross = 60%)
{signals}
    every 1h:
        rebalance(weight, min_trade = 0.1%)

    risk:
        max_gross = 150% of equity

    backtest:
        cash     = 100_000 USD
        fees     = 1bps
        leverage = 2
"""
SIGNALS = """
    @async(deadline = 40m)
    let fc = ta.linreg(close, 5)

    state late = 0

    on ready(fc):
        if fc > close:
            target(20 shares)
        elif fc < close:
            target(-20 shares)

    on stale(fc):
        late += 1
"""
NAME, SYMBOLS, BARS = "Crowd", ("AA", "BB", "CC"), 3_000
START_S = 1_704_153_600


def bars_file(folder: Path) -> Path:
    """Minute bars of three; the second is listed an hour late and halts for two."""
    lines = ["time,symbol,open,high,low,close,volume"]
    for number, symbol in enumerate(SYMBOLS):
        steps = np.random.default_rng(number).normal(0, 0.05, BARS)
        before = 100.0
        for k, price in enumerate((100 + np.cumsum(steps)).round(2).tolist()):
            high, low = max(before, price), min(before, price)
            moment = np.datetime64(START_S + 60 * k, "s")
            if symbol != "BB" or not (k < 60 or 900 <= k < 1_020):
                row = f"{before:.2f},{high:.2f},{low:.2f},{price:.2f},1000"
                lines.append(f"{moment}Z,{symbol},{row}")
            before = price
    path = folder / "bars.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def configured(folder: Path) -> Path:
    """The config of a replay, with a file of members: the third leaves on the second day."""
    members = folder / "members.csv"
    members.write_text("symbol,entry,exit\nAA,,\nBB,,\nCC,,2024-01-03\n", encoding="utf-8")
    text = shipped("configs/paper_replay.toml").read_text(encoding="utf-8")
    path = folder / "replay.toml"
    path.write_text(f'{text}\n[universe]\nmembers = "{members}"\n', encoding="utf-8")
    return path


def test_a_session_on_a_universe_is_its_journal(tmp_path: Path) -> None:
    strategy, data, folder = tmp_path / "c.qdsl", bars_file(tmp_path), tmp_path / "session"
    strategy.write_text(STRATEGY.format(signals=SIGNALS), encoding="utf-8")
    words = (strategy, "--config", configured(tmp_path), "--data", data, "--speed", "20000")
    inputs, outputs = killed_and_resumed(folder, NAME, words, after=100)
    for number in range(len(SYMBOLS)):
        own = inputs["instrument"] == number
        assert (own & (inputs["kind"] == Kind.SIGNAL)).sum() > 50
        assert (outputs["kind"][outputs["instrument"] == number] == Kind.FILL).sum() > 5
    told = inputs[inputs["kind"] == Kind.TRAIT]
    assert told["instrument"].tolist() == [0, 1, 2, 2]
    assert told["payload"][:, 0].tolist() == [1, 1, 1, 0]
    assert held_to_its_journal(folder, NAME, inputs, outputs).ready > 150


def test_a_session_on_a_device_is_its_journal_too(tmp_path: Path) -> None:
    strategy, data, folder = tmp_path / "c.qdsl", bars_file(tmp_path), tmp_path / "session"
    strategy.write_text(STRATEGY.format(signals=SIGNALS), encoding="utf-8")
    config = configured(tmp_path)
    words = (strategy, "--config", config, "--data", data, "--speed", "6000")
    process = paper(folder, *words, "--device", "simulated")
    said = finished(process)
    assert "its signals are computed by simulated" in said, said
    inputs, outputs = journalled(folder, NAME)
    assert (inputs["kind"] == Kind.SIGNAL).sum() > 20
    assert held_to_its_journal(folder, NAME, inputs, outputs).ready > 20


def test_a_session_without_signals_decides_as_the_backtest_of_its_file(tmp_path: Path) -> None:
    strategy, data, folder = tmp_path / "c.qdsl", bars_file(tmp_path), tmp_path / "session"
    strategy.write_text(STRATEGY.format(signals=""), encoding="utf-8")
    config = configured(tmp_path)
    said = finished(paper(folder, strategy, "--config", config, "--data", data, "--speed", "full"))
    assert "Total return" in said, said
    own = before_the_end(journalled(folder, NAME)[1])
    whole = run_checked(compile_file(strategy), strategy, data=str(data), config=config).records
    assert (own["kind"] == Kind.FILL).sum() > 50
    assert own.tobytes() == whole[: len(own)].tobytes()
    assert not np.isin(whole["kind"][len(own) :], (Kind.FILL, Kind.ORDER)).any()


TICKS = """language 1

strategy Crew:
    "Quotes both sides of each member, and leaves the one that has risen most."

    universe "SYN1", "SYN2"
    quotes
    trades
    bars 10s
    session "XNYS"

    let rank = xs.rank(close / close[2])

    on quote:
        quote(bid = bid, bid_qty = 10 shares, ask = ask, ask_qty = 10 shares,
              requote_if = 3 ticks)

    on bar:
        if rank == 1 and position > 20 shares:
            close_position()

    on halt:
        log("halted")

    risk:
        max_gross = 80% of equity
"""


@pytest.mark.slow
def test_a_session_on_ticks_of_a_universe_is_its_backtest(tmp_path: Path) -> None:
    """Killed and resumed: every member's ticks, and bars of all at one moment, once."""
    folder, strategy = tmp_path / "session", tmp_path / "crew.qdsl"
    strategy.write_text(TICKS, encoding="utf-8")
    process = paper(folder, strategy, "--speed", "300")
    child = child_of(folder)
    until(lambda: count_of(outputs_of(folder, "Crew"), Kind.FILL) > 10)
    os.kill(child, signal.SIGKILL)
    finished(process)
    before = len(outputs_of(folder, "Crew"))
    ended_when(paper(folder), lambda: len(outputs_of(folder, "Crew")) > before + 20)
    inputs, outputs = journalled(folder, "Crew")
    logs = outputs[outputs["kind"] == Kind.LOG]
    assert len(logs) >= 1  # a session that is resumed is halted until it has caught up
    kept = before_the_end(outputs)
    own = without_commands(kept[kept["kind"] != Kind.LOG])
    whole = run_checked(compile_file(strategy), strategy).records
    assert set(own["instrument"][own["kind"] == Kind.FILL]) == {0, 1}
    assert own.tobytes() == whole[: len(own)].tobytes()
    assert (np.diff(inputs["ts_recv"]) >= 0).all()
