"""What `on fill` and `on order` are about: one record of std's engine for each run of the handler.

on fill:   fill.price, fill.qty, fill.fee
on order:  order.state, order.reason, order.qty, order.id
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quantdsl.check.bindings import Binding, EnumBinding, Local
from quantdsl.check.equations import THIS
from quantdsl.check.market import ENGINE
from quantdsl.check.types import INT, money, price, qty
from quantdsl.check.values import Value
from quantdsl.events.codes import Kind
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.context import Context
    from quantdsl.check.strategy import Strategy

STATES = ("filled", "rejected", "cancelled")
KINDS = (Kind.FILL, Kind.REJECT, Kind.CANCEL)
"""The kind of record behind each state, in the same order."""

STATE_ENUM = "order.state"
INDEX = ops.Var("p.news")
"""Parameter of the handler: which of the engine's news it is about."""

NEWS = ops.Elem(ops.Field(ENGINE, "news"), INDEX)
COUNTED = ("qty", "price")
"""Parts that count lots or ticks, which are those of one instrument."""


def _bits(shift: int, mask: int) -> ops.Expr:
    head = ops.Field(NEWS, "head")
    return ops.Binary("iand", ops.Binary("lshr", head, ops.i64(shift)), ops.i64(mask))


class News(Binding):
    """`fill` or `order` inside its handler."""

    has_members = True

    def __init__(self, strategy: "Strategy", cx: "Context", what: str) -> None:
        self.strategy = strategy
        self.cx = cx
        self.what = f"the news of '{what}'"  # type: ignore[misc]
        self.parts = self._fill() if what == "fill" else self._order()

    def member(self, name: str) -> Local | None:
        """A part of the news."""
        value = self.parts.get(name)
        return Local(value, used=True) if value is not None else None

    def members(self) -> list[str]:
        """What may follow the dot."""
        return list(self.parts)

    def attr(self, cx: "Context", node: ast.Attr) -> Value:
        """As in a binding; what counts lots or ticks, of one instrument."""
        if node.name in COUNTED and node.name in self.parts and not self._of_one():
            return cx.error(
                "QD0307",
                f"{node.name} of which instrument? There are several here",
                node.span,
                help="what is held of each is its position: y.position",
            )
        return super().attr(cx, node)

    def _of_one(self) -> bool:
        return self.strategy.universe is not None or len(self.strategy.instruments) < 2

    def _counted(self, value: Value) -> Value:
        value.unit = self.cx.units.of(self.cx, value) if self._of_one() else None
        return value

    def _amounts(self) -> dict[str, Value]:
        return {"qty": self._counted(Value(qty(""), ops.Field(NEWS, "b")))}

    def _fill(self) -> dict[str, Value]:
        ticks = self._counted(Value(price(""), ops.Field(NEWS, "c")))
        fee = Value(money(), ops.Field(NEWS, "d"), unit=self.cx.units.money(self.cx))
        return {**self._amounts(), "price": ticks, "fee": fee}

    def _order(self) -> dict[str, Value]:
        states = self.strategy.library.enums.setdefault(STATE_ENUM, EnumBinding(STATE_ENUM, STATES))
        reasons: EnumBinding = self.strategy.library.namespace("risk").names["Reason"]
        kind = _bits(32, 255)
        state: ops.Expr = ops.i64(0)
        for number, code in enumerate(KINDS[1:], start=1):
            here = ops.Binary("ieq", kind, ops.i64(code))
            state = ops.Select(here, ops.i64(number), state)
        # The flags of a fill say who made it; those of the others are the reason.
        filled = ops.Binary("ieq", kind, ops.i64(Kind.FILL))
        reason = ops.Select(filled, ops.i64(0), _bits(48, 0xFFFF))
        return {
            **self._amounts(),
            "state": Value(states.type, state),
            "reason": Value(reasons.type, reason),
            "id": Value(INT, ops.Field(NEWS, "a")),
        }


def handler_loop(
    strategy: "Strategy", func: str, event: str, needs: Sequence[ops.Expr] = ()
) -> ops.Stmt:
    """Run the handler for each of the news it is about, oldest first; on a universe for THIS, whose
    news it is, if all that it `needs` of it is there."""
    at = ops.Var(f"news.{func}")
    head = ops.Field(ops.Elem(ops.Field(ENGINE, "news"), at), "head")
    kind = ops.Binary("iand", ops.Binary("lshr", head, ops.i64(32)), ops.i64(255))
    call: ops.Stmt = ops.Do(ops.Call(func, (ops.Var("s"), at)))
    if strategy.universe is not None:
        whose = ops.Binary("iand", head, ops.i64(0xFFFFFFFF))
        call = ops.Do(ops.Call(func, (ops.Var("s"), THIS, at)))
        for need in needs:
            call = ops.If(need, (call,))
    if event == "fill":
        call = ops.If(ops.Binary("ieq", kind, ops.i64(Kind.FILL)), (call,))
    turn: tuple[ops.Stmt, ...] = (call,)
    if strategy.universe is not None:
        turn = (ops.Let(THIS.name, ops.I64_T, whose), call)
    size = ops.SizeOf(ops.SizeName("N_NEWS"))
    count = ops.Binary("imin", ops.Field(ENGINE, "news_count"), size)
    return ops.For(at.name, ops.i64(0), count, turn)
