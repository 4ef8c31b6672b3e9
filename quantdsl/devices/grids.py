"""A kernel of tensors on arrays of the caller: on one core, the simulated device, or a GPU.

All leave the same bits in what the kernel writes, and return the same word.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl import limits
from quantdsl.codegen.blocks import BATCH
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import cache_key, through_cache
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.grids import Grids, Start, core_module, core_text, grids
from quantdsl.codegen.jit import Program, assemble, optimised
from quantdsl.codegen.ptx import target_of
from quantdsl.codegen.target import Target, native
from quantdsl.codegen.tensor_cores import has_tensor_cores
from quantdsl.devices.batches import scalar
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.kernel import Kernel, Library
from quantdsl.devices.failure import refused
from quantdsl.devices.simulated import RESIDENT_THREADS, SimulatedKernel, kernel_of
from quantdsl.devices.watch import Fault
from quantdsl.errors import ConfigError
from quantdsl.ir import ops
from quantdsl.ir.tensors import ORDER
from quantdsl.passes.grids import RESULT, SCRATCH, grid_blocks, on_core, staged
from quantdsl.passes.thread_grids import is_grid

Array = npt.NDArray[Any]


class TensorWork(NamedTuple):
    """A linked kernel of tensors: `elements` is what each holds, `scalars` words of all else."""

    module: ops.Module
    kernel: str
    elements: dict[str, str]
    threads: int
    """Of a block, where the kernel says what each of them does."""
    fast: str = ""
    """What the factors of its products may be rounded to, where there are tensor cores; or ORDER,
    where its sums may be put together in any."""

    @property
    def func(self) -> ops.Func:
        """The kernel."""
        return next(func for func in self.module.funcs if func.name == self.kernel)

    @property
    def written(self) -> tuple[str, ...]:
        """The tensors that it writes to."""
        return tuple(p.name for p in self.func.params if p.inout and p.name in self.elements)


def launches_of(work: TensorWork, target: Target, *, gpu: bool, watched: bool = False) -> Grids:
    """The launches of a kernel for a target, or the simulated device.

    Raises ConfigError where one is larger than a GPU takes.
    """
    fast = work.fast if work.fast == ORDER or has_tensor_cores(target) else ""
    made = staged(work.func, work.elements, work.threads, fast=fast, watched=watched)
    found = grids(work.module, made, target, gpu=gpu)
    _hold_blocks(work, max((start.grid for start in found.starts), default=0))
    return found


def _hold_blocks(work: TensorWork, most: int) -> None:
    """ConfigError for a launch that no GPU takes; on a core it would go on for hours."""
    if most > limits.GRID_BLOCKS:
        raise ConfigError(
            f"kernel {work.kernel.partition('[')[0].rpartition('.')[2]}: a launch of {most:,} "
            f"blocks, and the limit is {limits.GRID_BLOCKS:,} (GRID_BLOCKS)\n"
            "help: give it a smaller @grid, each block going over more elements"
        )


class OnCore:
    """The kernel as machine code of one core, one turn after the other."""

    def __init__(self, work: TensorWork) -> None:
        """Raises ConfigError where it has more blocks than a GPU takes."""
        if is_grid(work.func):
            _hold_blocks(work, grid_blocks(work.func))
        target = native()
        module = core_module(work.module, work.kernel, work.elements)
        made = through_cache(
            Cache(), cache_key(module, target, "core of tensors"),
            lambda: assemble(core_text(module, target), target),
        )  # fmt: skip
        self.program = Program(made, module, target)
        self.scratch_words = on_core(work.func, work.elements).scratch_words
        self.params = next(func for func in module.funcs if func.name == BATCH).params[:-1]

    def __call__(self, addresses: Mapping[str, int], scalars: Mapping[str, int]) -> int:
        """Run it on memory of this process; the word that it returns."""
        out = np.zeros(self.scratch_words, np.int64)
        args = [
            addresses[p.name] if p.name in addresses else scalar(p.type, scalars[p.name])
            for p in self.params
        ]
        self.program.call(BATCH, *args, out)
        return int(out[RESULT])


class OnSimulated:
    """The kernel's launches, played on this CPU."""

    def __init__(self, work: TensorWork, *, watched: bool = False) -> None:
        """Where it is `watched`, of blocks that wait for each other only those run that fit."""
        self.watched, self.blocks = watched, 0
        self.grids = launches_of(work, native(), gpu=False, watched=watched)
        self.kernels: list[SimulatedKernel] = [
            kernel_of(start.text, start.entry, len(start.arguments)) for start in self.grids.starts
        ]

    def __call__(self, addresses: Mapping[str, int], scalars: Mapping[str, int]) -> int:
        """Run it on memory of this process; the word that it returns."""
        scratch = np.zeros(self.grids.scratch_words, np.int64)
        words = {**addresses, **scalars, SCRATCH.name: scratch.ctypes.data}
        for start, kernel in zip(self.grids.starts, self.kernels, strict=True):
            fit = RESIDENT_THREADS // start.threads if start.together else start.grid
            if start.grid > fit and not self.watched:
                raise refused("simulated", "unsupported", too_many(start, fit))
            args = start.given(words)
            self.blocks = min(start.grid, fit)
            sizes = self.blocks, start.threads
            kernel.launch(*sizes, args, start.shared_bytes, meets=start.together)
        return int(scratch[RESULT])

    @property
    def seen(self) -> str:
        """What the last launch was, where it is watched: so many threads, or a part of more."""
        last = self.grids.starts[-1]
        if self.blocks == last.grid:
            return f"{last.threads} threads"
        fit = f"the first {self.blocks:,} of {last.grid:,} blocks of {last.threads} threads"
        return f"{fit}: {RESIDENT_THREADS:,} can wait for each other here"

    @property
    def faults(self) -> list[Fault]:
        """What its threads did to memory that no order makes right, where it is watched."""
        return sorted({fault for kernel in self.kernels for fault in kernel.faults})


class OnGpu:
    """The kernel's launches on a GPU, one after the other on a stream."""

    def __init__(self, work: TensorWork, device: CudaDevice) -> None:
        """Raises DeviceError where the device refuses the code."""
        self.device, self.work = device, work
        self.grids = launches_of(work, device.target, gpu=True)
        device.use()
        texts = ptx_of(self.grids, work, device.architecture)
        entries = dict(zip(texts, (start.entry for start in self.grids.starts), strict=True))
        with ThreadPoolExecutor() as pool:  # the assembler takes as long as LLVM, and no lock
            codes = pool.map(assembled, entries, itertools.repeat(device.architecture))
        made = {
            text: Library(device.driver, code, work.kernel).kernel(device, entry)
            for (text, entry), code in zip(entries.items(), codes, strict=True)
        }
        self.kernels: list[Kernel] = [made[text] for text in texts]
        self._require_room()

    def __call__(
        self, addresses: Mapping[str, int], scalars: Mapping[str, int], rounds: int = 1
    ) -> tuple[int, list[float]]:
        """Run it on memory of the device; its word, 0 where it has none, and seconds a round.

        Raises DeviceError where the device refuses a launch.
        """
        device = self.device
        device.synchronize()  # what wrote the caller's arrays may be on any stream
        out = np.zeros(1, np.int64)
        with device.lent({SCRATCH.name: 8 * self.grids.scratch_words}) as (stream, lent):
            scratch = lent[SCRATCH.name]
            words = {**addresses, **scalars, SCRATCH.name: scratch.address}
            launches = [
                kernel.prepare(start.given(words), start.grid, start.threads)
                for start, kernel in zip(self.grids.starts, self.kernels, strict=True)
            ]
            started = [
                launch.together if start.together else launch
                for start, launch in zip(self.grids.starts, launches, strict=True)
            ]
            events = [stream.mark()]
            for _ in range(rounds):
                for launch in started:
                    launch(stream)
                events.append(stream.mark())
            stream.download(out, scratch)
            stream.synchronize()
            pairs = zip(events[1:], events[:-1], strict=True)
            seconds = [later.seconds_since(earlier) for later, earlier in pairs]
            for event in events:
                event.close()
        word = int(out[RESULT]) if self.work.func.result is not None else 0
        return word, seconds

    def _require_room(self) -> None:
        """Raises DeviceError where blocks that wait for each other are more than fit at once."""
        for start, kernel in zip(self.grids.starts, self.kernels, strict=True):
            if not start.together:
                continue
            many = self.device.attribute("MULTIPROCESSOR_COUNT")
            fit = many * kernel.blocks_at_once(start.threads)
            if start.grid > fit:
                raise refused(self.device.name, "unsupported", too_many(start, fit))

    def on_copies(
        self, arrays: Mapping[str, Array], scalars: Mapping[str, int], rounds: int = 1
    ) -> tuple[int, list[float]]:
        """Run it on copies of arrays of this process, and copy back what it writes."""
        sizes = {name: array.nbytes for name, array in arrays.items()}
        with self.device.lent(sizes) as (stream, buffers):
            for name, array in arrays.items():
                stream.upload(buffers[name], array)
            stream.synchronize()
            addresses = {name: buffer.address for name, buffer in buffers.items()}
            left = self(addresses, scalars, rounds)
            for name in self.work.written:
                stream.download(arrays[name], buffers[name])
            stream.synchronize()
        return left


def too_many(start: Start, fit: int) -> str:
    """What is told of a grid that a device cannot hold at once."""
    return (
        f"{start.grid:,} blocks of {start.threads:,} threads wait for each other, and {fit:,} are "
        "there at once: give the kernel a smaller @grid, each block going over more elements"
    )


def ptx_of(made: Grids, work: TensorWork, architecture: str) -> Sequence[str]:
    """The launches of a kernel as PTX, in order; those that are one code have one text."""
    target = target_of(architecture)

    def compiled(text: str) -> bytes:
        parsed, machine = optimised(text, target)
        return str(machine.emit_assembly(parsed)).encode()

    found: dict[str, str] = {}
    for number, start in enumerate(made.starts):
        if start.text not in found:
            key = cache_key(work.module, target, f"tensors {number} {start.what} {work.elements}")
            code = through_cache(Cache(), key, functools.partial(compiled, start.text))
            found[start.text] = code.decode()
    return [found[start.text] for start in made.starts]
