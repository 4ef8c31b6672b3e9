"""Where a GPU beats the cores: one sweep at many sizes, measured on each, drawn as one chart.

    python -m bench.crossover OUT.json OUT.svg     on a machine with a GPU: measures and draws
    python -m bench.crossover OUT.json OUT.svg --draw     draws what OUT.json holds

The strategy is ema_cross, compiled, its data in memory; what is timed is the lanes and the table.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench.bench_sweep import EMA_CROSS, prepared
from quantdsl.backtest.sweep import Sweep, run
from quantdsl.backtest.sweep_table import result_of
from quantdsl.devices.choose import runner
from quantdsl.devices.cpu import CpuRunner, cores
from quantdsl.devices.work import Runner

POINTS = {100: (10, 10), 1_000: (25, 40), 10_000: (100, 100), 100_000: (400, 250)}
"""Points -> values of fast and of slow."""
BARS = (1_000, 10_000, 100_000)
ROUNDS = 3
LONG_S = 30.0
"""A size that would take longer is left out."""
SLOWEST_LANE_STEPS_S = 2e8
"""Of a core, to foresee that."""

CELL, LEFT, TOP = (150, 64), 120, 70
COLOURS = {"gpu": "#1b7f5c", "16": "#3b6fb6", "2": "#b5651d"}


def measure() -> dict[str, Any]:
    """Seconds by device and size, `{device: {"points x bars": seconds}}`."""
    gpu = runner("cuda:0", print)
    devices: dict[str, Runner] = {gpu.name: gpu}
    devices |= {f"{n} cores": CpuRunner(n) for n in (2, 16) if n <= len(cores())}
    found: dict[str, dict[str, float]] = {name: {} for name in devices}
    for bars in BARS:
        for points, (fast, slow) in POINTS.items():
            ranges = {"fast": f"2..{1 + fast}:1", "slow": f"514..{513 + slow}:1"}
            sweep = prepared(EMA_CROSS, bars, ranges)
            for name, device in devices.items():
                n_cores = int(name.split()[0]) if name.endswith("cores") else 1_000
                if points * bars / (n_cores * SLOWEST_LANE_STEPS_S) < LONG_S:
                    found[name][f"{points} x {bars}"] = seconds(sweep, device)
    return found


def seconds(sweep: Sweep, device: Runner) -> float:
    """The median time of the lanes and the table."""
    device.compile(sweep.work)
    times = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        result_of(sweep, run(sweep, device), device.name)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def draw(found: dict[str, dict[str, float]]) -> str:
    """A cell a size: the fastest device, and the time of each."""
    width, height = LEFT + CELL[0] * len(POINTS) + 20, TOP + CELL[1] * len(BARS) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">ema_cross: the fastest device by points and bars'
        "</text>",
    ]
    for column, points in enumerate(POINTS):
        x = LEFT + CELL[0] * column
        parts.append(f'<text x="{x + 8}" y="{TOP - 10}">{points:,} points</text>')
        for row, bars in enumerate(BARS):
            times = {name: size[f"{points} x {bars}"] for name, size in found.items()
                     if f"{points} x {bars}" in size}  # fmt: skip
            parts += _cell(x, TOP + CELL[1] * row, times)
    for row, bars in enumerate(BARS):
        y = TOP + CELL[1] * row + CELL[1] // 2
        parts.append(f'<text x="{LEFT - 8}" y="{y}" text-anchor="end">{bars:,} bars</text>')
    names = " and ".join([", ".join(list(found)[:-1]), list(found)[-1]])
    parts.append(f'<text x="{LEFT}" y="{height - 18}">{names}; lanes and table, warm</text>')
    return "\n".join([*parts, "</svg>\n"])


def _cell(x: int, y: int, times: dict[str, float]) -> list[str]:
    """One size: its colour is the fastest device's."""
    best = min(times, key=lambda name: times[name])
    colour = COLOURS.get(best.split()[0], COLOURS["gpu"])
    lines = [
        f'<rect x="{x}" y="{y}" width="{CELL[0] - 4}" height="{CELL[1] - 4}" fill="{colour}" '
        'fill-opacity="0.2"/>'
    ]
    for number, (name, taken) in enumerate(times.items()):
        short = name.partition(" ")[2] if name.startswith("cuda") else name
        weight = ' font-weight="bold"' if name == best else ""
        lines.append(
            f'<text x="{x + 8}" y="{y + 18 + 17 * number}"{weight}>{short}: {shown(taken)}</text>'
        )
    return lines


def shown(seconds: float) -> str:
    """'9.5 ms', '3.25 s'."""
    return f"{seconds * 1e3:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


if __name__ == "__main__":
    figures, chart = Path(sys.argv[1]), Path(sys.argv[2])
    if "--draw" not in sys.argv:
        figures.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
    chart.write_text(draw(json.loads(figures.read_text(encoding="utf-8"))), encoding="utf-8")
