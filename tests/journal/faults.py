"""File operations that fail, write in part, or kill their process, at a chosen one of them."""

import errno
import os
import signal
from abc import ABC, abstractmethod
from pathlib import Path

from quantdsl.journal.files import Files


class Faulty(Files, ABC):
    """The system's own, of which the n-th calls `fault(name)` first. Nothing is really flushed."""

    def __init__(self, nth: int) -> None:
        self.left = nth
        self.done: list[str] = []
        """The operations after the one that failed; closing a file is none."""

    @property
    def struck(self) -> bool:
        return self.left <= 0

    @abstractmethod
    def fault(self, operation: str, descriptor: int, data: bytes | memoryview) -> None:
        """What befalls the n-th operation."""

    def _next(self, operation: str, descriptor: int = -1, data: bytes | memoryview = b"") -> None:
        if self.struck and operation != "close":
            self.done.append(operation)
        self.left -= 1
        if self.left == 0:
            self.fault(operation, descriptor, data)

    def create(self, path: Path) -> int:
        self._next("create")
        return super().create(path)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._next("write", descriptor, data)
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._next("sync")

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self._next("close")

    def rename(self, source: Path, target: Path) -> None:
        self._next("rename")
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._next("unlink")
        super().unlink(path)

    def sync_folder(self, folder: Path) -> None:
        self._next("sync_folder")


class Failing(Faulty):
    """The n-th operation fails; of a write, half its bytes may have been written."""

    def __init__(self, nth: int, code: int, *, half: bool = False) -> None:
        super().__init__(nth)
        self.code, self.half = code, half

    def fault(self, operation: str, descriptor: int, data: bytes | memoryview) -> None:
        if operation == "write" and self.half:
            os.write(descriptor, data[: len(data) // 2])
        raise OSError(self.code, os.strerror(self.code))


class Short(Files):
    """Every write takes a few bytes at most, as the system may."""

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        return super().write(descriptor, data[:7])


class Killing(Faulty):
    """The process is killed before its n-th operation; of a write half the bytes are written."""

    def fault(self, operation: str, descriptor: int, data: bytes | memoryview) -> None:
        if operation == "write":
            os.write(descriptor, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


CODES = (errno.EIO, errno.ENOSPC)
