"""The cockpit as a thread of the supervisor's process: sockets, the server, the link to the page.

What goes wrong here stays here: the engine is another process, and a thread that serves pages holds
no lock but the history's, for microseconds.
"""

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from weakref import WeakValueDictionary

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from quantdsl.cockpit.app import BODY_BYTES_MAX, PAGE, Answers
from quantdsl.cockpit.history import History
from quantdsl.cockpit.security import Address, Guard, token_of
from quantdsl.config import CockpitConfig
from quantdsl.errors import ConfigError
from quantdsl.live.view import Command

IDLE_MAX = 64
"""Connections that have not asked for the stream yet; one more and the oldest is ended."""
IDLE_S_MAX = 10.0
PORTS_TRIED = 10
CLOSE_S_MAX = 3.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Cockpit:
    """The page of one session, from `start` to `close`.

    `send` is called by a thread of the cockpit's and may block for seconds. Raises ConfigError
    where the settings would open the door to others, or where nothing can be bound.
    """

    def __init__(
        self,
        history: History,
        send: Callable[[Command], None],
        folder: Path,
        settings: CockpitConfig,
    ) -> None:
        self.history = history
        context = _tls(settings)
        self._sockets = _bound(settings)
        host = "127.0.0.1" if settings.host in LOOPBACK else settings.host
        port = self._sockets[0].getsockname()[1]
        self.address = Address(host, port, context is not None)
        try:
            token = token_of(folder)
        except ConfigError:
            self._release()
            raise
        self.link = f"{self.address.url}/#{token}"
        """Opens the page; it holds the token, so it belongs on a terminal and in no log."""
        self._idle: dict[tuple[str, int] | None, asyncio.Transport] = {}
        self._open: WeakValueDictionary[object, asyncio.Transport] = WeakValueDictionary()
        answers = Answers(history, send, self._cut)
        guarded = Guard(answers.app(), token, self.address, frozenset(PAGE))
        self._complaints = _ToHistory(history)
        self._server = uvicorn.Server(_settings(guarded, self._protocol(), context))
        self._thread = threading.Thread(target=self._serve, name="cockpit", daemon=True)

    def start(self) -> None:
        """Serves from now on, on a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Ends all connections and gives the port back; may be called twice."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S_MAX)
        self._release()

    def _release(self) -> None:
        for bound in self._sockets:
            bound.close()

    def _serve(self) -> None:
        log = logging.getLogger("uvicorn.error")
        log.propagate = False
        log.addHandler(self._complaints)
        try:
            self._server.run(sockets=self._sockets)
        except Exception as reason:  # whatever it is: the session goes on, and its log says so
            self.history.say("error", "cockpit", f"the page is no longer served: {reason!r}")
        finally:
            log.removeHandler(self._complaints)

    def _cut(self, client: tuple[str, int]) -> None:
        transport = self._open.pop(client, None)
        if transport is not None:
            transport.abort()

    def _protocol(self) -> type[H11Protocol]:
        """HTTP that ends connections which ask for nothing: there are few of them, for seconds."""
        idle, opened = self._idle, self._open

        class Bounded(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                idle[self.client] = opened[self.client] = transport
                self.loop.call_later(IDLE_S_MAX, self.expire)
                if len(idle) > IDLE_MAX:
                    idle[next(iter(idle))].abort()
                    del idle[next(iter(idle))]

            def expire(self) -> None:
                if self.scope is None:  # nothing was asked yet
                    self.transport.abort()

            def connection_lost(self, exc: Exception | None) -> None:
                idle.pop(self.client, None)
                super().connection_lost(exc)

            def handle_websocket_upgrade(self, event: object) -> None:
                idle.pop(self.client, None)
                super().handle_websocket_upgrade(event)  # type: ignore[arg-type]

        return Bounded


class _ToHistory(logging.Handler):
    """The server's complaints, as lines of the session's log."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.WARNING)
        self.history = history

    def emit(self, record: logging.LogRecord) -> None:
        self.history.say("warning", "cockpit", record.getMessage())


def _settings(
    app: Guard, protocol: type[H11Protocol], context: ssl.SSLContext | None
) -> uvicorn.Config:
    options = {"ssl_context_factory": lambda *_: context} if context else {}
    return uvicorn.Config(
        app,
        http=protocol,
        ws="websockets-sansio",
        ws_max_size=BODY_BYTES_MAX,
        ws_per_message_deflate=False,
        h11_max_incomplete_event_size=BODY_BYTES_MAX,
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=1,
        **options,  # type: ignore[arg-type]
    )


def hold_door(settings: CockpitConfig) -> None:
    """ConfigError where no page could be served with these settings, before a session begins."""
    _tls(settings)


def _tls(settings: CockpitConfig) -> ssl.SSLContext | None:
    """That of the settings; None where there is none and others cannot reach the door anyway."""
    encrypted, local = settings.certificate and settings.key, settings.host in LOOPBACK
    if local and bool(settings.certificate) != bool(settings.key):
        raise ConfigError(
            "cockpit.certificate and cockpit.key belong together, and one of them is not set\n"
            "help: set both, or neither"
        )
    if local and not encrypted:
        return None
    if not local and not (settings.exposed and encrypted):
        raise ConfigError(
            f"cockpit.host {settings.host} is reached from other machines\n"
            "help: leave it at 127.0.0.1, or set cockpit.exposed = true, cockpit.certificate and "
            "cockpit.key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError) as reason:
        raise ConfigError(
            f"cockpit.certificate {settings.certificate} with cockpit.key {settings.key} cannot be "
            f"used: {reason}"
        ) from reason
    return context


def _bound(settings: CockpitConfig) -> list[socket.socket]:
    """Listening sockets on one port, the next free one: on loopback of both families."""
    local = settings.host in LOOPBACK
    hosts = ["127.0.0.1", "::1"] if local else [settings.host]
    last = min(settings.port + PORTS_TRIED, 1 << 16) if settings.port else 1
    taken: OSError | None = None
    for port in range(settings.port, last):
        try:
            return _listening(hosts, port)
        except OSError as reason:
            taken = reason
            if reason.errno != errno.EADDRINUSE:
                break
    raise ConfigError(
        f"the cockpit cannot listen on {settings.host}, port {settings.port}: {taken}\n"
        "help: set cockpit.port to a free one, or to 0 for any"
    ) from taken


def _listening(hosts: list[str], port: int) -> list[socket.socket]:
    """One socket a host, all on one port; a machine without IPv6 has one."""
    found: list[socket.socket] = []
    try:
        for host in hosts:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            try:
                bound = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                continue
            found.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                bound.bind((host, port))
                bound.listen(IDLE_MAX)  # who comes before the thread runs waits a little
            except OSError as reason:
                if reason.errno == errno.EADDRINUSE or len(found) == 1:
                    raise
                found.pop().close()
            port = found[0].getsockname()[1]
    except OSError:
        for bound in found:
            bound.close()
        raise
    return found
