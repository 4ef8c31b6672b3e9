"""One strategy's fault halts it; the others of its session go on as if nothing had been."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.events.layout import BAR, EVENT, Command, Kind
from quantdsl.events.ring import Ring
from quantdsl.live.clockwork import BarClock
from quantdsl.live.sequencer import Lane, Sequencer
from tests.live.test_session import (
    STRATEGY,
    bars_file,
    before_the_end,
    child_of,
    count_of,
    finished,
    journalled,
    outputs_of,
    paper,
    without_commands,
)
from tests.waiting import until

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
    shown = re.findall(r"Failing: (?:bought|sold) ", said)
    assert len(shown) <= count_of(lost, Kind.FILL), "a fill was shown that is on no disk"


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
    journals = [Kept(3 if how == "disk" else 10_000), Kept(10_000)]
    lanes = [
        Lane(name, Through(how == "lane" and not k), [0], frozenset({Kind.BAR}), journal, ring)
        for k, (name, journal, ring) in enumerate(zip("ab", journals, rings, strict=True))
    ]
    sequencer, sound, count = Sequencer(lanes), rings[1].consumer(), 0
    while count < 20 or not lanes[0].failed:
        sequencer.push(bar(count))
        sequencer.advance(count + 1)
        count += 1
        assert sound.pop(8).view(EVENT)["ts_event"].tolist() == [count], "it waited for the other"
        if count > 20:  # what is left is to notice an engine that hangs
            time.sleep(0.02)
            sequencer.relieve()
    why = {"disk": "the disk is full", "lane": "ArithmeticError: this lane is broken",
           "engine": "the engine has taken no event for 2 s"}  # fmt: skip
    assert lanes[0].failed == why[how]
    assert (lanes[1].failed, lanes[1].count, lanes[1].dropped) == ("", count, 0)
    assert lanes[0].count + lanes[0].dropped == (2 if how == "lane" else count)
    assert lanes[0].count == journals[0].events


def test_an_engine_that_is_slow_for_a_while_loses_nothing():
    """More comes than it takes: what has no room waits, and all arrives in its order."""
    ring, count = Ring.create(None, 16), 2_000
    lane = Lane("slow", Through(False), [0], frozenset({Kind.BAR}), Kept(count + 1), ring)
    sequencer, consumer, got = Sequencer([lane]), ring.consumer(), []
    for k in range(count):
        sequencer.push(bar(k))
        sequencer.advance(k + 1)
        if k % 3 == 0:
            got.extend(consumer.pop(1).view(EVENT)["ts_event"].tolist())
            sequencer.relieve()
    assert lane.behind > count / 2
    assert lane.journal.events < count, "what waits is not in the journal: it may yet be left out"
    while ring.waiting:
        got.extend(consumer.pop(5).view(EVENT)["ts_event"].tolist())
        sequencer.relieve()
    assert (lane.failed, lane.behind) == ("", 0)
    assert got == list(range(1, count + 1))
    assert (lane.count, lane.dropped, lane.journal.events) == (count, 0, count)


def test_a_market_of_its_own_time_waits_for_a_slow_engine():
    ring, count = Ring.create(None, 16), 500
    lane = Lane("slow", Through(False), [0], frozenset({Kind.BAR}), Kept(count + 1), ring)
    sequencer, got = Sequencer([lane], waits=True), []
    most = 0

    def take() -> None:
        consumer = ring.consumer()
        while len(got) < count and not lane.failed:
            time.sleep(0.000_2)  # slower than what comes
            got.extend(consumer.pop(5).view(EVENT)["ts_event"].tolist())

    engine = threading.Thread(target=take)
    engine.start()
    for k in range(count):
        sequencer.advance(k)
        sequencer.push(bar(k))
        most = max(most, lane.behind)
    sequencer.advance(count)
    while sequencer.behind:
        sequencer.relieve()
    engine.join()
    assert most <= 1
    assert got == list(range(1, count + 1))


def test_no_command_overtakes_what_is_left_of_a_market_of_its_own_time():
    ring, count, got = Ring.create(None, 16), 200, []
    lane = Lane("slow", Through(False), [0], frozenset({Kind.BAR}), Kept(count + 2), ring)
    sequencer = Sequencer([lane], waits=True)

    def take() -> None:
        consumer, until_s = ring.consumer(), time.monotonic() + 60
        while len(got) <= count and time.monotonic() < until_s:
            time.sleep(0.000_2)
            got.extend(consumer.pop(5).view(EVENT)["kind"].tolist())

    engine = threading.Thread(target=take)
    sequencer.hold()
    for k in range(count):
        sequencer.push(bar(k))
    sequencer.release()
    engine.start()
    sequencer.finish(count)
    sequencer.command([lane], Command.KILL, 0, count)
    engine.join()
    assert got == [Kind.BAR] * count + [Kind.COMMAND]


def test_a_damaged_journal_halts_its_strategy_and_the_others_go_on(tmp_path):
    """And once the file is restored, that strategy goes on too, from where it was."""
    data, folder, names = bars_file(tmp_path), tmp_path / "session", ("Damaged", "Sound")
    files = [tmp_path / f"{name.lower()}.qdsl" for name in names]
    for name, path in zip(names, files, strict=True):
        path.write_text(STRATEGY.replace("Crosser", name), encoding="utf-8")
    words = (*files, "--config", "paper_replay", "--data", data, "--speed", "20000")
    process = paper(folder, *words)
    child = child_of(folder)
    until(lambda: process.poll() is not None or all(
        (folder / name).exists() and count_of(outputs_of(folder, name), Kind.FILL) > 20
        for name in names))  # fmt: skip
    assert process.poll() is None, process.communicate()[0]
    os.kill(child, signal.SIGKILL)
    finished(process)
    before = [len(journalled(folder, name)[0]) for name in names]
    (path,) = (folder / "Damaged").glob("*.journal")
    whole = path.read_bytes()
    broken = bytearray(whole)
    broken[len(broken) // 2] ^= 1
    path.write_bytes(broken)
    kept = contents(folder / "Damaged")
    said = finished(paper(folder, *words))
    assert re.search(r"Damaged: it is halted, others go on: .*damaged at byte", said), said
    assert contents(folder / "Damaged") == kept, "it was written to"
    assert "error: Damaged has no report" in said, said
    assert (folder / "Sound" / "report" / "report.html").exists(), said
    held = {name: backtest(file, data=str(data)).records
            for name, file in zip(names, files, strict=True)}  # fmt: skip
    assert len(journalled(folder, "Sound")[0]) > before[1]
    assert traded(folder, "Sound") == ended(held["Sound"])
    path.write_bytes(whole)
    said = finished(paper(folder, *words))
    assert "halted" not in said, said
    assert [traded(folder, name) for name in names] == [ended(held[name]) for name in names]
    for path in folder.rglob("*.journal*"):
        path.write_bytes(b"nothing of a journal")
    process = paper(folder, *words)
    said = finished(process)
    assert (process.returncode, "goes on with what" in said) == (2, False), said
    assert said.count("its start is damaged") == 2, said


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def traded(folder: Path, name: str) -> bytes:
    return ended(without_commands(before_the_end(journalled(folder, name)[1])))


def ended(records: np.ndarray) -> bytes:
    """All up to the last order or fill: a backtest ends with what a session has no end for."""
    last = np.flatnonzero(np.isin(records["kind"], (Kind.ORDER, Kind.FILL)))[-1]
    return records[: last + 1].tobytes()
