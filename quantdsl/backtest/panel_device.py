"""A panel's equations on a device of many threads: chunks of instants go through its kernels.

As backtest/panels.py does it on cores, to the same bits. A chunk's events are dealt into columns
while the device computes the chunk before.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from quantdsl.backtest import values
from quantdsl.backtest.panels import trait_begins
from quantdsl.backtest.program import Memory
from quantdsl.check import Checked
from quantdsl.check.panel_deal import COMPLETE, ENTRY, FILLED, Table, deal_module
from quantdsl.check.panel_kernels import INSTANTS, MONEY, SEEN, TRAIT, Form, Kernel, kernels
from quantdsl.check.panel_parts import parts
from quantdsl.check.signal_turn import ROW_WORDS, Signals
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.data.tick_data import RunData
from quantdsl.devices.panels import LANES, SLOTS, Opened, Panel, PanelKernel, PanelWork
from quantdsl.events import layout

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
CHUNK_BYTES = 1 << 26
"""Of what comes out of a chunk: enough to fill a device, and little beside its memory."""
INSTANTS_MIN = 64


class DeviceTurn:
    """The equations of a strategy on a device; see `unstaged` for those that have no stages.

    `opened` makes a panel there; `instants` are those of a chunk.
    """

    def __init__(
        self,
        checked: Checked,
        signals: Signals,
        data: RunData,
        chosen: Mapping[str, Fraction],
        opened: Opened,
        instants: int | None = None,
    ) -> None:
        self.opened = opened
        self.checked, self.signals, self.data, self.chosen = checked, signals, data, chosen
        self.count = len(data.instruments)
        self.lanes = -(-self.count // LANES) * LANES
        self.width = ROW_WORDS + len(signals.table)
        self.first_ns = int(np.iinfo(np.int64).min)
        self.stages = parts(signals)
        self.shown = len(signals.table)
        row_bytes = 8 * self.lanes * self.shown
        self.instants = instants or max(CHUNK_BYTES // row_bytes, INSTANTS_MIN)
        self.columns = self._numbered()
        self.given = sum(map(_of_host, self.columns))
        table = Table(self.columns, self.count, self.lanes, self.instants, flat=True)
        self.traits = table.traits
        self.deal = load(deal_module(table), native(), Cache())

    def _numbered(self) -> dict[str, int]:
        """The numbers of columns, those that the host fills first."""
        flat = [one for step in self.stages for one in step]
        found = kernels(self.signals, flat, Form(flat=True, gaps=True)).columns
        names = sorted({*found, SEEN}, key=lambda name: (not _of_host(name), name))
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def complete(self) -> PanelWork:
        """The kernels for chunks in which every instrument has every bar."""
        return self.work(Form(flat=True))

    @cached_property
    def gaps(self) -> PanelWork:
        """The kernels for any chunk."""
        return self.work(Form(flat=True, gaps=True))

    def work(self, form: Form) -> PanelWork:
        """The kernels of one form, with the state that lanes begin with."""
        flat = [one for step in self.stages for one in step]
        made = iter(kernels(self.signals, flat, form, self.columns).all)
        steps = [[self.kernel(next(made)) for _ in step] for step in self.stages]
        sizes = len(self.columns), self.shown, self.instants, self.lanes
        return PanelWork(steps, self.given, *sizes)

    def kernel(self, kernel: Kernel) -> PanelKernel:
        """One kernel, ready for a device."""
        module = self.checked.kernel_module(kernel, self.lanes)
        memory = Memory(module)
        values.write(memory, self.checked.strategy.params, self.chosen)
        memory.set("span", self.instants * self.lanes)
        if MONEY in kernel.host:
            memory.set(MONEY, 10.0**self.data.money_digits)
        points = np.array([self.point(path) for path in kernel.points], np.int64).reshape(-1)
        offsets = np.array([memory.slot(p).offset_words for p in kernel.points], np.int64)
        before = memory.slot("before").offset_words if kernel.stage.across else None
        across, varying = kernel.stage.across, kernel.varying
        return PanelKernel(module, across, varying, memory.words, offsets, points, before)

    def point(self, path: str) -> list[int]:
        """The unit of each lane; lanes that are nobody's are like the last."""
        numbers = [min(lane, self.count - 1) for lane in range(self.lanes)]
        unit, _, part = path.rpartition(".")[2].partition("_")
        units = [getattr(self.data.instruments[number], unit) for number in numbers]
        return [one.numerator if part == "num" else one.denominator for one in units]

    def since(self, time_ns: int) -> None:
        """Tell no row from before this time."""
        self.first_ns = time_ns

    def pieces(self, chunks: Iterable[Events]) -> Iterator[Int64s]:
        """i64[word, row] of all events, chunk by chunk; begins anew. Raises DeviceError."""
        panel = self.opened(self.complete)
        try:
            going = _Going(self, panel)
            for events in chunks:
                yield from going.taken(events)
            yield from going.rest()
        finally:
            panel.close()


class _Going:
    """One pass through the data: a chunk that is being filled, and one that is computed."""

    def __init__(self, turn: DeviceTurn, panel: Panel) -> None:
        self.turn, self.panel = turn, panel
        self.slot, self.before = 0, 0
        self.told = np.zeros(2, np.int64)
        self.times = np.empty(turn.instants, np.int64)
        begins = [[trait_begins(one)] * turn.lanes for one in turn.traits]
        self.now = np.array(begins, np.int64).reshape(-1)
        self.waiting: tuple[int, Int64s, Int64s | None] | None = None
        """The slot that is computed, its times, and who has a bar if not everyone."""
        self.cells = self._fresh()

    def _fresh(self) -> Int64s:
        cells = self.panel.given(self.slot)
        cells[self.turn.columns[SEEN]] = 0
        return cells

    def taken(self, events: Events) -> Iterator[Int64s]:
        """The rows of the chunks before the one that these events, whole instants, go on with."""
        words = np.ascontiguousarray(events).view(np.int64).reshape(-1, layout.WORDS)
        done = 0
        while done < len(words):
            left = words[done:].reshape(-1)
            seen = self.cells[self.turn.columns[SEEN]].reshape(-1)
            done += self.turn.deal.call(
                ENTRY, left, len(words) - done, self.cells.reshape(-1), seen, self.times, self.now,
                self.told,
            )  # fmt: skip
            if self.told[FILLED] == self.turn.instants:
                yield from self.full()

    def rest(self) -> Iterator[Int64s]:
        """The rows of the last chunks."""
        if self.told[FILLED]:
            yield from self.full()
        if self.waiting is not None:
            yield self.rows()

    def full(self) -> Iterator[Int64s]:
        """Start the chunk that is filled, and give the rows of the one before."""
        turn, n = self.turn, int(self.told[FILLED])
        gaps = bool(self.told[COMPLETE] < n)
        if INSTANTS in turn.columns:
            ticks = self.before + 1 + np.arange(n)
            self.cells[turn.columns[INSTANTS], :n] = ticks[:, None]
        seen = None
        if gaps:
            seen = self.cells[turn.columns[SEEN], :n, : turn.count].astype(bool)
        work = turn.gaps if gaps else turn.complete
        self.panel.start(self.slot, work, n, self.before)
        started = self.slot, self.times[:n].copy(), seen
        if self.waiting is not None:
            yield self.rows()
        self.waiting = started
        self.before += n
        self.told[:] = 0
        self.slot = (self.slot + 1) % SLOTS
        self.cells = self._fresh()

    def rows(self) -> Int64s:
        """Time, instrument and the shown columns of each bar of the chunk that is computed."""
        assert self.waiting is not None
        slot, times, seen = self.waiting
        turn, n = self.turn, len(times)
        made = self.panel.finish(slot)[:, :n, : turn.count]
        who = np.arange(turn.count)
        if seen is None:
            table = np.empty((turn.width, n * turn.count), np.int64)
            cube = table.reshape(turn.width, n, turn.count)
            cube[0], cube[1], cube[ROW_WORDS:] = times[:, None], who, made
        else:
            table = np.empty((turn.width, int(seen.sum())), np.int64)
            table[0] = np.broadcast_to(times[:, None], seen.shape)[seen]
            table[1] = np.broadcast_to(who, seen.shape)[seen]
            for number, column in enumerate(made):
                table[ROW_WORDS + number] = column[seen]
        return table[:, np.searchsorted(table[0], turn.first_ns) :]


def _of_host(name: str) -> bool:
    """Whether the host fills a column."""
    return name.startswith(("bar.", TRAIT)) or name in (SEEN, INSTANTS)
