"""The signals of a strategy on a device: each instant of events in, its answers out.

    events --> pinned memory --> begin | equations, kernels | tell --> pinned memory
                 control       one graph, launched once an instant      values, number

The helper thread that calls this writes, launches and then looks at one word; what it waits for is
its own affair, for neither the engine nor the sequencer waits for it. The state lives on the
device; a copy of it, and the events since, are kept, so that a core can go on where the device is
lost.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.check import Checked
from quantdsl.codegen.instants import (
    NUMBER,
    THREADS,
    Instants,
    instants,
)
from quantdsl.devices.choose import GPU, hold_live
from quantdsl.devices.failure import refused
from quantdsl.devices.instants import CudaInstants, InstantRunner, SimulatedInstants
from quantdsl.errors import UnavailableError
from quantdsl.events.layout import EVENT, MORE, WORDS, Kind
from quantdsl.live.looks import copied, seen
from quantdsl.live.sequencer import Answer
from quantdsl.passes.blocks import WARP
from quantdsl.passes.instants import Cut, cut_instant
from quantdsl.passes.threads import of_threads

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
Say = Callable[[str], None]
OWN_KINDS = (Kind.BAR, Kind.TRAIT, Kind.CORPORATE)
"""Events of one instrument."""
EVENTS_MIN = 4_096
"""Room for the events of an instant; a universe has four times its instruments."""
ARENA_ROOMS = 3
"""The arena is so many times as large."""
PAYS = 256
"""Instruments from which a GPU is taken by itself; with a kernel any number."""
PARTS, PARTS_SMALL = 8, 1
"""Of what is done of an instrument, a warp each, that run beside each other at most; where a device
is played, threads that wait for each other cost more than all that they do."""
HANGS_S = 2.0
"""An instant that takes longer is lost, and its device with it."""
SPINS = 400_000
"""Looks at the number before each nap: half a millisecond, for a nap takes 80 us at the least."""
NAP_S = 20e-6
COPIED_INSTANTS = 512
"""Instants after which the state is copied when nothing waits, as it is after half of the events
below."""
KEPT_EVENTS_MAX = 1 << 18
"""Events since the last copy, after which the state is copied whatever waits."""


class Plan(NamedTuple):
    """The kernels of a strategy's signals."""

    cut: Cut
    made: Instants

    @property
    def pays(self) -> bool:
        """Whether a GPU is likely to be faster than a core: much to do at once, all of it cut."""
        hows = [piece.how for piece in self.cut.pieces[:-1]]
        return "one" not in hows and (
            "block" in hows or (self.made.apart and self.made.instruments >= PAYS)
        )


def planned(checked: Checked, uses: frozenset[str], *, small: bool = False) -> Plan:
    """The kernels of the signals of a strategy; `small` blocks are as small as they may be."""
    module = checked.instant_module(uses)
    facts = checked.library.kernels
    kernels = {
        func.name: WARP if small and not of_threads(func) else facts[name].threads
        for func in module.funcs
        if (name := func.name.partition("[")[0]) in facts
    }
    apart = checked.strategy.universe is not None and not checked.strategy.ticks
    parts = PARTS_SMALL if small else PARTS
    cut = cut_instant(module, kernels, checked.instruments, apart=apart, parts=parts)
    signals = len(checked.strategy.signals.all)
    threads = WARP if small else THREADS
    return Plan(cut, instants(cut, kernels, checked.instruments, signals, threads))


def open_runner(
    choice: str, checked: Checked, uses: frozenset[str], state_words: int, say: Say
) -> tuple[InstantRunner, Plan] | None:
    """What runs the signals on the device of `--device`; None where cores do.

    Raises ConfigError for a word that is none, UnavailableError where the device is not there,
    DeviceError where it refuses.
    """
    hold_live(choice)
    if choice == "cpu":
        return None
    room = max(EVENTS_MIN, 4 * checked.instruments) * (1 + ARENA_ROOMS)
    if choice == "simulated":
        plan = planned(checked, uses, small=True)
        return SimulatedInstants(plan.made, state_words, room), plan
    match = GPU.fullmatch(choice)
    from quantdsl.devices.cuda.device import open_device

    try:
        device = open_device(int(match[1] or 0) if match else 0)
    except UnavailableError:
        if match:
            raise
        return None
    plan = planned(checked, uses)
    if not match and not plan.pays:
        say(f"signals: a core computes them; {device.name} would not be faster")
        return None
    return CudaInstants(device, plan.made, state_words, room), plan


class Lent(NamedTuple):
    """Rows of an arena, and whether they are an instant of bars as the device takes them."""

    begin: int
    end: int
    plain: bool
    events: Events
    """The rows, as they were lent."""


class Arena:
    """A ring of events in memory that the device reads: who feeds it copies them in, and what the
    device has had is free again. For one thread that takes and one that frees."""

    def __init__(self, rows: Int64s) -> None:
        self.rows = rows
        self.held: deque[Lent] = deque()
        self._at = 0

    def copy(self, events: Events) -> Events | None:
        """The events in a row there, or None where no room is left."""
        count, begin = len(events), self._at
        if not self.held:
            begin, limit = 0, len(self.rows)
        elif (first := self.held[0].begin) >= begin:  # the free rows lie between
            limit = first - 1
        elif begin + count <= len(self.rows):
            limit = len(self.rows)
        else:
            begin, limit = 0, first - 1
        if begin + count > limit:
            return None
        end = begin + count
        room = self.rows[begin:end].reshape(-1)
        plain, lent = copied(words_of(events).reshape(-1), room), room.view(EVENT)
        self.held.append(Lent(begin, end, plain, lent))
        self._at = end
        return lent

    def plain(self, events: Events) -> bool:
        """Whether these are the oldest ones held, and an instant of bars of one clock in order."""
        return bool(self.held) and self.held[0].plain and self.held[0].events is events

    def free(self) -> None:
        """The oldest of them are not needed any more."""
        self.held.popleft()


class DeviceSignals:
    """Computes answers on a device. For one thread at a time, but for `arena.copy`."""

    def __init__(self, runner: InstantRunner, plan: Plan, panel: list[bool], state: Int64s) -> None:
        """`panel` says of each signal whether it is one of each instrument; `state` is where the
        worker is, and is kept up to date by `copy`."""
        self.runner, self.made, self.panel, self.state = runner, plan.made, panel, state
        self.number = 0
        self.since: list[Events] = []
        """Events that the device has had since the state was copied."""
        self.instants_since = self.kept = 0
        self._copy = np.empty_like(state)
        for look in (seen, copied):
            look.ready()
        self._own = np.zeros(256, bool)
        self._own[[*OWN_KINDS]] = self.made.apart
        room = len(runner.events) // (1 + ARENA_ROOMS)
        self.room = runner.events[:room]
        """Where events are put that do not lie in the arena as the device takes them."""
        self.arena = Arena(runner.events[room:])
        runner.put(state)

    def compute(self, events: Events) -> list[Answer]:
        """The answers to whole instants, as a core gives them.

        Raises DeviceError; then none of these events has been answered.
        """
        if self.kept > KEPT_EVENTS_MAX:
            self.copy()
        parts = [events] if self.takes(events) else parted(events)
        found = [answer for part in parts for answer in self._instant(part)]
        self.since.append(events.copy())
        self.kept += len(events)
        return found

    def takes(self, events: Events) -> bool:
        """Whether events are the oldest in the arena, and one instant of bars as the device takes
        them."""
        return self.made.apart and self.arena.plain(events)

    def rest(self) -> None:
        """Called when nothing waits: copies the state now and then."""
        if self.instants_since >= COPIED_INSTANTS or self.kept > KEPT_EVENTS_MAX // 2:
            self.copy()

    def copy(self) -> None:
        """Bring the host's copy of the state to where the device is."""
        self.runner.fetch(self._copy)
        self.state[:] = self._copy
        self.since.clear()
        self.instants_since = self.kept = 0

    def _instant(self, events: Events) -> list[Answer]:
        self.launch(events)
        self.wait()
        return list(self.answers())

    def launch(self, events: Events) -> None:
        """Start the next instant, of these events."""
        if self.takes(events):
            first = len(self.room) + self.arena.held[0].begin
            self._control(first + len(events) - 1, first + len(events), first, len(events))
        else:
            self._stage(events)
        self.number += 1
        self.instants_since += 1
        self.runner.start(self.number)

    def _stage(self, events: Events) -> None:
        """Write the events of one instant where the device reads them, sorted as it needs."""
        room = self.room
        if len(events) + 1 > len(room):
            told = f"an instant of {len(events):,} events; there is room for {len(room):,}"
            raise refused(self.runner.name, "unsupported", told)
        own = self._own[events["kind"]]
        shared, count = events, 0
        if own.any():
            mine = events[own]
            mine = mine[np.argsort(mine["instrument"], kind="stable")]
            shared, count = self._shared(events, own), len(mine)
            room[len(shared) : len(shared) + count] = words_of(mine)
        room[: len(shared)] = words_of(shared)
        self._control(0, len(shared), len(shared), count)

    def _control(self, first: int, end: int, own: int, count: int) -> None:
        self.runner.control[:NUMBER] = first, end, own, count

    def _shared(self, events: Events, own: npt.NDArray[np.bool_]) -> Events:
        """What one thread must see: all that is not an instrument's own, of bars one of each
        clock, and the last event, which has the time."""
        keep = ~own
        keep[-1] = True
        sides, bars = events["side"], events["kind"] == Kind.BAR
        for side in np.unique(sides[bars]):
            keep[int(np.argmax(bars & (sides == side)))] = True
        return events[keep]

    def wait(self) -> None:
        """Until the instant's number stands where the device writes it."""
        runner, until, looks = self.runner, time.monotonic() + HANGS_S, 0
        while not seen(runner.values, self.made.number_at, self.number, SPINS):
            time.sleep(NAP_S)
            looks += 1
            if looks % 64 == 0:
                runner.check()
            if time.monotonic() > until:
                raise refused(runner.name, "launch", f"no answer for {HANGS_S:g} s")

    def answers(self) -> Iterator[Answer]:
        """The answers that stand in the values; copies, for the next instant writes there.

        An array a signal and none for all of them: memory that is new costs more than the copies.
        """
        values, n, signals = self.runner.values, self.made.instruments, len(self.panel)
        marks, single = values[signals * n : (signals + 1) * n], int(values[(signals + 1) * n])
        now = int(values[self.made.number_at - 1])
        for number, panel in enumerate(self.panel):
            if panel:
                whose = np.flatnonzero(marks & (1 << number))
            else:
                whose = np.arange(single >> number & 1)
            if len(whose):
                yield Answer(number, now, whose, values[number * n + whose])


def words_of(events: Events) -> Int64s:
    """Events as words, a row each."""
    return np.ascontiguousarray(events).view(np.int64).reshape(-1, WORDS)


def parted(events: Events) -> Iterator[Events]:
    """Whole instants one by one."""
    begin = 0
    for end in (np.flatnonzero(events["flags"] & MORE == 0) + 1).tolist():
        yield events[begin:end]
        begin = end
