"""The n-th operation on a file fails, for every n: the journal halts, and a restart is whole."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.errors import JournalError
from quantdsl.journal.files import Files
from quantdsl.journal.recovery import checkpoint, newest_checkpoint
from quantdsl.journal.writer import Journal, Policy
from tests.journal.faults import CODES, Failing, Faulty, Short
from tests.journal.helpers import DIGEST, contents, events, opened, records
from tests.waiting import until

SMALL = Policy(segment_bytes=600)
FRAMES = 8


def session(folder: Path, files: Files) -> tuple[tuple[int, int], str | None]:
    """Two openings of a journal with rotations: (what was committed, why it ended)."""
    committed: tuple[int, int] = (0, 0)
    for opening in range(2):
        try:
            journal = opened(folder, files=files, policy=SMALL)
        except JournalError as refused:
            return committed, str(refused)
        for k in range(opening * FRAMES, opening * FRAMES + FRAMES):
            journal.inputs(events(2 * k, 2))
            journal.outputs(records(1000 + k, 1))
            journal.commit()
            committed = max(committed, journal.committed)
            if journal.failed is not None:
                before = journal.committed
                journal.inputs(events(99, 1))
                journal.commit()
                journal.sync()
                assert journal.committed == before, "nothing is taken after a failure"
                journal.close()
                return committed, journal.failed
        journal.abandon()
        if journal.failed is not None:
            return committed, journal.failed
    return committed, None


def prefix(folder: Path, committed: tuple[int, int]) -> int:
    """What is found is a prefix of what was handed over, and nothing committed is missing."""
    inputs, outputs, _ = contents(folder)
    assert inputs["ts_event"].tolist() == list(range(len(inputs)))
    assert outputs["ts_event"].tolist() == list(range(1000, 1000 + len(outputs)))
    assert (len(inputs), len(outputs)) >= committed
    assert len(inputs) == 2 * len(outputs)
    return len(outputs)


def restart(folder: Path, committed: tuple[int, int]) -> None:
    """A later process goes on where what is whole ends."""
    found = prefix(folder, committed) if folder.exists() else 0
    journal = opened(folder)
    assert journal.committed == (2 * found, found)
    journal.inputs(events(2 * found, 2))
    journal.outputs(records(1000 + found, 1))
    journal.close()
    assert journal.failed is None
    assert prefix(folder, journal.committed) == found + 1


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("half", [False, True])
def test_whichever_operation_fails(tmp_path, code, half):
    nth, operations = 0, set()
    while True:
        nth += 1
        folder = tmp_path / str(nth)
        files = Failing(nth, code, half=half)
        committed, ended = session(folder, files)
        if not files.struck:
            break
        assert ended is not None, f"operation {nth} failed and nobody was told"
        assert "cannot be written" in ended
        assert files.done == [], "something was done after a failure"
        restart(folder, committed)
        operations.add(committed)
    assert nth > 60
    assert committed == (4 * FRAMES, 2 * FRAMES)
    assert len(operations) > FRAMES, "it failed at every stage"


def test_a_failed_flush_is_not_tried_again(tmp_path):
    """What a flush that failed has left on disk is unknown, whatever the next one says."""

    class Flushes(Faulty):
        def fault(self, operation, descriptor, data):
            raise OSError(5, "Input/output error")

        def sync(self, descriptor):
            self._next("sync")
            asked.append(descriptor)

    asked: list[int] = []
    files = Flushes(1 << 30)
    journal = opened(tmp_path, files=files)
    journal.inputs(events(0, 1))
    files.left = 2  # the write, then the flush
    journal.commit()
    assert "Input/output error" in journal.failed
    assert journal.committed == (0, 0)
    count = len(asked)
    for _ in range(3):
        journal.inputs(events(1, 1))
        journal.commit()
        journal.sync()
    journal.close()
    assert len(asked) == count
    assert files.done == []


def test_short_writes_are_completed(tmp_path):
    committed, ended = session(tmp_path, Short())
    assert ended is None
    assert prefix(tmp_path, committed) == 2 * FRAMES


def test_a_journals_thread_that_fails_tells(tmp_path):
    files = Failing(40, CODES[0])
    journal = Journal.open(
        tmp_path, manifest_digest=DIGEST, policy=Policy(group_ms=0.1), files=files
    )
    count = 0

    def failed():
        nonlocal count
        journal.inputs(events(count, 1))
        count += 1
        return journal.failed

    until(failed, lambda: journal.committed)
    journal.close()
    assert "Input/output error" in journal.failed
    assert journal.committed.inputs < count
    inputs, _, _ = contents(tmp_path)
    assert len(inputs) >= journal.committed.inputs
    assert inputs["ts_event"].tolist() == list(range(len(inputs)))


@pytest.mark.parametrize("half", [False, True])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(tmp_path, half):
    nth = 0
    for inputs in (5, 10):
        checkpoint(tmp_path, np.arange(3), inputs, inputs, manifest_digest=DIGEST)
    while True:
        nth += 1
        files = Failing(nth, CODES[0], half=half)
        try:
            checkpoint(tmp_path, np.arange(3), 15, 15, manifest_digest=DIGEST, files=files)
        except OSError:
            assert newest_checkpoint(tmp_path, 3, DIGEST).inputs in (10, 15)
        if not files.struck:
            break
    assert nth > 6
    assert newest_checkpoint(tmp_path, 3, DIGEST).inputs == 15
