"""A count of how many values of a tensor are smaller, by a search in them in order.

`for k in 0..<n: if x[k] < y: count += 1` in a turn of a parallel loop over tensors is n comparisons
for each turn. In the order of sorts.py the values of which the comparison holds come first, those
that are no numbers being last, so as many steps as n has bits find how many there are.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from quantdsl.ir import ops
from quantdsl.ir.walk import base_name, expressions, rebuild_expr
from quantdsl.passes.blocks import size_of
from quantdsl.passes.nests import affine, loop_of, numbers
from quantdsl.passes.sorts import Memory, Sort, grid_words

VALUES_LEAST, TURNS_LEAST = 1_024, 64
"""With fewer, a sort is more work than the comparisons."""
RISING = {"flt": "fgt", "fle": "fge", "ilt": "igt", "ile": "ige"}
"""Comparisons that hold of the first values in order -> the same with its operands exchanged."""


class Ranked(NamedTuple):
    """A kernel that searches, and the tensors whose words are to lie in order before."""

    func: ops.Func
    memories: tuple[Memory, ...]
    words: int
    """Of scratch memory, from its beginning on."""


class _Count(NamedTuple):
    """A loop that counts the values of a tensor of which `cond` holds; `value` is one of them."""

    carried: ops.Var
    cond: ops.Expr
    value: ops.Elem


def ranked(
    func: ops.Func, elements: Mapping[str, str], scratch: ops.Var, first: int
) -> Ranked:
    """The kernel with a search in place of each such loop; words from `first` on are free."""
    made = _Maker(func, elements, scratch, first)
    body = tuple(map(made.stmt, func.body))
    func = msgspec.structs.replace(func, body=body)
    return Ranked(func, tuple(made.memories.values()), made.words)


class _Maker:
    def __init__(
        self, func: ops.Func, elements: Mapping[str, str], scratch: ops.Var, first: int
    ) -> None:
        self.elements, self.scratch, self.words = elements, scratch, first
        self.read = {p.name: p.type for p in func.params if p.name in elements and not p.inout}
        self.known = numbers(func.body)
        self.memories: dict[str, Memory] = {}
        self.names = 0

    def stmt(self, stmt: ops.Stmt) -> ops.Stmt:
        """A statement of the kernel, which may be a parallel loop."""
        loop = loop_of(stmt)
        turns = None if loop is None else affine(loop.turns, self.known)
        if loop is None or turns is None or set(turns) != {""} or turns[""] < TURNS_LEAST:
            return stmt
        assert isinstance(stmt, ops.For)
        (strand,) = stmt.body
        assert isinstance(strand, ops.For)
        body = (strand.body[0], *(new for old in loop.body for new in self._turn(old)))
        strand = msgspec.structs.replace(strand, body=body)
        return msgspec.structs.replace(stmt, body=(strand,))

    def _turn(self, stmt: ops.Stmt) -> Iterator[ops.Stmt]:
        count = self._count_of(stmt)
        if count is None:
            yield stmt
            return
        name = base_name(count.value)
        if name not in self.memories:
            type_ = self.read[name]
            assert isinstance(type_, ops.ArrayType)
            sort = Sort(name, self.elements[name], "", size_of(type_), apart=True)
            self.memories[name] = Memory(sort, self.scratch, self.words)
            self.words += self.memories[name].words + grid_words(sort)
        self.names += 1
        yield from _search(count, self.memories[name], f"rank.{self.names}")

    def _count_of(self, stmt: ops.Stmt) -> _Count | None:
        """The count that a loop is, or None."""
        if not isinstance(stmt, ops.For) or stmt.lo != ops.i64(0) or len(stmt.body) != 1:
            return None
        (branch,) = stmt.body
        if not isinstance(branch, ops.If) or branch.otherwise or len(branch.then) != 1:
            return None
        (more,) = branch.then
        if not isinstance(more, ops.Assign) or not isinstance(more.place, ops.Var):
            return None
        if more.value != ops.Binary("iadd", more.place, ops.i64(1)):
            return None
        cond = branch.cond
        if not isinstance(cond, ops.Binary):
            return None
        value, other = (cond.x, cond.y) if cond.op in RISING else (cond.y, cond.x)
        if cond.op not in (*RISING, *RISING.values()) or not isinstance(value, ops.Elem):
            return None
        type_ = self.read.get(base_name(value))
        whole = isinstance(type_, ops.ArrayType) and size_of(type_) >= VALUES_LEAST
        if not whole or value.index != ops.Var(stmt.name) or not isinstance(type_, ops.ArrayType):
            return None
        names = {e.name for e in expressions((ops.Return(other),)) if isinstance(e, ops.Var)}
        if stmt.hi != ops.i64(size_of(type_)) or names & {stmt.name, more.place.name}:
            return None
        return _Count(more.place, cond, value)


def _search(count: _Count, memory: Memory, name: str) -> Iterator[ops.Stmt]:
    """How many of the words in order are those of values of which the comparison holds."""
    found, step = ops.Var(f"found.{name}"), ops.Var(f"step.{name}")
    value, up = ops.Var(f"value.{name}"), ops.Var(f"up.{name}")
    size = memory.sort.size
    bits = size.bit_length()
    last = ops.Binary("isub", ops.Binary("iadd", found, step), ops.i64(1))
    kind: ops.ScalarType = ops.I64_T if memory.sort.element == "int" else ops.F64_T

    def cond(node: ops.Expr) -> ops.Expr:
        return value if node == count.value else rebuild_expr(node, cond)

    more = ops.Assign(found, ops.Binary("iadd", found, step))
    inside = ops.Binary("ilt", last, ops.i64(size))
    asked = (ops.Let(value.name, kind, memory.in_order(last)), ops.If(cond(count.cond), (more,)))
    half = ops.Binary("shl", ops.i64(1), ops.Binary("isub", ops.i64(bits - 1), up))
    yield ops.Let(found.name, ops.I64_T, ops.i64(0))
    yield ops.For(
        up.name,
        ops.i64(0),
        ops.i64(bits),
        (ops.Let(step.name, ops.I64_T, half), ops.If(inside, asked)),
    )
    yield ops.Assign(count.carried, ops.Binary("iadd", count.carried, found))
