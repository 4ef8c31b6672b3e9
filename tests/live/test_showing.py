"""What a session shows, from the words of its engine."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from quantdsl.config import Config, LimitsConfig
from quantdsl.data.instrument import Instrument
from quantdsl.events.layout import BAR, EVENT, KilledBy, Kind
from quantdsl.live import showing
from quantdsl.live.feed import Health
from quantdsl.live.showing import PAST_MAX, Chart, Showing, _drawdown_max, _gauges, health_of
from quantdsl.live.strategy import LiveStrategy
from quantdsl.live.view import FeedHealth, StrategyView


@pytest.mark.parametrize(
    ("peak", "trough", "drop", "of", "deepest"),
    [
        (1_000, 1_000, 0, 1_000, 0.0),
        (1_000, 900, 0, 1_000, 0.1),  # the first one, not over yet
        (2_000, 2_000, 150, 1_000, 0.15),  # over, and equity is at a new peak
        (2_000, 1_500, 150, 1_000, 0.25),  # the one that lasts is deeper
        (0, 0, 0, 0, 0.0),  # nothing has happened
    ],
)
def test_the_deepest_drawdown_stays_when_equity_comes_back(peak, trough, drop, of, deepest):
    words = {"peak": peak, "trough": trough, "dd_drop": drop, "dd_peak": of}
    one = SimpleNamespace(word=lambda path: words[path.rpartition(".")[2]])
    assert _drawdown_max(one) == pytest.approx(deepest)


@pytest.mark.parametrize("broken", ["daily_loss", "drawdown"])
@pytest.mark.parametrize("killed", [KilledBy.LIMIT, KilledBy.PERSON])
def test_the_limit_that_was_broken_is_shown_as_tripped_and_no_other(broken, killed):
    limits = LimitsConfig(daily_loss=1.0, drawdown=1.0, position_value=1.0, gross_value=1.0)
    one = SimpleNamespace(
        name="A", config=Config(limits=limits), ledger=SimpleNamespace(broken=broken),
        prepared=SimpleNamespace(data=SimpleNamespace(instruments=(), money_digits=6)),
        word=lambda path: killed if path == "e.watch.killed" else 0,
    )  # fmt: skip
    tripped = [gauge.name for gauge in _gauges(one) if gauge.tripped]
    assert tripped == ([broken] if killed == KilledBy.LIMIT else [])


@pytest.mark.parametrize(
    ("killed", "ends", "shown"),
    [
        (KilledBy.SESSION, False, ("starting", "the session holds it")),
        (KilledBy.SESSION, True, ("stopped", "stopped by Ctrl-C")),
        (KilledBy.SESSION | KilledBy.PERSON, True,
         ("halted", "halted by a person; the session holds it")),
        (KilledBy(0), True, ("active", "")),
    ],
)  # fmt: skip
def test_who_ends_in_order_is_stopped_and_not_halted(monkeypatch, killed, ends, shown):
    one = SimpleNamespace(
        fault="", word=lambda path: int(killed) if path == "e.watch.killed" else 0
    )
    state, why = LiveStrategy.state.fget(one)
    monkeypatch.setattr(showing, "_strategy", lambda _: StrategyView("A", state, why))
    stopping = SimpleNamespace(is_set=lambda: ends)
    session = SimpleNamespace(stopping=stopping, why="stopped by Ctrl-C")
    own = SimpleNamespace(session=session, state="active", started=True)
    view = Showing._strategy(own, one)
    assert (view.state, view.reason) == shown
    assert Showing._state(own, [view]) == shown


def test_a_feed_that_is_lost_is_told_of_once_and_when_it_is_there_again():
    said: list[tuple[str, ...]] = []
    own = SimpleNamespace(_lost=set(), log=lambda *words: said.append(words))
    states = ["connecting", "live", "down", "connecting", "down", "stale", "connecting", "live"]
    for state in [*states, "stale", "live"]:
        Showing._tell_of(own, [FeedHealth("okx", state=state, why="closed" * (state == "down"))])
    assert said == [
        ("warning", "okx", "the feed is down: closed"),
        ("info", "okx", "the feed is live again"),
        ("warning", "okx", "the feed is stale"),
        ("info", "okx", "the feed is live again"),
    ]


@pytest.mark.parametrize(("state", "why"), [("waiting", "closed"), ("live", ""), ("stale", "")])
def test_what_ended_an_earlier_connection_is_no_reason_of_this_one(state, why):
    feed = SimpleNamespace(name="okx", symbols=(), health=Health(name="okx", reason="closed"))
    feed.health.state = state
    assert health_of(feed).why == why


def test_a_chart_goes_on_behind_the_bars_of_the_journal():
    bars = np.zeros(PAST_MAX + 500, BAR)
    bars["kind"], bars["ts_recv"] = Kind.BAR, np.arange(len(bars))
    parts = (bars[:900].view(EVENT), bars[900:].view(EVENT))
    had = [SimpleNamespace(inputs=lambda part=part: part) for part in parts]
    one = SimpleNamespace(
        on_ticks=False, lane=SimpleNamespace(), had=lambda: iter(had),
        prepared=SimpleNamespace(data=SimpleNamespace(instruments=(Instrument(symbol="KO"),))),
    )  # fmt: skip
    chart = Chart(one)
    one.lane.seen(bars[-1:].view(EVENT))
    rows = chart.rows(0, itertools.count(1))
    assert [row.ts for row in rows] == [*range(500, len(bars)), len(bars) - 1]
