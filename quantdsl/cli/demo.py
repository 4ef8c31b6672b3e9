"""`quantdsl demo`: a shipped strategy on the built-in market, to see a report."""

from pathlib import Path

import click

STRATEGY = "strategies/sma_cross.qdsl"


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/demo"),
    show_default=True,
    help="Folder of the report and the tables.",
)
def command(out: Path) -> None:
    """Backtest the shipped sma_cross.qdsl on the built-in market and write its report."""
    from quantdsl.backtest.run import backtest
    from quantdsl.cli.output import finish, progress_bar
    from quantdsl.shipped import shipped

    strategy = shipped(STRATEGY)
    with progress_bar(strategy.name) as progress:
        result = backtest(strategy, progress=progress)
    finish(result, out)
    click.echo(f"\nThe strategy is {strategy}. Write your own: quantdsl new my_idea")
