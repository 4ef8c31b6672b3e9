"""Lane-steps a second of shipped strategies as they are: sessions, brackets, limits, sizes by risk.

    python -m bench.shipped cuda:0

The kernels of bench/gpu.py are strategies that hardly order, or order alike. These have what users
write, and some order every few dozen bars: then orders and fills take most of the time.
"""

import statistics
import sys

from bench.gpu import kernel_seconds
from quantdsl.backtest.sweep import Sweep, prepare_sweep, run
from quantdsl.check import compile_file
from quantdsl.devices.choose import runner
from quantdsl.devices.profile import Profile
from quantdsl.shipped import shipped
from tests.truth.test_oracle import market

MINUTES, ROUNDS = 200_000, 3
GRIDS = {
    "sma_cross": {"fast": "5..50:1", "slow": "51..200:1", "stop_k": "1.0..5.0:0.25"},
    "macd_trend": {"slow": "26..60:2", "signal": "5..20:1", "trend": "100..300:100"},
    "supertrend_trail": {"factor": "1.0..6.0:0.1", "len": "5..30:1", "trail_k": "1.0..6.0:0.1"},
    "opening_range": {"length": "3..12:1", "reward": "0.5..4.0:0.0005"},
    "crypto_breakout": {"entry": "8..384:8", "trail": "1.0..12.0:0.1", "weight": "5%..50%:2.5%"},
    "channel_breakout": {"entry": "20..119:1", "exit": "5..54:1", "share": "0.1%..1.0%:0.05%"},
}


def sweep_of(name: str, device: str) -> Sweep:
    path = shipped(f"strategies/{name}.qdsl")
    settings = {"device": device}
    data = market(MINUTES)
    return prepare_sweep(compile_file(path), path, data=data, ranges=GRIDS[name], sweep=settings)


def seconds(sweep: Sweep, device: str) -> float:
    """The median of what its kernels take; the first run, which may compile, left out."""
    profile = Profile()
    chosen = runner(device, lambda _: None, profile)
    taken = []
    for _ in range(1 + ROUNDS):
        profile.intervals.clear()
        run(sweep, chosen)
        taken.append(kernel_seconds(profile))
    return statistics.median(taken[1:])


def main() -> None:
    device = sys.argv[1]
    for name in GRIDS:
        sweep = sweep_of(name, device)
        lanes, bars, took = sweep.work.n_lanes, len(sweep.work.events), seconds(sweep, device)
        rate = lanes * bars / took / 1e9
        told = f"{name:18} {lanes:8,} lanes {bars:7,} events {rate:8.2f} billion lane-steps/s\n"
        sys.stdout.write(told)


if __name__ == "__main__":
    main()
