"""`quantdsl sim`: simulated sessions whose feed, disk and process fail as a seed says."""

import tempfile
from pathlib import Path

import click


@click.command("sim")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="The first seed.")
@click.option("--count", type=click.IntRange(min=1), default=1, help="How many seeds.")
def command(seed: int, count: int) -> None:
    """Run sessions whose feed, disk and process fail, and hold them to what they promise.

    A seed gives the same run bit for bit; one that breaks a promise is an error that names it.
    """
    from quantdsl.live.simulator import Market, Simulation

    market = Market.opened()
    for one in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            ran = Simulation(market, one, Path(folder)).run()
        click.echo(
            f"seed {one}: {ran.events:,} events, {ran.records:,} records, {ran.kills} kills, "
            f"{ran.failures} failures of the disk, {ran.digest[:16]}"
        )
