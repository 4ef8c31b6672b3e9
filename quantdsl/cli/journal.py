"""`quantdsl journal`: look into the journal of a session, copy it out, or verify it."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from quantdsl.errors import JournalError
from quantdsl.events.layout import RECORD, Kind
from quantdsl.journal.reader import Segment, segment_paths, segments
from quantdsl.report.folders import instead
from quantdsl.report.order_sizes import Structs, changed
from quantdsl.report.order_words import order_words
from quantdsl.report.words import plural

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
LAST = 20
CHANGE = "change"
"""An ORDER record that gives an order new terms."""
SHOWN = (Kind.ORDER, Kind.FILL, Kind.REJECT, Kind.CANCEL, Kind.RISK)


def journals(folder: Path) -> list[Path]:
    """The journal that this folder is, or those of the strategies of the session that it is."""
    found = [one for one in (folder, *sorted(folder.iterdir())) if one.is_dir()]
    found = [one for one in found if segment_paths(one)]
    if not found:
        missing = "\nhelp: name the folder of a session"
        raise JournalError(f"{folder}: there is no journal{instead(folder) or missing}")
    return found


@click.group("journal")
def command() -> None:
    """Look into the journal of a session, copy it out, or verify it."""


@command.command("show")
@click.argument("folder", type=FOLDER)
@click.option("--last", default=LAST, show_default=True, help="Orders and fills to show.")
def show(folder: Path, last: int) -> None:
    """Show what the journals in FOLDER hold, and their last orders and fills."""
    from quantdsl.check.library import Library

    reasons = Library().reasons()
    for one in journals(folder):
        events: Counter[str] = Counter()
        records: Counter[str] = Counter()
        shown = np.empty(0, RECORD)
        span: list[int] = []
        final = None
        for segment in segments(one):
            inputs, outputs = segment.inputs(), segment.outputs()
            events.update(_counted(inputs))
            records.update(_counted(outputs))
            if len(inputs):
                span = [
                    span[0] if span else int(inputs["ts_event"][0]),
                    int(inputs["ts_event"][-1]),
                ]
            told = outputs[np.isin(outputs["kind"], SHOWN)]
            shown = np.concatenate([shown, told])[-last:] if last else shown
            final = segment
        click.echo(f"{one}: {_ending(final)}")
        if span:
            click.echo(f"  from {_time(span[0])} to {_time(span[1])}")
        click.echo(f"  {plural(events.total(), 'event')}: {_kinds(events)}")
        click.echo(f"  {plural(records.total(), 'record')}: {_kinds(records)}")
        for record, change in zip(shown, changed(shown), strict=True):
            click.echo(f"  {_line(record, reasons, change=bool(change))}")


@command.command("export")
@click.argument("folder", type=FOLDER)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True,
    help="Where the tables go: for each journal events.parquet and records.parquet.",
)  # fmt: skip
def export(folder: Path, out: Path) -> None:
    """Write the journals in FOLDER as Parquet tables, every word of every event and record.

    Of a damaged journal what lies before the damage is written; the exit code tells of it.
    """
    for one in journals(folder):
        target = out / one.name
        target.mkdir(parents=True, exist_ok=True)
        with _Tables(target) as tables:
            for segment in segments(one):
                tables.write(segment)
        click.echo(
            f"{target}: {plural(tables.events, 'event')}, {plural(tables.records, 'record')}"
        )


@command.command("verify")
@click.argument("folder", type=FOLDER)
def verify(folder: Path) -> None:
    """Read every byte of the journals in FOLDER and check it; damage is an error."""
    for one in journals(folder):
        count, final = 0, None
        for segment in segments(one):
            count, final = count + 1, segment
        click.echo(f"{one}: {plural(count, 'segment')} whole, {_ending(final)}")


class _Tables:
    """The two Parquet files of one journal, written a segment at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writers: dict[str, Any] = {}
        self.events = self.records = 0

    def __enter__(self) -> "_Tables":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self.writers.values():
            writer.close()

    def write(self, segment: Segment) -> None:
        """Add a segment to both."""
        import pyarrow.parquet as pq

        from quantdsl.events.arrow import table_of

        for name, rows in (("events", segment.inputs()), ("records", segment.outputs())):
            table = table_of(rows)
            if name not in self.writers:
                path = self.folder / f"{name}.parquet"
                self.writers[name] = pq.ParquetWriter(path, table.schema, compression="zstd")
            self.writers[name].write_table(table)
        self.events += len(segment.inputs())
        self.records += len(segment.outputs())


def _ending(final: Segment | None) -> str:
    if final is None:
        return "nothing was written"
    if final.ended:
        return "ended in order"
    if final.torn:
        return f"killed in the middle of a write: {final.torn:,} bytes of it are left out"
    return "killed, or still running"


def _counted(rows: Structs) -> dict[str, int]:
    """How many there are of each kind; a change of an order is no order."""
    kinds, counts = np.unique(rows["kind"], return_counts=True)
    found = {Kind(kind).name.lower(): int(n) for kind, n in zip(kinds, counts, strict=True)}
    if changes := int(changed(rows).sum()):
        found |= {"order": found["order"] - changes, CHANGE: changes}
    return found


def _kinds(counts: Counter[str]) -> str:
    named = sorted((kind.replace("_", " "), n) for kind, n in counts.items() if n)
    return ", ".join(f"{n:,} {name}" for name, n in named) or "none"


def _time(ts: int) -> str:
    return f"{np.datetime64(int(ts), 'ns')} UTC"


def _line(record: np.void, reasons: Mapping[int, str], *, change: bool) -> str:
    """A record in words; a journal knows lots and ticks, and not what they are worth."""
    kind = CHANGE if change else Kind(record["kind"]).name.lower()
    words = order_words(record, reasons, "{:+,} lots".format, "{:,} ticks".format)
    if words is None:
        code, value, most = (int(record[name]) for name in "abc")
        words = f"{reasons.get(code, f'limit {code}')}: {value:,} against {most:,}"
    return f"{_time(record['ts_event'])}  {kind:<6} instrument {record['instrument']}  {words}"
