"""The loop of a lane on a GPU: while it goes through a tile of bars, the next one is on its way.

Memory is far away, and a lane that goes along time has few others beside it to wait with. So words
are loaded a tile ahead into registers, which move down by one at each bar: an array would lie in
local memory, and what windows keep drives it out of the cache. What is loaded from behind the last
bar is read by nobody: there are SPARE rows (ir/own.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from quantdsl.check.panel_words import READ, at
from quantdsl.ir import ops
from quantdsl.ir.own import EARLY, SPARE

TILE, LONG_TILE = 4, 8
"""Bars, of lanes that have others beside them and of those that go through all bars by themselves:
for so many a lane takes longer than memory does to answer."""
assert SPARE >= 2 * LONG_TILE + EARLY


def tiled(name: str) -> ops.Var:
    """The word of a column at this bar."""
    return ops.Var(f"here.{name}.0")


def in_tiles(
    columns: Mapping[str, int],
    where: Callable[[ops.Expr], ops.Expr],
    body: Iterable[ops.Stmt],
    size: int = TILE,
) -> list[ops.Stmt]:
    """The loop over n bars, in whose body `tiled` tells the words of these columns at bar `k`.

    The columns have numbers; `where` tells how far in one a bar is. A tile has `size` bars.
    """
    n, first, tile = ops.Var("n"), ops.Var("first"), ops.i64(size)

    def loads(begin: ops.Expr, name: str) -> Iterator[ops.Let]:
        """The words from a bar on."""
        for turn in range(size):
            place = ops.Var(f"{name}.{turn}")
            bar = ops.Binary("iadd", begin, ops.i64(turn))
            yield ops.Let(place.name, ops.I64_T, where(bar))
            for column, number in columns.items():
                word = at(READ, number, place)
                yield ops.Let(f"{name}.{column}.{turn}", ops.I64_T, word)

    words = [f"{column}.{turn}" for turn in range(size) for column in columns]
    coming = [ops.Let(f"next.{word}", ops.I64_T, ops.Var(f"begin.{word}")) for word in words]
    # Not a copy: else an assembler loads somewhere else, and waits for the word to move it.
    zero = ops.Let("zero", ops.I64_T, ops.Binary("imin", n, ops.i64(0)))
    takes = [
        ops.Let(
            f"here.{word}",
            ops.I64_T,
            ops.Binary("iadd", ops.Var(f"next.{word}"), ops.Var(zero.name)),
        )
        for word in words
    ]
    asks = [ops.Assign(ops.Var(f"next.{word}"), ops.Var(f"ahead.{word}")) for word in words]
    up = zip(words, words[len(columns) :], strict=False)
    moves = [ops.Assign(ops.Var(f"here.{one}"), ops.Var(f"here.{next_}")) for one, next_ in up]
    k = ops.Let("k", ops.I64_T, ops.Binary("iadd", first, ops.Var("turn")))
    rest = ops.Binary("imin", ops.Binary("isub", n, first), tile)
    turns = ops.For("turn", ops.i64(0), rest, (k, *body, *moves))
    begin = ops.Let("first", ops.I64_T, ops.Binary("imul", ops.Var("tile"), tile))
    after = loads(ops.Binary("iadd", first, tile), "ahead")
    tiles = ops.Binary("idiv", ops.Binary("iadd", n, ops.i64(size - 1)), tile)
    loop = ops.For("tile", ops.i64(0), tiles, (begin, *takes, *after, *asks, turns))
    return [zero, *loads(ops.i64(0), "begin"), *coming, loop]
