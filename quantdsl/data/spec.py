"""What a run asks of its data."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from quantdsl.data.calendar import SessionSpec
from quantdsl.data.instrument import Instrument
from quantdsl.data.signals import Awaited
from quantdsl.data.timers import Timer
from quantdsl.data.universe import Change


class SourceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One instrument of the run.

    `symbol` is the name in the strategy (`XNYS:KO`), empty for its one unnamed instrument.
    `source` is a file, a folder, `PATH#TICKER` for one of a table of many, or a live pyarrow,
    pandas or polars table; None is the built-in market. `instrument` is the user's own definition.
    """

    symbol: str = ""
    source: Any = None
    instrument: Instrument | None = None


class DataSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The data of one run. `clocks` are bar lengths, the finest first; None takes the file's own.

    `ticks` are what a strategy on ticks listens to (quotes, trades, book), empty for one on bars;
    `actions` is a file of splits, dividends and funding, empty for none;
    `format` names that of a file of ticks, and `feed_latency_ns` is how long a message took to
    arrive where the data do not tell. `latencies` is a file of measured ones, empty for none.
    `clock_shift_ns` is added to all times of ticks, of a recorder whose clock was another.

    `universe`: the instruments are those of one, of one table or one folder. `changes` are what
    a universe's files say of them; `awaited` is what asks for asynchronous signals, None where
    nothing does.

    `start` and `end` are hard cuts in ns UTC (end excluded): warm-up also comes from inside them.
    """

    instruments: tuple[SourceSpec, ...] = (SourceSpec(),)
    clocks: tuple[str, ...] | None = None
    session: SessionSpec | None = None
    timers: tuple[Timer, ...] = ()
    sync_all: bool = False
    start: int | None = None
    end: int | None = None
    time: Literal["open", "close"] = "open"
    tz: str = ""
    time_format: str | None = None
    bad_rows: Literal["stop", "drop"] = "stop"
    columns: Mapping[str, str] = {}
    seed: int = 1
    ticks: frozenset[str] = frozenset()
    actions: str = ""
    format: str = ""
    feed_latency_ns: int = 0
    latencies: str = ""
    clock_shift_ns: int = 0
    universe: bool = False
    changes: tuple[Change, ...] = ()
    awaited: Awaited | None = None
