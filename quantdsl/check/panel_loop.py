"""`for i in universe:` - the instruments, one after the other, in a handler that runs once.

Inside it a name of an instrument, such as `close` or an equation, is that of the instrument at
hand, as in `on bar`; `i` says the same where it is clearer: `i.close`, `buy(i, 10 shares)`. A turn
is made for members and for those of which some is held, if all that it reads of them is defined.
"""

from typing import TYPE_CHECKING

from quantdsl.check import naming
from quantdsl.check.context import Context
from quantdsl.check.cross import N
from quantdsl.check.equations import THIS
from quantdsl.check.panel_step import all_true, member_or_held
from quantdsl.check.stmts import body
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy


def each_instrument(strategy: "Strategy", cx: Context, node: ast.For) -> None:
    """The loop; refused where a handler has its instrument already."""
    if not cx.alone:
        cx.error(
            "QD0602",
            "this runs for each instrument already: 'this' is the one at hand",
            node.over.span,
            help="loop over the universe in a handler that runs once, such as 'at 15:45:'",
        )
        return
    outer, cx.reads = cx.reads, {}
    cx.alone = False
    with cx.nested(loop=True) as block:
        cx.facts = frozenset()
        this = strategy.scope.names["this"]
        naming.enter(cx, cx.scope.names, node.name, cx.scope.find(node.name.id), this)
        body(cx, node.body)
    cx.alone = True
    read, cx.reads = cx.reads, outer
    cx.need([(bit, warm) for bit, warm in read.items() if bit < PANEL_SHIFT])
    conditions = member_or_held(strategy)
    for bit, warm in sorted(read.items()):
        if bit >= PANEL_SHIFT:
            ticks = strategy.equations.counter(1 << bit)
            conditions.append(ops.Binary("ige", ticks, warm.count))
    turn = (ops.If(all_true(conditions), tuple(block)),) if conditions else tuple(block)
    cx.emit(ops.For(THIS.name, ops.i64(0), ops.SizeOf(N), turn, cx.line(node)))
