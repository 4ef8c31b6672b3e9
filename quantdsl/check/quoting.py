"""quote(bid =, bid_qty =, ask =, ask_qty =): the two-sided target of std/quoting.qdsl."""

from typing import TYPE_CHECKING

from quantdsl.check import arith, consistency, percent
from quantdsl.check.arith import an
from quantdsl.check.bindings import Binding, unknown
from quantdsl.check.context import Context
from quantdsl.check.legs import stands_alone
from quantdsl.check.market import ENGINE, BarsBinding, Traded, among_several, one_of
from quantdsl.check.trading import NOTHING, ticks_of
from quantdsl.check.types import BOOL, VOID
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

SIDES = ("bid", "ask")
NAMED = ("bid", "bid_qty", "ask", "ask_qty", "post_only", "requote_if")
HELP = "quote(bid = mid - 2 ticks, bid_qty = 100 shares, ask = ..., ask_qty = ...)"


class QuoteFunction(Binding):
    """Says what should stand on both sides; what differs from that is sent."""

    what = "an order function"
    builtin = "function"

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Emit the call."""
        if not stands_alone(self.strategy, cx, node):
            return error_value(node.span)
        args = list(node.args)
        traded = self._instrument(cx, args, node)
        if traded is None:
            return error_value(node.span)
        given = {arg.name: arg for arg in args if arg.name is not None}
        if not self._complete(cx, node, args, given):
            return error_value(node.span)
        words: list[ops.Expr] = []
        with cx.meaning(among_several(self.strategy, traded)):
            for side in SIDES:
                words += self._side(cx, given, side, traded)
        flag = given.get("post_only")
        post = arith.coerce(cx, cx.expr(flag.value), BOOL).ir if flag else ops.boolean(False)
        words += [post, self._requote(cx, given.get("requote_if"), traded)]
        line = cx.line(node)
        self.strategy.uses |= {"USES_LIMIT", "USES_TIF"} if flag else {"USES_LIMIT"}
        self.strategy.orders.append(consistency.Written("quote", node))
        core = self.strategy.core("quoting.quote")
        call = ops.Call(core, (ENGINE, traded.ir, *words, ops.i64(line)))
        cx.emit(ops.Do(call, line))
        return Value(VOID, NOTHING, node.span)

    def _instrument(self, cx: Context, args: list[ast.Arg], node: ast.Call) -> Traded | None:
        first = args[0].value if args and args[0].name is None else None
        found = cx.scope.find(first.id) if isinstance(first, ast.Name) else None
        if isinstance(found, BarsBinding):
            args.pop(0)
            return found.instrument
        if not one_of(cx, node.span):
            return None
        if len(self.strategy.instruments) == 1:
            return self.strategy.instruments[0]
        names = ", ".join(traded.name for traded in self.strategy.instruments)
        cx.error(
            "QD0802",
            "which instrument? There are several here",
            node.span,
            help=f"give it first: one of {names}",
        )
        return None

    def _complete(
        self, cx: Context, node: ast.Call, args: list[ast.Arg], given: dict[str, ast.Arg]
    ) -> bool:
        """Whether every argument is known, and each side is a price with a size."""
        for arg in args:
            if arg.name is None:
                cx.error("QD0802", "quote takes its arguments by name", arg.span, help=HELP)
                return False
            if arg.name not in NAMED:
                place = (arg.span[0], arg.span[0] + len(arg.name))
                unknown(cx, arg.name, place, list(NAMED), "in quote")
                return False
        for side in SIDES:
            if (side in given) != (f"{side}_qty" in given):
                cx.error(
                    "QD0802", f"'{side} =' and '{side}_qty =' go together", node.span, help=HELP
                )
                return False
        if not set(SIDES) & set(given):
            cx.error("QD0802", "quote needs a bid, an ask, or both", node.span, help=HELP)
            return False
        return True

    def _side(
        self, cx: Context, given: dict[str, ast.Arg], side: str, traded: Traded
    ) -> tuple[ops.Expr, ops.Expr]:
        """Ticks, snapped away from the market, and lots; nothing of a side that is left out."""
        if side not in given:
            return NOTHING, NOTHING
        rounding = "floor" if side == "bid" else "ceil"
        ticks = self._ticks(cx, given[side], traded, rounding)
        size = arith.plain(cx, cx.expr(given[f"{side}_qty"].value))
        if not size.bad and (size.type.kind != "qty" or size.type.of not in ("", traded.name)):
            cx.error(
                "QD0803",
                f"{side}_qty is a quantity, this is {an(size.type)}",
                given[f"{side}_qty"].value.span,
                help="such as 100 shares, or floor_qty(x) of a number",
            )
        return ticks, size.ir

    def _ticks(self, cx: Context, arg: ast.Arg, traded: Traded, rounding: str) -> ops.Expr:
        value = arith.plain(cx, cx.expr(arg.value))
        side = arg.name or ""
        if value.bad or percent.no_level(cx, side, value, up=side == "ask") is not None:
            return NOTHING
        ticks = ticks_of(cx, value, traded, rounding, "the quote")
        return NOTHING if ticks is None else ticks

    def _requote(self, cx: Context, arg: ast.Arg | None, traded: Traded) -> ops.Expr:
        """By how much a price must differ before it is sent: ticks, or a distance in price."""
        if arg is None:
            return NOTHING
        value = arith.plain(cx, cx.expr(arg.value))
        if value.type.kind == "ticks":
            return value.ir
        if value.percent:
            what = "requote_if is a distance, this is a percentage"
            cx.error("QD0803", what, arg.value.span, help="such as requote_if = 2 ticks")
            return NOTHING
        return self._ticks(cx, arg, traded, "rint")
