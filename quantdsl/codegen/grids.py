"""A kernel of tensors as launches for a GPU and the simulated device, and as one core's code."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from quantdsl.codegen import products, tensor_cores
from quantdsl.codegen.blocks import BATCH, ENTRY, Batch, batch_text, linked_batch, with_bodies
from quantdsl.codegen.emit import emit
from quantdsl.codegen.target import Target
from quantdsl.ir import ops, tensors
from quantdsl.passes.blocks import PRIMITIVES, blocked, size_of
from quantdsl.passes.grids import (
    PACKED,
    RESULT,
    SCRATCH,
    SCRATCH_PARAM,
    THREADS,
    Stage,
    Stages,
    lowered,
    on_core,
)
from quantdsl.passes.nests import Product
from quantdsl.passes.packs import Packs

FUNCTIONS = (*PRIMITIVES, *tensors.FUNCTIONS)


class Start(NamedTuple):
    """One launch: code, its entry, and what it is started with, by name."""

    what: str
    text: str
    entry: str
    grid: int
    threads: int
    shared_bytes: int
    arguments: tuple[str, ...]
    together: bool = False
    """Whether all blocks are there at once, since they wait for each other."""
    told: Mapping[str, int] = MappingProxyType({})
    """Those of its arguments that are its own."""

    def given(self, words: Mapping[str, int]) -> list[int]:
        """Its arguments in order, of which all launches have `words`."""
        known = {**words, **self.told}
        return [known[name] for name in self.arguments]


class Grids(NamedTuple):
    """The launches of a kernel, in order; `scratch_words` hold its result first."""

    starts: tuple[Start, ...]
    scratch_words: int


def grids(module: ops.Module, made: Stages, target: Target, *, gpu: bool) -> Grids:
    """The launches of a kernel of a linked module for a target, or the simulated device."""
    starts = tuple(_start(module, stage, target, gpu=gpu) for stage in made.stages)
    return Grids(starts, made.scratch_words)


def _start(module: ops.Module, stage: Stage, target: Target, *, gpu: bool) -> Start:
    if stage.product is not None:
        return _product(stage.product, target, gpu=gpu)
    if stage.packs is not None:
        return _tensor_cores(stage.what, stage.packs, target)
    assert stage.func is not None
    func, words = stage.func, stage.shared_words
    if words is None:
        func, arrays = blocked(stage.func, THREADS)
        words = sum(map(size_of, arrays.values()))
    linked = linked_batch(module, [], [*module.funcs, *FUNCTIONS, func], FUNCTIONS)
    names = tuple(param.name for param in func.params[:-1])
    text = batch_text(Batch(linked, stage.threads, words, names), target, gpu=gpu)
    sizes = stage.grid, stage.threads, 8 * words
    return Start(stage.what, text, ENTRY, *sizes, names, stage.together, stage.told)


def _product(product: Product, target: Target, *, gpu: bool) -> Start:
    launch = products.product_launch(product, gpu=gpu)
    names = (product.a.name, product.b.name, product.c.name)
    text = f'target triple = "{target.triple}"\n{launch.text}'
    sizes = (launch.grid, launch.threads, launch.shared_bytes)
    return Start("product", text, products.ENTRY, *sizes, names)


def _tensor_cores(what: str, packs: Packs, target: Target) -> Start:
    """One of the launches of a product on tensor cores: PACKED names them."""
    rows, columns, _ = PACKED
    if what in (rows, columns):
        pack = packs.a if what == rows else packs.b
        launch = tensor_cores.pack_launch(pack, packs.rounded, across=what == columns)
        entry, names = tensor_cores.PACK_ENTRY, (pack.operand.name, SCRATCH.name)
    else:
        launch = tensor_cores.multiply_launch(packs)
        entry, names = tensor_cores.ENTRY, (SCRATCH.name, packs.product.c.name)
    text = f'target triple = "{target.triple}"\n{launch.text}'
    sizes = launch.grid, launch.threads, launch.shared_bytes
    return Start(f"{what}, {packs.rounded}", text, entry, *sizes, names)


def core_module(module: ops.Module, kernel: str, elements: Mapping[str, str]) -> ops.Module:
    """A kernel for one core: the entry BATCH takes its parameters, and scratch memory."""
    own = next(func for func in module.funcs if func.name == kernel)
    func = lowered(on_core(own, elements).func, elements)
    call = ops.Call(func.name, tuple(ops.Var(param.name) for param in func.params))
    body: tuple[ops.Stmt, ...] = (ops.Do(call),)
    if func.result is not None:
        assert isinstance(func.result, str)
        left = ops.as_word(ops.Var("result"), func.result)
        place = ops.Elem(SCRATCH, ops.i64(RESULT))
        body = (ops.Let("result", func.result, call), ops.Assign(place, left))
    given = tuple(param for param in func.params if param != SCRATCH_PARAM)
    entry = ops.Func(BATCH, (*given, SCRATCH_PARAM), None, body)
    known = [*module.funcs, *tensors.FUNCTIONS, func, entry]
    return linked_batch(module, [], known, tensors.FUNCTIONS)


def core_text(module: ops.Module, target: Target) -> str:
    """LLVM IR of what `core_module` made."""
    return with_bodies(emit(module, target), module, gpu=False)
