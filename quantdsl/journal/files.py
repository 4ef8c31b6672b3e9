"""The operations on files that a journal is made of; tests put others in their place to fail."""

import fcntl
import os
from pathlib import Path


class Files:
    """The system's own. Each operation raises OSError where it fails."""

    def create(self, path: Path) -> int:
        """A new file that is its owner's alone, open for writing at its end."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(path, flags, 0o600)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """How many of the bytes were written; fewer than all is no failure."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Return when what was written is on disk."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a file."""
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, in one step."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a file; it may be gone."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in a folder are on disk."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write_all(self, descriptor: int, data: bytes | memoryview) -> None:
        """Write every byte."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.write(descriptor, rest) :]

    def replace(self, path: Path, *data: bytes | memoryview) -> None:
        """Make `data` the content of a file: a reader finds all of it or what was there before."""
        fresh = path.with_name(path.name + ".new")
        self.unlink(fresh)
        descriptor = self.create(fresh)
        try:
            for part in data:
                self.write_all(descriptor, part)
            self.sync(descriptor)
        finally:
            self.close(descriptor)
        self.rename(fresh, path)
        self.sync_folder(path.parent)


DISK = Files()


def lock(path: Path) -> int:
    """A descriptor that holds the lock of a file until it is closed or its process ends.

    Raises BlockingIOError where another process holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
