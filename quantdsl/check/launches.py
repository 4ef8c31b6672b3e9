"""What a kernel says of its launch: `@workgroup`, the threads of a block; `@grid`, its blocks."""

import math
from collections.abc import Sequence

from quantdsl import limits
from quantdsl.check.context import Context
from quantdsl.check.thread_base import AXES
from quantdsl.check.types import INT
from quantdsl.check.values import Value
from quantdsl.ir import ops
from quantdsl.lang import ast

GRID_SHAPE = "@grid(ceil(n / 256)), with numbers and sizes, one for each of x, y and z"


def dims_of(notes: Sequence[ast.Annotation]) -> tuple[int, int, int] | None:
    """The threads that @workgroup says along x, y and z; None where it is not there, or odd."""
    for note in notes:
        if note.name != "workgroup":
            continue
        said = [whole(arg) for arg in note.args]
        if not 0 < len(said) <= len(AXES):
            return None
        x, y, z = (*said, 1, 1)[: len(AXES)]
        return None if x is None or y is None or z is None else (x, y, z)
    return None


def whole(arg: ast.Arg) -> int | None:
    """An argument that is a whole number."""
    return None if arg.name is not None else _whole(arg.value)


def _whole(value: ast.Expr) -> int | None:
    if not isinstance(value, ast.Num) or value.unit:
        return None
    return int(value.text) if value.text.isdigit() else None


def grid_of(cx: Context, node: ast.Kernel) -> tuple[Value, ...]:
    """The blocks that @grid says along x, y and z, one where it says nothing; reports odd ones."""
    one = Value(INT, ops.i64(1), low=1, high=1, const=1)
    for note in node.annotations:
        if note.name != "grid":
            continue
        said = [_blocks(cx, arg) for arg in note.args]
        if not 0 < len(said) <= len(AXES) or None in said:
            cx.error("QD0219", "this is no '@grid'", note.span, help=f"write {GRID_SHAPE}")
            break
        found = tuple(value for value in said if value is not None)
        most = math.prod(value.const for value in found if isinstance(value.const, int))
        if most > limits.GRID_BLOCKS:
            cx.error("QD0906", f"this launches {most:,} blocks", note.span,
                     reason=f"a GPU takes {limits.GRID_BLOCKS:,} at most",
                     help="write a smaller @grid, each block going over more elements")  # fmt: skip
        return (*found, one, one)[: len(AXES)]
    return (one, one, one)


def _blocks(cx: Context, arg: ast.Arg) -> Value | None:
    """`8`, `n` or `ceil(n / 256)`: blocks along one axis."""
    node = arg.value
    if arg.name is not None:
        return None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ceil":
        inner = node.args[0].value if len(node.args) == 1 else None
        if not isinstance(inner, ast.Binary) or inner.op != "/":
            return None
        size, share = _size(cx, inner.left), _whole(inner.right)
        if size is None or not share:
            return None
        up = ops.Binary("iadd", size.ir, ops.i64(share - 1))
        if isinstance(size.const, int):
            return _known(-(-size.const // share))
        blocks = ops.Binary("idiv", up, ops.i64(share))
        return Value(INT, blocks, node.span, low=1, high=size.high)
    return _size(cx, node)


def _size(cx: Context, node: ast.Expr) -> Value | None:
    number = _whole(node)
    size = number
    if isinstance(node, ast.Name):
        found = cx.library.size_value(cx, node.id)
        if found is not None and not isinstance(found, int):
            return Value(INT, ops.SizeOf(found), node.span, low=1, high=found)
        size = found
    return _known(size) if isinstance(size, int) else None


def _known(number: int) -> Value | None:
    if not 0 < number < 2**63:
        return None
    return Value(INT, ops.i64(number), low=number, high=number, const=number)
