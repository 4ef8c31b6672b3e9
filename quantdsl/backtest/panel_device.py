"""A panel's equations on a device of many threads: chunks of instants go through its kernels.

As backtest/panels.py does it on cores, to the same bits. A chunk's events are dealt into columns
while the device computes the chunk before.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.backtest import values
from quantdsl.backtest.panel_events import Dealer
from quantdsl.backtest.panels import units
from quantdsl.backtest.program import Memory
from quantdsl.check import Checked
from quantdsl.check.panel_builder import AHEAD, MONEY, SKIPPED, Form, Kernel
from quantdsl.check.panel_deal import Table
from quantdsl.check.panel_kernels import kernels
from quantdsl.check.panel_parts import parts
from quantdsl.check.panel_words import SEEN, of_host
from quantdsl.check.signal_turn import ROW_WORDS, Signals
from quantdsl.data.events import Data
from quantdsl.data.tick_data import RunData
from quantdsl.devices.columns import Matrices
from quantdsl.devices.panels import (
    LANES,
    SLOTS,
    Amid,
    Opened,
    Panel,
    PanelKernel,
    PanelWork,
    piece_rows,
)
from quantdsl.events import layout

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
CHUNK_BYTES, CHUNK_BYTES_MAX = 1 << 26, 1 << 28
"""Of what comes out of a chunk: enough to fill a device, and little beside its memory; and at most,
where kernels look far back, since the first bars of a chunk go on from the one before uncut."""
CHUNK_LOOKS = 4
"""A chunk then has so many times the bars that they look at."""
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
        far = min(CHUNK_LOOKS * self.looks, CHUNK_BYTES_MAX // row_bytes)
        self.instants = instants or max(CHUNK_BYTES // row_bytes, far, INSTANTS_MIN)
        self.columns = self._numbered()
        self.given = sum(map(of_host, self.columns))
        table = Table(self.columns, self.count, self.lanes, self.instants, flat=True)
        self.dealer = Dealer(checked.strategy, table, data)
        self._lacking: dict[int, PanelWork] = {}

    def _numbered(self) -> dict[str, int]:
        """The numbers of columns, those that the host fills first."""
        flat = [one for step in self.stages for one in step]
        found = kernels(self.signals, flat, Form(flat=True, gaps=True)).columns
        names = sorted({*found, SEEN}, key=lambda name: (not of_host(name), name))
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def complete(self) -> PanelWork:
        """The kernels for chunks in which every instrument has every bar."""
        return self.work(Form(flat=True))

    @cached_property
    def uneven(self) -> PanelWork:
        """Those for chunks after one with gaps: instruments stand at other bars, so no instant is
        the begin of a block for all of them."""
        return self.complete.uneven()

    @cached_property
    def gaps(self) -> PanelWork:
        """The kernels for chunks with gaps; see `lacking`."""
        return self.work(Form(flat=True, gaps=True))

    def lacking(self, bars: int) -> PanelWork:
        """Those for chunks in which an instrument lacks at most so many bars within what windows
        look at."""
        if bars not in self._lacking:
            self._lacking[bars] = self.gaps.lacking(bars)
        return self._lacking[bars]

    @cached_property
    def looks(self) -> int:
        """How many bars those look at that are cut in time where some are lacking."""
        stages = [one.window for step in self.stages for one in step if one.window is not None]
        return max((one.lead for one in stages if one.heavy and one.anywhere), default=0)

    def work(self, form: Form) -> PanelWork:
        """The kernels of one form, with the state that lanes begin with."""
        flat = [one for step in self.stages for one in step]
        made = iter(kernels(self.signals, flat, form, self.columns).all)
        steps = [[self.kernel(next(made), form) for _ in step] for step in self.stages]
        sizes = len(self.columns), self.shown, self.instants, self.lanes
        return PanelWork(steps, self.given, *sizes)

    def kernel(self, kernel: Kernel, form: Form) -> PanelKernel:
        """One kernel, ready for a device."""
        module = self.checked.kernel_module(kernel, self.lanes)
        memory = Memory(module)
        values.write(memory, self.checked.strategy.params, self.chosen)
        memory.set("span", self.instants * self.lanes)
        if MONEY in kernel.host:
            memory.set(MONEY, 10.0**self.data.money_digits)
        assert module.given is not None
        paths = [path for path in kernel.points if path in module.given.paths]
        stored = [memory.stored(path, units(self.data, path, self.lanes)) for path in paths]
        points = np.array(stored, np.int64).reshape(-1, self.lanes)
        offsets = np.array([memory.slot(path).offset_words for path in paths], np.int64)
        before = memory.slot("before").offset_words if kernel.stage.across else None
        across, varying = kernel.stage.across, kernel.varying
        made = PanelKernel(module, across, varying, memory.words, offsets, points, before)
        window = kernel.stage.window
        if window is None or (form.gaps and not (window.heavy and window.anywhere)):
            return made
        template, skipped = memory.words.copy(), memory.slot(SKIPPED.name).offset_words
        template[skipped] = window.lead
        # A lane's words begin a row behind those of the same instrument's lane of the piece before.
        rows = piece_rows(window, (self.instants, self.lanes), len(template))
        most = max(self.instants // rows, 1)
        ahead = np.repeat(np.arange(most) * (rows - 1), self.lanes)
        points = np.concatenate([np.tile(points, most), ahead[None]])
        offsets = np.append(offsets, memory.slot(AHEAD.name).offset_words)
        return made._replace(window=window, amid=Amid(rows, template, offsets, points, skipped))

    def since(self, time_ns: int) -> None:
        """Tell no row from before this time."""
        self.first_ns = time_ns

    def pieces(self, chunks: Iterable[Events]) -> Iterator[Int64s]:
        """i64[word, row] of all events, chunk by chunk; begins anew. Raises DeviceError."""
        panel = self.opened(self.complete)
        try:
            yield from map(self.rows, _Going(self, panel).through(chunks))
        finally:
            panel.close()

    def resident(self, chunks: Iterable[Events], fill: Int64s) -> tuple[Int64s, Matrices]:
        """The times of all instants, and the shown columns as they stay on the device.

        `fill` is what a cell of each of them holds that nobody computes. Raises DeviceError.
        """
        panel = self.opened(self.complete)
        try:
            panel.keep()
            times = [done.times for done in _Going(self, panel, fill).through(chunks)]
            made = panel.kept(self.count)
        finally:
            panel.close()
        every = np.concatenate([np.empty(0, np.int64), *times])
        before = int(np.searchsorted(every, self.first_ns))
        return every[before:], made.after(before)

    def rows(self, done: "_Done") -> Int64s:
        """Time, instrument and the shown columns of each bar of a chunk."""
        times, seen, n = done.times, done.seen, len(done.times)
        assert done.made is not None
        made = done.made[:, :n, : self.count]
        who = np.arange(self.count)
        if seen is None:
            table = np.empty((self.width, n * self.count), np.int64)
            cube = table.reshape(self.width, n, self.count)
            cube[0], cube[1], cube[ROW_WORDS:] = times[:, None], who, made
        else:
            table = np.empty((self.width, int(seen.sum())), np.int64)
            table[0] = np.broadcast_to(times[:, None], seen.shape)[seen]
            table[1] = np.broadcast_to(who, seen.shape)[seen]
            for number, column in enumerate(made):
                table[ROW_WORDS + number] = column[seen]
        return table[:, np.searchsorted(table[0], self.first_ns) :]


class _Done(NamedTuple):
    """A chunk that is computed: its times, who has a bar if not everyone, and what is shown."""

    times: Int64s
    seen: Int64s | None
    made: Int64s | None


class _Going:
    """One pass through the data: a chunk that is being filled, and one that is computed."""

    def __init__(self, turn: DeviceTurn, panel: Panel, fill: Int64s | None = None) -> None:
        self.turn, self.panel, self.fill = turn, panel, fill
        self.slot, self.before = 0, 0
        self.even = True
        """Whether every instrument had every bar so far."""
        self.begun = np.zeros(turn.count, bool)
        """Who had a bar so far."""
        self.dealing = turn.dealer.begin()
        self.waiting: tuple[int, Int64s, Int64s | None] | None = None
        """The slot that is computed, its times, and who has a bar if not everyone."""
        self.cells = self._fresh()

    def _fresh(self) -> Int64s:
        cells = self.panel.given(self.slot)
        cells[self.turn.columns[SEEN]] = 0
        return cells

    def through(self, chunks: Iterable[Events]) -> Iterator[_Done]:
        """What is computed of these events, which are whole instants each."""
        for events in chunks:
            yield from self.taken(events)
        if self.dealing.filled:
            yield from self.full()
        if self.waiting is not None:
            yield self.done()

    def taken(self, events: Events) -> Iterator[_Done]:
        """The chunks before the one that these events go on with."""
        words = np.ascontiguousarray(events).view(np.int64).reshape(-1, layout.WORDS)
        done = 0
        while done < len(words):
            seen = self.cells[self.turn.columns[SEEN]]
            done += self.dealing.take(words[done:], self.cells, seen)
            if self.dealing.filled == self.turn.instants:
                yield from self.full()

    def full(self) -> Iterator[_Done]:
        """Start the chunk that is filled, and give the one before."""
        turn, n, gaps = self.turn, self.dealing.filled, self.dealing.gaps
        for name, words in self.dealing.of_instants(self.before).items():
            self.cells[turn.columns[name], :n] = words[:, None]
        # Lanes that are nobody's are like the last: prices of 0 would be divided the long way.
        self.cells[:, :n, turn.count :] = self.cells[:, :n, turn.count - 1 : turn.count]
        seen = None
        if gaps:
            seen = self.cells[turn.columns[SEEN], :n, : turn.count].astype(bool)
        self.even = self.even and not gaps
        work = turn.complete if self.even else turn.uneven
        if seen is not None:
            work = turn.lacking(self.lacking(seen, int(self.dealing.times[n - 1])))
        self.begun |= True if seen is None else seen.any(axis=0)
        self.panel.start(self.slot, work, n, self.before, self.fill if gaps else None)
        started = self.slot, self.dealing.times[:n].copy(), seen
        if self.waiting is not None:
            yield self.done()
        self.waiting = started
        self.before += n
        self.dealing.empty()
        self.slot = (self.slot + 1) % SLOTS
        self.cells = self._fresh()

    def lacking(self, seen: Bools, time_ns: int) -> int:
        """As `most_lacking`, of the chunk up to this time; few numbers, since each has kernels."""
        if not self.turn.looks:
            return 0
        data = self.turn.data
        assert isinstance(data, Data)  # what has stages is on bars
        ended = data.ended(time_ns)
        most = most_lacking(seen, self.turn.looks, self.begun, ended)
        return 1 << (most - 1).bit_length()

    def done(self) -> _Done:
        """The chunk that is computed."""
        assert self.waiting is not None
        slot, times, seen = self.waiting
        return _Done(times, seen, self.panel.finish(slot))


def most_lacking(seen: Bools, looks: int, begun: Bools, ended: Bools) -> int:
    """How many bars an instrument lacks at most within as many as windows look at.

    `seen` is [instant, instrument]: who has a bar. Who has `begun` had some before; nobody looks
    at what is behind the last bar of one that has `ended`. Who looks at fewer lacks no more.
    """
    most = 1
    for who in np.flatnonzero(~seen.all(axis=0)):
        lacks = np.cumsum(~seen[:, who])
        before = np.zeros(looks * begun[who], np.int64)
        after = np.full(1 - ended[who], lacks[-1])
        bars = np.concatenate([before, lacks[seen[:, who]], after])
        if len(bars) > 1:
            far = bars[looks:] - bars[:-looks]
            begin = bars[min(looks, len(bars)) - 1] - bars[0]
            most = max(most, int(far.max(initial=begin)))
    return most
