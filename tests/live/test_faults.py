"""One strategy's fault halts it; the others of its session go on as if nothing had been."""

import os
import threading
import time

import numpy as np
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.events.layout import BAR, EVENT, Kind
from quantdsl.events.ring import Ring
from quantdsl.live.clockwork import BarClock
from quantdsl.live.sequencer import Lane, Sequencer
from tests.live.test_session import (
    STRATEGY,
    bars_file,
    before_the_end,
    count_of,
    finished,
    journalled,
    paper,
)

BROKEN_DISK = '''"""The disk of one strategy's journal takes a few flushes, and no more."""

import itertools
import os

flush, count = os.fsync, itertools.count()

def failing(descriptor):
    if "/Failing/" in os.readlink(f"/proc/self/fd/{descriptor}") and next(count) > 8:
        raise OSError(5, "Input/output error")
    flush(descriptor)

os.fsync = failing
'''


def test_a_disk_that_fails_one_strategy_leaves_the_other_as_it_was(tmp_path, monkeypatch):
    data, folder = bars_file(tmp_path), tmp_path / "session"
    files = {name: tmp_path / f"{name.lower()}.qdsl" for name in ("Failing", "Sound")}
    for name, path in files.items():
        path.write_text(STRATEGY.replace("Crosser", name), encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text(BROKEN_DISK, encoding="utf-8")
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    process = paper(
        folder, *files.values(), "--config", "paper_replay", "--data", data, "--speed", "60000"
    )
    said = finished(process)
    assert "Failing: it is halted, others go on: the journal in" in said, said
    assert "Input/output error" in said
    whole = {name: backtest(path, data=str(data)).records for name, path in files.items()}
    own = before_the_end(journalled(folder, "Sound")[1])
    assert own.tobytes() == whole["Sound"][: len(own)].tobytes()
    assert not np.isin(whole["Sound"][len(own) :]["kind"], (Kind.FILL, Kind.ORDER)).any()
    lost = journalled(folder, "Failing")[1]
    assert count_of(lost, Kind.FILL) < count_of(own, Kind.FILL)
    assert lost.tobytes() == whole["Failing"][: len(lost)].tobytes()


def bar(k: int) -> np.ndarray:
    made = np.zeros(1, BAR)
    made["kind"], made["ts_event"] = Kind.BAR, k + 1
    return made.view(EVENT)


class Kept:
    """A journal that fails once it has taken so many events."""

    def __init__(self, room: int) -> None:
        self.room, self.events = room, 0

    @property
    def failed(self) -> str | None:
        return "the disk is full" if self.events >= self.room else None

    def inputs(self, events: np.ndarray) -> None:
        self.events += len(events)


class Through(BarClock):
    """Gives what comes; in the lane that breaks it fails with the third event."""

    def __init__(self, breaks: bool) -> None:
        self.floor, self.breaks = 0, breaks
        self.kept: list[np.ndarray] = []
        self.given = 0

    def add(self, _: int, events: np.ndarray) -> None:
        self.given += len(events)
        if self.breaks and self.given > 2:
            raise ArithmeticError("this lane is broken")
        self.kept.append(events)

    def until(self, _: int) -> np.ndarray:
        kept, self.kept = self.kept, []
        return np.concatenate([np.empty(0, EVENT), *kept])


@pytest.mark.parametrize("how", ["disk", "lane", "engine"])
def test_what_ends_one_lane_ends_no_other(how):
    """A full disk, an exception in its own code, an engine that takes nothing from its ring."""
    rings = [Ring.create(None, 4 if how == "engine" else 64), Ring.create(None, 64)]
    journals = [Kept(3 if how == "disk" else 1_000), Kept(1_000)]
    lanes = [
        Lane(name, Through(how == "lane" and not k), [0], frozenset({Kind.BAR}), journal, ring)
        for k, (name, journal, ring) in enumerate(zip("ab", journals, rings, strict=True))
    ]
    sequencer, count = Sequencer(lanes), 20
    for k in range(count):
        sequencer.push(bar(k))
        sequencer.advance(k + 1)
    why = {"disk": "the disk is full", "lane": "ArithmeticError: this lane is broken",
           "engine": "the engine has taken no event for 1 s"}  # fmt: skip
    assert lanes[0].failed == why[how]
    assert lanes[1].failed == ""
    assert (lanes[1].count, lanes[1].dropped, rings[1].waiting) == (count, 0, count)
    assert lanes[0].count + lanes[0].dropped == (2 if how == "lane" else count)


def test_an_engine_that_is_slow_for_a_while_loses_nothing():
    """More comes than it takes: the feed's thread waits for room, and all arrives in its order."""
    ring, count = Ring.create(None, 16), 2_000
    lane = Lane("slow", Through(False), [0], frozenset({Kind.BAR}), Kept(count + 1), ring)
    sequencer, got = Sequencer([lane]), []

    def take() -> None:
        consumer = ring.consumer()
        while len(got) < count and not lane.failed:
            time.sleep(0.000_2)  # slower than what comes
            got.extend(consumer.pop(5).view(EVENT)["ts_event"].tolist())

    engine = threading.Thread(target=take)
    engine.start()
    for k in range(count):
        sequencer.push(bar(k))
        sequencer.advance(k + 1)
    engine.join()
    assert lane.failed == ""
    assert got == list(range(1, count + 1))
    assert (lane.count, lane.dropped, lane.journal.events) == (count, 0, count)
