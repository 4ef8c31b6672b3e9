"""Functions over whole columns as a block of threads runs them: the turns of their loops shared.

Every thread runs every statement, so all of them come to the same places with the same scalars. A
loop over elements whose turns do not need each other is dealt out, with a barrier before and behind
it; a count is added up by all; a sum of `xs.total` is the same fixed tree, whose branches the
threads go along. Any other loop each thread makes for itself, whole. What the functions share lies
where their callers say, and none of it is a thread's own.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from quantdsl.errors import InternalError
from quantdsl.ir import ops
from quantdsl.ir.threads import WAIT
from quantdsl.ir.walk import (
    base_name,
    expressions,
    nested,
    rebuild_expr,
    rebuild_stmt,
    roots,
    statements,
)
from quantdsl.passes.blocks import SHARED, SHUFFLE, THREAD_NUMBER, WARP

TOTAL, TREE = "xs.total", "tree"
"""The function that adds up an array of its first argument, and that array."""
PAIRS = "xs.exchange_each"
"""Each turn of its loop has a pair of elements to itself."""
ORDER = "order"
"""A sort leaves each number once there, so what stands at a number from it is another each turn."""
SUM = "block.sum"
INIT = "init"
"""It fills what each thread has for itself."""
SCRATCH_WORDS = WARP
"""Of shared memory, for what the warps of a block add up."""
ME = ops.Var("block.me")
NOTHING = ops.f64(-0.0)
"""Adding it changes no float, not even a zero of either sign."""


class Read(NamedTuple):
    """An array that a function reads: the number of its parameter, or a field of it."""

    number: int
    field: str


def together(module: ops.Module, entry: str, threads: int) -> ops.Module:
    """The module whose entry, and what it calls, is run by all of so many threads at once.

    What works together has one more parameter, SHARED: memory of the block whose first words it
    uses. `threads` is a power of two.
    """
    return _Together(module, threads).module(entry)


class _Together:
    def __init__(self, whole: ops.Module, threads: int) -> None:
        self.whole, self.threads = whole, threads
        self.funcs = {func.name: func for func in whole.funcs}
        self.joint: dict[str, bool] = {}
        """Whether the threads work together in a function."""
        self.reads: dict[str, frozenset[Read]] = {}

    def module(self, entry: str) -> ops.Module:
        """All functions, those in which threads work together in their form for it."""
        for func in self.whole.funcs:  # callees stand before their callers
            self.reads[func.name] = frozenset() if func.name == entry else self._reads(func)
            self.joint[func.name] = func.name == entry or self._works(func)
            if func.name not in (TOTAL, INIT):
                self._hold(func, func.body)
        made = [self._func(f) if self.joint[f.name] else f for f in self.whole.funcs]
        return msgspec.structs.replace(self.whole, funcs=(_sum(self.threads), *made))

    def _hold(self, func: ops.Func, body: tuple[ops.Stmt, ...]) -> None:
        """Elements are written by loops that are dealt out: elsewhere all threads would write."""
        for stmt in body:
            if self._shared(func, stmt):
                continue
            if isinstance(stmt, ops.Assign) and isinstance(stmt.place, ops.Elem):
                raise InternalError(
                    f"QD9513 passes: {func.name}, line {stmt.line}: a loop whose turns need each "
                    "other cannot be shared by threads"
                )
            for part in nested(stmt):
                self._hold(func, part)

    def _works(self, func: ops.Func) -> bool:
        return func.name == TOTAL or any(
            self._shared(func, stmt) or self._summed(stmt) is not None or self._joint(stmt)
            for stmt in statements(func.body)
        )

    def _joint(self, stmt: ops.Stmt) -> bool:
        """Whether a statement calls what the threads do together."""
        calls = (node for root in roots(stmt) for node in _nodes(root))
        return any(isinstance(node, ops.Call) and self.joint[node.func] for node in calls)

    def _func(self, func: ops.Func) -> ops.Func:
        params = (*func.params, ops.ParamDecl(SHARED.name, ops.BufferType(ops.I64_T), inout=True))
        body = _total(func, self._size(func), self.threads) if func.name == TOTAL else (
            ops.Let(ME.name, ops.I64_T, ops.Call(THREAD_NUMBER, ())), *self._block(func, func.body)
        )  # fmt: skip
        return msgspec.structs.replace(func, params=params, body=body)

    def _size(self, func: ops.Func) -> int:
        """How many elements the array has that a function adds up."""
        type_ = func.params[0].type
        assert isinstance(type_, ops.StructType)
        struct = next(one for one in self.whole.structs if one.name == type_.name)
        tree = next(one.type for one in struct.fields if one.name == TREE)
        assert isinstance(tree, ops.ArrayType)
        assert isinstance(tree.size, int)
        return tree.size

    # ---- statements ----

    def _block(self, func: ops.Func, body: tuple[ops.Stmt, ...]) -> tuple[ops.Stmt, ...]:
        made: list[ops.Stmt] = []
        for stmt in body:
            for one in self._stmt(func, stmt):
                if one != WAIT or not made or made[-1] != WAIT:
                    made.append(one)
        return tuple(made)

    def _stmt(self, func: ops.Func, stmt: ops.Stmt) -> list[ops.Stmt]:
        if isinstance(stmt, ops.For):
            total = self._summed(stmt)
            if total is not None:
                return self._counted(stmt, total)
            if self._shared(func, stmt):
                return [WAIT, self._dealt(stmt, stmt.body), WAIT]
        if isinstance(stmt, ops.If):
            then, otherwise = (self._block(func, part) for part in (stmt.then, stmt.otherwise))
            stmt = msgspec.structs.replace(stmt, then=then, otherwise=otherwise)
        elif isinstance(stmt, ops.For | ops.While):
            stmt = msgspec.structs.replace(stmt, body=self._block(func, stmt.body))
        return [rebuild_stmt(stmt, self._call, lambda inner: inner)]

    def _call(self, expr: ops.Expr) -> ops.Expr:
        """A call of what threads do together hands on the memory of the block."""
        made = rebuild_expr(expr, self._call)
        if isinstance(made, ops.Call) and self.joint[made.func]:
            return msgspec.structs.replace(made, args=(*made.args, SHARED))
        return made

    def _dealt(self, loop: ops.For, body: tuple[ops.Stmt, ...]) -> ops.For:
        """The turns of this thread: every so many of the loop's."""
        assert isinstance(loop.hi, ops.Const)
        turn = ops.Var(f"{loop.name}.turn")
        ahead = ops.Binary("imul", turn, ops.i64(self.threads))
        number = ops.Let(loop.name, ops.I64_T, ops.Binary("iadd", ahead, ME))
        inside = ops.Binary("ilt", ops.Var(loop.name), loop.hi)
        turns = ops.i64(-(-loop.hi.bits // self.threads))
        return ops.For(turn.name, ops.i64(0), turns, (number, ops.If(inside, body)), loop.line)

    def _counted(self, loop: ops.For, total: str) -> list[ops.Stmt]:
        """Each thread counts in its own turns; then all have the sum."""
        part, name = ops.Var(f"{total}.{loop.name}"), ops.Var(total)
        (count,) = loop.body
        assert isinstance(count, ops.Assign)
        assert isinstance(count.value, ops.Binary)
        own = ops.Assign(part, ops.Binary("iadd", part, count.value.y), count.line)
        every = ops.Var(f"{part.name}.all")
        return [
            ops.Let(part.name, ops.I64_T, ops.i64(0)),
            WAIT,
            self._dealt(loop, (own,)),
            ops.Let(every.name, ops.I64_T, ops.Call(SUM, (part, SHARED))),
            ops.Assign(name, ops.Binary("iadd", name, every)),
        ]

    # ---- what a loop is ----

    def _summed(self, stmt: ops.Stmt) -> str | None:
        """The whole number that a loop does nothing but add to."""
        match stmt:
            case ops.For(
                hi=ops.Const(),
                body=(ops.Assign(place=ops.Var(name), value=ops.Binary(op="iadd", x=x, y=y)),),
            ) if x == ops.Var(name) and ops.Var(name) not in _nodes(y):
                return name
        return None

    def _shared(self, func: ops.Func, stmt: ops.Stmt) -> bool:
        """Whether a loop writes elements, and no turn needs another."""
        if not isinstance(stmt, ops.For) or not isinstance(stmt.hi, ops.Const):
            return False
        inner = list(statements(stmt.body))
        own = {one.name for one in inner if isinstance(one, ops.Let | ops.For)}
        written: dict[ops.Expr, ops.Expr] = {}  # array -> the index
        for one in inner:
            if isinstance(one, ops.Do | ops.Break | ops.Continue | ops.Return) or self._joint(one):
                return False
            if not isinstance(one, ops.Assign):
                continue
            place = one.place
            if isinstance(place, ops.Var) and place.name in own:
                continue
            if not isinstance(place, ops.Elem) or not self._distinct(func, stmt, place.index):
                return False
            if written.setdefault(place.base, place.index) != place.index and func.name != PAIRS:
                return False
        if not written:
            return False
        return func.name == PAIRS or all(
            written.get(base, index) == index
            for base, index in self._read(stmt.body)
        )

    def _distinct(self, func: ops.Func, loop: ops.For, index: ops.Expr) -> bool:
        """Whether no two turns of a loop have the same index."""
        at = ops.Var(loop.name)
        if index == at or func.name == PAIRS:
            return True
        if isinstance(index, ops.Var):
            inner = list(statements(loop.body))
            named = [one for one in inner if isinstance(one, ops.Let) and one.name == index.name]
            changed = any(isinstance(one, ops.Assign) and one.place == index for one in inner)
            if not named or named[0].value is None or changed:
                return False
            index = named[0].value
        if isinstance(index, ops.Binary) and index.op == "iadd" and index.y == at:
            return at not in _nodes(index.x)
        return any(
            isinstance(node, ops.Elem)
            and node.index == at
            and isinstance(node.base, ops.Field)
            and node.base.name == ORDER
            for node in _nodes(index)
        )

    def _read(self, body: tuple[ops.Stmt, ...]) -> Iterator[tuple[ops.Expr, ops.Expr | None]]:
        """The arrays that statements read, with the index; None where a function has its own."""
        for node in expressions(body):
            if isinstance(node, ops.Elem):
                yield node.base, node.index
            elif isinstance(node, ops.Call):
                for number, field in self.reads.get(node.func, ()):
                    base = node.args[number]
                    yield (ops.Field(base, field) if field else base), None  # type: ignore[arg-type]

    def _reads(self, func: ops.Func) -> frozenset[Read]:
        """The arrays of its parameters that a function reads, or what it calls."""
        numbers = {param.name: number for number, param in enumerate(func.params)}
        found = set()
        for base, _ in self._read(func.body):
            field = base.name if isinstance(base, ops.Field) else ""
            if (name := base_name(base)) in numbers:
                found.add(Read(numbers[name], field))
        return frozenset(found)


def _nodes(expr: ops.Expr) -> list[ops.Expr]:
    return list(expressions((ops.Let("", ops.I64_T, expr),)))


def _sum(threads: int) -> ops.Func:
    """The sum of a whole number of each thread, for all of them."""

    def added(x: ops.Expr, y: ops.Expr) -> ops.Expr:
        return ops.Binary("iadd", x, y)

    body = (
        ops.Let(ME.name, ops.I64_T, ops.Call(THREAD_NUMBER, ())),
        *_joined(threads, ops.Var("value"), added, lambda x: x, lambda x: x, ops.i64(0)),
    )
    params = (
        ops.ParamDecl("value", ops.I64_T),
        ops.ParamDecl(SHARED.name, ops.BufferType(ops.I64_T), inout=True),
    )
    return ops.Func(SUM, params, ops.I64_T, body)


def _total(func: ops.Func, size: int, threads: int) -> tuple[ops.Stmt, ...]:
    """The tree over an array: each thread adds up a branch, and the branches are joined.

    A branch has a power of two of leaves, so its sum is one that the tree of `xs.total` has too;
    what stands behind the last element is added as NOTHING.
    """
    leaves = 1
    while leaves * threads < size:
        leaves *= 2
    array = ops.Field(ops.Var(func.params[0].name), TREE)
    first = ops.Var("block.first")

    def leaf(number: int) -> ops.Expr:
        index = ops.Binary("iadd", first, ops.i64(number))
        there = ops.Binary("ilt", index, ops.i64(size))
        near = ops.Binary("imin", index, ops.i64(size - 1))
        return ops.Select(there, ops.Elem(array, near), NOTHING)

    def branch(lo: int, count: int) -> ops.Expr:
        if count == 1:
            return leaf(lo)
        half = count // 2
        return ops.Binary("fadd", branch(lo, half), branch(lo + half, half))

    return (
        ops.Let(ME.name, ops.I64_T, ops.Call(THREAD_NUMBER, ())),
        ops.Let(first.name, ops.I64_T, ops.Binary("imul", ME, ops.i64(leaves))),
        WAIT,
        *_joined(
            threads,
            branch(0, leaves),
            lambda x, y: ops.Binary("fadd", x, y),
            lambda x: ops.Unary("bits", x),
            lambda x: ops.Unary("from_bits", x),
            NOTHING,
        ),
    )


def _joined(
    threads: int,
    value: ops.Expr,
    added: Callable[[ops.Expr, ops.Expr], ops.Expr],
    to_word: Callable[[ops.Expr], ops.Expr],
    of_word: Callable[[ops.Expr], ops.Expr],
    nothing: ops.Const,
) -> tuple[ops.Stmt, ...]:
    """Join the values of all threads: those of each warp by shuffles, then those of the warps."""
    stmts: list[ops.Stmt] = []

    def kept(value: ops.Expr) -> ops.Var:
        name = f"block.{len(stmts)}"
        stmts.append(ops.Let(name, nothing.type, value))
        return ops.Var(name)

    def warp(value: ops.Expr, threads: int) -> ops.Var:
        mine, bits = kept(value), 1
        while bits < threads:
            word = ops.Call(SHUFFLE, (to_word(mine), ops.i64(bits)))
            mine, bits = kept(added(mine, of_word(word))), 2 * bits
        return mine

    mine = warp(value, min(threads, WARP))
    if threads > WARP:
        lane = ops.Binary("iand", ME, ops.i64(WARP - 1))
        first = ops.Binary("ieq", lane, ops.i64(0))
        number = ops.Binary("lshr", ME, ops.i64(5))
        stmts.append(ops.If(first, (ops.Assign(ops.Elem(SHARED, number), to_word(mine)),)))
        stmts.append(WAIT)
        there = ops.Binary("ilt", lane, ops.i64(threads // WARP))
        found = ops.Select(there, of_word(ops.Elem(SHARED, lane)), nothing)
        mine = warp(found, WARP)
        stmts.append(WAIT)
    return (*stmts, ops.Return(mine))
