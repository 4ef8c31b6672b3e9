"""Requests byte by byte: a client that sends what no well-behaved one would."""

import base64
import json
import socket
from typing import Any

from tests.waiting import WAIT_S


def dial(port: int, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection((host, port), timeout=WAIT_S)


def answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one answer; a body without a length ends with the connection."""
    text = b""
    while b"\r\n\r\n" not in text:
        part = connection.recv(65536)
        if not part:
            return 0, {}, b""
        text += part
    head, _, body = text.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        part = connection.recv(65536)
        if not part:
            break
        body += part
    return int(first.split()[1]), headers, body


def ask(
    port: int, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, dict[str, str], bytes]:
    """One request with exactly these headers (and the length of a body)."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    with dial(port) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return answer(connection)


def upgrade(headers: dict[str, str]) -> dict[str, str]:
    """The headers of a WebSocket's first request."""
    key = base64.b64encode(b"0123456789abcdef").decode()
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
        **headers,
    }


def command(kind: str = "halt", **more: Any) -> bytes:
    return json.dumps({"kind": kind, "id": f"{kind}-1", **more}).encode()
