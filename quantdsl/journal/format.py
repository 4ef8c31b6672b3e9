"""The bytes of a journal: segments of frames of blocks. All integers are little-endian.

    segment   header | frame | frame | ...
    header    magic, format version, sizes | where the segment begins | crc32
    frame     crc32 | body bytes | seq | synced | body
    body      block | block | ...
    block     kind | tag | bytes | first | data, padded to 8 bytes

A frame is what one group commit wrote. Its CRC covers all of it after the CRC, and begins with the
CRC of its segment's header: a frame counts in the place for which it was written and nowhere else.
`seq` counts frames through all segments. `synced` is how many frames were on disk for certain when
this one was written: those were whole then, and if one of them is not whole now, it was damaged.

A closed segment is packed: the same header, then the CRC and the sizes of what follows, the frames
compressed by zstd.

What a version of this file has written, later versions read or refuse by its number: codes are
never reused, and tests/journal/test_golden.py holds the bytes.
"""

import struct
import zlib
from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from quantdsl.errors import JournalError
from quantdsl.events.layout import WORDS

FORMAT_VERSION = 1
MAGIC = b"QDSLJRNL"
RECORD_BYTES = 8 * WORDS
DIGEST_BYTES = 32
ALIGN_BYTES = 8
FRAME_BYTES_MAX = 1 << 30
"""A longer body is a length that was damaged; a writer halts long before it."""

PREAMBLE = struct.Struct("<8sII")  # magic, format version, bytes of the header
HEADER = struct.Struct("<8sIIQQQQ32sII")
FRAME = struct.Struct("<IIQQ")
BLOCK = struct.Struct("<HHIQ")
PACKED = struct.Struct("<IIQQ")  # crc32, 0, bytes of the frames, bytes of them compressed
LEVEL = 1
PIECE_BYTES = 1 << 20
"""Of a segment that are compressed at once."""
"""Of zstd: higher ones gain a twentieth and take half as long again."""

assert HEADER.size % ALIGN_BYTES == FRAME.size % ALIGN_BYTES == BLOCK.size % ALIGN_BYTES == 0


class BlockKind(IntEnum):
    """What a block holds. Codes are never reused."""

    INPUT = 1  # events, as the engine consumed them; `first` counts events before them
    OUTPUT = 2  # records of the engine; `first` counts records before them
    NOTE = 3  # bytes of the session, of kind `tag`; `first` counts events before it
    END = 4  # the session ended in order; nothing was going to follow


class Block(NamedTuple):
    """A part of a frame that is of one kind."""

    kind: int
    tag: int
    first: int
    data: bytes | bytearray | memoryview


class Header(NamedTuple):
    """Where a segment begins."""

    digest: bytes
    """SHA-256 of the session's manifest: program, settings, build."""
    number: int
    seq: int
    """Of its first frame."""
    inputs: int
    """Events in all segments before it, and records: `outputs`."""
    outputs: int

    def pack(self) -> bytes:
        """Its bytes."""
        body = HEADER.pack(
            MAGIC, FORMAT_VERSION, HEADER.size, self.number, self.seq, self.inputs, self.outputs,
            self.digest, 0, 0,
        )[:-4]  # fmt: skip
        return body + zlib.crc32(body).to_bytes(4, "little")

    @property
    def salt(self) -> int:
        """What the CRC of each of its frames begins with."""
        return int.from_bytes(self.pack()[-4:], "little")


def read_header(data: bytes | memoryview, name: str) -> Header:
    """The header at the start of `data`; JournalError where there is none of this version."""
    if len(data) < PREAMBLE.size:
        raise JournalError(f"{name}: the file is cut off in its header")
    magic, version, size = PREAMBLE.unpack_from(data)
    if magic != MAGIC:
        raise JournalError(
            f"{name}: this file is no segment of a journal, or its start is damaged\n"
            "help: nothing was changed; restore the file, or begin a new session with --new"
        )
    whole = len(data) >= size >= PREAMBLE.size + 4
    if not whole or zlib.crc32(data[: size - 4]) != int.from_bytes(data[size - 4 : size], "little"):
        raise JournalError(f"{name}: the header is damaged or cut off")
    if version != FORMAT_VERSION:
        raise JournalError(
            f"{name}: the journal has format {version}, and this program reads {FORMAT_VERSION}\n"
            "help: use the version of quantdsl that wrote it"
        )
    _, _, _, number, seq, inputs, outputs, digest, _, _ = HEADER.unpack_from(data)
    return Header(digest, number, seq, inputs, outputs)


def frame(salt: int, seq: int, synced: int, blocks: Iterable[Block]) -> bytes:
    """The bytes of one frame."""
    parts = [b""]
    for kind, tag, first, data in blocks:
        parts.append(BLOCK.pack(kind, tag, len(data), first))
        parts.append(bytes(data))
        parts.append(bytes(-len(data) % ALIGN_BYTES))
    body = b"".join(parts)
    head = FRAME.pack(0, len(body), seq, synced)[4:]
    return zlib.crc32(body, zlib.crc32(head, salt)).to_bytes(4, "little") + head + body


def frame_at(data: memoryview, at: int, salt: int, seq: int) -> int:
    """The bytes of the frame `seq` that begins there; 0 where no whole one does."""
    if len(data) - at < FRAME.size:
        return 0
    crc, size, found, synced = FRAME.unpack_from(data, at)
    end = at + FRAME.size + size
    if found != seq or synced > seq or size > FRAME_BYTES_MAX or end > len(data):
        return 0
    return end - at if zlib.crc32(data[at + 4 : end], salt) == crc else 0


def blocks_of(data: memoryview, at: int, end: int) -> list[Block]:
    """The blocks of the frame data[at:end], which is whole; their data lie in `data`."""
    found = []
    at += FRAME.size
    while at < end:
        kind, tag, size, first = BLOCK.unpack_from(data, at)
        at += BLOCK.size
        found.append(Block(kind, tag, first, data[at : at + size]))
        at += size + -size % ALIGN_BYTES
    assert at == end, "a frame was written whose blocks do not fill it"
    return found


def pack(segment: bytes | memoryview) -> bytes:
    """The packed form of a closed segment, made a piece at a time: no copy of all is needed."""
    header, size = bytes(segment[: HEADER.size]), len(segment) - HEADER.size
    pieces = [
        codec().compress(segment[at : at + PIECE_BYTES], asbytes=True)
        for at in range(HEADER.size, len(segment), PIECE_BYTES)
    ]
    sizes = PACKED.pack(0, 0, size, sum(map(len, pieces)))[4:]
    crc = zlib.crc32(sizes, zlib.crc32(header))
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return b"".join([header, crc.to_bytes(4, "little"), sizes, *pieces])


def unpack(packed: bytes, name: str) -> bytes:
    """The segment in its packed form; JournalError where a bit of it is not as it was written."""
    read_header(packed, name)
    start = HEADER.size + PACKED.size
    if len(packed) < start:
        raise JournalError(f"{name}: the file is cut off")
    crc, _, size, squeezed = PACKED.unpack_from(packed, HEADER.size)
    salt = zlib.crc32(packed[: HEADER.size])
    whole = len(packed) == start + squeezed
    if not whole or zlib.crc32(memoryview(packed)[HEADER.size + 4 :], salt) != crc:
        raise JournalError(f"{name}: the compressed frames are damaged or cut off")
    return packed[: HEADER.size] + bytes(codec().decompress(packed[start:], size, asbytes=True))


@cache
def codec() -> Any:
    """What compresses; the first call loads a library of 25 MB."""
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=LEVEL)
