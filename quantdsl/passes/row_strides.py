"""Strides of usual turns for vectors: groups of rows of which no lane is asked one by one.

As on a GPU (stride.py) eight usual turns are made on copies of the words, without a branch, and
count where nothing stopped them. Lanes of a vector go together: where one of them is stopped, all
make the turns of that stride row by row, in the loop that they would have made without. The groups
of words that strides read (group.py) stand behind all rows.
"""

from typing import NamedTuple

from quantdsl.ir.ops import (
    BOOL_T,
    Assign,
    Binary,
    Break,
    Expr,
    If,
    Let,
    Module,
    Stmt,
    Unary,
    Var,
    boolean,
    i64,
)
from quantdsl.ir.walk import rebuild_expr, rebuild_stmt
from quantdsl.passes.rows import ROWS
from quantdsl.passes.straight import either
from quantdsl.passes.stride import RUN, STOPS, STRIDE_BITS
from quantdsl.passes.tile import TILE
from quantdsl.passes.usual import FIRST, usual_turns

Block = tuple[Stmt, ...]


class Strides(NamedTuple):
    """A stride in parts, on the words of its GROUP; its first row has the number FIRST."""

    words: int
    """Of a stride, behind the rows."""
    own: int
    """Which of them GROUP is."""
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
    maker = usual_turns(module, entry, None, STRIDE_BITS)
    group = None if maker is None else maker.group
    if maker is None or group is None:
        return None
    stride, same = group.stride, maker.turn.same
    copies = stride.copies(group.turn, group.spot, lambda row: _plus(FIRST, row))
    finish = stride.finish(None if stride.mark is None else stride.mark.price, same)
    return Strides(
        words=group.words,
        own=group.own,
        fill=group.fill(maker.width, i64(0), i64(0)),
        enter=tuple(stride.before),
        unable=either((*maker.turn.never, *(Unary("not", cond) for cond in stride.ready))),
        stops=_of_rows(either(stride.tests)),
        turns=(
            Let(STOPS, BOOL_T, boolean(False)),
            *stride.begins(same),
            *maker.begun(stride, RUN),
            *map(_read, _noted(tuple(copies))),
            Assign(Var(STOPS), stride.stopped()),
        ),
        keep=(*map(_read, stride.after), *maker.ended(stride, RUN)),
        leave=(*finish, *(Assign(Var(name), Var(other)) for name, other in same.items())),
    )


def _noted(body: Block) -> Block:
    """A block that sets STOPS where it would break, and goes on with nothing that follows then."""
    made: list[Stmt] = []
    for at, stmt in enumerate(body):
        if isinstance(stmt, Break):
            return (*made, Assign(Var(STOPS), boolean(True)))
        if isinstance(stmt, If) and _breaks(stmt):
            made.append(If(stmt.cond, _noted(stmt.then), _noted(stmt.otherwise), stmt.line))
            rest = _noted(body[at + 1 :])
            return (*made, If(Unary("not", Var(STOPS)), rest)) if rest else tuple(made)
        made.append(stmt)
    return tuple(made)


def _breaks(stmt: Stmt) -> bool:
    """Whether a statement breaks; not whether a loop in it does."""
    if isinstance(stmt, If):
        return any(map(_breaks, (*stmt.then, *stmt.otherwise)))
    return isinstance(stmt, Break)


def _of_rows(expr: Expr) -> Expr:
    """An expression that finds the tile's words behind the rows."""
    return Var(ROWS) if expr == Var(TILE) else rebuild_expr(expr, _of_rows)


def _read(stmt: Stmt) -> Stmt:
    return rebuild_stmt(stmt, _of_rows, _read)


def _plus(name: str, number: int) -> Expr:
    return Binary("iadd", Var(name), i64(number))
