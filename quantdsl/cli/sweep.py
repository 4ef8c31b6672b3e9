"""`quantdsl sweep`: one strategy at many points of its params."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from quantdsl.cli.options import FILE, LISTED, assignments, of_market, with_config
from quantdsl.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from quantdsl.backtest.conduct import Outcome
    from quantdsl.backtest.sweep import Progress, Sweep

OF_THE_SWEEP = """
    points seed objective metrics top device on precision walk_forward choose bootstrap
""".split()
"""Options that are settings of the section `sweep`."""


@click.command("sweep")
@click.argument("file", type=FILE)
@of_market
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="NAME=LOW..HIGH:STEP",
    help="Sweep a param over this range, or over values: NAME=5,10,20.",
)
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Keep a param at a value.")
@click.option("--points", metavar="grid|random:N|sobol:N", help="All points, or a subset of N.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of a subset (default 1).")
@click.option("--objective", metavar="METRIC", help="What ranks the points (default sharpe).")
@click.option(
    "--metrics",
    metavar=f"METRIC{LISTED}",
    callback=lambda _context, _option, text: None if text is None else _names(text),
    help="Of each point, such as fees,max_drawdown (default all): fewer is faster.",
)
@click.option("--top", type=click.IntRange(1, 1000), help="Best points to show (default 10).")
@click.option("--device", metavar="auto|cpu|simulated|cuda:N|all", help="Where the lanes run.")
@click.option("--on", type=click.Choice(["here", "ray"]), help="This machine, or a Ray cluster.")
@click.option("--profile", is_flag=True, help="Print each kernel's times, and write a trace.")
@click.option("--precision", type=click.Choice(["f64", "f32"]), help="Of equations.")
@with_config("Costs, data and the sweep's own settings.")
@click.option(
    "--walk-forward",
    metavar="'train=2y test=6mo'",
    help="Choose the best point of each span and try it on the next.",
)
@click.option(
    "--choose",
    type=click.Choice(["best", "steady"]),
    help="What a span of --walk-forward chooses: the best point or the best surroundings.",
)
@click.option("--bootstrap", type=click.IntRange(0, 1_000_000), help="Resample the best's trades.")
@click.option(
    "--trades",
    "traded",
    multiple=True,
    type=int,
    metavar="POINT",
    help="Write the trades of the point of this number too.",
)
@click.option(
    "--resume", is_flag=True, help="Go on with a sweep that was ended, in the same --out."
)
@click.option(
    "--save-best",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Write the best point as a config for quantdsl backtest.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the report and the tables (default out/NAME.sweep).",
)
def command(
    file: Path,
    traded: tuple[int, ...],
    resume: bool,
    profile: bool,
    save_best: Path | None,
    out: Path | None,
    **options: Any,
) -> int:
    """Backtest the points of FILE's params: which are good, and how likely by luck.

    A param with a range is swept, and `require` says which points are left out. All points start
    to trade at one bar. Ctrl-C keeps what is done, and --resume goes on from there.
    """
    from quantdsl.backtest.conduct import clear, hold, left_complete, save_all, save_trades
    from quantdsl.backtest.prepare import files_read
    from quantdsl.backtest.sweep import files_of, prepare_sweeps
    from quantdsl.check import compile_file
    from quantdsl.files import writable

    folder = out or Path("out") / f"{file.stem}.sweep"
    checked = compile_file(file)
    data = options.pop("data")
    files = files_of(checked, data)
    several = len(files) > 1
    folders = _folders(folder, files) if several else [folder]
    bests = [save_best] * len(files)
    if save_best is not None and several:
        bests = [save_best.with_stem(f"{save_best.stem}-{one.name}") for one in folders]
    for target in filter(None, bests):
        writable(target, file, *files_read(data, options["config"]))
    sweeps = prepare_sweeps(checked, file, files, hold=hold, **_prepared(**options))
    for turn, (sweep, place, best) in enumerate(zip(sweeps, folders, bests, strict=True)):
        for number in traded:
            sweep.place(number)
        if several and not turn:  # nothing of the first was refused
            clear(folder)
        if resume and left_complete(sweep, place):
            save_trades(sweep, traded, place)
            missing = best is not None and not best.exists()
            later = f"; {best} is written by a run without --resume" if missing else ""
            click.echo(f"{place} is complete and left as it is{later}")
            continue
        extras = Extras(traded, best, profile)
        status = _one(sweep, place, extras, resume=resume)
        if status:
            return status
    if several:
        save_all(folders, folder)
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class Extras(NamedTuple):
    """What is asked for beside the sweep itself."""

    traded: tuple[int, ...]
    save_best: Path | None
    profile: bool


def _one(sweep: "Sweep", folder: Path, extras: Extras, *, resume: bool) -> int:
    """One sweep from its first lane to its last file; the exit code."""
    from quantdsl.backtest.conduct import GOES_ON, KeptInterrupt, best_config, conduct, save_trades
    from quantdsl.devices.profile import Profile
    from quantdsl.files import whole
    from quantdsl.report.sweep_store import TRACE

    profile = Profile() if extras.profile else None
    try:
        with _progress(sweep.path.name) as progress:
            outcome = conduct(
                sweep, click.echo, folder=folder, resume=resume, progress=progress, profile=profile
            )
    except KeptInterrupt as kept:
        click.echo(f"interrupted: {kept}", err=True)
        return EXIT_INTERRUPTED
    _show(outcome, folder)
    save_trades(sweep, extras.traded, folder)
    if extras.save_best is not None:
        with whole(extras.save_best) as path:
            said = best_config(sweep, outcome.result, extras.save_best)
            path.write_text(said, encoding="utf-8")
    if profile is not None:
        with whole(folder / TRACE) as path:
            path.write_text(profile.trace(), encoding="utf-8")
        click.echo(f"trace   {folder / TRACE}\n\n{profile.table()}")
    if outcome.complete:
        return 0
    result = outcome.result
    rest = ", the walk-forward is not" if outcome.walk_stopped else ""
    click.echo(
        f"interrupted: {len(result):,} of {result.planned:,} points are done and written{rest}; "
        f"{GOES_ON}",
        err=True,
    )
    return EXIT_INTERRUPTED


def _folders(folder: Path, files: list[str]) -> list[Path]:
    """A folder in `folder` for each file, of its name; numbered where two have the same."""
    names = [Path(file).name.split("#")[-1].split(".")[0] for file in files]
    if len(set(names)) < len(names):  # each, for another file may have the name of one with number
        names = [f"{name}-{number}" for number, name in enumerate(names, 1)]
    return [folder / name for name in names]


def _show(outcome: "Outcome", folder: Path) -> None:
    from quantdsl.cli.output import told_files
    from quantdsl.report.sweep_store import PAGE
    from quantdsl.report.sweep_summary import show
    from quantdsl.report.terminal import Terminal

    terminal = Terminal()
    show(outcome.result, outcome.study, terminal, outcome.sweep.config.top, outcome.walk)
    told_files(terminal, folder / PAGE, folder)


def _prepared(
    *, ranges: tuple[str, ...], sets: tuple[str, ...], config: Path | None, **options: Any
) -> dict[str, Any]:
    """The arguments of `prepare_sweeps` that the options say."""
    own = {name: options.pop(name) for name in OF_THE_SWEEP}
    return {
        "ranges": assignments(ranges, "--range", "NAME=LOW..HIGH:STEP, such as fast=5..50:5"),
        "params": assignments(sets),
        "sweep": {name: value for name, value in own.items() if value is not None},
        "config": config,
        **options,
    }


@contextmanager
def _progress(what: str) -> "Iterator[Progress | None]":
    """A bar on stderr with points a second and the time left; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{speed:,.0f} points/s" if speed else "")

    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
