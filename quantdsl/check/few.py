"""How many orders a lane needs room for, read off the text of a strategy.

The core has room for 32 orders and as many intents. Most strategies have one or three of them at
work, and a lane of so few is smaller and its orders are found without a queue. What the text
bounds is how many orders one instant asks for; that no more are at work is likely, not proven:
two limit entries may wait at a time. So a lane that is crowded says so, and runs again with room
for all (backtest/sweep.py): nothing is ever made of what it did.
"""

from quantdsl.check.strategy import Strategy
from quantdsl.ir.ops import Call, For, Func, If, Stmt, While
from quantdsl.ir.walk import nested, roots

MOST = 8
"""Orders that a lane of few has room for; most strategies have fewer at work than they could."""
MANY = MOST + 1
"""Who asks for this many at once, or more, is given all the room there is."""
SENDS = frozenset(
    f"orders.{name}" for name in ("place", "close", "flatten", "cancel_all", "cancel_tag")
) | {"engine.flat_by"}
"""Functions of the core that note one intent."""


def few_orders(strategy: Strategy, uses: frozenset[str]) -> int:
    """Orders that a lane has room for, `uses` included; 0: as many as a single run."""
    used = strategy.uses | uses
    if strategy.universe is not None or len(strategy.instruments) > 1:
        return 0
    if used & {"USES_TICKS", "USES_LINK"}:  # links look for orders that have ended
        return 0
    asked = asked_orders(strategy)
    if asked == 0 or asked >= MANY:
        return 0
    if not used & {"USES_LIMIT", "USES_TRIGGER", "USES_EXITS", "USES_TRAIL", "USES_TIF"}:
        return asked  # they fill at the next open
    orders = 2 * asked * (3 if "USES_EXITS" in used else 1)
    return min(orders, MOST)


def asked_orders(strategy: Strategy) -> int:
    """The most intents that one instant notes; MANY and more: that is not known."""
    funcs = {func.name: func for func in strategy.funcs}
    asked = 0
    for handler in strategy.handlers:
        most = _most(funcs[handler.func].body, funcs)
        asked += MANY if most and handler.event in ("fill", "order") else most
    return asked


def _most(body: tuple[Stmt, ...], funcs: dict[str, Func]) -> int:
    """The most intents that a block notes, on any way through it."""
    total = 0
    for stmt in body:
        total += sum(_called(root.func, funcs) for root in roots(stmt) if isinstance(root, Call))
        inner = [_most(block, funcs) for block in nested(stmt)]
        if isinstance(stmt, For | While):
            total += MANY if any(inner) else 0
        elif isinstance(stmt, If):
            total += max(inner)
    return total


def _called(name: str, funcs: dict[str, Func]) -> int:
    if name in SENDS:
        return 1
    return _most(funcs[name].body, funcs) if name in funcs else 0
