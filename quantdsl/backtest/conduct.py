"""A prepared sweep from the first lane to its files, with what is said on the way."""

import json
import math
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from quantdsl.backtest.lane_study import study_on
from quantdsl.backtest.precision import measured
from quantdsl.backtest.spans import asked
from quantdsl.backtest.sweep import Progress, Sweep, run
from quantdsl.backtest.sweep_parts import MANIFEST, Parts
from quantdsl.backtest.sweep_table import result_of
from quantdsl.backtest.walkforward import walk_forward
from quantdsl.config import DEFAULT, INSTRUMENT, STRATEGY, Resolved
from quantdsl.devices.choose import hold_there, runner
from quantdsl.devices.cluster import ClusterRunner
from quantdsl.devices.cpu import cores
from quantdsl.devices.profile import Profile
from quantdsl.errors import ConfigError, QuantDSLError
from quantdsl.report.columns import choices
from quantdsl.report.statistics_grid import neighbourhood
from quantdsl.report.store import write_table
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_store import PAGE, POINTS, RESULT, TABLES, forget, save
from quantdsl.report.sweep_study import Study
from quantdsl.report.sweep_walk import WalkForward
from quantdsl.report.tables import trades
from quantdsl.report.words import plural

NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
Say = Callable[[str], None]
"""Takes one line for the user."""

BOOK_LANES_A_CORE = 320
"""From so many lanes on a book a GPU takes less time: for 8 it takes as long as for 10,000.

An H200 did beside its 16 cores from 4,000 lanes of a maker on, from 5,000 lanes where each reads a
depth of its own.
"""


class Outcome(Struct, frozen=True):
    """A finished sweep, or one that was ended: its result and what is to be said of it."""

    sweep: Sweep
    result: SweepResult
    study: Study
    walk: WalkForward | None
    walk_stopped: bool = False
    """Whether Ctrl-C ended the walk-forward; all points are done then."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left to resume."""
        return len(self.result) == self.result.planned and not self.walk_stopped


class KeptInterrupt(KeyboardInterrupt):
    """Ctrl-C where no result can be written, and a folder keeps what is computed; says so."""


GOES_ON = "the same command with --resume goes on, in Python resume=True"
WALK_STOPPED = f"the walk-forward was stopped; {GOES_ON}"
WALK_LOST = "the walk-forward was stopped, and nothing of it is kept: no out= names a folder"
ALONE = (
    "no point has another one step away whose objective is defined, so that none has "
    "surroundings: each window of the walk-forward chose its best point, as with choose = best"
)


def conduct(
    sweep: Sweep,
    say: Say,
    *,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    profile: Profile | None = None,
) -> Outcome:
    """Run the lanes, and write everything into `folder` if there is one.

    Ctrl-C ends the run: the result then has fewer rows than were planned, or no walk-forward, and
    `resume` goes on from what the folder keeps. A sweep that is complete there is refused with
    ConfigError. A profile is told of every kernel that runs on this machine.
    """
    parts = None if folder is None else Parts(folder, sweep.manifest())
    try:
        return _conduct(sweep, say, parts, resume, progress, profile)
    except KeyboardInterrupt:
        if parts is not None and parts.kept:
            raise KeptInterrupt(f"what is computed is kept in {folder}; {GOES_ON}") from None
        raise
    except OSError as refused:  # a full disk, more often than not
        if parts is not None and parts.kept:
            raise QuantDSLError(
                f"{refused.filename or folder}: {refused.strerror or refused}\n"
                f"help: what is computed is kept in {folder}; when that is mended, {GOES_ON}"
            ) from None
        raise
    finally:
        if parts is not None:
            parts.release()


def _conduct(
    sweep: Sweep,
    say: Say,
    parts: Parts | None,
    resume: bool,
    progress: Progress | None,
    profile: Profile | None,
) -> Outcome:
    folder = None if parts is None else parts.folder
    if folder is not None and resume and left_complete(sweep, folder):
        raise ConfigError(
            f"{folder} holds all {sweep.n_points:,} points of this sweep: there is nothing to "
            "resume\nhelp: without resume=True it is run anew"
        )
    config = sweep.config
    plan = asked(sweep.arranged.resolved)
    name = placed_on(sweep)
    device = ClusterRunner(name) if config.on == "ray" else runner(name, say, profile)
    walk, walk_stopped = None, False
    try:
        device.compile(sweep.work)
        say(said(sweep))
        say(str(device.plan(sweep.work)))
        if parts is not None:
            parts.take()
        lanes = run(sweep, device, parts=parts, resume=resume, progress=progress)
        if plan is not None and lanes.complete:
            try:
                walk = walk_forward(
                    sweep,
                    plan,
                    device,
                    steady=config.choose == "steady",
                    folder=folder,
                    resume=resume,
                    progress=progress,
                )
            except KeyboardInterrupt:  # the points are done, and their result is worth having
                walk_stopped = True
        result = result_of(sweep, lanes, device.name)
        if walk_stopped:
            note = WALK_LOST if parts is None else WALK_STOPPED
            result = replace(result, notes=(*result.notes, note))
        if walk is not None and walk.steady and not neighbourhood(result).tried.any():
            walk = replace(walk, steady=False)
            result = replace(result, notes=(*result.notes, ALONE))
        if sweep.precision != "f64":
            result = replace(result, difference=measured(sweep, lanes, result, device))
        result = replace(result, best=sweep.single(sweep.place(best_point(result))))
        found = study_on(device, result, n_resamples=config.bootstrap, seed=config.seed)
    finally:
        device.close()
    if parts is not None:
        save(result, found, parts.folder, config.top, walk)
        if lanes.complete and not walk_stopped:
            parts.finish()
    return Outcome(sweep, result, found, walk, walk_stopped)


def hold(resolved: Resolved) -> None:
    """UnavailableError where the device of a sweep is not there."""
    config = resolved.config.sweep
    if config.on == "here":
        hold_there(config.device)


def placed_on(sweep: Sweep) -> str:
    """The device that is asked for: `auto` is the cores for few lanes on a book."""
    few = sweep.n_points < BOOK_LANES_A_CORE * len(cores())
    name = sweep.config.device
    return "cpu" if name == "auto" and sweep.work.common and few else name


def said(sweep: Sweep) -> str:
    """What is run, before it is."""
    return (
        f"{sweep.grid.describe()}: {sweep.n_points:,} of {sweep.grid.size:,} points, "
        f"{plural(len(sweep.bar_ns), sweep.moment)}, all trade from {sweep.start}"
    )


def best_point(result: SweepResult) -> int:
    """The number of the point that ranks first."""
    return result.number(int(result.ranked(1)[0]))


def left_complete(sweep: Sweep, folder: Path) -> bool:
    """Whether the folder holds all results of this very sweep: then it is left with them alone,
    without the parts that a kill may have left beside them.
    """
    parts = Parts(folder, sweep.manifest())
    if parts.complete:
        parts.clear()
    return parts.complete


def save_all(folders: Sequence[Path], folder: Path) -> None:
    """Write the points of the sweeps in `folders` as one table, with the name of each first."""
    tables = []
    for one in folders:
        with pa.ipc.open_file(one / f"{POINTS}.arrow") as file:
            table = file.read_all()
        column = choices(np.zeros(table.num_rows, np.int64), [one.name])
        tables.append(table.add_column(0, "instrument", column))
    write_table(pa.concat_tables(tables), folder, POINTS)


def clear(folder: Path) -> None:
    """Remove what a sweep left in `folder`, where several are to have folders of their own: until
    they are done there is no table of all, and never a report of one."""
    for name in TABLES:
        (folder / name).unlink(missing_ok=True)
    if (folder / RESULT).is_file():  # else it may be a backtest that left a report
        forget(folder)
        for name in (RESULT, PAGE, MANIFEST):
            (folder / name).unlink(missing_ok=True)


def save_trades(sweep: Sweep, numbers: Sequence[int], folder: Path) -> None:
    """Write the trades of these points, those of their single backtests."""
    for number in numbers:
        write_table(trades(sweep.single(sweep.place(number))), folder, f"trades-{number}")


def best_config(sweep: Sweep, result: SweepResult, target: Path) -> str:
    """The best point as the config `target` of a backtest: its params, and all that was chosen."""
    tables: dict[str, dict[str, object]] = {"": {}}
    for entry in sweep.arranged.resolved.entries:
        table, _, key = entry.key.rpartition(".")
        if entry.source not in (DEFAULT, STRATEGY, INSTRUMENT) and table != "sweep":
            tables.setdefault(table, {})[key] = entry.value
    tables.pop("")
    row = int(result.ranked(1)[0])
    params = sweep.params(sweep.place(result.number(row)))
    tables["params"] = {
        name: json.loads(text) if NUMBER.fullmatch(text) else text for name, text in params.items()
    }
    begin = ("--from", sweep.start)
    again = ("quantdsl", "backtest", str(sweep.path), "--config", str(target), *begin)
    which = f"The best of {plural(len(result), 'point')} by {result.objective}"
    if result.score[row] == -math.inf:
        which = f"{result.objective} is not defined for any point: the first of {len(result):,}"
    lines = [
        f"# {which}. Run it with:",
        f"# {shlex.join(again)}",
        "# Without --from it trades as soon as it is warm itself, not from where all points did.",
    ]
    for table, values in tables.items():
        lines += ["", f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """A value of a config as TOML writes it; a string is one as in JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
