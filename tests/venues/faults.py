"""What a test venue does wrong, on demand: to messages of market data, and to connections.

A message fault is asked for by `Faults.now` (the next message that it fits) or `Faults.at` (the
n-th message of market data, counted from 0 over the life of the venue). Faults meet messages in
the order in which they were asked for.
"""

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from tests.venues.tape import Message


class Dial(Enum):
    """What happens to the next connection in place of service."""

    RESET = "accepted, and reset at the first byte"
    HANG = "accepted, then silent"
    TLS_STALL = "the client's hello is read, then silent"
    MUTE = "TLS is made, the request is read, then silent"
    REFUSED = "the upgrade is answered by 503"
    CLOSED = "upgraded, then closed at once"


@dataclass(frozen=True)
class Lose:
    """The next messages are lost."""

    count: int = 1


@dataclass(frozen=True)
class Duplicate:
    """The message arrives this many times more."""

    count: int = 1


@dataclass(frozen=True)
class Reorder:
    """The next `count` messages arrive last first."""

    count: int = 2


@dataclass(frozen=True)
class Delay:
    """The message arrives after the `count` that follow it."""

    count: int = 1


@dataclass(frozen=True)
class Stall:
    """Nothing arrives for so long; `heartbeats` of the venue still do."""

    seconds: float
    heartbeats: bool = False


@dataclass(frozen=True)
class Instead:
    """Arrives in place of the message: what `change` makes of it; bytes go out as they are."""

    change: Callable[[str], str | bytes]


@dataclass(frozen=True)
class Insert:
    """Arrives before the message."""

    data: str | bytes


@dataclass(frozen=True)
class Reset:
    """The connection is reset without a word."""


@dataclass(frozen=True)
class Close:
    """The venue closes; with `linger_s` it answers nothing more and leaves TCP open so long."""

    code: int = 1001
    linger_s: float = 0.0


MessageFault = Lose | Duplicate | Reorder | Delay | Stall | Instead | Insert | Reset | Close
Out = str | bytes | Stall | Reset | Close


@dataclass
class Faults:
    """Faults to come; used by the venue's threads and by the test's at once."""

    dials: deque[Dial] = field(default_factory=deque)
    rest: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Status and body that answer the next requests."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, MessageFault, Callable[[Message], bool]]] = []
        self._count = 0
        self._losing = 0
        self._held: list[tuple[int, bool, list[str]]] = []

    def now(self, fault: MessageFault, of: Callable[[Message], bool] = lambda _: True) -> None:
        with self._lock:
            self._waiting.append((0, fault, of))

    def at(self, number: int, fault: MessageFault) -> None:
        with self._lock:
            self._waiting.append((number, fault, lambda _: True))

    def dial(self, *dials: Dial) -> None:
        self.dials.extend(dials)

    def apply(self, message: Message) -> list[Out]:
        """What arrives in place of this message, in order."""
        with self._lock:
            number, self._count = self._count, self._count + 1
            for place, (at, fault, fits) in enumerate(self._waiting):
                if number >= at and fits(message):
                    del self._waiting[place]
                    return self._held_back(self._one(fault, message))
            if self._losing:
                self._losing -= 1
                return []
            return self._held_back([message.text])

    def _one(self, fault: MessageFault, message: Message) -> list[Out]:
        match fault:
            case Lose(count):
                self._losing = count - 1
                return []
            case Duplicate(count):
                return [message.text] * (count + 1)
            case Reorder(count):
                self._held.append((count, True, []))
                return [message.text]
            case Delay(count):
                self._held.append((count + 1, False, [message.text]))
                return []
            case Instead(change):
                return [change(message.text)]
            case Insert(data):
                return [data, message.text]
            case _:
                return [fault, message.text]

    def _held_back(self, out: list[Out]) -> list[Out]:
        """Messages that wait for those behind them."""
        left: list[tuple[int, bool, list[str]]] = []
        for count, reverse, texts in self._held:
            if reverse:
                texts += [one for one in out if isinstance(one, str)]
                out = [one for one in out if not isinstance(one, str)]
            if count > 1:
                left.append((count - 1, reverse, texts))
            else:
                out = [*out, *(reversed(texts) if reverse else texts)]
        self._held = left
        return out


# ---- mutations of bytes, for hostile input ----------------------------------------------------


def mutations(seed: int, corpus: list[bytes]) -> Iterator[bytes]:
    """Endless damaged versions of real messages, the same for the same seed."""
    rng = random.Random(seed)
    kinds = (_flipped, _cut, _doubled, _spliced, _deepened, _renumbered, _quoted, _unprintable)
    while True:
        text = rng.choice(corpus)
        for _ in range(rng.randint(1, 3)):
            text = rng.choice(kinds)(rng, text, corpus)
        yield text[:200_000]


def _place(rng: random.Random, text: bytes) -> int:
    return rng.randrange(len(text) + 1)


def _flipped(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    if not text:
        return text
    data = bytearray(text)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cut(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    a, b = sorted((_place(rng, text), _place(rng, text)))
    return text[:a] + text[b:] if rng.random() < 0.5 else text[:a]


def _doubled(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    a, b = sorted((_place(rng, text), _place(rng, text)))
    return text[:b] + text[a:]


def _spliced(rng: random.Random, text: bytes, corpus: list[bytes]) -> bytes:
    other = rng.choice(corpus)
    return text[: _place(rng, text)] + other[_place(rng, other) :]


def _deepened(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    at, many = _place(rng, text), rng.choice((3, 300, 100_000))
    return text[:at] + rng.choice((b"[", b"{", b'{"a":', b"]", b"}")) * many + text[at:]


_NUMBERS = (b"-1", b"0", b"-0", b"1e999", b"NaN", b"9" * 40, b"0." + b"0" * 40 + b"1", b"1_0",
            b"9223372036854775807", b"-9223372036854775808", b".", b"")


def _renumbered(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    """One run of digits becomes another number."""
    starts = [at for at in range(len(text)) if text[at : at + 1].isdigit()]
    if not starts:
        return text
    a = b = rng.choice(starts)
    while text[b : b + 1].isdigit() or text[b : b + 1] == b".":
        b += 1
    return text[:a] + rng.choice(_NUMBERS) + text[b:]


def _quoted(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    at = _place(rng, text)
    return text[:at] + rng.choice((b'"', b"\\", b'\\"', b'"x":1,', b"null", b",", b":")) + text[at:]


def _unprintable(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    at = _place(rng, text)
    return text[:at] + bytes(rng.randrange(256) for _ in range(rng.randint(1, 9))) + text[at:]
