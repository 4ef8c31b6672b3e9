"""A GPU played on the CPU: the code of a kernel with blocks, threads, shared memory and barriers.

Each block runs by itself. Where its threads wait for each other each is a thread of this process;
where not they run in turn. It is slow and exact: it is there so that kernels are tested where no
GPU is.
"""

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, load
from quantdsl.codegen.emit import emit
from quantdsl.codegen.function import Shared
from quantdsl.codegen.jit import assemble
from quantdsl.codegen.lanes import INTERFACE
from quantdsl.codegen.primitives import COPIES_AT_ONCE, DECLARED
from quantdsl.codegen.ptx import GPU_DEPTH, Bounds, gpu_part
from quantdsl.codegen.rows import RowsCode, kernel_form
from quantdsl.codegen.target import Target, native
from quantdsl.codegen.warps import shared_words, warp_text
from quantdsl.devices.cpu import tiled_rows_of
from quantdsl.devices.feed import Feed
from quantdsl.devices.kernel import grid_of, values
from quantdsl.devices.loaded import Loaded
from quantdsl.devices.primitives import for_cpu, needs_threads_together
from quantdsl.devices.watch import Fault, Thread, Watch
from quantdsl.devices.work import Finished, LaneWork, Plan
from quantdsl.ir.ops import Module

WARP = 32
BLOCK = 32
"""Threads of a block of lanes."""
TILE_ROWS = Bounds().rows
LIMITS = (65_535, 1_024)
"""Blocks of a launch and threads of a block, as the smallest GPUs have them."""
RESIDENT_THREADS = 2_048
"""Threads that are there at once, where blocks wait for each other."""
CHUNK_BLOCKS = 4
"""Blocks of lanes that are reported together."""


class Block:
    """What the threads of one block share."""

    def __init__(
        self,
        number: int,
        blocks: int,
        threads: int,
        shared_bytes: int,
        tensors: Watch,
        grid: threading.Barrier | None,
    ) -> None:
        self.grid = grid
        """Where one thread of each block waits for the others, if they are there."""
        self.number, self.blocks, self.threads = number, blocks, threads
        self.memory = (ctypes.c_int64 * max(-(-shared_bytes // 8), 1))()
        self.values = [0] * threads
        self.watch, self.tensors, self.meetings = Watch(), tensors, 0
        self._all = threading.Barrier(threads, action=self._met)
        self._lock = threading.Lock()
        self._named: dict[int, threading.Barrier] = {}
        self._come: dict[int, list[tuple[int, ...]]] = {}  # what those know who are there
        self._seen: list[tuple[int, ...]] = [()] * threads  # what watch.Thread.seen is now
        self._known: list[tuple[int, ...]] = [(0,) * WARP] * threads  # what watch.Thread.met is
        self._warps = [
            threading.Barrier(min(WARP, threads - first)) for first in range(0, threads, WARP)
        ]
        self._lanes: dict[tuple[int, int], threading.Barrier] = {}

    def _met(self) -> None:
        """All threads of the block are here."""
        self.watch.clear()
        self.meetings += 1

    def who(self, thread: int) -> Thread:
        """A thread as it is now."""
        return Thread(self.number, thread, self.meetings, self._seen[thread], self._known[thread])

    def wait(self) -> None:
        """Until every thread of the block is here."""
        self._all.wait()

    def wait_at(self, thread: int, number: int, many: int) -> None:
        """Until so many threads are at the barrier of this number, this one among them."""
        with self._lock:
            barrier = self._named.setdefault(number, threading.Barrier(many))
            here = self._come.setdefault(number, [])
            here.append(self._own(thread))
        barrier.wait()
        self._seen[thread] = tuple(map(max, *here)) if len(here) > 1 else here[0]
        if barrier.wait() == 0:
            here.clear()
        barrier.wait()  # nobody comes again before all know it
        self.wait_for_lanes(thread)

    def _own(self, thread: int) -> tuple[int, ...]:
        """What a thread knows once its warp has come to one more named barrier."""
        warps = len(self._warps)
        seen = list(self._seen[thread] or [0] * warps)
        seen[thread // WARP] += 1
        return tuple(seen)

    def wait_for_grid(self) -> None:
        """Until every block is here; for one thread of it, behind a barrier of its block."""
        assert self.grid is not None
        self.grid.wait()

    def wait_for_lanes(self, thread: int, lanes: int = -1) -> None:
        """Until the threads of the warp are here that have a bit, this one among them."""
        first, barrier = thread // WARP * WARP, self._warps[thread // WARP]
        who = [k for k in range(first, first + barrier.parties) if lanes >> k - first & 1]
        if len(who) < barrier.parties:
            with self._lock:
                barrier = self._lanes.setdefault((first, lanes), threading.Barrier(len(who)))
        own = list(self._known[thread])
        own[thread - first] += 1
        self._known[thread] = tuple(own)
        barrier.wait()
        known = tuple(map(max, self._known[thread], *(self._known[k] for k in who)))
        barrier.wait()  # nobody goes on before all have read
        self._known[thread] = known

    def exchanged(self, thread: int, value: int) -> list[int]:
        """The values of all threads of the warp, once each has given its own."""
        barrier, first = self._warps[thread // WARP], thread // WARP * WARP
        self.values[thread] = value
        barrier.wait()
        found = self.values[first : first + WARP]
        barrier.wait()  # nobody gives the next one before all have read
        return found


class _Here(threading.local):
    """The simulated thread that runs in this thread of the process."""

    block: Block
    thread: int


_here = _Here()


def _shuffle(value: int, bits: int) -> int:
    found = _here.block.exchanged(_here.thread, value)
    other = _here.thread % WARP ^ bits
    return found[other] if 0 <= other < len(found) else value


def _shuffle_from(value: int, lane: int) -> int:
    found = _here.block.exchanged(_here.thread, value)
    return found[lane] if 0 <= lane < len(found) else value


def _match(value: int) -> int:
    found = _here.block.exchanged(_here.thread, value)
    return ctypes.c_int32(sum((other == value) << k for k, other in enumerate(found))).value


def _who() -> Thread:
    return _here.block.who(_here.thread)


def _touch(index: int, how: int, line: int) -> None:
    block = _here.block
    block.watch.touch(_who(), (0, index), how, line, len(block.memory))


def _touch_tensor(tensor: int, words: int, index: int, how: int, line: int) -> None:
    _here.block.tensors.touch(_who(), (tensor, index), how, line, words)


def _ballot(value: int) -> int:
    found = _here.block.exchanged(_here.thread, value)
    return ctypes.c_int32(sum((other != 0) << k for k, other in enumerate(found))).value


_PRIMITIVES: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...]]] = {
    "thread": (lambda: _here.thread, ctypes.c_int32, ()),
    "block": (lambda: _here.block.number, ctypes.c_int32, ()),
    "threads": (lambda: _here.block.threads, ctypes.c_int32, ()),
    "blocks": (lambda: _here.block.blocks, ctypes.c_int32, ()),
    "barrier": (lambda: _here.block.wait(), None, ()),
    "named_barrier": (
        lambda number, many: _here.block.wait_at(_here.thread, number, many),
        None,
        (ctypes.c_int32, ctypes.c_int32),
    ),
    "grid_barrier": (lambda: _here.block.wait_for_grid(), None, ()),
    "shuffle": (_shuffle, ctypes.c_int32, (ctypes.c_int32, ctypes.c_int32)),
    "any": (lambda value: value, ctypes.c_int32, (ctypes.c_int32,)),
    "ballot": (_ballot, ctypes.c_int32, (ctypes.c_int32,)),
    "warp_barrier": (lambda: _here.block.wait_for_lanes(_here.thread), None, ()),
    "lanes_barrier": (
        lambda lanes: _here.block.wait_for_lanes(_here.thread, lanes),
        None,
        (ctypes.c_int32,),
    ),
    "shuffle_from": (_shuffle_from, ctypes.c_int32, (ctypes.c_int32, ctypes.c_int32)),
    "match": (_match, ctypes.c_int32, (ctypes.c_int64,)),
    "touch": (_touch, None, (ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)),
    "touch_tensor": (_touch_tensor, None, (ctypes.c_int64,) * 5),
    "shared": (lambda: ctypes.addressof(_here.block.memory), ctypes.c_void_p, ()),
}


@functools.cache
def install() -> list[Any]:
    """Make the primitives known to compiled code; the functions must outlive it."""
    kept = []
    for name, (function, result, params) in _PRIMITIVES.items():
        native_function = ctypes.CFUNCTYPE(result, *params)(function)
        address = ctypes.cast(native_function, ctypes.c_void_p).value
        llvm.add_symbol(f"quantdsl.{name}", address)
        kept.append(native_function)
    return kept


class SimulatedKernel:
    """A kernel as machine code of this CPU."""

    def __init__(self, address: int, n_arguments: int, together: bool, owner: Any) -> None:
        self.together, self._owner = together, owner
        self.start = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * n_arguments)(address)
        """One thread of it, where nothing says which."""
        self.faults: list[Fault] = []
        """What its threads did to memory that they may not, if it tells of it."""

    def launch(
        self,
        grid: int,
        block: int,
        arguments: Sequence[int],
        shared_bytes: int = 0,
        *,
        meets: bool = False,
    ) -> None:
        """Run all blocks, one after the other; arguments are words, buffers by address.

        Where the grid meets they run at the same time.
        """
        tensors = Watch()
        barrier = threading.Barrier(grid, action=tensors.clear) if meets else None
        blocks = [
            Block(number, grid, block, shared_bytes, tensors, barrier) for number in range(grid)
        ]
        for group in [blocks] if meets else [[one] for one in blocks]:
            if self.together:
                self._together(group, arguments)
            else:
                for thread in range(block):
                    self._thread(group[0], thread, arguments)
        self.faults += [fault for one in blocks for fault in one.watch.faults()]
        self.faults += tensors.faults()

    def _thread(self, block: Block, thread: int, arguments: Sequence[int]) -> None:
        _here.block, _here.thread = block, thread
        self.start(*arguments)

    def _together(self, blocks: Sequence[Block], arguments: Sequence[int]) -> None:
        crew = [
            threading.Thread(target=self._thread, args=(block, number, arguments), daemon=True)
            for block in blocks
            for number in range(block.threads)
        ]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()


def kernel_of(text: str, entry: str, n_arguments: int) -> SimulatedKernel:
    """A kernel written in LLVM IR over primitives.py."""
    install()
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly("", llvm.create_context()), native().machine()
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(assemble(for_cpu(text), native())))
    engine.finalize_object()
    address = engine.get_function_address(entry)
    return SimulatedKernel(address, n_arguments, needs_threads_together(text), engine)


class SimulatedRunner:
    """Runs lanes through the kernel that a GPU gets, a block of threads at a time."""

    name = "simulated"

    def compile(self, work: LaneWork) -> None:
        """As Runner promises."""
        kernel_of_lanes(work)

    def plan(self, work: LaneWork) -> Plan:
        """As Runner promises."""
        return Plan(self.name, 8 * len(work.template), CHUNK_BLOCKS * BLOCK)

    def run(self, work: LaneWork, lo: int, hi: int, finished: Finished) -> None:
        """As Runner promises."""
        if lo >= hi:
            return
        kernel, rows, shared_bytes = kernel_of_lanes(work)
        (piece,) = Feed(work, rows, sys.maxsize)
        step = CHUNK_BLOCKS * BLOCK
        for start in range(lo, hi, step):
            n = min(step, hi - start)
            points = np.ascontiguousarray(work.points[:, start : start + n])
            results = np.empty((len(work.results), n), np.int64)
            states = np.empty(work.common * n if rows is None else 0, np.int64)
            grid = grid_of(self.name, values(work, n, piece.turns), BLOCK, LIMITS)
            buffers = (work.template, points, work.params, work.results, piece.words, piece.columns)
            template, at, params, wanted, events, columns = (array.ctypes.data for array in buffers)
            kernel.launch(grid, BLOCK, (
                template, at, params, len(points), results.ctypes.data, wanted, len(results),
                events, piece.turns, columns, states.ctypes.data, n, 0, n, piece.mode,
            ), shared_bytes)  # fmt: skip
            finished(start, start + n, results)

    def close(self) -> None:
        """Nothing is held between runs."""


class LanesKernel(NamedTuple):
    """The kernel of some work, what makes its rows, and the shared memory that a block needs."""

    kernel: SimulatedKernel
    rows: RowsCode | None
    shared_bytes: int


def kernel_within(work: LaneWork, bounds: Bounds) -> LanesKernel:
    """The code of some work as a GPU has it whose registers are bounded."""
    install()
    kept, varying = work.kept, work.varying
    form = Form(
        f"simulated {bounds} {kernel_form(kept, varying, GPU_DEPTH)}",
        lambda whole: gpu_part(whole, kept, varying, bounds),
        _text,
        INTERFACE,
    )
    shared_bytes = 8 * shared_words(gpu_part(work.module, kept, varying), TILE_ROWS)
    program = load(work.module, native(), Cache(), form)
    together = shared_bytes > 0
    kernel = SimulatedKernel(program.address("lanes"), 15, together=together, owner=program)
    return LanesKernel(kernel, tiled_rows_of(work, TILE_ROWS), shared_bytes)


def _text(module: Module, target: Target) -> str:
    return emit(module, target, _kernel)


def _kernel(module: Module, shared: Shared) -> Iterator[str]:
    yield warp_text("", module, shared, TILE_ROWS)
    yield DECLARED
    yield COPIES_AT_ONCE
    yield "attributes #2 = { nounwind }"


kernel_of_lanes = Loaded(lambda work: kernel_within(work, Bounds()))
