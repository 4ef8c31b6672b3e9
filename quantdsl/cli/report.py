"""`quantdsl report`: the tearsheet of a live session, running or over."""

from pathlib import Path

import click


@click.command("report")
@click.argument("session", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the reports (default SESSION/STRATEGY/report).",
)
def command(session: Path, out: Path | None) -> None:
    """Write the report of each strategy of SESSION, as a backtest of its journal has it."""
    from quantdsl.cli.output import finish
    from quantdsl.live.manifest import read
    from quantdsl.live.tearsheet import session_result

    for part in read(session).strategies:
        folder = out / part.name if out else session / part.name / "report"
        finish(session_result(session, part.name), folder)
