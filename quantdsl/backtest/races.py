"""`quantdsl check --races`: run each kernel's threads on the simulated device, and watch them.

The compiler proves every index and that all threads meet; whether two of them come to one word
between two barriers depends on the numbers, so it is tried.
"""

from typing import NamedTuple

import numpy as np

from quantdsl.check import Checked
from quantdsl.check.kernels import KernelFacts
from quantdsl.codegen.blocks import AT_END, ENTRY, OUT, batch, batch_text
from quantdsl.codegen.target import native
from quantdsl.devices.simulated import kernel_of
from quantdsl.devices.watch import Fault
from quantdsl.ir import ops

ROUNDS = 3
"""Blocks, each with values of its own."""
SEED = 5


class Watched(NamedTuple):
    """A kernel that was run, and what its threads did wrong."""

    kernel: str
    threads: int
    faults: list[Fault]


def races(checked: Checked) -> list[Watched]:
    """What is found in each kernel that the strategy calls, on drawn values."""
    module = checked.module()
    return [
        _watched(module, func, facts)
        for func in module.funcs
        if (facts := checked.library.kernels.get(func.name.partition("[")[0])) is not None
    ]


def _watched(module: ops.Module, func: ops.Func, facts: KernelFacts) -> Watched:
    made = batch(module, func.name, facts.threads, watched=True)
    rng = np.random.default_rng(SEED)
    arrays = {OUT: np.zeros(ROUNDS, np.int64)}
    scalars: dict[str, int] = {}
    consts = [param.name.id for param in facts.node.params if param.const]
    bound = func.name.partition("[")[2].rstrip("]").split(",")
    most = dict(zip(consts, bound, strict=False))  # the sizes of the call, these first
    for param in func.params:
        at = param.name.removeprefix("p.")
        if isinstance(param.type, ops.ArrayType):
            assert isinstance(param.type.size, int)
            shape = (ROUNDS, param.type.size)
            drawn = rng.normal(1.0, 0.1, shape).view(np.int64)
            arrays[at] = drawn if param.type.elem == ops.F64_T else rng.integers(-3, 4, shape)
            arrays[at + AT_END] = np.full(ROUNDS, 2**20, np.int64)
        elif at not in arrays:
            number = int(most[at]) if at in most else 1
            scalars[at] = ops.f64_to_bits(0.5) if param.type == ops.F64_T else number
    words = [arrays[at].ctypes.data if at in arrays else scalars[at] for at in made.params]
    kernel = kernel_of(batch_text(made, native(), gpu=False), ENTRY, len(words))
    kernel.launch(ROUNDS, facts.threads, words, shared_bytes=8 * made.shared_words)
    return Watched(facts.name, facts.threads, sorted(set(kernel.faults)))
