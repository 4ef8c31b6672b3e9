"""Events, records and journals for the tests of journals."""

from pathlib import Path

import numpy as np

from quantdsl.events.layout import EVENT, RECORD, Kind
from quantdsl.journal.format import BlockKind
from quantdsl.journal.reader import read
from quantdsl.journal.writer import Journal, Policy

DIGEST = bytes(range(32))
AT_ONCE = Policy(segment_bytes=1 << 30)


def events(first: int, count: int) -> np.ndarray:
    """Events first, first + 1, ...: each is told from every other by its time."""
    made = np.zeros(count, EVENT)
    made["ts_event"] = made["ts_recv"] = np.arange(first, first + count)
    made["kind"] = Kind.TRADE
    made["payload"] = np.random.default_rng(first).integers(1, 1 << 40, (count, 5))
    return made


def records(first: int, count: int) -> np.ndarray:
    return events(first, count).view(RECORD)


def opened(folder: Path, **options) -> Journal:
    """A journal that commits when it is told to."""
    return Journal.open(
        folder, **{"manifest_digest": DIGEST, "threaded": False, "policy": AT_ONCE, **options}
    )


def written(folder: Path, frames: int, *, each: int = 1, end: bool = False, **options) -> None:
    """A journal of so many frames: `each` records, twice as many events, a short note in each."""
    journal = opened(folder, **options)
    for k in range(frames):
        journal.inputs(events(2 * k * each, 2 * each))
        journal.outputs(records(1000 + k * each, each))
        journal.note(7, f"note {k}".encode())
        journal.commit()
    if end:
        journal.close()
    else:
        journal.abandon()


def contents(folder: Path) -> tuple[np.ndarray, np.ndarray, list[bytes]]:
    """(events, records, notes) of a journal."""
    found = list(read(folder))
    inputs = [part for kind, part in found if kind == BlockKind.INPUT]
    outputs = [part for kind, part in found if kind == BlockKind.OUTPUT]
    notes = [part for kind, part in found if kind == BlockKind.NOTE]
    return (
        np.concatenate([events(0, 0), *inputs]),
        np.concatenate([records(0, 0), *outputs]),
        notes,
    )
