"""A real session with an asynchronous signal: killed, resumed, replayed, and run as a backtest."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import numpy as np

from quantdsl.backtest.awaited import answers
from quantdsl.backtest.prepare import Arranged, Prepared, make_ready
from quantdsl.check import compile_file
from quantdsl.errors import QuantDSLError
from quantdsl.events.layout import Kind
from quantdsl.live.manifest import prepared, read
from quantdsl.live.tearsheet import session_result
from tests.live.test_session import bars_file, child_of, finished, journalled, paper
from tests.waiting import until

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


def computing(folder: Path) -> Prepared:
    """The run of a session, but one that computes its signals by itself, as a backtest does."""
    manifest = read(folder)
    part = manifest.part(NAME)
    session = prepared(folder, NAME)
    checked = compile_file(folder / NAME / "source" / part.file)
    uses = frozenset(manifest.uses)
    arranged = Arranged(part.settings, session.data, part.params, (), uses)
    return make_ready(checked, arranged, part.trade_from)


def answered(folder: Path) -> int:
    """Answers in the journal, as far as it is on disk."""
    try:
        return int((journalled(folder, NAME)[0]["kind"] == Kind.SIGNAL).sum())
    except (OSError, ValueError, QuantDSLError):
        return 0


def test_what_a_session_decided_is_what_its_events_decide_again(tmp_path: Path) -> None:
    strategy, data, folder = tmp_path / "f.qdsl", bars_file(tmp_path), tmp_path / "session"
    strategy.write_text(STRATEGY, encoding="utf-8")
    words = (strategy, "--config", "paper_replay", "--data", data, "--speed", "20000")
    process = paper(folder, *words)
    child = child_of(folder)
    until(lambda: process.poll() is not None or answered(folder) >= 50)
    with suppress(ProcessLookupError):  # it has come to its end
        os.kill(child, signal.SIGKILL)
    finished(process)
    before, _ = journalled(folder, NAME)
    said = finished(paper(folder, *words))
    assert "ended" in said, said

    inputs, outputs = journalled(folder, NAME)
    assert inputs.tobytes().startswith(before.tobytes())
    assert (inputs["kind"] == Kind.SIGNAL).sum() > 100
    assert (outputs["kind"] == Kind.FILL).sum() > 20
    assert (np.diff(inputs["ts_event"]) >= 0).all()
    report = session_result(folder, NAME)  # which replays the journal and holds its records to it
    assert any(line.startswith("signal fc: ") for line in report.notes)
    again = computing(folder)
    again.run.feed(inputs)
    assert again.run.all_records().tobytes() == outputs.tobytes()
    (found,) = answers(again.checked, again.run.memory)
    assert found.asked == found.ready + found.stale + found.dropped + found.waiting
    assert found.ready > 100
