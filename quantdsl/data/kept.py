"""The events of a run on the built-in market, kept on disk: in every run they are the same.

To invent the market and to build its bars takes a short backtest most of its time. An entry lies
in the cache of compiled code, under a key of what was asked for and of the code that makes it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

import quantdsl.data
import quantdsl.events
import quantdsl.feeds
from quantdsl.codegen.cache import Cache
from quantdsl.data.calendar import library_stamp
from quantdsl.data.scan import Found, Scan
from quantdsl.data.spec import DataSpec
from quantdsl.events.layout import EVENT
from quantdsl.events.merge import cut

Events = npt.NDArray[np.void]

BYTES_MAX = 16 * 1024 * 1024
"""Of the events of one run: two years of minutes of one instrument. Larger ones are made anew, so
that they do not drive compiled code out of the cache."""
_MARKET = "synthetic.py"


class Kept(msgspec.Struct, frozen=True):
    """An entry: the first pass of each instrument, what was left out, and every event."""

    scans: tuple[Found, ...]
    counts: dict[str, int]
    events: bytes


def keeper(spec: DataSpec) -> "Keeper | None":
    """What keeps the events of these data; None where a file of the user's has a say in them."""
    if spec.actions or any(one.source is not None for one in spec.instruments):
        return None
    asked = msgspec.msgpack.encode(spec, enc_hook=str, order="deterministic")
    digest = hashlib.sha256(_makers())
    for part in (np.__version__.encode(), str(library_stamp()).encode(), asked):
        digest.update(len(part).to_bytes(8, "little") + part)
    return Keeper(digest.hexdigest())


class Keeper:
    """Gives the events of one run from the cache, or keeps them there when they are made."""

    def __init__(self, key: str) -> None:
        self._key = key
        stored = Cache().get(key)
        self.found = None if stored is None else msgspec.msgpack.decode(stored, type=Kept)

    def chunks(
        self, made: Iterator[Events], scans: Sequence[Scan], counts: "Counter[str]"
    ) -> Iterator[Events]:
        """The chunks that are `made`, or those that were; `counts` are complete after the last."""
        if self.found is not None:
            yield from cut(np.frombuffer(bytearray(self.found.events), EVENT))
            counts.update(self.found.counts)
            return
        pieces: list[bytes] | None = []
        size = 0
        for events in made:
            size += events.nbytes
            if size > BYTES_MAX:
                pieces = None
            elif pieces is not None:
                pieces.append(events.tobytes())
            yield events
        if pieces is not None:
            found = tuple(scan.found for scan in scans)
            kept = Kept(found, dict(counts), b"".join(pieces))
            Cache().put(self._key, msgspec.msgpack.encode(kept))


@cache
def _makers() -> bytes:
    """A digest of the code that decides what the events are."""
    folders: list[Any] = [*quantdsl.data.__path__, *quantdsl.events.__path__]
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.py"))]
    files += [path for folder in quantdsl.feeds.__path__ for path in Path(folder).glob(_MARKET)]
    digest = hashlib.sha256()
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.digest()
