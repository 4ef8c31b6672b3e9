"""The equations of a strategy as loaded code with its memory: what signals and hosts both drive."""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.backtest import values
from quantdsl.backtest.program import Memory
from quantdsl.backtest.settings import write_instruments
from quantdsl.check import Checked
from quantdsl.check.signal_turn import ENTRY, ROW_WORDS, Signals
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.data.instrument import Listed
from quantdsl.events.layout import Kind

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]


class Turn(Struct, frozen=True):
    """Code, the state before the first event, and how many words a row has."""

    executor: Any
    memory: Memory
    width: int
    instruments: int

    def since(self, time_ns: int) -> None:
        """Tell no row from before this time."""
        self.memory.set("trade_from", time_ns)

    def pieces(self, chunks: Iterable[Events]) -> Iterator[Int64s]:
        """i64[word, row] of all events, some at a time; begins anew."""
        state = self.begin()
        for events in chunks:
            yield self.rows(state, events)

    def begin(self) -> Int64s:
        """A state that is ready for the first event."""
        state = self.memory.words.copy()
        self.executor.call("init", state)
        return state

    def rows(self, state: Int64s, events: Events) -> Int64s:
        """i64[word, row] of these events; they are whole instants."""
        count = len(events)
        # A timer may close a bar of each instrument; all else is about one.
        closings = int(np.count_nonzero(events["kind"] == Kind.TIMER))
        room = count + closings * (self.instruments - 1)
        out = np.empty(self.width * room, np.int64)
        flat = np.ascontiguousarray(events).view(np.int64).reshape(-1)
        rows = self.executor.call(ENTRY, state, flat, count, out, room)
        return out.reshape(self.width, room)[:, :rows]


def loaded(
    checked: Checked,
    signals: Signals,
    uses: frozenset[str],
    data: Listed,
    chosen: Mapping[str, Fraction],
) -> Turn:
    """The turn of a strategy that is made for the instruments of the data."""
    module = checked.signals_module(signals, uses)
    memory, program = Memory(module), load(module, native(), Cache())
    write_instruments(memory, data)
    if "money_scale" in memory.layout.slots("State"):
        memory.set("money_scale", 10.0**data.money_digits)
    values.write(memory, checked.strategy.params, chosen)
    memory.set("trade_from", np.iinfo(np.int64).min)
    width = ROW_WORDS + len(signals.shown) + bool(signals.closes) + len(signals.partaking)
    return Turn(program, memory, width, len(data.instruments))
