"""The summary of a sweep in the terminal: best points, what they are worth, how to run them."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from quantdsl.data.many import named
from quantdsl.report.metrics import BY_NAME
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_study import Study
from quantdsl.report.sweep_walk import WalkForward
from quantdsl.report.sweep_words import (
    differences,
    extent,
    metric_text,
    neighbours_text,
    sentences,
    verdict,
    walk_sentences,
)
from quantdsl.report.words import date, moment, plural

SHOWN = ("sharpe", "total_return", "max_drawdown", "trades", "profit_factor")
"""Metrics beside the objective, as far as the terminal is wide."""
NARROW = 100
STYLES = {"good": "bold green", "open": "bold yellow", "bad": "bold red"}


def show(
    result: SweepResult,
    study: Study,
    console: Console,
    top: int = 10,
    walk: WalkForward | None = None,
) -> None:
    """Print the summary, with the best `top` points; the verdict comes first."""
    rows = result.ranked(top).tolist()
    tone, said = verdict(result, study)
    parts: list[RenderableType] = [Text(said, style=STYLES[tone]), Text("")]
    parts += [_heading(result), Text("")]
    if rows:
        parts += [_points(result, study, rows, console.width), Text("")]
    parts += [_sentence(said) for said in sentences(result, study)]
    if result.difference is not None:
        parts += [Text(""), _differences(result), Text("")]
    if walk is not None:
        parts += [Text(f"\nwalk-forward, train {walk.train}, test {walk.test}", style="bold")]
        parts += [_sentence(said) for said in walk_sentences(walk)]
    parts += [Text(f"warning: {warning}", style="yellow") for warning in result.warnings]
    parts += [Text(f"note: {note}", style="dim") for note in result.notes]
    console.print(Group(*parts))
    _commands(result, rows, console)


def _heading(result: SweepResult) -> Text:
    """What was swept, over what, from when on."""
    symbols = named(result.instruments)
    heading = Text.from_markup(f"[bold]{escape(result.strategy)}[/bold] on {escape(symbols)}")
    span = f"{date(result.start_ns)} to {date(result.end_ns)}"
    heading.append(
        f" · {plural(len(result), 'point')} · {span} · {plural(result.bars, result.moment)}"
    )
    heading.append(f" · {result.data_name}", style="dim")
    swept = ", ".join(f"{axis.name} = {extent(axis.levels)}" for axis in result.axes)
    heading.append(f"\n{swept}", style="cyan")
    fixed = ", ".join(f"{name} = {value}" for name, value in result.fixed.items())
    if fixed:
        heading.append(f", {fixed}", style="dim cyan")
    heading.append(
        f"\nall points trade from {moment(result.start_ns)} UTC · {result.device}", "dim"
    )
    return heading


def _points(result: SweepResult, study: Study, rows: Sequence[int], width: int) -> Table:
    """The best points, one row each."""
    beside = [name for name in SHOWN if name != result.objective]
    metrics = [result.objective, *beside[: 2 if width < NARROW else len(beside)]]
    titles = [BY_NAME[name].title for name in metrics]
    table = Table(box=None, padding=(0, 1), header_style="dim")
    names = [axis.name for axis in result.axes]
    for title in ["#", *map(escape, names), titles[0], "Neighbours", *titles[1:]]:
        table.add_column(title, justify="right")
    for place, row in enumerate(rows, 1):
        first, *others = (metric_text(result, name, row) for name in metrics)
        around = neighbours_text(result, study, row)
        params = map(escape, result.params(row).values())
        style = "bold" if place == 1 else ""
        table.add_row(f"{place}", *params, first, around, *others, style=style)
    return table


def _differences(result: SweepResult) -> Table:
    """How far each metric is from what it is in f64; those that are not in one line."""
    rows = differences(result)
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for title in (f"{result.precision} against f64", "at most", "median"):
        table.add_column(title, justify="left" if title.endswith("f64") else "right")
    for title, largest, median in rows:
        if largest != "0":
            table.add_row(title, largest, median)
    same = [title for title, largest, _ in rows if largest == "0"]
    if same:
        table.add_row(f"{len(same)} other metrics" if len(same) < len(rows) else "all", "0", "0")
    return table


def _sentence(said: str) -> RenderableType:
    """A sentence with a hanging indent."""
    grid = Table.grid(padding=(0, 1))
    grid.add_row("·", Text(said))
    return grid


def _commands(result: SweepResult, rows: Sequence[int], console: Console) -> None:
    """How to run each of the best points again; a command is never broken in two lines."""
    if rows:
        console.print("\nrun one again:")
    for place, row in enumerate(rows, 1):
        command = Text(f"{place:>3}  {result.command(row)}")
        console.print(command, soft_wrap=True)
