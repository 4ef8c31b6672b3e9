"""A session on a venue beside recordings of it: whatever was not told alike is the cause named.

One session is run, whose sink keeps for each thing that it does to the stream what the venue really
said; a recording is what the session saw with one of those things undone.
"""

import re
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from quantdsl.cli import run
from quantdsl.events.layout import Command, KilledBy, Kind
from quantdsl.live.comparison import Beside, against_data
from quantdsl.live.creation import Wish, create
from quantdsl.live.feed import open_feed
from quantdsl.live.machine import usable
from quantdsl.live.record import Files
from quantdsl.live.sequencer import Sequencer
from quantdsl.live.strategy import LiveStrategy
from tests.live.test_session_binance import config
from tests.venues import binance
from tests.venues.server import Venue
from tests.waiting import WAIT_S

STEPS = 900
"""Of ten milliseconds each."""
MISSED, LATE, CHANGED, HALTED = range(100, 140), range(250, 400), range(500, 520), 700
"""Which quotes the session does not get, gets later, gets with another price; when it is halted."""
LATE_NS = 1_000_000_000
"""More than the quotes' own times of receipt move on a busy machine."""
YEARS_NS = 90_000_000_000_000_000
STRATEGY = """language 1

strategy Maker:
    "Quotes both sides of the touch, as much as it has money for."

    quotes

    let slow = ts.ewm_mean(mid, halflife = 1s)

    on quote:
        let amount = floor_qty(1% of equity / slow)
        quote(bid = bid, bid_qty = amount, ask = ask, ask_qty = amount)
"""


class Planted:
    """Between a feed and its session: does to the stream what a bad connection would."""

    def __init__(self, session: Sequencer) -> None:
        self.session, self.quotes = session, 0
        self.told: list[np.ndarray] = []
        """What the session was told."""
        self.undone: dict[str, list[np.ndarray]] = {"missed data": [], "latency": [], "price": []}
        """The same but for one thing: what the venue said."""

    def push(self, events: np.ndarray) -> None:
        for at, event in enumerate(events):
            self._one(events[at : at + 1].copy(), quote=event["kind"] == Kind.QUOTE)

    def _one(self, event: np.ndarray, *, quote: bool) -> None:
        number = self.quotes if quote else -1
        self.quotes += quote
        own, but = event.copy(), {}
        if number in MISSED:
            own, but = event[:0], {"missed data": event}
        elif number in LATE:
            but = {"latency": event}
            own["ts_recv"] += LATE_NS
        elif number in CHANGED:
            but = {"price": event}
            own["payload"][0, :2] += 300
        last = int(self.told[-1]["ts_recv"][-1]) if self.told else 0
        own["ts_recv"] = np.maximum(own["ts_recv"], last)
        if len(own):
            self.told.append(own)
            self.session.push(own)
        for cause, kept in self.undone.items():
            found = but.get(cause, own)
            if len(found):
                kept.append(found.copy())


class Recorded(NamedTuple):
    """A session, and what recordings of it are made of."""

    folder: Path
    planted: Planted
    feed: str
    instruments: list

    def file(self, folder: Path, events: list[np.ndarray]) -> Path:
        """A recording of these events."""
        files = Files(folder, self.feed, self.instruments, 1e9)
        whole = np.concatenate(events)
        whole["ts_recv"] = np.maximum.accumulate(whole["ts_recv"])
        files.write(whole)
        files.close()
        return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    strategy, session = folder / "maker.qdsl", folder / "session"
    strategy.write_text(STRATEGY, encoding="utf-8")
    tape = binance.made_up(steps=STEPS, futures=True)
    with Venue(tape, speed=1.0) as venue:
        place = config(folder, venue)
        text = place.read_text(encoding="utf-8")
        place.write_text(text.replace('"binance"', '"binance_futures"'), encoding="utf-8")
        manifest = create(session, [Wish(strategy, {})], config=place, said={})
        one = LiveStrategy(session, manifest, manifest.strategies[0])
        feed, stop = open_feed(manifest.feeds[0]), threading.Event()
        sequencer = Sequencer([one.lane])
        instruments = feed.instruments()
        planted = Planted(sequencer)
        one.start(max(usable()), pytest.fail)
        thread = threading.Thread(target=feed.run, args=(planted, stop))
        thread.start()
        end, halted = time.monotonic() + WAIT_S, False
        while planted.quotes < STEPS - 20:
            assert time.monotonic() < end, planted.quotes
            if planted.quotes >= HALTED and not halted:
                halted = True
                now = int(planted.told[-1]["ts_recv"][-1])
                sequencer.command([one.lane], Command.KILL, KilledBy.PERSON, now)
            one.drain()
            time.sleep(0.001)
        stop.set()
        thread.join()
        one.stop()
        assert one.look() == ""
    return Recorded(session, planted, feed.name, instruments)


def beside(recorded: Recorded, folder: Path, events: list[np.ndarray]) -> Beside:
    return against_data(recorded.folder, "Maker", recorded.file(folder, events))


def causes(found: Beside, halted_ns: int) -> Counter:
    """Of all differences before the session was halted."""
    return Counter(one.cause for one in found.compared.differences if one.ts < halted_ns)


def halted_ns(recorded: Recorded) -> int:
    quotes = np.concatenate(recorded.planted.told)
    return int(quotes[quotes["kind"] == Kind.QUOTE]["ts_recv"][HALTED - len(MISSED) - 1])


def test_until_it_is_halted_a_session_is_its_recording(recorded, tmp_path):
    found = beside(recorded, tmp_path / "rec", recorded.planted.told)
    assert found.clock_shift_ns == 0
    assert not causes(found, halted_ns(recorded))
    assert found.compared.same[Kind.ORDER] > 50
    assert found.compared.same[Kind.FILL] > 5
    differences = found.compared.differences
    assert {one.cause for one in differences} == {"risk"}
    halts = {"a command had halted the session", "the session refused it: killed"}
    assert {one.why for one in differences} <= halts
    assert all(one.session is None for one in differences)


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        ("missed data", "a quote of .* is not in the session"),
        ("latency", r"a quote of .* was received [\d,]+ ns later in the session"),
        ("price", "a quote of .* has other prices or sizes"),
    ],
)
def test_what_was_done_to_the_stream_is_the_cause(recorded, tmp_path, cause, why):
    found = beside(recorded, tmp_path / "rec", recorded.planted.undone[cause])
    before = halted_ns(recorded)
    seen = causes(found, before)
    assert set(seen) <= {cause, "queue"}
    assert seen[cause] > 0
    assert found.compared.same[Kind.ORDER] > 20
    first = next(one.why for one in found.compared.differences if one.cause == cause)
    assert re.match(why, first)


def test_a_recording_of_another_clock_is_told_by_the_sessions(recorded, tmp_path, capsys):
    """A venue that plays a tape of years ago, and the tape."""
    events = [one.copy() for one in recorded.planted.undone["price"]]
    for one in events:
        one["ts_event"] -= YEARS_NS
        one["ts_recv"] -= YEARS_NS
    path = recorded.file(tmp_path / "rec", events)
    found = against_data(recorded.folder, "Maker", path)
    assert found.clock_shift_ns == YEARS_NS
    assert set(causes(found, halted_ns(recorded))) == {"price"}
    assert run(["compare", str(recorded.folder), "--data", str(path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert f"the session's clock is {YEARS_NS:,} ns ahead of the recorder's" in said[0]
    assert "orders the same" in said[1]
    assert "fills the same" in said[2]
    assert len(said) == 3 + min(len(found.compared.differences), 20) + 1
    assert said[-1].endswith("more; --all shows them")
    assert run(["compare", str(recorded.folder), "--data", str(path), "--all"]) == 0
    whole = capsys.readouterr().out.splitlines()
    assert len(whole) == 3 + len(found.compared.differences)


def test_a_recording_of_something_else_is_told(recorded, tmp_path, capsys):
    events = [one.copy() for one in recorded.planted.told]
    for one in events:
        one["payload"][:, :2] += 1_000_000
        one["payload"][:, 4] += 1
    path = recorded.file(tmp_path / "rec", events)
    assert run(["compare", str(recorded.folder), "--data", str(path)]) == 2
    said = capsys.readouterr().err
    assert "tells of no event of the market that Maker was told of" in said
    assert "help: name data of the same market and time" in said
