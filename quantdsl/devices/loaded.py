"""Programs of this process: made once for a kind of device, shared by all devices of that kind.

A program is stateless, so that several threads may launch it. The cache on disk is behind this:
a first load of a process takes it from there, a later one takes a lookup.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from quantdsl.devices.work import LaneWork
from quantdsl.ir.ops import Module

PROGRAMS_MAX = 32
"""Programs kept a kind; a process sweeps a handful of strategies."""

P = TypeVar("P")
Key = tuple[int, frozenset[str], bytes, Hashable]


class Loaded(Generic[P]):
    """Loads each module once, and anew for work that `sort` tells apart; safe to use from several
    threads.
    """

    def __init__(
        self,
        load: Callable[[LaneWork], P],
        sort: Callable[[LaneWork], Hashable] = lambda _: None,
    ) -> None:
        self._load, self._sort = load, sort
        self._lock = threading.Lock()
        # By identity: hashing a module takes longer than loading one from the cache.
        self._programs: OrderedDict[Key, tuple[Module, P]] = OrderedDict()

    def __call__(self, work: LaneWork) -> P:
        """The program of some work; two threads that ask at once wait for one compile."""
        key = id(work.module), work.kept, work.params.tobytes(), self._sort(work)
        if found := self._programs.get(key):
            return found[1]
        with self._lock:
            if found := self._programs.get(key):
                return found[1]
            program = self._load(work)
            self._programs[key] = work.module, program  # the module too: its id stays its own
            if len(self._programs) > PROGRAMS_MAX:
                self._programs.popitem(last=False)
        return program
