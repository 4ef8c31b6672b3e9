"""The kernels of a file as PTX, and what each is: `quantdsl explain --stage kernels`."""

from collections.abc import Container, Iterator, Mapping
from contextlib import suppress

from quantdsl.backtest.drawn import window_kernels
from quantdsl.backtest.kernel_bench import with_sizes
from quantdsl.backtest.tensor_kernel import TensorKernel, tensor_kernels
from quantdsl.check import Checked
from quantdsl.check.kernels import KernelFacts
from quantdsl.codegen.blocks import ENTRY, batch, batch_text
from quantdsl.codegen.cubin import link_ptx
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.ptx import Bounds, Ptx
from quantdsl.codegen.target import Target
from quantdsl.devices.grids import launches_of
from quantdsl.errors import ConfigError, CoreAloneError, UnavailableError
from quantdsl.ir.ops import ArrayType, Func, Let, Module
from quantdsl.ir.strands import called
from quantdsl.ir.threads import SHARED
from quantdsl.ir.walk import statements
from quantdsl.passes.blocks import size_of
from quantdsl.report.words import plural


def kernels_text(checked: Checked, target: Target, sizes: Mapping[str, int]) -> str:
    """Each kernel of windows, for a block an instrument; then those of tensors.

    Raises ConfigError for a file without kernels or an unknown size.
    """
    texts = [*_of_windows(checked, target), *_of_tensors(checked, target, sizes)]
    if not texts:
        raise ConfigError(f"{checked.source.path} calls no kernel, and has none of tensors")
    return "\n".join(texts)


def _of_windows(checked: Checked, target: Target) -> Iterator[str]:
    """Those that the strategy calls, and those that nothing calls."""
    for facts, module, func in window_kernels(checked):
        made = batch(module, func.name, facts.threads)
        shared = f"{made.threads} threads, {8 * made.shared_words:,} bytes shared"
        yield f"// {facts.name}: {facts}; {shared}"
        yield from _memory(checked, facts, made.module, func, made.shared)
        yield from _ptx(batch_text(made, target, gpu=True), target, ENTRY, made.threads)


def _of_tensors(checked: Checked, target: Target, sizes: Mapping[str, int]) -> Iterator[str]:
    """The launches of kernels of tensors, in order."""
    for kernel, known in with_sizes(list(tensor_kernels(checked)), sizes):
        yield from _launches(checked, kernel, target, known)


def _launches(
    checked: Checked, kernel: TensorKernel, target: Target, sizes: Mapping[str, int]
) -> Iterator[str]:
    work, facts = kernel.work(sizes), kernel.facts
    over = ", ".join(f"{name} = {size:,}" for name, size in sizes.items())
    yield f"// {facts.name}: {facts}" + (f"; here {over}" if over else "")
    shared = [name for name in facts.arrays if called(name, SHARED)]
    yield from _memory(checked, facts, work.module, work.func, shared)
    try:
        starts = launches_of(work, target, gpu=True).starts
    except CoreAloneError as error:
        yield from (f"// {line}" for line in str(error).splitlines())
        return
    for start in starts:
        sizes_told = f"{plural(start.grid, 'block')} of {plural(start.threads, 'thread')}"
        yield f"// launch '{start.what}': {sizes_told}, {start.shared_bytes:,} bytes shared"
        yield from _ptx(start.text, target, start.entry, start.threads)


def _ptx(text: str, target: Target, entry: str, threads: int) -> Iterator[str]:
    """What a thread takes, where something here assembles for a GPU, and the code."""
    parsed, machine = optimised(text, target)
    ptx = str(machine.emit_assembly(parsed))
    with suppress(UnavailableError):
        cubin = link_ptx(Ptx(ptx, ""), target.cpu, None, Bounds(threads, 1), entry)
        yield (
            f"// thread: {cubin.registers} of {cubin.bounds.registers} registers, "
            f"{cubin.stack_bytes:,} bytes of stack, {cubin.spill_bytes:,} bytes spilled"
        )
    yield ptx


def _memory(
    checked: Checked, facts: KernelFacts, module: Module, func: Func, shared: Container[str]
) -> Iterator[str]:
    """Where a kernel's memory lies, and how the threads of a warp meet in what they access."""
    for stmt in statements(func.body):
        if isinstance(stmt, Let) and stmt.name in facts.arrays:
            assert isinstance(stmt.type, ArrayType)
            name, type_ = facts.arrays[stmt.name]
            where = "shared by the block" if stmt.name in shared else "each thread's own"
            yield f"// memory: {name}: {type_}, {8 * size_of(stmt.type):,} bytes, {where}"
    for param in facts.tensors:
        where = "the caller's, of the device" + (", written to" if param.inout else "")
        yield f"// memory: {param.name}: {param.type}, {where}"
    for table in module.tables:
        if (constant := checked.library.constants.get(table.name)) is not None:
            size = f"{8 * len(table.bits):,} bytes, constant memory"
            yield f"// memory: {table.name.rpartition('.')[2]}: {constant}, {size}"
    for line, text, how in facts.loads:
        yield f"// access in line {line}: {text}, {how}"
