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
from string import Template
from typing import NamedTuple, Protocol

import msgspec


class Reported(Protocol):
    """What a page says of any result."""

    @property
    def strategy(self) -> str: ...
    @property
    def source_text(self) -> str: ...
    @property
    def source_sha256(self) -> str: ...
    @property
    def data_sha256(self) -> str: ...
    @property
    def version(self) -> str: ...


class Part(NamedTuple):
    """What one kind of page has of its own; texts are not HTML yet, but for `about`."""

    name: str
    """Of its asset, which is the content, and of its script."""
    kind: str
    subtitle: str
    params: str
    about: str
    charts: str
    """What of it the chart library draws."""
    data: object
    """Read by the scripts."""
    sheets: tuple[str, ...] = ()
    """Assets with styles of its own."""


@cache
def asset(name: str) -> str:
    return (resources.files("quantdsl.report") / "assets" / name).read_text(encoding="utf-8")


def page(result: Reported, part: Part, **content: str) -> str:
    """A whole page as text: `content` fills the part's own asset, HTML already."""
    style = "".join(map(asset, ("theme.css", "page.css", *part.sheets)))
    library = asset("lightweight-charts.js")
    script = "".join(map(asset, ("theme.js", "page.js", f"{part.name}.js")))
    return Template(asset("page.html")).substitute(
        policy=policy(style, (library, script)),
        title=escape(f"{result.strategy}: {part.kind} report"),
        strategy=escape(result.strategy),
        subtitle=escape(part.subtitle),
        params=escape(part.params),
        content=Template(asset(f"{part.name}.html")).substitute(content),
        about=part.about,
        source=escape(result.source_text),
        hashes=escape(
            f"strategy sha256 {result.source_sha256} · data sha256 {result.data_sha256} · "
            f"quantdsl {result.version}"
        ),
        charts=part.charts,
        data=json_text(part.data),
        style=style,
        library=library,
        script=script,
    )


def framed(whole: str) -> str:
    """A page inside an element of another page, such as a notebook's output."""
    return f'<iframe srcdoc="{escape(whole)}" width="100%" height="900" frameborder="0"></iframe>'


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
