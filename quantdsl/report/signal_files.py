"""A table of signals as one file, written as it is made.

A file is complete or not there. Groups of rows have one size whatever the batches, so equal
inputs give equal bytes.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from quantdsl.errors import ConfigError
from quantdsl.files import whole
from quantdsl.report.store import GROUP_ROWS

FORMS = (".parquet", ".arrow")


def hold_path(path: Path) -> None:
    """ConfigError where signals cannot be written under this name."""
    if path.is_dir():
        raise ConfigError(
            f"--out {path}: this is a folder, and signals are one file\n"
            f"help: name a file in it, such as --out {path / 'signals.parquet'}"
        )
    if path.suffix not in FORMS:
        raise ConfigError(
            f"--out {path}: the name says in which form to write: {' or '.join(FORMS)}\n"
            f"help: such as --out {path.with_suffix('.parquet')}"
        )


def hold_folder(folder: Path) -> None:
    """ConfigError where the description of signals cannot lie there."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(
            f"{folder}: is a file, and the description is a folder of that name\n"
            "help: give the table another name with --out"
        )


def write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write all rows into `path`; how many there were. Folders on the way are made."""
    hold_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with whole(path) as part:
        if path.suffix == ".arrow":
            with pa.ipc.new_file(part, schema) as arrow:
                for group in grouped(schema, batches):
                    arrow.write_table(group)
                    count += len(group)
        else:
            # Floats hardly repeat, so a dictionary of them costs time and saves nothing.
            with pq.ParquetWriter(
                part, schema, compression="zstd", compression_level=1, use_dictionary=WORDS
            ) as parquet:
                for group in grouped(schema, batches):
                    parquet.write_table(group)
                    count += len(group)
    return count


WORDS = ["instrument"]


def grouped(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in tables of GROUP_ROWS each, the last one of what is left."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        if count < GROUP_ROWS:
            continue
        rows = pa.Table.from_batches(waiting, schema=schema)
        cut = count - count % GROUP_ROWS
        for first in range(0, cut, GROUP_ROWS):
            yield rows.slice(first, GROUP_ROWS).combine_chunks()
        waiting, count = rows.slice(cut).to_batches(), count - cut
    if count:
        yield pa.Table.from_batches(waiting, schema=schema).combine_chunks()
