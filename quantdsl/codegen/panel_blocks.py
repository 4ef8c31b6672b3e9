"""Cross-sections of a panel as a kernel of blocks: a block of threads an instant after the other.

The functions of std/xs.qdsl are taken apart by passes/each.py. What a lane of a CPU has on its
stack, the block has in shared memory as far as there is room, and the rest in memory of its own on
the device.
"""

from typing import NamedTuple

import msgspec

from quantdsl.codegen.blocks import kernel_text
from quantdsl.codegen.function import Shared
from quantdsl.codegen.target import Target
from quantdsl.codegen.text import entry_symbol
from quantdsl.ir import ops
from quantdsl.ir.layout import Layout
from quantdsl.ir.link import Decl, link
from quantdsl.ir.own import MADE, OWN
from quantdsl.ir.walk import rebuild_body, rebuild_expr, rebuild_stmt
from quantdsl.passes.blocks import BLOCK_NUMBER, PRIMITIVES, SHARED
from quantdsl.passes.each import SCRATCH_WORDS, together

BLOCK = "block"
ENTRY = entry_symbol(BLOCK)
NEAR, FAR = ops.Var("near"), ops.Var("far")
"""What a block has in shared memory, and what elsewhere."""
STRUCTS = {NEAR.name: "block.Near", FAR.name: "block.Far"}
INSTANT = ops.Var("instant")
OF_BUFFER = ops.BufferType(ops.I64_T)

PLAIN = f"""\
define {{convention}}void @{ENTRY}(ptr noalias %template, ptr noalias %own, ptr noalias %made, \
i64 %n, i64 %blocks, ptr noalias %far) #2 {{{{
  %shared = call ptr @quantdsl.shared()
  %near = getelementptr i64, ptr %shared, i64 {SCRATCH_WORDS}
  call void @{{symbol}}(ptr %template, ptr %own, ptr %made, i64 %n, i64 %blocks, ptr %near, \
ptr %far, ptr %shared)
  ret void
}}}}"""


class PanelBlock(NamedTuple):
    """A kernel over the instants of flat columns: ENTRY(template, own, made, n, blocks, far).

    `template` is the State as the host prepared it, n the instants; each of `blocks` blocks of
    `threads` needs `shared_words` of shared memory and `far_words` of its own behind `far`.
    """

    module: ops.Module
    threads: int
    shared_words: int
    far_words: int


def panel_block(module: ops.Module, threads: int, shared_words: int) -> PanelBlock:
    """The kernel of a linked module with init and lane, which take flat columns.

    It takes at most `shared_words` of shared memory; `threads` is a power of two.
    """
    (lane,) = (func for func in module.funcs if func.name == "lane")
    layout = Layout(module.structs)
    fields: dict[str, list[ops.FieldDecl]] = {
        name: [ops.FieldDecl("pad", ops.I64_T)] for name in STRUCTS
    }
    sizes = {NEAR.name: 1, FAR.name: 1}
    where: dict[str, str] = {}
    for stmt in lane.body:
        if isinstance(stmt, ops.Let) and isinstance(stmt.type, ops.ArrayType | ops.StructType):
            words = layout.words(stmt.type)
            fits = SCRATCH_WORDS + sizes[NEAR.name] + words <= shared_words
            where[stmt.name] = NEAR.name if fits else FAR.name
            fields[where[stmt.name]].append(ops.FieldDecl(stmt.name, stmt.type))
            sizes[where[stmt.name]] += words
    structs = [ops.StructDecl(STRUCTS[name], tuple(found)) for name, found in fields.items()]
    placed = _placed(lane, where)
    kept = [placed if func.name == "lane" else func for func in module.funcs]
    whole = msgspec.structs.replace(
        module, structs=(*module.structs, *structs), funcs=(*PRIMITIVES, *kept), given=None
    )
    made = together(whole, "lane", threads)
    declared: dict[str, Decl] = {one.name: one for one in made.structs}
    declared |= {one.name: one for one in made.tables}
    declared |= {func.name: func for func in (*made.funcs, _entry())}
    linked = link(declared.get, [BLOCK], dict(module.sizes))
    used = {func.name for func in linked.funcs}
    imports = tuple(func.name for func in PRIMITIVES if func.name in used)
    linked = msgspec.structs.replace(linked, imports=imports)
    return PanelBlock(linked, threads, SCRATCH_WORDS + sizes[NEAR.name], sizes[FAR.name])


def _placed(lane: ops.Func, where: dict[str, str]) -> ops.Func:
    """A lane whose memory is that of the block."""

    def expr(node: ops.Expr) -> ops.Expr:
        if isinstance(node, ops.Var) and node.name in where:
            return ops.Field(ops.Var(where[node.name]), node.name)
        return rebuild_expr(node, expr)

    def stmt(node: ops.Stmt) -> ops.Stmt:
        return rebuild_stmt(node, expr, stmt)

    body = [one for one in lane.body if not (isinstance(one, ops.Let) and one.name in where)]
    params = [
        ops.ParamDecl(name, ops.StructType(struct), inout=True) for name, struct in STRUCTS.items()
    ]
    return msgspec.structs.replace(
        lane, params=(*lane.params, *params), body=rebuild_body(tuple(body), stmt)
    )


def _entry() -> ops.Func:
    """The instants of a block, one after the other, each thread with a State of its own."""
    state, which = ops.Var("s"), ops.Var("which")
    number, n, blocks = ops.Field(state, "number"), ops.Var("n"), ops.Var("blocks")
    far = ops.Elem(FAR, which)
    work = ops.Call("lane", (state, ops.Var(OWN), n, ops.Var(MADE), NEAR, far, SHARED))
    ahead = ops.Binary("isub", ops.Binary("iadd", n, blocks), ops.i64(1))
    turn = ops.Binary("imul", ops.Var("turn"), blocks)
    body = (
        ops.Let(which.name, ops.I64_T, ops.Call(BLOCK_NUMBER, ())),
        ops.Let(state.name, ops.StructType("State"), None),
        ops.Assign(state, ops.Elem(ops.Var("template"), ops.i64(0))),
        ops.Do(ops.Call("init", (state,))),
        ops.For("turn", ops.i64(0), ops.Binary("idiv", ahead, blocks), (
            ops.Let(INSTANT.name, ops.I64_T, ops.Binary("iadd", turn, which)),
            ops.If(ops.Binary("ilt", INSTANT, n), (ops.Assign(number, INSTANT), ops.Do(work))),
        )),
    )  # fmt: skip
    params = (
        ops.ParamDecl("template", ops.BufferType(ops.StructType("State"))),
        ops.ParamDecl(OWN, OF_BUFFER, inout=True),
        ops.ParamDecl(MADE, OF_BUFFER, inout=True),
        ops.ParamDecl("n", ops.I64_T),
        ops.ParamDecl("blocks", ops.I64_T),
        ops.ParamDecl(NEAR.name, ops.StructType(STRUCTS[NEAR.name]), inout=True),
        ops.ParamDecl(FAR.name, ops.BufferType(ops.StructType(STRUCTS[FAR.name])), inout=True),
        ops.ParamDecl(SHARED.name, OF_BUFFER, inout=True),
    )
    return ops.Func(BLOCK, params, None, body)


def panel_block_text(made: PanelBlock, target: Target, *, gpu: bool) -> str:
    """LLVM IR of it: a kernel of a GPU, or what devices/simulated.py takes."""
    return kernel_text(made.module, target, _plain, made.threads, None, gpu=gpu)


def _plain(convention: str, shared: Shared) -> str:
    return PLAIN.format(convention=convention, symbol=shared.signatures[BLOCK].symbol)
