"""Numbers written in % or bps are shares of something, and no amount by themselves.

Their type is float, so that `1 - 5%` and `close * 5%` are plain arithmetic. Where an amount stands
they would silently be read as one: `stop_loss = 5%` as a stop at 0.05.
"""

import re
from typing import TYPE_CHECKING

from quantdsl.check.nodes import declared
from quantdsl.check.types import FIXED
from quantdsl.check.values import Value
from quantdsl.lang import ast
from quantdsl.lang.ast import Span

if TYPE_CHECKING:
    from quantdsl.check.context import Context

AMOUNTS = FIXED - {"time", "duration"}
LEVELS = frozenset({"price", "money", "float", "int"})
"""What may stand for a price; anything else is a distance, a size or a time."""
ACCOUNT = frozenset({"equity", "cash"})
_ATOM = re.compile(r"[\d_.]+ ?[a-z%]*|[\w.]+(\[\w+\]|\([\w., ]*\))?")


def kept(op: str, left: Value, right: Value) -> bool:
    """Whether `left op right` is a percentage too: of two of them, or one so many times."""
    if left.percent and right.percent:
        return op in ("+", "-", "*")
    times = left.const if right.percent else right.const
    if not isinstance(times, int | float):
        return False
    return (op == "*" and (left.percent or right.percent)) or (op == "/" and left.percent)


def cannot_join(cx: "Context", op: str, left: Value, right: Value, span: Span) -> Value | None:
    """The error of `close - 5%`, which would be five cents less; None where nothing is wrong."""
    amount, part = (left, right) if right.percent else (right, left)
    if op not in "+-" or not part.percent or amount.type.kind not in AMOUNTS:
        return None
    word, of, share = "added" if op == "+" else "subtracted", _atom(cx, amount), _atom(cx, part)
    written = f"{of} * (1 {op} {share})"
    fits = amount is left
    return cx.error(
        "QD0302",
        f"{_what(amount)} and a percentage cannot be {word}",
        span,
        help=f"write {written}" if fits else f"a percentage of what? Such as {share} of {of}",
        edit=(span, written) if fits else None,
    )


def cannot_compare(cx: "Context", left: Value, right: Value, span: Span) -> Value | None:
    """The error of `open_profit > 5%`, which would be five cents; None where nothing is wrong."""
    amount, part = (left, right) if right.percent else (right, left)
    if not part.percent or amount.type.kind not in AMOUNTS:
        return None
    of = "equity" if amount.type.kind == "money" else "close[1]"
    return cx.error(
        "QD0303",
        f"{_what(amount)} cannot be compared with a percentage",
        span,
        help=f"a percentage of what? Such as {_atom(cx, part)} of {of}",
    )


def no_money(cx: "Context", value: Value) -> Value:
    """The error of `value = 20%`."""
    written = f"{_atom(cx, value)} of equity"
    return cx.error(
        "QD0301",
        "money is needed here, this is a percentage",
        value.span,
        help=f"write {written}",
        edit=(value.span, written),
    )


def no_level(cx: "Context", name: str, value: Value, up: bool) -> Value | None:
    """The error of `stop_loss = 5%` and `stop_loss = 20 ticks`; None where a price may be meant.

    `up` says on which side of the market such a price lies.
    """
    if not value.percent and (value.bad or value.type.kind in LEVELS):
        return None
    text, sign = _atom(cx, value).removeprefix("-"), "+" if up else "-"
    last = "mid" if cx.strategy is not None and cx.strategy.ticks else "close"
    what, level = "a percentage", f"{last} * (1 {sign} {text})"
    if not value.percent:
        what = _what(value)
        level = f"{last} {sign} {text}" if value.type.kind == "ticks" else last
    return cx.error(
        "QD0803",
        f"{name} is a price, this is {what}",
        value.span,
        help=f"such as {name} = {level}",
    )


def no_count(cx: "Context", node: ast.Expr, value: Value) -> Value | None:
    """The error of `floor_qty(50% of equity)`, so many shares; None where nothing is wrong."""
    text = cx.module.source.text[slice(*value.span)]
    if value.percent and isinstance(node, ast.Num):
        what, help = "a percentage", f"a percentage of what? Such as {text} of abs(position)"
    elif value.type.kind == "money" or _of_account(cx, node):
        what, help = "money", f"write value = {text} in the order, or divide by a price: / close"
    else:
        return None
    message = f"floor_qty takes a number of units, this is {what}"
    return cx.error("QD0803", message, value.span, help=help)


def size(cx: "Context", verb: str, node: ast.Expr, value: Value) -> str | None:
    """How an order says the size that a percentage or money means; None where it is neither."""
    text = cx.module.source.text[slice(*value.span)]
    if value.type.kind == "money" or _of_account(cx, node):
        return f"value = {text}"
    if not value.percent:
        return None
    if verb in ("sell", "cover"):
        return f"qty = floor_qty({_atom(cx, value)} of abs(position))"
    return f"value = {_atom(cx, value)} of equity"


def _of_account(cx: "Context", node: ast.Expr) -> bool:
    """Whether this is so much of the account: `equity`, `50% of equity`, `0.95 * equity`."""
    if isinstance(node, ast.Name):
        return node.id in ACCOUNT and not declared(cx.strategy.node, node.id)
    if not isinstance(node, ast.Binary):
        return False
    if node.op == "of":
        return _of_account(cx, node.right)
    left, right = isinstance(node.left, ast.Num), isinstance(node.right, ast.Num)
    return node.op == "*" and (
        (left and _of_account(cx, node.right)) or (right and _of_account(cx, node.left))
    )


def _what(value: Value) -> str:
    from quantdsl.check.arith import an  # which needs this module itself

    return an(value.type)


def _atom(cx: "Context", value: Value) -> str:
    """The text of a value as one operand of a product."""
    text = cx.module.source.text[slice(*value.span)]
    return text if _ATOM.fullmatch(text.removeprefix("-")) else f"({text})"

