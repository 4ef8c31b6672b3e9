"""`quantdsl test`: the tests that a strategy file contains."""

from pathlib import Path
from textwrap import indent

import click

from quantdsl.report.words import plural

EXIT_FAILED = 1


@click.command("test")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
def command(files: tuple[Path, ...]) -> int:
    """Run the test blocks of FILES; the exit code is 1 if one fails."""
    from quantdsl.backtest.testing import run_tests

    failed = count = 0
    for file in files:
        outcomes = run_tests(file)
        count += len(outcomes)
        for outcome in outcomes:
            mark = click.style("ok  ", "green") if outcome.passed else click.style("FAIL", "red")
            click.echo(f"{mark}  {file}:{outcome.line}  {outcome.name}")
            if not outcome.passed:
                failed += 1
                click.echo(indent(outcome.message, " " * 6))
    click.echo(f"{plural(count, 'test')}, {failed} failed")
    return EXIT_FAILED if failed else 0
