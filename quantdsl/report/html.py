"""What all pages share: their assets, a policy that lets nothing else in, data that cannot escape.

The content security policy of a page allows exactly the scripts and the style sheet that are
written into it, by their hashes, and nothing else.
"""

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib import resources

import msgspec


@cache
def asset(name: str) -> str:
    return (resources.files("quantdsl.report") / "assets" / name).read_text(encoding="utf-8")


def policy(style: str, scripts: Iterable[str]) -> str:
    """A content security policy that lets in what the page itself holds, by hash."""
    allowed = " ".join(_digest(script) for script in scripts)
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {allowed}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def json_text(data: object) -> str:
    """JSON that cannot end the script element which holds it."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


def pairs(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A titled table of two columns; the cells are HTML already."""
    body = "".join(f"<tr><td>{left}</td><td>{right}</td></tr>" for left, right in rows)
    return f'<div><h3>{escape(title)}</h3><table class="pairs">{body}</table></div>' if body else ""
