"""Walk-forward: the best point of each stretch of the past, run over the stretch that follows it.

A training is a sweep of all points over its window, a test one backtest of the point that was
chosen there; indicators warm up on the bars before either. No test sees a bar that chose it.
"""

from pathlib import Path

from quantdsl.backtest.spans import Plan, Window, windows_of
from quantdsl.backtest.sweep import Progress, Sweep, run
from quantdsl.backtest.sweep_parts import WINDOW, Parts
from quantdsl.backtest.sweep_table import result_of
from quantdsl.devices.work import Runner
from quantdsl.report.result import RunResult
from quantdsl.report.statistics_grid import neighbourhood
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_walk import Step, WalkForward, step_of, stitched


def walk_forward(
    sweep: Sweep,
    plan: Plan,
    runner: Runner,
    *,
    steady: bool = False,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> WalkForward:
    """Train, choose and test in every window of the sweep's data.

    With `steady` the point with the best surroundings is chosen, in place of the best one. What is
    done is kept in `folder`, until `Parts.finish`, and `resume` goes on from there, but for windows
    of another plan; `progress` is of all trainings.
    """
    cuts = windows_of(
        plan, sweep.start_ns, sweep.bar_ns, ticks=bool(sweep.checked.strategy.ticks)
    )
    steps: list[Step] = []
    parts: Parts | None = None
    for number, window in enumerate(cuts):
        train = sweep.window(window.train_ns, window.test_ns)
        if folder is not None:
            parts = Parts(folder / WINDOW.format(number + 1), train.manifest())
        lanes = run(
            train,
            runner,
            parts=parts,
            resume=resume and parts is not None and parts.kept,
            progress=_told(progress, number, len(cuts)),
        )
        if not lanes.complete:  # a half of the points would choose badly
            raise KeyboardInterrupt
        trained = result_of(train, lanes, runner.name)
        step, last = _step(sweep, train, trained, window, steady=steady)
        steps.append(step)
    metrics, curve_ts, level = stitched(steps, last)
    return WalkForward(
        train=str(plan.train),
        test=str(plan.test),
        steady=steady,
        objective=sweep.config.objective,
        currency=last.currency,
        cash=float(last.money(last.accumulators["equity_first"])),
        trials=sweep.n_points,
        steps=tuple(steps),
        metrics=metrics,
        curve_ts=curve_ts,
        level=level,
    )


def _told(progress: Progress | None, number: int, count: int) -> Progress | None:
    """The progress of one training as that of all."""
    if progress is None:
        return None
    return lambda done, points: progress(number * points + done, count * points)


def _step(
    sweep: Sweep, train: Sweep, result: SweepResult, window: Window, *, steady: bool
) -> tuple[Step, RunResult]:
    """One training that is done, and its test, with the test's run."""
    row = chosen(result, steady=steady)
    inside, outside = train.single(row), sweep.window(window.test_ns, window.end_ns).single(row)
    params, began = result.params(row), train.start_ns
    return step_of(params, inside, outside, began, window.test_ns, window.end_ns), outside


def chosen(result: SweepResult, *, steady: bool) -> int:
    """The row to trust: that with the best objective, or with the best surroundings if any has."""
    rows = neighbourhood(result).ranked(1) if steady else result.ranked(1)
    return int(rows[0] if len(rows) else result.ranked(1)[0])
