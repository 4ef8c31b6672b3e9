"""replace("tag", limit = ..., qty = ...): new prices and sizes of the working orders with a tag."""

from typing import TYPE_CHECKING

from quantdsl.check import arith, percent
from quantdsl.check.arith import an
from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context
from quantdsl.check.legs import stands_alone
from quantdsl.check.market import ENGINE, Traded, among_several, one_of
from quantdsl.check.nodes import inside
from quantdsl.check.trading import NOTHING, ORDERS, PRICES, rounds_up, ticks_of
from quantdsl.check.types import VOID
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

HELP = 'such as replace("entry", limit = close - 2 ticks)'
KEPT = ops.i64(1 << 53)  # orders.NONE: the size stays


def _orders(strategy: "Strategy", tag: str) -> list[tuple[str, ast.Call]]:
    """Verb and call of each order as written that has this tag, wherever it stands."""
    return [
        (node.func.id, node)
        for node in inside(strategy.node)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ORDERS
        and any(
            arg.name == "tag" and isinstance(arg.value, ast.Str) and arg.value.value == tag
            for arg in node.args
        )
    ]


def _of(strategy: "Strategy", call: ast.Call) -> frozenset[str]:
    """Names of the instruments that an order may be for."""
    first = call.args[0].value if call.args else None
    names = frozenset(traded.name for traded in strategy.instruments)
    return names & {first.id} if isinstance(first, ast.Name) and first.id in names else names


class ReplaceTag(Binding):
    """The orders keep their side; what is not named, or what an order does not have, stays.

    A float goes to the passive side of the orders that have the tag; to the nearest price where
    some of them buy and some sell, or where 'target' leaves open which.
    `qty` is the size that is still to fill. The exits of a bracket keep that of their position.
    """

    what = "an order function"
    builtin = "function"

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Emit the intent, for every instrument."""
        if not stands_alone(self.strategy, cx, node):
            return error_value(node.span)
        tag, *changes = node.args or (None,)
        if tag is None or not isinstance(tag.value, ast.Str) or not changes:
            return cx.error(
                "QD0802",
                "replace takes the tag of an order and its new prices or size",
                node.span,
                help=HELP,
            )
        names = PRICES | {"qty"}
        unknown = [arg for arg in changes if arg.name not in names]
        if unknown:
            return cx.error(
                "QD0802", f"replace takes {', '.join(sorted(names))}", unknown[0].span, help=HELP
            )
        if not one_of(cx, node.span):
            return error_value(node.span)
        self.strategy.uses |= {"USES_TAG", "USES_LIMIT", "USES_TRIGGER", "USES_EXITS"}
        number = self.strategy.tag(tag.value.value, tag.value.span)
        tagged = _orders(self.strategy, tag.value.value)
        sides = {ORDERS[verb].buys for verb, _ in tagged}
        buys = sides.pop() if len(sides) == 1 else None
        meant = [_of(self.strategy, order) for _, order in tagged]
        for traded in self.strategy.instruments:
            if meant and not any(traded.name in names for names in meant):
                continue
            with cx.meaning(among_several(self.strategy, traded)):
                if not self._emit(cx, node, traded, number, buys):
                    return error_value(node.span)
        return Value(VOID, NOTHING, node.span)

    def _emit(
        self, cx: Context, node: ast.Call, traded: Traded, tag: int, buys: bool | None
    ) -> bool:
        line = cx.line(node)
        verb = self.strategy.enum_value("orders.Verb", "replace")
        make = ops.Call(
            self.strategy.core("orders.intent"), (verb, traded.ir, ops.i64(line))
        )
        fields: list[tuple[str, ops.Expr]] = [("tag", ops.i64(tag)), ("lots", KEPT)]
        for arg in node.args[1:]:
            assert arg.name is not None
            value = arith.plain(cx, cx.expr(arg.value))
            sized = arg.name == "qty"
            if not sized and percent.no_level(cx, arg.name, value, up=False) is not None:
                return False
            way = "rint" if buys is None else "ceil" if rounds_up(arg.name, buys) else "floor"
            if sized:
                made = self._size(cx, value, traded)
            else:
                made = ticks_of(cx, value, traded, way, "an order with that tag")
            if made is None:
                return False
            fields.append(("lots" if sized else arg.name, made))
        name = cx.fresh("o")
        cx.emit(ops.Let(name, ops.StructType("orders.Intent"), make, line))
        for field, ir in fields:
            cx.emit(ops.Assign(ops.Field(ops.Var(name), field), ir, line))
        place = ops.Call(self.strategy.core("orders.place"), (ENGINE, ops.Var(name)))
        cx.emit(ops.Do(place, line))
        return True

    def _size(self, cx: Context, value: Value, traded: Traded) -> ops.Expr | None:
        """Lots of a quantity; None after an error."""
        if not value.bad and (value.type.kind != "qty" or value.type.of not in ("", traded.name)):
            cx.error(
                "QD0803", f"qty is a quantity, this is {an(value.type)}", value.span, help=HELP
            )
            return None
        return None if value.bad else value.ir
