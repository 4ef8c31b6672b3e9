"""What a GPU's blocks copy into shared memory, made once for all of them on a core of the host.

The kernel of warps.py passes through its rows in tiles. What a tile holds of them, and of their
strides, is the same for every block; so it stands behind the rows as it is to lie in shared memory,
and to fill a tile is to copy words that stand side by side.
"""

from typing import NamedTuple

import msgspec

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import Form, cache_key, load, through_cache
from quantdsl.codegen.emit import emit
from quantdsl.codegen.ptx import GPU_DEPTH, gpu_part
from quantdsl.codegen.rows import (
    IMAGES,
    IMAGES_INTERFACE,
    IMAGES_PARAMS,
    Behind,
    RowsCode,
    kernel_form,
    load_rows,
)
from quantdsl.codegen.target import Target
from quantdsl.codegen.warps import Tiling, behind_rows, tile_rows, tile_size
from quantdsl.ir.link import Decl, link
from quantdsl.ir.ops import (
    I64_T,
    Binary,
    Call,
    Do,
    Expr,
    For,
    Func,
    Let,
    Module,
    Stmt,
    Var,
    i64,
)
from quantdsl.passes.messages import MESSAGES
from quantdsl.passes.rows import OUT, ROWS
from quantdsl.passes.usual import GATHER, IMAGE, IMAGE_WORDS


class Tiles(NamedTuple):
    """How rows lie in tiles."""

    rows: int
    """Of a tile."""
    words: int
    """Of a tile, its strides included; 0 where the kernel has none."""


def load_tiled_rows(
    module: Module,
    kept: frozenset[str],
    varying: frozenset[str],
    target: Target,
    cache: Cache | None,
    tiling: Tiling,
) -> RowsCode | None:
    """What makes rows for the kernel of a GPU, as `load_rows` otherwise, with their tiles."""
    code = load_rows(module, kept, varying, target, cache, GPU_DEPTH, past=True)
    form = f"images {tiling} {kernel_form(kept, varying, GPU_DEPTH)}"

    def sizes() -> bytes:
        return msgspec.msgpack.encode(behind_rows(gpu_part(module, kept, varying), tiling))

    def made(whole: Module) -> Module:
        return images_module(gpu_part(whole, kept, varying), tiling)

    stored = through_cache(cache, cache_key(module, target, f"size of {form}"), sizes)
    tiles = msgspec.msgpack.decode(stored, type=Tiles)
    if code is None or not tiles.words:
        return code
    images = load(module, target, cache, Form(form, made, emit, IMAGES_INTERFACE))
    return RowsCode(code.program, code.width, code.common, Behind(images, *tiles))


def images_module(part: Module, tiling: Tiling) -> Module:
    """The entry that writes all tiles, over the functions that write a row or a stride of one."""
    sizes = dict(part.sizes)
    declared: dict[str, Decl] = {func.name: func for func in part.funcs}
    if MESSAGES in declared:
        gather = msgspec.structs.replace(declared[MESSAGES], name=IMAGES)
        return link({IMAGES: gather}.get, (IMAGES,), sizes)
    count, size, words = tile_rows(part, tiling), tile_size(part, tiling), sizes[IMAGE_WORDS]
    number, row, first, at, end = map(Var, ("number", "row", "first", "at", "end"))
    spot = _sum(at, _times(Binary("isub", row, first), words))
    given = (Var(ROWS), row, Var(OUT), spot)
    body: list[Stmt] = [
        Let(first.name, I64_T, _times(number, count)),
        Let(at.name, I64_T, _times(number, size)),
        Let(end.name, I64_T, Binary("imin", _sum(first, i64(count)), Var("n"))),
        For(row.name, first, end, (Do(Call(IMAGE, given)),)),
    ]
    if GATHER in declared:
        groups = _sum(at, i64((count + 1) * words))
        inside = Binary("isub", end, first)
        body.append(Do(Call(GATHER, (Var(ROWS), first, inside, Var(OUT), groups))))
    tiles = Binary("idiv", _sum(Var("n"), i64(count - 1)), i64(count))
    declared[IMAGES] = Func(
        IMAGES, IMAGES_PARAMS, None, (For(number.name, i64(0), tiles, tuple(body)),)
    )
    return link(declared.get, (IMAGES,), sizes)


def _sum(x: Expr, y: Expr) -> Expr:
    return Binary("iadd", x, y)


def _times(x: Expr, number: int) -> Expr:
    return Binary("imul", x, i64(number))
