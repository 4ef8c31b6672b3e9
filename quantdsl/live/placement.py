"""Which thread runs on which core, and what of a machine stands in the way of steady latency.

The plan keeps to the cores that this process may use. An engine gets a core of its own, and so far
as cores last nothing else runs on that core's other hyperthread; feeds and the journal share what
is left, on the engine's NUMA node where it has room.
"""

import ctypes
import os
import sys
from collections.abc import Collection, Sequence
from typing import NamedTuple

from quantdsl.errors import ConfigError
from quantdsl.live.machine import Core, Machine, on_linux

ENGINE, FEED, JOURNAL, GPU = "engine", "feed", "journal", "gpu"
MCL_CURRENT = 1


class Seat(NamedTuple):
    """One thread on its core."""

    thread: str
    core: int


class Plan(NamedTuple):
    """Where threads run; `notes` say what is not as it should be, and what was asked and is not."""

    seats: tuple[Seat, ...]
    notes: tuple[str, ...]
    beside: frozenset[int]
    """The cores of all threads that are no engine's."""

    def core(self, thread: str) -> int:
        """The core of a thread."""
        return next(seat.core for seat in self.seats if seat.thread == thread)

    def alone(self, thread: str) -> bool:
        """Whether no other thread has its core."""
        return sum(seat.core == self.core(thread) for seat in self.seats) == 1

    def lines(self) -> list[str]:
        """The plan for people."""
        seats = ", ".join(f"{seat.thread} on core {seat.core}" for seat in self.seats)
        return [f"placement  {seats}", *(f"note       {note}" for note in self.notes)]


class Wish(NamedTuple):
    """An engine and the core that it asks for."""

    name: str
    core: int | None
    said_by: str = "@cpu"


def plan(
    machine: Machine, engines: Sequence[Wish], others: Sequence[str] = (FEED, JOURNAL)
) -> Plan:
    """A core for each engine, then for the threads beside them.

    A core that this process may not use is replaced, with a note; two engines that ask for one
    core are a ConfigError, and so are more engines than cores.
    """
    if len(engines) > len(machine.cores):
        raise ConfigError(
            f"{len(engines)} engines cannot run on {len(machine.cores)} cores: each needs its own"
        )
    notes: list[str] = []
    taken: dict[int, str] = {}
    wished = [wish for wish in engines if _granted(wish, machine, notes)]
    for wish in wished:
        assert wish.core is not None
        if other := taken.get(wish.core):
            raise ConfigError(
                f"core {wish.core} is asked for by {other} and by {wish.name}\n"
                "help: an engine spins on its core; give each a core of its own"
            )
        taken[wish.core] = wish.name
    for wish in engines:
        if wish not in wished:
            taken[_best(machine, taken).number] = wish.name
    seats = [Seat(name, core) for core, name in taken.items()]
    rest = _rest(machine, taken, notes)
    seats += [Seat(name, rest[k % len(rest)]) for k, name in enumerate(others)]
    for core in taken:
        notes += flaws(machine, core)
    return Plan(tuple(seats), tuple(notes), frozenset(rest))


def _granted(wish: Wish, machine: Machine, notes: list[str]) -> bool:
    if wish.core is None:
        return False
    if machine.core(wish.core) is None:
        cores = ", ".join(str(core.number) for core in machine.cores)
        notes.append(
            f"{wish.name}: {wish.said_by} asks for core {wish.core}, which this process may not "
            f"use (it may use {cores}): another is taken"
        )
        return False
    return True


def _best(machine: Machine, taken: dict[int, str]) -> Core:
    """The core for one more engine: isolated first, then far from other engines, then the last."""
    free = [core for core in machine.cores if core.number not in taken]
    return max(free, key=lambda c: (c.isolated, c.siblings.isdisjoint(taken), c.number))


def _rest(machine: Machine, taken: dict[int, str], notes: list[str]) -> list[int]:
    """The cores for threads beside the engines: not theirs, nor their siblings, on their node."""
    engines = [core for core in machine.cores if core.number in taken]
    shared = frozenset[int]().union(*(core.siblings for core in engines))
    near = {core.node for core in engines}
    free = [core for core in machine.cores if core.number not in taken]
    for choice in (
        [c for c in free if c.number not in shared and not c.isolated and c.node in near],
        [c for c in free if c.number not in shared and not c.isolated],
        [c for c in free if c.number not in shared],
        free,
    ):
        if choice:
            if choice is free:
                notes.append("feeds run on the other hyperthread of an engine's core")
            return [core.number for core in choice]
    notes.append("there is no core beside the engine's: feeds share it, and delay it")
    return [core.number for core in machine.cores]


def flaws(machine: Machine, number: int) -> list[str]:
    """What keeps an engine on this core from steady latency, one line each."""
    core = machine.core(number)
    assert core is not None
    found = []
    if not core.isolated:
        found.append(f"core {number} is not isolated: the kernel may run other threads on it")
    if len(core.siblings) > 1:
        others = ", ".join(str(one) for one in sorted(core.siblings - {number}))
        found.append(f"core {number} shares its execution units with CPU {others}")
    if core.governor and core.governor != "performance":
        found.append(f"core {number}: the frequency governor is {core.governor}")
    if machine.timer and machine.timer != "tsc":
        found.append(f"the kernel's timer source is {machine.timer}, not tsc")
    if not machine.tsc_steady:
        found.append("the cycle counter is not known to run at one rate")
    return found


def keep_to(cores: Collection[int]) -> str:
    """Let the calling thread, and those that it starts, run on these cores alone; why the system
    refused it, or nothing."""
    where = ", ".join(map(str, sorted(cores)))
    return on_linux(lambda: os.sched_setaffinity(0, cores), f"pinning to core {where}")


def settle(core: int, *, priority: int = 0, lock_memory: bool = False) -> list[str]:
    """Pin the calling thread to a core, raise its priority and lock the process's memory.

    What the system refuses is no error: the reasons, one line each.
    """
    refused = [keep_to({core})]
    if priority:
        refused.append(on_linux(lambda: _fifo(priority), f"SCHED_FIFO priority {priority}"))
    if lock_memory:
        refused.append(on_linux(_lock, "locking memory"))
    return [line for line in refused if line]


def _fifo(priority: int) -> None:
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


def _lock() -> None:
    """What is mapped now stays in memory; what is mapped later is not on the hot path."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(MCL_CURRENT):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
