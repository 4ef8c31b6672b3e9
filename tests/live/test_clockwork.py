"""Bars and ticks that come one after the other give the instants of a backtest of the same data."""

import numpy as np
import pytest

from quantdsl.data.aggregate import place
from quantdsl.data.events import Data
from quantdsl.data.tick_data import TickData
from quantdsl.events.layout import BAR, EVENT, Kind
from quantdsl.events.ring import Ring
from quantdsl.live.clockwork import BarClock, TickClock
from quantdsl.live.sequencer import Lane, Sequencer
from tests.live.programs import ready

INSTANTS = 800


def raw_bars(data: Data, index: int) -> np.ndarray:
    """The rows of one instrument as a feed gives them."""
    feed = data.feeds[index]
    found = []
    for rows in feed.rows():
        start, end, _, inside = place(rows.ts, data.placing[index])
        bars = np.zeros(rows.size, BAR)
        bars["ts_recv"], bars["ts_event"] = start, end
        bars["instrument"], bars["kind"] = index, Kind.BAR
        names = ("open", "high", "low", "close", "volume")
        for name, column in zip(names, feed.whole_numbers(rows), strict=True):
            bars[name] = column
        found.append(bars[inside])
    return np.concatenate(found).view(EVENT)


@pytest.mark.parametrize("name", ["opening_range", "pairs_z", "rsi2_pullback", "macd_trend"])
def test_bars_as_they_close_give_the_instants_of_the_backtest(name):
    data = ready(name).data
    whole = np.concatenate(list(data.chunks()))
    clock = BarClock(
        data.schedule,
        data.spec.timers,
        data.clocks,
        [feed.scan.interval for feed in data.feeds],
        wait_ns=0,
        begin_ns=data.span[0] - 1,
        sync_all=data.spec.sync_all,
    )
    every = np.concatenate([raw_bars(data, k) for k in range(len(data.feeds))])
    every = every[np.argsort(every["ts_event"], kind="stable")]
    last = int(whole["ts_event"][min(INSTANTS, len(whole) - 1)])
    given = []
    moments, first = np.unique(every["ts_event"], return_index=True)
    for moment, begin, end in zip(moments.tolist(), first, [*first[1:], len(every)], strict=True):
        if moment > last:
            break
        for k in range(begin, end):
            given.append(clock.until(moment - 1))
            clock.add(int(every["instrument"][k]), every[k : k + 1])
        given.append(clock.until(moment))
    found = np.concatenate(given)
    expected = whole[: len(found)]
    assert len(found) >= min(INSTANTS, len(whole))
    assert found.tobytes() == expected.tobytes()


def test_an_instant_waits_for_the_bars_of_others_but_not_for_ever():
    data = ready("pairs_z").data
    bars = [raw_bars(data, k) for k in range(2)]
    step = data.feeds[0].scan.interval
    clock = BarClock(
        data.schedule, (), data.clocks, [step, step], wait_ns=2_000_000_000,
        begin_ns=data.span[0] - 1,
    )  # fmt: skip
    closes = int(bars[0]["ts_event"][0])
    clock.add(0, bars[0][:1])
    assert not (clock.until(closes + 1_000_000_000)["kind"] == Kind.BAR).any()
    alone = clock.until(closes + 2_000_000_000)
    assert (alone["kind"] == Kind.BAR).sum() >= 1 or len(data.clocks) == 1
    clock.add(1, bars[1][:1])
    assert clock.late == 1
    assert not len(clock.until(closes + 2_000_000_001))


class Kept:
    """A journal that keeps events in memory."""

    failed: str | None = None

    def __init__(self) -> None:
        self.events: list[np.ndarray] = []

    def inputs(self, events: np.ndarray) -> None:
        self.events.append(events.copy())


@pytest.mark.parametrize("name", ["imbalance_taker", "crypto_maker", "twap_execution"])
@pytest.mark.parametrize("size", [1, 37])
def test_ticks_with_sessions_and_timers_are_those_of_the_backtest(name, size):
    data = ready(name).data
    assert isinstance(data, TickData)
    whole = next(data.chunks())[:20_000]
    last = int(whole["ts_recv"][-1])
    raw = next(data.feeds[0].chunks(0))
    raw = raw[raw["ts_recv"] < last]
    journal, ring = Kept(), Ring.create(None, 1 << 17)
    clock = TickClock(data.schedule, data.spec.timers, begin_ns=int(raw["ts_recv"][0]))
    kinds = frozenset(Kind(int(k)) for k in np.unique(whole["kind"])) | {Kind.FEED}
    lane = Lane(name, clock, [0], kinds, journal, ring)
    sequencer = Sequencer([lane])
    ends = np.flatnonzero((raw["flags"] & 1) == 0) + 1
    begin = 0
    for end in ends[size - 1 :: size].tolist():
        sequencer.push(raw[begin:end])
        sequencer.advance(int(raw["ts_recv"][end - 1]))
        begin = end
    found = np.concatenate(journal.events)
    market = found["kind"] != Kind.TIMER
    assert len(found) > 10_000
    expected = whole[: len(found)]
    assert np.array_equal(found["kind"], expected["kind"])
    assert found.tobytes() == expected.tobytes()
    assert market.any()
    assert ring.waiting == len(found)
