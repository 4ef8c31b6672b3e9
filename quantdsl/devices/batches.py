"""A kernel of the language over many instruments: on one core, the simulated device, or a GPU.

All leave the same words: the result of each instrument.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from quantdsl.codegen.blocks import BATCH, ENTRY, OUT, Batch, batch, batch_text, in_turn
from quantdsl.codegen.cubin import assembled
from quantdsl.codegen.jit import Program, object_code, optimised
from quantdsl.codegen.target import Target, native
from quantdsl.devices.cuda.device import CudaDevice
from quantdsl.devices.cuda.kernel import Library
from quantdsl.devices.simulated import kernel_of
from quantdsl.devices.watch import Fault
from quantdsl.devices.work import Words
from quantdsl.ir.ops import Module


class BlockWork(NamedTuple):
    """A kernel of a linked module, by its function's name, and what a batch of it computes on.

    `arrays` are the buffers of `Batch.params` but the last one, `out`: of each window a row of
    words an instrument, and a word an instrument for how many values it has seen. `scalars` are
    the words of the others.
    """

    module: Module
    kernel: str
    threads: int
    arrays: dict[str, Words]
    scalars: dict[str, int]
    instruments: int

    def batch(self, *, watched: bool = False) -> Batch:
        """The kernel as blocks of threads."""
        return batch(self.module, self.kernel, self.threads, watched=watched)

    def words(self, made: Batch, address: Callable[[str], int]) -> list[int]:
        """The arguments of a launch; `address` says where a buffer is."""
        scalars = self.scalars
        return [scalars[at] if at in scalars else address(at) for at in made.params]


class Ready:
    """A batch as machine code of one core: one instrument after the other."""

    def __init__(self, work: BlockWork) -> None:
        module, target = in_turn(work.module, work.kernel), native()
        self._program = Program(object_code(module, target), module, target)
        self._out = np.zeros(work.instruments, np.int64)
        arrays = {**work.arrays, OUT: self._out}
        entry = next(func for func in module.funcs if func.name == BATCH)
        self._args = [
            arrays[at] if at in arrays else scalar(param.type, work.scalars[at])
            for param in entry.params[:-1]
            for at in (param.name,)
        ]

    def __call__(self) -> Words:
        """The results."""
        self._program.call(BATCH, *self._args, len(self._out))
        return self._out.copy()


def on_core(work: BlockWork) -> Words:
    """The results, computed by one core of this machine."""
    return Ready(work)()


def scalar(type_: object, word: int) -> int | float:
    """What compiled code takes for the 64 bits of a scalar."""
    return float(np.int64(word).view(np.float64)) if type_ == "f64" else word


def on_simulated(work: BlockWork) -> Words:
    """The results of blocks of threads that this CPU plays."""
    return _played(work, work.batch())[0]


def watched(work: BlockWork) -> list[Fault]:
    """What the threads of those blocks do to shared memory that no order makes right."""
    return _played(work, work.batch(watched=True))[1]


def _played(work: BlockWork, made: Batch) -> tuple[Words, list[Fault]]:
    out = np.zeros(work.instruments, np.int64)
    arrays = {**work.arrays, OUT: out}
    words = work.words(made, lambda at: int(arrays[at].ctypes.data))
    kernel = kernel_of(batch_text(made, native(), gpu=False), ENTRY, len(words))
    kernel.launch(work.instruments, made.threads, words, shared_bytes=8 * made.shared_words)
    return out, sorted(set(kernel.faults))


def ptx_of(made: Batch, target: Target) -> str:
    """A batch as PTX."""
    parsed, machine = optimised(batch_text(made, target, gpu=True), target)
    return str(machine.emit_assembly(parsed))


def on_gpu(work: BlockWork, device: CudaDevice) -> tuple[Words, float]:
    """The results of a GPU, and the seconds that its kernel took by its own clock.

    Raises DeviceError where the device refuses memory, the code or the launch.
    """
    made, out = work.batch(), np.zeros(work.instruments, np.int64)
    code = assembled(ptx_of(made, device.target), device.architecture)
    device.use()
    kernel = Library(device.driver, code, work.kernel).kernel(device, ENTRY)
    sizes = {name: array.nbytes for name, array in {**work.arrays, OUT: out}.items()}
    with device.lent(sizes) as (stream, buffers):
        for name, array in work.arrays.items():
            stream.upload(buffers[name], array)
        words = work.words(made, lambda at: buffers[at].address)
        launch = kernel.prepare(words, work.instruments, made.threads)
        began = stream.mark()
        launch(stream)
        ended = stream.mark()
        stream.download(out, buffers[OUT])
        stream.synchronize()
        seconds = ended.seconds_since(began)
        for event in (began, ended):
            event.close()
    return out, seconds
