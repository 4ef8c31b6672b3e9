"""Compile-time constants: an expression of literals, evaluated by the interpreter itself."""

from collections.abc import Sequence

from quantdsl import limits
from quantdsl.check.context import Context
from quantdsl.check.signatures import constant, resolve
from quantdsl.check.types import ERROR, FLOAT, INT, Type, ir_type
from quantdsl.check.values import TIMELESS, Value
from quantdsl.ir import ops
from quantdsl.ir.link import link
from quantdsl.ir.walk import nodes
from quantdsl.lang import ast


def evaluate(cx: Context, value: Value) -> Value:
    """The value folded to a literal; an error where it is not constant."""
    if value.bad or isinstance(value.ir, ops.Const):
        return value
    made = nodes((ops.Return(value.ir),))
    known = not any(isinstance(node, ops.Var) for node in made)  # a param stands in the state
    if not known or value.series is None or value.series.clocks or value.type not in (INT, FLOAT):
        amount = value.type.kind == "money" and known
        return cx.error(
            "QD0210",
            "a const is made of literals and other consts",
            value.span,
            reason="money counts in units of the account, which a run knows" if amount else "",
            help="write 'let' in the strategy in place of 'const'" if amount else "",
        )
    from quantdsl.ir.interp import Interpreter  # here, since it brings numpy to every start

    func = ops.Func("const", (), ir_type(value.type), (ops.Return(value.ir),))
    library = cx.library
    module = link(lambda name: func if name == "const" else library.lookup(name), ["const"], {})
    result = Interpreter(module).call("const")
    if value.type == INT:
        whole = int(result)
        return Value(INT, ops.i64(whole), value.span, whole, whole, series=TIMELESS, const=whole)
    part = value.percent
    return Value(FLOAT, ops.f64(result), value.span, series=TIMELESS, const=result, percent=part)


def array_type(cx: Context, node: ast.Type, count: int, others: Sequence[Type]) -> Type:
    """The type that a const of `count` numbers says; `others` lie in constant memory already."""
    type_ = constant(cx, node) if node.name == "constant" else resolve(cx, node)
    if type_ == ERROR:
        return ERROR
    if type_.kind not in ("array", "constant") or type_.size != count:
        cx.error(
            "QD0603",
            f"{count} numbers are no {type_}",
            node.span,
            help=f"write constant[float, {count}], of several dimensions row after row",
        )
        return ERROR
    apart = [one.size for one in (type_, *others) if one.kind == "constant"]
    total = 8 * sum(size for size in apart if isinstance(size, int))
    if total > limits.CONSTANT_BYTES:
        most = limits.CONSTANT_BYTES
        cx.error(
            "QD0908",
            f"the constants of this file are {total:,} bytes",
            node.span,
            reason=f"at most {most:,} fit: {most.why}",
            help="leave the type away: then it lies in the memory of the device",
        )
        return ERROR
    return type_
