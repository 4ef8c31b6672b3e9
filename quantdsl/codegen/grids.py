"""A kernel of tensors as launches for a GPU and the simulated device, and as one core's code."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from quantdsl.codegen import products
from quantdsl.codegen.blocks import BATCH, ENTRY, Batch, batch_text
from quantdsl.codegen.emit import emit, import_text, signatures
from quantdsl.codegen.target import Target
from quantdsl.codegen.tensors import BODIES
from quantdsl.ir import ops, tensors
from quantdsl.ir.link import Decl, link
from quantdsl.passes.blocks import PRIMITIVES, as_word, blocked, size_of
from quantdsl.passes.grids import RESULT, SCRATCH, THREADS, Stage, lowered, staged
from quantdsl.passes.nests import Product

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


class Grids(NamedTuple):
    """The launches of a kernel, in order; `scratch_words` hold its result first."""

    starts: tuple[Start, ...]
    scratch_words: int


def grids(
    module: ops.Module, kernel: str, elements: Mapping[str, str], target: Target, *, gpu: bool
) -> Grids:
    """The launches of a kernel of a linked module; `elements` says what each tensor holds.

    Raises UnavailableError where its body is more than parallel loops and numbers.
    """
    own = next(func for func in module.funcs if func.name == kernel)
    made = staged(own, elements)
    starts = tuple(_start(module, stage, target, gpu=gpu) for stage in made.stages)
    return Grids(starts, made.scratch_words)


def _start(module: ops.Module, stage: Stage, target: Target, *, gpu: bool) -> Start:
    if stage.product is not None:
        return _product(stage.product, target, gpu=gpu)
    assert stage.func is not None
    func, words = stage.func, stage.shared_words
    if words is None:
        func, arrays = blocked(stage.func, THREADS)
        words = sum(map(size_of, arrays.values()))
    linked = _linked(module, [*FUNCTIONS, func], FUNCTIONS)
    names = tuple(param.name for param in func.params[:-1])
    text = batch_text(Batch(linked, THREADS, words, names), target, gpu=gpu)
    return Start(stage.what, text, ENTRY, stage.grid, THREADS, 8 * words, names)


def _product(product: Product, target: Target, *, gpu: bool) -> Start:
    launch = products.product_launch(product, gpu=gpu)
    names = (product.a.name, product.b.name, product.c.name)
    text = f'target triple = "{target.triple}"\n{launch.text}'
    sizes = (launch.grid, launch.threads, launch.shared_bytes)
    return Start("product", text, products.ENTRY, *sizes, names)


def core_module(module: ops.Module, kernel: str, elements: Mapping[str, str]) -> ops.Module:
    """A kernel for one core: the entry BATCH takes its parameters, and scratch memory."""
    own = next(func for func in module.funcs if func.name == kernel)
    func = lowered(own, elements)
    call = ops.Call(func.name, tuple(ops.Var(param.name) for param in func.params))
    body: tuple[ops.Stmt, ...] = (ops.Do(call),)
    if func.result is not None:
        assert isinstance(func.result, str)
        left = as_word(ops.Var("result"), func.result)
        place = ops.Elem(SCRATCH, ops.i64(RESULT))
        body = (ops.Let("result", func.result, call), ops.Assign(place, left))
    scratch = ops.ParamDecl(SCRATCH.name, tensors.BUFFER, inout=True)
    entry = ops.Func(BATCH, (*func.params, scratch), None, body)
    return _linked(module, [*tensors.FUNCTIONS, func, entry], tensors.FUNCTIONS)


def core_text(module: ops.Module, target: Target) -> str:
    """LLVM IR of what `core_module` made."""
    text, symbols = emit(module, target), signatures(module)
    for name in module.imports:
        text = text.replace(import_text(symbols[name]), BODIES[name].format(symbols[name].symbol))
    return text


def _linked(
    module: ops.Module, funcs: list[ops.Func], outside: tuple[ops.Func, ...]
) -> ops.Module:
    """What the entry reaches; of two functions of one name the last."""
    declared: dict[str, Decl] = {one.name: one for one in module.structs}
    declared |= {one.name: one for one in module.tables}
    declared |= {one.name: one for one in (*module.funcs, *funcs)}
    linked = link(declared.get, [BATCH], dict(module.sizes))
    used = {func.name for func in linked.funcs}
    imports = tuple(func.name for func in outside if func.name in used)
    return msgspec.structs.replace(linked, imports=imports)
