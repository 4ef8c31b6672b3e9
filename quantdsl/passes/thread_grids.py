"""A kernel of threads over tensors as one launch: what a thread of one of its blocks runs.

The loop over the blocks is opened like those over threads. Where blocks do something one after the
other they take their numbers in the order in which they start, so that each one waits for blocks
that run already: a word of scratch memory counts those that have one, another those that are done.
"""

from typing import NamedTuple

import msgspec

from quantdsl.ir import ops, tensors
from quantdsl.ir import threads as named
from quantdsl.ir.strands import called
from quantdsl.ir.threads import WAIT
from quantdsl.ir.walk import base_name, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.blocks import (
    BLOCK_NUMBER,
    ME,
    THREAD,
    THREAD_NUMBER,
    Blocked,
    scalar_of,
    size_of,
)
from quantdsl.passes.threads import OneThread, shared_of

TICKET, DONE = tensors.MET_COUNT, tensors.MET_ROUND
"""Words of scratch memory, behind the result: blocks that have a number, and that are done."""
NUMBER = "ticket.block"
"""The word of shared memory in which a block's threads find its number."""
ROUND = ops.Var("round.grid")
"""How often the grid has met."""
_FIRST = ops.Binary("ieq", ME, ops.i64(0))


class GridForm(NamedTuple):
    """The function of a launch, whose last parameter is shared memory, of so many words."""

    body: tuple[ops.Stmt, ...]
    shared_words: int
    in_turn: bool
    """Whether blocks wait for those before them: words of scratch memory begin as zeros."""
    meets: bool
    """Whether all blocks wait for each other, of which those words count the meetings."""


def is_grid(kernel: ops.Func) -> bool:
    """Whether this is a kernel of threads over tensors."""
    return any(map(_over_blocks, statements(kernel.body)))


def blocks_of(kernel: ops.Func) -> ops.Expr:
    """How many blocks such a kernel has."""
    loops = (stmt for stmt in statements(kernel.body) if isinstance(stmt, ops.For))
    return next(loop.hi for loop in loops if _over_blocks(loop))


def _over_blocks(stmt: ops.Stmt) -> bool:
    return isinstance(stmt, ops.For) and called(stmt.name, named.GRID)


def grid_form(kernel: ops.Func, threads: int, blocks: int, scratch: ops.Var) -> GridForm:
    """What a thread runs of a kernel of threads over tensors, of so many blocks."""
    kernel = msgspec.structs.replace(kernel, body=_OneBlock(blocks).body(kernel.body))
    form = shared_of(kernel, threads)
    in_turn = named.TURN in statements(kernel.body)
    if in_turn:
        form.kept[NUMBER] = ops.ArrayType(ops.I64_T, 1)
    me = ops.Let(THREAD, ops.I64_T, ops.Call(THREAD_NUMBER, ()))
    meets = named.GRID_WAIT in statements(kernel.body)
    first = (ops.Let(ROUND.name, ops.I64_T, ops.i64(0)),) if meets else ()
    body = (me, *first, *_InGrid(form, scratch, blocks, in_turn=in_turn).body(kernel.body))
    return GridForm(body, form.words, in_turn, meets)


class _OneBlock:
    """Makes of what a grid keeps of each block that of one, under the name that a block has."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks

    def body(self, body: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
        """The statements of one block."""
        return tuple(map(self.stmt, body))

    def stmt(self, stmt: ops.Stmt) -> ops.Stmt:
        """A statement of one block."""
        if isinstance(stmt, ops.Let) and isinstance(stmt.type, ops.ArrayType):
            own = _own(stmt.name)
            if stmt.name.startswith(named.EACH):
                elem = scalar_of(stmt.type)
                return ops.Let(own, elem, ops.Const(elem, 0), stmt.line)
            if stmt.name.startswith(named.ALL):
                size = size_of(stmt.type) // self.blocks
                return ops.Let(own, ops.ArrayType(stmt.type.elem, size), None, stmt.line)
        return rebuild_stmt(stmt, self.expr, self.stmt)

    def expr(self, node: ops.Expr) -> ops.Expr:
        """An expression of one block: an array's elements lie behind those of blocks before it."""
        if isinstance(node, ops.Elem) and base_name(node).startswith(named.EACH):
            return ops.Var(_own(base_name(node)))
        if isinstance(node, ops.Elem) and base_name(node).startswith(named.ALL):
            assert isinstance(node.index, ops.Binary)
            return ops.Elem(ops.Var(_own(base_name(node))), self.expr(node.index.y))
        if isinstance(node, ops.Call) and named.of_element(node):
            array, index, *more = node.args
            if base_name(array).startswith(named.ALL):
                assert isinstance(index, ops.Binary)
                own = ops.Var(_own(base_name(array))), self.expr(index.y)
                return ops.Call(node.func, (*own, *map(self.expr, more)), node.sizes)
        return rebuild_expr(node, self.expr)


def _own(name: str) -> str:
    """The name that a block has for what a grid keeps of it."""
    return name.removeprefix(named.ALL).removeprefix(named.EACH)


class _InGrid(OneThread):
    """Makes what a thread of one block runs."""

    def __init__(self, form: Blocked, scratch: ops.Var, blocks: int, *, in_turn: bool) -> None:
        super().__init__(form)
        self.scratch, self.blocks, self.in_turn = scratch, blocks, in_turn
        self.block = ops.Var("")

    def stmt(self, stmt: ops.Stmt) -> list[ops.Stmt]:
        """As of a thread of one block; the loop over blocks is opened."""
        if isinstance(stmt, ops.For) and _over_blocks(stmt):
            self.block = ops.Var(stmt.name)
            return [*self._numbered(), *self.body(stmt.body)]
        if stmt == named.GRID_WAIT:
            meet = _do(tensors.GRID_MEET, self.scratch, ROUND, ops.i64(self.blocks))
            more = ops.Assign(ROUND, ops.Binary("iadd", ROUND, ops.i64(1)))
            return [WAIT, self._first(meet), WAIT, more]
        if stmt == named.TURN:
            return [self._first(self._awaits())]
        if stmt == named.PASS:
            done = (self.scratch, ops.i64(DONE), ops.Binary("iadd", self.block, ops.i64(1)))
            return [WAIT, self._first(self._awaits(), _do(tensors.LEAVE, *done))]
        return super().stmt(stmt)

    def _numbered(self) -> list[ops.Stmt]:
        """The number of the block: that of the launch, or the next one that nobody has."""
        if not self.in_turn:
            return [ops.Let(self.block.name, ops.I64_T, ops.Call(BLOCK_NUMBER, ()))]
        word = self.form.place(NUMBER, ops.i64(0))
        taken = ops.Let("ticket", ops.I64_T, _call(tensors.TICKET, self.scratch, ops.i64(TICKET)))
        return [
            self._first(taken, ops.Assign(word, ops.Var("ticket"))),
            WAIT,
            ops.Let(self.block.name, ops.I64_T, word),
        ]

    def _awaits(self) -> ops.Do:
        return _do(tensors.AWAIT, self.scratch, ops.i64(DONE), self.block)

    def _first(self, *body: ops.Stmt) -> ops.If:
        """What one thread does for its block."""
        return ops.If(_FIRST, body)


def _call(name: str, *args: ops.Expr) -> ops.Call:
    return ops.Call(name, args)


def _do(name: str, *args: ops.Expr) -> ops.Do:
    return ops.Do(ops.Call(name, args))
