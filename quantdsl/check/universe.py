"""A universe: many instruments under one strategy, what is known of each, and who takes part.

An equation on a universe is a panel: a value for each instrument, kept in its part of the state
(`State.panel`), stepped with that instrument's own bars. What data do not hold, such as sectors
and membership, are traits: words of an instrument that events of the data change at their time.
"""

from typing import TYPE_CHECKING

from msgspec import Struct, field

from quantdsl.check import arith
from quantdsl.check.bindings import Binding, Local
from quantdsl.check.context import Context
from quantdsl.check.expr import truth
from quantdsl.check.functions import BAR_PRICES
from quantdsl.check.market import BarsBinding
from quantdsl.check.naming import FREE
from quantdsl.check.tick_names import BARS_OF, Absent
from quantdsl.check.types import FLOAT, Type
from quantdsl.check.values import Value
from quantdsl.events.codes import Trait
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

GROUP = Type("group")
"""Which group an instrument is in: a number, below 0 for none."""

GROUPS = {
    "sector": Trait.SECTOR,
    "industry": Trait.INDUSTRY,
    "country": Trait.COUNTRY,
}
TICKED = "ticked"
"""The field of an instrument's part of the state that says which of its clocks tick now."""


class Universe(Struct):
    """`universe ...`: which instruments, and who of them takes part when.

    `symbols` are those that the file lists; without them `name` is looked up in the config.
    `traits` are those that the strategy reads, with where it first does.
    """

    name: str
    symbols: tuple[str, ...]
    span: ast.Span
    point_in_time: bool = False
    most: int = 0  # `max = N`: code is made for so many; 0: for as many as the data have
    filter: ast.Expr | None = None
    chosen: Value | None = None  # what the filter says, once it is elaborated
    choosing: bool = False
    traits: dict[Trait, tuple[ops.Field, ast.Span]] = field(default_factory=dict)
    factor: ops.Field | None = None  # the product of the factors of corporate actions so far
    worth: ops.Field | None = None  # money of one lot moving one tick, where equations ask for it


def declare(strategy: "Strategy", cx: Context, node: ast.Data) -> None:
    """`universe "SP500", point_in_time = true, filter = eligible`, or several symbols."""
    shape = 'universe "SP500", point_in_time = true, filter = eligible'
    names: list[str] = []
    if strategy.universe is not None:
        cx.error("QD0212", "a strategy has one universe", node.span)
        return
    made = Universe("", (), node.span)
    for arg in node.args:
        if arg.name is None and isinstance(arg.value, ast.Str):
            names.append(arg.value.value)
        elif arg.name == "point_in_time" and isinstance(arg.value, ast.Bool):
            made.point_in_time = arg.value.value
        elif arg.name == "filter":
            made.filter = arg.value
        elif arg.name == "max":
            made.most = _most(cx, arg)
        else:
            cx.error(
                "QD0212",
                "a universe is a name or symbols in quotes, then point_in_time, filter and max",
                arg.span,
                help=shape,
            )
    if not names or node.alias is not None:
        # It is one all the same: what reads one is not said to need one.
        cx.error("QD0212", "a universe is named in quotes", node.span, help=shape)
    made.name, made.symbols = (names[0], ()) if len(names) == 1 else ("", tuple(names))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        cx.error("QD0208", f"{twice!r} stands twice in the universe", node.span)
    if 0 < made.most < len(made.symbols):
        listed = f"a universe of at most {made.most}, and {len(names)} are listed"
        cx.error("QD0212", listed, node.span, help=f"write max = {len(names)}, or leave it out")
    strategy.universe = made
    if made.point_in_time:
        trait(strategy, Trait.MEMBER, node.span)


def _most(cx: Context, arg: ast.Arg) -> int:
    """The N of `max = N`; 0 after an error."""
    value = cx.expr(arg.value).const if isinstance(arg.value, ast.Num) else None
    if isinstance(value, int) and value >= 1:
        return value
    cx.error("QD0212", "max is a number of instruments", arg.span, help="such as max = 600")
    return 0


def trait(strategy: "Strategy", which: Trait, span: ast.Span) -> ops.Field:
    """The word of each instrument that holds a trait."""
    universe = strategy.universe
    assert universe is not None
    if which not in universe.traits:
        place = strategy.equations.field("t", ops.I64_T, panel=True)
        universe.traits[which] = (place, span)
    return universe.traits[which][0]


def initial(which: Trait) -> ops.Expr:
    """A trait before the first event that tells of it: no member, in no group."""
    return ops.i64(0 if which in (Trait.MEMBER, Trait.ELIGIBLE) else -1)


def takes_part(strategy: "Strategy", cx: Context) -> list[ops.Expr]:
    """The conditions on which an instrument is in a cross-section, besides having a bar now."""
    universe = strategy.universe
    assert universe is not None
    found: list[ops.Expr] = []
    if universe.point_in_time:
        member = universe.traits[Trait.MEMBER][0]
        found.append(ops.Binary("ieq", member, ops.i64(1)))
    if universe.filter is not None and not universe.choosing:
        if universe.chosen is None:
            universe.choosing = True
            universe.chosen = _filter(strategy, universe.filter)
            universe.choosing = False
        if not universe.chosen.bad:
            found.append(universe.chosen.ir)
    return found


def settle_filter(strategy: "Strategy") -> None:
    """Elaborate a filter that nothing asks, so that its mistakes are seen too, and tell of it."""
    universe = strategy.universe
    if universe is None or universe.filter is None or universe.chosen is not None:
        return
    takes_part(strategy, strategy.context())
    strategy.cx.warn(
        "QD0204",
        "nothing here asks the filter",
        universe.filter.span,
        reason="xs.* and rebalance do; 'on bar' runs for every member",
        help="ask for it in the handler, or leave it out",
    )


def _filter(strategy: "Strategy", node: ast.Expr) -> Value:
    """The filter as an equation; a cross-section inside it is one of all members."""
    cx = strategy.context()
    outer = strategy.acting, strategy.equating
    strategy.acting, strategy.equating = False, True
    value = truth(cx, cx.expr(node))
    strategy.acting, strategy.equating = outer
    if value.bad:
        return value
    if value.series is None or not value.series.panel:
        return cx.error(
            "QD0212",
            "a filter says of each instrument whether it takes part",
            node.span,
            help="such as filter = ts.mean(dollar_volume, 20) > 20_000_000 USD",
        )
    return strategy.equations.keep(cx, value)


# ---- names --------------------------------------------------------------------------------------


def names(strategy: "Strategy") -> dict[str, Binding]:
    """What a strategy on a universe may name beside what every strategy may."""
    of_bars = {"adj": Adjusted(strategy), "dollar_volume": Traded(strategy)}
    return {
        **(of_bars if strategy.clocks else {name: Absent(name, BARS_OF, FREE) for name in of_bars}),
        "eligible": TraitBinding(strategy, Trait.ELIGIBLE),
        **{name: TraitBinding(strategy, which) for name, which in GROUPS.items()},
    }


class TraitBinding(Binding):
    """`sector`, `industry`, `country`: the group; `eligible`: whether it may be traded."""

    what = "a trait of each instrument"
    builtin = FREE

    def __init__(self, strategy: "Strategy", which: Trait) -> None:
        self.strategy = strategy
        self.which = which

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The trait of this instrument, as known at this time."""
        place = trait(self.strategy, self.which, node.span)
        series = BarsBinding(self.strategy, self.strategy.instruments[0], 0).series
        if self.which is Trait.ELIGIBLE:
            yes = ops.Binary("ieq", place, ops.i64(1))
            return Value(Type("bool"), yes, node.span, series=series)
        return Value(GROUP, place, node.span, series=series)


class Traded(Binding):
    """`dollar_volume`: close times volume."""

    what = "a figure of each instrument"
    builtin = FREE

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """As a float, in the currency."""
        bars = BarsBinding(self.strategy, self.strategy.instruments[0], 0)
        close, volume = (_float(cx, bars, name) for name in ("close", "volume"))
        ir = ops.Binary("fmul", close.ir, volume.ir)
        return Value(FLOAT, ir, node.span, series=bars.series)


class Adjusted(Binding):
    """`adj.close`: a raw price times the factors of splits and dividends known so far."""

    what = "adjusted prices"
    has_members = True
    builtin = FREE

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def member(self, name: str) -> "Binding | Local | None":
        """A price, as a float."""
        return _AdjustedPrice(self.strategy, name) if name in BAR_PRICES else None

    def members(self) -> list[str]:
        """The prices."""
        return list(BAR_PRICES)


class _AdjustedPrice(Binding):
    """One of the adjusted prices."""

    what = "an adjusted price"

    def __init__(self, strategy: "Strategy", name: str) -> None:
        self.strategy = strategy
        self.name = name

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """Raw times factor; ratios of it are total returns."""
        strategy = self.strategy
        assert strategy.universe is not None
        if strategy.adjust is None:
            return cx.error(
                "QD0212",
                "adjusted prices are asked for where the bars are declared",
                node.span,
                help="bars 1d, adjust = all",
            )
        bars = BarsBinding(strategy, strategy.instruments[0], 0)
        raw = _float(cx, bars, self.name)
        if strategy.universe.factor is None:
            strategy.universe.factor = strategy.equations.field("f", ops.F64_T, panel=True)
        ir = ops.Binary("fmul", raw.ir, strategy.universe.factor)
        return Value(FLOAT, ir, node.span, series=bars.series)


def _float(cx: Context, bars: BarsBinding, name: str) -> Value:
    found = bars.member(name)
    assert isinstance(found, Local)
    return arith.as_float(cx, found.value)


class NeedsUniverse(Binding):
    """A name that only a strategy on a universe has."""

    what = "of a universe"
    has_members = True

    def __init__(self, text: str, builtin: str) -> None:
        self.text = text
        self.builtin = builtin

    def _error(self, cx: Context, span: ast.Span) -> Value:
        return cx.error(
            "QD0212",
            f"{self.text!r} needs a universe",
            span,
            help='declare one, such as universe "SP500"',
        )

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """An error that says so."""
        return self._error(cx, node.span)

    def member(self, name: str) -> "NeedsUniverse":
        """What is not there has no parts either: the error is the same."""
        return self

    def call(self, cx: Context, node: ast.Call) -> Value:
        """An error that says so."""
        return self._error(cx, node.span)
