"""Signals with a kernel that looks far back, on a GPU beside the cores: whole data, and with gaps.

    python -m bench.signal_kernels OUT.json [INSTRUMENTS BARS [DEVICE]]

The kernel is that of strategies/analog_gpu.qdsl, a window of 1,024 returns at each bar. Where bars
are lacking, each instrument lacks one in a thousand, and of ten one lists late, one ends early and
one halts for thirty. Times are from a table to a table, the second of two runs; both have the same
bits.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import quantdsl
from quantdsl.api import Strategy

STRATEGY = Path(__file__).parents[1] / "strategies" / "analog_gpu.qdsl"
SIGNALS = """strategy Analogs:
    bars 1d
    universe "ALL"
    let ret = log(close / close[1])
    let fc  = analog(ret, pat = 8, ahead = 5, bw = 0.008)
"""
MEASURED = (100, 13_000)
LACKING, EVERY, HALT = 0.001, 10, 30


def strategy(folder: Path) -> Strategy:
    """The kernel of the shipped strategy, at each bar of a day of a universe."""
    kernel, _, _ = STRATEGY.read_text().partition("strategy ")
    path = folder / "analogs.qdsl"
    path.write_text(kernel + SIGNALS)
    return quantdsl.compile(path)


def who_has_bars(count: int, bars: int) -> npt.NDArray[np.bool_]:
    """[bar, instrument], some of which are lacking."""
    random = np.random.default_rng(3)
    seen = random.random((bars, count)) > LACKING
    for who in range(0, count, EVERY):
        seen[: random.integers(bars // 2), who] = False
    for who in range(1, count, EVERY):
        seen[random.integers(bars // 2, bars) :, who] = False
    for who in range(2, count, EVERY):
        seen[bars // 2 : bars // 2 + HALT, who] = False
    return seen


def walks(seen: npt.NDArray[np.bool_]) -> pa.Table:
    """Random walks of who has bars, as people have them in one table."""
    bars, count = seen.shape
    steps = np.random.default_rng(1).normal(0.0, 0.01, seen.shape)
    price = np.round(5_000 * np.exp(np.clip(np.cumsum(steps, axis=0), -3, 3))) / 100
    days = np.busday_offset("1980-01-01", np.arange(bars), roll="forward")
    there = np.flatnonzero(seen)
    names = [f"S{number:05d}" for number in range(count)]
    prices = {name: price.ravel()[there] for name in ("open", "high", "low", "close")}
    dates = np.repeat(days, count)[there].astype("datetime64[D]")
    symbols = np.tile(names, bars)[there]
    volume = np.ones(len(there))
    return pa.table({"date": dates, "symbol": symbols, **prices, "volume": volume})


def run(signals: Strategy, table: pa.Table, device: str) -> tuple[float, npt.NDArray[np.int64]]:
    """Seconds, and the words of the values."""
    began = time.perf_counter()
    found = signals.signals(table, device=device)
    taken = time.perf_counter() - began
    words: npt.NDArray[np.int64] = found["fc"].to_numpy().view(np.int64)
    return taken, words


def measured(count: int, bars: int, device: str) -> dict[str, Any]:
    """Figures of whole data, and of data with gaps."""
    found: dict[str, Any] = {"instruments": count, "bars": bars, "device": device}
    with tempfile.TemporaryDirectory() as folder:
        signals = strategy(Path(folder))
        for name, seen in {
            "whole": np.ones((bars, count), bool),
            "gaps": who_has_bars(count, bars),
        }.items():
            table = walks(seen)
            _, (cores_s, cores) = (run(signals, table, "cpu") for _ in range(2))
            _, (device_s, words) = (run(signals, table, device) for _ in range(2))
            assert np.array_equal(cores, words)
            values = int(np.count_nonzero(~np.isnan(words.view(np.float64))))
            found[name] = {"values": values, "cores_s": cores_s, "device_s": device_s}
    return found


def main() -> None:
    count, bars = map(int, sys.argv[2:4] or MEASURED)
    found = measured(count, bars, sys.argv[4] if len(sys.argv) > 4 else "cuda:0")
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
