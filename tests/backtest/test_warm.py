"""All points of a sweep start at one bar: the first at which each of them is warm."""

from collections import Counter

import numpy as np
import pytest

from quantdsl.backtest import values
from quantdsl.backtest.prepare import arrange, prepare
from quantdsl.backtest.program import Memory
from quantdsl.backtest.warm import clock_count, sweep_start
from quantdsl.check import Checked
from quantdsl.errors import DataError
from quantdsl.events.layout import MORE, Kind
from quantdsl.ir.interp import Interpreter
from tests.backtest.test_lane_entry import (
    FILES,
    checked_of,
    checked_text,
    decided,
    events_of,
    lane,
    written,
)

TWO_CLOCKS = """language 1

strategy TwoClocks:
    bars 30m
    bars 1d as daily
    session "XNYS"

    param fast = 4  in 2..40 step 1
    param slow = 10 in 5..20 step 5
    require fast > 2

    let quick = ta.sma(close, fast)
    let trend = ta.sma(daily.close, slow)

    on bar:
        if flat and close > trend and quick > quick[2]:
            buy(10 shares)
        elif long and close < trend:
            close_position()

    backtest:
        fees = 1bps
"""


def needed(checked: Checked, points: list[dict[str, object]]) -> np.ndarray:
    """What `warm` leaves of all points that `admits` lets through."""
    module = checked.lane_module()
    interpreter, data = Interpreter(module), arrange(checked).data
    needs = np.zeros(clock_count(checked), np.int64)
    for point in points:
        memory = Memory(module)
        written(checked, data, memory, point)
        if interpreter.call("admits", memory.words) < 0:
            interpreter.call("warm", memory.words, needs)
    return needs


def ends(checked: Checked) -> list[dict[str, object]]:
    """The defaults, and the largest value of each param."""
    by_name = {p.name: p.high for p in checked.strategy.params if p.high is not None}
    shown = {p.name: p for p in checked.strategy.params}
    return [{}, *({name: values.show(shown[name], high)} for name, high in by_name.items())]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_first_instant_at_which_every_clock_has_ticked_often_enough(path) -> None:
    checked = checked_of(path)
    needs = needed(checked, ends(checked))
    data = arrange(checked).data
    events = events_of(data, 10**9)
    start = sweep_start(checked, data.clocks, needs, np.array_split(events, 3))
    clocks = max(len(checked.strategy.clocks), 1)
    ticks: Counter[int] = Counter()
    for event in events:
        if event["kind"] == Kind.BAR:
            ticks[int(event["instrument"]) * clocks + int(event["side"])] += 1
        if not event["flags"] & MORE and all(ticks[bit] >= n for bit, n in enumerate(needs)):
            assert start == event["ts_event"]
            return
    pytest.fail("the data are too short")


def test_a_slow_clock_and_a_fast_one() -> None:
    checked = checked_text(TWO_CLOCKS)
    points = [{"fast": 40, "slow": 5}, {"fast": 3, "slow": 20}, {"fast": 2, "slow": 20}]
    assert list(needed(checked, points[:1])) == [42, 5]
    assert list(needed(checked, points)) == [42, 20]
    assert list(needed(checked, points[2:])) == [0, 0]


def test_an_equal_start_gives_equal_results() -> None:
    """With `--from` at the sweep's start a single run is the lane of its point."""
    checked = checked_text(TWO_CLOCKS)
    data = arrange(checked).data
    events = events_of(data, 10**9)
    start = sweep_start(checked, data.clocks, np.array([42, 20]), [events])
    single = prepare(checked, params={"fast": 5}, start=f"{np.datetime64(start, 'ns')}Z").run
    single.feed(events)
    module = checked.lane_module()

    class FromStart(Interpreter):
        def call(self, name, words, *args):
            if name == "init":
                memory.set("trade_from", start)
            return super().call(name, words, *args)

    memory = Memory(module)
    lane(checked, FromStart(module), memory, data, events, {"fast": 5})
    assert single.memory.get("e.metrics.fills") > 0
    assert decided(memory) == decided(single.memory)


def test_data_that_end_before_a_point_is_warm() -> None:
    checked = checked_text(TWO_CLOCKS)
    data = arrange(checked).data
    events = events_of(data, 1000)
    with pytest.raises(DataError, match="need 9,999 bars of 1d before the first trade"):
        sweep_start(checked, data.clocks, np.array([42, 9999]), [events])
