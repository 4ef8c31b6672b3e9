"""A kernel of threads over tensors as one launch: what a thread of one of its blocks runs.

The loop over the blocks is opened like those over threads. Where blocks do something one after the
other they take their numbers in the order in which they start, so that each one waits for blocks
that run already: a word of scratch memory counts those that have one, another those that are done.
"""

from typing import NamedTuple

from quantdsl.ir import ops, tensors
from quantdsl.ir import threads as named
from quantdsl.ir.strands import called
from quantdsl.ir.threads import WAIT
from quantdsl.ir.walk import statements
from quantdsl.passes.blocks import BLOCK_NUMBER, ME, THREAD, THREAD_NUMBER, Blocked
from quantdsl.passes.threads import OneThread, shared_of

TICKET, DONE = 1, 2
"""Words of scratch memory, behind the result: blocks that have a number, and that are done."""
NUMBER = "ticket.block"
"""The word of shared memory in which a block's threads find its number."""
_FIRST = ops.Binary("ieq", ME, ops.i64(0))


class GridForm(NamedTuple):
    """The function of a launch, whose last parameter is shared memory, of so many words."""

    body: tuple[ops.Stmt, ...]
    shared_words: int
    blocks: ops.Expr
    in_turn: bool
    """Whether blocks wait for each other: the first words of scratch memory begin as zeros."""


def is_grid(kernel: ops.Func) -> bool:
    """Whether this is a kernel of threads over tensors."""
    return any(_over_blocks(stmt) for stmt in kernel.body)


def _over_blocks(stmt: ops.Stmt) -> bool:
    return isinstance(stmt, ops.For) and called(stmt.name, named.GRID)


def grid_form(kernel: ops.Func, threads: int, scratch: ops.Var) -> GridForm:
    """What a thread runs of a kernel of threads over tensors."""
    form = shared_of(kernel, threads)
    in_turn = named.TURN in statements(kernel.body)
    if in_turn:
        form.kept[NUMBER] = ops.ArrayType(ops.I64_T, 1)
    me = ops.Let(THREAD, ops.I64_T, ops.Call(THREAD_NUMBER, ()))
    body = (me, *_InGrid(form, scratch, in_turn=in_turn).body(kernel.body))
    (blocks,) = (s.hi for s in kernel.body if isinstance(s, ops.For) and _over_blocks(s))
    return GridForm(body, form.words, blocks, in_turn)


class _InGrid(OneThread):
    """Makes what a thread of one block runs."""

    def __init__(self, form: Blocked, scratch: ops.Var, *, in_turn: bool) -> None:
        super().__init__(form)
        self.scratch, self.in_turn = scratch, in_turn
        self.block = ops.Var("")

    def stmt(self, stmt: ops.Stmt) -> list[ops.Stmt]:
        """As of a thread of one block; the loop over blocks is opened."""
        if isinstance(stmt, ops.For) and _over_blocks(stmt):
            self.block = ops.Var(stmt.name)
            return [*self._numbered(), *self.body(stmt.body)]
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
