"""The clock of a feed whose time is its own: from where the data begin, N times as fast."""

import time
from collections.abc import Iterator, Sequence
from threading import Event

import numpy as np

from quantdsl.data.ticks import Events
from quantdsl.events.merge import Merge, in_turns
from quantdsl.live.feed import Health, Sink

FULL_SPEED = 1e6
"""From here on nothing is waited for: the time is that of what was given last."""
STEP_S = 0.002


class SimulatedTime:
    """Time that begins at `start_ns` with `begin` and stands still before.

    It never passes a moment of which not all has been given: who asks for the time may count on
    having everything up to it.
    """

    def __init__(self, start_ns: int, speed: float) -> None:
        self.speed, self._start_ns = speed, start_ns
        self._given_ns = self._next_ns = start_ns
        self._since: int | None = None

    @property
    def full(self) -> bool:
        """Whether nothing is waited for."""
        return self.speed >= FULL_SPEED

    def begin(self) -> None:
        """Let it run."""
        self._since = time.monotonic_ns()

    def now_ns(self) -> int:
        """The time, ns since 1970."""
        if self.full:
            return self._given_ns
        return min(self.clock_ns(), max(self._given_ns, self._next_ns - 1))

    def clock_ns(self) -> int:
        """The time that it would be if all had been given."""
        if self._since is None:
            return self._start_ns
        return self._start_ns + round((time.monotonic_ns() - self._since) * self.speed)

    def reach(self, moment_ns: int, stop: Event) -> bool:
        """Wait for the moment of what is given next; False where `stop` was set before."""
        self._next_ns = moment_ns
        while not stop.is_set():
            left_s = 0.0 if self.full else (moment_ns - self.clock_ns()) / self.speed / 1e9
            if left_s <= 0:
                return True
            stop.wait(min(max(left_s, STEP_S), 0.2))
        return False

    def given(self, moment_ns: int) -> None:
        """Everything up to a moment has been given."""
        self._given_ns = moment_ns

    def play(
        self, chunks: Sequence[Iterator[Events]], key: str, sink: Sink, stop: Event, health: Health
    ) -> bool:
        """Give what the chunks of all instruments hold when its time `key` comes.

        What lies before the time at which this begins is left out. False where `stop` ended it.
        """
        begin = self.now_ns()
        health.state = "live"
        self.begin()
        for chunk in _in_order(chunks, key):
            events = chunk[chunk[key] > begin]
            while len(events):
                if not self.reach(int(events[key][0]), stop):
                    health.state = "stopped"
                    return False
                now = int(events[key][-1]) if self.full else self.clock_ns()
                end = int(np.searchsorted(events[key], now, "right"))
                sink.push(events[:end])
                self.given(reached := int(events[key][end - 1]))
                health.received += end
                health.processed += end
                health.last_recv_ns = health.last_event_ns = reached
                if key == "ts_recv":  # a bar's time of receipt is its open
                    health.latency_ns = reached - int(events["ts_event"][end - 1])
                events = events[end:]
        health.state = "stopped"
        return True


def _in_order(chunks: Sequence[Iterator[Events]], key: str) -> Iterator[Events]:
    """What all instruments have, merged by `key`."""
    merge = Merge(len(chunks), key)

    def add(index: int, events: Events) -> int | None:
        merge.push(index, events)
        return int(events[key][-1]) if len(events) else None

    for before in in_turns(chunks, add):
        yield from merge.take(before)
