"""Reading a journal: what is whole is returned, what is torn is left out, what is damaged refused.

A process that is killed leaves a last frame that is not whole: the journal ends before it, and
nothing that was acknowledged is lost. A frame that is not whole before others that were written
when it was on disk is damage. Then nothing is read as if it were all, and nothing is cut off.

Damage to the very last frame of a session that was killed looks like a torn one; a checkpoint
that counts it, or the end of the session in order, tells them apart.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.errors import JournalError
from quantdsl.events.layout import EVENT, RECORD
from quantdsl.journal.format import (
    FRAME,
    HEADER,
    RECORD_BYTES,
    Block,
    BlockKind,
    Header,
    blocks_of,
    frame_at,
    read_header,
    unpack,
)

OPEN, CLOSED = ".journal", ".journal.zst"
FIRST = 1
"""The number of a journal's first segment."""
Records = npt.NDArray[np.void]


class Position(NamedTuple):
    """How far a journal goes: what is next in it."""

    number: int
    """Of the next segment."""
    seq: int
    inputs: int
    outputs: int


class Segment(NamedTuple):
    """One segment that was read."""

    path: Path
    header: Header
    blocks: list[Block]
    frames: int
    whole: int
    """Bytes of its whole frames and the header; what follows them is torn."""
    torn: int

    @property
    def next(self) -> Position:
        """Where the segment after it begins."""
        header, sizes = self.header, {BlockKind.INPUT: 0, BlockKind.OUTPUT: 0}
        for block in self.blocks:
            if block.kind in sizes:
                sizes[BlockKind(block.kind)] += len(block.data) // RECORD_BYTES
        return Position(
            header.number + 1,
            header.seq + self.frames,
            header.inputs + sizes[BlockKind.INPUT],
            header.outputs + sizes[BlockKind.OUTPUT],
        )

    @property
    def ended(self) -> bool:
        """Whether the session ended in order, with this segment."""
        return bool(self.blocks) and self.blocks[-1].kind == BlockKind.END

    def inputs(self, after: int = 0) -> Records:
        """Its events, but for the first `after` of the journal."""
        return self._records(BlockKind.INPUT, after - self.header.inputs).view(EVENT)

    def outputs(self, after: int = 0) -> Records:
        """Its records, but for the first `after` of the journal."""
        return self._records(BlockKind.OUTPUT, after - self.header.outputs)

    def _records(self, kind: BlockKind, skipped: int) -> Records:
        joined = b"".join([block.data for block in self.blocks if block.kind == kind])
        return np.frombuffer(joined, RECORD)[max(skipped, 0) :]


def read(folder: Path) -> Iterator[tuple[BlockKind, Records | bytes]]:
    """Everything in a journal in the order of its writing: EVENTs, RECORDs, bytes of notes.

    JournalError at the first damage, after all that lies before it.
    """
    for segment in segments(folder):
        for block in segment.blocks:
            kind = BlockKind(block.kind)
            if kind == BlockKind.INPUT:
                yield kind, np.frombuffer(block.data, EVENT)
            elif kind == BlockKind.OUTPUT:
                yield kind, np.frombuffer(block.data, RECORD)
            else:
                yield kind, bytes(block.data)


def segments(folder: Path, *, digest: bytes | None = None, after: int = 0) -> Iterator[Segment]:
    """The segments of a journal in order, without those of which all events are among the first
    `after`.

    JournalError at the first damage, at a gap, or where a segment is of another session than that
    with the manifest `digest`.
    """
    paths = segment_paths(folder)
    headers = [_header(path) for path in paths[1:]]
    begins = [0, *(header.inputs if header else None for header in headers)]
    expected: Position | None = None
    for index, path in enumerate(paths):
        last = index == len(paths) - 1
        if not last and (follows := begins[index + 1]) is not None and follows <= after:
            continue
        segment = _segment(path, last=last)
        if segment is None:
            return
        header = segment.header
        if digest is not None and header.digest != digest:
            raise JournalError(
                f"{path}: this segment belongs to another session, or the session's manifest was "
                "changed\nhelp: a session goes on with the program and settings it began with"
            )
        here = Position(header.number, header.seq, header.inputs, header.outputs)
        if int(path.name.partition(".")[0]) != header.number or expected not in (None, here):
            raise JournalError(
                f"{path}: this segment does not continue the one before it: one was lost, changed "
                "or moved\nhelp: nothing was changed; restore the files, or begin a new session "
                "with --new"
            )
        expected = segment.next
        yield segment


def segment_paths(folder: Path) -> list[Path]:
    """The files of a journal in order; JournalError where one is missing."""
    found: dict[int, Path] = {}
    for suffix in (OPEN, CLOSED):  # where a kill left both of one number, both hold the same
        for path in folder.glob(f"*{suffix}"):
            name = path.name.removesuffix(suffix)
            if name.isdecimal():
                found[int(name)] = path
    for number, wanted in zip(sorted(found), range(FIRST, FIRST + len(found)), strict=True):
        if number != wanted:
            raise JournalError(
                f"{folder}: segment {wanted} is missing: {found[number].name} is there\n"
                "help: a journal is whole or it is none; restore the file"
            )
    return [found[number] for number in sorted(found)]


def _header(path: Path) -> Header | None:
    """The header of a segment; None where there is none, which is told when it is read."""
    with path.open("rb") as file:
        try:
            return read_header(file.read(HEADER.size), str(path))
        except JournalError:
            return None


def _segment(path: Path, *, last: bool) -> Segment | None:
    """One segment; None for a last one that was killed before its header was whole."""
    data = path.read_bytes()
    if path.name.endswith(CLOSED):
        return segment_in(path, unpack(data, str(path)), last=False)
    if last and len(data) <= HEADER.size:
        try:
            read_header(data, str(path))
        except JournalError:
            return None
    return segment_in(path, data, last=last)


def segment_in(path: Path, data: bytes, *, last: bool) -> Segment:
    """The segment in `data`; only the last may end in a frame that is not whole.

    JournalError names `path` and the byte where it is damaged.
    """
    header = read_header(data, str(path))
    salt, seq, at = header.salt, header.seq, HEADER.size
    view = memoryview(data)
    blocks: list[Block] = []
    while size := frame_at(view, at, salt, seq):
        blocks += blocks_of(view, at, at + size)
        seq, at = seq + 1, at + size
    torn = len(data) - at
    if torn and (not last or _shows_damage(data, at, salt, seq)):
        raise JournalError(
            f"{path}: damaged at byte {at:,}: frame {seq:,} was on disk and is not whole\n"
            "help: nothing was changed; restore the file, or begin a new session: "
            "`quantdsl journal export` reads what lies before the damage"
        )
    return Segment(path, header, blocks, seq - header.seq, at, torn)


def _shows_damage(data: bytes, at: int, salt: int, seq: int) -> bool:
    """Whether a whole frame behind byte `at` proves that the frame `seq` stood there whole.

    It was written when that frame was on disk; or it is that frame, in another place.
    """
    view = memoryview(data)
    frames_max = (len(data) - at) // FRAME.size + 1
    for shift in range(8):  # damage may have moved what follows it
        start = at + shift
        count = (len(data) - start) // 8
        if count < 1:
            break
        seqs = np.frombuffer(data, "<u8", count, start)
        likely = np.flatnonzero((seqs >= seq) & (seqs - np.uint64(seq) <= frames_max))
        for word in likely.tolist():
            place, found = start + 8 * word - 8, int(seqs[word])
            whole = place >= at and frame_at(view, place, salt, found)
            if whole and (found == seq or FRAME.unpack_from(view, place)[3] > seq):
                return True
    return False
