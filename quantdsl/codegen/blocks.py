"""Kernels of the language for a GPU, a block of threads an instrument, or the simulated one.

The text of both is the same but for the convention of the entry. The rings of all instruments lie
one after the other; each has a word that says how many values it has seen, and one for its result.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from quantdsl.codegen.emit import emit, import_text, signatures
from quantdsl.codegen.function import Shared
from quantdsl.codegen.primitives import on_ptx
from quantdsl.codegen.target import Target
from quantdsl.codegen.tensors import BODIES as OF_TENSORS
from quantdsl.codegen.tensors import ON_GPU
from quantdsl.codegen.text import LLVM_TYPE, entry_symbol
from quantdsl.ir import ops
from quantdsl.ir.link import Decl, link
from quantdsl.ir.threads import (
    ATOMICS,
    BARRIER,
    COPIED,
    FENCES,
    LANES_BARRIER,
    NAMED_BARRIER,
    WARP_BARRIER,
)
from quantdsl.passes.blocks import (
    BALLOT,
    BLOCK_NUMBER,
    COPY,
    MATCH,
    MATCH_DIGIT,
    ONES,
    PRIMITIVES,
    SHARED,
    SHUFFLE,
    SHUFFLE_FROM,
    THREAD_NUMBER,
    TOUCH,
    TOUCH_TENSOR,
    blocked,
    counted,
)
from quantdsl.passes.threads import of_threads, threaded
from quantdsl.passes.touches import told

BATCH = "batch"
ENTRY = entry_symbol(BATCH)
OUT, AT_END = "out", ".at"
HELD = "h"

_SCOPES = {
    "thread": 'syncscope("singlethread") ',
    "block": 'syncscope("block") ',
    "device": 'syncscope("device") ',
    "system": "",
}


def _by_halves(shuffle: str) -> str:
    """A word of another thread of the warp: shuffles move 32 bits."""
    return f"""\
define internal i64 @{{0}}(i64 %value, i64 %lane) alwaysinline convergent {{{{
  %which = trunc i64 %lane to i32
  %low = trunc i64 %value to i32
  %top = lshr i64 %value, 32
  %high = trunc i64 %top to i32
  %other.low = call i32 @quantdsl.{shuffle}(i32 %low, i32 %which)
  %other.high = call i32 @quantdsl.{shuffle}(i32 %high, i32 %which)
  %low.wide = zext i32 %other.low to i64
  %high.wide = zext i32 %other.high to i64
  %shifted = shl i64 %high.wide, 32
  %word = or i64 %shifted, %low.wide
  ret i64 %word
}}}}"""


BODIES = {
    **OF_TENSORS,
    THREAD_NUMBER: """\
define internal i64 @{0}() alwaysinline {{
  %x = call i32 @quantdsl.thread()
  %wide = zext i32 %x to i64
  ret i64 %wide
}}""",
    BLOCK_NUMBER: """\
define internal i64 @{0}() alwaysinline {{
  %x = call i32 @quantdsl.block()
  %wide = zext i32 %x to i64
  ret i64 %wide
}}""",
    BARRIER: """\
define internal void @{0}() alwaysinline convergent {{
  call void @quantdsl.barrier()
  ret void
}}""",
    SHUFFLE: _by_halves("shuffle"),
    SHUFFLE_FROM: _by_halves("shuffle_from"),
    BALLOT: """\
define internal i64 @{0}(i64 %value) alwaysinline convergent {{
  %on = icmp ne i64 %value, 0
  %word = zext i1 %on to i32
  %bits = call i32 @quantdsl.ballot(i32 %word)
  %wide = zext i32 %bits to i64
  ret i64 %wide
}}""",
    **dict.fromkeys((MATCH, MATCH_DIGIT), """\
define internal i64 @{0}(i64 %value) alwaysinline convergent {{
  %bits = call i32 @quantdsl.match(i64 %value)
  %wide = zext i32 %bits to i64
  ret i64 %wide
}}"""),
    ONES: """\
define internal i64 @{0}(i64 %value) alwaysinline {{
  %bits = trunc i64 %value to i32
  %many = call i32 @llvm.ctpop.i32(i32 %bits)
  %wide = zext i32 %many to i64
  ret i64 %wide
}}""",
    NAMED_BARRIER: """\
define internal void @{0}(i64 %number, i64 %threads) alwaysinline convergent {{
  %which = trunc i64 %number to i32
  %many = trunc i64 %threads to i32
  call void @quantdsl.named_barrier(i32 %which, i32 %many)
  ret void
}}""",
    LANES_BARRIER: """\
define internal void @{0}(i64 %lanes) alwaysinline convergent {{
  %mask = trunc i64 %lanes to i32
  call void @quantdsl.lanes_barrier(i32 %mask)
  ret void
}}""",
    WARP_BARRIER: """\
define internal void @{0}() alwaysinline convergent {{
  call void @quantdsl.warp_barrier()
  ret void
}}""",
    COPY: """\
define internal void @{0}(i64 %index, ptr %tensor, i64 %at) alwaysinline {{
  %shared = call ptr @quantdsl.shared()
  %to = getelementptr i64, ptr %shared, i64 %index
  %from = getelementptr i64, ptr %tensor, i64 %at
  %word = load i64, ptr %from
  store i64 %word, ptr %to
  ret void
}}""",
    COPIED: """\
define internal void @{0}() alwaysinline {{
  ret void
}}""",
    TOUCH: """\
define internal void @{0}(i64 %index, i64 %how, i64 %line) alwaysinline {{
  call void @quantdsl.touch(i64 %index, i64 %how, i64 %line)
  ret void
}}""",
    TOUCH_TENSOR: """\
define internal void @{0}(i64 %tensor, i64 %words, i64 %index, i64 %how, i64 %line) alwaysinline {{
  call void @quantdsl.touch_tensor(i64 %tensor, i64 %words, i64 %index, i64 %how, i64 %line)
  ret void
}}""",
    **{
        counted(name): f"""\
define internal void @{{0}}(i64 %index, i64 %value) alwaysinline {{{{
  %shared = call ptr @quantdsl.shared()
  %at = getelementptr i64, ptr %shared, i64 %index
  %old = atomicrmw {name} ptr %at, i64 %value syncscope("block") monotonic
  ret void
}}}}"""
        for name in ATOMICS
    },
    **{
        name: f"""\
define internal void @{{0}}() alwaysinline {{{{
  fence {_SCOPES[scope]}seq_cst
  ret void
}}}}"""
        for scope, name in FENCES.items()
    },
}
"""What passes/blocks.py asks of a device, in terms of primitives.py. A word is two halves."""
_DIGIT_BITS = 9


def _digit_by_votes() -> str:
    """Who of the warp has the same value: a vote on each bit takes a third of a match's time."""
    lines = [
        "define internal i64 @{0}(i64 %value) alwaysinline convergent {{",
        "  %bits = trunc i64 %value to i32",
        "  %alike.0 = add i32 0, -1",
    ]
    for bit in range(_DIGIT_BITS):
        lines += [
            f"  %own.{bit} = and i32 %bits, {1 << bit}",
            f"  %all.{bit} = call i32 @quantdsl.ballot(i32 %own.{bit})",
            f"  %on.{bit} = icmp ne i32 %own.{bit}, 0",
            f"  %turn.{bit} = select i1 %on.{bit}, i32 0, i32 -1",
            f"  %same.{bit} = xor i32 %all.{bit}, %turn.{bit}",
            f"  %alike.{bit + 1} = and i32 %alike.{bit}, %same.{bit}",
        ]
    lines += [f"  %wide = zext i32 %alike.{_DIGIT_BITS} to i64", "  ret i64 %wide", "}}"]
    return "\n".join(lines)


OWN_ON_GPU = {
    MATCH_DIGIT: _digit_by_votes(),
    FENCES["thread"]: """\
define internal void @{0}() alwaysinline {{
  call void asm sideeffect "", "~{{memory}}"()
  ret void
}}""",
    COPY: """\
define internal void @{0}(i64 %index, ptr %tensor, i64 %at) alwaysinline {{
  %shared = call ptr @quantdsl.shared()
  %to = getelementptr i64, ptr %shared, i64 %index
  %from = getelementptr i64, ptr %tensor, i64 %at
  %near = addrspacecast ptr %to to ptr addrspace(3)
  %far = addrspacecast ptr %from to ptr addrspace(1)
  call void asm sideeffect "cp.async.ca.shared.global [$0], [$1], 8;", "r,l,~{{memory}}"(
    ptr addrspace(3) %near, ptr addrspace(1) %far)
  ret void
}}""",
    COPIED: """\
define internal void @{0}() alwaysinline {{
  call void asm sideeffect "cp.async.wait_all;", "~{{memory}}"()
  ret void
}}""",
}
"""In place of those: a copy runs beside what its thread does next, and LLVM ends the process on a
fence that is nobody's but the thread's."""


Entry = Callable[[str, Shared], str]
"""(calling convention, what the module's functions share) -> the text of a kernel's entry."""


class Batch(NamedTuple):
    """A kernel over many instruments: a launch has a block of `threads` for each.

    `params` are the words and buffers of a launch, in order: of each window its rings and, with
    the end `.at`, how many values each ring has seen; the scalars; `out`, a word an instrument.
    """

    module: ops.Module
    threads: int
    shared_words: int
    params: tuple[str, ...]
    shared: tuple[str, ...] = ()
    """What lies in shared memory, by its name in the kernel."""


def batch(module: ops.Module, kernel: str, threads: int, *, watched: bool = False) -> Batch:
    """The batch of a kernel of a linked module, by the name of its function there.

    Where it is `watched` it tells the simulated device of each access to shared memory.
    """
    own = next(func for func in module.funcs if func.name == kernel)
    form = threaded(own, threads) if of_threads(own) else blocked(own, threads)
    made = told(form.kernel) if watched else form.kernel
    which = ops.Var("which")
    structs, params, args = _arguments(own, which)
    first = ops.Binary("ieq", ops.Call(THREAD_NUMBER, ()), ops.i64(0))
    body: tuple[ops.Stmt, ...] = (
        ops.Let(which.name, ops.I64_T, ops.Call(BLOCK_NUMBER, ())),
        _result(own, (*args, SHARED)),
        ops.If(first, (_left(own, which),)),
    )
    entry = ops.Func(BATCH, (*params, made.params[-1]), None, body)
    linked = linked_batch(module, structs, [*module.funcs, *PRIMITIVES, made, entry])
    words = tuple(param.name for param in params)
    return Batch(linked, threads, form.words, words, tuple(form.shared))


def in_turn(module: ops.Module, kernel: str) -> ops.Module:
    """A batch of a kernel for one core: the entry BATCH takes the params of `Batch`, and a count.

    The instruments are computed one after the other.
    """
    own = next(func for func in module.funcs if func.name == kernel)
    which = ops.Var("which")
    structs, params, args = _arguments(own, which)
    many = ops.ParamDecl("count", ops.I64_T)
    turn = (_result(own, tuple(args)), _left(own, which))
    loop = ops.For(which.name, ops.i64(0), ops.Var(many.name), turn)
    entry = ops.Func(BATCH, (*params, many), None, (loop,))
    return _linked(module, structs, [*module.funcs, entry])


def _arguments(
    own: ops.Func, which: ops.Expr
) -> tuple[list[ops.StructDecl], list[ops.ParamDecl], list[ops.Expr]]:
    """What a batch takes, and from that what its kernel takes for one instrument."""
    structs: list[ops.StructDecl] = []
    params: list[ops.ParamDecl] = []
    args: list[ops.Expr] = []
    for param in own.params:
        name = param.name.removeprefix("p.")
        if isinstance(param.type, ops.ArrayType):
            ring = ops.StructType(f"ring.{name}")
            structs.append(ops.StructDecl(ring.name, (ops.FieldDecl(HELD, param.type),)))
            params.append(ops.ParamDecl(name, ops.BufferType(ring)))
            args.append(ops.Field(ops.Elem(ops.Var(name), which), HELD))
        elif name.endswith(AT_END):
            params.append(ops.ParamDecl(name, ops.BufferType(ops.I64_T)))
            args.append(ops.Elem(ops.Var(name), which))
        else:
            params.append(ops.ParamDecl(name, param.type))
            args.append(ops.Var(name))
    params.append(ops.ParamDecl(OUT, ops.BufferType(ops.I64_T), inout=True))
    return structs, params, args


def _result(own: ops.Func, args: tuple[ops.Expr, ...]) -> ops.Let:
    assert isinstance(own.result, str)
    return ops.Let("result", own.result, ops.Call(own.name, args))


def _left(own: ops.Func, which: ops.Expr) -> ops.Assign:
    """The result of an instrument as its word."""
    assert isinstance(own.result, str)
    word = ops.as_word(ops.Var("result"), own.result)
    return ops.Assign(ops.Elem(ops.Var(OUT), which), word)


def linked_batch(
    module: ops.Module,
    structs: list[ops.StructDecl],
    funcs: list[ops.Func],
    outside: tuple[ops.Func, ...] = PRIMITIVES,
) -> ops.Module:
    """What the entry BATCH reaches; of it imports are what stands `outside`: a target has it."""
    linked = _linked(module, structs, funcs)
    used = {func.name for func in linked.funcs}
    imports = tuple(func.name for func in outside if func.name in used)
    return msgspec.structs.replace(linked, imports=imports)


def _linked(
    module: ops.Module, structs: list[ops.StructDecl], funcs: list[ops.Func]
) -> ops.Module:
    """What the entry reaches; of two functions of one name the last."""
    declared: dict[str, Decl] = {one.name: one for one in (*module.structs, *structs)}
    declared |= {one.name: one for one in module.tables}
    declared |= {one.name: one for one in funcs}
    return link(declared.get, [BATCH], dict(module.sizes))


def batch_text(made: Batch, target: Target, *, gpu: bool) -> str:
    """LLVM IR of a batch: a kernel of a GPU, or what devices/simulated.py takes."""
    words = max(made.shared_words, 1)
    return kernel_text(made.module, target, _entry, made.threads, words, gpu=gpu)


def kernel_text(
    module: ops.Module,
    target: Target,
    entry: Entry,
    threads: int,
    shared_words: int | None,
    *,
    gpu: bool,
) -> str:
    """LLVM IR of a module's kernel for blocks of so many threads: a GPU's, or what
    devices/simulated.py takes. Shared memory has so many words, or as many as a launch says."""

    def outside(_module: ops.Module, shared: Shared) -> Iterator[str]:
        yield entry("ptx_kernel " if gpu else "", shared)
        if gpu:
            yield on_ptx(shared_words)
        bounds = f' "nvvm.maxntid"="{threads}"' if gpu else ""
        yield f'attributes #2 = {{ nounwind "no-builtins"{bounds} }}'

    return with_bodies(emit(module, target, outside), module, gpu=gpu)


def with_bodies(text: str, module: ops.Module, *, gpu: bool) -> str:
    """The text of a module with what it imports, as a device has it."""
    symbols, bodies = signatures(module), BODIES
    if gpu:
        bodies = BODIES | ON_GPU | OWN_ON_GPU
    for name in module.imports:
        text = text.replace(import_text(symbols[name]), bodies[name].format(symbols[name].symbol))
    return text


def _entry(convention: str, shared: Shared) -> str:
    """The entry: scalars arrive as words, and shared memory is that of the block."""
    signature = shared.signatures[BATCH]
    *params, _ = signature.decl.params
    heads, lines, args = [], [], []
    for index, param in enumerate(params):
        name = f"%p{index}"
        if not isinstance(param.type, str):
            heads.append(f"ptr noalias {name}")
            args.append(f"ptr {name}")
            continue
        heads.append(f"i64 {name}")
        type_ = LLVM_TYPE[param.type]
        if param.type == ops.F64_T:
            lines.append(f"  {name}.as = bitcast i64 {name} to double")
        elif param.type == ops.BOOL_T:
            lines.append(f"  {name}.as = icmp ne i64 {name}, 0")
        args.append(f"{type_} {name}{'' if param.type == ops.I64_T else '.as'}")
    call = f"  call void @{signature.symbol}({', '.join([*args, 'ptr %shared'])})"
    head = f"define {convention}void @{ENTRY}({', '.join(heads)}) #2 {{"
    memory = "  %shared = call ptr @quantdsl.shared()"
    return "\n".join([head, *lines, memory, call, "  ret void", "}"])
