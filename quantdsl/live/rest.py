"""One question to a venue over HTTP: bounded in time and size, its times stamped."""

import http.client
import socket
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from quantdsl.errors import FeedError, RefusedError, UnreachableError
from quantdsl.live.connection import trusted
from quantdsl.live.feed import now_ns

ANSWER_S_MAX = 10.0
ANSWER_BYTES_MAX = 32 << 20
_SAID_MAX = 200
_PART_BYTES = 1 << 16


class VenueClock(NamedTuple):
    """A venue's clock less ours, and how far that may be wrong."""

    offset_ns: int
    error_ns: int


class Answer(NamedTuple):
    """What the venue said, and when it was asked and had answered."""

    body: bytes
    sent_ns: int
    recv_ns: int

    def clock(self, theirs_ns: int, error_ns: int) -> VenueClock:
        """The clock that showed `theirs_ns`, give or take, halfway between question and answer."""
        halfway_ns = (self.recv_ns - self.sent_ns) // 2
        return VenueClock(theirs_ns - self.sent_ns - halfway_ns, halfway_ns + error_ns)


def get(
    url: str,
    query: Mapping[str, str | int] | None = None,
    *,
    ca_file: str = "",
) -> Answer:
    """The answer to a GET that succeeds; FeedError says what the venue said instead.

    It is an UnreachableError where there is no answer, or one (429, 418, 5xx) that says no more
    than that there is none now; where the venue asks to be left alone it says for how long. Of
    what is wrong in the question (another 4xx) it is a RefusedError.
    """
    parts = urlsplit(url)
    deadline = time.monotonic() + ANSWER_S_MAX
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            host, parts.port, timeout=ANSWER_S_MAX, context=trusted(ca_file)
        )
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=ANSWER_S_MAX)
    path = parts.path + (f"?{urlencode(query)}" if query else "")
    try:
        sent_ns = now_ns()
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        recv_ns = now_ns()
        body = _body(response, connection.sock, deadline)
    except (OSError, http.client.HTTPException) as error:
        what = "no answer in time" if isinstance(error, TimeoutError) else str(error)
        raise UnreachableError(f"{url}: cannot be asked: {what or type(error).__name__}") from None
    finally:
        connection.close()
    if response.status != http.client.OK:
        said = body[:_SAID_MAX].decode("utf-8", "replace").strip()
        wait = response.headers.get("Retry-After", "")
        busy = response.status in (418, 429)
        retry_s = float(wait) if wait.isdigit() else 60.0 * busy
        kind = FeedError
        if busy or response.status >= http.client.INTERNAL_SERVER_ERROR:
            kind = UnreachableError
        elif response.status >= http.client.BAD_REQUEST:
            kind = RefusedError
        raise kind(f"{url}: HTTP {response.status}: {said}", retry_s)
    return Answer(body, sent_ns, recv_ns)


def _body(
    response: http.client.HTTPResponse, open_socket: socket.socket | None, deadline: float
) -> bytes:
    """All of the answer; one that drips is given up at the deadline."""
    parts, size = [], 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if open_socket is not None:
            open_socket.settimeout(left)
        part = response.read1(_PART_BYTES)
        if not part:
            break
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise http.client.HTTPException(f"more than {ANSWER_BYTES_MAX >> 20} MB came")
        parts.append(part)
    if response.length:
        raise http.client.HTTPException("the answer was cut off")
    return b"".join(parts)
