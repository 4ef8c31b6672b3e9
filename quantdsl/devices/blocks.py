"""A block of a simulated kernel: what its threads share, and what they ask of each other.

Its threads take turns (stacks.py). One that waits has no turn until those are there that it waits
for; which of two is first must not matter in a kernel, and watch.py tells where it does.
"""

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from quantdsl.codegen.jit import Native
from quantdsl.devices.stacks import (
    ANSWER,
    DONE,
    GIVEN,
    OWN,
    WORDS,
    Primitive,
    Stacks,
    installed,
)
from quantdsl.devices.watch import Thread, Watch
from quantdsl.errors import InternalError

WARP = 32
ALL_LANES = -1
GIVEN_MAX = 5
"""Arguments of a primitive."""
Met = Callable[[list[int]], None]
"""What is done of the threads that have met, by their numbers in the crew."""


class Launch(NamedTuple):
    """So many blocks of so many threads, and what they share."""

    grid: int
    block: int
    shared_bytes: int
    tensors: Watch


class Crew:
    """The threads of blocks that are there at the same time."""

    def __init__(self, launch: Launch, stacks: Stacks, numbers: range, *, meets: bool) -> None:
        self.ready = deque(range(len(numbers) * launch.block))
        self.words, self._stacks, self._threads = stacks.words, stacks, launch.block
        self.waited = False
        """Whether a thread has waited for others."""
        grid = Meeting(launch.grid) if meets else None
        self.blocks = [
            Block(self, number, at * launch.block, launch, grid)
            for at, number in enumerate(numbers)
        ]

    def run(self) -> None:
        """Until all have come to their end."""
        left, threads, asked_of = len(self.ready), self._threads, _ASKED
        for block in self.blocks:
            own = [block.number, threads, block.launch.grid, ctypes.addressof(block.memory)]
            for thread in range(threads):  # as _OWN and _READ name them
                self._stacks.begin(block.first + thread, [thread, *own])
        ready, resume, blocks = self.ready, self._stacks.resume, self.blocks
        while ready:
            number = ready.popleft()
            while (asked := resume(number)) != DONE:
                at, thread = divmod(number, threads)
                answer, waits = asked_of[asked]
                answer(blocks[at], thread, self.given(number))
                if waits:
                    self.waited = True
                    break
            else:
                left -= 1
        if left:
            raise InternalError(f"QD9520 devices: {left:,} threads wait for others that never come")

    def given(self, number: int) -> memoryview:
        """What a thread has asked with, and may ask with."""
        first = number * WORDS + GIVEN
        return self.words[first : first + GIVEN_MAX]

    def answer(self, number: int, word: int) -> None:
        """What a thread has asked for."""
        self.words[number * WORDS + ANSWER] = word


class Meeting:
    """Where so many threads wait for each other, again and again."""

    def __init__(self, parties: int) -> None:
        self.parties = parties
        self._here: list[int] = []

    def come(self, number: int, met: Met) -> None:
        """A thread waits; once all are here `met` is done of them."""
        self._here.append(number)
        if len(self._here) == self.parties:
            here, self._here = self._here, []
            met(here)


class Block:
    """What the threads of one block share."""

    def __init__(
        self, crew: Crew, number: int, first: int, launch: Launch, grid: Meeting | None
    ) -> None:
        """`first` is the number of its first thread in the crew."""
        self.crew, self.number, self.first, self.launch = crew, number, first, launch
        self._grid = grid
        """Where one thread of each block waits for the others, if they are there."""
        threads = launch.block
        self.memory = (ctypes.c_int64 * max(-(-launch.shared_bytes // 8), 1))()
        self.watch, self._meetings = Watch(), 0
        self._all = Meeting(threads)
        self._named: dict[int, Meeting] = {}
        self._warps = [Meeting(min(WARP, threads - at)) for at in range(0, threads, WARP)]
        self._lanes: dict[tuple[int, int], Meeting] = {}
        self._seen: list[tuple[int, ...]] = [()] * threads
        """What watch.Thread.seen is now."""
        self._known: list[tuple[int, ...]] = [(0,) * WARP] * threads
        """What watch.Thread.met is now."""

    def _go_on(self, here: list[int]) -> None:
        self.crew.ready.extend(here)

    # ---- barriers ----

    def wait(self, thread: int, _: Sequence[int]) -> None:
        """Until every thread of the block is here."""
        self._all.come(self.first + thread, self._met)

    def _met(self, here: list[int]) -> None:
        self.watch.clear()
        self._meetings += 1
        self._go_on(here)

    def wait_for_grid(self, thread: int, _: Sequence[int]) -> None:
        """Until every block is here; for one thread of it, behind a barrier of its block."""
        assert self._grid is not None
        self._grid.come(self.first + thread, self._grid_met)

    def _grid_met(self, here: list[int]) -> None:
        self.launch.tensors.clear()
        self._go_on(here)

    def wait_at(self, thread: int, given: Sequence[int]) -> None:
        """Until so many threads are at the barrier of this number, this one among them."""
        number, many = given[:2]
        seen = list(self._seen[thread] or [0] * len(self._warps))
        seen[thread // WARP] += 1
        self._seen[thread] = tuple(seen)
        meeting = self._named.setdefault(number, Meeting(many))
        meeting.come(self.first + thread, self._met_at)

    def _met_at(self, here: list[int]) -> None:
        """Then the warps are whole again."""
        _share(self._seen, [number - self.first for number in here])
        for number in here:
            self._wait_for(number - self.first, ALL_LANES)

    def wait_for_warp(self, thread: int, _: Sequence[int]) -> None:
        """Until every thread of the warp is here."""
        self._wait_for(thread, ALL_LANES)

    def wait_for_lanes(self, thread: int, given: Sequence[int]) -> None:
        """Until the threads of the warp are here that have a bit, this one among them."""
        self._wait_for(thread, given[0])

    def _wait_for(self, thread: int, lanes: int) -> None:
        warp, lane = divmod(thread, WARP)
        meeting = self._warps[warp]
        many = (lanes & (1 << meeting.parties) - 1).bit_count()
        if many < meeting.parties:
            meeting = self._lanes.setdefault((warp, lanes), Meeting(many))
        known = list(self._known[thread])
        known[lane] += 1
        self._known[thread] = tuple(known)
        meeting.come(self.first + thread, self._lanes_met)

    def _lanes_met(self, here: list[int]) -> None:
        _share(self._known, [number - self.first for number in here])
        self._go_on(here)

    # ---- values of a warp ----

    def exchange(self, found: "Found", thread: int, _: Sequence[int]) -> None:
        """Each thread of the warp gives a value, and gets what is found among them."""
        warp = thread // WARP
        self._warps[warp].come(self.first + thread, partial(self._exchanged, found, warp * WARP))

    def _exchanged(self, found: "Found", first: int, here: list[int]) -> None:
        given = {number - self.first - first: self.crew.given(number) for number in here}
        answer = found([given[lane][0] for lane in sorted(given)])
        for lane, words in given.items():
            self.crew.answer(self.first + first + lane, answer(lane, words))
        self._go_on(here)

    # ---- what is watched ----

    def _who(self, thread: int) -> Thread:
        """A thread as it is now."""
        return Thread(self.number, thread, self._meetings, self._seen[thread], self._known[thread])

    def touch(self, thread: int, given: Sequence[int]) -> None:
        """A thread is about to do something to a word of shared memory."""
        index, how, line = given[:3]
        self.watch.touch(self._who(thread), (0, index), how, line, len(self.memory))

    def touch_tensor(self, thread: int, given: Sequence[int]) -> None:
        """The same, to an element of a tensor."""
        tensor, words, index, how, line = given[:5]
        self.launch.tensors.touch(self._who(thread), (tensor, index), how, line, words)


def _share(known: list[tuple[int, ...]], who: list[int]) -> None:
    """Each of these threads knows what any of them does."""
    every = {known[thread] for thread in who}
    shared = tuple(map(max, *every)) if len(every) > 1 else every.pop()
    for thread in who:
        known[thread] = shared


# ---- the primitives -----------------------------------------------------------------------------

Found = Callable[[list[int]], Callable[[int, Sequence[int]], int]]
"""Of the values of a warp: what a lane gets that asked with some words, its value the first."""


def _from(values: list[int], lane: int, own: int) -> int:
    return values[lane] if 0 <= lane < len(values) else own


def _shuffle(values: list[int]) -> Callable[[int, Sequence[int]], int]:
    return lambda lane, given: _from(values, lane ^ given[1], given[0])


def _shuffle_from(values: list[int]) -> Callable[[int, Sequence[int]], int]:
    return lambda _, given: _from(values, given[1], given[0])


def _ballot(values: list[int]) -> Callable[[int, Sequence[int]], int]:
    """A bit for each lane whose value is not 0."""
    bits = sum((value != 0) << lane for lane, value in enumerate(values))
    return lambda _, __: bits


def _match(values: list[int]) -> Callable[[int, Sequence[int]], int]:
    """A bit for each lane with the same value."""
    lanes = dict.fromkeys(values, 0)
    for lane, value in enumerate(values):
        lanes[value] |= 1 << lane
    return lambda _, given: lanes[given[0]]


Asked = Callable[[Block, int, Sequence[int]], None]
"""Done where a thread of a block asks with some words."""


def _exchange(found: Found) -> Asked:
    return lambda block, thread, given: block.exchange(found, thread, given)


_OWN = ("thread", "block", "threads", "blocks")
_WAITS: dict[Primitive, Asked] = {
    Primitive("barrier", "void", ()): Block.wait,
    Primitive("named_barrier", "void", ("i32", "i32")): Block.wait_at,
    Primitive("grid_barrier", "void", ()): Block.wait_for_grid,
    Primitive("warp_barrier", "void", ()): Block.wait_for_warp,
    Primitive("lanes_barrier", "void", ("i32",)): Block.wait_for_lanes,
    Primitive("shuffle", "i32", ("i32", "i32")): _exchange(_shuffle),
    Primitive("shuffle_from", "i32", ("i32", "i32")): _exchange(_shuffle_from),
    Primitive("ballot", "i32", ("i32",)): _exchange(_ballot),
    Primitive("match", "i32", ("i64",)): _exchange(_match),
}
_TELLS: dict[Primitive, Asked] = {
    Primitive("touch", "void", ("i64",) * 3): Block.touch,
    Primitive("touch_tensor", "void", ("i64",) * 5): Block.touch_tensor,
}
_READ = [
    *(Primitive(name, "i32", (), own) for own, name in enumerate(_OWN)),
    Primitive("shared", "ptr", (), len(_OWN)),
    Primitive("any", "i32", ("i32",), GIVEN - OWN),
]
"""Answered by a word of the state; `any` by its own argument."""
_ALL = (*_WAITS, *_TELLS, *_READ)
_ASKED: dict[int, tuple[Asked, bool]] = {
    number: ({**_WAITS, **_TELLS}[one], one in _WAITS)
    for number, one in enumerate(_ALL, 1)
    if one.own is None
}
"""By the number of a primitive: what is done, and whether the thread waits then."""


def primitives() -> Native:
    """The primitives, known to compiled code."""
    return installed(_ALL)
