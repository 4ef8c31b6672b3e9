"""A year of minutes of 50 instruments at many parameter points: how many points fit in a minute.

    python -m bench.instruments OUT.json [DEVICE]

The shape of the industry's audited backtesting benchmark, with no claim to its name. The strategy
is ema_cross with fees and all metrics, each instrument an account of its own. What is timed is the
lanes and the tables of all 50, the strategy compiled and the bars in memory. DEVICE is `cpu`,
`cuda:0` or another that `quantdsl sweep` takes; left out, the best one.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.bench_sweep import ema_cross_over
from quantdsl.backtest.sweep import Sweep, prepare_sweep, run
from quantdsl.backtest.sweep_table import result_of
from quantdsl.check import compile_file
from quantdsl.devices.choose import runner
from quantdsl.devices.work import Runner
from tests.truth.test_oracle import market

INSTRUMENTS, BARS = 50, 252 * 390
FASTS, SLOWS = 1_000, 2_000
"""The most values of each average: two million points."""
POINTS = (1_000, 10_000, 100_000)
LIMIT_S = 60.0
PATIENCE_S = 600.0
"""What would take longer is left out."""
AIMED, TRIES = 0.97, 3
"""How near to the limit a try goes, and how many there are."""


def prepared(points: int) -> list[Sweep]:
    """The sweep of each instrument, its bars a walk of its own."""
    fasts = min(max(points // 200, 1), FASTS)
    slows = min(points // fasts, SLOWS)
    path = ema_cross_over(f"2..{1 + FASTS}", f"1002..{1_001 + SLOWS}")
    ranges = {"fast": f"2..{1 + fasts}:1", "slow": f"1002..{1_001 + slows}:1"}
    checked = compile_file(path)
    return [
        prepare_sweep(checked, path, data=market(BARS, seed), ranges=ranges)
        for seed in range(INSTRUMENTS)
    ]


def seconds(sweeps: list[Sweep], device: Runner) -> float:
    """The time of all instruments, one after the other; each must trade at every point."""
    device.compile(sweeps[0].work)
    began = time.perf_counter()
    results = [result_of(sweep, run(sweep, device), device.name) for sweep in sweeps]
    taken = time.perf_counter() - began
    assert all((result.metric("trades") > 0).all() for result in results)
    return taken


def measure(device: Runner) -> dict[str, Any]:
    """Seconds by points an instrument, and the most points that take at most LIMIT_S."""
    found: dict[int, float] = {}
    per_point_s = 0.0
    for points in POINTS:
        if points * per_point_s < PATIENCE_S:
            found[points] = timed(points, device)
            per_point_s = found[points] / points
    most = most_within(LIMIT_S, found, device)
    return {"device": device.name, "seconds": found, "points_within_60_s": most}


def most_within(limit_s: float, found: Mapping[int, float], device: Runner) -> int:
    """The most points that were seen to take at most so long, of some that are timed and a few more
    tries near the limit."""
    timed_s = {0: 0.0, **found}
    for _ in range(TRIES):
        (one, one_s), (two, two_s) = sorted(timed_s.items(), key=lambda p: abs(p[1] - limit_s))[:2]
        more = (AIMED * limit_s - one_s) * (two - one) / (two_s - one_s)
        points = min(int(one + more), FASTS * SLOWS)
        timed_s[points] = timed(points, device)
    return max(points for points, taken in timed_s.items() if taken <= limit_s)


def timed(points: int, device: Runner) -> float:
    """As `seconds`, and a line that tells."""
    taken = seconds(prepared(points), device)
    say(f"{INSTRUMENTS} instruments x {points:,} points x {BARS:,} bars: {taken:.2f} s")
    return taken


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def main() -> None:
    device = runner(sys.argv[2] if len(sys.argv) > 2 else "auto", say)
    found = measure(device)
    device.close()
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
