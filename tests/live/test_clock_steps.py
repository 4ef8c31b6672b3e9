"""Clocks that step, run back and jump: the same decisions, for the core has no clock of its own."""

import ast
import os
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.events.layout import Kind
from quantdsl.live.channel import Receiver, Sender
from tests.live.test_session import (
    STRATEGY,
    bars_file,
    before_the_end,
    finished,
    journalled,
    paper,
)

PACKAGE = Path(__file__).parents[2] / "quantdsl"
CORE = ("lang", "check", "ir", "passes", "codegen", "data", "events", "backtest", "report")
CLOCKS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
ELSEWHERE = {
    "codegen/cache.py": "the age of left-over temporary files",
    "events/ring.py": "the heartbeat of a producer, beside the events",
    "backtest/kernel_bench.py": "how long a kernel takes, in a command that measures it",
    "backtest/sweep_parts.py": "how long a sweep still takes",
}

UNSTEADY = '''"""The wall clock is hours off at most readings; the steady one jumps on."""

import itertools
import time

wall, steady = time.time_ns, time.monotonic_ns
steps = itertools.cycle([0, 3_600, -3_600, 7_200, 0])
readings = itertools.count()
time.time_ns = lambda: wall() + next(steps) * 10**9
time.time = lambda: time.time_ns() / 1e9
time.monotonic_ns = lambda: steady() + next(readings) // 50 * 10 * 10**9
time.monotonic = lambda: time.monotonic_ns() / 1e9
'''


def _clocks_read(path: Path) -> set[str]:
    return {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in CLOCKS.get(node.value.id, ())
    }


def test_the_core_reads_no_clock():
    reading = {
        str(path.relative_to(PACKAGE))
        for part in CORE
        for path in (PACKAGE / part).rglob("*.py")
        if _clocks_read(path)
    }
    assert reading == set(ELSEWHERE)


def test_a_session_under_unsteady_clocks_decides_as_the_backtest(tmp_path, monkeypatch):
    """Wall clock one and two hours forth and back at each reading, steady clock ten seconds on."""
    strategy, data, folder = tmp_path / "crosser.qdsl", bars_file(tmp_path), tmp_path / "session"
    strategy.write_text(STRATEGY, encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text(UNSTEADY, encoding="utf-8")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    words = (strategy, "--config", "paper_replay", "--data", data, "--speed", "full")
    said = finished(paper(folder, *words))
    assert "Total return" in said, said
    own = before_the_end(journalled(folder)[1])
    whole = backtest(strategy, data=str(data)).records
    assert own.tobytes() == whole[: len(own)].tobytes()
    left = whole[len(own) :]
    assert not np.isin(left["kind"], (Kind.FILL, Kind.ORDER)).any(), "it ended before its market"


def test_silence_is_what_was_waited_for_not_what_a_clock_says():
    """A process that was suspended does not take its other side for lost."""
    ours, theirs = os.pipe()
    try:
        receiver, sender = Receiver(ours), Sender(theirs)
        for _ in range(3):
            assert not list(receiver.receive(0.001))
        assert receiver.silent_s == pytest.approx(0.003)
        sender.send(None)
        assert len(list(receiver.receive(1.0))) == 1
        assert receiver.silent_s == 0.0
    finally:
        os.close(ours)
        os.close(theirs)
