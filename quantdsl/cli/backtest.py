"""`quantdsl backtest`: one strategy over market data, with a report."""

from pathlib import Path
from typing import Any

import click

from quantdsl.config import find
from quantdsl.errors import ConfigError

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def assignments(
    pairs: tuple[str, ...],
    option: str = "--set",
    form: str = "NAME=VALUE, such as fast=10",
) -> dict[str, str]:
    """`("fast=5", "slow=20")` as a mapping; ConfigError where one has no name or no value."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise ConfigError(f"{option} {pair} sets nothing\nhelp: write {option} {form}")
        values[name.strip()] = value.strip()
    return values


@click.command("backtest")
@click.argument("file", type=FILE)
@click.option(
    "--data",
    metavar="PATH",
    help="CSV, Parquet or Arrow file, or a folder of them; without it the built-in market.",
)
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set a param of the file.")
@click.option("--from", "start", metavar="DATE", help="Start trading here; earlier bars warm up.")
@click.option("--to", "end", metavar="DATE", help="Stop before this date.")
@click.option("--config", metavar="FILE|NAME", help="Costs, instruments and data as TOML.")
@click.option("--benchmark", metavar="PATH|hold", help="Compare with a file or with holding.")
@click.option("--bars", metavar="5m", help="Override the clock of the strategy's bars.")
@click.option("--session", metavar="NAME|none", help="Override the strategy's session.")
@click.option("--tz", metavar="ZONE", help="Time zone of times that name none (default UTC).")
@click.option(
    "--bad-rows",
    type=click.Choice(["stop", "drop"]),
    help="Stop at a bad row of the data (default), or leave it out and count it.",
)
@click.option("--trace", metavar="FROM..TO", help="Print each bar's equations, orders and fills.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the report and the tables (default out/NAME).",
)
def command(
    file: Path,
    data: str | None,
    sets: tuple[str, ...],
    start: str | None,
    end: str | None,
    config: str | None,
    benchmark: str | None,
    bars: str | None,
    session: str | None,
    tz: str | None,
    bad_rows: str | None,
    trace: str | None,
    out: Path | None,
) -> None:
    """Run the strategy FILE and write its report.

    Prints a summary and writes one HTML page, the tables of orders, fills, trades, equity and
    days (Arrow and Parquet) and the metrics (JSON). The same inputs give the same bytes.
    """
    from quantdsl.backtest.run import backtest
    from quantdsl.backtest.tracing import trace as bar_by_bar
    from quantdsl.cli.output import finish, progress_bar

    options: dict[str, Any] = {
        "data": data,
        "params": assignments(sets),
        "start": start,
        "end": end,
        "config": find(config) if config else None,
        "benchmark": benchmark,
        "bars": bars,
        "session": session,
        "tz": tz,
        "bad_rows": bad_rows,
    }
    with progress_bar(file.name) as progress:
        result = backtest(file, progress=progress, **options)
    if trace is not None:
        for line in bar_by_bar(file, trace, **options):
            click.echo(line)
    finish(result, out or Path("out") / file.stem)
