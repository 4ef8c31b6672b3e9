"""The loop of a lane on a GPU: a tile of bars is loaded before the first of them is looked at.

Memory is far away, and a lane that goes along time has few others beside it to wait with. Loads
that need nothing of each other wait together.
"""

from collections.abc import Callable, Iterable, Mapping

from quantdsl.check.panel_words import READ, at
from quantdsl.ir import ops

TILE = 8
"""Bars: more of them take room of the cache that windows want."""
TURN = ops.Var("turn")


def tiled(name: str) -> ops.Elem:
    """The word of a column at this bar."""
    return ops.Elem(_tile(name), TURN)


def in_tiles(
    columns: Mapping[str, int],
    where: Callable[[ops.Expr], ops.Expr],
    body: Iterable[ops.Stmt],
) -> ops.For:
    """The loop over n bars, in whose body `tiled` tells the words of these columns at bar `k`.

    The columns have numbers; `where` tells how far in one a bar is.
    """
    n, first = ops.Var("n"), ops.Var("first")
    last, up = ops.Binary("isub", n, ops.i64(1)), ops.Binary("iadd", n, ops.i64(TILE - 1))
    arrays = [ops.Let(_tile(c).name, ops.ArrayType(ops.I64_T, TILE), None) for c in columns]
    loads: list[ops.Stmt] = []
    stores: list[ops.Stmt] = []
    for turn in range(TILE):
        bar = ops.Binary("imin", ops.Binary("iadd", first, ops.i64(turn)), last)
        place = ops.Var(f"at.{turn}")
        loads.append(ops.Let(place.name, ops.I64_T, where(bar)))
        for name, number in columns.items():
            loaded = ops.Var(f"{_tile(name).name}.{turn}")
            loads.append(ops.Let(loaded.name, ops.I64_T, at(READ, number, place)))
            stores.append(ops.Assign(ops.Elem(_tile(name), ops.i64(turn)), loaded))
    k = ops.Let("k", ops.I64_T, ops.Binary("iadd", first, TURN))
    rest = ops.Binary("imin", ops.Binary("isub", n, first), ops.i64(TILE))
    turns = ops.For(TURN.name, ops.i64(0), rest, (k, *body))
    begin = ops.Let("first", ops.I64_T, ops.Binary("imul", ops.Var("tile"), ops.i64(TILE)))
    tiles = ops.Binary("idiv", up, ops.i64(TILE))
    return ops.For("tile", ops.i64(0), tiles, (begin, *arrays, *loads, *stores, turns))


def _tile(name: str) -> ops.Var:
    return ops.Var(f"tile.{name}")
