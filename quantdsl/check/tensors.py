"""`tensor[T, N, M]`: numbers in rows, of a kernel's own; `a[i, j]` is one of them.

It is an array of N * M elements, row after row. Each index is proven to lie in its own dimension,
so that no product of sizes has to be proven.
"""

from quantdsl import limits
from quantdsl.check import sizes
from quantdsl.check.arith import an, joined
from quantdsl.check.bindings import Local, unknown
from quantdsl.check.context import Context, any_bad
from quantdsl.check.expr import prove_index
from quantdsl.check.types import BOOL, F32, FLOAT, INT, Type
from quantdsl.check.values import TIMELESS, Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label

ELEMENTS = (FLOAT, F32, INT, BOOL)
DIMENSIONS_MAX = 4


def make(kind: str, elem: Type, dims: tuple[ops.Size, ...]) -> Type:
    """The type of a tensor, or of shared memory, of these dimensions."""
    total = dims[0]
    for size in dims[1:]:
        total = sizes.product(total, size)
    return Type(kind, elem=elem, size=total, dims=dims)


def fits(cx: Context, node: ast.Node, type_: Type) -> bool:
    """Whether memory of a size that is known now is within its limit; reports where not."""
    most = limits.SHARED_BYTES if type_.kind == "shared" else limits.KERNEL_BYTES
    if not isinstance(type_.size, int) or 8 * type_.size <= most:
        return True
    cx.error(
        "QD0908",
        f"{type_} is {8 * type_.size:,} bytes",
        node.span,
        reason=f"at most {most:,} fit: {most.why}",
        help="make it smaller, and go over the data in parts",
    )
    return False


def only_read(cx: Context, node: ast.Expr, span: ast.Span) -> bool:
    """Whether this names a tensor of a caller that a kernel may not write to; reports it if so."""
    found = cx.scope.find(node.id) if isinstance(node, ast.Name) else None
    if not isinstance(found, Local) or found.value.type.kind != "tensor" or found.value.writable:
        return False
    assert isinstance(node, ast.Name)
    cx.error(
        "QD0607",
        f"{node.id!r} is only read by this kernel",
        span,
        labels=(Label(found.span, "declared here"),),
        help="write 'inout' before its name there, and the caller's array is changed",
        edit=((found.span[0], found.span[0]), "inout "),
    )
    return True


def element(cx: Context, value: Value, first: Value, node: ast.Index) -> Value:
    """`a[i, j]`: one index for each dimension, each proven to lie in it."""
    type_ = value.type
    assert type_.elem is not None
    nodes = (node.index, *node.more)
    if len(nodes) != len(type_.dims):
        count = len(type_.dims)
        return cx.error(
            "QD0301",
            f"{an(type_)} has {count} ind{'ices' if count > 1 else 'ex'}, not {len(nodes)}",
            node.span,
            help=f"write [{', '.join('ijkl'[:count])}]",
        )
    indices = [first, *(cx.expr(more) for more in node.more)]
    if any_bad(indices):
        return error_value(node.span)
    at: ops.Expr | None = None
    for index, size, part in zip(indices, type_.dims, nodes, strict=True):
        if index.type != INT:
            return cx.error("QD0301", f"an index is an int, this is {an(index.type)}", part.span)
        prove_index(cx, index, size, part)
        at = index.ir if at is None else _below(at, size, index.ir)
    assert at is not None
    elem = type_.elem
    if elem == F32 and not cx.kernel:  # of constant memory, which others read too
        elem = FLOAT
    return Value(
        elem,
        ops.Elem(value.place, at),
        node.span,
        series=joined((value, *indices)),
        writable=value.writable,
    )


def _below(row: ops.Expr, width: ops.Size, column: ops.Expr) -> ops.Expr:
    many = ops.i64(width) if isinstance(width, int) else ops.SizeOf(width)
    return ops.Binary("iadd", ops.Binary("imul", row, many), column)


def member(cx: Context, value: Value, node: ast.Attr) -> Value:
    """`a.len`: the rows, which is the size of the first dimension."""
    if node.name != "len":
        return unknown(cx, node.name, node.name_span, ["len"], f"in a {value.type.kind}")
    rows = value.type.dims[0]
    if isinstance(rows, int):
        return Value(INT, ops.i64(rows), low=rows, high=rows, const=rows, series=TIMELESS)
    return Value(INT, ops.SizeOf(rows), low=1, high=rows, series=TIMELESS)
