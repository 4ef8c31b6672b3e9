"""Events of a universe on their way into columns: the code that deals them, and what it keeps."""

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.program import Memory
from quantdsl.check.cross import nothing
from quantdsl.check.panel_deal import COMPLETE, ENTRY, FILLED, Table, deal_module
from quantdsl.check.panel_words import CLOCK, FACTOR, INSTANTS
from quantdsl.check.strategy import Strategy
from quantdsl.check.types import Type
from quantdsl.check.universe import initial
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.data.tick_data import RunData
from quantdsl.events.layout import Trait
from quantdsl.ir.ops import Const

Int64s = npt.NDArray[np.int64]


class Dealer:
    """Deals the events of a strategy's universe into the columns of a table."""

    def __init__(self, strategy: Strategy, table: Table, data: RunData) -> None:
        module = deal_module(strategy, table)
        self.table = table
        self.program = load(module, native(), Cache())
        memory = Memory(module)
        if FACTOR in table.kept:
            for number in range(table.count):
                path = f"e.instruments[{number}].money_per_tick_lot"
                memory.set(path, data.limits(number).money_per_tick_lot)
        self.words = memory.words

    def begin(self) -> "Dealing":
        """A pass through all events."""
        return Dealing(self)


class Dealing:
    """One pass through the events: the times of the rows that are filled, and what goes on."""

    def __init__(self, dealer: Dealer) -> None:
        table = dealer.table
        begins = [[kept_begins(name, table)] * table.lanes for name in table.kept]
        self.now = np.array(begins, np.int64).reshape(-1)
        self.table = table
        self.clock = np.zeros((2, table.instants), np.int64)
        self.times, self.midnights = self.clock
        self.program, self.words = dealer.program, dealer.words.copy()
        self.told = np.zeros(3, np.int64)

    @property
    def filled(self) -> int:
        """Rows that are filled."""
        return int(self.told[FILLED])

    @property
    def gaps(self) -> bool:
        """Whether one of them lacks a bar."""
        return bool(self.told[COMPLETE] < self.told[FILLED])

    def take(self, events: Int64s, cells: Int64s, seen: Int64s) -> int:
        """Deal events, a row of words each and whole instants, while there is room; how many."""
        return int(
            self.program.call(
                ENTRY, self.words, events.reshape(-1), len(events), cells.reshape(-1),
                seen.reshape(-1), self.clock.reshape(-1), self.now, self.told,
            )
        )  # fmt: skip

    def of_instants(self, before: int) -> dict[str, Int64s]:
        """What the columns of one word an instant hold; so many instants were before."""
        n = self.filled
        words = {
            INSTANTS: before + 1 + np.arange(n),
            CLOCK["now"]: self.times[:n],
            CLOCK["midnight"]: self.midnights[:n],
        }
        return {name: one for name, one in words.items() if name in self.table.columns}

    def empty(self) -> None:
        """The rows have been taken."""
        self.told[[FILLED, COMPLETE]] = 0


def kept_begins(name: str, table: Table) -> int:
    """A trait, or a factor, before the first event that tells of it."""
    if name == FACTOR:
        return int(np.float64(1.0).view(np.int64))
    return trait_begins(table.traits[table.kept.index(name)])


def trait_begins(trait: Trait) -> int:
    """A trait before the first event that tells of it."""
    begins = initial(trait)
    assert isinstance(begins, Const)
    return begins.bits


def nothing_word(type_: Type) -> int:
    """What stands in a column for who is missing."""
    missing = nothing(type_)
    assert isinstance(missing, Const)
    return missing.bits
