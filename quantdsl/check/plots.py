"""`plot(z, "z", color = purple)`: a series drawn into the report."""

from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check import naming
from quantdsl.check.arith import as_float
from quantdsl.check.bindings import unknown
from quantdsl.check.values import Value
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

COLORS = (
    "red",
    "orange",
    "yellow",
    "green",
    "teal",
    "cyan",
    "blue",
    "purple",
    "magenta",
    "pink",
    "brown",
    "black",
    "gray",
    "white",
)
"""Colors of plots, named as in CSS."""


class PlotSpec(Struct):
    """A series drawn into the report."""

    name: str
    color: str
    value: Value


def output(strategy: "Strategy", node: ast.ExprStmt) -> None:
    """A plot, which is all that may stand at the level of a strategy by itself."""
    call = node.value
    if not (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "plot"
        and call.args
    ):
        strategy.cx.error(
            "QD0217",
            "only plot(...) stands here",
            node.span,
            help="statements belong into a handler, such as 'on bar:'",
        )
        return
    cx = strategy.context()
    naming.repeated(cx, call.args)
    value = cx.expr(call.args[0].value)
    if value.bad:
        return
    if value.series is None:
        cx.error("QD0306", "a plot shows a series", call.args[0].span)
        return
    if value.series.panel:
        cx.error(
            "QD0306",
            "a plot shows one series, this is one of each instrument",
            call.args[0].span,
            help="plot a figure of all, such as xs.mean(...) or xs.spread(..., 10%)",
        )
        return
    text = strategy.module.source.text
    name, color = text[slice(*call.args[0].value.span)], ""
    for arg in call.args[1:]:
        if isinstance(arg.value, ast.Str) and arg.name in (None, "name"):
            name = arg.value.value
        elif arg.name == "color" and isinstance(arg.value, ast.Name):
            color = arg.value.id
            if color not in COLORS:
                unknown(cx, color, arg.value.span, list(COLORS), "among the colors")
        else:
            cx.error("QD0308", "plot takes a series, a name and color =", arg.span)
    kept = as_float(cx, strategy.equations.keep(cx, value))
    strategy.plots.append(PlotSpec(name, color, kept))
