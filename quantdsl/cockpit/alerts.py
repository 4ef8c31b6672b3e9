"""Alerts: what a person must hear of at once, to a command or a webhook, never in anyone's way.

A thread looks at the history every tenth of a second and hands causes to a thread of each channel.
A channel that fails or hangs costs a line in the log; a cause is told once in `repeat_s`, and all
together at most `minute_max` times a minute, so that a flapping feed wakes a person once. What is
held back and still wrong when there is room is told then.
"""

import queue
import re
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from quantdsl.cockpit.history import SILENT_S, History
from quantdsl.config import AlertsConfig
from quantdsl.errors import ConfigError
from quantdsl.live.view import Level, Snapshot

LOOK_S = 0.1
WAITING_MAX = 100
"""Alerts that a slow channel is behind; what comes then is dropped and counted."""
CHANNEL_S_MAX = 10.0
NEAR_LIMIT = 0.9


class Alert(Struct, frozen=True):
    """What is sent, as JSON."""

    session: str
    level: Level
    cause: str
    """Stays the same while the same thing is wrong: session.halted, feed.binance.down, ..."""
    text: str
    ts: int
    """ns since 1970 UTC, of the snapshot that showed it."""


class Limiter:
    """Says whether an alert may go; times are monotonic seconds."""

    def __init__(self, repeat_s: float, minute_max: int) -> None:
        self.repeat_s, self.minute_max = repeat_s, minute_max
        self.told_s: dict[str, float] = {}
        self.sent_s: deque[float] = deque()

    def lets(self, cause: str, now_s: float) -> bool:
        """Whether `cause` may be told now; if so it counts as told."""
        while self.sent_s and self.sent_s[0] <= now_s - 60:
            self.sent_s.popleft()
        told_s = self.told_s.get(cause)
        recent = told_s is not None and now_s - told_s < self.repeat_s
        if recent or len(self.sent_s) >= self.minute_max:
            return False
        self.told_s = {key: at for key, at in self.told_s.items() if now_s - at < self.repeat_s}
        self.told_s[cause] = now_s
        self.sent_s.append(now_s)
        return True


class Alerts:
    """The alerts of one session, from `start` to `close`; with no channel set it does nothing."""

    def __init__(self, history: History, settings: AlertsConfig) -> None:
        self.history = history
        self.limiter = Limiter(settings.repeat_s, settings.minute_max)
        self.channels: list[Channel] = []
        if settings.command:
            self.channels.append(Channel("command", command_sender(settings.command), history))
        if settings.webhook:
            self.channels.append(Channel("webhook", webhook_sender(settings.webhook), history))
        self.held_back = 0
        """Alerts that were not told when they came."""
        self._told: set[str] = set()
        self._waiting: set[str] = set()
        """Causes that are wrong now: those that were told, and those that were not yet."""
        self._late: dict[str, Alert] = {}
        """Of each source the newest line of the log that was held back."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="alerts", daemon=True)

    def start(self) -> None:
        """Watches from now on, on a thread of its own."""
        if self.channels:
            self._thread.start()

    def close(self) -> None:
        """Gives what is wrong now a last chance to be told, for at most a second."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(1.0)
        for channel in self.channels:
            channel.close(1.0)

    def _watch(self) -> None:
        number = 0
        while True:
            ending = self._stop.wait(LOOK_S)
            news = self.history.told(number)
            number = news.number
            self._look(list(causes(news.snapshot, news.age_s)))
            lines = [line for line in news.log if line.level == "error" and line.source != "alerts"]
            session = news.snapshot.session if news.snapshot else ""
            self._hear(
                Alert(session, line.level, f"log.{line.source}", line.text, line.ts)
                for line in lines
            )
            if ending:
                return

    def _hear(self, lines: Iterable[Alert]) -> None:
        """Tell lines of the log; of those of one source that had to wait the newest."""
        for alert in lines:
            if alert.cause in self._late or not self._tell(alert):
                self._late[alert.cause] = alert
                self.held_back += 1
        self._late = {cause: one for cause, one in self._late.items() if not self._tell(one)}

    def _look(self, found: list[Alert]) -> None:
        """Tell what is wrong now and was not told since it is."""
        wrong = {alert.cause for alert in found}
        self._told &= wrong
        self._waiting &= wrong
        for alert in found:
            if alert.cause in self._told:
                continue
            if self._tell(alert):
                self._told.add(alert.cause)
                self._waiting.discard(alert.cause)
            elif alert.cause not in self._waiting:
                self._waiting.add(alert.cause)
                self.held_back += 1

    def _tell(self, alert: Alert) -> bool:
        """Hand it to the channels, if it may go now."""
        if not self.limiter.lets(alert.cause, time.monotonic()):
            return False
        for channel in self.channels:
            channel.put(alert)
        return True


def causes(snapshot: Snapshot | None, age_s: float) -> Iterator[Alert]:
    """What is wrong in a snapshot of that age."""
    if snapshot is None:
        return
    name, ts = snapshot.session, snapshot.ts

    def alert(level: Level, cause: str, text: str) -> Alert:
        return Alert(name, level, cause, text, ts)

    if age_s > SILENT_S and snapshot.state not in ("stopped", "lost"):
        yield alert("error", "session.silent", "the session is not heard")
    if snapshot.state in ("halted", "lost"):
        why = f": {snapshot.reason}" if snapshot.reason else ""
        yield alert("error", f"session.{snapshot.state}", f"the session is {snapshot.state}{why}")
    for strategy in snapshot.strategies:
        if strategy.state in ("halted", "reducing", "lost"):
            text = f"{strategy.name} is {strategy.state}: {strategy.reason}"
            yield alert("error", f"strategy.{strategy.name}.{strategy.state}", text)
    for feed in snapshot.feeds:
        if feed.state in ("stale", "down"):
            why = f": {feed.why}" if feed.why else ""
            text = f"feed {feed.name} is {feed.state}{why}"
            yield alert("warning", f"feed.{feed.name}.{feed.state}", text)
    for gauge in snapshot.gauges:
        of = f" of {gauge.strategy}" if gauge.strategy else ""
        used = f"is at {gauge.value:g} of {gauge.limit:g} {gauge.unit}".rstrip()
        if gauge.tripped:
            text = f"{gauge.name}{of} was broken, and holds until a person arms again; it {used}"
            yield alert("error", f"limit.{gauge.strategy}.{gauge.name}.tripped", text)
        elif gauge.limit > 0 and gauge.value >= NEAR_LIMIT * gauge.limit:
            text = f"{gauge.name}{of} {used}"
            yield alert("warning", f"limit.{gauge.strategy}.{gauge.name}.near", text)


def hold_channels(settings: AlertsConfig) -> None:
    """ConfigError where an alert could never go out."""
    if settings.command and shutil.which(settings.command[0]) is None:
        raise ConfigError(
            f"alerts.command: there is no program {settings.command[0]!r} to run\n"
            "help: name one by its whole path, and its arguments one by one: no shell reads them"
        )
    try:
        parts = urlsplit(settings.webhook)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        good &= not re.search(r"\s", settings.webhook)
    except ValueError:
        good = False
    if settings.webhook and not good:
        raise ConfigError(
            "alerts.webhook is no address that an alert can be POSTed to\n"
            "help: write it as https://..."
        )


class Channel:
    """One way out, with a thread and a short queue of its own."""

    def __init__(self, name: str, send: Callable[[Alert], None], history: History) -> None:
        self.name, self.send, self.history = name, send, history
        self.waiting: queue.Queue[Alert | None] = queue.Queue(WAITING_MAX)
        self.failed = self.dropped = 0
        self.thread = threading.Thread(target=self._run, name=f"alert {name}", daemon=True)
        self.thread.start()

    def put(self, alert: Alert) -> None:
        """Hands over without waiting."""
        try:
            self.waiting.put_nowait(alert)
        except queue.Full:
            self.dropped += 1

    def close(self, wait_s: float) -> None:
        """Sends what waits, for at most so long."""
        try:
            self.waiting.put_nowait(None)
        except queue.Full:
            return
        self.thread.join(wait_s)

    def _run(self) -> None:
        while (alert := self.waiting.get()) is not None:
            try:
                self.send(alert)
            except Exception as reason:  # a channel may break in any way, and only it
                self.failed += 1
                why = f"{type(reason).__name__}: {reason}"
                self.history.say("warning", "alerts", f"the {self.name} failed: {why}")


def command_sender(command: tuple[str, ...]) -> Callable[[Alert], None]:
    """Starts the program with its arguments, no shell; the alert is its standard input."""

    def send(alert: Alert) -> None:
        subprocess.run(  # noqa: S603  the user's own command, as a list
            list(command),
            input=msgspec.json.encode(alert),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=CHANNEL_S_MAX,
            check=True,
        )

    return send


def webhook_sender(url: str) -> Callable[[Alert], None]:
    """POSTs the alert; `text` is where chat services look. The address may hold a secret: it is
    not repeated in errors."""
    import httpx

    client = httpx.Client(timeout=CHANNEL_S_MAX, follow_redirects=False)

    def send(alert: Alert) -> None:
        try:
            answer = client.post(
                url,
                content=msgspec.json.encode(alert),
                headers={"content-type": "application/json"},
            )
        except (httpx.HTTPError, httpx.InvalidURL) as reason:
            raise OSError(type(reason).__name__) from None
        if not answer.is_success:
            raise OSError(f"status {answer.status_code}")

    return send
