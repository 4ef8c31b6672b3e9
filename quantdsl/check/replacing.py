"""replace("tag", limit = ..., stop = ...): new prices for the working orders with a tag."""

from typing import TYPE_CHECKING

from quantdsl.check import arith
from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context
from quantdsl.check.market import ENGINE, Traded
from quantdsl.check.trading import NOTHING, PRICES
from quantdsl.check.types import VOID, price
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

HELP = 'such as replace("entry", limit = close - 2 ticks)'


class ReplaceTag(Binding):
    """The orders keep their side and size; a price that an order does not have is left alone."""

    what = "an order function"
    builtin = "function"

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Emit the intent, for every instrument."""
        if not self.strategy.acting:
            return cx.error(
                "QD0801", "orders are replaced in handlers", node.span, help="write it in 'on bar:'"
            )
        tag, *prices = node.args
        if not isinstance(tag.value, ast.Str) or not prices:
            return cx.error(
                "QD0802",
                "replace takes the tag of an order and its new prices",
                node.span,
                help=HELP,
            )
        unknown = [arg for arg in prices if arg.name not in PRICES]
        if unknown:
            return cx.error(
                "QD0802", f"replace takes {', '.join(sorted(PRICES))}", unknown[0].span, help=HELP
            )
        self.strategy.uses |= {"USES_TAG", "USES_TRIGGER"}
        for traded in self.strategy.instruments:
            if not self._emit(cx, node, traded, self.strategy.tag(tag.value.value)):
                return error_value(node.span)
        return Value(VOID, NOTHING, node.span)

    def _emit(self, cx: Context, node: ast.Call, traded: Traded, tag: int) -> bool:
        line = cx.line(node)
        verb = self.strategy.enum_value("orders.Verb", "replace")
        make = ops.Call(
            self.strategy.core("orders.intent"), (verb, ops.i64(traded.index), ops.i64(line))
        )
        fields: list[tuple[str, ops.Expr]] = [("tag", ops.i64(tag))]
        unit = cx.units.of(cx, Value(price(traded.name), NOTHING, node.span))
        for arg in node.args[1:]:
            value = arith.plain(cx, cx.expr(arg.value))
            if value.bad or arith.as_float(cx, value).bad:
                return False
            # The side of the orders is known only when it happens, so a float goes to the nearest.
            ticks = (
                value.ir
                if value.type.kind == "price"
                else arith.from_float(cx, value, unit, "rint")
            )
            assert arg.name is not None
            fields.append((arg.name, ticks))
        name = cx.fresh("o")
        cx.emit(ops.Let(name, ops.StructType("orders.Intent"), make, line))
        for field, ir in fields:
            cx.emit(ops.Assign(ops.Field(ops.Var(name), field), ir, line))
        place = ops.Call(self.strategy.core("orders.place"), (ENGINE, ops.Var(name)))
        cx.emit(ops.Do(place, line))
        return True
