"""Finds what threads of a block do to shared memory that no order of theirs makes right.

Two threads race where both come to one word between the same two barriers and at least one of them
writes, unless both add to it by atomics of one kind, or they are of one warp and the warp has met
between. What is found does not depend on which of them came first.
"""

import threading
from typing import NamedTuple

from quantdsl.passes.touches import ADD, READ, WRITE

WARP = 32
_DONE = {READ: "reads", WRITE: "writes"}


class Fault(NamedTuple):
    """What two threads do to one word, or one thread outside of all: lines, lowest first."""

    what: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        at = " and ".join(f"line {line}" for line in dict.fromkeys(self.lines))
        return f"{self.what} ({at})"


class _Touch(NamedTuple):
    thread: int
    how: int
    line: int
    met: int  # how often its warp had met since the barrier


class Watch:
    """What the threads of one block did since they last met."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._words: dict[int, set[_Touch]] = {}
        self._met: dict[int, int] = {}
        self._found: set[Fault] = set()

    def clear(self) -> None:
        """All threads of the block have met."""
        self._words.clear()
        self._met.clear()

    def meet(self, thread: int) -> None:
        """The threads of this one's warp have met, as it sees it."""
        with self._lock:
            self._met[thread] = self._met.get(thread, 0) + 1

    def touch(self, thread: int, index: int, how: int, line: int, words: int) -> None:
        """A thread is about to do something to a word of shared memory, which has so many."""
        with self._lock:
            if not 0 <= index < words:
                self._found.add(Fault(f"a thread reaches word {index} of {words}", (line,)))
                return
            mine = _Touch(thread, how, line, self._met.get(thread, 0))
            others = self._words.setdefault(index, set())
            for other in others:
                if _race(mine, other):
                    self._found.add(_told(mine, other))
            others.add(mine)

    def faults(self) -> list[Fault]:
        """Everything that was found, in order of the lines."""
        return sorted(self._found, key=lambda fault: (fault.lines, fault.what))


def _race(x: _Touch, y: _Touch) -> bool:
    if x.thread == y.thread or x.how == y.how == READ:
        return False
    if x.how == y.how >= ADD:
        return False
    return x.thread // WARP != y.thread // WARP or x.met == y.met


def _told(x: _Touch, y: _Touch) -> Fault:
    first, second = sorted((x, y), key=lambda touch: (touch.line, touch.how))
    does, did = (_DONE.get(touch.how, "adds to") for touch in (first, second))
    what = f"one thread {does} a word that another one {did}, with no barrier between"
    return Fault(what, (first.line, second.line))
