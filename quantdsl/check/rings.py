"""`ring[T, N]`: the last N values pushed, newest first.

A ring is a struct of a counter and a buffer whose length is a power of two, so that pushing and
reading take a mask and no branch.
"""

from quantdsl.check import arith, sizes
from quantdsl.check.bindings import unknown
from quantdsl.check.context import Context
from quantdsl.check.expr import prove_index
from quantdsl.check.types import BOOL, INT, VOID, Type, ir_type, ring_name, stored
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

COUNT, ITEMS = "count", "items"
MEMBERS = ("push", "len", "full")


def declare(cx: Context, type_: Type) -> None:
    """Make the struct of a ring of this type known to the library."""
    assert type_.elem is not None
    size = sizes.pow2(type_.size)
    fields = (
        ops.FieldDecl(COUNT, ops.I64_T),
        ops.FieldDecl(ITEMS, ops.ArrayType(ir_type(type_.elem), size)),
    )
    cx.library.define_struct(ops.StructDecl(ring_name(type_), fields))


def _slot(ring: Value, position: ops.Expr) -> ops.Elem:
    mask = ops.SizeOf(sizes.sub(sizes.pow2(ring.type.size), 1))
    return ops.Elem(ops.Field(ring.place, ITEMS), ops.Binary("iand", position, mask))


def length(ring: Value) -> Value:
    """How many values it holds, at most N."""
    count = ops.Field(ring.place, COUNT)
    held = ops.Binary("imin", count, ops.SizeOf(ring.type.size))
    return Value(INT, held, low=0, high=ring.type.size)


def read(cx: Context, ring: Value, index: Value, node: ast.Index) -> Value:
    """`ring[k]`: the k-th newest value; na (0 for a fixed type) where there is none yet."""
    assert ring.type.elem is not None
    prove_index(cx, index, ring.type.size, node.index)
    count = ops.Field(ring.place, COUNT)
    newest = ops.Binary("isub", count, ops.i64(1))
    item = _slot(ring, ops.Binary("isub", newest, index.ir))
    kind = stored(ring.type.elem)
    nothing = arith.NAN if kind == ops.F64_T else ops.Const(kind, 0)
    ir = ops.Select(ops.Binary("ilt", index.ir, length(ring).ir), item, nothing)
    return Value(ring.type.elem, ir, node.span, unit=ring.unit)


def member(cx: Context, ring: Value, node: ast.Attr) -> Value:
    """`ring.len`, `ring.full`."""
    held = length(ring)
    if node.name == "len":
        return held
    if node.name == "full":
        ir = ops.Binary("ieq", held.ir, ops.SizeOf(ring.type.size))
        return Value(BOOL, ir, node.span)
    return unknown(cx, node.name, node.name_span, list(MEMBERS), "in a ring")


def call(cx: Context, ring: Value, node: ast.Call) -> Value:
    """`ring.push(x)`."""
    assert isinstance(node.func, ast.Attr)
    if node.func.name != "push" or len(node.args) != 1:
        return cx.error("QD0308", "a ring has push(x), len, full and [k]", node.span)
    assert ring.type.elem is not None
    value = arith.coerce(cx, cx.expr(node.args[0].value), ring.type.elem)
    if value.bad:
        return error_value(node.span)
    count = ops.Field(ring.place, COUNT)
    line = cx.line(node)
    cx.emit(ops.Assign(_slot(ring, count), value.ir, line))
    cx.emit(ops.Assign(count, ops.Binary("iadd", count, ops.i64(1)), line))
    return Value(VOID, ops.i64(0), node.span)
