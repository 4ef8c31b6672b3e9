"""A session as a finished run: its journal through the same code as a backtest, and its report."""

from pathlib import Path

import msgspec
import numpy as np

from quantdsl.backtest.run import result, run_end
from quantdsl.errors import ConfigError, JournalError
from quantdsl.events.layout import EVENT, Kind
from quantdsl.journal.reader import segments
from quantdsl.live.manifest import prepared, read
from quantdsl.report.result import RunResult
from quantdsl.report.words import plural


def session_result(folder: Path, name: str) -> RunResult:
    """What a strategy of the session in this folder has done so far, open positions at their marks.

    ConfigError where nothing has happened yet; JournalError where the journal is damaged, or the
    run does not write again what it wrote.
    """
    manifest = read(folder)
    part = manifest.part(name)
    events, records = [], []
    for segment in segments(folder / part.name, digest=manifest.digest):
        events.append(segment.inputs())
        records.append(segment.outputs())
    consumed = np.concatenate([np.empty(0, EVENT), *events])
    if not len(consumed):
        raise ConfigError(f"{folder}: nothing has happened yet in {name}: there is no report")
    ready = prepared(folder, part.name, consumed)
    ready.run.feed(consumed)
    said = b"".join(one.tobytes() for one in records)
    if not ready.run.all_records().tobytes().startswith(said):
        raise JournalError(
            f"{folder / part.name}: the replay does not write what the session wrote\n"
            "help: quantdsl journal verify says where they part"
        )
    ready.run.feed(run_end(int(max(consumed["ts_event"].max(), consumed["ts_recv"].max()))))
    made = result(ready, Path(part.path))
    fills = sum(int(np.count_nonzero(one["kind"] == Kind.FILL)) for one in records)
    beside = f"{plural(fills, 'fill')} of the session, the same in its replay, byte for byte"
    return msgspec.structs.replace(made, notes=(*made.notes, beside))
