"""Walk-forward: the best point of each stretch of the past, run over the stretch that follows it.

    |------ train ------|- test -|
             |------ train ------|- test -|
                      |------ train ------|- test -|

A training is a sweep of all points over its window, a test one backtest of the point that was
chosen there; indicators warm up on the bars before either. No test sees a bar that chose it.
"""

import calendar
import datetime as dt
import itertools
import re
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from quantdsl.backtest.sweep import Progress, Sweep, run
from quantdsl.backtest.sweep_parts import WINDOW, Parts
from quantdsl.backtest.sweep_table import result_of
from quantdsl.data.times import show_instant
from quantdsl.devices.work import Runner
from quantdsl.errors import ConfigError, LimitError
from quantdsl.report.result import RunResult
from quantdsl.report.statistics_grid import neighbourhood
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_walk import Step, WalkForward, step_of, stitched
from quantdsl.report.words import plural

WINDOWS_MAX = 1_000
UNITS = {"d": "day", "w": "week", "mo": "month", "y": "year"}
LAST_MONTH = dt.MAXYEAR * 12 + 11
US, DAY_US = 1_000, 86_400_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Length(Struct, frozen=True):
    """A length of calendar time: 6 months are 6 months, however long those are."""

    count: int
    unit: str  # one of UNITS

    def __str__(self) -> str:
        return plural(self.count, UNITS[self.unit])


class Plan(Struct, frozen=True):
    """How long each training and each test is."""

    train: Length
    test: Length


class Window(Struct, frozen=True):
    """One training and the test after it, ns since 1970: [train, test) and [test, end)."""

    train_ns: int
    test_ns: int
    end_ns: int


def parse(text: str, named: str = "") -> Plan:
    """The plan of `train=2y test=6mo`; ConfigError where it is not one, which names the setting."""
    named = named or f"walk-forward {text}"
    words = re.sub(r"\s*=\s*", "=", text.replace(",", " ")).split()
    if sorted(word.partition("=")[0] for word in words) != ["test", "train"]:
        raise ConfigError(
            f"{named}: it needs a length for train and one for test\n"
            "help: write 'train=2y test=6mo'"
        )
    said = dict(word.partition("=")[::2] for word in words)
    return Plan(*(_length(named, said[name]) for name in ("train", "test")))


def _length(named: str, said: str) -> Length:
    match = re.fullmatch(r"(\d{1,4})(d|w|mo|y)", said)
    if match is None or int(match[1]) == 0:
        raise ConfigError(
            f"{named}: {said} is not a length\n"
            f"help: write a whole number and one of {', '.join(UNITS)}, such as 6mo"
        )
    return Length(int(match[1]), match[2])


def windows(plan: Plan, first_ns: int, last_ns: int) -> list[Window]:
    """The windows from `first_ns`, where all points are warm, to the last bar at `last_ns`.

    The last test may be shorter than the others. ConfigError where not one bar is left to test,
    LimitError where there are too many windows.
    """
    first = (EPOCH + dt.timedelta(microseconds=first_ns // US)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )
    found: list[Window] = []
    for step in itertools.count():
        begin = _after(first, plan.test, step)
        test = _after(begin, plan.train, 1)
        if _ns(test) >= last_ns:
            break
        if step == WINDOWS_MAX:
            raise LimitError(
                f"tests of {plan.test} make more than {WINDOWS_MAX:,} windows of these data\n"
                "help: take a longer test in the walk-forward, or fewer data"
            )
        end = min(_ns(_after(test, plan.test, 1)), last_ns)
        found.append(Window(max(_ns(begin), first_ns), _ns(test), end))
    if not found:
        raise ConfigError(
            f"the data are too short to train for {plan.train} and to test after it: all points "
            f"are warm from {first:%Y-%m-%d} on, and the last bar is of "
            f"{EPOCH + dt.timedelta(microseconds=last_ns // US):%Y-%m-%d}\n"
            "help: take longer data, or a shorter train in the walk-forward"
        )
    return found


def windows_of(sweep: Sweep, plan: Plan) -> list[Window]:
    """The windows of a sweep's data but for those whose test has no bar, as a weekend has none.

    ConfigError where a training has none: nothing could be chosen in it.
    """
    bar_ns = sweep.bar_ns
    found = []
    for window in windows(plan, sweep.start_ns, int(bar_ns[-1])):
        train, test, end = np.searchsorted(bar_ns, astuple(window), side="right")
        if test == end:
            continue
        if train == test:
            raise ConfigError(
                f"the training of {plan.train} before "
                f"{show_instant(window.test_ns)} has no {sweep.moment}\nhelp: take a longer train"
            )
        found.append(window)
    return found


def _after(moment: dt.datetime, length: Length, times: int) -> dt.datetime:
    """`times` lengths later by the calendar; a day that a month does not have is its last."""
    count = length.count * times
    if length.unit in ("d", "w"):
        return moment + dt.timedelta(days=count * (7 if length.unit == "w" else 1))
    months = moment.year * 12 + moment.month - 1 + count * (12 if length.unit == "y" else 1)
    year, month = divmod(min(months, LAST_MONTH), 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _ns(moment: dt.datetime) -> int:
    since = moment - EPOCH
    return since.days * DAY_US * US


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
    cuts = windows_of(sweep, plan)
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
