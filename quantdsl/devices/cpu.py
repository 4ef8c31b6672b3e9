"""Lanes on the cores of this machine: threads pinned one a core, each on a block of lanes.

Machine code runs without Python's lock, so threads are enough. A block is small enough for
progress and Ctrl-C, and large enough that handing it over costs nothing.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.jit import Program
from quantdsl.codegen.lanes import is_large, load_lanes, require_stack, stack_bytes
from quantdsl.codegen.rows import RowsCode, load_rows
from quantdsl.codegen.simd import simd_program
from quantdsl.codegen.target import Target, avx512, broad, native, native_lanes
from quantdsl.devices.feed import PIECE_BYTES, Feed
from quantdsl.devices.loaded import Loaded
from quantdsl.devices.profile import Profile
from quantdsl.devices.work import Finished, LaneWork, Plan, Words
from quantdsl.limits import LANES_STACK_BYTES

if TYPE_CHECKING:
    from quantdsl.codegen.warps import Tiling

BLOCK_STEPS = 16_000_000
"""Lane-steps that a thread takes at once: some tenths of a second at the slowest."""
BLOCKS_A_THREAD = 4
"""At least, where there are lanes enough, so that threads end together."""
BLOCK_LANES = 16
"""Blocks are a multiple of it: two vectors of the widest target."""
BROAD_FROM = 512
"""Lanes on a book from which on a group of them is broad: its last one is seldom full."""
STACK_BYTES, PAGE_BYTES = 8 << 20, 4_096
"""Of a thread, as the system has it."""
BROAD_BYTES_MAX = 2 << 20
"""Of the States of such a group, which lie on a thread's stack."""


class Block(NamedTuple):
    """Lanes that one thread has run."""

    lo: int
    hi: int
    words: Words
    seconds: float
    began_s: float
    """Of time.perf_counter()."""


class CpuRunner:
    """Runs lanes on threads; `threads` defaults to the cores that this process may use."""

    name = "cpu"

    def __init__(
        self,
        threads: int | None = None,
        load: "Load | None" = None,
        profile: Profile | None = None,
    ) -> None:
        self.cores, self._profile = cores(), profile
        self.threads = threads or len(self.cores)
        self._load = load or simd

    def compile(self, work: LaneWork) -> None:
        """As Runner promises."""
        self._load(work)

    def plan(self, work: LaneWork) -> Plan:
        """As Runner promises."""
        lanes = self._block_lanes(work, work.n_lanes)
        return Plan(f"cpu, {self.threads} threads", 8 * work.own, lanes)

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        """As Runner promises."""
        if lo >= hi:
            return
        lanes = self._load(work)
        feed = Feed(work, lanes.rows, PIECE_BYTES)
        step = self._block_lanes(work, hi - lo)
        todo: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        for start in range(lo, hi, step):
            todo.put((start, min(start + step, hi)))
        n_blocks = todo.qsize()
        done: queue.SimpleQueue[Block | BaseException] = queue.SimpleQueue()
        stop = threading.Event()

        def labour(core: int) -> None:
            pin(core)
            try:
                while not stop.is_set():
                    done.put(_ran(lanes.program, feed, *todo.get_nowait()))
            except queue.Empty:
                pass
            except BaseException as error:  # handed to the caller, who raises it
                done.put(error)

        crew: list[threading.Thread] = []
        try:
            with stacks_of(lanes.stack_bytes):
                for k in range(min(self.threads, n_blocks)):
                    core = self.cores[k % len(self.cores)]
                    thread = threading.Thread(target=labour, args=(core,), daemon=True)
                    thread.start()
                    crew.append(thread)
            for _ in range(n_blocks):
                block = done.get()
                if isinstance(block, BaseException):
                    raise block
                if self._profile is not None:
                    self._profile.lanes(
                        work, block.hi - block.lo, block.seconds, self.name, block.began_s
                    )
                finished(block.lo, block.hi, block.words)
        finally:
            stop.set()
            for thread in crew:
                thread.join()

    def close(self) -> None:
        """Nothing is held between runs."""

    def _block_lanes(self, work: LaneWork, n_lanes: int) -> int:
        """Lanes of a block."""
        even = -(-n_lanes // (self.threads * BLOCKS_A_THREAD))
        lanes = min(even, BLOCK_STEPS // max(work.lane_steps, 1))
        whole = broad(native_lanes()).lanes if is_broad(work) else BLOCK_LANES
        if is_large(work.own):
            whole = 1  # there is no vector to fill
        return max(-(-lanes // whole) * whole, whole)


_stack_size = threading.Lock()
"""Of all threads of the process there is one size: who sets it has it until theirs have started."""


@contextmanager
def stacks_of(needed: int) -> Iterator[None]:
    """Threads that start meanwhile have `needed` bytes of stack beside what any thread has."""
    with _stack_size:
        before = threading.stack_size(STACK_BYTES + -(-needed // PAGE_BYTES) * PAGE_BYTES)
        try:
            yield
        finally:
            threading.stack_size(before)


class Compiled(NamedTuple):
    """A kernel, and what makes the rows that it takes, if it takes rows."""

    program: Program
    rows: RowsCode | None
    stack_bytes: int = 0
    """What its lanes take on a thread's stack."""


Load = Callable[[LaneWork], Compiled]


def rows_of(work: LaneWork, depth: int | None = None) -> RowsCode | None:
    """What makes rows for kernels of some work, of the `depth` that they are made with."""
    return load_rows(work.module, work.kept, work.varying, native(), Cache(), depth)


def tiled_rows_of(work: LaneWork, tiling: "Tiling") -> RowsCode | None:
    """The same for the kernel of a GPU, with the tiles that its blocks copy."""
    from quantdsl.codegen.tiles import load_tiled_rows

    return load_tiled_rows(work.module, work.kept, work.varying, native(), Cache(), tiling)


def _scalar(work: LaneWork) -> Compiled:
    words = 0 if is_large(work.own) else work.own
    needed = require_stack(stack_bytes(work.module, words, 1))
    program = load_lanes(work.module, work.kept, native(), Cache(), work.varying)
    return Compiled(program, rows_of(work), needed)


def is_broad(work: LaneWork) -> bool:
    """Whether groups of lanes are broader than a register, so that fewer of them build a book.

    Where a strategy hardly orders, the book and what is read of it alike take as long as all else
    of eight lanes. AVX2 has too few registers to gain by it.
    """
    group = broad(native_lanes()).lanes * 8 * work.own
    fits = work.n_lanes >= BROAD_FROM and group <= BROAD_BYTES_MAX
    return work.common > 0 and fits and native_lanes() == avx512()


def _simd(work: LaneWork) -> Compiled:
    if is_large(work.own):
        return _scalar(work)
    return _vectors(work, native_lanes())


def _vectors(work: LaneWork, target: Target) -> Compiled:
    needed = stack_bytes(work.module, work.own, target.lanes)
    if needed > LANES_STACK_BYTES:
        return _scalar(work)
    program = simd_program(work.module, work.kept, target, Cache(), work.varying)
    return Compiled(program, rows_of(work), needed)


scalar = Loaded(_scalar)
"""One lane at a time."""
_narrow = Loaded(_simd)
_broad = Loaded(lambda work: _vectors(work, broad(native_lanes())))


def simd(work: LaneWork) -> Compiled:
    """A lane in each element of the widest vectors that this CPU has, or of several of them; one
    at a time where its State or its arrays are too large for as many."""
    return _broad(work) if is_broad(work) else _narrow(work)


def _ran(program: Program, feed: Feed, lo: int, hi: int) -> Block:
    """The results of lanes lo to hi, by one call a piece of the events."""
    n, work, began = hi - lo, feed.work, time.perf_counter()
    points = np.ascontiguousarray(work.points[:, lo:hi])
    results = np.empty((len(work.results), n), np.int64)
    working = work.own if is_large(work.own) else 0
    kept = 0 if feed.whole else work.own * n
    states = np.empty(2 * work.common + working + kept, np.int64)
    for piece in feed:
        program.call(
            "lanes", work.template, points, work.params, len(points), results, work.results,
            len(results), piece.words, piece.turns, piece.columns, states, n, 0, n, piece.mode,
        )  # fmt: skip
    return Block(lo, hi, results, time.perf_counter() - began, began)


def cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(core: int) -> None:
    """Keep the calling thread on one core, where the system can."""
    affinity: Any = getattr(os, "sched_setaffinity", None)
    if affinity is not None:
        affinity(0, {core})
