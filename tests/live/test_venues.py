"""A session goes on while its venue is away: it waits, says so, and trades when it is there."""

import http.client
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from quantdsl.errors import ConfigError, FeedError, RefusedError, UnreachableError
from quantdsl.live import rest, venues
from quantdsl.live.connection import Backoff
from quantdsl.live.creation import Wish, create
from quantdsl.live.feed import FeedSpec, Health, open_feed
from quantdsl.live.venues import Venues
from tests.live.test_session import ended_when, finished, outputs_of, paper
from tests.live.test_session_binance import STRATEGY, config, ordered
from tests.venues import binance, coinbase, kraken, okx
from tests.venues.server import Venue
from tests.waiting import until


@contextmanager
def session_of(tmp_path):
    """A session whose venue is away, and its venue."""
    strategy, folder = tmp_path / "maker.qdsl", tmp_path / "session"
    strategy.write_text(STRATEGY, encoding="utf-8")
    with Venue(binance.made_up(steps=100_000), speed=1.0) as venue:
        path = config(tmp_path, venue)
        told = f'[alerts]\ncommand = ["tee", "-a", "{tmp_path / "alerts"}"]\n'
        path.write_text(path.read_text("utf-8") + told, encoding="utf-8")
        create(folder, [Wish(strategy, {})], config=path, said={})
        venue.refuse()
        yield folder, venue


def told(tmp_path) -> bool:
    return (tmp_path / "alerts").exists() and "is down" in (tmp_path / "alerts").read_text("utf-8")


@pytest.mark.slow
def test_a_session_waits_for_its_venue_and_goes_on(tmp_path):
    with session_of(tmp_path) as (folder, venue):
        process = paper(folder)
        until(lambda: process.poll() is not None or told(tmp_path))
        assert process.poll() is None, process.communicate()[0]
        venue.listen()
        said = ended_when(process, lambda: ordered(folder) > 50)
    assert process.returncode == 0, said
    assert "the feed is down: " in said, said
    assert "cannot be asked: [Errno 111]" in said, said
    assert said.index("the feed is down") < said.index("the feed is live again"), said
    assert "the engine is lost" not in said, said
    assert len(outputs_of(folder, "Maker"))


def test_a_session_that_waits_for_its_venue_ends_by_ctrl_c(tmp_path):
    with session_of(tmp_path) as (folder, _):
        said = ended_when(process := paper(folder), lambda: told(tmp_path))
    assert process.returncode == 0, said
    assert said.count("the feed is down") == 1, said
    assert "ended: stopped by Ctrl-C" in said, said


def test_time_goes_by_while_a_session_waits_for_its_venue(tmp_path):
    with session_of(tmp_path) as (folder, _):
        said = finished(process := paper(folder, "--for", 1))
    assert process.returncode == 0, said
    assert "the feed is down: " in said, said
    assert "ended: stopped by --for 1" in said, said


BREAKS = [
    ("binance", b'"TRADING"', b'"BREAK"', UnreachableError),
    ("binance", b'"TRADING"', b'"DELISTED"', FeedError),
    ("okx", b'"live"', b'"suspend"', UnreachableError),
    ("okx", b'"live"', b'"expired"', FeedError),
    ("kraken", b'"online"', b'"cancel_only"', UnreachableError),
    ("coinbase", b'"online"', b'"offline"', UnreachableError),
    ("coinbase", b'"online"', b'"delisted"', FeedError),
]


@pytest.mark.parametrize(("name", "trades", "said", "kind"), BREAKS)
def test_a_symbol_in_a_break_may_be_asked_for_again_and_one_that_is_gone_not(
    name, trades, said, kind
):
    dialect = {"binance": binance, "okx": okx, "kraken": kraken, "coinbase": coinbase}[name]
    made = dialect.made_up(steps=10)
    symbol = "BTCUSDT" if name == "binance" else made.tape[0].symbol
    answer = made.rest
    made.rest = lambda path, query: (200, answer(path, query)[1].replace(trades, said))
    with Venue(made) as venue:
        spec = FeedSpec(feed=name, symbols=(symbol,), ticks=frozenset({"trades"}),
                        rest_url=venue.rest_url, ca_file=venue.ca_file)
        with pytest.raises(FeedError, match=f"trade.*{symbol}|{symbol}.*trade") as refused:
            open_feed(spec).instruments()
    assert type(refused.value) is kind


def one_of(answers: list[object]) -> SimpleNamespace:
    """A feed that answers so, one after the other."""

    def instruments():
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return SimpleNamespace(name="one", health=Health(name="one"), instruments=instruments)


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(Backoff, "FIRST_S", 0.001)
    monkeypatch.setattr(venues, "LOOK_S", 0.001)


@pytest.mark.parametrize("refusal", [FeedError("no such symbol"), ConfigError("another tick")])
def test_a_venue_that_refuses_is_not_waited_for(hurried, monkeypatch, refusal):
    monkeypatch.setattr(venues, "hold_terms", lambda *_: None)
    with pytest.raises(type(refusal), match=str(refusal)):
        Venues(None, None, [one_of([refusal])])
    feed = one_of([UnreachableError("away"), UnreachableError("still away"), refusal])
    asked = Venues(None, None, [feed])
    assert (asked.away, feed.health.state, feed.health.reason) == ({0}, "waiting", "away")
    with pytest.raises(type(refusal), match=str(refusal)):
        asked.wait(threading.Event(), lambda: None)


def test_terms_are_held_once_all_venues_have_answered(hurried, monkeypatch):
    held: list[object] = []
    monkeypatch.setattr(venues, "hold_terms", lambda *words: held.append(words[2]))
    asked = Venues(None, None, [one_of([UnreachableError("away"), ["A"]]), one_of([["B", "C"]])])
    assert not held
    asked.wait(threading.Event(), lambda: None)
    assert (held, asked.away) == ([["A", "B", "C"]], set())


@pytest.mark.parametrize(
    ("status", "kind"),
    [(302, FeedError), (400, RefusedError), (404, RefusedError), (418, UnreachableError),
     (429, UnreachableError), (500, UnreachableError), (503, UnreachableError)],
)  # fmt: skip
def test_what_a_venue_answers_when_it_cannot_now_may_be_asked_again(monkeypatch, status, kind):
    answer = SimpleNamespace(status=status, headers={}, read1=lambda _: b"", length=0)
    monkeypatch.setattr(http.client.HTTPConnection, "request", lambda *_, **__: None)
    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", lambda _: answer)
    with pytest.raises(FeedError, match=f"HTTP {status}") as refused:
        rest.get("http://venue.example/time")
    assert type(refused.value) is kind
