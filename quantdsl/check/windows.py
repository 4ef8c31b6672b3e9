"""`window[T, N]`: the last N values of a series, newest first, as a kernel sees them.

It is the ring that the equations keep of the series, and the number of its ticks: nothing is
copied. The ring's length is a power of two from N on, so that a read takes a mask and no branch.
"""

from quantdsl.check import single, sizes
from quantdsl.check.bindings import unknown
from quantdsl.check.context import Context
from quantdsl.check.types import INT, Type, stored
from quantdsl.check.values import TIMELESS, Value
from quantdsl.ir import ops
from quantdsl.lang import ast

AT = "at"


def ring_size(param: str) -> str:
    """The name of the size that a kernel has for the ring behind a window."""
    return f"ring.{param}"


def arriving(param: str, type_: Type, span: ast.Span) -> tuple[list[ops.ParamDecl], Value]:
    """How a window arrives in IR, and the value that it is in the body."""
    assert type_.elem is not None
    name, size = f"p.{param}", ops.SizeName(ring_size(param))
    newest = Value(INT, ops.Var(f"{name}.{AT}"))
    value = Value(type_, ops.Var(name), span, high=size, series=TIMELESS, names={AT: newest})
    decls = [
        ops.ParamDecl(name, ops.ArrayType(stored(type_.elem), size)),
        ops.ParamDecl(f"{name}.{AT}", ops.I64_T),
    ]
    return decls, value


def read(cx: Context, window: Value, index: Value, node: ast.Index) -> Value:
    """`r[k]`: the value of k ticks ago; k must be proven to lie in the window."""
    elem, length = window.type.elem, window.type.size
    assert elem is not None
    assert isinstance(length, int)
    assert window.high is not None
    last = ops.Binary("isub", ops.i64(length - 1), index.ir)
    above = index.low is not None and index.low >= 0
    below = index.high is not None and sizes.at_most(sizes.add(index.high, 1), length)
    if not (above or cx.ranges.never_negative(index.ir)) or not (
        below or cx.ranges.never_negative(last)
    ):
        return cx.error(
            "QD0601",
            f"this index is not proven to lie in the window, 0 .. {length - 1}",
            node.index.span,
            help=f"[0] is now and [{length - 1}] the oldest value"
            if index.const is not None
            else f"take clamp(k, 0, {length - 1}); in a loop go to min(n, r.len), or as much "
            "shorter as what is added to its counter",
        )
    mask = ops.SizeOf(sizes.sub(window.high, 1))
    slot = ops.Binary("iand", ops.Binary("isub", window.names[AT].ir, index.ir), mask)
    value = Value(elem, ops.Elem(window.place, slot), node.span)
    # The ring holds rounded values; said again, a target may load and compute in 32 bits.
    return single.rounded(Value(Type("float"), value.ir, node.span)) if single.is_f32(value) else (
        value
    )


def member(cx: Context, window: Value, node: ast.Attr) -> Value:
    """`r.len`."""
    length = window.type.size
    assert isinstance(length, int)
    if node.name != "len":
        return unknown(cx, node.name, node.name_span, ["len"], "in a window")
    return Value(INT, ops.i64(length), low=length, high=length, const=length, series=TIMELESS)
