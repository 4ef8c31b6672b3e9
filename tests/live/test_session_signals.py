"""A real session with an asynchronous signal: killed, resumed, replayed, and run as a backtest."""

from pathlib import Path

from quantdsl.events.layout import Kind
from tests.live.signal_sessions import held_to_its_journal, killed_and_resumed
from tests.live.test_session import bars_file

STRATEGY = """language 1

strategy Forecaster:
    "Follows a forecast that a worker makes."

    bars 2m
    session "24/7"

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

    backtest:
        cash     = 100_000 USD
        fees     = 1bps
        leverage = 2
"""
NAME = "Forecaster"


def test_what_a_session_decided_is_what_its_events_decide_again(tmp_path: Path) -> None:
    strategy, data, folder = tmp_path / "f.qdsl", bars_file(tmp_path), tmp_path / "session"
    strategy.write_text(STRATEGY, encoding="utf-8")
    words = (strategy, "--config", "paper_replay", "--data", data, "--speed", "20000")
    inputs, outputs = killed_and_resumed(folder, NAME, words, after=50)
    assert (inputs["kind"] == Kind.SIGNAL).sum() > 100
    assert (outputs["kind"] == Kind.FILL).sum() > 20
    assert held_to_its_journal(folder, NAME, inputs, outputs).ready > 100
