"""`quantdsl check --races`: run each kernel's threads on the simulated device, and watch them.

The compiler proves every index and that all threads meet; whether two of them come to one word
between two barriers depends on the numbers, so it is tried.
"""

from typing import NamedTuple

from quantdsl.backtest.drawn import drawn_arguments, drawn_works
from quantdsl.backtest.tensor_kernel import TensorKernel, tensor_kernels
from quantdsl.check import Checked
from quantdsl.check.launches import dims_of
from quantdsl.devices.batches import watched
from quantdsl.devices.watch import Fault
from quantdsl.lang import ast

ROUNDS = 3
"""Blocks, each with values of its own."""


class Watched(NamedTuple):
    """A kernel that was run, and what its threads did wrong."""

    kernel: str
    seen: str
    """How many threads."""
    faults: list[Fault]


def races(checked: Checked) -> list[Watched]:
    """What is found in each kernel on drawn values, but those that `unknown` names."""
    found = [
        Watched(facts.name, f"{facts.threads} threads", watched(work))
        for facts, work in drawn_works(checked, ROUNDS)
    ]
    for kernel in tensor_kernels(checked):
        if kernel.facts.kind == "threads":
            faults, seen = kernel.watched(kernel.bound((), _drawn(kernel)))
            found.append(Watched(kernel.facts.name, seen, faults))
    return found


def _drawn(kernel: TensorKernel) -> dict[str, object]:
    """Arguments that need a few blocks: of each size as many elements as their threads, or so."""
    notes = kernel.facts.node.annotations
    along = max(dims_of(notes) or (1,))
    sizes = dict.fromkeys(kernel.size_names, along * (ROUNDS - 1) + along // 2)
    grid = [arg.value for note in notes if note.name == "grid" for arg in note.args]
    blocks = [value.id for value in grid if isinstance(value, ast.Name)]
    sizes |= {name: ROUNDS for name in blocks if name in sizes}
    return drawn_arguments(kernel.facts, sizes)
