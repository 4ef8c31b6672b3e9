"""Sessions with asynchronous signals: killed and resumed, and held to their journals."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.awaited import Answers, answers
from quantdsl.backtest.prepare import Arranged, Prepared, make_ready
from quantdsl.check import compile_file
from quantdsl.errors import QuantDSLError
from quantdsl.events.layout import Kind
from quantdsl.live.manifest import prepared, read
from quantdsl.live.tearsheet import session_result
from tests.live.test_session import child_of, finished, journalled, paper
from tests.waiting import until

Events = npt.NDArray[np.void]


def killed_and_resumed(
    folder: Path, name: str, words: tuple[Any, ...], after: int
) -> tuple[Events, Events]:
    """The journal of a session that was killed once it had `after` answers, and then went on."""
    process = paper(folder, *words)
    child = child_of(folder)
    until(lambda: process.poll() is not None or _answered(folder, name) >= after)
    with suppress(ProcessLookupError):  # it has come to its end
        os.kill(child, signal.SIGKILL)
    finished(process)
    before, _ = journalled(folder, name)
    said = finished(paper(folder, *words))
    assert "ended" in said, said
    inputs, outputs = journalled(folder, name)
    assert inputs.tobytes().startswith(before.tobytes())
    assert (np.diff(inputs["ts_event"]) >= 0).all()
    return inputs, outputs


def held_to_its_journal(folder: Path, name: str, inputs: Events, outputs: Events) -> Answers:
    """What became of its signals, computed again from the journal with the very same records."""
    report = session_result(folder, name)  # which replays the journal and holds its records to it
    assert any(line.startswith("signal fc: ") for line in report.notes)
    again = _computing(folder, name)
    again.run.feed(inputs)
    assert again.run.all_records().tobytes() == outputs.tobytes()
    (found,) = answers(again.checked, again.run.memory)
    assert found.asked == found.ready + found.stale + found.dropped + found.waiting
    return found


def _computing(folder: Path, name: str) -> Prepared:
    """The run of a session, but one that computes its signals by itself, as a backtest does."""
    manifest = read(folder)
    part, session = manifest.part(name), prepared(folder, name)
    checked = compile_file(folder / name / "source" / part.file)
    uses = frozenset(manifest.uses)
    arranged = Arranged(part.settings, session.data, part.params, (), uses)
    return make_ready(checked, arranged, part.trade_from)


def _answered(folder: Path, name: str) -> int:
    """Answers in the journal, as far as it is on disk."""
    try:
        return int((journalled(folder, name)[0]["kind"] == Kind.SIGNAL).sum())
    except (OSError, ValueError, QuantDSLError):
        return 0
