"""Strides of usual turns for vectors: groups of rows of which no lane is asked one by one.

As on a GPU (stride.py) eight usual turns are made on copies of the words, without a branch, and
count where nothing stopped them. Lanes of a vector go together: where one of them is stopped, all
make the turns of that stride row by row, in the loop that they would have made without. What a
stride reads stands behind all rows, side by side: its own words, then those of each of its rows.
"""

from typing import NamedTuple

from quantdsl.ir.ops import (
    BOOL_T,
    I64_T,
    Assign,
    Binary,
    Const,
    Elem,
    Expr,
    For,
    Let,
    Module,
    Stmt,
    Unary,
    Var,
    boolean,
    i64,
)
from quantdsl.ir.walk import rebuild_expr, rebuild_stmt
from quantdsl.passes.rows import BASE, OUT, ROW, ROWS
from quantdsl.passes.straight import either
from quantdsl.passes.stride import GROUP, RUN, STOPS, STRIDE, STRIDE_BITS, Stride
from quantdsl.passes.tile import SPOT, TILE, Tile
from quantdsl.passes.turn import Turn
from quantdsl.passes.usual import FIRST, NUMBER, bits_of, usual_turns

COUNT = "n"
"""How many rows there are."""
LAST = {"imin": 2**63 - 1, "imax": -(2**63)}
"""What the least and the greatest of some values begin with."""

Block = tuple[Stmt, ...]


class Strides(NamedTuple):
    """A stride in parts. What it reads begins at GROUP, its first row has the number FIRST."""

    words: int
    """Of a stride, behind the rows."""
    fill: Block
    """What writes those of all whole strides of COUNT rows to OUT."""
    enter: Block
    """What comes before the first of several strides."""
    unable: Expr
    """Whether a lane can make none then."""
    stops: Expr
    """Whether its own words stop a stride."""
    turns: Block
    """The turns, on copies; they set STOPS where one is not usual."""
    keep: Block
    """What makes them count."""
    leave: Block
    """What comes after the last of several strides; BASE is where its last row begins."""


def row_strides(module: Module, entry: str) -> Strides | None:
    """The strides of an entry that loops over rows; None where it has none."""
    maker = usual_turns(module, entry, None)
    stride = None if maker is None else maker.turn.stride
    if maker is None or stride is None:
        return None
    tile, held = Tile(), len(stride.held)
    turn = tuple(_tiled(maker.turn, tile, stmt) for stmt in stride.turn)
    width = len(tile.held)

    def spot(row: int) -> Expr:
        return _plus(GROUP, held + row * width)

    copies = stride.copies(turn, spot, lambda row: _plus(FIRST, row))
    same = (Assign(Var(name), Var(other)) for name, other in maker.turn.same.items())
    finish = () if stride.mark is None else stride.finish(stride.mark.price)
    return Strides(
        words=held + STRIDE * width,
        fill=_fill(stride, tile, maker.width),
        enter=tuple(stride.before),
        unable=either((*maker.turn.never, *(Unary("not", cond) for cond in stride.ready))),
        stops=_of_rows(either(stride.tests)),
        turns=(
            Let(STOPS, BOOL_T, boolean(False)),
            *maker.begun(stride, RUN),
            *map(_read, copies),
        ),
        keep=(*map(_read, stride.after), *maker.ended(stride, RUN)),
        leave=(*finish, *same),
    )


def _fill(stride: Stride, tile: Tile, width: int) -> Block:
    """Writes the words of all whole strides."""
    most = {key: f"most.{k}@" for key, k in stride.held.items()}
    held, row_words = len(most), len(tile.held)
    put = Binary("imul", Var(NUMBER), i64(held + STRIDE * row_words))
    row = Binary("iadd", Binary("shl", Var(NUMBER), i64(STRIDE_BITS)), Var(ROW))
    spot = Binary("iadd", Var(GROUP), Binary("imul", Var(ROW), i64(row_words)))
    of_row: Block = (
        Let(BASE, I64_T, Binary("imul", row, i64(width))),
        Let(SPOT, I64_T, Binary("iadd", spot, i64(held))),
        *(Assign(Var(name), Binary(key.op, Var(name), key.expr)) for key, name in most.items()),
        *tile.writes(),
    )
    of_stride: Block = (
        Let(GROUP, I64_T, put),
        *(Let(name, I64_T, i64(LAST[key.op])) for key, name in most.items()),
        For(ROW, i64(0), i64(STRIDE), of_row),
        *(
            Assign(Elem(Var(OUT), _plus(GROUP, k)), bits_of(Var(name)) if key.real else Var(name))
            for k, (key, name) in enumerate(most.items())
        ),
    )
    strides = Binary("lshr", Var(COUNT), i64(STRIDE_BITS))
    return (For(NUMBER, i64(0), strides, of_stride),)


def _tiled(turn: Turn, tile: Tile, stmt: Stmt) -> Stmt:
    """A statement that takes from the tile what is the same for all lanes."""

    def own(expr: Expr) -> Expr:
        alike = turn.uniform(expr) and not isinstance(expr, Const)
        return tile.read(expr) if alike else rebuild_expr(expr, own)

    def inner(one: Stmt) -> Stmt:
        return rebuild_stmt(one, own, inner)

    return inner(stmt)


def _of_rows(expr: Expr) -> Expr:
    """An expression that finds the tile's words behind the rows."""
    return Var(ROWS) if expr == Var(TILE) else rebuild_expr(expr, _of_rows)


def _read(stmt: Stmt) -> Stmt:
    return rebuild_stmt(stmt, _of_rows, _read)


def _plus(name: str, number: int) -> Expr:
    return Binary("iadd", Var(name), i64(number))
