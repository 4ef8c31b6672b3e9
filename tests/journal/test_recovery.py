"""A run that is recovered from its journal is the run that was not killed, to the bit."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.prepare import Prepared
from quantdsl.errors import JournalError
from quantdsl.events.layout import EVENT, MORE
from quantdsl.journal.reader import CLOSED, OPEN
from quantdsl.journal.recovery import KEPT, checkpoint, newest_checkpoint, recover
from quantdsl.journal.writer import Journal, Policy
from tests.journal.helpers import DIGEST, opened
from tests.live.programs import events, ready, settled

SMALL = Policy(segment_bytes=400_000)
CHUNK = 500


def chunks(prepared: Prepared) -> list[np.ndarray]:
    """The run in pieces as a feed would give them; every piece ends with an instant."""
    whole = np.concatenate([part.view(EVENT) for part in events(prepared)])
    ends = np.flatnonzero((whole["flags"] & MORE) == 0) + 1
    return np.split(whole, ends[CHUNK - 1 : -1 : CHUNK])


def drive(prepared: Prepared, journal: Journal, parts: list[np.ndarray]) -> None:
    """Live, as far as a journal can tell: events before, records after."""
    run = prepared.run
    for part in parts:
        journal.inputs(part)
        before = len(run.all_records())
        run.feed(part)
        journal.outputs(run.all_records()[before:])
        journal.commit()


@pytest.fixture(params=["sma_cross", "opening_range"])
def name(request) -> str:
    return request.param


def uninterrupted(name: str) -> tuple[bytes, np.ndarray]:
    prepared = ready(name)
    prepared.run.memory.set("curve_on", False)
    for part in chunks(prepared):
        prepared.run.feed(part)
    return prepared.run.all_records().tobytes(), settled(prepared)


def begun(name: str) -> Prepared:
    prepared = ready(name)
    prepared.run.memory.set("curve_on", False)
    return prepared


@pytest.mark.parametrize("checkpoints", [False, True])
def test_the_state_is_that_of_an_uninterrupted_run(tmp_path, name, checkpoints):
    records, state = uninterrupted(name)
    parts = chunks(ready(name))
    kills = [0, 1, len(parts) // 3, len(parts) // 3, len(parts) - 2, len(parts)]
    done = 0
    for kill in kills:
        prepared = begun(name)
        start = prepared.run.all_records().tobytes()
        back = recover(prepared.run, tmp_path, manifest_digest=DIGEST) if done else None
        journal = opened(tmp_path, policy=SMALL)
        if back is not None:
            assert back.inputs == journal.committed.inputs == sum(map(len, parts[:done]))
            assert back.outputs == journal.committed.outputs
            assert len(back.fresh) == 0
        drive(prepared, journal, parts[done:kill])
        if checkpoints:
            counts = journal.committed
            checkpoint(tmp_path, prepared.run.memory.words, *counts, manifest_digest=DIGEST)
        journal.abandon()
        done = kill
    assert np.array_equal(settled(prepared), state)
    whole = begun(name)
    back = recover(whole.run, tmp_path, manifest_digest=DIGEST, whole=True)
    assert whole.run.all_records().tobytes() == records
    assert np.array_equal(settled(whole), state)
    said = whole.run.all_records()[len(start) // 64 :]
    assert back.outputs == len(said)
    assert back.replayed == back.inputs == sum(map(len, parts))


def test_events_whose_records_were_not_written_give_them_now(tmp_path):
    prepared = begun("sma_cross")
    parts = chunks(prepared)
    journal = opened(tmp_path)
    drive(prepared, journal, parts[:-1])
    journal.inputs(parts[-1])
    journal.commit()
    journal.abandon()
    again = begun("sma_cross")
    back = recover(again.run, tmp_path, manifest_digest=DIGEST)
    known = len(prepared.run.all_records())
    prepared.run.feed(parts[-1])
    expected = prepared.run.all_records()[known:]
    assert len(expected) > 0
    assert back.fresh.tobytes() == expected.tobytes()
    assert again.run.all_records().tobytes() == prepared.run.all_records().tobytes()


def journalled(folder: Path, *, parts: slice = slice(None)) -> tuple[Prepared, int]:
    """A journal of sma_cross; the run, and how many events it has seen."""
    prepared = begun("sma_cross")
    journal = opened(folder)
    drive(prepared, journal, chunks(prepared)[parts])
    journal.abandon()
    return prepared, journal.committed.inputs


def test_another_run_is_refused(tmp_path):
    """The journal of one strategy is none of another, nor of other settings."""
    journalled(tmp_path)
    prepared = begun("sma_cross")
    prepared.run.memory.words[prepared.run.memory.slot("e.cash").offset_words] //= 2
    with pytest.raises(JournalError, match="the replay of the journal differs at record"):
        recover(prepared.run, tmp_path, manifest_digest=DIGEST)


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "grow"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage):
    prepared, seen = journalled(tmp_path)
    counts = (seen, len(prepared.run.all_records()))
    checkpoint(tmp_path, prepared.run.memory.words, *counts, manifest_digest=DIGEST)
    path = next(tmp_path.glob("checkpoint-*"))
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    whole = {"flip": data, "cut": data[:-1], "empty": b"", "grow": data + b"\0"}[damage]
    path.write_bytes(whole)
    words = len(prepared.run.memory.words)
    assert newest_checkpoint(tmp_path, words, DIGEST) is None
    again = begun("sma_cross")
    assert recover(again.run, tmp_path, manifest_digest=DIGEST).replayed == seen
    assert np.array_equal(settled(again), settled(prepared))


def test_the_newest_checkpoints_are_kept(tmp_path):
    for inputs in (5, 10, 15, 20):
        checkpoint(tmp_path, np.arange(3), inputs, inputs, manifest_digest=DIGEST)
    assert len(list(tmp_path.glob("checkpoint-*"))) == KEPT
    found = newest_checkpoint(tmp_path, 3, DIGEST)
    assert (found.inputs, found.outputs, found.words.tolist()) == (20, 20, [0, 1, 2])
    assert newest_checkpoint(tmp_path, 4, DIGEST) is None
    assert newest_checkpoint(tmp_path, 3, bytes(32)) is None


def test_a_checkpoint_tells_that_events_were_lost(tmp_path):
    """Without it the end of a journal that lost its last segment cannot be told from a kill."""
    for parts in (slice(0, 20), slice(20, 30)):
        prepared = begun("sma_cross")
        if parts.start:
            recover(prepared.run, tmp_path, manifest_digest=DIGEST)
        journal = opened(tmp_path)
        drive(prepared, journal, chunks(prepared)[parts])
        journal.abandon()
    counts = journal.committed
    checkpoint(tmp_path, prepared.run.memory.words, *counts, manifest_digest=DIGEST)
    (tmp_path / f"00000002{OPEN}").unlink()
    assert (tmp_path / f"00000001{CLOSED}").exists()
    with pytest.raises(JournalError, match="events that were on disk are lost"):
        recover(begun("sma_cross").run, tmp_path, manifest_digest=DIGEST)
