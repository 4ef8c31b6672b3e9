"""What a test of a strategy on a universe feeds and gives, and the names of its expectations.

`feed UP = [10, 11], DOWN = [10, 9]` makes a universe of two, in this order, and `UP.weight` is what
`weight` is for the first. `feed close = [...]` makes a universe of one, which every name is about.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quantdsl.check.bindings import Binding, Local
from quantdsl.check.context import Context
from quantdsl.check.equations import THIS
from quantdsl.check.params import literal
from quantdsl.check.universe import GROUPS
from quantdsl.check.values import Value
from quantdsl.events.codes import Trait
from quantdsl.ir import ops
from quantdsl.ir.walk import rebuild_expr, rebuild_stmt
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

TRAITS = {"member": Trait.MEMBER, "eligible": Trait.ELIGIBLE, **GROUPS}
NO_BAR = Fraction(0)
"""Stands for `na` in a feed."""
SHAPE = "feed UP = [10, 11, 12], DOWN = [10, 9, 8]"


class PanelFeed(Struct):
    """Closes by the names of instruments, in order; NO_BAR where there is none. Traits are a value
    of each instrument."""

    closes: dict[str, list[Fraction]] = field(default_factory=dict)
    traits: dict[Trait, list[int]] = field(default_factory=dict)

    def hold(self, cx: Context, name: str, node: ast.Node) -> None:
        """Report a trait that is not given of every instrument."""
        for which, values in self.traits.items():
            if self.closes and len(values) != len(self.closes):
                word = next(one for one, trait in TRAITS.items() if trait == which)
                cx.error(
                    "QD0215",
                    f"the test {name!r} feeds {len(self.closes)} instruments and gives the "
                    f"{word} of {len(values)}",
                    node.span,
                )


class OfInstrument(Binding):
    """An instrument of the test, or a part of one that has parts: whatever the strategy knows."""

    what = "an instrument of the test"
    has_members = True

    def __init__(self, strategy: "Strategy", index: int, part: "Binding | None" = None) -> None:
        self.strategy = strategy
        self.index = index
        self.part = part

    def member(self, name: str) -> "Binding | None":
        """What the strategy has of that name, for this instrument."""
        scope = self.strategy.scope
        found = scope.find(name) if self.part is None else self.part.member(name)
        if isinstance(found, Binding) and found.has_members:
            return OfInstrument(self.strategy, self.index, found)
        return None if found is None else _Read(found, self.index)

    def members(self) -> list[str]:
        """What may follow the dot."""
        return list(self.strategy.scope.visible()) if self.part is None else self.part.members()

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """A part with a value of its own, such as a signal."""
        if self.part is None:
            return super().read(cx, node)
        return _Read(self.part, self.index).read(cx, node)


class _Read(Binding):
    """A name of the strategy, read for one instrument."""

    what = "a figure of an instrument of the test"

    def __init__(self, of: Binding | Local, index: int) -> None:
        self.of = of
        self.index = index

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The value; it is no series, so an expectation looks at the last instant alone."""
        outer, alone = cx.block, cx.alone
        cx.block, cx.alone = [], False
        value = self.of.read(cx, node)
        made, cx.block, cx.alone = cx.block, outer, alone
        cx.block += [_for(self.index)[1](stmt) for stmt in made]
        return Value(value.type, _for(self.index)[0](value.ir), node.span, value.low, value.high)


def _for(index: int) -> tuple[Callable[[ops.Expr], ops.Expr], Callable[[ops.Stmt], ops.Stmt]]:
    """What puts the number of an instrument in place of THIS."""

    def expr(node: ops.Expr) -> ops.Expr:
        return ops.i64(index) if node == THIS else rebuild_expr(node, expr)

    def stmt(node: ops.Stmt) -> ops.Stmt:
        return rebuild_stmt(node, expr, stmt)

    return expr, stmt


def closes(
    strategy: "Strategy", cx: Context, into: PanelFeed, name: ast.Ident, values: list[Fraction]
) -> None:
    """Enter an instrument with its closes."""
    cx.scope.names[name.id] = OfInstrument(strategy, len(into.closes))
    into.closes[name.id] = values


def given(cx: Context, into: PanelFeed, binding: ast.Binding) -> None:
    """`given sector = [0, 0, 1]`: a whole number of each instrument in the order of the feed."""
    items = binding.value.items if isinstance(binding.value, ast.Array) else ()
    found = [literal(cx, item) for item in items]
    if not found or any(one is None or one[0].denominator != 1 or one[1] for one in found):
        cx.error(
            "QD0215",
            f"{binding.name.id!r} is given as a list of whole numbers, one of each instrument",
            binding.value.span,
            help=f"given {binding.name.id} = [0, 0, 1, 1]",
        )
        return
    into.traits[TRAITS[binding.name.id]] = [int(one[0]) for one in found if one is not None]
