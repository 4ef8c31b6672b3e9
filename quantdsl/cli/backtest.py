"""`quantdsl backtest`: one strategy over market data, with a report."""

from pathlib import Path
from typing import Any

import click

from quantdsl.cli.options import FILE, HOSTS, assignments, of_market, with_config
from quantdsl.errors import ConfigError

ON_A_CORE = ("auto", "cpu")


def _hold_device(_context: click.Context, _option: click.Parameter, choice: str) -> None:
    """ConfigError for a device that runs lanes: a backtest is one run, with all its records."""
    if choice not in ON_A_CORE:
        raise ConfigError(
            f"--device {choice}: a backtest is one run, which leaves all its orders and fills: one "
            f"core of this machine runs it (auto, cpu)\n"
            "help: quantdsl sweep FILE --device auto|cpu|simulated|cuda:N|all runs points of its "
            "params there, and quantdsl verify FILE holds every device to the same bits"
        )


@click.command("backtest")
@click.argument("file", type=FILE)
@of_market
@HOSTS
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set a param of the file.")
@with_config("Costs, instruments and data as TOML.")
@click.option("--latency", metavar="PATH", help="Measured latencies: latency.csv of a session.")
@click.option("--benchmark", metavar="PATH|hold", help="Compare with a file or with holding.")
@click.option(
    "--device",
    default="auto",
    expose_value=False,
    callback=_hold_device,
    metavar="auto|cpu",
    help="One run is a core's: both are that. Others run sweeps.",
)
@click.option("--trace", metavar="FROM..TO", help="Print each bar's equations, orders and fills.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the report and the tables (default out/NAME).",
)
def command(
    file: Path,
    sets: tuple[str, ...],
    config: Path | None,
    latency: str | None,
    trace: str | None,
    out: Path | None,
    **options: Any,
) -> None:
    """Run the strategy FILE and write its report.

    Prints a summary and writes one HTML page, the tables of orders, fills, trades, equity and
    days (Arrow and Parquet) and the metrics (JSON). The same inputs give the same bytes.
    """
    from quantdsl.backtest.run import backtest
    from quantdsl.cli.output import finish, progress_bar

    options |= {"params": assignments(sets), "config": config}
    if latency is not None:
        options["more"] = {"venue.latency_file": latency}
    with progress_bar(file.name) as progress:
        result = backtest(file, progress=progress, **options)
    if trace is not None:
        from quantdsl.backtest.tracing import trace as bar_by_bar

        for line in bar_by_bar(file, trace, **options):
            click.echo(line)
    finish(result, out or Path("out") / file.stem)
