"""What single precision changes of a sweep: measured, not promised.

A sample of the points, drawn with the sweep's seed, and the best one run a second time in double
precision. All that a lane keeps of its account is compared: where one word of it differs, the
point's trades differ.
"""

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.sweep import Int64s, Lanes, Sweep, run
from quantdsl.backtest.sweep_table import result_of
from quantdsl.devices.work import Runner
from quantdsl.report.sweep_result import Apart, Difference, SweepResult

SAMPLE_POINTS = 64
"""Points that run in double precision too, beside the best one."""


def measured(
    sweep: Sweep,
    lanes: Lanes,
    result: SweepResult,
    runner: Runner,
) -> Difference:
    """How far the points of `lanes`, whose table `result` has, are from double precision.

    SAMPLE_POINTS of them are drawn, and the best one is among them.
    """
    done = np.flatnonzero(lanes.done)
    drawn = np.random.default_rng(sweep.config.seed).permutation(len(done))[:SAMPLE_POINTS]
    rows = np.union1d(drawn, result.ranked(1))
    exact = sweep.exact(done[rows])
    other = run(exact, runner)
    theirs = result_of(exact, other, runner.name)
    return Difference(
        points=len(rows),
        changed=int(_changed(sweep, lanes.words[:, done[rows]], exact, other.words).sum()),
        metrics={
            name: _apart(result.metric(name)[rows], theirs.metric(name))
            for name in result.metric_names
        },
    )


def _changed(
    sweep: Sweep, words: Int64s, exact: Sweep, others: Int64s
) -> npt.NDArray[np.bool_]:
    """Of each point, whether anything that is kept of its account differs."""
    ours = sweep.code.words.accumulators(words)
    theirs = exact.code.words.accumulators(others)
    changed = np.zeros(words.shape[1], np.bool_)
    for name, one in ours.items():
        both_nan = np.isnan(one) & np.isnan(theirs[name])
        changed |= (one != theirs[name]) & ~both_nan
    return changed


def _apart(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> Apart:
    """Infinitely far where only one of them is defined, not at all where neither is."""
    far = np.where(ours == theirs, 0.0, np.abs(ours - theirs))
    far[np.isnan(ours) & np.isnan(theirs)] = 0.0
    far[np.isnan(far)] = np.inf
    return Apart(largest=float(far.max()), median=float(np.median(far)))
