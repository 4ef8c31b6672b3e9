"""The websocket of a live feed against servers that behave, and against some that do not."""

import base64
import hashlib
import os
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from quantdsl.errors import FeedError
from quantdsl.live.connection import Backoff, Batch, Connection, stay_connected
from quantdsl.live.feed import Health
from tests.waiting import WAIT_S, until

TEXT, CONT, CLOSE, PING = 0x1, 0x0, 0x8, 0x9


def frame(payload: bytes, opcode: int = TEXT, *, final: bool = True, masked: bool = False) -> bytes:
    first, size = opcode | (0x80 if final else 0), len(payload)
    mask = 0x80 if masked else 0
    if size < 126:
        return bytes([first, size | mask]) + payload
    if size < 1 << 16:
        return bytes([first, 126 | mask]) + struct.pack(">H", size) + payload
    return bytes([first, 127 | mask]) + struct.pack(">Q", size) + payload


def upgrade(peer: socket.socket, *, then: bytes = b"") -> None:
    """Answer a request for a websocket; `then` leaves in the same segment."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += peer.recv(1 << 16)
    lines = (line.partition(b": ") for line in request.split(b"\r\n"))
    key = next(value for name, _, value in lines if name.lower() == b"sec-websocket-key")
    assert b"permessage-deflate" not in request
    digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False)
    accept = base64.b64encode(digest.digest()).decode()
    peer.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        + then
    )


@contextmanager
def server(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """A venue of one thread: `behave` has each connection in turn."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer, suppress(OSError):
                behave(peer)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/stream"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(WAIT_S)


def texts(batch: Batch) -> list[bytes]:
    return [batch.data[a:b].tobytes() for a, b in batch.spans[: batch.size].tolist()]


def received(connection: Connection, count: int) -> list[bytes]:
    found: list[bytes] = []

    def enough() -> bool:
        found.extend(texts(connection.receive()))
        return len(found) >= count

    until(enough, lambda: found)
    return found


def test_messages_come_whole_however_the_bytes_are_cut():
    draw = random.Random(1)
    sizes = draw.choices((0, 1, 125, 126, 700, 65_535, 70_000), k=60)
    sent = [bytes(draw.choices(b"abcxyz{}", k=size)) for size in sizes]
    stream = b"".join(map(frame, sent))

    def behave(peer: socket.socket) -> None:
        upgrade(peer, then=stream[:1_000])
        at = 1_000
        while at < len(stream):
            step = draw.choice((1, 2, 3, 50, 5_000, 200_000))
            peer.sendall(stream[at : at + step])
            at += step
        peer.recv(100)

    with server(behave) as url:
        connection = Connection(url)
        assert received(connection, len(sent)) == sent
        connection.close()


def test_a_ping_is_answered_and_fragments_become_one_message():
    pongs: list[bytes] = []

    def behave(peer: socket.socket) -> None:
        upgrade(peer)
        parts = frame(b"ab", final=False), frame(b"hello", PING), frame(b"cd", CONT)
        peer.sendall(frame(b"first") + b"".join(parts) + frame(b"last"))
        pongs.append(peer.recv(100))
        peer.recv(100)

    with server(behave) as url:
        connection = Connection(url)
        assert received(connection, 3) == [b"first", b"abcd", b"last"]
        connection.close()
    assert pongs[0][0] == 0x8A
    mask, body = pongs[0][2:6], pongs[0][6:11]
    assert bytes(b ^ m for b, m in zip(body, mask * 2, strict=False)) == b"hello"


HOSTILE = {
    "too large": (bytes([0x81, 127]) + struct.pack(">Q", 1 << 40), "1009"),
    "masked": (frame(b"abcd", masked=True), "1002"),
    "reserved bits": (bytes([0xC1, 1]) + b"a", "1002"),
    "reserved opcode": (frame(b"a", 0x3), "1002"),
    "a continuation of nothing": (frame(b"a", CONT), "1002"),
    "a long ping": (frame(b"a" * 126, PING), "1002"),
    "fragments without end": (
        frame(b"a" * 60_000, final=False) + frame(b"a" * 60_000, CONT, final=False) * 20, "1009",
    ),
    "farewell": (frame(struct.pack(">H", 1001) + b"maintenance", CLOSE), "1001 maintenance"),
    "silence": (b"", "without a word"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_broken_stream_ends_the_connection_with_a_reason(name):
    data, reason = HOSTILE[name]

    def behave(peer: socket.socket) -> None:
        upgrade(peer)
        peer.sendall(frame(b"fine") + data)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(1 << 16):
            pass

    with server(behave) as url:
        connection = Connection(url)
        assert received(connection, 1) == [b"fine"]
        with pytest.raises(FeedError, match=reason):
            received(connection, 1)
        connection.close()


@pytest.mark.parametrize("drip", [b"", b"x"])
def test_a_dial_is_bounded(drip):
    """Accepted and then left hanging, or answered a byte at a time, for ever."""
    done = threading.Event()

    def behave(peer: socket.socket) -> None:
        while not done.wait(0.05):
            peer.sendall(drip)

    with server(behave) as url:
        with pytest.raises(FeedError, match="no answer in time"):
            Connection(url, dial_s_max=0.4)
        done.set()


def test_refused_and_no_websocket_are_told_apart():
    with server(lambda _: None) as url:
        pass
    with pytest.raises(FeedError, match="cannot connect"):
        Connection(url)

    def behave(peer: socket.socket) -> None:
        peer.recv(1 << 16)
        peer.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with server(behave) as url, pytest.raises(FeedError, match="HTTP 403"):
        Connection(url)


def test_the_wait_grows_to_its_cap_and_a_good_connection_sets_it_back():
    backoff = Backoff(seed=1)
    waits = [backoff.next_s() for _ in range(12)]
    bases = [min(1.618**n, 30.0) for n in range(12)]
    assert all(base / 2 <= wait <= base for wait, base in zip(waits, bases, strict=True))
    assert len({wait / base for wait, base in zip(waits, bases, strict=True)}) == 12
    backoff.held(59.0)
    assert backoff.next_s() >= 15.0
    backoff.held(60.0)
    assert backoff.next_s() <= 1.0


class Hasty(Backoff):
    """Waits for nothing."""

    def next_s(self) -> float:
        return 0.0


def test_a_thousand_lost_connections_leave_nothing_open():
    """Every way to fail in turn; at most one connection lives, and no descriptor is left."""
    stop, alive, most, cycles = threading.Event(), [0], [0], [0]
    health = Health(name="x")

    def behave(peer: socket.socket) -> None:
        alive[0] += 1
        most[0] = max(most[0], alive[0])
        cycles[0] += 1
        if cycles[0] >= 1_000:
            stop.set()
        way = cycles[0] % 4
        if way:
            upgrade(peer, then=frame(b"x"))
        if way == 1:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if way == 2:
            peer.sendall(frame(struct.pack(">H", 1000), CLOSE))
        alive[0] -= 1

    def serve(connection: Connection) -> None:
        while not stop.is_set():
            connection.receive()

    with server(behave) as url:
        before = len(os.listdir("/proc/self/fd"))
        stay_connected(lambda: Connection(url), serve, health, stop, Hasty())
        assert len(os.listdir("/proc/self/fd")) == before
    assert cycles[0] >= 1_000
    assert most[0] == 1
    assert health.state == "stopped"
    assert health.connects == health.disconnects > 700
    assert health.reason
