"""The summary of a sweep in the terminal: best points, what they are worth, how to run them."""

from collections.abc import Iterable, Sequence

from quantdsl.data.many import fewer, named
from quantdsl.report.metrics import BY_NAME
from quantdsl.report.sweep_result import SweepResult
from quantdsl.report.sweep_store import RESULT
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
from quantdsl.report.terminal import EMPTY, Column, Terminal, Text, indented, table, text
from quantdsl.report.words import date, moment, plural

SHOWN = ("sharpe", "total_return", "max_drawdown", "trades", "profit_factor")
"""Metrics beside the objective, as far as the terminal is wide."""
NARROW = 100
STYLES = {"good": "bold green", "open": "bold yellow", "bad": "bold red"}


def show(
    result: SweepResult,
    study: Study,
    terminal: Terminal,
    top: int = 10,
    walk: WalkForward | None = None,
) -> None:
    """Print the summary, with the best `top` points; the verdict comes first."""
    rows = result.ranked(top).tolist()
    width = terminal.width
    tone, said = verdict(result, study)
    terminal.print(text(said, STYLES[tone]), EMPTY, _heading(result), EMPTY)
    if rows:
        terminal.print(*_points(result, study, rows, width), EMPTY, wrap=False)
    terminal.print(*_sentences(sentences(result, study), width))
    if result.difference is not None:
        terminal.print(EMPTY, *_differences(result, width), EMPTY)
    if walk is not None:
        terminal.print(EMPTY, text(f"walk-forward, train {walk.train}, test {walk.test}", "bold"))
        terminal.print(*_sentences(walk_sentences(walk), width))
    terminal.print(*(text(f"warning: {warning}", "yellow") for warning in result.warnings))
    terminal.print(*(text(f"note: {note}", "dim") for note in fewer(result.notes, RESULT)))
    _commands(result, rows, terminal)


def _heading(result: SweepResult) -> Text:
    """What was swept, over what, from when on."""
    span = f"{date(result.start_ns)} to {date(result.end_ns)}"
    heading = text(result.strategy, "bold") + text(
        f" on {named(result.instruments)}"
        f" · {plural(len(result), 'point')} · {span} · {plural(result.bars, result.moment)}"
    )
    heading += text(f" · {result.data_name}", "dim")
    swept = ", ".join(f"{axis.name} = {extent(axis.levels)}" for axis in result.axes)
    heading += text(f"\n{swept}", "cyan")
    fixed = ", ".join(f"{name} = {value}" for name, value in result.fixed.items())
    if fixed:
        heading += text(f", {fixed}", "dim cyan")
    return heading + text(
        f"\nall points trade from {moment(result.start_ns)} UTC · {result.device}", "dim"
    )


def _points(result: SweepResult, study: Study, rows: Sequence[int], width: int) -> list[Text]:
    """The best points, one row each."""
    metrics = result.shown(SHOWN)[: 3 if width < NARROW else None]
    titles = [BY_NAME[name].title for name in metrics]
    names = [axis.name for axis in result.axes]
    cells = []
    for place, row in enumerate(rows, 1):
        first, *others = (metric_text(result, name, row) for name in metrics)
        around = neighbours_text(result, study, row)
        style = "bold" if place == 1 else ""
        shown = (f"{place}", *result.params(row).values(), first, around, *others)
        cells.append([text(value, style) for value in shown])
    columns = [Column(name, right=True) for name in ["#", *names, titles[0], "Neighbours"]]
    columns += [Column(title, right=True) for title in titles[1:]]
    return table(cells, columns, width)


def _differences(result: SweepResult, width: int) -> list[Text]:
    """How far each metric is from what it is in f64; those that are not in one line."""
    found = differences(result)
    rows = [one for one in found if one[1] != "0"]
    same = sum(largest == "0" for _, largest, _ in found)
    if same:
        rows.append((f"{same} other metrics" if same < len(found) else "all", "0", "0"))
    columns = [Column(f"{result.precision} against f64")]
    columns += [Column(title, right=True) for title in ("at most", "median")]
    return table([[text(cell) for cell in row] for row in rows], columns, width)


def _sentences(said: Iterable[str], width: int) -> list[Text]:
    """Sentences with a hanging indent."""
    return [line for one in said for line in indented("· ", text(one), width)]


def _commands(result: SweepResult, rows: Sequence[int], terminal: Terminal) -> None:
    """How to run each of the best points again; a command is never broken in two lines."""
    if rows:
        terminal.print(EMPTY, text("run one again:"))
    for place, row in enumerate(rows, 1):
        line = f"{place:>3}  point {result.number(row)}  {result.command(row)}"
        terminal.print(text(line), wrap=False)
