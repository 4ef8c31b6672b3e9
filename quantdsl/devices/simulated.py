"""A GPU played on the CPU: the code of a kernel with blocks, threads, shared memory and barriers.

Each block runs by itself, and its threads take turns (blocks.py). It is slow and exact: it is there
so that kernels are tested where no GPU is.
"""

import functools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, load
from quantdsl.codegen.emit import emit
from quantdsl.codegen.function import Shared
from quantdsl.codegen.jit import Native
from quantdsl.codegen.lanes import INTERFACE
from quantdsl.codegen.primitives import COPIES_AT_ONCE, DECLARED
from quantdsl.codegen.ptx import GPU_DEPTH, Bounds, gpu_part
from quantdsl.codegen.rows import RowsCode, kernel_form
from quantdsl.codegen.target import Target, native
from quantdsl.codegen.warps import Tiling, shared_words, warp_text
from quantdsl.devices.blocks import Crew, Launch, primitives
from quantdsl.devices.cpu import tiled_rows_of
from quantdsl.devices.feed import Feed
from quantdsl.devices.kernel import grid_of, values
from quantdsl.devices.loaded import Loaded
from quantdsl.devices.primitives import for_cpu
from quantdsl.devices.profile import Profile
from quantdsl.devices.stacks import Stacks
from quantdsl.devices.watch import Fault, Watch
from quantdsl.devices.work import Finished, LaneWork, Plan
from quantdsl.ir.ops import Module

BLOCK = 32
"""Threads of a block of lanes."""
LIMITS = (65_535, 1_024)
"""Blocks of a launch and threads of a block, as the smallest GPUs have them."""
RESIDENT_THREADS = 2_048
"""Threads that are there at once, where blocks wait for each other."""
CHUNK_BLOCKS = 4
"""Blocks of lanes that are reported together."""


class SimulatedKernel:
    """A kernel as machine code of this CPU."""

    def __init__(self, address: int, n_arguments: int, owner: Any) -> None:
        self.address, self.n_arguments, self._owner = address, n_arguments, owner
        self.faults: list[Fault] = []
        """What its threads did to memory that they may not, if it tells of it."""
        self.waited = False
        """Whether its threads have waited for each other."""

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
        assert len(arguments) == self.n_arguments
        launch = Launch(grid, block, shared_bytes, Watch())
        at_once = grid if meets else 1
        stacks = Stacks(primitives(), at_once * block, self.address, arguments)
        for first in range(0, grid, at_once):
            crew = Crew(launch, stacks, range(first, first + at_once), meets=meets)
            crew.run()
            self.waited |= crew.waited
            self.faults += [fault for one in crew.blocks for fault in one.watch.faults()]
        self.faults += launch.tensors.faults()


def kernel_of(text: str, entry: str, n_arguments: int) -> SimulatedKernel:
    """A kernel written in LLVM IR over primitives.py."""
    primitives()
    code = Native(for_cpu(text))
    return SimulatedKernel(code.address(entry), n_arguments, code)


class SimulatedRunner:
    """Runs lanes through the kernel that a GPU gets, a block of threads at a time."""

    name = "simulated"

    def __init__(self, profile: Profile | None = None) -> None:
        self._profile = profile

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
            # A thread without a lane would run the last one once more. Only where lanes have a
            # state in common are all threads of a warp needed: together they copy it.
            block = BLOCK if work.common else min(BLOCK, n)
            points = np.ascontiguousarray(work.points[:, start : start + n])
            results = np.empty((len(work.results), n), np.int64)
            states = np.empty(work.common * n if rows is None else 0, np.int64)
            grid = grid_of(self.name, values(work, n, piece.turns), block, LIMITS)
            buffers = (work.template, points, work.params, work.results, piece.words, piece.columns)
            template, at, params, wanted, events, columns = (array.ctypes.data for array in buffers)
            began_s = time.perf_counter()
            kernel.launch(grid, block, (
                template, at, params, len(points), results.ctypes.data, wanted, len(results),
                events, piece.turns, columns, states.ctypes.data, n, 0, n, piece.mode,
            ), shared_bytes)  # fmt: skip
            if self._profile is not None:
                seconds = time.perf_counter() - began_s
                self._profile.lanes(work, n, seconds, self.name, began_s)
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
    primitives()
    kept, varying = work.kept, work.varying
    form = Form(
        f"simulated {bounds} {kernel_form(kept, varying, GPU_DEPTH)}",
        lambda whole: gpu_part(whole, kept, varying, bounds),
        functools.partial(_text, bounds.tiling),
        INTERFACE,
    )
    shared_bytes = 8 * shared_words(gpu_part(work.module, kept, varying), bounds.tiling)
    program = load(work.module, native(), Cache(), form)
    kernel = SimulatedKernel(program.address("lanes"), 15, program)
    return LanesKernel(kernel, tiled_rows_of(work, bounds.tiling), shared_bytes)


def _text(tiling: Tiling, module: Module, target: Target) -> str:
    return emit(module, target, functools.partial(_kernel, tiling))


def _kernel(tiling: Tiling, module: Module, shared: Shared) -> Iterator[str]:
    yield warp_text("", module, shared, tiling)
    yield DECLARED
    yield COPIES_AT_ONCE
    yield "attributes #2 = { nounwind }"


kernel_of_lanes = Loaded(lambda work: kernel_within(work, Bounds()))
