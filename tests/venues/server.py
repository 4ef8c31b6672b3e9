"""A local venue: TLS websocket and REST on one port, with faults below, within and above them.

Each connection has a thread with a blocking socket, so that a fault may stop at any byte: before
TLS, within it, before the upgrade, within a frame. A Venue plays one tape, at `speed` times the
recorded pace, or at `speed` 0 as fast as it is read. Its market's time goes on in small steps, one
for each time that the venue looks at it, and only while somebody listens: a machine that is slow
makes the market slow and never leaps over a part of the tape that a test counts on.
"""

import contextlib
import select
import socket
import ssl
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

import trustme
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from tests.venues.faults import Close, Dial, Faults, Out, Reset, Stall
from tests.venues.tape import Message

_TURN_S = 0.01
"""Longest wait for a client's bytes before the tape is looked at again."""


class Client(Protocol):
    """One connection to a venue's stream: what it subscribed to."""

    ready: bool
    """Something is subscribed to; no tape is played for who wants nothing."""

    def opened(self) -> list[str]:
        """What the venue says first."""
        ...

    def received(self, text: str) -> list[str]:
        """What the venue answers, snapshots of books among it."""
        ...

    def rendered(self, message: Message) -> str | bytes | None:
        """The text of a message of the tape for this client, None where it did not ask for it;
        bytes are whole frames, which no fault touches."""
        ...


class Dialect(Protocol):
    """What is the venue's own: its requests, its subscriptions, its tape."""

    tape: Sequence[Message]
    heartbeat: str
    cursor: int
    """How many messages of the tape were played; the venue sets it."""

    def client(self, path: str) -> Client | None:
        """A stream at this path, None where there is none."""
        ...

    def rest(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Status and body."""
        ...


@cache
def _certificates() -> tuple[trustme.CA, trustme.LeafCert, str]:
    authority = trustme.CA()
    path = Path(tempfile.mkdtemp(prefix="venue-ca-")) / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return authority, authority.issue_cert("localhost", "127.0.0.1"), str(path)


def foreign_ca_file(folder: Path) -> str:
    """Certificates that no test venue has: who trusts them alone must refuse to connect."""
    path = folder / "foreign.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return str(path)


@dataclass
class Log:
    """What a venue saw of its clients; times by the monotonic clock, in seconds."""

    dials_s: list[float] = field(default_factory=list)
    streams_s: list[float] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    pongs: int = 0
    live: int = 0
    live_max: int = 0
    sent: int = 0


class Venue:
    """Serves one dialect until `close`; a context manager."""

    def __init__(self, dialect: Dialect, *, tls: bool = True, speed: float = 0.0,
                 compress: bool = False, ping_s: float = 20.0, rest_delay_s: float = 0.0,
                 texts_min: int = 0, stamps: memoryview | None = None) -> None:
        """`texts_min`: what a client says before the tape is played to it. `stamps`: a word for
        each place of the tape, when it was handed to the system, ns of the steady clock."""
        self.stamps = stamps
        self.dialect, self.faults, self.log = dialect, Faults(), Log()
        self.texts_min = texts_min
        self.held = threading.Event()
        self.resumes = 0
        self._before: int | None = None
        self._tls, self._speed, self._ping_s = tls, speed, ping_s
        self._compress, self._rest_delay_s = compress, rest_delay_s
        self._market_s = self._looked_s = 0.0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _, leaf, self.ca_file = _certificates()
        leaf.configure_cert(self._context)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    @property
    def cursor(self) -> int:
        """Messages of the tape that were played."""
        return self.dialect.cursor

    @property
    def stream_url(self) -> str:
        return f"{'wss' if self._tls else 'ws'}://localhost:{self.port}"

    @property
    def rest_url(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self.port}"

    def hold(self) -> None:
        """Play nothing more until `resume`."""
        self.held.set()

    def hold_before(self, place: int) -> None:
        """Play message `place` of the tape and what follows after `resume` only."""
        self._before = place

    def resume(self) -> None:
        """Go on after a hold, and after a stall whose time is not over."""
        self.resumes += 1
        self._before = None
        self.held.clear()

    def hurry(self) -> None:
        """Play the rest as fast as it is read."""
        self._speed = 0.0

    def refuse(self) -> None:
        """Nobody listens any more; open connections stay."""
        # A thread that waits in accept keeps the port open after close alone.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def listen(self) -> None:
        """Listen at the same port again."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def drop_all(self) -> None:
        """Reset every connection."""
        with self._lock:
            for one in self._sockets:
                # Its thread wakes up, ends, and closes; the peer sees no end but the reset.
                with contextlib.suppress(OSError):
                    _reset_at_close(one)
                    socket.socket.shutdown(one, socket.SHUT_RD)

    def close(self) -> None:
        self._stop.set()
        self.refuse()
        self.drop_all()

    def __enter__(self) -> "Venue":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- connections -----------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while not self._stop.is_set():
            try:
                one, _ = listener.accept()
            except OSError:
                return
            self.log.dials_s.append(time.monotonic())
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        with self._lock:
            self._sockets.add(raw)
        connection: socket.socket = raw
        try:
            dial = self._dial_fault()
            if dial is Dial.RESET:
                raw.recv(1)
                return _reset(raw)
            if dial in (Dial.HANG, Dial.TLS_STALL):
                if dial is Dial.TLS_STALL:
                    raw.recv(1 << 14)
                return self._silent(raw)
            if self._tls:
                connection = self._context.wrap_socket(raw, server_side=True)
                with self._lock:
                    self._sockets.discard(raw)
                    self._sockets.add(connection)
            self._speak(connection, dial)
        except (OSError, EOFError):
            return None
        finally:
            with self._lock:
                self._sockets.discard(connection)
                self._sockets.discard(raw)
            connection.close()

    def _dial_fault(self) -> Dial | None:
        try:
            return self.faults.dials.popleft()
        except IndexError:
            return None

    def _silent(self, connection: socket.socket, seconds: float = 3600.0) -> None:
        """Keep TCP open and say nothing, until the client goes or the time is over."""
        end = time.monotonic() + seconds
        connection.settimeout(_TURN_S)
        while not self._stop.is_set() and time.monotonic() < end:
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1 << 14):
                    return

    def _speak(self, connection: socket.socket, dial: Dial | None) -> None:
        """Requests until the connection is closed or becomes a stream."""
        while True:
            request = b""
            while b"\r\n\r\n" not in request:
                data = connection.recv(1 << 14)
                if not data:
                    return
                request += data
            if dial is Dial.MUTE:
                return self._silent(connection)
            target = request.split(b" ", 2)[1].decode("ascii", "replace")
            self.log.requests.append(target)
            if b"upgrade: websocket" in request.lower():
                return self._upgrade(connection, request, target, dial)
            connection.sendall(self._answer(target))

    def _answer(self, target: str) -> bytes:
        parts = urlsplit(target)
        if self._rest_delay_s:
            self._stop.wait(self._rest_delay_s)
        try:
            status, body = self.faults.rest.popleft()
        except IndexError:
            query = dict(parse_qsl(parts.query))
            status, body = self.dialect.rest(parts.path, query)
        head = (f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n"
                + ("Retry-After: 1\r\n" if status in (418, 429) else "") + "\r\n")
        return head.encode() + body

    def _upgrade(self, connection: socket.socket, request: bytes, target: str,
                 dial: Dial | None) -> None:
        extensions = [ServerPerMessageDeflateFactory()] if self._compress else None
        protocol = ServerProtocol(extensions=extensions, max_size=1 << 20)
        protocol.receive_data(request)
        asked = protocol.events_received()[0]
        assert isinstance(asked, Request)
        client = self.dialect.client(target)
        if dial is Dial.REFUSED or client is None:
            status = 503 if client else 404
            protocol.send_response(protocol.reject(status, "no stream here"))
            return connection.sendall(b"".join(protocol.data_to_send()))
        protocol.send_response(protocol.accept(asked))
        if dial is Dial.CLOSED:
            protocol.send_close(1013, "try again later")
            return connection.sendall(b"".join(protocol.data_to_send()))
        self.log.streams_s.append(time.monotonic())
        with self._lock:
            self.log.live += 1
            self.log.live_max = max(self.log.live_max, self.log.live)
        try:
            connection.sendall(b"".join(protocol.data_to_send()))
            _Stream(self, connection, protocol, client).run()
        finally:
            with self._lock:
                self.log.live -= 1

    # ---- the tape ----------------------------------------------------------------------------

    def due(self, place: int) -> float:
        """Seconds until message `place` is to be played, at most 0 where it is late."""
        now, tape = time.monotonic(), self.dialect.tape
        step_s, self._looked_s = min(now - self._looked_s, _TURN_S), now
        if self.held.is_set() or (self._before is not None and place >= self._before):
            return _TURN_S
        if not self._speed:
            return 0.0
        self._market_s += step_s * self._speed
        due_s = (tape[place].at_ns - tape[0].at_ns) / 1e9
        return (due_s - self._market_s) / self._speed

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    @property
    def ping_s(self) -> float:
        return self._ping_s


class _Stream:
    """One upgraded connection, from its first message to its end."""

    _BATCH_BYTES = 1 << 16

    def __init__(self, venue: Venue, connection: socket.socket, protocol: ServerProtocol,
                 client: Client) -> None:
        self._venue, self._connection, self._protocol = venue, connection, protocol
        self._client = client
        self._quiet_until_s = 0.0
        self._heartbeats = True
        self._texts = self._resumes = 0
        self._spoke_s = self._pinged_s = time.monotonic()
        self._pending = b""
        self._outs: deque[Out] = deque()

    def run(self) -> None:
        venue, tape = self._venue, self._venue.dialect.tape
        place = venue.cursor
        for text in self._client.opened():
            self._frame(text)
        while not venue.stopped:
            waits = place < len(tape) and self._ready
            wait = max(venue.due(place) if waits else _TURN_S, self._quiet_s())
            self._flush()
            if not self._read(min(max(wait, 0.0), _TURN_S)):
                return
            self._keep_alive()
            place = max(place, venue.cursor)
            while (place < len(tape) and len(self._pending) < self._BATCH_BYTES
                   and self._ready and self._quiet_s() <= 0 and venue.due(place) <= 0):
                self._play(tape[place])
                place += 1
                venue.dialect.cursor = max(venue.cursor, place)
                if self._sent():
                    return
            if self._sent():
                return

    @property
    def _ready(self) -> bool:
        return self._client.ready and self._texts >= self._venue.texts_min

    def _quiet_s(self) -> float:
        if self._resumes != self._venue.resumes:
            self._quiet_until_s = 0.0
        return self._quiet_until_s - time.monotonic()

    def _play(self, message: Message) -> None:
        """Queue one message of the tape, or what a fault makes of it."""
        text = self._client.rendered(message)
        if isinstance(text, bytes):
            self._outs.append(text)
        elif text is not None:
            shown = Message(message.at_ns, message.symbol, message.channel, text, message.book,
                            message.snapshot)
            self._outs.extend(self._venue.faults.apply(shown))

    def _sent(self) -> bool:
        """Send what is queued, up to a stall; whether the stream ended."""
        while self._outs and self._quiet_s() <= 0:
            if self._out(self._outs.popleft()):
                return True
        return False

    def _out(self, one: Out) -> bool:
        match one:
            case Stall(seconds, heartbeats):
                self._quiet_until_s = time.monotonic() + seconds
                self._resumes = self._venue.resumes
                self._heartbeats = heartbeats
            case Reset():
                self._flush()
                _reset(self._connection)
                return True
            case Close(code, linger_s):
                self._flush()
                self._protocol.send_close(code, "as asked")
                self._connection.sendall(b"".join(self._protocol.data_to_send()))
                self._venue._silent(self._connection, linger_s or 1.0)
                return True
            case bytes():
                self._pending += one
            case str():
                self._frame(one)
                self._venue.log.sent += 1
        return False

    def _frame(self, text: str) -> None:
        if self._protocol.extensions:
            self._protocol.send_text(text.encode())
            self._pending += b"".join(self._protocol.data_to_send())
        else:
            self._pending += frame(text.encode())
        self._spoke_s = time.monotonic()

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, b""
            self._connection.settimeout(30.0)
            if self._venue.stamps is not None and self._venue.cursor:
                self._venue.stamps[self._venue.cursor - 1] = time.monotonic_ns()
            self._connection.sendall(pending)

    def _keep_alive(self) -> None:
        now = time.monotonic()
        quiet = now < self._quiet_until_s
        if quiet and not self._heartbeats:
            return
        if now - self._pinged_s > self._venue.ping_s:
            self._pinged_s = now
            self._pending += frame(b"%d" % int(now), Opcode.PING)
        if self._venue.dialect.heartbeat and now - self._spoke_s > min(1.0, self._venue.ping_s):
            self._frame(self._venue.dialect.heartbeat)

    def _read(self, wait_s: float) -> bool:
        """Answer what the client said; False when it is gone."""
        pending = isinstance(self._connection, ssl.SSLSocket) and self._connection.pending()
        if not pending and not select.select([self._connection], [], [], wait_s)[0]:
            return True
        self._connection.settimeout(_TURN_S)
        try:
            data = self._connection.recv(1 << 16)
        except TimeoutError:
            return True
        if not data:
            return False
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                continue
            if event.opcode is Opcode.TEXT:
                text = bytes(event.data).decode()
                self._venue.log.texts.append(text)
                self._texts += 1
                for answer in self._client.received(text):
                    self._frame(answer)
            elif event.opcode is Opcode.PONG:
                self._venue.log.pongs += 1
        if time.monotonic() >= self._quiet_until_s or self._heartbeats:
            self._pending += b"".join(self._protocol.data_to_send())
        if self._protocol.close_expected():
            self._flush()
            return False
        return True


def frame(data: bytes, opcode: Opcode = Opcode.TEXT) -> bytes:
    """A whole frame of a server, not compressed."""
    first = bytes([0x80 | opcode])
    if len(data) < 126:
        return first + bytes([len(data)]) + data
    if len(data) < 1 << 16:
        return first + struct.pack("!BH", 126, len(data)) + data
    return first + struct.pack("!BQ", 127, len(data)) + data


def _reset_at_close(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _reset(connection: socket.socket) -> None:
    """End this thread's connection so that the peer sees a reset, and no end of TLS."""
    with contextlib.suppress(OSError):
        _reset_at_close(connection)
        connection.close()
