"""A websocket read by blocking calls of one thread: dial, whole messages in place, back-off.

    socket -> reused buffer -> split (compiled): places of whole text frames -> the feed's decoder
                                 `-> what is no whole text frame: the websockets library

The library makes the handshake and obeys the protocol (fragments, ping, close, broken frames);
it takes 4 us a frame and a copy, so frames of market data, which are plain text frames that come
whole, pass by it: 0.07 us each when 16 wait, left where the socket put them.
Of the others measured, wsproto takes 12 us a frame, websocket-client 10, and picows needs asyncio.
"""

import contextlib
import socket
import ssl
import struct
import time
from collections.abc import Callable
from threading import Event
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import parse_uri

from quantdsl.codegen.decoders import entry
from quantdsl.errors import FeedError
from quantdsl.live.feed import Health, now_ns

DIAL_S_MAX = 10.0
"""From the first packet to the end of the handshake."""

WAIT_S = 0.1
"""A read returns empty after this long, so that its thread can look at the time and at `stop`."""

SEND_S_MAX = 5.0
CLOSE_S_MAX = 1.0
MESSAGE_BYTES_MAX = 1 << 20
FRAMES_MAX = 4_096
"""Frames of one batch; more wait in the buffer for the next."""

_HEAD_BYTES_MAX = 1 << 16
_TEXT = 0x81
"""First byte of a text frame that is a message of its own, not compressed."""


class Batch(NamedTuple):
    """Messages as they lie in the buffer, until the next read.

    `data[spans[n, 0]:spans[n, 1]]` is message n of `size`. All were received at `recv_ns`.
    """

    data: npt.NDArray[np.uint8]
    spans: npt.NDArray[np.int64]
    size: int
    recv_ns: int


@entry("int64(uint8[::1], int64, int64, int64[:,::1])", brief=True)
def split(data: Any, at: int, end: int, spans: Any) -> int:
    """Places of whole text frames from `at` on, up to the first thing that is none."""
    count = 0
    while count < len(spans) and end - at >= 2 and data[at] == _TEXT:
        size: Any = np.int64(data[at + 1])
        head = 2
        if size == 126:
            if end - at < 4:
                break
            size = np.int64(data[at + 2]) << 8 | np.int64(data[at + 3])
            head = 4
        elif size > 126:
            break  # 64 KiB and more, or masked: the library's
        if end - at < head + size:
            break
        spans[count, 0] = at + head
        at += head + size
        spans[count, 1] = at
        count += 1
    return count


class Backoff:
    """Seconds to wait before the next dial: x1.618 each time, up to a cap, with jitter.

    The jitter takes up to half off, so that many clients of a venue that fell over do not come
    back at once. A connection that held for GOOD_S sets it back.
    """

    FIRST_S, FACTOR, CAP_S, GOOD_S = 1.0, 1.618, 30.0, 60.0

    def __init__(self, seed: int | None = None) -> None:
        self._draw = np.random.default_rng(seed)
        self._next_s = self.FIRST_S

    def held(self, seconds: float) -> None:
        """The last connection was good for so long."""
        if seconds >= self.GOOD_S:
            self._next_s = self.FIRST_S

    def next_s(self) -> float:
        base, self._next_s = self._next_s, min(self._next_s * self.FACTOR, self.CAP_S)
        return base * (1.0 - 0.5 * float(self._draw.random()))


class Connection:
    """An open websocket. One thread uses it; FeedError says why it ended."""

    def __init__(
        self,
        url: str,
        *,
        ca_file: str = "",
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        dial_s_max: float = DIAL_S_MAX,
    ) -> None:
        """Dial: TCP, TLS for wss, upgrade; all within `dial_s_max`."""
        self.url = url
        self._message_bytes_max = message_bytes_max
        self._view = memoryview(bytearray(message_bytes_max + _HEAD_BYTES_MAX))
        self._data = np.frombuffer(self._view, np.uint8)
        self._spans = np.empty((FRAMES_MAX, 2), np.int64)
        self._split = split.ready()
        self._at = self._end = 0
        self._parts: list[bytes] = []
        self._fragmented = False
        self.bytes_received = 0
        self._last_heard = time.monotonic()
        deadline = self._last_heard + dial_s_max
        self._library = ClientProtocol(parse_uri(url), max_size=message_bytes_max)
        try:
            self._socket = _dial(url, ca_file, deadline)
        except OSError as error:
            raise FeedError(f"{url}: cannot connect: {_reason(error)}") from None
        try:
            self._upgrade(deadline)
        except BaseException:
            self._socket.close()
            raise
        self._set_waits()

    def _set_waits(self) -> None:
        """Bounds each read and write from here on.

        The kernel's own bound on a blocking socket spares plain TCP a poll before each read; TLS
        would try again for ever.
        """
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.settimeout(WAIT_S)
            return
        self._socket.settimeout(None)
        wait = struct.pack("ll", 0, int(WAIT_S * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
        send = struct.pack("ll", int(SEND_S_MAX), 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, send)

    def silent_s(self) -> float:
        """Since the venue last sent anything, a pong included."""
        return time.monotonic() - self._last_heard

    def receive(self) -> Batch:
        """All messages that are there, waiting for the first up to WAIT_S; FeedError at the end."""
        if self._at < self._end:
            batch = self._messages(now_ns())
            if batch.size:
                return batch
        self._read()
        return self._messages(now_ns())

    def send(self, text: str) -> None:
        self._library.send_text(text.encode())
        self._flush()

    def ping(self) -> None:
        self._library.send_ping(b"")
        self._flush()

    def close(self) -> None:
        """Say goodbye, wait shortly for the answer, and let go of the socket in any case."""
        with contextlib.suppress(OSError, FeedError, WebSocketException):
            if self._library.state is State.OPEN:
                self._library.send_close(1000)
                self._flush()
            end = time.monotonic() + CLOSE_S_MAX
            self._socket.settimeout(CLOSE_S_MAX)
            while time.monotonic() < end and self._socket.recv(1 << 16):
                pass
        self._socket.close()

    def _upgrade(self, deadline: float) -> None:
        self._library.send_request(self._library.connect())
        try:
            self._flush()
            while b"\r\n\r\n" not in bytes(self._view[: self._end]):
                self._socket.settimeout(max(1e-3, deadline - time.monotonic()))
                size = self._socket.recv_into(self._view[self._end : _HEAD_BYTES_MAX])
                if size == 0:
                    break
                self._end += size
        except OSError as error:
            raise FeedError(f"{self.url}: no websocket: {_reason(error)}") from None
        head, mark, _ = bytes(self._view[: self._end]).partition(b"\r\n\r\n")
        self._library.receive_data(head + mark)
        self._library.receive_eof() if not mark else None
        self._at = len(head) + len(mark)
        answers = self._library.events_received()
        failed = self._library.handshake_exc
        if failed is None and answers and isinstance(answers[0], Response):
            return
        said = f": {failed}" if isinstance(failed, InvalidHandshake) else ""
        raise FeedError(f"{self.url}: the venue did not open a websocket{said}")

    def _read(self) -> None:
        """Take what comes within WAIT_S, if anything does."""
        left = self._end - self._at
        if self._at and left:
            self._data[:left] = self._data[self._at : self._end].copy()
        self._at, self._end = 0, left
        try:
            size = self._socket.recv_into(self._view[self._end :])
            while isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() and size:
                self._end += size
                self.bytes_received += size
                size = self._socket.recv_into(self._view[self._end :])
        except (BlockingIOError, TimeoutError):
            return
        except OSError as error:
            raise FeedError(f"{self.url}: connection lost: {_reason(error)}") from None
        if size == 0:
            raise FeedError(f"{self.url}: the venue closed the connection without a word")
        self._end += size
        self.bytes_received += size
        self._last_heard = time.monotonic()

    def _messages(self, recv_ns: int) -> Batch:
        """The whole messages of the buffer up to one that only the library understands."""
        while True:
            if not self._fragmented:
                count = self._split(self._data, self._at, self._end, self._spans)
                if count:
                    self._at = int(self._spans[count - 1, 1])
                    return Batch(self._data, self._spans, count, recv_ns)
            frame_end = self._frame_end()
            if frame_end == 0:
                return Batch(self._data, self._spans, 0, recv_ns)
            message = self._by_library(bytes(self._view[self._at : frame_end]))
            self._at = frame_end
            if message is not None:
                self._spans[0] = 0, len(message)
                return Batch(np.frombuffer(message, np.uint8).copy(), self._spans, 1, recv_ns)

    def _frame_end(self) -> int:
        """Where the frame at hand ends, 0 where it is not whole yet.

        One that is too large ends with its head, at which the library refuses it.
        """
        held = self._end - self._at
        if held < 2:
            return 0
        size, head = int(self._data[self._at + 1]) & 127, 2
        masked = int(self._data[self._at + 1]) & 128
        extra = {126: 2, 127: 8}.get(size, 0)
        if held < head + extra:
            return 0
        if extra:
            size = int.from_bytes(self._view[self._at + 2 : self._at + 2 + extra], "big")
        head += extra
        if size > self._message_bytes_max or masked:
            return self._at + head
        return self._at + head + size if held >= head + size else 0

    def _by_library(self, frame: bytes) -> bytes | None:
        """Hands one frame to the library; the message that it completes, if any."""
        self._library.receive_data(frame)
        self._flush()
        message = None
        for event in self._library.events_received():
            assert isinstance(event, Frame)
            if event.opcode is Opcode.CLOSE:
                raise FeedError(f"{self.url}: the venue closed the connection: {self._farewell()}")
            if event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                self._parts.append(bytes(event.data))
                self._fragmented = not event.fin
                if event.fin:
                    message, self._parts = b"".join(self._parts), []
        if self._library.parser_exc is not None:
            raise FeedError(f"{self.url}: broken websocket: {self._farewell()}")
        return message

    def _farewell(self) -> str:
        said = self._library.close_rcvd or self._library.close_sent
        return f"{int(said.code)} {said.reason}".strip() if said else "no reason given"

    def _flush(self) -> None:
        waiting = [data for data in self._library.data_to_send() if data]
        if not waiting:
            return
        wait_s = self._socket.gettimeout()
        try:
            if wait_s == WAIT_S:
                self._socket.settimeout(SEND_S_MAX)
            self._socket.sendall(b"".join(waiting))
            self._socket.settimeout(wait_s)
        except OSError as error:
            raise FeedError(f"{self.url}: cannot send: {_reason(error)}") from None


def stay_connected(
    dial: Callable[[], Connection],
    serve: Callable[[Connection], None],
    health: Health,
    stop: Event,
    backoff: Backoff | None = None,
) -> None:
    """Dial and serve again and again until `stop`; never two connections at once.

    `serve` returns when `stop` is set or when the connection has served its time; a FeedError of
    either is told in `health`, and then the next dial waits.
    """
    backoff = backoff or Backoff()
    while not stop.is_set():
        health.state = "connecting"
        try:
            connection = dial()
        except FeedError as error:
            health.reason = str(error)
        else:
            health.connects += 1
            began = time.monotonic()
            try:
                serve(connection)
            except FeedError as error:
                health.reason = str(error)
            finally:
                connection.close()
                health.disconnects += 1
                backoff.held(time.monotonic() - began)
        if not stop.is_set():
            health.state = "waiting"
            stop.wait(backoff.next_s())
    health.state = "stopped"


def trusted(ca_file: str = "") -> ssl.SSLContext:
    """TLS that checks certificate and host name, by the system's authorities or by `ca_file`."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise FeedError(f"{ca_file}: holds no certificate to trust: {_reason(error)}") from None


def _dial(url: str, ca_file: str, deadline: float) -> socket.socket:
    parts = urlsplit(url)
    secure = parts.scheme == "wss"
    host, port = parts.hostname or "", parts.port or (443 if secure else 80)
    plain = socket.create_connection((host, port), max(1e-3, deadline - time.monotonic()))
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.settimeout(max(1e-3, deadline - time.monotonic()))
        return trusted(ca_file).wrap_socket(plain, server_hostname=host) if secure else plain
    except BaseException:
        plain.close()
        raise


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error) or type(error).__name__
