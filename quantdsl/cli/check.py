"""`quantdsl check`: what is wrong with a strategy, and what it costs to run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quantdsl.cli.options import HOSTS
from quantdsl.errors import EXIT_USER_ERROR, LimitError

if TYPE_CHECKING:
    from quantdsl.check import Checked
    from quantdsl.lang.diagnostics import Diagnostic

EXIT_LOOKAHEAD = 1
EXIT_RACE = 1


@click.command("check")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as one JSON document.")
@click.option("--causality", is_flag=True, help="Rerun on cut data: no signal may change.")
@click.option("--races", is_flag=True, help="Run each kernel's threads and watch its memory.")
@click.option("--data", metavar="PATH", help="Data for --causality; the built-in market if absent.")
@HOSTS
def command(
    file: Path,
    as_json: bool,
    causality: bool,
    races: bool,
    data: str | None,
    hosts: tuple[str, ...],
) -> int:
    """Check the strategy FILE: every mistake, then warm-up, state and operations of a bar.

    The exit code is 2 if there are errors and 1 if --causality finds a signal that changes, or
    --races two threads of a kernel that come to one word of memory at once.
    """
    from quantdsl.check import compile_file
    from quantdsl.lang.diagnostics import SourceError

    if as_json:
        return _as_json(file)
    checked = compile_file(file, library_too=True)
    if beyond := _over_limit(checked):
        raise SourceError(checked.source, [*checked.diagnostics, *beyond])
    if checked.diagnostics:
        click.echo(f"{SourceError(checked.source, checked.diagnostics)}\n")
    width = max((len(label) for label, _ in checked.facts), default=0)
    for label, text in checked.facts:
        click.echo(f"{label:<{width}}  {text}")
    found = _races(checked) if races else 0
    return max(found, _causality(file, data, hosts) if causality else 0)


def _as_json(file: Path) -> int:
    """The findings for tools: an empty list for a clean file."""
    from quantdsl.check import compile_file
    from quantdsl.lang.diagnostics import SourceError, has_errors, to_builtins

    try:
        checked = compile_file(file, library_too=True)
        source, diagnostics = checked.source, [*checked.diagnostics, *_over_limit(checked)]
    except SourceError as error:
        source, diagnostics = error.source, error.diagnostics
    found = {"diagnostics": [to_builtins(finding, source) for finding in diagnostics]}
    click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    return EXIT_USER_ERROR if has_errors(diagnostics) else 0


def _over_limit(checked: "Checked") -> "list[Diagnostic]":
    """What only the finished program shows: too much state, too many operations."""
    from quantdsl.lang.diagnostics import Diagnostic

    try:
        _ = checked.facts
    except LimitError as error:
        start = checked.strategy.node.name.span
        return [Diagnostic(code="QD0611", severity="error", message=str(error), span=start)]
    return []


def _races(checked: "Checked") -> int:
    """Say what the threads of each kernel do to memory that no order makes right."""
    from quantdsl.backtest.drawn import unknown
    from quantdsl.backtest.races import races

    code = 0
    for one in races(checked):
        for fault in one.faults:
            click.echo(f"race in kernel {one.kernel}: {fault}")
            code = EXIT_RACE
        if not one.faults:
            click.echo(f"kernel {one.kernel}: no race was seen among {one.seen}")
    for facts in unknown(checked):
        click.echo(f"kernel {facts.name}: not run, for only a call says its const ints")
    return code


def _causality(file: Path, data: str | None, hosts: tuple[str, ...]) -> int:
    """Say whether every signal is the same when the future is cut away."""
    from quantdsl.backtest.causality import check

    differences = check(file, data=data, hosts=hosts)
    for difference in differences:
        click.echo(f"changes with the future: {difference}")
    if not differences:
        click.echo("causality: no signal changes when the future is cut away")
    return EXIT_LOOKAHEAD if differences else 0
