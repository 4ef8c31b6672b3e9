"""From a journal back to the state of the run: the same compiled code on the same events.

What comes out must be what the journal says came out, byte for byte. A checkpoint saves the time
of the events before it, and nothing else: without one the result is the same.
"""

import hashlib
import re
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.program import Run
from quantdsl.errors import JournalError
from quantdsl.journal.files import DISK, Files
from quantdsl.journal.reader import Records, segments

VERSION = 1
MAGIC = b"QDSLCKPT"
CHECKPOINT = struct.Struct("<8sIIQQQ32s32s")
"""Magic, version, 0, inputs, outputs, words, SHA-256 of manifest, and of all this and the words."""
NAME = re.compile(r"checkpoint-(\d{16})")
KEPT = 2
"""Checkpoints: the newest, and the one before, should the newest be damaged."""


class Checkpoint(NamedTuple):
    """The words of a run's state after so many events, all records of which are counted."""

    inputs: int
    outputs: int
    words: npt.NDArray[np.int64]


class Recovered(NamedTuple):
    """What `recover` did; the run goes on behind `inputs` events."""

    inputs: int
    outputs: int
    """Records that the journal has, each equal to what the run wrote again."""
    replayed: int
    """Events that were fed again: those behind the checkpoint."""
    last_ts: int
    """The latest time in the events that were fed again, ns; 0 where there was none."""
    torn: bool
    """Whether the journal ended in the middle of a write."""
    ended: bool
    """Whether the session had ended in order."""
    fresh: Records
    """Records of events that are in the journal, but which are not in it themselves: to add."""


def checkpoint(
    folder: Path,
    words: npt.NDArray[np.int64],
    inputs: int,
    outputs: int,
    *,
    manifest_digest: bytes,
    files: Files = DISK,
) -> None:
    """Keep the state of the run as it is after `inputs` events and `outputs` records.

    Both must be committed. OSError where it cannot be written; the older ones are left then.
    """
    data = np.ascontiguousarray(words, np.int64).data.cast("B")
    head = (MAGIC, VERSION, 0, inputs, outputs, len(words), manifest_digest)
    proof = hashlib.sha256(CHECKPOINT.pack(*head, b""))
    proof.update(data)
    path = folder / f"checkpoint-{inputs:016d}"
    files.replace(path, CHECKPOINT.pack(*head, proof.digest()), data)
    for old in _checkpoints(folder)[KEPT:]:
        files.unlink(old)


def newest_checkpoint(folder: Path, words: int, manifest_digest: bytes) -> Checkpoint | None:
    """The newest one that is whole and of this run, whose state has so many words."""
    for path in _checkpoints(folder):
        data = path.read_bytes()
        if len(data) != CHECKPOINT.size + 8 * words:
            continue
        *head, proof = CHECKPOINT.unpack_from(data)
        whole = hashlib.sha256(CHECKPOINT.pack(*head, b"") + data[CHECKPOINT.size :]).digest()
        if whole == proof and head[:2] == [MAGIC, VERSION] and head[6] == manifest_digest:
            return Checkpoint(head[3], head[4], np.frombuffer(data, np.int64, -1, CHECKPOINT.size))
    return None


def _checkpoints(folder: Path) -> list[Path]:
    """Its checkpoints, newest first."""
    found = [path for path in folder.iterdir() if NAME.fullmatch(path.name)]
    return sorted(found, reverse=True)


def recover(run: Run, folder: Path, *, manifest_digest: bytes, whole: bool = False) -> Recovered:
    """Bring a run that is ready for its first event to where its journal ends.

    `whole` feeds every event, as if there were no checkpoint. JournalError where the journal is
    damaged, or the run does not write what the journal says it wrote; the run is of no use then.
    """
    start = None
    if not whole:
        start = newest_checkpoint(folder, len(run.memory.words), manifest_digest)
    if start is not None:
        run.memory.words[:] = start.words
    inputs, outputs = (start.inputs, start.outputs) if start else (0, 0)
    first, replay, last_ts, torn, ended = inputs, _Replay(run, outputs), 0, False, False
    for segment in segments(folder, digest=manifest_digest, after=first):
        events = segment.inputs(first)
        if len(events):
            run.feed(events)
            last_ts = max(last_ts, int(events["ts_event"].max()), int(events["ts_recv"].max()))
        replay.compare(segment.outputs(outputs))
        inputs, torn, ended = segment.next.inputs, segment.torn > 0, segment.ended
    if inputs < first:
        raise JournalError(
            f"{folder}: a checkpoint was made after {first:,} events, and the journal has only "
            f"{inputs:,}: events that were on disk are lost\nhelp: restore the folder"
        )
    fresh = replay.rest()
    return Recovered(inputs, replay.equal, inputs - first, last_ts, torn, ended, fresh)


class _Replay:
    """Compares what a run writes with what a journal says, as both come."""

    def __init__(self, run: Run, equal: int) -> None:
        self.run, self.equal = run, equal
        self._offset = equal - len(run.all_records())

    def compare(self, said: Records) -> None:
        """JournalError unless the run's next records are these."""
        written = self.rest()[: len(said)]
        if written.tobytes() != said.tobytes():
            at, shown = first_difference(written, said)
            raise JournalError(
                f"the replay of the journal differs at record {self.equal + at:,}: {shown}\n"
                "help: the program, its settings or the journal are not those of the session"
            )
        self.equal += len(said)

    def rest(self) -> Records:
        """What the run wrote and no journal has confirmed."""
        return self.run.all_records()[self.equal - self._offset :]


def first_difference(one: Records, two: Records) -> tuple[int, str]:
    """The index of the first record that differs, and both records; they are not equal."""
    shared = min(len(one), len(two))
    words = [records[:shared].view(np.int64).reshape(shared, -1) for records in (one, two)]
    rows = np.flatnonzero((words[0] != words[1]).any(axis=1))
    at = int(rows[0]) if len(rows) else shared
    shown = [str(records[at]) if at < len(records) else "nothing" for records in (one, two)]
    return at, f"{shown[0]} was written again, {shown[1]} is in the journal"
