"""Signals on the simulated device: the words that a core leaves, and what a lost device costs."""

import numpy as np
import pytest

from quantdsl.backtest.prepare import Prepared, prepare
from quantdsl.check import Checked
from quantdsl.check.checked import WORKER
from quantdsl.data.tick_feed import keep
from quantdsl.events.layout import MORE, Kind
from quantdsl.live.signal_device import DeviceSignals, open_runner
from quantdsl.live.worker import Worker
from tests.backtest.test_awaited import text
from tests.backtest.test_lane_entry import checked_text

LIVE = frozenset({WORKER})
KERNEL = """
@kernel(reduce)
@workgroup(32)
kernel alike(r: window[f32, 24], pat: const int, wide: f32) -> f32?:
    "What followed stretches like the last one."
    var num: f32 = 0
    var den: f32 = 0
    parallel for i in 2..<(r.len - pat) reduce(num: +, den: +):
        var apart: f32 = 0
        for k in 0..<pat:
            apart += (r[k] - r[i + k]) ^ 2
        let weight = exp(-apart / wide)
        num += weight * r[i - 1]
        den += weight
    return num / den if den > 1e-6 else na
"""
UNIVERSE = """language 1
{head}
strategy Crowd:
    bars {bars}
    universe "NASDAQ100"
    session "XNYS"

    param n = 5 in 3..9 step 1
{equations}
    on ready(a):
        if flat and a > close:
            buy(10 shares)

    risk:
        max_gross = 100% of equity
"""
OWN = """
    let ret = log(close / close[1])

    @async(deadline = 2ms)
    let a = ta.ema(close, n)

    @async(deadline = 2ms)
    let b = ta.stdev(ret, 20) + ta.rsi(close, n)
"""
ACROSS = """
    let move = close / close[3] - 1

    @async(deadline = 2ms)
    let a = ta.sma(xs.rank(move), 3)

    @async(deadline = 2ms)
    let whole = xs.mean(move)
"""
HEAVY = """
    let ret = log(close / close[1])

    @async(deadline = 2ms)
    let a = ta.sma((alike(ret, pat = 3, wide = 0.001) ?? 0.0) + ret, 2)

    @async(deadline = 2ms)
    let b = alike(ta.roc(close, 2), pat = 2, wide = 0.01)
"""
CLOCKS = """
    let slow = bars(1h).close

    @async(deadline = 2ms)
    let a = ta.ema(slow, n) - ta.sma(close, 3)
"""
STRATEGIES = {
    "one instrument": text("1ms"),
    "of each instrument": UNIVERSE.format(head="", bars="30m", equations=OWN),
    "of the whole": UNIVERSE.format(head="", bars="30m", equations=ACROSS),
    "kernels": UNIVERSE.format(head=KERNEL, bars="30m", equations=HEAVY),
}
EVENTS = {"kernels": 16 * 45}


def ready(name: str) -> tuple[Checked, Prepared, np.ndarray]:
    """A live strategy before its first event, and whole instants of the built-in market."""
    checked = checked_text(STRATEGIES[name])
    prepared = prepare(checked, live=LIVE)
    events = next(iter(prepare(checked).data.chunks()))[: EVENTS.get(name, 2_000)]
    last = np.flatnonzero(events["flags"] & MORE == 0)[-1]
    kinds = (Kind.SIGNAL, Kind.TIMER)
    whole = events[: last + 1]
    return prepared.checked, prepared, keep(whole, ~np.isin(whole["kind"], kinds))


def on_device(checked: Checked, prepared: Prepared, worker: Worker) -> DeviceSignals:
    """The signals of a worker on the simulated device."""
    words = worker.memory.words
    opened = open_runner("simulated", checked, prepared.uses, len(words), print)
    assert opened is not None
    panel = [signal.panel for signal in checked.strategy.signals.all]
    return DeviceSignals(*opened, panel, words)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_simulated_device_answers_what_a_core_answers(name: str) -> None:
    checked, prepared, events = ready(name)
    core, other = Worker(prepared), Worker(prepared)
    device = on_device(checked, prepared, other)
    wanted = core.compute(events)
    assert len(wanted) > 100
    np.testing.assert_array_equal(device.compute(events), wanted)
    device.copy()
    np.testing.assert_array_equal(other.memory.words, core.memory.words)
