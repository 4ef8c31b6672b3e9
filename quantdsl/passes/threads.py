"""A kernel of threads as a block runs it: its loops over the threads are what each thread does.

What was an array of an element a thread is a local again, shared memory is that of the block, and
what goes from thread to thread of a warp goes by shuffles and votes. What is the same in all
threads each computes for itself. The pieces that go in the order of the threads take turns, with a
barrier behind each.
"""

import msgspec

from quantdsl.ir import ops
from quantdsl.ir import threads as named
from quantdsl.ir.strands import called
from quantdsl.ir.threads import WAIT
from quantdsl.ir.walk import base_name, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.blocks import (
    BALLOT,
    COPY,
    MATCH,
    ME,
    SHUFFLE_FROM,
    THREAD,
    THREAD_NUMBER,
    Blocked,
    BlockForm,
    added,
    adding,
    copied,
    scalar_of,
    size_of,
    with_shared,
)

ASKED = {named.SHUFFLE: SHUFFLE_FROM, named.BALLOT: BALLOT, named.MATCH: MATCH}


def of_threads(kernel: ops.Func) -> bool:
    """Whether this is a kernel of threads."""
    return any(
        isinstance(stmt, ops.For) and called(stmt.name, named.THREAD)
        for stmt in statements(kernel.body)
    )


def threaded(kernel: ops.Func, threads: int) -> BlockForm:
    """The kernel with a last parameter, shared memory, as each of so many threads runs it."""
    form = shared_of(kernel, threads)
    me = ops.Let(THREAD, ops.I64_T, ops.Call(THREAD_NUMBER, ()))
    body = (me, *OneThread(form).body(kernel.body))
    made = with_shared(msgspec.structs.replace(kernel, body=body))
    return BlockForm(made, form.kept)


def shared_of(kernel: ops.Func, threads: int) -> Blocked:
    """A block of so many threads, with all that its threads share."""
    form = Blocked(threads)
    for stmt in statements(kernel.body):
        if isinstance(stmt, ops.Let) and called(stmt.name, named.SHARED):
            assert isinstance(stmt.type, ops.ArrayType)
            form.kept[stmt.name] = stmt.type
    return form


class OneThread:
    """Makes what one thread runs of what all of them run; thread_grids.py adds what blocks do."""

    def __init__(self, form: Blocked) -> None:
        self.form = form
        self.numbers: set[str] = set()  # names of the loops over the threads

    def body(self, body: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
        """The statements, the loops over the threads opened."""
        return tuple(made for stmt in body for made in self.stmt(stmt))

    def stmt(self, stmt: ops.Stmt) -> list[ops.Stmt]:
        """A statement as this thread runs it."""
        match stmt:
            case ops.Let(type=ops.ArrayType()):
                return self._array(stmt)
            case ops.For() if called(stmt.name, named.THREAD):
                self.numbers.add(stmt.name)
                return list(self.body(stmt.body))
            case ops.For() if called(stmt.name, named.ORDERED):
                self.numbers.add(stmt.name)
                turn = ops.Binary("ieq", ops.Var(f"turn.{stmt.name}"), ME)
                own = ops.If(turn, self.body(stmt.body))
                return [msgspec.structs.replace(stmt, name=f"turn.{stmt.name}", body=(own, WAIT))]
            case ops.For() | ops.While():
                stmt = msgspec.structs.replace(stmt, body=self.body(stmt.body))
            case ops.If():
                then, otherwise = self.body(stmt.then), self.body(stmt.otherwise)
                stmt = msgspec.structs.replace(stmt, then=then, otherwise=otherwise)
            case ops.Assign() if base_name(stmt.place) in self.form.kept:
                return [self._stored(stmt)]
            case ops.Do() if copied(stmt):
                array, index, tensor, at = stmt.call.args
                to = self.form.place(base_name(array), self.expr(index)).index
                return [ops.Do(ops.Call(COPY, (to, tensor, self.expr(at))), stmt.line)]
            case ops.Do() if added(stmt) in self.form.kept:
                return [adding(self.form, stmt, self.expr)]
        return [rebuild_stmt(stmt, self.expr, lambda inner: inner)]

    def _array(self, stmt: ops.Let) -> list[ops.Stmt]:
        """What an array of the threads is in one of them."""
        assert isinstance(stmt.type, ops.ArrayType)
        if called(stmt.name, named.SHARED):
            return []
        if called(stmt.name, named.MINE) or called(stmt.name, named.GIVE):
            elem = scalar_of(stmt.type)
            return [ops.Let(stmt.name, elem, ops.Const(elem, 0), stmt.line)]
        if called(stmt.name, named.MINES):
            size = size_of(stmt.type) // self.form.threads
            return [ops.Let(stmt.name, ops.ArrayType(stmt.type.elem, size), None, stmt.line)]
        return [stmt]

    def _stored(self, stmt: ops.Assign) -> ops.Assign:
        assert isinstance(stmt.place, ops.Elem)
        name = base_name(stmt.place)
        to = self.form.place(name, self.expr(stmt.place.index))
        return ops.Assign(to, ops.as_word(self.expr(stmt.value), self.form.type(name)), stmt.line)

    def expr(self, node: ops.Expr) -> ops.Expr:
        """An expression as this thread has it."""
        if isinstance(node, ops.Var) and node.name in self.numbers:
            return ME
        if isinstance(node, ops.Call) and (name := node.func.partition("[")[0]) in ASKED:
            given, _, *more = node.args
            return ops.Call(ASKED[name], (given, *map(self.expr, more)))
        if isinstance(node, ops.Elem) and isinstance(node.base, ops.Var):
            name = node.base.name
            if name in self.form.kept:
                word = self.form.place(name, self.expr(node.index))
                return ops.as_value(word, self.form.type(name))
            if called(name, named.MINE):
                return node.base
            if called(name, named.GIVE):
                return node.base
            if called(name, named.MINES):
                # Behind the elements of the threads before it.
                assert isinstance(node.index, ops.Binary)
                return ops.Elem(node.base, self.expr(node.index.y))
        return rebuild_expr(node, self.expr)
