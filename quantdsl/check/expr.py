"""Expressions: from the syntax tree to typed values."""

import operator
from collections.abc import Callable, Sequence

from quantdsl.check import arith, elsewhere, single, sizes, windows
from quantdsl.check.arith import an
from quantdsl.check.bindings import Binding, Indexed, find_name, unknown
from quantdsl.check.context import Context, any_bad, elaborates
from quantdsl.check.literals import is_quantity
from quantdsl.check.naming import repeated
from quantdsl.check.types import BOOL, DIMENSIONED, FLOAT, MISSING, SCALAR
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast


@elaborates(ast.Name)
def _name(cx: Context, node: ast.Name) -> Value:
    binding = find_name(cx, node)
    if binding is None:
        return error_value(node.span)
    value: Value = binding.read(cx, node)
    return value


@elaborates(ast.Attr)
def _attr(cx: Context, node: ast.Attr) -> Value:
    owner = owner_of(cx, node.value)
    if owner is not None:
        return owner.attr(cx, node)
    value = cx.expr(node.value)
    if value.bad:
        return value
    if node.name in value.names:
        return value.names[node.name]
    if value.type.kind == "struct":
        return cx.library.field(cx, value, node)
    if value.type.kind == "ring":
        return cx.library.ring_member(cx, value, node)
    if value.type.kind in DIMENSIONED:
        return cx.library.tensor_member(cx, value, node)
    if value.type.kind == "window":
        return windows.member(cx, value, node)
    if value.type.kind == "duration" and node.name == "seconds":
        return arith.as_float(cx, value)
    return cx.error("QD0205", f"{an(value.type)} has no part named {node.name!r}", node.name_span)


def owner_of(cx: Context, node: ast.Expr) -> Binding | None:
    """The namespace, enum or bars that an expression names, or None where it is a value."""
    if isinstance(node, ast.Name):
        binding = cx.scope.find(node.id)
        return binding if isinstance(binding, Binding) and binding.has_members else None
    if isinstance(node, ast.Attr):
        outer = owner_of(cx, node.value)
        member = outer.member(node.name) if outer is not None else None
        return member if isinstance(member, Binding) else None
    return None


@elaborates(ast.Unary)
def _unary(cx: Context, node: ast.Unary) -> Value:
    value = cx.expr(node.operand)
    if value.bad:
        return value
    if node.op == "not":
        value = truth(cx, value)
        _not_ordered(cx, node, value)
        return Value(BOOL, ops.Unary("not", value.ir), series=value.series)
    return arith.negative(cx, value, node.span) if node.op == "-" else value


ORDERED = {"flt": ">=", "fle": ">", "fgt": "<=", "fge": "<"}


def _not_ordered(cx: Context, node: ast.Unary, value: Value) -> None:
    """`not (x < y)` of floats is also true where one of them is na, which is rarely meant."""
    ir, inner = value.ir, node.operand
    if cx.module.std or not isinstance(ir, ops.Binary) or ir.op not in ORDERED:
        return
    if not isinstance(inner, ast.Compare) or len(inner.operands) != 2:
        return
    text = cx.module.source.text
    x, y = (text[slice(*operand.span)] for operand in inner.operands)
    cx.warn(
        "QD0503",
        "this is also true where a side is na",
        node.span,
        reason="every comparison with na is false, so its negation is true",
        help=f"write {x} {ORDERED[ir.op]} {y}",
        edit=(node.span, f"{x} {ORDERED[ir.op]} {y}"),
    )


def truth(cx: Context, value: Value) -> Value:
    """The value, which must be a bool."""
    if value.bad or value.type == BOOL:
        return value
    return cx.error(
        "QD0301",
        f"a condition must be true or false, this is {an(value.type)}",
        value.span,
        help="compare it with something, such as '> 0'",
    )


@elaborates(ast.Binary)
def _binary(cx: Context, node: ast.Binary) -> Value:
    if node.op in ("and", "or"):
        return _logic(cx, node)
    if node.op == "??":
        return _coalesce(cx, node, cx.expr(node.left))
    sides = (node.left, node.right)
    left, right = _together(cx, sides, lambda number: cx.expr(sides[number]))
    if left.bad or right.bad:
        return error_value(node.span)
    if node.op == "^":
        return power(cx, left, right, node)
    return arith.binary(cx, node.op, left, right, node.span)


def _together(
    cx: Context, nodes: Sequence[ast.Expr], read: Callable[[int], Value]
) -> list[Value]:
    """The values of operands; a bare quantity among them counts lots of the others' instrument."""
    bare = [number for number, node in enumerate(nodes) if is_quantity(node)]
    values = {number: read(number) for number in range(len(nodes)) if number not in bare}
    kinds = ("qty", "price")
    named = [value.type.of for value in values.values() if value.type.kind in kinds]
    with cx.meaning(next((name for name in named if name), "")):
        values |= {number: read(number) for number in bare}
    return [values[number] for number in range(len(nodes))]


def _logic(cx: Context, node: ast.Binary) -> Value:
    left = truth(cx, cx.expr(node.left))
    outer = cx.facts
    cx.facts = outer | facts(left.ir, holds=node.op == "and")
    right = truth(cx, cx.expr(node.right))
    cx.facts = outer
    if left.bad or right.bad:
        return error_value(node.span)
    return Value(BOOL, ops.Binary(node.op, left.ir, right.ir), series=arith.joined((left, right)))


def facts(cond: ops.Expr, *, holds: bool) -> frozenset[ops.Expr]:
    """Which optional values are present when the condition is true (or, not `holds`, false).

    A position among them is not zero: entry_price goes by it.
    """
    if isinstance(cond, ops.Unary) and cond.op == "not":
        return facts(cond.x, holds=not holds)
    if isinstance(cond, ops.Binary) and cond.op == ("and" if holds else "or"):
        return facts(cond.x, holds=holds) | facts(cond.y, holds=holds)
    if not holds and isinstance(cond, ops.Unary) and cond.op == "isnan":
        return frozenset({cond.x})
    if not holds and isinstance(cond, ops.Binary) and cond == ops.Binary("ieq", cond.x, NA):
        return frozenset({cond.x})
    count = _not_zero(cond, holds=holds)
    return frozenset() if count is None else frozenset({count})


NA = ops.i64(MISSING)
COMPARISONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
"""What follows the kind of number in the name of an operation that compares."""


def _not_zero(cond: ops.Expr, *, holds: bool) -> ops.Expr | None:
    """The count that is not zero where a comparison of it with a number comes out so: zero itself
    would make it come out otherwise."""
    if not isinstance(cond, ops.Binary) or not isinstance(cond.y, ops.Const):
        return None
    compare = COMPARISONS.get(cond.op[1:])
    if compare is None or cond.op[0] not in "if":
        return None
    wide = cond.op[0] == "f"
    number = ops.bits_to_f64(cond.y.bits) if wide else cond.y.bits
    return None if compare(0, number) == holds else _counted(cond.x) if wide else cond.x


def _counted(value: ops.Expr) -> ops.Expr | None:
    """The lots or ticks of which a float is made: count * num / den, as arith has it."""
    for scale in ("fdiv", "fmul"):
        if isinstance(value, ops.Binary) and value.op == scale:
            value = value.x
    made = isinstance(value, ops.Unary) and value.op == "i64_to_f64"
    return value.x if made and isinstance(value, ops.Unary) else None


def _coalesce(cx: Context, node: ast.Binary, left: Value) -> Value:
    right = cx.expr(node.right)
    if left.bad or right.bad:
        return error_value(node.span)
    if left.type.kind != "float" and not left.type.optional:
        unused = (node.left.span[1], node.span[1])
        cx.warn(
            "QD0504",
            "the left side is never na, so '??' has no effect",
            node.op_span,
            help="delete it",
            edit=(unused, ""),
        )
        return left
    present = Value(left.type.plain(), left.ir, left.span, unit=left.unit, series=left.series)
    type_ = arith.common_type(cx, present, right, node.span)
    if type_.kind == "error":
        return error_value(node.span)
    x, y = arith.coerce(cx, present, type_), arith.coerce(cx, right, type_)
    return Value(
        type_,
        ops.Select(arith.is_missing(left), y.ir, x.ir),
        unit=x.unit or y.unit,
        series=arith.joined((left, right)),
    )


def power(cx: Context, left: Value, right: Value, node: ast.Binary) -> Value:
    """x ^ y: the square is one multiplication, all else is std's pow."""
    base = arith.as_float(cx, arith.plain(cx, left))
    if right.const == 2 and not base.bad:
        square = Value(FLOAT, ops.Binary("fmul", base.ir, base.ir), series=base.series)
        return single.narrowed((base,), square)
    exponent = arith.as_float(cx, arith.plain(cx, right))
    if base.bad or exponent.bad:
        return error_value(node.span)
    result = cx.library.call_named(cx, "math", "pow", (base, exponent), node.span)
    return single.narrowed((base, right), result)


@elaborates(ast.Compare)
def _compare(cx: Context, node: ast.Compare) -> Value:
    values = _together(cx, node.operands, lambda number: _operand(cx, node, number))
    if any_bad(values):
        return error_value(node.span)
    result: Value | None = None
    for op, left, right in zip(node.ops, values, values[1:], strict=False):
        part = arith.compare(cx, op, left, right, node.span)
        if part.bad:
            return part
        if result is None:
            result = part
        else:
            result = Value(
                BOOL, ops.Binary("and", result.ir, part.ir), series=arith.joined((result, part))
            )
    assert result is not None
    return result


def _operand(cx: Context, node: ast.Compare, number: int) -> Value:
    """An operand; beside an enum, a bare name that means nothing else is one of its members."""
    operand = node.operands[number]
    if not isinstance(operand, ast.Name) or cx.scope.find(operand.id) is not None or number == 0:
        return cx.expr(operand)
    before = cx.expr(node.operands[number - 1])
    member = cx.library.enum(before.type.of).member(operand.id) if _is_enum(before) else None
    return member.read(cx, operand) if member is not None else cx.expr(operand)


def _is_enum(value: Value) -> bool:
    return value.type.kind == "enum"


@elaborates(ast.IsNa)
def _is_na(cx: Context, node: ast.IsNa) -> Value:
    value = cx.expr(node.value)
    if value.bad:
        return value
    if value.type.kind != "float" and not value.type.optional:
        if value.type.kind not in SCALAR | {"group", "na"}:
            what = f"a number is needed here, this is {an(value.type)}"
            return cx.error("QD0301", what, node.value.span)
        cx.warn("QD0504", f"{an(value.type)} is never na", node.value.span)
    ir = arith.is_missing(value)
    return Value(BOOL, ops.Unary("not", ir) if node.negated else ir, series=value.series)


@elaborates(ast.Cond)
def _cond(cx: Context, node: ast.Cond) -> Value:
    cond = truth(cx, cx.expr(node.cond))
    outer = cx.facts
    cx.facts = outer | facts(cond.ir, holds=True)
    then = cx.expr(node.then)
    cx.facts = outer | facts(cond.ir, holds=False)
    otherwise = cx.expr(node.otherwise)
    cx.facts = outer
    return arith.select(cx, cond, then, otherwise, node.span)


@elaborates(ast.Index)
def _index(cx: Context, node: ast.Index) -> Value:
    owner = owner_of(cx, node.value)
    if isinstance(owner, Indexed) and not node.more:
        return owner.at(cx, node)
    value = cx.expr(node.value)
    index = cx.expr(node.index)
    if value.bad or index.bad:
        return error_value(node.span)
    if index.type.kind != "int":
        return cx.error("QD0301", f"an index is an int, this is {an(index.type)}", node.index.span)
    if value.type.kind in DIMENSIONED:
        return cx.library.tensor_read(cx, value, index, node)
    if node.more:
        return cx.error(
            "QD0301",
            f"{an(value.type)} has one index, not {1 + len(node.more)}",
            node.span,
            help="several indices are those of a tensor[T, N, M]",
        )
    if value.type.kind == "array":
        return element(cx, value, index, node)
    if value.type.kind == "ring":
        return cx.library.ring_read(cx, value, index, node)
    if value.type.kind == "window":
        return windows.read(cx, value, index, node)
    if isinstance(index.const, int) and index.const < 0:
        return cx.error(
            "QD0401",
            "this reads the future",
            node.index.span,
            note=f"bar index {index.const} lies after this bar",
            reason="[1] is the previous bar; larger numbers go further back",
            help=f"did you mean [{-index.const}]?",
            edit=(node.index.span, str(-index.const)),
        )
    if cx.home is None:
        return cx.error(
            "QD0402",
            "only a series has history, and a fn sees single values",
            node.span,
            help="make it an indicator, or pass the older value in",
        )
    result: Value = cx.home.history(cx, node, value, index)
    return result


def element(cx: Context, value: Value, index: Value, node: ast.Index) -> Value:
    """An element of an array; the index must be proven in range."""
    assert value.type.elem is not None
    prove_index(cx, index, value.type.size, node.index)
    if value.type.elem.kind == "array":
        return cx.error("QD0608", "an array of arrays is not available yet", node.span)
    return Value(
        value.type.elem,
        ops.Elem(value.place, index.ir),
        unit=value.unit,
        series=arith.joined((value, index)),
        writable=value.writable,
    )


def prove_index(cx: Context, index: Value, size: ops.Size, node: ast.Expr) -> None:
    """Report an index that is not proven to lie in 0 .. size - 1."""
    from_zero = index.low is not None and index.low >= 0
    below_end = index.high is not None and sizes.at_most(sizes.add(index.high, 1), size)
    if below_end and (from_zero or cx.ranges.never_negative(index.ir)):
        return
    n, last = sizes.show(size), sizes.show(sizes.sub(size, 1))
    above = from_zero or cx.ranges.never_negative(index.ir)
    asked = "i >= 0" if below_end else f"i < {n}" if above else f"i >= 0 and i < {n}"
    branch = f"give it a name, i, and write 'if {asked}:', or " if cx.kernel else ""
    ways = "" if below_end else f"a loop over 0..<{n}, 'i mod {n}' or "
    cx.error(
        "QD0601",
        f"this index is not proven to lie in 0 .. {last}",
        node.span,
        note="it may be below 0" if below_end else "",
        help=f"{branch}use {ways}clamp(i, 0, {last})",
    )


@elaborates(ast.Crosses)
def _crosses(cx: Context, node: ast.Crosses) -> Value:
    left, right = cx.expr(node.left), cx.expr(node.right)
    if left.bad or right.bad:
        return error_value(node.span)
    if cx.home is None:
        return cx.error(
            "QD0402",
            "'crosses' compares with the previous bar; a fn sees one bar",
            node.span,
            help="make it an indicator",
        )
    result: Value = cx.home.crosses(cx, node, left, right)
    return result


@elaborates(ast.Pipe)
def _pipe(cx: Context, node: ast.Pipe) -> Value:
    first = ast.Arg(node.value.span, None, node.value)
    if isinstance(node.call, ast.Call):
        call = ast.Call(node.span, node.call.func, (first, *node.call.args))
    else:
        call = ast.Call(node.span, node.call, (first,))
    return cx.expr(call)


@elaborates(ast.Range)
def _range(cx: Context, node: ast.Range) -> Value:
    return cx.error("QD0309", "a range stands only after 'in'", node.span)


@elaborates(ast.Array)
def _array(cx: Context, node: ast.Array) -> Value:
    return cx.error("QD0310", "a list stands only as a const or in a test", node.span)


@elaborates(ast.Call)
def _call(cx: Context, node: ast.Call) -> Value:
    if repeated(cx, node.args):
        return error_value(node.span)
    func = node.func
    if isinstance(func, ast.Name):
        binding = find_name(cx, func)
        return error_value(node.span) if binding is None else binding.call(cx, node)
    if isinstance(func, ast.Attr):
        owner = owner_of(cx, func.value)
        if owner is None:
            value = cx.expr(func.value)
            if value.type.kind == "ring":
                return cx.library.ring_call(cx, value, node)
            return value if value.bad else _method(cx, func)
        member = owner.member(func.name)
        if member is None:
            help = elsewhere.NAMES.get(func.name.lower())
            known = owner.members() if help is None else []
            return unknown(cx, func.name, func.name_span, known, f"in {owner.what}", help)
        return member.call(cx, node)
    return cx.error("QD0203", "this cannot be called", func.span)


def _method(cx: Context, func: ast.Attr) -> Value:
    """The error of `close.shift(1)`: values have no functions of their own."""
    text = cx.module.source.text[slice(*func.value.span)]
    return cx.error(
        "QD0203",
        "this cannot be called",
        func.span,
        help=f"{text}[1] is the value before; functions take a value, as ta.roc({text}, 1)",
    )
