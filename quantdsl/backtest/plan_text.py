"""`quantdsl explain --stage plan`: which equations a sweep computes once, and why; of a universe
how its signals are computed."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from quantdsl.backtest import points
from quantdsl.backtest.lane_code import EVENTS, whole_plan
from quantdsl.backtest.panel_plan import panel_plan
from quantdsl.backtest.prepare import hold_hosted
from quantdsl.check import Checked, compile_file
from quantdsl.check.columns import LOAD_CPU, LOAD_GPU, WORD_BYTES, Choice
from quantdsl.errors import ConfigError, UnavailableError

HEAD = ("line", "equation", "depends on", "values", "cost", "words", "bytes", "decision")
TEXT_CHARS = 44


def plan_text(path: Path, ranges: Mapping[str, str]) -> str:
    """What a sweep over the grid of the file, with these ranges in place of its own, hoists, and
    what the kernels of its own and of its signals are.

    Raises SourceError where the file has mistakes and ConfigError or UnavailableError where there
    is nothing of that.
    """
    checked = compile_file(path)
    kernels = [f"kernel {one.name}: {one}" for one in checked.library.kernels.values()]
    signals = [*panel_plan(checked)] if checked.strategy.universe is not None else []
    more = [*kernels, *(["", *signals] if signals else [])]
    try:
        hold_hosted(checked, "a sweep")
        grid, _ = points.grid(checked.strategy.params, {}, ranges)
    except (ConfigError, UnavailableError):
        if ranges or not more:
            raise
        return "\n".join([f"{checked.strategy.name}: nothing to sweep", *more])
    return "\n".join([*_hoisted(checked, grid), *more])


def _hoisted(checked: Checked, grid: points.Grid) -> Iterator[str]:
    """Each equation, and whether a sweep computes it once."""
    of_gpu, of_cpu = (whole_plan(checked, grid, load)[1] for load in (LOAD_GPU, LOAD_CPU))
    both = {choice.number for choice in of_cpu if choice.column}
    rows = [HEAD, *(_row(checked, choice, choice.number in both) for choice in of_gpu)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(HEAD))]
    yield f"{checked.strategy.name}: {grid.describe()}, {grid.size:,} points before 'require'"
    yield (
        f"A load of a column costs as much as {LOAD_GPU} operations on a GPU, {LOAD_CPU} on "
        f"a CPU; bytes are those of {EVENTS:,} bars."
    )
    yield ""
    yield from ("  ".join(_padded(row, widths)).rstrip() for row in rows)
    yield ""
    yield _total("a GPU", of_gpu)
    yield _total("a CPU", of_cpu)
    yield from _seldom(of_gpu)


def _total(where: str, choices: list[Choice]) -> str:
    sizes = [_bytes(choice) for choice in choices if choice.column]
    return f"On {where} {len(sizes)} of {len(choices)} equations are columns, {sum(sizes):,} bytes."


def _seldom(choices: list[Choice]) -> Iterator[str]:
    """What need not be evaluated at every bar, if anything."""
    count = sum(choice.rare for choice in choices)
    if count:
        yield (
            f"{count} of them are read by timers alone, and evaluated at no other bars than those "
            "before a timer fires."
        )


def _row(checked: Checked, choice: Choice, everywhere: bool) -> tuple[str, ...]:
    line = checked.strategy.equations.all[choice.number].line
    text = checked.source.line_text(line).partition("#")[0].split()
    shown = " ".join(text)
    column = "column" if everywhere else "column on a GPU"
    return (
        str(line),
        shown if len(shown) <= TEXT_CHARS else shown[: TEXT_CHARS - 3] + "...",
        ", ".join(choice.params) or "-",
        f"{choice.distinct:,}",
        f"{choice.cost:,.0f}",
        str(choice.words),
        f"{_bytes(choice):,}" if choice.column else "-",
        column if choice.column else choice.why,
    )


def _bytes(choice: Choice) -> int:
    return choice.distinct * choice.words * EVENTS * WORD_BYTES


def _padded(row: tuple[str, ...], widths: list[int]) -> Iterator[str]:
    """Numbers to the right, words to the left."""
    for name, cell, width in zip(HEAD, row, widths, strict=True):
        right = name not in ("equation", "depends on", "decision")
        yield cell.rjust(width) if right else cell.ljust(width)
