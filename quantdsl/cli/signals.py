"""`quantdsl signals`: every equation of a strategy as one table."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quantdsl.cli.options import FILE, HOSTS, assignments, of_market, with_config

if TYPE_CHECKING:
    import pyarrow as pa

    from quantdsl.report.signal_report import SignalReport

ALL_NOTES = "describe.json of --describe"


@click.command("signals")
@click.argument("file", type=FILE)
@of_market
@HOSTS
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Set a param of the file.")
@with_config("Instruments and data as TOML.")
@click.option(
    "--device", default="auto", metavar="auto|cpu|simulated|cuda:N", help="Where to compute."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="The table, .parquet or .arrow (default out/NAME.signals.parquet).",
)
@click.option(
    "--describe",
    is_flag=True,
    help="Also say how the signals are distributed and what they foretell, as a report.",
)
def command(
    file: Path,
    sets: tuple[str, ...],
    config: Path | None,
    out: Path | None,
    describe: bool,
    **options: Any,
) -> None:
    """Compute every equation of the strategy FILE and write it as one table.

    A row is a bar of an instrument, or an instant at which it ticks: its time, the instrument, and
    each 'let' of the strategy as a backtest sees it then; what is not defined yet is null. The same
    inputs give the same bytes.
    A description is printed, and written into a folder beside the table.
    """
    from quantdsl.backtest.prepare import files_read
    from quantdsl.backtest.signals import ahead, prepare_signals
    from quantdsl.check import compile_file
    from quantdsl.data.many import fewer
    from quantdsl.files import apart
    from quantdsl.report.signal_files import hold_folder, hold_path, write
    from quantdsl.report.words import plural

    target = out or Path("out") / f"{file.stem}.signals.parquet"
    hold_path(target)
    if describe:
        hold_folder(target.with_suffix(""))
    apart(target, *files_read(options["data"], config))
    options |= {"params": assignments(sets), "config": config}
    checked = compile_file(file)
    prepared = prepare_signals(checked, closes=describe, **options)
    silent = {one.name for one in prepared.columns}
    if describe:
        table = prepared.table()
        named = table.drop_columns([*prepared.needed])
        rows = write(target, named.schema, heard(named.to_batches(), silent))
        _describe(prepared.described(table), target.with_suffix(""))
    else:
        rows = write(target, prepared.schema, heard(ahead(prepared.batches()), silent))
    for name in prepared.constants:
        left = f"{name} is no series: params alone decide it, so it is left out"
        click.echo(f"note: {left}", err=True)
    if silent:
        told = f"{', '.join(sorted(silent))}: no value at any bar"
        why = "the history is shorter than what they wait for, or lacks it"
        click.echo(f"note: {told}: {'; '.join(prepared.empty_reasons) or why}")
    for note in fewer((*prepared.notes, *prepared.data.notes), ALL_NOTES):
        click.echo(f"note: {note}")
    click.echo(f"{plural(rows, 'row')} of {plural(len(prepared.columns), 'equation')}  {target}")


def heard(batches: "Iterable[pa.RecordBatch]", silent: set[str]) -> "Iterator[pa.RecordBatch]":
    """The same batches; the columns that have a value in one of them leave `silent`."""
    for batch in batches:
        silent -= {name for name in silent if batch[name].null_count < len(batch)}
        yield batch


def _describe(report: "SignalReport", folder: Path) -> None:
    """Write the files of the description, then print it."""
    from quantdsl.cli.output import console
    from quantdsl.report.signal_summary import show

    page, terminal = report.save(folder), console()
    show(report, terminal)
    terminal.print(f"\nreport  {page}", soft_wrap=True)
