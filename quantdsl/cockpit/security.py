"""The door of the cockpit: nothing passes without the right Host, the right Origin and the token.

A page in the user's browser can send requests to this machine, and a name that resolves to it makes
them look local. So: the Host is one of ours (no other name works, however it resolves), an Origin,
where there is one, is our own, and where something changes there must be one. There is no cookie
and so nothing that a browser would add by itself: the page sends the token in a header, from the
memory of its tab, and got it from the part of a link behind # that no browser sends anywhere.

Host or Origin wrong: 403. Token wrong or missing: 401. The page itself holds no secret and is open.
"""

import ipaddress
import os
import secrets
import stat
from pathlib import Path

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quantdsl.errors import ConfigError

TOKEN_FILE = "cockpit.token"  # noqa: S105  its name
TOKEN_BYTES = 32
PROTOCOL = "quantdsl.cockpit"
TOKEN_PROTOCOL = "token."  # noqa: S105  what stands before it among the protocols of a WebSocket

HEADERS = {
    "content-security-policy": "default-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def token_of(folder: Path) -> str:
    """The token kept in `folder`, 256 random bits; made, for its owner alone, where there is none.

    Raises ConfigError where the file is another's or where others may read it.
    """
    path = folder / TOKEN_FILE
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _kept(path)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token + "\n")
    return token


def _kept(path: Path) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as reason:
        raise ConfigError(
            f"the cockpit's token in {path} cannot be read: {reason.strerror}\n"
            "help: delete the file; a new one is made"
        ) from reason
    with os.fdopen(handle, encoding="ascii", errors="replace") as file:
        kept = os.fstat(handle)
        token = file.read(100).strip()
    private = kept.st_uid == os.getuid() and not stat.S_IMODE(kept.st_mode) & 0o077
    if private and len(token) >= len(secrets.token_urlsafe(TOKEN_BYTES)):
        return token
    wrong = "is not a token" if private else "may have been read by others"
    raise ConfigError(
        f"the cockpit's token in {path} {wrong}\nhelp: delete the file; a new one is made"
    )


class Address(Struct, frozen=True):
    """Where the cockpit is reached."""

    host: str
    port: int
    tls: bool = False

    @property
    def url(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{name}:{self.port}"

    def is_ours(self, host: str) -> bool:
        """Whether a Host header means us: by a local name, or by the address that we listen on."""
        usual = 443 if self.tls else 80  # a browser leaves this one out
        if self.port == usual and host.rpartition(":")[2] != str(usual):
            host = f"{host}:{usual}"
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        if name in ("127.0.0.1", "localhost", "[::1]") or name == self.host:
            return True
        return self.tls and self.host in ("0.0.0.0", "::") and _is_address(name)  # noqa: S104


def _is_address(name: str) -> bool:
    """Only names can be made to resolve to another's address; an address is what it is."""
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class Guard:
    """Answers what may not pass itself; gives every other answer its headers."""

    def __init__(self, app: ASGIApp, token: str, address: Address, public: frozenset[str]) -> None:
        self.app, self.address, self.public = app, address, public
        self.token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self.refusal(scope, Headers(scope=scope))
        app = PlainTextResponse(refusal[1] + "\n", refusal[0]) if refusal else self.app
        await app(scope, receive, with_headers)

    def refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Status and reason; None: it may pass."""
        doubled = [name for name in ("host", "origin") if len(headers.getlist(name)) > 1]
        host, origin = headers.get("host", ""), headers.get("origin")
        if doubled or not self.address.is_ours(host):
            return 403, "this Host is not served here"
        socket = scope["type"] == "websocket"
        if not socket and scope["method"] not in ("GET", "HEAD", "POST"):
            return 403, "only GET and POST are answered"
        changes = socket or scope["method"] == "POST"
        scheme = self.address.url.partition("://")[0]
        if origin != f"{scheme}://{host}" and (changes or origin is not None):
            return 403, "this Origin may not ask"
        if not changes and scope["path"] in self.public:
            return None
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "another site may not ask"
        if scope["type"] == "http" and changes and not _is_json(headers):
            return 403, "only application/json is read"
        return None if self.knows(socket, headers) else (401, "the token is missing or wrong")

    def knows(self, socket: bool, headers: Headers) -> bool:
        """Whether the right token was sent, compared in constant time."""
        if socket:
            offered = headers.get("sec-websocket-protocol", "").split(",")
            marked = [name.strip() for name in offered if TOKEN_PROTOCOL in name]
            sent = marked[0].removeprefix(TOKEN_PROTOCOL) if len(marked) == 1 else ""
        else:
            scheme, _, sent = headers.get("authorization", "").partition(" ")
            sent = sent if scheme.lower() == "bearer" else ""
        return secrets.compare_digest(sent.encode("latin-1"), self.token)


def _is_json(headers: Headers) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip() == "application/json"
