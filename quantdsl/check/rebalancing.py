"""`rebalance(weight, via = moc, min_trade = 0.1%)`: a portfolio brought to its weights."""

from typing import TYPE_CHECKING

from quantdsl.check import arith
from quantdsl.check.arith import an
from quantdsl.check.bindings import Binding, unknown
from quantdsl.check.context import Context
from quantdsl.check.cross import N, Scatter, present
from quantdsl.check.equations import THIS
from quantdsl.check.legs import stands_alone
from quantdsl.check.market import ENGINE
from quantdsl.check.panel_step import all_true
from quantdsl.check.shares import PLAIN, share, told_of_factor
from quantdsl.check.types import FLOAT, VOID
from quantdsl.check.universe import takes_part
from quantdsl.check.values import PANEL_SHIFT, Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

VIA = {"market": "any", "moo": "open", "moc": "close"}
SHAPE = "rebalance(weight, via = moc, min_trade = 0.1%, max_turnover = 60%)"


class Rebalance(Binding):
    """rebalance(weight, ...): orders that bring every instrument to its weight of equity."""

    what = "an order function"
    builtin = "function"

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy
        self.plan: ops.Field | None = None

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Hand the newest weights to std/portfolio.qdsl."""
        strategy = self.strategy
        if not stands_alone(strategy, cx, node):
            return error_value(node.span)
        if not cx.alone:
            return cx.error(
                "QD0801",
                "this runs for each instrument, a portfolio is rebalanced once",
                node.span,
                help="use 'at 15:45:', 'at session_close - 5m on month_end:' or 'every 30m:', "
                "outside of a loop over the universe",
            )
        weights, via, shares = None, "market", {"min_trade": 0.0, "max_turnover": float("inf")}
        given: dict[str, ops.Expr] = {k: ops.f64(v) for k, v in shares.items()}
        for number, arg in enumerate(node.args):
            if number == 0 and arg.name in (None, "weight"):
                weights = self._weights(cx, arg)
            elif arg.name == "via":
                via = self._via(cx, arg)
            elif arg.name in given:
                part = share(cx, cx.expr(arg.value), arg, "a share of equity, such as 0.1%")
                if isinstance(part.const, int | float) and part.const < 0:
                    return cx.error("QD0802", f"{arg.name} is below 0", arg.span, help=SHAPE)
                if arg.name == "max_turnover" and part.const == 0:
                    return cx.error("QD0802", "with a max_turnover of 0 nothing is ever traded",
                                    arg.span, help=SHAPE)  # fmt: skip
                told_of_factor(cx, arg.value)
                given[arg.name] = part.ir
            else:
                return cx.error("QD0802", "rebalance does not take this", arg.span, help=SHAPE)
        if weights is None:
            return cx.error("QD0802", "rebalance needs weights", node.span, help=SHAPE)
        if weights.bad:
            return error_value(node.span)
        if via in VIA:
            self._emit(cx, node, weights, via, given)
        return Value(VOID, ops.i64(0), node.span)

    def _weights(self, cx: Context, arg: ast.Arg) -> Value:
        """A panel of floats, one of each instrument."""
        cx.alone = False
        value = cx.expr(arg.value)
        cx.alone = True
        if not value.bad and (value.series is None or not value.series.panel):
            return cx.error(
                "QD0802",
                "a weight is a series of each instrument",
                arg.span,
                reason="a number is none, nor is what a handler computes",
                help="such as let weight = xs.weights(score), beside the handlers",
            )
        if not value.bad and value.type.kind not in PLAIN:
            return cx.error(
                "QD0301",
                f"a weight is a share of equity, and this is {an(value.type)}",
                arg.span,
                help="such as let weight = xs.weights(score)",
            )
        kept = value if value.bad else self.strategy.equations.keep(cx, value)
        if kept.series is not None:  # what stands for the universe is counted by its instants
            for bit, need in kept.series.warm:
                cx.reads.pop(bit, None)
                cx.need([(bit % PANEL_SHIFT, need)])
        return arith.as_float(cx, kept)

    def _via(self, cx: Context, arg: ast.Arg) -> str:
        word = arg.value.id if isinstance(arg.value, ast.Name) else ""
        if word not in VIA:
            unknown(cx, word, arg.value.span, list(VIA), "among the ways to trade")
        return word

    def _wanted(self, cx: Context, weights: Value) -> ops.Expr:
        """Whether an instrument has a weight; a cross-section has none of who takes no part."""
        finite = present(FLOAT, weights.ir)
        equations = self.strategy.equations.all
        if any(isinstance(one, Scatter) and one.place == weights.ir for one in equations):
            return finite
        return all_true([finite, *takes_part(self.strategy, cx)])

    def _emit(
        self, cx: Context, node: ast.Call, weights: Value, via: str, given: dict[str, ops.Expr]
    ) -> None:
        strategy, line = self.strategy, cx.line(node)
        strategy.uses |= {"USES_UNIVERSE"} | ({"USES_TIF"} if via != "market" else set())
        if self.plan is None:
            self.plan = strategy.equations.field("g", ops.StructType("portfolio.Plan"))
        else:
            strategy.uses.add("USES_PLANS")
        column = strategy.equations.field("x", ops.ArrayType(ops.F64_T, N))
        value = ops.Select(self._wanted(cx, weights), weights.ir, arith.NAN)
        fill = ops.Assign(ops.Elem(column, THIS), value, line)
        cx.emit(strategy.loop((fill,)))
        args = (
            ENGINE,
            self.plan,
            column,
            strategy.enum_value("orders.When", VIA[via]),
            given["min_trade"],
            given["max_turnover"],
            ops.i64(line),
        )
        cx.emit(ops.Do(ops.Call(strategy.core("portfolio.rebalance"), args), line))
