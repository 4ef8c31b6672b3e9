"""A venue in a process of its own for the benches of the wire: quotes that it stamps as they leave.

    python -m bench.venue STAMPS COUNT EVERY_US AT_ONCE TLS

Standard output tells its addresses, one line of JSON; it ends with its standard input. It speaks
Binance's protocol by the server of the tests. Message n has the update id FIRST + n, and word n of
the file STAMPS is when it was handed to the system, ns of the steady clock. A bare TCP port beside
it sends the same stamps in eight bytes and nothing else: what the machine itself takes.
"""

import contextlib
import json
import mmap
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.venues.binance import Binance
from tests.venues.server import Client, Venue, frame
from tests.venues.tape import Message

SYMBOL, CHANNEL = "BTCUSDT", "btcusdt@bookTicker"
FIRST = 5_000_000_000_000
"""Of thirteen digits, as are all that follow."""
START_NS = 1_723_161_256_000_000_000
SNAPSHOT = json.dumps({
    "lastUpdateId": FIRST - 1, "E": 1, "T": 1,
    "bids": [["60000.10", "1.001"]], "asks": [["60000.30", "1.003"]],
})  # fmt: skip


def quote(number: int) -> str:
    """Message `number`: the price goes a tick up and a tick down."""
    update, up, ms = FIRST + number, number % 2, (START_NS + number * 1_000_000) // 1_000_000
    return (
        f'{{"stream":"{CHANNEL}","data":{{"e":"bookTicker","u":{update},"s":"{SYMBOL}",'
        f'"b":"60000.{1 + up}0","B":"1.001","a":"60000.{2 + up}0","A":"1.003","T":{ms},"E":{ms}}}}}'
    )


class Flood:
    """Frames of so many messages at once, their update ids written into place."""

    def __init__(self, at_once: int) -> None:
        frames = [frame(quote(n).encode()) for n in range(at_once)]
        self.data = np.frombuffer(bytearray(b"".join(frames)), np.uint8)
        starts = np.cumsum([0, *map(len, frames[:-1])])
        offsets = [one.index(b'"u":') + 4 for one in frames]
        self.places = (starts + offsets)[:, None] + np.arange(13)
        self.powers = 10 ** np.arange(12, -1, -1)

    def frames(self, number: int) -> bytes:
        """Those of the messages from `number` on."""
        updates = FIRST + number + np.arange(len(self.places))
        self.data[self.places] = 48 + updates[:, None] // self.powers % 10
        return self.data.tobytes()


class Numbered(Sequence[Message]):
    """A tape that is made as it is played; each of its messages stands for `at_once` of them."""

    def __init__(self, count: int, every_ns: int) -> None:
        self.count, self.every_ns = count, every_ns

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Message:  # type: ignore[override]
        return Message(START_NS + place * self.every_ns, SYMBOL, CHANNEL, "", book=False)


class Quotes(Binance):
    """Binance's futures with quotes of one symbol, and nothing else."""

    def __init__(self, count: int, every_ns: int, at_once: int) -> None:
        super().__init__([], {SYMBOL: (0, SNAPSHOT)}, futures=True)
        self.tape = Numbered(count // at_once, every_ns)  # type: ignore[assignment]
        self.at_once = at_once

    def client(self, path: str) -> Client | None:
        found = super().client(path)
        return _Framed(found, self) if found is not None else None


class _Framed:
    """A client that gets whole frames, made here: rendering each message would be the bench."""

    def __init__(self, client: Client, quotes: Quotes) -> None:
        self._client, self._quotes, self._place = client, quotes, 0
        self._flood = Flood(quotes.at_once)

    @property
    def ready(self) -> bool:
        return self._client.ready

    def opened(self) -> list[str]:
        return self._client.opened()

    def received(self, text: str) -> list[str]:
        return self._client.received(text)

    def rendered(self, message: Message) -> bytes:
        place = (message.at_ns - START_NS) // self._quotes.tape.every_ns  # type: ignore[attr-defined]
        return self._flood.frames(place * self._quotes.at_once)


def anchor(listener: socket.socket, every_s: float) -> None:
    """Sends stamps to whoever connects, as often as the venue sends quotes."""
    while True:
        try:
            one, _ = listener.accept()
        except OSError:
            return
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with one, contextlib.suppress(OSError):  # it has enough of them
            while True:
                time.sleep(every_s)
                one.sendall(struct.pack("q", time.monotonic_ns()))


def main(stamps: str, count: int, every_us: int, at_once: int, tls: bool) -> None:
    with Path(stamps).open("r+b") as file:
        words = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
    quotes = Quotes(count, every_us * 1_000, at_once)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=anchor, args=(listener, every_us / 1e6), daemon=True).start()
    with Venue(quotes, tls=tls, speed=1.0, stamps=words) as venue:
        places = {
            "stream_url": venue.stream_url, "rest_url": venue.rest_url, "ca_file": venue.ca_file,
            "anchor": listener.getsockname()[1],
        }  # fmt: skip
        sys.stdout.write(json.dumps(places) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), tls=sys.argv[5] == "tls")
