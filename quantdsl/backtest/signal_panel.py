"""Signals of a universe as matrices, a row an instant and a column an instrument.

They stay where they were computed, in memory of the host or of a GPU, and other libraries take them
from there (devices/columns.py). A number of the universe as a whole stands in all of its row; any
other is missing where its instrument has no bar.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.panel_device import DeviceTurn
from quantdsl.backtest.panels import PanelTurn
from quantdsl.backtest.signals import PreparedSignals
from quantdsl.backtest.turns import Events
from quantdsl.check.panel_builder import Form
from quantdsl.check.panel_kernels import kernels
from quantdsl.check.panel_stages import stages, unstaged
from quantdsl.check.signal_turn import ROW_WORDS, Signals
from quantdsl.check.types import MISSING
from quantdsl.devices.columns import HOST, Column, Matrices, Place
from quantdsl.errors import UnavailableError
from quantdsl.ir.ops import CANONICAL_NAN_BITS

Int64s = npt.NDArray[np.int64]


class SignalPanel(Mapping[str, Column]):
    """Signals by name. `times` are the closes of the rows in ns, UTC, `instruments` the symbols of
    the columns."""

    def __init__(
        self, times: Int64s, instruments: tuple[str, ...], columns: Mapping[str, Column]
    ) -> None:
        self.times, self.instruments, self._columns = times, instruments, columns

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        shape = f"{len(self.times):,} instants x {len(self.instruments):,} instruments"
        return f"<SignalPanel of {len(self)} signals, {shape}>"


def signal_panel(prepared: PreparedSignals) -> SignalPanel:
    """Compute prepared signals and leave them there.

    Raises UnavailableError where a strategy's signals have no such form, DataError or DeviceError
    as they occur.
    """
    strategy, turn = prepared.checked.strategy, prepared.turn
    if why := unstaged(strategy):
        raise UnavailableError(
            f"{prepared.checked.source.path}: its signals have no matrices, for {why}\n"
            "help: quantdsl.signals gives the same values as a table"
        )
    assert isinstance(turn, PanelTurn | DeviceTurn)
    kinds = [one.kind for one in turn.signals.table]
    fill = np.array([missing_word(kind) for kind in kinds], np.int64)
    chunks = prepared.data.chunks()
    if isinstance(turn, DeviceTurn):
        times, made = turn.resident(chunks, fill)
    else:
        times, made = on_host(turn, chunks, fill)
    columns = {
        one.name: made.column(number, "<f8" if one.kind == "float" else "<i8")
        for number, one in enumerate(prepared.columns)
    }
    return SignalPanel(times, tuple(one.name for one in prepared.data.instruments), columns)


def missing_word(kind: str) -> int:
    """What stands for a missing value in a column."""
    return CANONICAL_NAN_BITS if kind == "float" else MISSING


def on_host(
    turn: PanelTurn, chunks: Iterable[Events], fill: Int64s
) -> tuple[Int64s, Matrices]:
    """The rows that cores compute, each in its place."""
    common = common_columns(turn.signals)
    times: list[Int64s] = [np.empty(0, np.int64)]
    parts: list[Int64s] = [np.empty((len(fill), 0, turn.count), np.int64)]
    for rows in turn.pieces(chunks):
        at, first, instant = np.unique(rows[0], return_index=True, return_inverse=True)
        part = np.empty((len(fill), len(at), turn.count), np.int64)
        for number, word in enumerate(fill):
            column = rows[ROW_WORDS + number]
            if number in common:
                part[number] = column[first, None]
                continue
            part[number] = word
            part[number, instant, rows[1]] = column
        times.append(at)
        parts.append(part)
    words = np.concatenate(parts, 1)
    _, instants, count = words.shape
    place = Place(words, words.ctypes.data, HOST)
    return np.concatenate(times), Matrices(place, (instants, count), instants, count)


def common_columns(signals: Signals) -> frozenset[int]:
    """The numbers of the columns that hold one number for all instruments of an instant."""
    made = kernels(signals, stages(signals), Form()).all
    return frozenset(number for one in made for number in one.shown_common)
