"""`quantdsl replay`: run a session again from its journal, and prove that it comes out the same."""

import hashlib
from pathlib import Path

import click

from quantdsl.errors import JournalError
from quantdsl.events.layout import Kind
from quantdsl.journal.recovery import recover
from quantdsl.live import manifest
from quantdsl.report.folders import instead
from quantdsl.report.order_sizes import Structs, changed
from quantdsl.report.words import plural


def parts_of(folder: Path) -> list[tuple[Path, str]]:
    """(session, strategy) of each strategy in a session's folder, or of one strategy's own."""
    if (folder / manifest.FILE).exists():
        return [(folder, part.name) for part in manifest.read(folder).strategies]
    if (folder.parent / manifest.FILE).exists():
        return [(folder.parent, folder.name)]
    missing = "\nhelp: name the folder of a session, or of a strategy in it"
    raise JournalError(f"{folder}: is no session{instead(folder) or missing}")


@click.command("replay")
@click.argument("journal", type=click.Path(exists=True, file_okay=False, path_type=Path))
def command(journal: Path) -> None:
    """Feed the events of the session JOURNAL to the same strategy, as a backtest.

    Every order, fill and other record must come out as the session wrote it, byte for byte.
    """
    for session, name in parts_of(journal):
        prepared = manifest.prepared(session, name)
        run = prepared.run
        run.memory.set("curve_on", False)
        before = len(run.all_records())
        digest = manifest.read(session).digest
        back = recover(run, session / name, manifest_digest=digest, whole=True)
        records = run.all_records()[before : before + back.outputs]
        everything = plural(back.outputs, "record")
        told = f"{plural(back.inputs, 'event')} again: {_trades(records)}, all {everything}"
        click.echo(f"{name}: {told} the same, byte for byte")
        click.echo(f"  SHA-256 of the records {hashlib.sha256(records.tobytes()).hexdigest()}")
        if len(back.fresh):
            more = plural(len(back.fresh), "record")
            click.echo(f"  {more} more, which the session did not live to write")


def _trades(records: Structs) -> str:
    """Orders, their changes and fills, counted."""
    changes = int(changed(records).sum())
    orders = int((records["kind"] == Kind.ORDER).sum()) - changes
    fills = int((records["kind"] == Kind.FILL).sum())
    parts = [plural(orders, "order"), plural(changes, "change"), plural(fills, "fill")]
    return ", ".join(part for part in parts if changes or part != parts[1])
