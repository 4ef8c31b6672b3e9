"""Bars that are built of ticks: a session closes them when a backtest does."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.prepare import Prepared, prepare
from quantdsl.backtest.run import carry
from quantdsl.check import compile_file
from quantdsl.events.codes import TimerSide
from quantdsl.events.layout import MORE, Kind
from quantdsl.events.ring import Ring
from quantdsl.live.clockwork import TickClock
from quantdsl.live.sequencer import Lane, Sequencer
from tests.live.programs import events, loop, settled
from tests.live.test_clockwork import Kept
from tests.live.test_loop import CORE, through

TEXT = """language 1

strategy Both:
    quotes
    trades
    bars 1s
    bars 5s as slow
    bars 50 ticks, price = bid as q
    let fast = ta.sma(close, 3)
    on bar when q.close > 0:
        if flat and close > fast:
            buy(10 shares, limit = bid)
        elif long and slow.close > close:
            close_position()
    every 5s:
        cancel_all()
"""


def ready(tmp_path: Path) -> Prepared:
    path = tmp_path / "both.qdsl"
    path.write_text(TEXT)
    return prepare(compile_file(path), end="2023-01-03T14:40")


def test_the_loop_leaves_the_records_and_the_state_of_the_backtest(tmp_path):
    whole = ready(tmp_path)
    whole.run.memory.set("curve_on", False)
    carry(whole.run, whole.data)
    live = ready(tmp_path)
    engine = loop(live)
    engine.start(CORE)
    assert through(engine, events(live)) == whole.run.all_records().tobytes()
    assert np.array_equal(settled(live), settled(whole))
    assert len(whole.run.all_records()) > 20


@pytest.mark.parametrize("size", [1, 37])
def test_bars_close_at_their_moment_before_the_ticks_of_it(tmp_path, size):
    data = ready(tmp_path).data
    whole = np.concatenate(list(data.chunks()))[:20_000]
    last = int(whole["ts_recv"][np.flatnonzero(whole["kind"] == Kind.QUOTE)[-1]])
    kinds = frozenset((Kind.QUOTE, Kind.TRADE, Kind.FEED))
    raw = np.concatenate(list(data.feeds[0].chunks(0, kinds)))
    raw = raw[raw["ts_recv"] < last]
    journal, ring = Kept(), Ring.create(None, 1 << 17)
    clock = TickClock(data.schedule, data.spec.timers, begin_ns=int(raw["ts_recv"][0]))
    lane = Lane("both", clock, [0], kinds, journal, ring)
    sequencer = Sequencer([lane])
    for begin in range(0, len(raw) - size, size):
        sequencer.push(raw[begin : begin + size])
        sequencer.advance(int(raw["ts_recv"][begin + size - 1]))
    found = np.concatenate(journal.events)
    closes = (found["kind"] == Kind.TIMER) & (found["side"] == TimerSide.CLOSES)
    assert closes.sum() > 300
    assert (found["flags"][closes] & MORE).any()  # two clocks at one moment
    assert found.tobytes() == whole[: len(found)].tobytes()
