"""Twenty equations over a universe on a GPU, columns resident: kernel time and bandwidth.

    python -m bench.gpu_signals OUT.json [INSTRUMENTS DAYS]

Needs a GPU. Kernel time is the median of five rounds by the GPU's own clock. The part along time
(rolling and elementwise) is held against the bandwidth of a copy measured in the same process: of
the bytes that the plan says each column in and out takes once.
"""

import functools
import json
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from quantdsl.backtest.panel_device import DeviceTurn
from quantdsl.backtest.prepare import arrange
from quantdsl.check import compile_file
from quantdsl.check.panel_words import SEEN
from quantdsl.check.signal_turn import Signals
from quantdsl.devices.cuda.device import open_device
from quantdsl.devices.cuda.measure import Bench
from quantdsl.devices.cuda.panels import CudaPanel
from quantdsl.devices.panels import Opened

STRATEGY = Path(__file__).parent / "signals.qdsl"
LARGE = (5_000, 2_520)
ROUNDS = 5


def turn_of(count: int, days: int, opened: Opened) -> DeviceTurn:
    """The equations, over so many instruments and instants of a chunk."""
    names = [f"S{n:05d}" for n in range(count)]
    prices = {name: [50.0] * 2 * count for name in ("open", "high", "low", "close", "volume")}
    dates = ["2010-01-04"] * count + ["2010-01-05"] * count
    table = pa.table({"date": dates, "symbol": names * 2, **prices})
    checked = compile_file(STRATEGY)
    arranged = arrange(checked, data=table, bars="1d")
    checked = arranged.sized(checked)
    return DeviceTurn(
        checked, Signals(checked.assembly), arranged.data, {}, opened, instants=days
    )


def walks(count: int, days: int) -> Mapping[str, np.ndarray]:
    """Random walks in ticks [day, instrument]."""
    random = np.random.default_rng(1)
    walk = np.cumsum(random.normal(0.0, 0.02, (days, count)), axis=0)
    close = np.clip(np.rint(5_000.0 * np.exp(walk)), 100, 2**40).astype(np.int64)
    high, low = (np.rint(close * by).astype(np.int64) for by in (1.01, 0.99))
    return {"bar.close": close, "bar.open": close, "bar.high": high, "bar.low": low}


def measured(count: int, days: int) -> dict[str, Any]:
    """Milliseconds of kernel time of each step, and what the bytes along time amount to."""
    device = open_device(0)
    turn = turn_of(count, days, functools.partial(CudaPanel, device))
    work, bars = turn.complete, walks(count, days)
    panel = CudaPanel(device, work)
    cells = panel.given(0)
    lanes = np.minimum(np.arange(turn.lanes), count - 1)  # those beyond the last are like it
    for name, number in turn.columns.items():
        if number < turn.given:
            cells[number, :days] = 1 if name == SEEN else bars[name][:, lanes]
    taken = []
    for _ in range(ROUNDS + 1):
        panel.seconds = [0.0] * len(work.steps)
        panel.start(0, work, days, 0)
        panel.finish(0)
        taken.append(panel.seconds)
    panel.close()
    steps_ms = [1e3 * statistics.median(step) for step in zip(*taken[1:], strict=True)]
    along = [at for at, step in enumerate(work.steps) if not step[0].across]
    along_ms = sum(steps_ms[at] for at in along)
    moved = 8 * count * days * words_along(turn)
    copy_gb_s, _ = Bench(device).device_bandwidth()
    reached = moved / (along_ms * 1e-3) / 1e9
    return {
        "instruments": count,
        "days": days,
        "steps_ms": steps_ms,
        "kernels_ms": sum(steps_ms),
        "along_ms": along_ms,
        "along_bytes": moved,
        "along_gb_s": reached,
        "copy_gb_s": copy_gb_s,
        "share_of_copy": reached / copy_gb_s,
    }


def words_along(turn: DeviceTurn) -> int:
    """The words of a bar that stages along time have to read or write, each once."""
    made = turn.complete.columns - turn.given
    read = turn.given - 1  # nobody reads who has a bar where everyone has
    shown = sum(len(one.shown) for step in turn.stages for one in step if not one.across)
    return read + made + shown


def main() -> None:
    sizes = tuple(map(int, sys.argv[2:4])) or LARGE
    found = measured(*sizes)
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
