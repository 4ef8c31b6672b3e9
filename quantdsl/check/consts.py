"""Compile-time constants: an expression of literals, evaluated by the interpreter itself."""

from quantdsl.check.context import Context
from quantdsl.check.types import FLOAT, INT, ir_type
from quantdsl.check.values import TIMELESS, Value
from quantdsl.ir import ops
from quantdsl.ir.link import link
from quantdsl.ir.walk import nodes


def evaluate(cx: Context, value: Value) -> Value:
    """The value folded to a literal; an error where it is not constant."""
    if value.bad or isinstance(value.ir, ops.Const):
        return value
    made = nodes((ops.Return(value.ir),))
    known = not any(isinstance(node, ops.Var) for node in made)  # a param stands in the state
    if not known or value.series is None or value.series.clocks or value.type not in (INT, FLOAT):
        return cx.error("QD0210", "a const is made of literals and other consts", value.span)
    from quantdsl.ir.interp import Interpreter  # here, since it brings numpy to every start

    func = ops.Func("const", (), ir_type(value.type), (ops.Return(value.ir),))
    library = cx.library
    module = link(lambda name: func if name == "const" else library.lookup(name), ["const"], {})
    result = Interpreter(module).call("const")
    if value.type == INT:
        whole = int(result)
        return Value(INT, ops.i64(whole), value.span, whole, whole, series=TIMELESS, const=whole)
    return Value(FLOAT, ops.f64(result), value.span, series=TIMELESS, const=float(result))
