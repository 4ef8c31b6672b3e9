"""What contradicts itself in one order: found where the contradiction is constant."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quantdsl.check import arith, levels
from quantdsl.check.context import Context
from quantdsl.check.literals import LOTS, UNITS_OF_QTY, signed
from quantdsl.check.nodes import declared, inside
from quantdsl.check.proofs import linear
from quantdsl.check.types import FLOAT
from quantdsl.check.values import Value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

IMMEDIATE = frozenset({"ioc", "fok"})
ENTRIES = frozenset({"buy", "short"})
OPPOSITE = {"buy": "short or sell", "short": "buy or cover", "sell": "buy", "cover": "short"}
"""Which orders go the way that a size below zero would mean."""
BELOW, ABOVE = -1, 1


class Written(Struct):
    """An order as written: its prices, its words, and where each stands."""

    verb: str
    node: ast.Call
    prices: dict[str, Value] = field(default_factory=dict)
    args: dict[str, ast.Arg] = field(default_factory=dict)


def check(cx: Context, order: Written, last: Value | None) -> None:
    """Report prices on the wrong side and words that exclude each other.

    `last` is the instrument's last close, what a market order is compared with, or None.
    """
    _post_only(cx, order)
    _sizes(cx, order)
    _levels(cx, order)
    if order.verb not in ENTRIES:
        return
    buys = order.verb == "buy"
    entry = order.prices.get("limit") or order.prices.get("stop") or last
    sides = {"stop_loss": BELOW, "take_profit": ABOVE}
    for name, right in sides.items():
        _beside(
            cx,
            order,
            name,
            entry,
            right if buys else -right,
            f"a {'long' if buys else 'short'} is stopped out"
            if name == "stop_loss"
            else f"a {'long' if buys else 'short'} takes its profit",
        )
    if "stop" in order.prices and "limit" not in order.prices:
        _beside(cx, order, "stop", last, ABOVE if buys else BELOW, f"a stop to {order.verb} waits")


def _levels(cx: Context, order: Written) -> None:
    """Warn of a distance where a price is asked for, and of a price for the distance of a trail."""
    for name, arg in order.args.items():
        if name not in order.prices and name != "trail":
            continue
        kind = levels.kind_of(cx, arg.value)
        level = kind is levels.Kind.LEVEL
        if level != (name == "trail") or kind in (None, levels.Kind.NUMBER):
            continue
        text = cx.module.source.text[slice(*arg.value.span)]
        cx.warn(
            "QD0818",
            f"{name} is a {'distance' if name == 'trail' else 'price'}, this is {kind.value}",
            arg.value.span,
            help=f"such as trail = 3 * ta.atr(14); a price is given by {_stop(order)} = {text}"
            if name == "trail"
            else f"such as {name} = close {_way(order, name)} ({text})",
        )


def _stop(order: Written) -> str:
    """What an order calls the price at which it stops out."""
    return "stop_loss" if order.verb in ENTRIES else "stop"


def _way(order: Written, name: str) -> str:
    """On which side of the close such a price lies."""
    if order.verb == "target":
        return "+ or -"
    above = name in ("take_profit", "stop")
    return "+" if above == (order.verb in ("buy", "cover")) else "-"


def _beside(
    cx: Context, order: Written, name: str, entry: Value | None, right: int, does: str
) -> None:
    price = order.prices.get(name)
    if price is None or entry is None:
        return
    at_market = entry.span == (0, 0)
    side = compare(cx, price, entry)
    if side is None and at_market:
        side = levels.beyond_close(cx, order.args[name].value)
    if side is None or side == right:
        return
    where = {ABOVE: "above", BELOW: "below"}
    what = "the last close" if at_market else "its entry"
    labels = () if at_market else (Label(entry.span, "the entry"),)
    cx.warn(
        "QD0808",
        f"'{name} =' is on the wrong side",
        price.span,
        labels=labels,
        reason=f"{does} {where[right]} {what}; there it acts at once",
        help=f"put it {where[right]} {what}"
        + ("; what limits the loss is stop_loss" if name == "stop" else ""),
    )


def _post_only(cx: Context, order: Written) -> None:
    flag, tif = order.args.get("post_only"), order.args.get("tif")
    if flag is None or not isinstance(flag.value, ast.Bool) or not flag.value.value:
        return
    word = tif.value.id if tif is not None and isinstance(tif.value, ast.Name) else ""
    if word in IMMEDIATE and tif is not None:
        cx.error(
            "QD0809",
            f"post_only and tif = {word} exclude each other",
            tif.span,
            labels=(Label(flag.span, "only ever rests"),),
            reason=f"{word} never rests, post_only never trades at once: this never fills",
            help="leave one of them out",
        )
    elif not {"limit", "touch"} & set(order.args):
        cx.error(
            "QD0809",
            "post_only needs a limit",
            flag.span,
            reason="an order without a limit trades at once and never rests",
            help="add limit =, or leave post_only out",
        )


def _sizes(cx: Context, order: Written) -> None:
    """A size below zero, where the verb says which way, and an iceberg that shows nothing."""
    size = order.args.get("qty", order.args.get("value"))
    asked = None if size is None else signed(size.value)
    if size is not None and asked is not None and asked[0] < 0 and order.verb in OPPOSITE:
        cx.error(
            "QD0815",
            f"{order.verb} takes a size above zero",
            size.value.span,
            reason="the verb says which way an order goes, the size only how far",
            help=f"to go the other way write {OPPOSITE[order.verb]}; target takes a signed size",
        )
    shown = order.args.get("display")
    lots = None if shown is None else signed(shown.value)
    if shown is not None and lots is not None and lots[0] <= 0:
        cx.error(
            "QD0815",
            "an iceberg shows more than nothing",
            shown.value.span,
            reason="what is not shown does not stand in the queue and never fills",
            help="leave display = out to show all of the order",
        )


# ---- where one price lies, seen from another ---------------------------------------------------


def compare(cx: Context, price: Value, entry: Value) -> int | None:
    """ABOVE, BELOW or 0 where `price` differs from `entry` by a constant; else None."""
    if price.type.kind == entry.type.kind == "price":
        terms, constant = linear(ops.Binary("isub", price.ir, entry.ir))
        return None if any(terms.values()) else _sign(constant)
    base, ir = arith.as_float(cx, entry).ir, price.ir
    if price.type != FLOAT or not isinstance(ir, ops.Binary):
        return None
    if ir.op in ("fadd", "fsub") and ir.x == base:
        shift = constant_of(ir.y)
        return None if shift is None else _sign(shift if ir.op == "fadd" else -shift)
    if ir.op == "fadd" and ir.y == base:
        shift = constant_of(ir.x)
        return None if shift is None else _sign(shift)
    if ir.op == "fmul" and base in (ir.x, ir.y):
        factor = constant_of(ir.y if ir.x == base else ir.x)
        return None if factor is None else _sign(factor - 1.0)
    return None


def constant_of(ir: ops.Expr) -> float | None:
    """The value of arithmetic on float literals alone."""
    if isinstance(ir, ops.Const):
        return float(ir.value) if ir.type == ops.F64_T else None
    if isinstance(ir, ops.Unary) and ir.op == "fneg":
        x = constant_of(ir.x)
        return None if x is None else -x
    if not isinstance(ir, ops.Binary) or ir.op not in ("fadd", "fsub", "fmul", "fdiv"):
        return None
    x, y = constant_of(ir.x), constant_of(ir.y)
    if x is None or y is None or (ir.op == "fdiv" and y == 0):
        return None
    return {"fadd": x + y, "fsub": x - y, "fmul": x * y, "fdiv": x / y if y else math.nan}[ir.op]


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


# ---- across the file ---------------------------------------------------------------------------


def amount(node: ast.Expr) -> tuple[Fraction, str] | None:
    """A literal quantity and whether it counts lots or units."""
    if not isinstance(node, ast.Num) or node.unit is None:
        return None
    if node.unit in LOTS:
        return Fraction(node.text), "lots"
    return (Fraction(node.text), "units") if node.unit in UNITS_OF_QTY else None


def across(strategy: "Strategy") -> None:
    """Orders against the risk block, and exits against entries."""
    cx, orders = strategy.cx, strategy.orders
    for limit in ("max_order", "max_position"):
        line = strategy.risk.lines.get(limit)
        most = amount(line.value) if line is not None else None
        for order in orders:
            size = order.args.get("qty")
            asked = amount(size.value) if size is not None else None
            if line is None or most is None or size is None or asked is None:
                continue
            if asked[1] == most[1] and asked[0] > most[0]:
                cx.warn(
                    "QD0810",
                    f"this order is larger than {limit}",
                    size.span,
                    labels=(Label(line.span, "the limit"),),
                    reason="the risk gate refuses it every time",
                    help="make the order smaller or the limit larger",
                )
    verbs = {order.verb for order in orders}
    for order in orders:
        for leave, enter in (("sell", "buy"), ("cover", "short")):
            if order.verb == leave and not verbs & {enter, "target", "quote"}:
                cx.warn(
                    "QD0811",
                    f"this can only {leave} what nothing here can {enter}",
                    order.node.func.span,
                    help="open a short with short(...)"
                    if leave == "sell"
                    else "open a long with buy(...)",
                )
    _exits_while_flat(strategy)


def _exits_while_flat(strategy: "Strategy") -> None:
    """Warn of a sell or a cover in a branch that asks for `flat`: its entry fills later."""
    if declared(strategy.node, "flat"):  # something else
        return
    branches = (
        suite
        for node in inside(strategy.node)
        if isinstance(node, ast.If)
        for cond, suite in node.branches
        if _asks_for_flat(cond)
    )
    flat = {id(node) for suite in branches for node in inside(suite)}
    for order in strategy.orders:
        leaves = order.verb in ("sell", "cover") and "after" not in order.args
        if leaves and id(order.node) in flat:
            strategy.cx.warn(
                "QD0811",
                f"nothing is held here that this could {order.verb}",
                order.node.func.span,
                reason="an order of this handler fills later, so this one is refused",
                help="an exit belongs to its entry: stop_loss = or take_profit =, or give the "
                "entry a tag and this order after =",
            )


def _asks_for_flat(cond: ast.Expr) -> bool:
    """Whether a condition holds only where nothing is held."""
    if isinstance(cond, ast.Binary) and cond.op == "and":
        return _asks_for_flat(cond.left) or _asks_for_flat(cond.right)
    return isinstance(cond, ast.Name) and cond.id == "flat"
