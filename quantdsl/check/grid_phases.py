"""A kernel of threads in several blocks as loops over its blocks.

A block runs from its beginning to its end before the next one does, wherever they run one after the
other. A grid may run them at the same time and in any order, since no block sees what another one
does; where the order can be seen, by an atomic in order, each block waits there for those before.

Where blocks wait for each other (`grid_barrier`) the body is cut there, as phases.py cuts that of a
block: a piece is a loop over the blocks, and what a later piece reads has a place for each block.
What decides how often they wait is the same in all blocks, and stands outside of the loops.
"""

from collections.abc import Iterator
from functools import partial

import msgspec

from quantdsl.check import sizes
from quantdsl.check.context import Context
from quantdsl.check.phases import names_in
from quantdsl.check.thread_base import Threads
from quantdsl.check.waits import BLOCK, Body
from quantdsl.ir import ops
from quantdsl.ir import threads as form
from quantdsl.ir.strands import called
from quantdsl.ir.walk import (
    ExprMap,
    base_name,
    expressions,
    nested,
    operands,
    rebuild_blocks,
    rebuild_expr,
    rebuild_stmt,
    roots,
    with_expr,
)
from quantdsl.ir.walk import statements as all_of


def gridded(cx: Context, body: Body, threads: Threads) -> Body:
    """The body of one block as that of all blocks of a grid."""
    if form.GRID_WAIT in all_of(body):
        return _in_pieces(cx, body, threads)
    name = cx.fresh(form.GRID)
    own = tuple(with_expr(stmt, BLOCK, ops.Var(name)) for stmt in body)
    if form.TURN in all_of(own):
        own = (*own, form.PASS)
    return (ops.For(name, ops.i64(0), blocks_of(threads), own),)


def blocks_of(threads: Threads) -> ops.Expr:
    """How many blocks a grid has."""
    made: ops.Expr = ops.i64(1)
    for size in threads.grid:
        if isinstance(made, ops.Const) and isinstance(size.ir, ops.Const):
            made = ops.i64(made.bits * size.ir.bits)
        else:
            made = ops.Binary("imul", made, size.ir)
    return made


# ---- blocks that wait for each other -----------------------------------------------------------


def _in_pieces(cx: Context, body: Body, threads: Threads) -> Body:
    """The body cut where the grid waits; reports what makes that impossible."""
    (mark,) = [one for one in threads.marks if one.word == "grid_barrier"][:1]
    count = _exact(threads)
    if count is None:
        cx.error(
            "QD0909",
            "blocks that wait for each other are a fixed number",
            mark.span,
            reason="a device holds them all at once, however long the tensors are",
            help="write @grid(64), a size or a const int, and let each block go over its elements",
        )
        return ()
    if form.TURN in all_of(body):
        cx.error(
            "QD0909",
            "blocks that take turns do not wait for each other",
            mark.span,
            reason="an atomic in order waits until the blocks before have ended",
            help="leave the older value unused, or write scope = block",
        )
        return ()
    shared = _deciding(body)
    if BLOCK.name in shared:
        cx.error(
            "QD0909",
            "not every block comes to this 'grid_barrier'",
            mark.span,
            reason="those that come would wait for the others for ever",
            help="put it behind the branch, and let the condition choose the value alone",
        )
        return ()
    made = _Pieces(cx, shared, blocks_of(threads)).body(body)
    return _Places(cx, made, count).placed(made)


def _exact(threads: Threads) -> ops.Size | None:
    """How many blocks there are, where that is no share of a size."""
    if any(isinstance(axis.ir, ops.Binary) or axis.high is None for axis in threads.grid):
        return None
    made: ops.Size = 1
    for axis in threads.grid:
        assert axis.high is not None
        made = sizes.product(made, axis.high)
    return made


def _waits(stmt: ops.Stmt, *, loop: bool = True) -> bool:
    """Whether the grid waits in a statement, or it leaves a loop in which it does."""
    if stmt == form.GRID_WAIT or (not loop and isinstance(stmt, ops.Break | ops.Continue)):
        return True
    inner = isinstance(stmt, ops.For | ops.While)
    found = [part for block in nested(stmt) for part in block]
    if inner and not any(_waits(part) for part in found):
        return False
    return any(_waits(part, loop=loop and not inner) for part in found)


def _deciding(body: Body) -> set[str]:
    """The locals that decide how often the grid waits, and what they are made of."""
    own = {part.name for part in all_of(body) if isinstance(part, ops.Let | ops.For)}
    own.add(BLOCK.name)
    found: set[str] = set()
    for stmt in _around(body, inside=False):
        found |= names_in(roots(stmt))
        if isinstance(stmt, ops.For):
            found.add(stmt.name)
    known = -1
    while known != len(found):
        known = len(found)
        for stmt in all_of(body):
            assigns = (part for part in all_of((stmt,)) if isinstance(part, ops.Assign))
            holds = {base_name(part.place) for part in assigns}
            if isinstance(stmt, ops.Let) and stmt.name in found and stmt.value is not None:
                found |= names_in((stmt.value,))
            elif isinstance(stmt, ops.Assign) and base_name(stmt.place) in found:
                found |= names_in((stmt.value, *operands(stmt.place)))
            elif not isinstance(stmt, ops.Let | ops.Assign) and holds & found:
                found |= names_in(roots(stmt))
                found |= {stmt.name} if isinstance(stmt, ops.For) else set()
        found &= own
    return found


def _around(body: Body, *, inside: bool) -> Iterator[ops.Stmt]:
    """The branches and loops in which the grid waits."""
    for stmt in body:
        if nested(stmt) and _waits(stmt, loop=not inside):
            yield stmt
            for block in nested(stmt):
                yield from _around(block, inside=inside or isinstance(stmt, ops.For | ops.While))


class _Pieces:
    """Cuts a body where the grid waits, and around what decides how often."""

    def __init__(self, cx: Context, shared: set[str], blocks: ops.Expr) -> None:
        self.cx, self.shared, self.blocks = cx, shared, blocks

    def body(self, body: Body, *, inside: bool = False) -> Body:
        """The statements, those of each block in loops over the blocks."""
        made: list[ops.Stmt] = []
        piece: list[ops.Stmt] = []
        for stmt in body:
            if not self._apart(stmt, inside=inside):
                piece.append(stmt)
                continue
            made += self._closed(piece)
            piece = []
            inner = inside or isinstance(stmt, ops.For | ops.While)
            made.append(rebuild_blocks(stmt, partial(self.body, inside=inner)))
        return (*made, *self._closed(piece))

    def _apart(self, stmt: ops.Stmt, *, inside: bool) -> bool:
        """Whether a statement is no block's own: the grid waits in it, or it decides where."""
        decides = any(
            (isinstance(part, ops.Let) and part.name in self.shared)
            or (isinstance(part, ops.Assign) and base_name(part.place) in self.shared)
            for part in all_of((stmt,))
        )
        return decides or _waits(stmt, loop=not inside)

    def _closed(self, piece: list[ops.Stmt]) -> list[ops.Stmt]:
        """A piece as a loop over the blocks."""
        if not piece:
            return []
        name = self.cx.fresh(form.GRID)
        own = tuple(with_expr(stmt, BLOCK, ops.Var(name)) for stmt in piece)
        return [ops.For(name, ops.i64(0), self.blocks, own)]


class _Places:
    """Gives what a block keeps from piece to piece a place that lasts: one for each block."""

    def __init__(self, cx: Context, body: Body, blocks: ops.Size) -> None:
        self.cx, self.blocks = cx, blocks
        self.kept: dict[str, tuple[str, ops.Type]] = {}
        pieces = [s for s in all_of(body) if isinstance(s, ops.For) and called(s.name, form.GRID)]
        used = [names_in(expressions(piece.body)) for piece in pieces]
        for at, piece in enumerate(pieces):
            others = set().union(*(names for other, names in enumerate(used) if other != at))
            for stmt in piece.body:
                if isinstance(stmt, ops.Let) and stmt.name in others:
                    self.kept[stmt.name] = cx.fresh(form.kept_stem(stmt)), stmt.type

    def placed(self, body: Body) -> Body:
        """The body with those places."""
        made: list[ops.Stmt] = []
        for stmt in body:
            if isinstance(stmt, ops.For) and called(stmt.name, form.GRID):
                lets = [part for part in stmt.body if isinstance(part, ops.Let)]
                made += [self._declared(part.name) for part in lets if part.name in self.kept]
                number = ops.Var(stmt.name)
                own = (new for part in stmt.body for new in self._moved(part, number))
                made.append(msgspec.structs.replace(stmt, body=tuple(own)))
                continue
            made.append(rebuild_blocks(stmt, self.placed))
        return tuple(made)

    def _declared(self, name: str) -> ops.Let:
        place, type_ = self.kept[name]
        size, elem = self.blocks, type_
        if isinstance(type_, ops.ArrayType):
            size, elem = sizes.product(type_.size, self.blocks), type_.elem
        return ops.Let(place, ops.ArrayType(elem, size), None)

    def _moved(self, stmt: ops.Stmt, number: ops.Expr) -> Iterator[ops.Stmt]:
        """A statement of one block, on the places that last."""

        def expr(node: ops.Expr) -> ops.Expr:
            return self._read(node, number, expr)

        def each(inner: ops.Stmt) -> ops.Stmt:
            return rebuild_stmt(inner, expr, each)

        if not isinstance(stmt, ops.Let) or stmt.name not in self.kept:
            yield each(stmt)
            return
        place, type_ = self.kept[stmt.name]
        if not isinstance(type_, ops.ArrayType):
            assert isinstance(type_, str)
            value = ops.Const(type_, 0) if stmt.value is None else expr(stmt.value)
            yield ops.Assign(ops.Elem(ops.Var(place), number), value, stmt.line)
            return
        if any(called(stmt.name, one) for one in (form.SHARED, form.MINE, form.MINES)):
            return  # its threads fill it
        assert isinstance(type_.elem, str)
        at = self.cx.fresh("i")
        element = ops.Elem(ops.Var(place), _slot(type_, number, ops.Var(at)))
        zero = ops.Assign(element, ops.Const(type_.elem, 0), stmt.line)
        yield ops.For(at, ops.i64(0), ops.SizeOf(type_.size), (zero,), stmt.line)

    def _read(self, node: ops.Expr, number: ops.Expr, expr: ExprMap) -> ops.Expr:
        """An expression of the block `number`."""
        name = base_name(node)
        if isinstance(node, ops.Call) and form.of_element(node):
            array, index, *more = node.args
            place, type_ = self.kept.get(base_name(array), ("", ops.I64_T))
            if isinstance(type_, ops.ArrayType):
                total = sizes.product(type_.size, self.blocks)
                slot = _slot(type_, number, expr(index))
                given = (ops.Var(place), slot, *map(expr, more))
                return ops.Call(node.func, given, (total, *node.sizes[1:]))
        if name not in self.kept or not isinstance(node, ops.Elem | ops.Var):
            return rebuild_expr(node, expr)
        place, type_ = self.kept[name]
        if isinstance(node, ops.Elem) and isinstance(type_, ops.ArrayType):
            return ops.Elem(ops.Var(place), _slot(type_, number, expr(node.index)))
        return ops.Elem(ops.Var(place), number)


def _slot(type_: ops.ArrayType, number: ops.Expr, index: ops.Expr) -> ops.Expr:
    """Where an element of a block's array lies: behind those of the blocks before it."""
    row = ops.Binary("imul", number, ops.SizeOf(type_.size))
    return ops.Binary("iadd", row, index)
