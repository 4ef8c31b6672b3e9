"""A panel's equations in lanes: instruments along time, instants across, on all cores.

What the turn of check/signal_turn.py computes event by event, these kernels compute of a block of
instants at once, to the same bits: each instrument's bars stand behind each other, eight
instruments make a vector, and every core has vectors of its own (check/panel_kernels.py).
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from quantdsl.backtest import values
from quantdsl.backtest.panel_events import Dealer, nothing_word
from quantdsl.backtest.program import Memory
from quantdsl.check import Checked
from quantdsl.check.functions import BAR_UNITS
from quantdsl.check.panel_builder import COUNT, LANE, MONEY, Form, Kernel
from quantdsl.check.panel_deal import Table
from quantdsl.check.panel_kernels import kernels
from quantdsl.check.panel_stages import stages
from quantdsl.check.panel_words import INSTANTS_MAX
from quantdsl.check.signal_turn import ROW_WORDS, Signals
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.jit import Program
from quantdsl.codegen.lanes import FINISH, START, require_stack, stack_bytes
from quantdsl.codegen.simd import own_program
from quantdsl.codegen.target import Target, native_lanes
from quantdsl.data.tick_data import RunData
from quantdsl.devices.cpu import cores, stacks_of
from quantdsl.events import layout
from quantdsl.ir.own import WIDTH
from quantdsl.limits import LANES_STACK_BYTES

Events = npt.NDArray[np.void]
Int64s = npt.NDArray[np.int64]
PARTS = 4
"""Pieces of a kernel's lanes for each core, so that they end together."""
NONE = np.empty(0, np.int64)


def whole(count: int) -> int:
    """As many lanes, up to whole vectors."""
    return -(-count // WIDTH) * WIDTH


class Loaded(Struct):
    """One kernel, loaded, and the state of its lanes."""

    kernel: Kernel
    program: Program
    memory: Memory
    params: Int64s
    points: Int64s


class PanelTurn:
    """The equations of a strategy as loaded kernels; see `unstaged` for those that have none."""

    def __init__(
        self,
        checked: Checked,
        signals: Signals,
        data: RunData,
        chosen: Mapping[str, Fraction],
        target: Target | None = None,
    ) -> None:
        self.checked, self.signals, self.data, self.chosen = checked, signals, data, chosen
        self.target = target or native_lanes()
        self.stages = stages(signals)
        self.width = ROW_WORDS + len(signals.table)
        self.count = len(data.instruments)
        self.lanes = whole(self.count)
        self.first_ns = int(np.iinfo(np.int64).min)
        made = kernels(signals, self.stages, Form())
        self.warm = made.warm
        self.columns = made.columns
        self.shown_common = [n for one in made.all for n in one.shown_common]
        equations = {one.place.name: one for one in checked.strategy.equations.all}
        self.nothing = {
            name: nothing_word(equations[name].type) for name in made.columns if name in equations
        }
        self.any = self.loaded(made.all)
        table = Table(made.columns, self.count, self.lanes)
        self.dealer = Dealer(checked.strategy, table, data)
        self.threads = len(cores())
        self.crew = crew(self.threads)

    @cached_property
    def usual(self) -> list[Loaded]:
        """The kernels for blocks in which every instrument has every bar, and is warm."""
        made = kernels(self.signals, self.stages, Form(usual=True), self.columns).all
        always = [one for one in self.any if not one.kernel.stage.of_instruments]
        known = {one.kernel.stage: one for one in always}
        return [known.get(one.stage) or self.loaded([one])[0] for one in made]

    def loaded(self, made: Iterable[Kernel]) -> list[Loaded]:
        """Kernels compiled, with the state that lanes begin with."""
        checked = self.checked
        found = []
        for kernel in made:
            module = checked.kernel_module(kernel)
            memory = Memory(module)
            values.write(memory, checked.strategy.params, self.chosen)
            if MONEY in kernel.host:
                memory.set(MONEY, 10.0**self.data.money_digits)
            stored = [memory.stored(path, self.point(path)) for path in kernel.points]
            points = np.array(stored, np.int64).reshape(-1)
            offsets = np.array([memory.slot(p).offset_words for p in kernel.points], np.int64)
            require_stack(stack_bytes(module, len(memory.words), self.target.lanes))
            program = own_program(module, self.target, Cache(), kernel.varying)
            found.append(Loaded(kernel, program, memory, offsets, points))
        return found

    def point(self, path: str) -> list[int]:
        """What the host writes into a word of each lane; lanes that are nobody's are like the last.

        Units; the number of a lane across and the bars of one along time follow with each block.
        """
        if path in (LANE.name, COUNT.name):
            return [min(lane, self.count - 1) for lane in range(self.lanes)]
        return units(self.data, path, self.lanes)

    def table(self, columns: int) -> Int64s:
        """Memory for columns of a block: [column, group, instant, lane]; lanes lie in a line."""
        shape = (columns, self.lanes // WIDTH, INSTANTS_MAX, WIDTH)
        words = np.empty(int(np.prod(shape)) + WIDTH, np.int64)
        first = -words.ctypes.data // words.itemsize % WIDTH  # a vector lies in one cache line
        return words[first : first - WIDTH].reshape(shape)

    def since(self, time_ns: int) -> None:
        """Tell no row from before this time."""
        self.first_ns = time_ns

    def pieces(self, chunks: Iterable[Events]) -> Iterator[Int64s]:
        """i64[word, row] of all events, block by block; begins anew."""
        state = PanelState(self)
        for events in chunks:
            yield from state.taken(events)
        yield from state.rest()


class PanelState:
    """A block of instants being filled, and the states of lanes between blocks."""

    def __init__(self, turn: PanelTurn) -> None:
        self.turn = turn
        lanes = turn.lanes
        self.instants = 0
        self.bars = np.zeros(lanes, np.int64)
        """How many bars each instrument has had."""
        self.cells = turn.table(len(turn.columns))
        """The columns between kernels."""
        self.seen = np.zeros((INSTANTS_MAX, lanes), np.int64)
        self.dealing = turn.dealer.begin()
        stages = [(one.kernel.stage, len(one.memory.words)) for one in turn.any]
        groups = [0 if s.across else 1 if s.whole else lanes // WIDTH for s, _ in stages]
        self.states = [
            np.empty((count, words, WIDTH), np.int64)
            for count, (_, words) in zip(groups, stages, strict=True)
        ]

    def taken(self, events: Events) -> Iterator[Int64s]:
        """The rows of the blocks that these events, whole instants, fill."""
        words = np.ascontiguousarray(events).view(np.int64).reshape(-1, layout.WORDS)
        done = 0
        while done < len(words):
            done += self.dealing.take(words[done:], self.cells, self.seen)
            if self.dealing.filled == INSTANTS_MAX:
                yield self.block()

    def rest(self) -> Iterator[Int64s]:
        """The rows of the last block."""
        if self.dealing.filled:
            yield self.block()

    def block(self) -> Int64s:
        """i64[word, row] of the instants that are there; then the block is empty."""
        n = self.dealing.filled
        block = Block(self, n)
        rows = block.rows()
        self.instants += n
        self.bars += block.bars
        self.dealing.empty()
        self.seen[:] = 0
        return rows[:, np.searchsorted(rows[0], self.turn.first_ns) :]


class Block:
    """One block going through the kernels.

    Columns stand by instant where kernels across read and write them, and by the instruments' own
    bars where those along time do: the same words where every instrument has every bar. There the
    shown ones are written where the table has them. What there is one of at an instant is kept
    apart, and put where the next kernel reads it.
    """

    def __init__(self, state: PanelState, n: int) -> None:
        self.state, self.turn, self.n = state, state.turn, n
        # Lanes beyond the last instrument write behind the last row.
        self.span = INSTANTS_MAX * self.turn.count + WIDTH
        self.table = fresh((self.turn.width, self.span))
        gaps = state.dealing.gaps
        self.seen = state.seen[:n].astype(bool) if gaps else None
        self.usual = not gaps and int(state.bars[: state.turn.count].min()) >= self.turn.warm
        self.common = state.dealing.of_instants(state.instants)
        """The columns of one word an instant."""
        self.by_bar: set[str] = set()
        """The others that stand by the instruments' own bars, where there are gaps."""
        self.shown_by_bar: set[int] = set()
        self.bars = np.full(self.turn.lanes, n) if self.seen is None else self.seen.sum(axis=0)
        if self.seen is not None:
            self.at, self.who = np.nonzero(self.seen)
            beside = self.who // WIDTH * WIDTH * INSTANTS_MAX + self.who % WIDTH
            self.cell = beside + self.at * WIDTH
            self.bar = (np.cumsum(self.seen, axis=0) - 1)[self.at, self.who]
            self.bar_cell = beside + self.bar * WIDTH

    def rows(self) -> Int64s:
        """Run the kernels; time, instrument and the shown columns of each bar."""
        kernels = self.turn.usual if self.usual else self.turn.any
        for one, states in zip(kernels, self.state.states, strict=True):
            stage = one.kernel.stage
            self.stand(one.kernel.reads, each=stage.of_instruments)
            if stage.across:
                self.across(one)
            else:
                self.along(one, states)
            if self.seen is not None and stage.of_instruments:
                self.by_bar |= set(one.kernel.writes)
                self.shown_by_bar |= set(stage.shown)
            for name in one.kernel.common:
                self.common[name] = self.column(name)[0, : self.n, 0].copy()
        return self.told()

    # ---- kernels --------------------------------------------------------------------------

    def along(self, one: Loaded, states: Int64s) -> None:
        """A kernel along time; what is of the universe as a whole has every bar."""
        lanes, n = self.turn.lanes, self.n
        if one.kernel.stage.whole:
            lanes = self.turn.target.lanes  # all of them the same
        elif not self.usual:
            n = int(self.bars.max())
            self.write(one, states)
        self.run(one, lanes, n, states, START if not self.state.instants else 0)

    def write(self, one: Loaded, states: Int64s) -> None:
        """How many bars each lane has; of those that have begun it stands in their state."""
        lanes, slot = self.turn.lanes, one.memory.slot("count").offset_words
        if self.state.instants:
            states[:, slot] = self.bars.reshape(-1, WIDTH)
            return
        at = len(one.params) - 1
        one.points[at * lanes : (at + 1) * lanes] = self.bars

    def across(self, one: Loaded) -> None:
        """A kernel across; lanes beyond the last instant compute what nobody reads."""
        lanes = whole(self.n)
        if "before" in one.kernel.host:
            one.memory.set("before", self.state.instants)
            one.points = np.arange(lanes)
        self.run(one, lanes, 1, NONE, START | FINISH)

    def run(self, one: Loaded, lanes: int, n: int, states: Int64s, mode: int) -> None:
        """Call a kernel for all lanes, some of them on each core."""
        one.memory.set("span", INSTANTS_MAX * self.turn.lanes)
        one.memory.set("made_span", self.span)
        own, made = self.state.cells.reshape(-1), self.table[ROW_WORDS:].reshape(-1)
        step = whole(-(-lanes // (PARTS * self.turn.threads)))

        def part(lo: int, hi: int) -> None:
            one.program.call(
                "lanes", one.memory.words, one.points, one.params, len(one.params), NONE, NONE, 0,
                own, n, made, states.reshape(-1), lanes, lo, hi, mode,
            )  # fmt: skip

        end = lanes
        if one.kernel.stage.of_instruments:
            vector = self.turn.target.lanes
            end = self.turn.count // vector * vector
            if end < self.turn.count:
                # Lanes beyond the last instrument write where the first ones of the next row do.
                self.turn.crew.submit(part, end, end + vector).result()
        begins = iter(range(0, end, step))  # of which each thread takes the next one

        def work(_: int) -> None:
            for lo in begins:
                part(lo, min(lo + step, end))

        for _ in self.turn.crew.map(work, range(self.turn.threads)):
            pass

    # ---- columns --------------------------------------------------------------------------

    def column(self, name: str) -> Int64s:
        """A column between kernels: [group, instant, lane]."""
        column: Int64s = self.state.cells[self.turn.columns[name]]
        return column

    def stand(self, names: Iterable[str], *, each: bool) -> None:
        """Have columns stand as a kernel reads them: by the bars of each instrument, or by instant.

        One word for all is one for each there.
        """
        for name in names:
            if name in self.common:
                self.spread(self.column(name), self.common[name], each=each)
            elif self.seen is not None and (name in self.by_bar) != each:
                column = self.column(name).reshape(-1)
                moved = column[self.cell if each else self.bar_cell]
                if not each:
                    column[:] = self.turn.nothing[name]
                column[self.bar_cell if each else self.cell] = moved
                (self.by_bar.add if each else self.by_bar.discard)(name)

    def spread(self, column: Int64s, words: Int64s, *, each: bool) -> None:
        """A word an instant into a column: to each instrument, or where one is read for all."""
        if not each:
            column[0, : self.n] = words[:, None]
        elif self.seen is None:
            column[:, : self.n] = words[:, None]
        else:
            column.reshape(-1)[self.bar_cell] = words[self.at]

    def told(self) -> Int64s:
        """Time, instrument and the shown columns of each bar, in order of time."""
        n, count, times = self.n, self.turn.count, self.state.dealing.times
        made, rows = self.table[ROW_WORDS:], n * count
        for number in self.turn.shown_common:
            column = made[number, :rows].reshape(n, count)
            column[:] = column[:, :1].copy()
        if self.seen is None:
            self.table[0, :rows].reshape(n, count)[:] = times[:n, None]
            self.table[1, :rows].reshape(n, count)[:] = np.arange(count)
            return self.table[:, :rows]
        table = fresh((self.turn.width, len(self.who)))
        table[0], table[1] = times[self.at], self.who
        for number, column in enumerate(made):
            row = self.bar if number in self.shown_by_bar else self.at
            np.take(column, row * count + self.who, out=table[ROW_WORDS + number])
        return table


def units(data: RunData, path: str, lanes: int) -> list[int]:
    """The unit of each lane's instrument; lanes that are nobody's are like the last."""
    name = path.rpartition(".")[2]
    if name in BAR_UNITS:
        unit, _, part = name.partition("_")
        fractions = [getattr(one, unit) for one in data.instruments]
        found = [one.numerator if part == "num" else one.denominator for one in fractions]
    else:
        found = [data.limits(n).money_per_tick_lot for n in range(len(data.instruments))]
    return found + found[-1:] * (lanes - len(found))


def fresh(shape: tuple[int, int]) -> Int64s:
    """Words of Arrow's own memory, which takes back a table's and gives it to the next: pages of
    the system come as zeros, which took an eighth of the time."""
    memory = pa.allocate_buffer(int(np.prod(shape)) * np.dtype(np.int64).itemsize)
    return np.frombuffer(memory, np.int64).reshape(shape)


def crew(threads: int) -> ThreadPoolExecutor:
    """Threads with room for a lane across."""
    together = threading.Barrier(threads)
    with stacks_of(LANES_STACK_BYTES):
        pool = ThreadPoolExecutor(threads)
        for _ in pool.map(lambda _: together.wait(), range(threads)):
            pass  # every thread has been made
    return pool
