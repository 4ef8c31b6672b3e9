"""Sweeps on a GPU beside hand-written CUDA of the same work: same results, one run; signals.

    python -m bench.gpu OUT.json

Needs a GPU and nvcc. Each rate is lane-steps a second of kernel time, the median of five rounds of
the anchor and of our kernel in turn; the anchor takes the best of its block sizes and unrollings.
"""

import functools
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import gpu_maker, gpu_signals
from bench.bench_sweep import ema_cross_over
from bench.cuda import anchors
from quantdsl.backtest.program import Memory
from quantdsl.backtest.sweep import Lanes, Sweep, prepare_sweep, run
from quantdsl.backtest.sweep_table import result_of
from quantdsl.check import compile_file
from quantdsl.devices.choose import runner
from quantdsl.devices.profile import Profile
from tests.truth.test_oracle import market

STRATEGIES = Path(__file__).resolve().parent / "strategies"
BARS, ROUNDS = 100_000, 5
SMALL = {
    "ema_cross": {"fast": "2..101:1", "slow": "514..613:1"},
    "bracket": {
        "fast": "2..26:1", "dip": "0.05..0.4:0.05", "above": "0.2..2:0.2", "below": "0.1..0.5:0.1"
    },
}  # fmt: skip
VARIANTS = {"ema_cross": [f"-DUNROLL={n}" for n in (2, 4, 8)], "bracket": ["-DNDEBUG"]}
REALS = {"f64": np.float64, "f32": np.float32}
"""What the averages of the average cross are computed in."""
SINGLE = {"f64": "-DNEVER_EQUAL", "f32": "-DREAL=float"}
"""In single precision averages come to be equal, which the anchor has to see."""
BLOCKS = (64, 128)
SMALL_SWEEP = {"fast": "2..51:1", "slow": "514..533:1"}
MILLION = ("2..1001", "1002..2001")
"""Ranges of a million points of the average cross."""


def prepared(name: str, ranges: dict[str, str], bars: int = BARS, **settings: object) -> Sweep:
    path = STRATEGIES / f"{name}.qdsl"
    return prepare_sweep(
        compile_file(path), path, data=market(bars), ranges=ranges, sweep=settings
    )


def anchor(sweep: Sweep, name: str) -> tuple[float, Any]:
    """The best median of the anchor's kernel in seconds, and its results."""
    memory = Memory(sweep.work.module)
    memory.words[:] = sweep.work.template
    instrument = sweep.arranged.data.instruments[0]
    money = int(memory.get("e.instruments[0].money_per_tick_lot"))
    events = np.concatenate(list(sweep.arranged.data.chunks()))
    given = anchors.market_of(events, instrument.tick, money)
    account = anchors.Account(
        memory.get("e.config.cash"),
        memory.get("e.config.fee_rate"),
        memory.get("e.config.money_scale"),
        memory.get("e.instruments[0].lots_max"),
    )
    levels = zip(sweep.grid.axes, sweep.levels, strict=True)
    points = np.array([np.array([float(v) for v in axis.values])[level] for axis, level in levels])
    real = REALS[sweep.precision]
    average = functools.partial(anchors.ema_cross, real=real)
    measure: Any = {"ema_cross": average, "bracket": anchors.bracket}[name]
    points = points.astype(np.int32) if name == "ema_cross" else points
    best, results = float("inf"), None
    for option in VARIANTS[name]:
        library = anchors.build(name, option, SINGLE[sweep.precision])
        for block in BLOCKS:
            results, seconds = measure(library, given, points, account, block=block, rounds=ROUNDS)
            best = min(best, float(np.median(seconds)))
    return best, results


def ours(sweep: Sweep) -> tuple[float, Any]:
    """The median of our kernel in seconds, and the table."""
    seconds, lanes = timed(sweep)
    return seconds, result_of(sweep, lanes, "cuda:0")


def timed(sweep: Sweep) -> tuple[float, Lanes]:
    """The median of our kernel in seconds, and what the lanes leave."""
    profile = Profile()
    device = runner("cuda:0", say, profile)
    lanes = run(sweep, device)
    taken = []
    for _ in range(ROUNDS):
        profile.intervals.clear()
        run(sweep, device)
        taken.append(kernel_seconds(profile))
    device.close()
    return statistics.median(taken), lanes


def kernel_seconds(profile: Profile) -> float:
    """From where the first kernel began to where the last ended: chunks overlap."""
    kernels = [one for one in profile.intervals if one.lane_steps]
    begin_s = min(one.begin_s for one in kernels)
    return max(one.begin_s + one.seconds for one in kernels) - begin_s


def compared(name: str, ranges: dict[str, str], precision: str = "f64") -> dict[str, Any]:
    """Our kernel and the anchor on one grid; AssertionError where a trade or a fee differs.

    `whole` is our rate with every metric that a lane can tell.
    """
    sweep = prepared(name, ranges, precision=precision, metrics=anchors.METRICS)
    our_s, result = ours(sweep)
    whole_s, _ = timed(prepared(name, ranges, precision=precision))
    anchor_s, theirs = anchor(sweep, name)
    other = int((theirs["trades"] != result.metric("trades")).sum())
    assert not other, f"{name} {precision}: {other} of {sweep.n_points} lanes trade differently"
    assert np.array_equal(np.rint(result.metric("fees") * 1e6), theirs["fees"])
    assert np.allclose(theirs["equity"] / 1e6 - 1e5, result.metric("net_profit"), atol=1e-6)
    steps = sweep.n_points * BARS
    return {
        "strategy": name,
        "precision": precision,
        "lanes": sweep.n_points,
        "lane_steps_per_s": steps / our_s,
        "whole_lane_steps_per_s": steps / whole_s,
        "anchor_lane_steps_per_s": steps / anchor_s,
    }


def million() -> Sweep:
    """The average cross at a million points."""
    path = ema_cross_over(*MILLION)
    return prepare_sweep(compile_file(path), path, data=market(BARS))


def whole(sweep: Sweep) -> dict[str, Any]:
    """A sweep in a warm process, from points and bars in memory to the table, and its kernels."""
    profile = Profile()
    device = runner("cuda:0", say, profile)
    taken, kernels = [], []
    for _ in range(ROUNDS):
        profile.intervals.clear()
        start = time.perf_counter()
        result_of(sweep, run(sweep, device), device.name)
        taken.append(time.perf_counter() - start)
        kernels.append(kernel_seconds(profile))
    device.close()
    return {
        "points": sweep.n_points,
        "bars": len(sweep.bar_ns),
        "seconds": statistics.median(taken),
        "kernel_seconds": statistics.median(kernels),
    }


def device_name() -> str:
    """As the driver names it, without the maker."""
    from quantdsl.devices.cuda.device import open_device

    return open_device(0).model.removeprefix("NVIDIA ")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def rows() -> Iterator[tuple[str, Any]]:
    """What is measured, in order: the name of its list, and a row of it."""
    cases = [(name, ranges, "f64") for name in SMALL for ranges in (SMALL[name], {})]
    cases += [("ema_cross", ranges, "f32") for ranges in (SMALL["ema_cross"], {})]
    for case in cases:
        yield "kernels", compared(*case)
    for row in gpu_maker.rows(timed):
        yield "kernels", row
    yield "sweeps", whole(prepared("ema_cross", SMALL_SWEEP, 10_000))
    yield "sweeps", whole(million())
    yield "signals", gpu_signals.measured(*gpu_signals.LARGE)


def main() -> None:
    """Each row is told and written as it is measured, so that a difference leaves those before."""
    found: dict[str, Any] = {"device": device_name(), "kernels": [], "sweeps": []}
    for name, row in rows():
        if name in found:
            found[name].append(row)
        else:
            found[name] = row
        say(json.dumps(row))
        Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
