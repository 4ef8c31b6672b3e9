"""Loops of one turn as the code that they are, and none that does nothing.

A table of one order is gone through in a dozen places, in a loop each. Where lanes take turns LLVM
makes its passes over loops in none (codegen/ptx.py): it would keep the counter, the jump back and
the question whether there is another turn.
"""

from collections.abc import Iterator

import msgspec

from quantdsl.ir.ops import (
    Break,
    Call,
    Const,
    Continue,
    Expr,
    For,
    Func,
    If,
    Let,
    Module,
    Stmt,
    Var,
    While,
)
from quantdsl.ir.walk import (
    expressions,
    nested,
    rebuild_blocks,
    rebuild_expr,
    rebuild_stmt,
    statements,
)

Block = tuple[Stmt, ...]
LEAVES = (Break, Continue)


def unroll_once(module: Module) -> Module:
    """The module without loops of one turn, or of none that is seen."""
    funcs = (_unrolled(func) for func in module.funcs)
    return msgspec.structs.replace(module, funcs=tuple(funcs))


def _unrolled(func: Func) -> Func:
    body = tuple(_statements(func.body))
    return func if body == func.body else msgspec.structs.replace(func, body=body)


def _statements(body: Block) -> Iterator[Stmt]:
    for old in body:
        if not nested(old):
            yield old
            continue
        stmt = rebuild_blocks(old, lambda block: tuple(_statements(block)))
        if isinstance(stmt, For) and _idle(stmt):
            continue
        turn = _only_turn(stmt) if isinstance(stmt, For) else None
        if turn is None:
            yield stmt
        else:
            yield from turn


def _idle(stmt: For) -> bool:
    """Whether a loop has nothing but locals of its own, and ends."""
    quiet = all(isinstance(one, Let | If | Break | Continue) for one in statements(stmt.body))
    return quiet and not any(isinstance(e, Call) for e in expressions((stmt,)))


def _only_turn(stmt: For) -> Block | None:
    """What a loop of one turn does; None where it has others, or is left in too many ways."""
    lo, hi = stmt.lo, stmt.hi
    if not (isinstance(lo, Const) and isinstance(hi, Const) and hi.value - lo.value == 1):
        return None
    straight = _straight(stmt.body)
    return None if straight is None else tuple(_with(one, stmt.name, lo) for one in straight)


def _straight(body: Block) -> Block | None:
    """A block whose end is where it broke to; None where that takes a copy of a part of it."""
    for k, stmt in enumerate(body):
        if isinstance(stmt, LEAVES):
            return body[:k]
        if not isinstance(stmt, If) or not _leaves(stmt):
            continue
        rest, ways = body[k + 1 :], (stmt.then, stmt.otherwise)
        if rest and not any(map(_ends, ways)):
            return None
        then, otherwise = (_straight(way if _ends(way) else way + rest) for way in ways)
        if then is None or otherwise is None:
            return None
        return (*body[:k], If(stmt.cond, then, otherwise, stmt.line))
    return body


def _leaves(stmt: Stmt) -> bool:
    """Whether it leaves the loop that it stands in."""
    if isinstance(stmt, For | While):
        return False
    return isinstance(stmt, LEAVES) or any(_leaves(one) for block in nested(stmt) for one in block)


def _ends(body: Block) -> bool:
    """Whether nothing follows a block."""
    return bool(body) and isinstance(body[-1], LEAVES)


def _with(stmt: Stmt, name: str, value: Const) -> Stmt:
    """A statement with a number for a local."""

    def expr(node: Expr) -> Expr:
        return value if isinstance(node, Var) and node.name == name else rebuild_expr(node, expr)

    return rebuild_stmt(stmt, expr, lambda inner: _with(inner, name, value))
