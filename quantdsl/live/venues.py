"""The venues of a session, asked what they trade before it begins or goes on.

One that gives no answer is waited for, as one that is lost later: its feed is down meanwhile. One
that refuses, or counts otherwise than when the session began, ends the session.
"""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from quantdsl.data.instrument import Instrument
from quantdsl.errors import QuantDSLError, UnreachableError
from quantdsl.live.connection import Backoff
from quantdsl.live.feed import LiveFeed
from quantdsl.live.manifest import Manifest, hold_terms

LOOK_S = 0.1


class Venues:
    """Asks each feed for its instruments, at once; `wait` goes on asking those that are away."""

    def __init__(self, folder: Path, manifest: Manifest, feeds: Sequence[LiveFeed]) -> None:
        """Raises what a venue refuses, and ConfigError where it counts otherwise now."""
        self._folder, self._manifest, self._feeds = folder, manifest, feeds
        self._known: dict[int, list[Instrument]] = {}
        self._retry_s: dict[int, float] = {}
        """How long a venue asked to be left alone."""
        self._refused: list[QuantDSLError] = []
        self.away = {number for number in range(len(feeds)) if not self._answers(number)}
        self._hold_terms()

    def wait(self, stopping: threading.Event, meanwhile: Callable[[], None]) -> None:
        """Return when all have answered or `stopping` is set; `meanwhile` is called now and then.

        Raises as the constructor.
        """
        for number in sorted(self.away):
            name = f"reach {self._feeds[number].name}"
            body, given = self._reach, (number, stopping)
            threading.Thread(target=body, args=given, name=name, daemon=True).start()
        while self.away and not (self._refused or stopping.wait(LOOK_S)):
            meanwhile()
        if self._refused:
            raise self._refused[0]
        self._hold_terms()

    def _reach(self, number: int, stopping: threading.Event) -> None:
        """Ask one that is away again and again; an answer may take as long as a request lasts."""
        backoff = Backoff()
        while not stopping.wait(max(backoff.next_s(), self._retry_s[number])):
            self._feeds[number].health.state = "connecting"
            try:
                if self._answers(number):
                    self.away.discard(number)
                    return
            except QuantDSLError as refused:
                self._refused.append(refused)
                return

    def _answers(self, number: int) -> bool:
        """Whether a venue says what it trades; one that is away is told in its feed's health."""
        feed = self._feeds[number]
        try:
            self._known[number] = feed.instruments()
        except UnreachableError as away:
            self._retry_s[number] = away.retry_s
            feed.health.state, feed.health.reason = "waiting", str(away)
            return False
        return True

    def _hold_terms(self) -> None:
        if len(self._known) == len(self._feeds):
            known = [one for number in range(len(self._feeds)) for one in self._known[number]]
            hold_terms(self._folder, self._manifest, known)
