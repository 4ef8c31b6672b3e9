"""A session that is killed at any instant, again and again, is the session that was not killed."""

import os
import random
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.prepare import Prepared
from quantdsl.journal.files import DISK, Files
from quantdsl.journal.recovery import checkpoint, recover
from quantdsl.journal.writer import Journal, Policy
from tests.journal.faults import Killing
from tests.journal.helpers import DIGEST
from tests.journal.test_recovery import begun, chunks
from tests.live.programs import settled

NAME = "opening_range"
POLICY = Policy(group_ms=0.2, segment_bytes=50_000)
COUNTS = struct.Struct("<qq")
CHECKPOINT_EVENTS = 700
PIECES = 40
"""Of the run's events, of different lengths: a kill may come between any two."""


Kill = Callable[[int, int], bytes]
"""(process, pipe) -> what it read from the pipe before it killed, or did not."""


class Victim:
    """Sessions of one run in processes that are killed; what each acknowledged is checked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prepared = begun(NAME)
        self.begin = self.prepared.run.memory.words.copy(), self.prepared.run.records.count
        self.parts = [piece for part in chunks(self.prepared)[:10] for piece in _pieces(part)]
        self.ends = np.cumsum([len(part) for part in self.parts]).tolist()

    def fresh(self) -> Prepared:
        """The one run, before its first event."""
        run = self.prepared.run
        run.memory.words[:], run.records.count = self.begin
        return self.prepared

    def session(self, pipe: int, files: Files, *, threaded: bool) -> None:
        """Recover, go on, tell what is committed; runs in the child, and ends it."""
        run = self.fresh().run
        back = recover(run, self.folder, manifest_digest=DIGEST) if self.folder.exists() else None
        journal = Journal.open(
            self.folder, manifest_digest=DIGEST, policy=POLICY, files=files, threaded=threaded
        )
        seen = outputs = 0
        if back is not None:
            seen, outputs = back.inputs, back.outputs
            journal.outputs(back.fresh)
            outputs += len(back.fresh)
        kept = seen
        for part in self.parts[self.ends.index(seen) + 1 if seen else 0 :]:
            journal.inputs(part)
            before = len(run.all_records())
            run.feed(part)
            written = run.all_records()[before:]
            journal.outputs(written)
            seen, outputs = seen + len(part), outputs + len(written)
            if not threaded:
                journal.commit()
            os.write(pipe, COUNTS.pack(*journal.committed))
            if seen - kept > CHECKPOINT_EVENTS:
                journal.sync()
                checkpoint(
                    self.folder, run.memory.words, seen, outputs,
                    manifest_digest=DIGEST, files=files,
                )  # fmt: skip
                kept = seen
        journal.close()
        os.write(pipe, COUNTS.pack(*journal.committed))

    def killed(self, files: Files, kill: Kill, *, threaded: bool) -> bool:
        """One session in a process of its own; whether it was killed. Its journal is checked."""
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.close(reader)
                self.session(writer, files, threaded=threaded)
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        said = kill(child, reader)
        while data := os.read(reader, 1 << 16):
            said += data
        os.close(reader)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL)
        whole = len(said) // COUNTS.size * COUNTS.size
        acknowledged = list(COUNTS.iter_unpack(said[:whole]))
        self.check(acknowledged[-1] if acknowledged else (0, 0))
        return status != 0

    def check(self, acknowledged: tuple[int, int]) -> None:
        """Everything acknowledged is found; the state is that of the oracle after as many."""
        if not self.folder.exists():
            assert acknowledged == (0, 0)
            return
        back = recover(self.fresh().run, self.folder, manifest_digest=DIGEST)
        state = settled(self.prepared)
        assert back.inputs >= acknowledged[0]
        assert back.outputs >= acknowledged[1]
        assert back.inputs in (0, *self.ends)
        oracle = self.fresh()
        for part, end in zip(self.parts, self.ends, strict=True):
            if end <= back.inputs:
                oracle.run.feed(part)
        assert np.array_equal(state, settled(oracle))


def _pieces(part: np.ndarray) -> list[np.ndarray]:
    """Whole instants, a few at a time."""
    ends = np.flatnonzero((part["flags"] & 1) == 0) + 1
    return np.split(part, ends[PIECES:-1:PIECES])


def at_random(seed: int) -> Kill:
    """Kills after a random number of acknowledgements."""
    rng = random.Random(seed)

    def kill(child: int, reader: int) -> bytes:
        said = b""
        for _ in range(rng.randrange(12)):
            said += (data := os.read(reader, COUNTS.size))
            if not data:
                break
        os.kill(child, signal.SIGKILL)
        return said

    return kill


def by_itself(child: int, reader: int) -> bytes:
    """Whoever has a disk that kills needs no other."""
    return b""


def kills(folder: Path, count: int) -> None:
    """Kill so many sessions; each goes on where the one before was killed, or begins anew."""
    victim, done, sessions = Victim(folder / "0"), 0, 0
    while done < count:
        if victim.killed(DISK, at_random(done), threaded=True):
            done += 1
        else:  # it came to its end before
            sessions += 1
            victim.folder = folder / str(sessions)
    assert sessions > 0 or count < 100


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_25_times(tmp_path):
    kills(tmp_path, 25)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_1000_times(tmp_path):
    kills(tmp_path, 1000)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_killed_at_every_operation_on_a_file(tmp_path):
    victim, nth, killed = Victim(tmp_path), 0, True
    victim.parts, victim.ends = victim.parts[:12], victim.ends[:12]
    while killed:
        nth += 1
        victim.folder = tmp_path / str(nth)
        killed = victim.killed(Killing(nth), by_itself, threaded=False)
        victim.killed(Killing(nth + 3), by_itself, threaded=False)
    assert nth > 20
