"""The statistics of a sweep on the device that ran it."""

from quantdsl.backtest.lane_splits import follow_on
from quantdsl.backtest.lane_trades import redraw_on
from quantdsl.devices.cluster import ClusterRunner
from quantdsl.devices.work import Runner
from quantdsl.report.statistics_splits import POINTS_MAX
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_study import Device, Study, study

CORES = ("cpu", "simulated")
"""Runners without a GPU: cross-validation of many points is sampled there."""
GPU_SHARES = 32
"""Lanes of a split on a GPU: with 16 blocks 6,435 splits make 205,920 lanes."""


def study_on(runner: Runner, result: SweepResult, *, n_resamples: int, seed: int) -> Study:
    """`study`, its splits and resamples as lanes; the bits are the same on every device."""
    here = runner.on_cores if isinstance(runner, ClusterRunner) else runner.name in CORES
    device = Device(
        follow=follow_on(runner, 1 if here else GPU_SHARES),
        redraw=redraw_on(runner),
        points_max=POINTS_MAX if here else max(len(result), POINTS_MAX),
    )
    return study(result, n_resamples=n_resamples, seed=seed, device=device)
