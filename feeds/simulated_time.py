"""The clock of a feed whose time is its own: from where the data begin, N times as fast."""

import time
from threading import Event

FULL_SPEED = 1e6
"""From here on nothing is waited for: the time is that of what was given last."""
STEP_S = 0.002


class SimulatedTime:
    """Time that begins at `start_ns` with `begin` and stands still before."""

    def __init__(self, start_ns: int, speed: float) -> None:
        self.speed, self.given_ns = speed, start_ns
        self._since: int | None = None
        self._start_ns = start_ns

    @property
    def full(self) -> bool:
        """Whether nothing is waited for."""
        return self.speed >= FULL_SPEED

    def begin(self) -> None:
        """Let it run."""
        self._since = time.monotonic_ns()

    def now_ns(self) -> int:
        """The time, ns since 1970."""
        if self.full or self._since is None:
            return self.given_ns
        return self._start_ns + round((time.monotonic_ns() - self._since) * self.speed)

    def reach(self, moment_ns: int, stop: Event) -> bool:
        """Wait for a moment; False where `stop` was set before."""
        while not stop.is_set():
            left_s = 0.0 if self.full else (moment_ns - self.now_ns()) / self.speed / 1e9
            if left_s <= 0:
                self.given_ns = max(self.given_ns, moment_ns)
                return True
            stop.wait(min(max(left_s, STEP_S), 0.2))
        return False
