"""Compiled code on disk: what is read back is what this user wrote, or it is not used.

Machine code from a file is code we run, so nothing is trusted by its name. The directory must be
ours alone (mode 0700), an entry a regular file of ours that nobody else may write, and its digest
must match key and content; anything else is refused with a CacheWarning and compiled anew.
Readers see the old entry or the new one, never a part: entries are written aside and renamed. A
full disk or a lost race costs a compile, never an error.
"""

import hashlib
import os
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

MAGIC = b"quantdsl-code-1\n"
DIGEST_BYTES = 32
SUFFIX = ".code"
TEMPORARY = ".tmp"

BYTES_MAX = 256 * 1024 * 1024
"""The cache is trimmed to three quarters of this, least recently used first, when it exceeds it."""
ENTRY_BYTES_MAX = 64 * 1024 * 1024
"""No strategy compiles to this much; what is larger was not written by us."""
STALE_TEMPORARY_S = 3600
"""A writer needs milliseconds. An hour spares one that was stopped in a debugger or asleep."""


class CacheWarning(UserWarning):
    """The cache, or an entry of it, was not used; the message says why."""


class Info(NamedTuple):
    """What `quantdsl` tells of its cache."""

    directory: Path
    entries: int
    size_bytes: int


def default_directory() -> Path:
    """QUANTDSL_CACHE_DIR, or `quantdsl` in the user's cache directory."""
    if chosen := os.environ.get("QUANTDSL_CACHE_DIR"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "quantdsl"


class Cache:
    """Entries by key (lower-case hex); safe to use from many processes at once."""

    def __init__(self, directory: Path | None = None, bytes_max: int = BYTES_MAX) -> None:
        self.directory = default_directory() if directory is None else directory
        self.bytes_max = bytes_max

    def get(self, key: str) -> bytes | None:
        """The code stored under this key, or None; there is no `in`, which would be a race."""
        with self._opened() as directory:
            if directory is None:
                return None
            try:
                blob = _read(key + SUFFIX, directory)
            except FileNotFoundError:
                return None
            except (OSError, _RefusedError) as error:
                self._refuse(key, str(error))
                return None
            head = len(MAGIC) + DIGEST_BYTES
            code = blob[head:]
            if not blob.startswith(MAGIC) or blob[len(MAGIC) : head] != _digest(key, code):
                self._refuse(key, "its digest does not match")
                return None
            with suppress(OSError):
                os.utime(key + SUFFIX, dir_fd=directory)  # recently used, so trimmed last
            return code

    def put(self, key: str, code: bytes) -> None:
        """Store code under this key, replacing what was there."""
        with self._opened(create=True) as directory:
            if directory is None:
                return
            temporary = f"{key}.{os.urandom(8).hex()}{TEMPORARY}"
            try:
                _write(temporary, MAGIC + _digest(key, code) + code, directory)
                os.replace(temporary, key + SUFFIX, src_dir_fd=directory, dst_dir_fd=directory)
                self._trim(directory)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                _warn(f"compiled code was not stored in {self.directory}: {error.strerror}")

    def info(self) -> Info:
        """How much is stored."""
        with self._opened() as directory:
            sizes = [] if directory is None else [size for _, size, _ in _entries(directory)]
        return Info(self.directory, len(sizes), sum(sizes))

    def clear(self) -> int:
        """Remove every entry; their number. Raises OSError with the path of one that stays."""
        with self._opened() as directory:
            names = [] if directory is None else [name for _, _, name in _entries(directory)]
            for name in names:
                try:
                    os.unlink(name, dir_fd=directory)
                except FileNotFoundError:
                    pass
                except OSError as refused:
                    where = str(self.directory / name)
                    raise OSError(refused.errno, refused.strerror, where) from None
        return len(names)

    @contextmanager
    def _opened(self, *, create: bool = False) -> Iterator[int | None]:
        """A descriptor of the directory, so that it cannot be exchanged under us; None if unfit."""
        descriptor = self._open(create=create)
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _open(self, *, create: bool) -> int | None:
        """The same, for the caller to close."""
        try:
            if create:
                with suppress(FileExistsError):
                    self.directory.parent.mkdir(parents=True, exist_ok=True)
                    self.directory.mkdir(mode=0o700)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self.directory, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            _warn(f"{self.directory} is not used: {error.strerror}")
            return None
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return descriptor
        os.close(descriptor)
        _warn(f"{self.directory} is not used: it must be yours alone (chmod 700)")
        return None

    def _refuse(self, key: str, reason: str) -> None:
        _warn(f"{self.directory / (key + SUFFIX)} is not used ({reason}); compiled anew")

    def _trim(self, directory: int) -> None:
        """Remove the least recently used entries once there is too much, and stale temporaries."""
        entries = sorted(_entries(directory))
        total = sum(size for _, size, _ in entries)
        aim = self.bytes_max * 3 // 4 if total > self.bytes_max else total
        old = time.time_ns() - STALE_TEMPORARY_S * 10**9
        for used_ns, size, name in entries:
            if total > aim or (name.endswith(TEMPORARY) and used_ns < old):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=directory)
                total -= size


class _RefusedError(Exception):
    """An entry is not what we would have written."""


def _read(name: str, directory: int) -> bytes:
    """The bytes of an entry that is ours; the checks are made on what is read, not on a path."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with open(os.open(name, flags, dir_fd=directory), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise _RefusedError("it is not a regular file")
        if status.st_uid != os.geteuid():
            raise _RefusedError("it belongs to another user")
        if status.st_mode & 0o022:
            raise _RefusedError("others may write to it")
        if status.st_size > ENTRY_BYTES_MAX:
            raise _RefusedError(f"it has {status.st_size} bytes")
        return file.read()


def _write(name: str, blob: bytes, directory: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=directory), "wb") as file:
        file.write(blob)


def _entries(directory: int) -> Iterator[tuple[int, int, str]]:
    """(last use in ns, size in bytes, name) of each file that is one of ours by its name."""
    with os.scandir(directory) as listing:
        for entry in listing:
            if entry.name.endswith((SUFFIX, TEMPORARY)):
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime_ns, status.st_size, entry.name


def _digest(key: str, code: bytes) -> bytes:
    """Of key and content, so that an entry renamed to another key is refused."""
    return hashlib.sha256(key.encode() + b"\n" + code).digest()


def _warn(message: str) -> None:
    warnings.warn(message, CacheWarning, stacklevel=4)
