"""A run as a folder of files, and back.

    run.json        what was run: strategy, data, params, settings, hashes, notes, warnings
    metrics.json    name -> value, null where a metric is not defined or infinite
    NAME.parquet    orders, fills, trades, equity, days; the same table as NAME.arrow (Arrow IPC)
    report.html     the page

Equal runs give byte-identical files: nothing here reads a clock. They are written apart and take
their names together, run.json last: whatever ends a process, no files of two runs are read as one.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from quantdsl.errors import DataError
from quantdsl.events.layout import Kind
from quantdsl.files import renewed, whole
from quantdsl.report import tearsheet
from quantdsl.report.result import RunResult, Setting
from quantdsl.report.tables import tables

RUN, METRICS, PAGE = "run.json", "metrics.json", "report.html"


class RunInfo(msgspec.Struct, frozen=True):
    """run.json: what was run, in words."""

    strategy: str
    source_path: str
    source_sha256: str
    version: str
    data: str
    data_sha256: str
    currency: str
    instruments: tuple[str, ...]
    first_bar_ns: int
    last_bar_ns: int
    bars: int
    params: dict[str, str]
    settings: tuple[Setting, ...]
    rejected: dict[str, int]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


GROUP_ROWS = 1 << 16
"""A writer holds a whole group of rows in memory."""


class SavedRun(Struct, frozen=True):
    """What `load` finds in a folder."""

    path: Path
    info: RunInfo
    metrics: dict[str, float]  # NaN where the file says null
    trades: pa.Table


def info_of(result: RunResult) -> RunInfo:
    """The words of a run without its arrays."""
    ts = result.curve_ts
    return RunInfo(
        strategy=result.strategy,
        source_path=result.source_path,
        source_sha256=result.source_sha256,
        version=result.version,
        data=result.data_name,
        data_sha256=result.data_sha256,
        currency=result.currency,
        instruments=tuple(instrument.name for instrument in result.instruments),
        first_bar_ns=int(ts[0]) if len(ts) else 0,
        last_bar_ns=int(ts[-1]) if len(ts) else 0,
        bars=len(ts),
        params=dict(result.params),
        settings=result.settings,
        rejected=result.reasons_of(Kind.REJECT),
        notes=result.notes,
        warnings=result.warnings,
    )


def save(result: RunResult, metrics: Mapping[str, float], folder: Path) -> Path:
    """Write every file of a run into `folder`, made if absent; the path of the page."""
    pa.default_memory_pool().release_unused()  # the data's, which nothing reads any more
    with renewed(folder, RUN) as apart:
        for name, table in tables(result).items():
            write_table(table, apart, name)
        finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
        for name, content in ((RUN, info_of(result)), (METRICS, finite)):
            encoded = msgspec.json.format(msgspec.json.encode(content), indent=2)
            (apart / name).write_bytes(encoded + b"\n")
        (apart / PAGE).write_text(tearsheet.page(result, metrics), encoding="utf-8")
    return folder / PAGE


def write_table(table: pa.Table, folder: Path, name: str) -> None:
    """Write a table as NAME.parquet and NAME.arrow."""
    words = [column.name for column in table.schema if column.type == pa.string()]
    with whole(folder / f"{name}.parquet") as path:
        pq.write_table(
            table, path, compression="zstd", use_dictionary=words, row_group_size=GROUP_ROWS
        )
    with whole(folder / f"{name}.arrow") as path, pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


def load(folder: Path) -> SavedRun:
    """Read a folder that `save` wrote; raises DataError where it is not one."""
    try:
        info = msgspec.json.decode((folder / RUN).read_bytes(), type=RunInfo)
        values = msgspec.json.decode((folder / METRICS).read_bytes(), type=dict[str, float | None])
        trades = pq.read_table(folder / "trades.parquet")
    except FileNotFoundError as error:
        from quantdsl.report.folders import instead

        found = "" if (folder / RUN).exists() else instead(folder)
        missing = (
            f": it has no {Path(error.filename).name}.\n"
            "help: give the folder that 'quantdsl backtest --out FOLDER' wrote"
        )
        raise DataError(f"{folder} is not the folder of a run{found or missing}") from None
    except (msgspec.MsgspecError, pa.ArrowInvalid) as error:
        raise DataError(
            f"{folder} was written by another version of quantdsl, or is damaged: {error}\n"
            "help: run the backtest again"
        ) from None
    metrics = {name: math.nan if value is None else value for name, value in values.items()}
    return SavedRun(folder, info, metrics, trades)
