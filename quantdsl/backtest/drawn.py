"""Kernels on drawn values: what is measured, compared between devices, and watched for races."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from quantdsl.check import Checked
from quantdsl.check.calls import bind_size
from quantdsl.check.kernels import KernelFacts
from quantdsl.codegen.blocks import AT_END
from quantdsl.devices.batches import BlockWork
from quantdsl.errors import LimitError
from quantdsl.ir import ops
from quantdsl.ir.link import alone

SEED = 5
ELEMENTS_MAX = 2**59
"""Of 8 bytes: NumPy counts no more; how many there is room for the system says."""
LATE = 2**20
"""So many values each window has seen: it is full, and its newest one stands anywhere in it."""


def drawn_works(checked: Checked, instruments: int) -> Iterator[tuple[KernelFacts, BlockWork]]:
    """Each kernel of windows on so many instruments, but those that `unknown` has."""
    for facts, module, func in window_kernels(checked):
        yield facts, drawn_work(module, func, facts, instruments)


def window_kernels(checked: Checked) -> Iterator[tuple[KernelFacts, ops.Module, ops.Func]]:
    """Each kernel that a strategy calls, as its call says, and those that nothing calls."""
    module, called = checked.module(), set()
    for func in module.funcs:
        facts = checked.library.kernels.get(name := func.name.partition("[")[0])
        if facts is not None:
            called.add(name)
            yield facts, module, func
    lookup = checked.library.lookup
    for name, facts in checked.library.kernels.items():
        if name in called or facts.tensors or _consts(facts):
            continue
        own = lookup(name)
        assert isinstance(own, ops.Func)
        made = alone(lookup, name, dict(zip(own.sizes, facts.windows, strict=True)))
        yield facts, made, next(func for func in made.funcs if func.name == name)


def unknown(checked: Checked) -> Iterator[KernelFacts]:
    """Kernels of windows that nothing calls, so that their const ints are no numbers."""
    called = {func.name.partition("[")[0] for func in checked.module().funcs}
    for name, facts in checked.library.kernels.items():
        if name not in called and not facts.tensors and _consts(facts):
            yield facts


def _consts(facts: KernelFacts) -> list[str]:
    """The names of its const ints."""
    return [param.name.id for param in facts.node.params if param.const]


def drawn_work(
    module: ops.Module, func: ops.Func, facts: KernelFacts, instruments: int
) -> BlockWork:
    """A kernel on windows of ratios around 1, of small ints, or of f32 as they are kept.

    Const ints are the largest that its call says, other ints 1, floats a half.
    """
    rng = np.random.default_rng(SEED)
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = {}
    scalars: dict[str, int] = {}
    single = {p.name.id for p in facts.node.params if p.type is not None and "f32" in str(p.type)}
    bound = func.name.partition("[")[2].rstrip("]").split(",")
    most = dict(zip(_consts(facts), bound, strict=False))  # the sizes of the call, these first
    for param in func.params:
        at = param.name.removeprefix("p.")
        if isinstance(param.type, ops.ArrayType):
            assert isinstance(param.type.size, int)
            shape = (instruments, param.type.size)
            values = rng.normal(1.0, 0.1, shape)
            values = values.astype(np.float32).astype(np.float64) if at in single else values
            whole = param.type.elem != ops.F64_T
            arrays[at] = rng.integers(-3, 4, shape) if whole else values.view(np.int64)
            arrays[at + AT_END] = LATE + rng.integers(0, param.type.size, instruments)
        elif at not in arrays:
            number = int(most[at]) if at in most else 1
            scalars[at] = ops.f64_to_bits(0.5) if param.type == ops.F64_T else number
    return BlockWork(module, func.name, facts.threads, arrays, scalars, instruments)


def drawn_arguments(facts: KernelFacts, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Arguments of a kernel of tensors: numbers around 0, small ints; a half for other floats."""
    rng = np.random.default_rng(SEED)
    made: dict[str, Any] = {}
    for param in facts.params:
        kind = str(param.type.elem if param.type.kind == "tensor" else param.type)
        if param.type.kind != "tensor":
            made[param.name] = {"int": sizes.get(param.name, 1), "bool": True}.get(kind, 0.5)
            continue
        dims = (bind_size(size, dict(sizes)) for size in param.type.dims)
        shape = [size for size in dims if isinstance(size, int)]
        if prod(shape) > ELEMENTS_MAX:
            raise LimitError(
                f"kernel {facts.name}: {param.name} of {' x '.join(f'{n:,}' for n in shape)} "
                "elements has more than any memory\nhelp: give it smaller sizes (--size)"
            )
        if kind in ("int", "bool"):
            drawn = rng.integers(-3, 4, shape)
            made[param.name] = drawn > 0 if kind == "bool" else drawn
        else:
            values = rng.standard_normal(shape)
            made[param.name] = values.astype(np.float32) if kind == "f32" else values
    return made
