"""What a turn may read of its row, loaded where the turn begins.

A turn with an order reads twenty words of its row, each where it is asked for: one behind the other
it waits for memory four times. Side by side it waits once, for as many registers. Where those are
few, one word of each sector brings its neighbours into the cache.
"""

import msgspec

from quantdsl.ir.ops import I64_T, Elem, Expr, For, Func, Let, Stmt, Var
from quantdsl.ir.walk import expressions, rebuild_expr, rebuild_stmt
from quantdsl.passes.rows import BASE
from quantdsl.passes.tile import is_word, place_in_row

SECTOR_WORDS = 4
"""Words that come from memory together; rows begin with a sector."""


def read_at_once(func: Func, every: int) -> Func:
    """A function that is one loop over rows, the words of a row in front of its turn.

    Of each `every` neighbours it is the first that is read.
    """
    at = next(at for at, stmt in enumerate(func.body) if isinstance(stmt, For))
    loop = func.body[at]
    assert isinstance(loop, For)
    read = {node for node in expressions(loop.body) if isinstance(node, Elem) and is_word(node)}
    words = {place_in_row(word) // every: word for word in sorted(read, key=_last_first)}
    names: dict[Expr, Var] = {word: Var(f"once.{k}@") for k, word in words.items()}

    def expr(node: Expr) -> Expr:
        return names.get(node) or rebuild_expr(node, expr)

    def stmt(one: Stmt) -> Stmt:
        return rebuild_stmt(one, expr, stmt)

    base = next(k for k, one in enumerate(loop.body) if isinstance(one, Let) and one.name == BASE)
    loads = (Let(name.name, I64_T, word) for word, name in names.items())
    turn = (*loop.body[: base + 1], *loads, *map(stmt, loop.body[base + 1 :]))
    body = (*func.body[:at], msgspec.structs.replace(loop, body=turn), *func.body[at + 1 :])
    return msgspec.structs.replace(func, body=body)


def _last_first(word: Elem) -> int:
    return -place_in_row(word)
