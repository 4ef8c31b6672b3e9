"""Short ways to write tables and to read the events that they become."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantdsl.data.calendar import SessionSpec
from quantdsl.data.events import Data, open_data
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.events.layout import BAR, EVENT, MORE, Kind

Events = npt.NDArray[np.void]

XNYS = SessionSpec(calendar="XNYS")


def one(source: object, symbol: str = "", **options: object) -> Data:
    """The data of a run on one instrument."""
    spec = DataSpec(instruments=(SourceSpec(symbol=symbol, source=source),), **options)  # type: ignore[arg-type]
    return open_data(spec)


def csv(folder: Path, text: str, name: str = "bars.csv") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def events(data: Data) -> Events:
    return np.concatenate([*data.chunks(), np.empty(0, EVENT)])


def bars(data: Data, clock: int = 0, instrument: int = 0) -> Events:
    found = events(data)
    chosen = (found["kind"] == Kind.BAR) & (found["side"] == clock)
    return found[chosen & (found["instrument"] == instrument)].view(BAR)


def check_stream(data: Data) -> Events:
    """The events of the data, after what must hold for every stream."""
    chunks = list(data.chunks())
    assert all((chunk["flags"][-1] & MORE) == 0 for chunk in chunks), "a chunk ends in an instant"
    found = np.concatenate([*chunks, np.empty(0, EVENT)])
    ts = found["ts_event"]
    assert np.all(ts[1:] >= ts[:-1]), "time runs backwards"
    assert np.array_equal((found["flags"][:-1] & MORE) != 0, ts[1:] == ts[:-1])
    made = found[found["kind"] == Kind.BAR].view(BAR)
    assert np.all(made["ts_recv"] < made["ts_event"])
    assert np.all(made["low"] <= np.minimum(made["open"], made["close"]))
    assert np.all(made["high"] >= np.maximum(made["open"], made["close"]))
    assert np.all(made["low"] > 0)
    assert np.all(made["volume"] >= 0)
    return found


def utc(text: str) -> int:
    return int(np.datetime64(text, "ns").astype(np.int64))
