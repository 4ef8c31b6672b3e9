"""What several commands share: the console, the end of a run, the progress bar of a long one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quantdsl.errors import ConfigError
from quantdsl.report.metrics import evaluate
from quantdsl.report.result import RunResult
from quantdsl.report.store import save
from quantdsl.report.summary import show
from quantdsl.report.terminal import EMPTY, Terminal, text

if TYPE_CHECKING:
    from rich.console import Console

    from quantdsl.backtest.run import Progress as ProgressCall


def finish(
    result: RunResult, out: Path, *, way_out: str = "name another folder with --out"
) -> None:
    """Print the summary of a run, write its files, say where they are; `way_out` is said where
    they cannot be written."""
    terminal = Terminal()
    metrics = evaluate(result)
    show(result, metrics, terminal)
    try:
        page = save(result, metrics, out)
    except OSError as refused:
        raise ConfigError(
            f"{out}: the report cannot be written: {refused.strerror or refused}\n"
            f"help: {way_out}"
        ) from None
    told_files(terminal, page, out)


def told_files(terminal: Terminal, page: Path, folder: Path) -> None:
    """Say where the files of a run are."""
    terminal.print(EMPTY, text(f"report  {page}"), text(f"tables  {folder}"), wrap=False)


def console() -> "Console":
    """A console of rich on stdout; where the reader has gone it raises BrokenPipeError, as any
    other write to stdout does, and not the exit of a failed command."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            self.quiet = True
            raise  # rich calls this while it handles the error

    return Plain(highlight=False)


@contextmanager
def progress_bar(what: str) -> "Iterator[ProgressCall | None]":
    """A progress bar on stderr that vanishes when done; None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
