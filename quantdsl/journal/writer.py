"""Writing a journal: threads hand over copies, one thread of its own commits them in groups.

Committed means: as durable as the policy says, and found again by every reader. What a session
shows or acknowledges is committed. An operation on a file that fails ends the journal: it is never
tried again, since a system that failed to flush a page may forget it and report the next attempt
as good. The session sees `failed` and halts.
"""

import os
import threading
import time
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.errors import JournalError
from quantdsl.events.layout import EVENT, MORE, RECORD
from quantdsl.journal.files import DISK, Files, lock
from quantdsl.journal.format import (
    DIGEST_BYTES,
    RECORD_BYTES,
    Block,
    BlockKind,
    Header,
    codec,
    frame,
    pack,
)
from quantdsl.journal.reader import CLOSED, FIRST, OPEN, Position, segments

LOCK = "lock"
TORN = ".torn"
PENDING_BYTES_MAX = 256 << 20
"""That wait for the disk: two million events, half a minute of the highest rate."""
BEGIN = Position(FIRST, 0, 0, 0)


class Policy(NamedTuple):
    """How a journal is committed."""

    fsync: Literal["group", "interval", "never"] = "group"
    """Flush each group, or what came in an interval; never: survives the process, not the power."""
    group_ms: float = 5.0
    """What comes in this time is one group."""
    interval_ms: float = 1000.0
    segment_bytes: int = 16 << 20
    """A longer segment is closed and compressed, which takes a tenth of a second."""


DEFAULT = Policy()


class Committed(NamedTuple):
    """How many events and records are on disk."""

    inputs: int
    outputs: int


class Journal:
    """The journal of one run; from its opening on this process alone writes it.

    `inputs`, `outputs` and `note` may be called by any thread, take about a microsecond and never
    fail: after a failure they do nothing. So may `sync`, which waits for the disk. Their calls are
    written in their order, so events are to be handed over before the engine can see them, and no
    record stands before what caused it.
    """

    def __init__(
        self, folder: Path, digest: bytes, begin: Position, policy: Policy, files: Files, lock: int
    ) -> None:
        """Use `Journal.open`."""
        self.folder, self.digest, self.policy, self.files = folder, digest, policy, files
        self.failed: str | None = None
        """Why nothing can be written any more."""
        self.committed = Committed(begin.inputs, begin.outputs)
        self._lock = lock
        self._pending: list[tuple[BlockKind, int, int, bytearray]] = []
        self._pending_bytes = 0
        self._taken = Committed(begin.inputs, begin.outputs)
        self._hand = threading.Lock()
        self._write = threading.Lock()
        """Groups are written in the order in which they are taken, by whichever thread."""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._segment = _OpenSegment(folder, digest, begin, files)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        manifest_digest: bytes,
        policy: Policy = DEFAULT,
        files: Files = DISK,
        threaded: bool = True,
    ) -> "Journal":
        """Begin a journal, or go on behind the last whole frame of the one that is there.

        `manifest_digest` is the SHA-256 of what determines the run, the same at every opening.
        Without a thread, who opened it calls `commit`, or `start` later. JournalError where another
        process writes it, where it is damaged (nothing is changed then), or where it is of another
        session.
        """
        assert len(manifest_digest) == DIGEST_BYTES
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _locked(folder)
        try:
            begin = _tidied(folder, manifest_digest, files)
            journal = cls(folder, manifest_digest, begin, policy, files, lock)
        except OSError as failure:
            os.close(lock)
            raise JournalError(f"{folder}: the journal cannot be written: {failure}") from None
        except BaseException:
            os.close(lock)
            raise
        if threaded:
            journal.start()
        return journal

    def inputs(self, events: npt.NDArray[np.void]) -> None:
        """Events that the engine is about to consume: whole messages."""
        assert events.dtype == EVENT
        assert not len(events) or not events["flags"][-1] & MORE, "half a message"
        self._add(BlockKind.INPUT, 0, events.tobytes())

    def outputs(self, records: npt.NDArray[np.void]) -> None:
        """Records that the engine wrote."""
        assert records.dtype == RECORD
        self._add(BlockKind.OUTPUT, 0, records.tobytes())

    def note(self, kind: int, data: bytes) -> None:
        """A change of state outside the engine; `kind` is the session's own number for it."""
        self._add(BlockKind.NOTE, kind, data)

    @property
    def taken(self) -> Committed:
        """How many events and records were handed over."""
        return self._taken

    def commit(self) -> None:
        """Write what waits; on disk at once, in time or whenever, as the policy says."""
        with self._write:
            self._commit()

    def sync(self) -> None:
        """At the return what was handed over is on disk and committed, or `failed` is set."""
        with self._write:
            self._commit()
            if self.failed is None:
                try:
                    self._segment.sync()
                    self.committed = self._segment.written
                except OSError as failure:
                    self._fail(failure)

    def close(self) -> None:
        """End in order: what was handed over is on disk, and that nothing follows is told."""
        self._stop()
        if self.failed is None:
            self._add(BlockKind.END, 0, b"")
            self.sync()
        self.abandon()

    def abandon(self) -> None:
        """Let go of the files as they are, for the next opening."""
        self._stop()
        try:
            self._segment.close()
        except OSError as failure:
            self._fail(failure)
        os.close(self._lock)

    def _commit(self) -> None:
        with self._hand:
            pending, self._pending = self._pending, []
            self._pending_bytes, taken = 0, self._taken
        if self.failed is not None or not pending:
            return
        try:
            self._segment.write([Block(*part) for part in pending])
            if self.policy.fsync == "group":
                self._segment.sync()
            if self.policy.fsync != "interval":
                self.committed = taken
            if self._segment.size > self.policy.segment_bytes:
                self._rotate()
        except OSError as failure:
            self._fail(failure)

    def _add(self, kind: BlockKind, tag: int, data: bytes) -> None:
        if self.failed is not None:
            return
        records = kind in (BlockKind.INPUT, BlockKind.OUTPUT)
        with self._hand:
            inputs, outputs = self._taken
            first = outputs if kind == BlockKind.OUTPUT else inputs
            self._pending_bytes += len(data)
            if records and self._pending and self._pending[-1][0] == kind:
                self._pending[-1][3].extend(data)
            elif data or not records:
                self._pending.append((kind, tag, first, bytearray(data)))
            count = len(data) // RECORD_BYTES
            if kind == BlockKind.INPUT:
                self._taken = Committed(inputs + count, outputs)
            elif kind == BlockKind.OUTPUT:
                self._taken = Committed(inputs, outputs + count)
        if self._pending_bytes > PENDING_BYTES_MAX:
            self.failed = (
                f"the journal's disk does not keep up: {self._pending_bytes >> 20} MiB wait for it"
            )

    def _fail(self, failure: BaseException) -> None:
        self.failed = f"the journal in {self.folder} cannot be written: {failure}"

    def _rotate(self) -> None:
        """Close the segment, compress it, begin the next."""
        closed, begin = self._segment, self._segment.next
        closed.sync()
        self.committed = closed.written
        closed.close()
        _close_up(closed.path, closed.size, self.files)
        self._segment = _OpenSegment(self.folder, self.digest, begin, self.files)

    def start(self) -> None:
        """Commit on a thread of its own from now on."""
        codec()  # a session that lasts grows by no library in its middle
        self._thread = threading.Thread(target=self._work, name="quantdsl-journal", daemon=True)
        self._thread.start()

    def _stop(self) -> None:
        """Let the group at hand end, then the thread."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        """The journal's thread: a group after the other until the end or a failure."""
        interval = self.policy.interval_ms / 1e3 if self.policy.fsync == "interval" else None
        synced = time.monotonic()
        try:
            while not self._closing.wait(self.policy.group_ms / 1e3) and self.failed is None:
                self.commit()
                if interval is not None and time.monotonic() - synced >= interval:
                    self.sync()
                    synced = time.monotonic()
        except BaseException as failure:  # a thread that dies unnoticed would commit nothing more
            self._fail(failure)
            raise


class _OpenSegment:
    """The segment that is being written."""

    def __init__(self, folder: Path, digest: bytes, begin: Position, files: Files) -> None:
        header = Header(digest, begin.number, begin.seq, begin.inputs, begin.outputs)
        self.files, self.salt, self.number = files, header.salt, begin.number
        self.path = folder / f"{begin.number:08d}{OPEN}"
        self.written = Committed(begin.inputs, begin.outputs)
        self.seq = self.synced = begin.seq
        self.descriptor = files.create(self.path)
        try:
            data = header.pack()
            files.write_all(self.descriptor, data)
            self.size = len(data)
            files.sync(self.descriptor)
            files.sync_folder(folder)
        except BaseException:
            self.close()
            raise

    @property
    def next(self) -> Position:
        """Where a segment after it begins."""
        return Position(self.number + 1, self.seq, *self.written)

    def write(self, blocks: list[Block]) -> None:
        """One frame, handed to the system."""
        data = frame(self.salt, self.seq, self.synced, blocks)
        self.files.write_all(self.descriptor, data)
        self.seq += 1
        self.size += len(data)
        inputs, outputs = self.written
        for block in blocks:
            count = len(block.data) // RECORD_BYTES
            inputs += count if block.kind == BlockKind.INPUT else 0
            outputs += count if block.kind == BlockKind.OUTPUT else 0
        self.written = Committed(inputs, outputs)

    def sync(self) -> None:
        """All frames so far are on disk at the return."""
        if self.synced < self.seq:
            self.files.sync(self.descriptor)
            self.synced = self.seq

    def close(self) -> None:
        """Let go of the file."""
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            self.files.close(descriptor)


def _locked(folder: Path) -> int:
    """A descriptor that keeps other processes from writing the journal until it is closed."""
    try:
        return lock(folder / LOCK)
    except BlockingIOError:
        raise JournalError(
            f"{folder}: another process writes this journal\n"
            "help: end that session, or wait for its end"
        ) from None


def _tidied(folder: Path, digest: bytes, files: Files) -> Position:
    """Where to go on: the segment that an earlier process left open is closed.

    Its whole frames are written to disk anew: it is not known what a failed flush left of them.
    What is torn was never acknowledged; it stays beside them under a name of its own.
    """
    begin, open_one = BEGIN, None
    for segment in segments(folder, digest=digest, after=1 << 62):
        begin, open_one = segment.next, segment if segment.path.suffix == OPEN else None
    for path in folder.glob(f"*{OPEN}"):
        if open_one is not None and path == open_one.path:
            _close_up(path, open_one.whole, files, torn=open_one.torn > 0)
        else:  # it was compressed already, or its header never became whole
            files.unlink(path)
    return begin


def _close_up(path: Path, whole: int, files: Files, *, torn: bool = False) -> None:
    """Compress a segment of which so many bytes are whole."""
    target = path.with_name(path.name.removesuffix(OPEN) + CLOSED)
    with (
        path.open("rb") as file,
        mmap(file.fileno(), whole, access=ACCESS_READ) as data,
        memoryview(data) as segment,
    ):
        packed = pack(segment)
    files.replace(target, packed)
    if torn:
        files.rename(path, path.with_name(path.name + TORN))
    else:
        files.unlink(path)
