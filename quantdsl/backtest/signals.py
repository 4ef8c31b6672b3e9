"""Signals: every equation of a strategy over all of its instruments and the whole history.

    prepared = prepare_signals(checked, data="spy.parquet")
    for batch in prepared.batches(): ...        # pyarrow.RecordBatch: time, instrument, equations

The equations are those of a backtest, evaluated by the same code (check/signal_turn.py) without
handlers, orders and an account, so the values are the ones that a backtest sees at the close of
that bar, or at that tick. Memory is bounded: events are read ahead by a chunk and rows leave chunk
by chunk.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

import quantdsl
from quantdsl.backtest import hosted, values
from quantdsl.backtest.panel_device import DeviceTurn
from quantdsl.backtest.panels import PanelTurn
from quantdsl.backtest.placement import Size, placement
from quantdsl.backtest.prepare import arrange, begin, hold_admitted
from quantdsl.backtest.program import Memory
from quantdsl.backtest.silence import never_started, no_members
from quantdsl.backtest.turns import Events, Turn, loaded
from quantdsl.check import Checked
from quantdsl.check.panel_stages import unstaged
from quantdsl.check.placing import pinned
from quantdsl.check.signal_turn import ROW_WORDS, Column, Signals
from quantdsl.check.types import MISSING
from quantdsl.data.events import Data
from quantdsl.data.tick_data import RunData
from quantdsl.devices.choose import first_panel, panel_on
from quantdsl.devices.measured import lanes_at_once, rates
from quantdsl.devices.panels import Opened
from quantdsl.errors import ConfigError, UnavailableError
from quantdsl.ir.interp import Interpreter
from quantdsl.report.columns import TIME, flags, numbers, times, values_of
from quantdsl.report.result import Float64s, Int64s
from quantdsl.report.signal_report import SignalReport
from quantdsl.report.signal_study import Cells, study

T = TypeVar("T")
INSTRUMENT = pa.dictionary(pa.int32(), pa.string())
TYPES = {"float": pa.float64(), "int": pa.int64(), "bool": pa.bool_(), "time": TIME}
CLOSE = "close of the bar"
INSIDE = "in the universe"
"""Columns of what a description needs; no equation can have such a name."""
OF_THOSE = "described are the bars of who is in the universe then; the table has all of them"
OWN = ("time", "instrument")
"""Columns of every table."""
BARS_WEIGHED = 200_000
"""Of fewer, cores have made the signals before a GPU is open."""
CORES = ("auto", "cpu")
"""Values of --device that mean the cores of this machine."""


class PreparedSignals(Struct, frozen=True, dict=True):
    """Signals that are ready for their first event; asked again, they begin anew.

    `constants` are equations that params alone decide, which are no series and no columns;
    `needed` names the last columns, those of a description, with their kinds;
    `empty_reasons` say why rows, or values across a universe, are not there at all.
    """

    checked: Checked
    data: RunData
    turn: Turn | PanelTurn | DeviceTurn
    columns: tuple[Column, ...]
    constants: tuple[str, ...]
    needed: Mapping[str, str]
    chosen: Mapping[str, Fraction]
    notes: tuple[str, ...]
    empty_reasons: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Time, instrument, the equations; what was run stands in the metadata."""
        named = [(one.name, TYPES[one.kind]) for one in self.columns]
        named += [(name, TYPES[kind]) for name, kind in self.needed.items()]
        return pa.schema(
            [("time", TIME), ("instrument", INSTRUMENT), *named], metadata=self.metadata
        )

    @cached_property
    def metadata(self) -> dict[str, str]:
        """Strategy, data, params and version, as a backtest writes them into run.json."""
        by_name = {param.name: param for param in self.checked.strategy.params}
        params = {name: values.show(by_name[name], value) for name, value in self.chosen.items()}
        text = self.checked.source.text
        return {
            "quantdsl.strategy": self.checked.strategy.name,
            "quantdsl.source_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "quantdsl.data": self.data.name,
            "quantdsl.data_sha256": self.data.sha256,
            "quantdsl.version": quantdsl.__version__,
            "quantdsl.params": msgspec.json.encode(params).decode(),
        }

    def batches(self, chunks: Iterable[Events] | None = None) -> Iterator[pa.RecordBatch]:
        """Rows in order of time, then of the instruments' declaration.

        `chunks` are whole instants of events that are at hand already; None reads the data.
        """
        schema = self.schema
        words = pa.array([one.name for one in self.data.instruments], pa.string())
        events = ahead(self.data.chunks()) if chunks is None else chunks
        for rows in ahead(self.turn.pieces(events)):
            if rows.shape[1]:
                yield pa.record_batch(list(self._arrays(rows, words)), schema=schema)

    def table(self, chunks: Iterable[Events] | None = None) -> pa.Table:
        """All rows; see `batches`."""
        return pa.Table.from_batches(ahead(self.batches(chunks)), schema=self.schema)

    def described(self, table: pa.Table) -> SignalReport:
        """The description of `table`, which holds all rows with their closes."""
        checked, meta = self.checked, self.metadata
        time_ns = values_of(table["time"].cast(pa.int64()))
        instrument = _codes(table["instrument"])
        across = checked.strategy.universe is not None
        inside = np.ones(len(table), np.bool_)
        if INSIDE in self.needed:
            inside = _floats(table[INSIDE]) == 1.0
        cells = Cells.of(time_ns, instrument, _floats(table[CLOSE]), inside, across=across)
        order = np.argsort(instrument, kind="stable")
        names = [one.name for one in self.columns if one.kind != "time"]
        return SignalReport(
            strategy=checked.strategy.name,
            source_path=checked.source.path,
            source_text=checked.source.text,
            version=quantdsl.__version__,
            data_name=self.data.name,
            data_sha256=meta["quantdsl.data_sha256"],
            params=msgspec.json.decode(meta["quantdsl.params"]),
            instruments=tuple(one.name for one in self.data.instruments),
            across=across,
            rows=len(table),
            start_ns=int(time_ns[0]) if len(time_ns) else 0,
            end_ns=int(time_ns[-1]) if len(time_ns) else 0,
            studies=tuple(study(cells, names, (_floats(table[name])[order] for name in names))),
            notes=(*self.notes, *self.data.notes),
        )

    def _arrays(self, rows: Int64s, words: pa.Array) -> Iterator[pa.Array]:
        yield times(rows[0])
        yield pa.DictionaryArray.from_arrays(numbers(rows[1].astype(np.int32)), words)
        kinds = [*(one.kind for one in self.columns), *self.needed.values()]
        for kind, column in zip(kinds, rows[ROW_WORDS:], strict=True):
            yield _array(kind, column)


def prepare_signals(
    checked: Checked,
    *,
    start: str | None = None,
    device: str = "auto",
    closes: bool = False,
    **options: Any,
) -> PreparedSignals:
    """Merge the settings, open the data, load the code, fill the state.

    Rows begin at `start`; `options` are those of `arrange`. With `closes` the last columns hold
    what a description needs. Raises DataError or ConfigError with one message that says how to
    mend it.
    """
    opened = None if device == "auto" else panel_on(str(device))
    notes: tuple[str, ...] = ()
    signals = turn_of(checked, closes=closes)
    arranged = arrange(checked, **options)
    checked = arranged.sized(checked)
    if checked.strategy.universe is not None:  # whose columns hold those of the data alone
        checked = checked.sized(len(arranged.data.instruments))
    chosen = values.chosen(checked.strategy.params, arranged.given)
    turn: Turn | PanelTurn | DeviceTurn
    if why := unstaged(checked.strategy):
        hold_staged(device, why)
        turn = loaded(checked, signals, arranged.uses, arranged.data, chosen)
        hold_admitted(checked, turn.executor, turn.memory, chosen)
    else:
        module = checked.signals_module(signals, arranged.uses)
        memory = Memory(module)
        values.write(memory, checked.strategy.params, chosen)
        hold_admitted(checked, Interpreter(module), memory, chosen)
        given = checked, signals, arranged.data, chosen
        if device == "auto":
            opened, notes = best_panel(checked, signals, arranged.data)
        turn = PanelTurn(*given) if opened is None else DeviceTurn(*given, opened)
    hosted.attach(checked, arranged.data, arranged.uses, chosen, arranged.hosts)
    since_ns = np.iinfo(np.int64).min
    if start is not None:
        turn.since(since_ns := begin(start, arranged.data.spec))
    return PreparedSignals(
        checked=checked,
        data=arranged.data,
        turn=turn,
        columns=signals.shown,
        constants=tuple(signals.constants),
        needed=({CLOSE: "float"} if closes else {})
        | ({INSIDE: "bool"} if signals.partaking else {}),
        chosen=chosen,
        notes=(*((OF_THOSE,) if signals.partaking else ()), *arranged.notes, *notes),
        empty_reasons=(*never_started(since_ns, arranged.data), *no_members(arranged.data)),
    )


def best_panel(
    checked: Checked, signals: Signals, data: RunData
) -> tuple[Opened | None, tuple[str, ...]]:
    """What opens the panel of these signals where they are best computed, and what to tell of it.

    A GPU is looked for only where it would be the place.
    """
    count = len(data.instruments)
    bars = data.rows if isinstance(data, Data) else 0
    if bars < BARS_WEIGHED and pinned(checked.strategy) is None:
        return None, ()
    size = Size(count, max(bars // count, 1), lanes_at_once())
    place = placement(checked, signals, size, rates(gpu=False), rates(gpu=True))
    if not place.on_gpu:
        return None, ()
    opened, why = first_panel()
    told = f"computed on {why or 'a GPU'}: {place.why}"
    return opened, (told if opened is not None else f"no GPU: {why}; computed on cores",)


def hold_staged(device: str, why: str) -> None:
    """UnavailableError where a strategy whose signals have no stages is to go on a device."""
    if device not in CORES:
        raise UnavailableError(
            f"--device {device}: the signals of this strategy are computed on a core of this "
            f"machine, for {why}\nhelp: leave --device out, or write --device cpu"
        )


def turn_of(checked: Checked, *, closes: bool = False) -> Signals:
    """The turn of a strategy; raises where it has no equation that is a series."""
    strategy = checked.strategy
    if strategy.ticks and closes:
        raise UnavailableError(
            f"{checked.source.path}: signals of a strategy on ticks have no description: what they "
            "foretell is a return from one close to another, and ticks have none\n"
            "help: ask for the table alone, or write the equations on bars in a file of their own"
        )
    turn = Signals(checked.assembly, closes=closes)
    for one in turn.shown:
        if one.name in OWN:
            raise ConfigError(
                f"{checked.source.path}: the equation {one.name!r} is called like a column that "
                "each table of signals has\nhelp: give it another name"
            )
    if turn.shown:
        return turn
    why = "it has no equation"
    if turn.constants:
        named = ", ".join(turn.constants)
        why = f"params alone decide {named}, and no other equation is there"
    raise ConfigError(
        f"{checked.source.path}: there are no signals: {why}\n"
        "help: add one at the level of the strategy, such as: let fast = ta.sma(close, 10)"
    )


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The same items; another thread makes the next one while this one is used."""
    source, end = iter(items), object()
    with ThreadPoolExecutor(1) as worker:
        coming = worker.submit(next, source, end)
        while (item := coming.result()) is not end:
            coming = worker.submit(next, source, end)
            yield item  # type: ignore[misc]  # it is not the end


def _codes(column: pa.ChunkedArray) -> Int64s:
    """The number of each row's instrument."""
    pieces = [piece.indices for piece in column.chunks]
    return values_of(pa.chunked_array(pieces, pa.int32())).astype(np.int64)


def _floats(column: pa.ChunkedArray) -> Float64s:
    """A column as floats: true is 1, null is NaN."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return values_of(pc.fill_null(column.cast(pa.float64(), safe=False), np.nan))


def _array(kind: str, words: Int64s) -> pa.Array:
    """A column of what a row holds of it; null where it is missing."""
    if kind == "float":
        floats = words.view(np.float64)
        return numbers(floats, np.isnan(floats))
    missing = words == MISSING
    if kind == "bool":
        return flags(words == 1, missing)
    return times(words, missing) if kind == "time" else numbers(words, missing)
