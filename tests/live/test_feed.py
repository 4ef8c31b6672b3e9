"""Which feed a name means."""

import ast
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec
from pathlib import Path

import pytest

from quantdsl.errors import FeedError
from quantdsl.live import feed
from quantdsl.live.feed import FeedSpec, open_feed


def own(spec: FeedSpec) -> tuple[str, FeedSpec]:
    """The factory of a feed of a user's own."""
    return "own", spec


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    points = [EntryPoint(name, f"{__name__}:own", feed.GROUP) for name in names]
    monkeypatch.setattr(feed, "entry_points", lambda group: EntryPoints(points).select(group=group))
    monkeypatch.setattr(EntryPoint, "load", lambda _: own)


def test_a_package_registers_a_feed_by_an_entry_point(monkeypatch):
    installed(monkeypatch, "mine")
    spec = FeedSpec(feed="mine", symbols=("X",))
    assert open_feed(spec) == ("own", spec)


@pytest.mark.parametrize("name", feed.SHIPPED)
def test_every_shipped_feed_is_there(name):
    """In its text: to import it would compile its decoders."""
    module, _, factory = feed.SHIPPED[name].partition(":")
    text = Path(find_spec(module).origin).read_text(encoding="utf-8")
    assert factory in {one.name for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)}


def test_no_package_takes_a_shipped_name(monkeypatch):
    installed(monkeypatch, "binance")
    monkeypatch.setattr(feed, "SHIPPED", {"binance": "quantdsl.live.feed:Health"})
    with pytest.raises(TypeError, match="positional"):  # the shipped place was called
        open_feed(FeedSpec(feed="binance", symbols=("X",)))


def test_an_unknown_feed_is_told_with_the_nearest_name(monkeypatch):
    installed(monkeypatch, "mine")
    with pytest.raises(FeedError, match=r"no feed 'binanse'; did you mean 'binance'\?.*mine"):
        open_feed(FeedSpec(feed="binanse", symbols=("X",)))
