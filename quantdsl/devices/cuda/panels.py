"""A panel on a GPU: a chunk goes up and another comes down while a third is computed.

Columns move on streams of their own, kernels that may go beside each other have a stream each, and
the States of lanes and the columns between kernels stay in device memory.
"""

import itertools
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import cache_key, through_cache
from quantdsl.codegen.cubin import Cubin, assembled, link_ptx, linker_version
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.panel_blocks import ENTRY, PanelBlock, panel_block, panel_block_text
from quantdsl.codegen.ptx import ENTRY as LANES_ENTRY
from quantdsl.codegen.ptx import Bounds, Ptx, ptx_text
from quantdsl.codegen.target import Target
from quantdsl.codegen.warps import near_words
from quantdsl.devices.columns import CUDA, Matrices, Place
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.kernel import Kernel, Launch, Library
from quantdsl.devices.cuda.memory import Buffer, Pinned
from quantdsl.devices.cuda.stream import URGENT, Event, Stream
from quantdsl.devices.panels import (
    LANES,
    SHARED_BYTES,
    SLOTS,
    PanelKernel,
    PanelWork,
    at_instant,
)
from quantdsl.devices.work import Words
from quantdsl.ir.ops import Module
from quantdsl.ir.own import SPARE
from quantdsl.passes import along_passes

BOUNDS = Bounds(threads=LANES, blocks=8)
"""Of a kernel along time: small blocks, so that few lanes are dealt to all multiprocessors."""
Launched = Callable[[Stream], None]
"""Starts a kernel on a stream."""
THREADS = 1024
"""Of a block across: an instant has thousands of instruments."""


def along_cubin(module: Module, target: Target, architecture: str) -> Cubin:
    """A kernel along time as a GPU has it."""
    text = ptx_text(along_passes(module), target, BOUNDS)
    return link_ptx(Ptx(text, ""), architecture, None, BOUNDS)


def along_code(work: PanelKernel, target: Target, architecture: str) -> bytes:
    """Its machine code, from the cache if it is there."""

    def compiled() -> bytes:
        return along_cubin(work.module, target, architecture).code

    form = f"own cubin {linker_version()} {architecture} {BOUNDS} {sorted(work.varying)}"
    return through_cache(Cache(), cache_key(work.module, target, form), compiled)


def block_of(work: PanelKernel, shared_bytes: int) -> PanelBlock:
    """A kernel across as a GPU has it."""
    return panel_block(work.module, THREADS, min(shared_bytes, SHARED_BYTES) // 8)


def block_ptx(made: PanelBlock, target: Target) -> str:
    """It as PTX."""
    parsed, machine = optimised(panel_block_text(made, target, gpu=True), target)
    return str(machine.emit_assembly(parsed))


def across_code(work: PanelKernel, made: PanelBlock, target: Target, architecture: str) -> bytes:
    """Its machine code, from the cache if it is there."""
    form = f"block cubin {linker_version()} {architecture} {made.threads} {made.shared_words}"
    key = cache_key(work.module, target, form)
    return through_cache(Cache(), key, lambda: assembled(block_ptx(made, target), architecture))


class Lent:
    """Memory of a GPU that others may still read; it is given back when nobody does."""

    def __init__(self, device: CudaDevice, buffer: Buffer) -> None:
        weakref.finalize(self, _give_back, device, buffer).atexit = False


def _give_back(device: CudaDevice, buffer: Buffer) -> None:
    device.use()
    stream = device.streams.take()
    buffer.free(stream)
    device.streams.give(stream)


class _Ready(NamedTuple):
    """A kernel with the memory of its own that stays on the device."""

    kernel: Kernel
    block: PanelBlock | None
    buffers: dict[str, Buffer]
    blocks: int


def start_order(step: Sequence[PanelKernel], n: int, before: int) -> Iterator[tuple[int, int]]:
    """The parts of a step in the order to start them in, and how urgent each is.

    Lanes that go through most bars take longest: they are the most urgent ones. One kernel after
    the other gets its blocks started, so that not all of them lie on each multiprocessor: where
    several find room at once, it would be chance which. Streams share a few queues, in which who
    starts later waits for who started before: windowed parts start with the least urgent one
    (measured; bench/README.md).
    """
    longest = sorted(range(len(step)), key=lambda part: -step[part].longest(n, before))
    urgent = {part: URGENT - (URGENT + 1) * rank // len(step) for rank, part in enumerate(longest)}
    yield from ((part, urgent[part]) for part in longest if step[part].window is None)
    yield from ((part, urgent[part]) for part in longest[::-1] if step[part].window is not None)


class CudaPanel:
    """A panel on one GPU; `seconds` is what the kernels of each step have taken so far."""

    def __init__(self, device: CudaDevice, work: PanelWork) -> None:
        self.device, self.work, self.name = device, work, device.name
        device.use()
        self.up, self.main, self.down = (device.streams.take() for _ in range(3))
        self.beside: dict[int, list[Stream]] = {}
        """By how urgent they are."""
        self.seconds = [0.0] * len(work.steps)
        self._own: dict[int, Buffer] = {}
        self._made: dict[int, Buffer] = {}
        self._pinned: dict[tuple[str, int], Pinned] = {}
        self._ready: dict[int, _Ready] = {}
        self._states: dict[tuple[int, int], list[Buffer]] = {}
        """Of each kernel along time: those that it goes on from, then those of pieces amid time."""
        self._marks: dict[int, list[Event]] = {}
        self._works: list[PanelKernel] = []  # whose ids are keys
        self._going_up: dict[int, list[Words]] = {}
        """States that a slot's chunk copies up: they are there until the slot is free again."""
        self._fills: dict[int, Words] = {}
        self._staying: list[tuple[Buffer, int]] | None = None
        """What is shown of each chunk, and its instants, where it stays on the device."""
        self._rows = [0] * SLOTS

    def given(self, slot: int) -> Words:
        """As Panel promises."""
        return self._words("given", slot, self.work.given)

    def keep(self) -> None:
        """As Panel promises."""
        self._staying = []

    def start(
        self, slot: int, work: PanelWork, n: int, before: int, fill: Words | None = None
    ) -> None:
        """As Panel promises."""
        self.device.use()
        self._going_up[slot] = []
        own = self._buffer(self._own, slot, work.columns)
        made = self._buffer(self._made, slot, work.shown)
        self._rows[slot] = n
        column = 8 * work.instants * work.lanes
        for number, word in enumerate(() if fill is None else fill):
            self.up.upload(made, self._filled(int(word))[:n], number * column)
        for number, words in enumerate(self.given(slot)):
            self.up.upload(own, words[:n], number * column)
        self.main.follow(self.up)
        marks = self._marks[slot] = [self.main.mark()]
        for at, step in enumerate(work.steps):
            going_up = self._going_up[slot]
            launches: list[tuple[int, Launched]] = []
            for part, urgent in start_order(step, n, before):
                one = self._launches(step[part], (at, part), (own, made), n, before, going_up)
                launches += [(urgent, launch) for launch in one]
            self._run(launches)
            marks.append(self.main.mark())
        self.down.wait_for(marks[-1])
        if self._staying is None:
            for number, words in enumerate(self._words("made", slot, work.shown)):
                self.down.download(words[:n], made, number * column)
        marks.append(self.down.mark())

    def finish(self, slot: int) -> Words | None:
        """As Panel promises."""
        *marks, end = self._marks[slot]
        end.wait()
        for at, (first, last) in enumerate(itertools.pairwise(marks)):
            self.seconds[at] += last.seconds_since(first)
        for event in self._marks.pop(slot):
            event.close()
        if self._staying is None:
            return self._words("made", slot, self.work.shown)
        self._staying.append((self._made.pop(slot), self._rows[slot]))
        return None

    def kept(self, count: int) -> Matrices:
        """As Panel promises."""
        self.device.use()
        chunks, work = self._staying or [], self.work
        rows = sum(n for _, n in chunks)
        line = 8 * work.lanes
        size = max(work.shown * rows * line, 8)
        whole = self.device.pool.allocate(size, self.main, f"{work.shown} signals")
        before = 0
        for made, n in chunks:
            for number in range(work.shown):
                to = (number * rows + before) * line
                self.main.copy(whole, made, n * line, to, number * work.instants * line)
            before += n
            made.free(self.main)
        self.main.synchronize()
        self._staying = []
        place = Place(Lent(self.device, whole), whole.address, (CUDA, self.device.number))
        return Matrices(place, (rows, count), rows, work.lanes)

    def close(self) -> None:
        """As Panel promises."""
        self.device.synchronize()
        buffers = [*self._own.values(), *self._made.values()]
        buffers += [one for states in self._states.values() for one in states]
        buffers += [made for made, _ in self._staying or ()]
        buffers += [one for ready in self._ready.values() for one in ready.buffers.values()]
        for buffer in buffers:
            buffer.free(self.main)
        for event in itertools.chain(*self._marks.values()):  # of chunks that nobody has taken
            event.close()
        for pinned in self._pinned.values():
            self.device.pinned.give(pinned)
        beside = itertools.chain(*self.beside.values())
        for stream in (self.up, self.main, self.down, *beside):
            self.device.streams.give(stream)

    # ---- memory ----

    def _filled(self, word: int) -> Words:
        """A column of the host with one word everywhere."""
        if word not in self._fills:
            _, instants, lanes = self.work.words(1)
            self._fills[word] = np.full((instants, lanes), word, np.int64)
        return self._fills[word]

    def _words(self, kind: str, slot: int, columns: int) -> Words:
        if (kind, slot) not in self._pinned:
            shape = self.work.words(columns)
            self._pinned[kind, slot] = self.device.pinned.take(8 * shape[0] * shape[1] * shape[2])
        return self._pinned[kind, slot].words(*self.work.words(columns))

    def _buffer(self, kept: dict[int, Buffer], slot: int, columns: int) -> Buffer:
        if slot not in kept:
            columns, instants, lanes = self.work.words(columns)
            size = 8 * (columns * instants + SPARE) * lanes
            kept[slot] = self.device.pool.allocate(size, self.main, f"{columns} columns")
            self.up.follow(self.main)
        return kept[slot]

    # ---- kernels ----

    def _run(self, launches: list[tuple[int, Launched]]) -> None:
        """Start kernels, each as urgent as it is, after what is on the main stream."""
        begin, used = self.main.mark(), Counter[int]()
        for urgent, launch in launches:
            streams = self.beside.setdefault(urgent, [])
            if used[urgent] == len(streams):
                streams.append(self.device.streams.take(urgent))
            stream = streams[used[urgent]]
            used[urgent] += 1
            stream.wait_for(begin)
            launch(stream)
        begin.close()
        for urgent, count in used.items():
            for stream in self.beside[urgent][:count]:
                self.main.follow(stream)

    def _launches(
        self,
        work: PanelKernel,
        key: tuple[int, int],
        columns: tuple[Buffer, Buffer],
        n: int,
        before: int,
        going_up: list[Words],
    ) -> list[Launched]:
        """A kernel over a chunk, ready to start: its pieces may go beside each other."""
        ready = self._ready.get(id(work)) or self._prepared(work)
        own, made = (buffer.address for buffer in columns)
        if ready.block is None:
            return self._along(work, ready, key, (own, made), n, before)
        state = at_instant(work, before)
        going_up.append(state)
        self.main.upload(ready.buffers["template"], state)
        return [self._across(ready, (own, made), n)]

    def _along(
        self,
        work: PanelKernel,
        ready: _Ready,
        key: tuple[int, int],
        columns: tuple[int, int],
        n: int,
        before: int,
    ) -> list[Launched]:
        """The pieces of a chunk: the first one reads States, the last one writes some."""
        cut = work.pieces(n, before)
        states, arrays = self._states.setdefault(key, []), work.arrays()
        size = max(8 * len(work.template) * self.work.lanes, 8)
        while len(states) < min(len(cut), 2):
            states.append(self.device.pool.allocate(size, self.main, "states of lanes"))
        launches: list[Launched] = []
        for piece in cut:
            ends = piece is cut[-1]
            template, params, points = (ready.buffers[name].address for name in piece.start)
            _, offsets, starts = (arrays[name] for name in piece.start)
            own, made = (address + 8 * self.work.lanes * piece.first for address in columns)
            lanes = piece.times * self.work.lanes
            launches.append(ready.kernel.prepare((
                template, points, params, len(offsets), 0, 0, 0, own, piece.n, made,
                states[ends and len(cut) > 1].address, starts.shape[1], 0, lanes,
                piece.mode(before, last=ends),
            ), -(-lanes // LANES), LANES))  # fmt: skip
        if len(cut) > 1:
            states.reverse()
        return launches

    def _across(self, ready: _Ready, columns: tuple[int, int], n: int) -> Launch:
        assert ready.block is not None
        blocks = min(ready.blocks, n)
        template, far = (ready.buffers[name].address for name in ("template", "far"))
        arguments = template, *columns, n, blocks, far
        shared_bytes = 8 * ready.block.shared_words
        return ready.kernel.prepare(arguments, blocks, ready.block.threads, shared_bytes)

    def _prepared(self, work: PanelKernel) -> _Ready:
        """Code loaded, and what stays on the device."""
        arrays = {"template": work.template}
        sizes = {}
        if work.across:
            block = block_of(work, self.device.limits.shared_bytes)
            code = across_code(work, block, self.device.target, self.device.architecture)
            kernel = Library(self.device.driver, code, "across").kernel(self.device, ENTRY)
            shared_bytes = 8 * block.shared_words
            kernel.allow_shared(shared_bytes)
            many = self.device.attribute("MULTIPROCESSOR_COUNT")
            blocks = many * max(kernel.blocks_at_once(block.threads, shared_bytes), 1)
            sizes["far"] = 8 * blocks * block.far_words
        else:
            block, blocks = None, 0
            code = along_code(work, self.device.target, self.device.architecture)
            kernel = Library(self.device.driver, code, "along").kernel(self.device, LANES_ENTRY)
            if near_words(work.module):
                kernel.carve_out(100)
            arrays = work.arrays()
        sizes |= {name: max(words.nbytes, 8) for name, words in arrays.items()}
        take = self.device.pool.allocate
        buffers = {name: take(size, self.main, name) for name, size in sizes.items()}
        for name, words in arrays.items():
            self.main.upload(buffers[name], words)
        made = self._ready[id(work)] = _Ready(kernel, block, buffers, blocks)
        self._works.append(work)
        return made
