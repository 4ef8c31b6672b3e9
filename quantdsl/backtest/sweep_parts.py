"""Finished lanes of a sweep on disk, so that a run that was ended goes on where it was.

    resume.json         what is swept, as digests: a resumed sweep must be the same
    parts/N.npy         lanes: a row of their places, then a row a result word
    parts/window-N/     the same of a training of a walk-forward

A part appears whole or not at all, whatever ends the process; one that is damaged counts as not
done. When all is done and its results are written the parts go.
"""

import fcntl
import io
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.errors import ConfigError

Int64s = npt.NDArray[np.int64]
MANIFEST, FOLDER = "resume.json", "parts"
WINDOW = f"{FOLDER}/window-{{}}"
"""What a training keeps of itself lies in this folder, by its number from 1: among the parts, where
nobody has anything else."""
FLUSH_S = 2.0
"""What is computed for this long is worth a file; shorter sweeps write no part."""


class Manifest(msgspec.Struct, frozen=True):
    """What a sweep depends on; the names are said where one of them has changed."""

    version: str
    strategy: str
    data: str
    ranges: str
    settings: str
    points: int
    words: int
    precision: str = "f64"
    metrics: str = ""
    report: str = ""  # what is made of the lanes: resumed with another, they go on all the same
    complete: bool = False


CHANGED = {
    "version": "quantdsl itself",
    "precision": "the precision",
    "strategy": "the strategy, its bars or settings that it is compiled for",
    "data": "the data, their span, bars or session",
    "ranges": "the ranges, the params or the points",
    "settings": "the settings",
    "points": "the number of points",
    "metrics": "the metrics",
    "words": "what is kept of each point",
}


class Parts:
    """The parts of one sweep in its folder."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self._manifest = manifest
        self._waiting: list[Int64s] = []
        self._flushed_s = time.monotonic()
        self._held: int | None = None

    def take(self) -> None:
        """No other sweep writes into the folder until `release`; ConfigError where one does.

        The lock is the system's, on the folder of parts: it leaves no file, whatever ends a sweep.
        """
        self._made().mkdir(parents=True, exist_ok=True)
        self._held = os.open(self._made(), os.O_RDONLY)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise ConfigError(
                f"{self.folder}: another sweep is writing into it\n"
                "help: wait until it has ended, or name another folder with --out"
            ) from None
        except OSError:  # a file system of a network may know no locks
            pass

    def release(self) -> None:
        """The folder is free again."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def begin(self) -> None:
        """Forget what an earlier sweep left in the folder."""
        self._made().mkdir(parents=True, exist_ok=True)
        self._remove()
        self._write_manifest(self._manifest)

    @property
    def complete(self) -> bool:
        """Whether the folder holds all results of this very sweep, and the report asked for."""
        before = self._before()
        return before is not None and before.complete and before.report == self._manifest.report

    @property
    def kept(self) -> bool:
        """Whether the folder has a part of this very sweep."""
        try:
            return self._before() is not None and any(self._made().glob("*.npy"))
        except ConfigError:
            return False

    def resume(self) -> list[Int64s]:
        """The parts that an ended run of this very sweep left; ConfigError if it was another."""
        if self._before() is None:
            self.begin()
            return []
        self._write_manifest(self._manifest)
        self._made().mkdir(parents=True, exist_ok=True)
        found = map(self._read, sorted(self._made().glob("*.npy")))
        return [part for part in found if part is not None]

    def _before(self) -> Manifest | None:
        """What is in the folder, None if no sweep; ConfigError if it is another sweep."""
        try:
            before = msgspec.json.decode((self.folder / MANIFEST).read_bytes(), type=Manifest)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"{self.folder / MANIFEST} is damaged: {error}\n"
                "help: start anew without --resume (in Python resume=True)"
            ) from None
        for name, words in CHANGED.items():
            if getattr(before, name) != getattr(self._manifest, name):
                raise ConfigError(
                    f"{self.folder} holds another sweep: since then {words} changed\n"
                    "help: start anew without --resume (in Python resume=True), or name another "
                    "folder with --out (out=)"
                )
        return before

    def _made(self) -> Path:
        return self.folder / FOLDER

    def add(self, lanes: Int64s, words: Int64s) -> None:
        """Keep finished lanes: their places and words[result, lane]."""
        self._waiting.append(np.concatenate([lanes[None], words]))
        if time.monotonic() - self._flushed_s > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write what waits as one part."""
        if self._waiting:
            part = np.concatenate(self._waiting, axis=1)
            name = f"{int(part[0, 0]):010}-{secrets.token_hex(4)}"
            encoded = io.BytesIO()  # NumPy's own writing tells of a full disk in its own words
            np.save(encoded, part, allow_pickle=False)
            _write(self._made() / f"{name}.npy", encoded.getbuffer())
            self._waiting.clear()
        self._flushed_s = time.monotonic()

    def finish(self) -> None:
        """All lanes are done and their results are written: the parts are needed no more."""
        self._write_manifest(msgspec.structs.replace(self._manifest, complete=True))
        self.clear()

    def clear(self) -> None:
        """No part is left, nor their folder."""
        self._remove()
        with suppress(OSError):  # somebody put a file of theirs there
            self._made().rmdir()

    def _drop(self) -> None:
        """Nothing of it is needed any more."""
        self.clear()
        (self.folder / MANIFEST).unlink(missing_ok=True)
        with suppress(OSError):  # somebody put a file of theirs there
            self.folder.rmdir()

    def _read(self, path: Path) -> Int64s | None:
        try:
            part = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        n = self._manifest.points
        fits = part.dtype == np.int64 and part.ndim == 2 and len(part) == 1 + self._manifest.words
        if not fits or np.any((part[0] < 0) | (part[0] >= n)):
            return None
        found: Int64s = part
        return found

    def _write_manifest(self, manifest: Manifest) -> None:
        encoded = msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"
        _write(self.folder / MANIFEST, encoded)

    def _remove(self) -> None:
        for path in self._made().glob("*"):
            if path.suffix in (".npy", ".part"):
                path.unlink()
        for window in self.folder.glob(f"{WINDOW.format('[0-9]*')}/"):  # a kill may leave it empty
            Parts(window, self._manifest)._drop()


def _write(path: Path, encoded: bytes | memoryview) -> None:
    """A file that is whole or as it was; an error of writing names it."""
    temporary = path.with_suffix(".part")
    try:
        with temporary.open("wb") as file:
            file.write(encoded)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as refused:
        raise OSError(refused.errno, refused.strerror, refused.filename or str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
