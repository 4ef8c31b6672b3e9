"""Finds what threads do to memory that they share which no order of theirs makes right.

Two threads race where both come to one word between the same two barriers and at least one of them
writes, unless both add to it by atomics of one kind, or they are of one warp and the warp has met
between. Threads of two blocks race wherever one of them writes, unless both do it by atomics of the
device, or the grid has met between. What is found does not depend on which of them came first.
"""

import threading
from typing import NamedTuple

from quantdsl.passes.touches import ADD, OF_BLOCK, READ, WRITE

WARP = 32
_DONE = {READ: "reads", WRITE: "writes"}


class Fault(NamedTuple):
    """What two threads do to one word, or one thread outside of all: lines, lowest first."""

    what: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        at = " and ".join(f"line {line}" for line in dict.fromkeys(self.lines))
        return f"{self.what} ({at})"


class Thread(NamedTuple):
    """Who comes to a word, and when."""

    block: int
    number: int
    meetings: int
    """How often its block had met."""


class _Touch(NamedTuple):
    thread: Thread
    how: int
    line: int
    met: int  # how often its warp had met


class Watch:
    """What threads did to some memory since all that share it last met."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._words: dict[tuple[int, int], set[_Touch]] = {}
        self._met: dict[tuple[int, int], int] = {}
        self._found: set[Fault] = set()

    def clear(self) -> None:
        """All threads that share the memory have met."""
        self._words.clear()

    def meet(self, block: int, thread: int) -> None:
        """The threads of this one's warp have met, as it sees it."""
        with self._lock:
            self._met[block, thread] = self._met.get((block, thread), 0) + 1

    def touch(
        self, who: Thread, place: tuple[int, int], how: int, line: int, words: int
    ) -> None:
        """A thread is about to do something to a word: which memory, and which of its `words`."""
        memory, index = place
        with self._lock:
            if not 0 <= index < words:
                self._found.add(Fault(f"a thread reaches word {index} of {words}", (line,)))
                return
            mine = _Touch(who, how, line, self._met.get(who[:2], 0))
            others = self._words.setdefault((memory, index), set())
            for other in others:
                if _race(mine, other):
                    self._found.add(_told(mine, other))
            others.add(mine)

    def faults(self) -> list[Fault]:
        """Everything that was found, in order of the lines."""
        return sorted(self._found, key=lambda fault: (fault.lines, fault.what))


def _race(x: _Touch, y: _Touch) -> bool:
    one, two = x.thread, y.thread
    if one[:2] == two[:2] or x.how == y.how == READ:
        return False
    apart = one.block != two.block
    if x.how == y.how >= ADD:
        return apart and x.how >= OF_BLOCK
    if apart or one.meetings != two.meetings:
        return apart
    return one.number // WARP != two.number // WARP or x.met == y.met


def _told(x: _Touch, y: _Touch) -> Fault:
    first, second = sorted((x, y), key=lambda touch: (touch.line, touch.how))
    does, did = (_DONE.get(touch.how, "adds to") for touch in (first, second))
    if x.thread.block != y.thread.block:
        what = f"one block {does} an element that another one {did}, and nothing is between them"
    else:
        what = f"one thread {does} a word that another one {did}, with no barrier between"
    return Fault(what, (first.line, second.line))
