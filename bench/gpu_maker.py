"""A sweep of a quote-driven maker over a recorded book on a GPU, beside hand-written CUDA.

What all lanes read alike the anchor gets from a run of the strategy: the touch and the equations
after each message. All else it makes itself, and each metric must come out the same.
"""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.cuda import anchors
from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.program import STATE, Memory
from quantdsl.backtest.sweep import Lanes, Sweep, prepare_sweep
from quantdsl.check import compile_file
from quantdsl.events.layout import EVENT
from quantdsl.ir.layout import Layout
from tests.std.book.recordings import path as recording

STRATEGY = Path(__file__).resolve().parent / "skewed_maker.qdsl"
RECORDED = "ws/binance_hftbacktest/usdm_btcusdt_20240808.gz"
GRIDS = (
    {"gamma": "0.01..0.25:0.01", "kappa": "0.5..2.4:0.1", "clip": "10..29:1"},
    {"gamma": "0.01..0.485:0.005", "kappa": "0.5..4.85:0.05", "clip": "10..41:1"},
)
"""10,000 points and 270,336."""
HORIZON_S = 30.0
BLOCKS = (64, 128)
METRICS = [name for name in anchors.MAKER_RESULT.names or () if name != "overflow"]
SHOWN = ("e.venues[0].bid", "e.venues[0].ask", "e.venues[0].valid")
Timed = Callable[[Sweep], tuple[float, Lanes]]
"""The median of our kernel in seconds, and what the lanes leave."""


def prepared(ranges: dict[str, str]) -> Sweep:
    data = str(recording(RECORDED))
    checked, settings = compile_file(STRATEGY), {"metrics": [*anchors.METRICS, "fills"]}
    return prepare_sweep(checked, STRATEGY, data=data, ranges=ranges, sweep=settings)


def shown(sweep: Sweep) -> anchors.Shown:
    """What a run knows after each message."""
    run = prepare(sweep.checked, data=str(recording(RECORDED))).run
    run.memory.set("curve_on", False)
    names = [*SHOWN, *(one.place.name for one in sweep.checked.strategy.equations.all)]
    events = sweep.work.events.view(EVENT).reshape(-1)
    ends = np.flatnonzero(events["flags"] == 0)[:-1] + 1  # the last of all ends the run
    found = np.zeros((len(ends), len(names)))
    for row, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        run.feed(events[begin:end])
        found[row] = [run.memory.get(name) for name in names]
    return anchors.Shown(*found.T.copy())


def anchor(sweep: Sweep, known: anchors.Shown) -> tuple[float, np.ndarray]:
    """The best median of the anchor's kernel in seconds, and its results."""
    memory = Memory(sweep.work.module)
    memory.words[:] = sweep.work.template
    events = sweep.work.events.view(EVENT).reshape(-1)
    ticks = anchors.ticks_of(events, known, sweep.start_ns, HORIZON_S)
    levels = zip(sweep.grid.axes, sweep.levels, strict=True)
    gamma, kappa, clip = (np.array([float(v) for v in axis.values])[at] for axis, at in levels)
    logs = [math.log(1.0 + g / k) / g for g, k in zip(gamma, kappa, strict=True)]
    costs = [
        memory.get(f"e.{name}")
        for name in (
            "config.cash", "config.money_scale", "config.maker_rate",
            "instruments[0].money_per_tick_lot", "venues[0].latency_entry",
            "venues[0].latency_response",
        )
    ]  # fmt: skip
    library = anchors.build("skewed_maker", "-fmad=false")
    best, results = math.inf, np.zeros(0)
    for block in BLOCKS:
        points = np.array([gamma, logs, clip])
        results, seconds = anchors.skewed_maker(library, ticks, points, costs, block=block)
        best = min(best, float(np.median(seconds)))
    return best, results


def compared(timed: Timed, sweep: Sweep, known: anchors.Shown) -> dict[str, Any]:
    """Our kernel and the anchor on one grid; AssertionError where a metric of a lane differs."""
    our_s, lanes = timed(sweep)
    anchor_s, theirs = anchor(sweep, known)
    layout = Layout(sweep.work.module.structs)
    assert not theirs["overflow"].any()
    for name in METRICS:
        place = layout.locate(STATE, f"e.metrics.{name}").offset_words
        (row,) = np.flatnonzero(sweep.code.words.offsets == place)
        other = int((lanes.words[row] != theirs[name]).sum())
        assert not other, f"skewed_maker: {name} differs in {other} of {sweep.n_points} lanes"
    steps = sweep.n_points * (len(sweep.work.events) - 1)
    return {
        "strategy": "skewed_maker",
        "precision": "f64",
        "lanes": sweep.n_points,
        "lane_steps_per_s": steps / our_s,
        "anchor_lane_steps_per_s": steps / anchor_s,
    }


def rows(timed: Timed) -> Iterator[dict[str, Any]]:
    """A row for each grid."""
    sweeps = [prepared(ranges) for ranges in GRIDS]
    known = shown(sweeps[0])
    for sweep in sweeps:
        yield compared(timed, sweep, known)
