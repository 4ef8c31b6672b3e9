"""The parallel loops of a kernel of tensors, as what a grid of threads can share.

Only what stands at the top of its body is looked at: numbers that every thread computes for itself,
and parallel loops, whose turns need nobody else's.
"""

from collections.abc import Mapping
from typing import NamedTuple

from quantdsl.ir import ops
from quantdsl.ir.strands import STRAND, called

Affine = dict[str, int]
"""Counter -> how far an index goes with it; under the empty name what it begins with."""


class Loop(NamedTuple):
    """A parallel loop that reduces nothing: `body` for `counter` in low ..< low + turns."""

    counter: str
    low: ops.Expr
    turns: ops.Expr
    body: tuple[ops.Stmt, ...]


def loop_of(stmt: ops.Stmt) -> Loop | None:
    """The loop that check/parallel.py made strands of, where it reduces nothing."""
    if not isinstance(stmt, ops.For) or not called(stmt.name, STRAND) or len(stmt.body) != 1:
        return None
    (inner,) = stmt.body
    assert isinstance(inner, ops.For)
    here, *body = inner.body
    assert isinstance(here, ops.Let)
    assert isinstance(here.value, ops.Binary)
    return Loop(here.name, here.value.x, _turns(inner.hi), tuple(body))


def _turns(strand: ops.Expr) -> ops.Expr:
    """The number of all turns in that of a strand: (turns - strand + 255) >> 8."""
    assert isinstance(strand, ops.Binary)
    assert isinstance(strand.x, ops.Binary)
    assert isinstance(strand.x.x, ops.Binary)
    return strand.x.x.x


def affine(expr: ops.Expr, known: Mapping[str, Affine]) -> Affine | None:
    """An index as a sum of counters and a number; None where it is none."""
    match expr:
        case ops.Const():
            return {"": expr.bits}
        case ops.Var():
            return known.get(expr.name)
        case ops.Binary():
            x, y = affine(expr.x, known), affine(expr.y, known)
            if x is None or y is None:
                return None
            if expr.op in ("iadd", "isub"):
                sign = 1 if expr.op == "iadd" else -1
                names = dict.fromkeys([*x, *y])
                return {name: x.get(name, 0) + sign * y.get(name, 0) for name in names}
            if expr.op == "imul" and (set(x) == {""} or set(y) == {""}):
                factor, other = (x[""], y) if set(x) == {""} else (y[""], x)
                return {name: factor * step for name, step in other.items()}
    return None


def numbers(body: tuple[ops.Stmt, ...]) -> dict[str, Affine]:
    """The whole numbers at the top of a body that sizes alone decide."""
    known: dict[str, Affine] = {}
    for stmt in body:
        if isinstance(stmt, ops.Let) and stmt.type == ops.I64_T and stmt.value is not None:
            value = affine(stmt.value, known)
            if value is not None:
                known[stmt.name] = value
    return known


class Operand(NamedTuple):
    """A matrix of a product: which tensor, and how far its elements lie apart, in elements."""

    name: str
    side: int
    """From one row of the product to the next, or one column."""
    along: int
    """From one link of the chain to the next; of the product itself from column to column."""
    first: int


class Product(NamedTuple):
    """c[i, j] = fma(a[i, l], b[l, j], c[i, j]) for l = 0, 1, ..., depth - 1, in this order."""

    rows: int
    columns: int
    depth: int
    a: Operand
    b: Operand
    c: Operand
    single: bool


def product_of(loop: Loop, numbers: Mapping[str, Affine]) -> Product | None:
    """The matrix product that a parallel loop is, and nothing else; or None."""
    known = dict(numbers)
    sizes = {loop.counter: _count(loop.low, loop.turns, known)}
    body, order = loop.body, [loop.counter]
    known[loop.counter] = {loop.counter: 1}
    while len(body) == 1 and isinstance(body[0], ops.For):
        inner = body[0]
        lo, hi = (affine(end, known) for end in (inner.lo, inner.hi))
        sizes[inner.name] = hi.get("", 0) if lo == {"": 0} and hi and set(hi) == {""} else None
        known[inner.name] = {inner.name: 1}
        order.append(inner.name)
        body = inner.body
    (stmt,) = body if len(body) == 1 else (None,)
    turns = all(count is not None and count > 0 for count in sizes.values())
    fits = len(order) == 3 and turns and isinstance(stmt, ops.Assign)
    if not fits or not isinstance(stmt, ops.Assign) or not isinstance(stmt.value, ops.Fma):
        return None
    if stmt.value.z != stmt.place:
        return None
    return _matched(stmt, stmt.value, order, {name: n or 0 for name, n in sizes.items()}, known)


def _count(low: ops.Expr, turns: ops.Expr, known: Mapping[str, Affine]) -> int | None:
    """The turns of a loop from 0 to a number."""
    first, count = affine(low, known), affine(turns, known)
    if first is None or count is None or any(first.values()) or set(count) != {""}:
        return None
    return count[""]


def _matched(
    stmt: ops.Assign,
    fma: ops.Fma,
    order: list[str],
    sizes: Mapping[str, int],
    known: Mapping[str, Affine],
) -> Product | None:
    """The product of three loops, whichever of the inner two is the chain."""
    row = order[0]
    for column, link in (order[1:], order[:0:-1]):
        for x, y in ((fma.x, fma.y), (fma.y, fma.x)):
            c = _operand(stmt.place, row, column, known)
            a, b = _operand(x, row, link, known), _operand(y, column, link, known)
            if a and b and c and c.name not in (a.name, b.name) and c.side and c.along:
                single = fma.single
                return Product(sizes[row], sizes[column], sizes[link], a, b, c, single)
    return None


def _operand(
    place: ops.Expr, side: str, along: str, known: Mapping[str, Affine]
) -> Operand | None:
    if not isinstance(place, ops.Elem) or not isinstance(place.base, ops.Var):
        return None
    steps = affine(place.index, known)
    if steps is None or any(step for name, step in steps.items() if name not in (side, along, "")):
        return None
    return Operand(place.base.name, steps.get(side, 0), steps.get(along, 0), steps.get("", 0))
