"""Prices and distances between prices: what a formula makes of them, where its text tells.

Both are floats, so that `stop_loss = 2 * atr` for `stop_loss = close - 2 * atr` has the right type:
a stop far below every price, which never wakes.
"""

from enum import Enum
from typing import TYPE_CHECKING

from quantdsl.check.literals import FRACTION, signed
from quantdsl.check.nodes import Declaration, declared
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.context import Context


class Kind(Enum):
    """What a formula is, where that is sure."""

    LEVEL = "a price"
    DISTANCE = "a distance"
    PART = "a part of a price"
    NUMBER = "a number"


LEVELS = frozenset({"open", "high", "low", "close", "hl2", "hlc3", "ohlc4", "entry_price"})
RANGES = frozenset({"ta.atr", "ta.tr", "ta.trange", "ta.adr"})
MEANS = frozenset(
    f"ta.{name}"
    for name in (
        *("sma", "ema", "rma", "wma", "hma", "dema", "tema", "kama", "vwma", "median", "highest"),
        *("lowest", "linreg"),
    )
) | {"ts.mean", "ts.median", "ts.ewm_mean", "ts.max", "ts.min"}
SPREADS = frozenset(
    {"ts.std", "ta.stdev", "ta.dev", "ta.range", "ta.mom", "ta.change", "ts.delta", "ts.ewm_std"}
)
SAME = frozenset({"abs", "max", "min", "float", "snap"})
NEAR = (0.5, 2.0)  # a price times a number between them is a price again
DEPTH = 32  # names that stand for formulas of names, at most


def kind_of(cx: "Context", node: ast.Expr, depth: int = DEPTH) -> Kind | None:
    """What the formula is; None where its text does not tell."""
    if depth == 0:
        return None
    if isinstance(node, ast.Num):
        return Kind.NUMBER if node.unit is None or node.unit in FRACTION else None
    if isinstance(node, ast.Name):
        return Kind.LEVEL if node.id in LEVELS else _named(cx, node.id, depth)
    if isinstance(node, ast.Attr):
        return Kind.LEVEL if node.name in LEVELS | {"price"} else None
    if isinstance(node, ast.Index):
        return kind_of(cx, node.value, depth)
    if isinstance(node, ast.Call):
        return _call(cx, node, depth)
    if isinstance(node, ast.Cond):
        return _agreed({kind_of(cx, one, depth) for one in (node.then, node.otherwise)})
    return _binary(cx, node, depth) if isinstance(node, ast.Binary) else None


def _agreed(kinds: set[Kind | None]) -> Kind | None:
    return next(iter(kinds)) if len(kinds) == 1 else None


def _named(cx: "Context", name: str, depth: int) -> Kind | None:
    """Of the one 'let' of that name what it is, of a param a number."""
    found = _declared(cx, name)
    if isinstance(found, ast.ParamDecl):
        return Kind.NUMBER if _bare(found.default) else None
    return kind_of(cx, found.value, depth - 1) if isinstance(found, ast.Let) else None


def _bare(node: ast.Expr) -> bool:
    """Whether this is a number without a unit."""
    written = signed(node)
    return written is not None and not written[1]


def _call(cx: "Context", node: ast.Call, depth: int) -> Kind | None:
    name = cx.module.source.text[slice(*node.func.span)]
    if name in RANGES:
        return Kind.DISTANCE
    if not node.args or name not in MEANS | SPREADS | SAME:
        return None
    first = kind_of(cx, node.args[0].value, depth)
    if name in ("max", "min"):
        return _agreed({first, *(kind_of(cx, arg.value, depth) for arg in node.args[1:])})
    if name in SPREADS:
        return Kind.DISTANCE if first is Kind.LEVEL else None
    return first


def beyond_close(cx: "Context", node: ast.Expr) -> int | None:
    """1 where the formula is surely above the last close, -1 where below, as `low - 2 * atr`."""
    found = _formula(cx, node)
    if not isinstance(found, ast.Binary) or found.op not in ("+", "-"):
        return None
    base = _formula(cx, found.left)
    from_ = ("close", "high") if found.op == "+" else ("close", "low")
    if not isinstance(base, ast.Name) or base.id not in from_ or not _positive(cx, found.right):
        return None
    return 1 if found.op == "+" else -1


def _positive(cx: "Context", node: ast.Expr) -> bool:
    """Whether this is surely a distance above zero: ranges, so many times, or an amount."""
    found = _formula(cx, node)
    if isinstance(found, ast.Num):
        return float(found.text) > 0
    if isinstance(found, ast.Call):
        return cx.module.source.text[slice(*found.func.span)] in RANGES
    return (
        isinstance(found, ast.Binary)
        and found.op in ("*", "/")
        and _positive(cx, found.left)
        and _positive(cx, found.right)
    )


def _formula(cx: "Context", node: ast.Expr) -> ast.Expr:
    """What a name of one 'let' or 'param' stands for, of a range its low end; of others the name
    itself."""
    for _ in range(DEPTH):
        found = _declared(cx, node.id) if isinstance(node, ast.Name) else None
        if isinstance(found, ast.Let):
            node = found.value
        elif isinstance(found, ast.ParamDecl) and isinstance(found.domain, ast.Range):
            node = found.domain.low
        else:
            break
    return node


def _declared(cx: "Context", name: str) -> Declaration | None:
    """The one declaration of that name in the strategy."""
    found = declared(cx.strategy.node, name)
    return found[0] if len(found) == 1 else None


def _binary(cx: "Context", node: ast.Binary, depth: int) -> Kind | None:
    left, right = (kind_of(cx, one, depth) for one in (node.left, node.right))
    if left is None or right is None:
        return None
    if node.op in "+-":
        return _sum(node.op, left, right)
    if node.op == "*" and Kind.NUMBER in (left, right):
        scaled, number = (left, node.right) if right is Kind.NUMBER else (right, node.left)
        return _scaled(scaled, number)
    if node.op == "/" and right is Kind.NUMBER and left is not Kind.LEVEL:
        return left
    return None


def _sum(op: str, left: Kind, right: Kind) -> Kind | None:
    if left is right is Kind.PART:
        return None  # 0.5 * high + 0.5 * low is a price again
    if left is right is Kind.LEVEL:
        return Kind.DISTANCE if op == "-" else None
    if left is right:
        return left
    if left is Kind.LEVEL or (right is Kind.LEVEL and op == "+"):
        return Kind.LEVEL
    return None


def _scaled(scaled: Kind, number: ast.Expr) -> Kind | None:
    """A number of distances is one; of prices, where the number is known, a price or a part."""
    if scaled is not Kind.LEVEL:
        return scaled
    written = signed(number)
    if written is None:
        return None
    value = abs(float(written[0] * FRACTION.get(written[1], 1)))
    low, high = NEAR
    return Kind.PART if value < low else Kind.LEVEL if value < high else None
