"""Finds what threads do to memory that they share which no order of theirs makes right.

Two threads race where both come to one word between the same two barriers and at least one of them
writes, unless both add to it by atomics of one kind, or barriers of their warp, of lanes of it or
of a number put one behind the other. Threads of two blocks race wherever one of them writes, unless
both do it by atomics of the device, or the grid has met between. What is found does not depend on
which of them came first.

An asynchronous copy writes its word twice: where it begins, and where its thread waits for it. Who
comes to the word in between, its own thread or another one behind a barrier, is found as well.
"""

from typing import NamedTuple

from quantdsl.passes.touches import ADD, COPIED_TO, OF_BLOCK, READ, SETTLED, WRITE

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
    seen: tuple[int, ...] = ()
    """How often each warp has come to named barriers, of what this thread knows; none: never."""
    met: tuple[int, ...] = ()
    """How often each lane of its warp has met others of it, of what this thread knows."""

    def knows(self, warp: int) -> int:
        """How often a warp has come to a named barrier, as far as this thread knows."""
        return self.seen[warp] if self.seen else 0

    def behind(self, other: "Thread") -> bool:
        """Whether barriers of fewer than the block put this behind another thread of it."""
        warp, lane = divmod(other.number, WARP)
        if self.number // WARP == warp:
            return self.met[lane] > other.met[lane]
        return self.knows(warp) > other.knows(warp)


class _Way(NamedTuple):
    """What is done to a word, and in which line."""

    how: int
    line: int


class _Copy(NamedTuple):
    thread: Thread
    line: int


class Watch:
    """What threads did to some memory since all that share it last met."""

    def __init__(self) -> None:
        self._words: dict[tuple[int, int], dict[_Way, set[Thread]]] = {}
        self._found: set[Fault] = set()
        self._races: set[tuple[_Way, _Way, bool]] = set()
        """Of threads of one block or of two: those that were found, by what they do to a word."""
        self._copies: dict[tuple[int, int], _Copy] = {}  # that nobody has waited for

    def clear(self) -> None:
        """All threads that share the memory have met."""
        self._early()
        self._words.clear()

    def _early(self) -> None:
        """Find who came to a word whose copy began before the last meeting and is under way."""
        for place, copy in self._copies.items():
            for way, threads in self._words.get(place, {}).items():
                for thread in threads:
                    other = thread[:2] != copy.thread[:2]
                    met = thread.meetings != copy.thread.meetings
                    if other and (met or thread.behind(copy.thread)):
                        self._found.add(_unawaited(copy, way.line))

    def touch(
        self, who: Thread, place: tuple[int, int], how: int, line: int, words: int
    ) -> None:
        """A thread is about to do something to a word: which memory, and which of its `words`."""
        _, index = place
        if not 0 <= index < words:
            self._found.add(Fault(f"a thread reaches word {index} of {words}", (line,)))
            return
        if how == SETTLED:
            self._settle(who, line)
            return
        copy = self._copies.get(place)
        if copy is not None and copy.thread[:2] == who[:2]:
            self._found.add(_unawaited(copy, line))
        if how == COPIED_TO:
            self._copies[place] = _Copy(who, line)
            how = WRITE
        self._come(who, place, how, line)

    def _settle(self, who: Thread, line: int) -> None:
        """The copies of a thread are there: it is as though it wrote them now."""
        own = [place for place, copy in self._copies.items() if copy.thread[:2] == who[:2]]
        for place in own:
            del self._copies[place]
            self._come(who, place, WRITE, line)

    def _come(self, who: Thread, place: tuple[int, int], how: int, line: int) -> None:
        """A thread comes to a word that is there.

        A word that all threads read has as many of them as a grid: what cannot race, and what has
        been found to, is not looked at thread by thread.
        """
        mine = _Way(how, line)
        known = self._words.setdefault(place, {})
        for other, threads in known.items():
            for apart in (False, True):
                race = (mine, other, apart)
                if race in self._races or not _may_race(how, other.how, apart=apart):
                    continue
                if any(_unordered(who, thread, apart=apart) for thread in threads):
                    self._races.add(race)
                    self._found.add(_told(mine, other, apart=apart))
        known.setdefault(mine, set()).add(who)

    def faults(self) -> list[Fault]:
        """Everything that was found, in order of the lines."""
        self._early()
        return sorted(self._found, key=lambda fault: (fault.lines, fault.what))


def _may_race(one: int, two: int, *, apart: bool) -> bool:
    """Whether what two threads do to a word may race, of one block or of two."""
    if one == two and (one == READ or one >= ADD):
        return apart and one >= OF_BLOCK
    return True


def _unordered(x: Thread, y: Thread, *, apart: bool) -> bool:
    """Whether two threads, of one block or of two, have nothing between them."""
    if x.block != y.block:
        return apart
    if apart or x.number == y.number or x.meetings != y.meetings:
        return False
    return not (x.behind(y) or y.behind(x))


def _unawaited(copy: _Copy, line: int) -> Fault:
    what = "a thread comes to a word before the copy to it was waited for by wait_copies()"
    return Fault(what, (copy.line, line))


def _told(x: _Way, y: _Way, *, apart: bool) -> Fault:
    first, second = sorted((x, y), key=lambda way: (way.line, way.how))
    does, did = (_DONE.get(way.how, "adds to") for way in (first, second))
    if apart:
        who, what, between = "block", "an element", "and nothing is between them"
    else:
        who, what, between = "thread", "a word", "with no barrier between"
    told = f"one {who} {does} {what} that another one {did}, {between}"
    if ADD <= x.how != y.how >= ADD:
        told = f"two {who}s change {what} by atomics of two kinds or scopes, {between}"
    return Fault(told, (first.line, second.line))
