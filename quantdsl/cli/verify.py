"""`quantdsl verify`: whether every target of this machine does the same with a strategy."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from quantdsl.cli.options import FILE, assignments, with_config
from quantdsl.cli.output import progress_bar

if TYPE_CHECKING:
    from quantdsl.backtest.verify import Outcome
    from quantdsl.config import Precision

EXIT_DIFFERENT = 1
IDLE = (
    "nothing is ordered here, so equal hashes say nothing of orders and fills: another --seed "
    "draws other points and another window, --set makes a warm-up shorter"
)


@click.command("verify")
@click.argument("file", type=FILE)
@click.option("--data", metavar="PATH", help="Market data; without it the built-in market.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Keep a param at a value.")
@with_config("Costs, instruments and data as TOML.")
@click.option(
    "--points",
    type=click.IntRange(1, 100_000),
    help="Points of the params' ranges to run  [default: 64, fewer where kernels are heavy]",
)
@click.option(
    "--precision",
    type=click.Choice(["f64", "f32"]),
    default="f64",
    show_default=True,
    help="Of equations, as in a sweep.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draw.")
def command(
    file: Path,
    data: str | None,
    sets: tuple[str, ...],
    config: Path | None,
    points: int | None,
    seed: int,
    precision: "Precision",
) -> int:
    """Run the strategy FILE on every target of this machine and compare all that it does.

    Prints a hash of each target's orders, fills, trades, cash and metrics at all points: equal
    hashes are equal bits. The interpreter runs a few of the points over a window of the data. The
    exit code is 1 if targets differ, and the first bar and value that do are printed.
    """
    from quantdsl.backtest.verify import verify
    from quantdsl.check import compile_file

    checked = compile_file(file)
    with progress_bar("targets") as progress:
        report = verify(
            checked,
            lambda line: click.echo(line, err=True),
            points=points,
            seed=seed,
            precision=precision,
            progress=progress,
            data=data,
            params=assignments(sets),
            config=config,
        )
    for title, outcomes in report:
        click.echo(title)
        for outcome in outcomes:
            _show(outcome)
        if not any(outcome.orders for outcome in outcomes):
            click.echo(f"  {IDLE}")
    same = all(not outcome.difference for _, outcomes in report for outcome in outcomes)
    click.echo("every target leaves the same bits" if same else "targets differ")
    return 0 if same else EXIT_DIFFERENT


def _show(outcome: "Outcome") -> None:
    click.echo(f"  {outcome.hash}  {outcome.target}")
    if outcome.difference:
        click.echo("\n".join(f"    {line}" for line in outcome.difference.splitlines()))
