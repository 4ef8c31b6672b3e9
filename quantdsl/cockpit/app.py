"""What the cockpit answers: its page, a stream of news, commands, metrics."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from quantdsl.cockpit.history import Cursor, History, News
from quantdsl.cockpit.metrics import CONTENT_TYPE, exposition
from quantdsl.cockpit.security import PROTOCOL
from quantdsl.errors import QuantDSLError
from quantdsl.live.view import BarRow, BookView, Command, FillRow, LogLine, Snapshot

CLIENTS_MAX = 16
BODY_BYTES_MAX = 64 * 1024
BODY_S_MAX = SEND_S_MAX = COMMAND_S_MAX = 5.0
"""Time for a request's body, for a reader to take a frame, for the session to take a command."""
FRAME_S = 0.1
REPEAT_S = 1.0
"""A page whose session is silent is told so this often."""
COMMANDS_KEPT = 1_000

MEDIA = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
PAGE = {
    "/": ("cockpit", "cockpit.html"),
    "/cockpit.css": ("cockpit", "cockpit.css"),
    "/cockpit.js": ("cockpit", "cockpit.js"),
    "/tables.js": ("cockpit", "tables.js"),
    "/pictures.js": ("cockpit", "pictures.js"),
    "/words.js": ("cockpit", "words.js"),
    "/icon.svg": ("cockpit", "icon.svg"),
    "/theme.css": ("report", "theme.css"),
    "/theme.js": ("report", "theme.js"),
    "/lightweight-charts.js": ("report", "lightweight-charts.js"),
}
"""Path -> package and asset; the same for everyone, so nothing of a session is in them."""


class Ordered(Struct, frozen=True, forbid_unknown_fields=True):
    """A command as the page sends it."""

    kind: Literal["halt", "reduce", "cancel_all", "flatten", "rearm"]
    id: str
    """Of the page's making: sent twice, it is obeyed once."""
    strategy: str = ""


class Wish(Struct, frozen=True, forbid_unknown_fields=True):
    """What the page wants to see from now on."""

    symbol: str


class Frame(Struct, frozen=True):
    """One message to the page: the session as it is, and the rows that the page lacks."""

    session: msgspec.Raw
    age_s: float
    symbol: str
    bars_whole: bool
    points_whole: bool
    rows_whole: bool
    book: BookView | None
    bars: list[BarRow]
    fills: list[FillRow]
    log: list[LogLine]
    points: list[tuple[float, float, float]]
    """Seconds, money, share lost."""


@cache
def asset(package: str, name: str) -> bytes:
    return (resources.files(f"quantdsl.{package}") / "assets" / name).read_bytes()


class Answers:
    """The answers of one cockpit; `cut` ends the connection of a client at once."""

    def __init__(
        self,
        history: History,
        send: Callable[[Command], None],
        cut: Callable[[tuple[str, int]], None],
    ) -> None:
        self.history, self.send, self.cut = history, send, cut
        self.clients = 0
        self.obeyed: OrderedDict[str, None] = OrderedDict()
        self._encoded: tuple[Snapshot | None, msgspec.Raw] = None, msgspec.Raw(b"null")

    def app(self) -> Starlette:
        """The routes."""
        page = [Route(path, self.page) for path in PAGE]
        return Starlette(
            routes=[
                *page,
                Route("/command", self.command, methods=["POST"]),
                Route("/metrics", self.metrics),
                WebSocketRoute("/live", self.live),
            ]
        )

    async def page(self, request: Request) -> Response:
        package, name = PAGE[request.url.path]
        return Response(asset(package, name), media_type=MEDIA[name.rpartition(".")[2]])

    async def metrics(self, _: Request) -> Response:
        return Response(exposition(self.history, self.clients), media_type=CONTENT_TYPE)

    # ---- commands ----

    async def command(self, request: Request) -> Response:
        """Hands one command to the session; what came of it, the log says."""
        try:
            text = await asyncio.wait_for(_body(request), BODY_S_MAX)
            ordered = msgspec.json.decode(text, type=Ordered)
        except (msgspec.DecodeError, ClientDisconnect, TimeoutError) as reason:
            return PlainTextResponse(f"this is no command: {reason}\n", 422)
        except _TooLargeError:
            return PlainTextResponse(f"a command has at most {BODY_BYTES_MAX} bytes\n", 413)
        snapshot, _ = self.history.snapshot()
        names = {strategy.name for strategy in snapshot.strategies} if snapshot else set()
        if ordered.strategy and ordered.strategy not in names:
            return PlainTextResponse("there is no strategy of that name\n", 422)
        if ordered.id in self.obeyed:
            return JSONResponse({"id": ordered.id, "repeated": True})
        self.obeyed[ordered.id] = None
        while len(self.obeyed) > COMMANDS_KEPT:
            self.obeyed.popitem(last=False)
        command = Command(ordered.kind, ordered.strategy, "cockpit", ordered.id)
        try:
            await asyncio.wait_for(asyncio.to_thread(self.send, command), COMMAND_S_MAX)
        except (OSError, QuantDSLError, TimeoutError) as reason:
            self.history.say("error", "cockpit", f"{ordered.kind} did not reach the session")
            return PlainTextResponse(f"the session did not take it: {reason}\n", 503)
        return JSONResponse({"id": ordered.id, "repeated": False}, 202)

    # ---- news ----

    async def live(self, socket: WebSocket) -> None:
        """Streams frames until the page goes, or does not read what it is sent."""
        if self.clients >= CLIENTS_MAX:
            full = PlainTextResponse(f"{CLIENTS_MAX} pages are open already\n", 503)
            await socket.send_denial_response(full)
            return
        self.clients += 1
        try:
            await socket.accept(PROTOCOL)
            reader = Reader(socket)
            tasks = [asyncio.ensure_future(work) for work in (reader.run(), self.feed(reader))]
            _, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in left:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self.clients -= 1
            if socket.client is not None:
                self.cut((socket.client.host, socket.client.port))

    async def feed(self, reader: "Reader") -> None:
        """A frame every tenth of a second that has news; a slow page gets fewer, never a queue."""
        cursor, shown, sent_s = Cursor(), None, 0.0
        while True:
            if reader.symbol not in ("", cursor.symbol):
                cursor = msgspec.structs.replace(cursor, symbol=reader.symbol, bars=0)
            news = self.history.news(cursor)
            now_s = time.monotonic()
            if news.cursor != cursor or news.snapshot is not shown or now_s - sent_s > REPEAT_S:
                frame = msgspec.json.encode(self.frame(news)).decode()
                await asyncio.wait_for(reader.socket.send_text(frame), SEND_S_MAX)
                cursor, shown, sent_s = news.cursor, news.snapshot, now_s
            await asyncio.sleep(FRAME_S)

    def frame(self, news: News) -> Frame:
        """As one message; the session's own part is encoded once for all pages."""
        if self._encoded[0] is not news.snapshot:
            self._encoded = news.snapshot, msgspec.Raw(msgspec.json.encode(news.snapshot))
        points = [(point.ts / 1e9, point.equity, point.drawdown) for point in news.points]
        return Frame(
            self._encoded[1], news.age_s, news.cursor.symbol, news.bars_whole, news.points_whole,
            news.rows_whole, news.book, news.bars, news.fills, news.log, points,
        )  # fmt: skip


class Reader:
    """What one page asks for."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.symbol = ""

    async def run(self) -> None:
        """Reads until the page goes or says what makes no sense."""
        while True:
            message = await self.socket.receive()
            text = message.get("text")
            if text is None:
                return
            try:
                self.symbol = msgspec.json.decode(text, type=Wish).symbol
            except msgspec.DecodeError:
                return


async def _body(request: Request) -> bytes:
    """The body; raises _TooLargeError as soon as it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise _TooLargeError
    return body


class _TooLargeError(Exception):
    pass
