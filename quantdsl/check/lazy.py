"""The name of an equation of a strategy."""

from typing import TYPE_CHECKING

from quantdsl.check.bindings import Binding
from quantdsl.check.values import Value
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.context import Context
    from quantdsl.check.strategy import Strategy


class Lazy(Binding):
    """A strategy-level let: elaborated as an equation when first named."""

    what = "an equation"

    def __init__(self, strategy: "Strategy", node: ast.Let) -> None:
        self.strategy = strategy
        self.node = node
        self.value: Value | None = None
        self.used = False
        self.busy = False

    def read(self, cx: "Context", node: ast.Expr) -> Value:
        """The equation's value."""
        self.used = True
        value = self.get()
        return Value(
            value.type,
            value.ir,
            node.span,
            value.low,
            value.high,
            value.unit,
            value.series,
            value.const,
            names=value.names,
            percent=value.percent,
        )

    def series(self) -> Value:
        """The value at the instant of its inputs."""
        return self.get()

    def get(self) -> Value:
        """Elaborate once; a definition by itself is an error."""
        if self.value is None:
            if self.busy:
                return self.strategy.cx.error(
                    "QD0211",
                    f"{self.node.name.id!r} is defined by itself",
                    self.node.name.span,
                    help="look back with [1], or keep a 'state' in 'on bar'",
                )
            self.busy = True
            self.value = self.strategy.equation(self.node)
        return self.value
