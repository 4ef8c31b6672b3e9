"""`atomic:` blocks, whose legs are sent together or not at all, and where orders may be placed."""

from typing import TYPE_CHECKING

from quantdsl.check.context import Context, executes
from quantdsl.check.market import ENGINE
from quantdsl.check.stmts import body
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy


def in_handler(strategy: "Strategy", cx: Context, node: ast.Call) -> bool:
    """Whether orders may be placed here; reports where they may not."""
    if not strategy.acting:
        where = "move this into a handler, such as 'on bar:'"
        cx.error("QD0801", "orders are placed in handlers", node.span, help=where)
    return strategy.acting


def stands_alone(strategy: "Strategy", cx: Context, node: ast.Call) -> bool:
    """Whether what is no leg may be done here: in a handler, and in no `atomic` block."""
    if not in_handler(strategy, cx, node):
        return False
    if strategy.atomic_group is None:
        return True
    name = node.func.id if isinstance(node.func, ast.Name) else "this"
    cx.error(
        "QD0801",
        f"{name} is no leg of an 'atomic' block",
        node.span,
        reason="its legs are buy, sell, short, cover and target: all are sent, or none",
        help="move it out of the block; as a leg, target(0 shares) closes a position",
    )
    return False


@executes(ast.Atomic)
def _atomic(cx: Context, node: ast.Atomic) -> None:
    strategy = cx.strategy
    if strategy is None or not strategy.acting:
        cx.error("QD0801", "'atomic' groups orders and stands only in handlers", node.span)
        return
    if strategy.atomic_group is not None:
        cx.error("QD0801", "an 'atomic' block cannot stand in another", node.span)
        return
    # Every turn of a loop is a block of its own, so its number is made when it runs: how many
    # intents stand before it, for each leg adds one; and 0 is no block.
    group = cx.fresh("g")
    number = ops.Binary("iadd", ops.Field(ENGINE, "intent_count"), ops.i64(1))
    cx.emit(ops.Let(group, ops.I64_T, number))
    strategy.atomic_group = ops.Var(group)
    body(cx, node.body)
    strategy.atomic_group = None
