"""The test blocks of a file: what to set, what to feed, and what to expect, as IR."""

from collections.abc import Container
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quantdsl.check import panel_cases, tick_cases
from quantdsl.check.bindings import Binding, Local, unknown
from quantdsl.check.context import Context, Scope
from quantdsl.check.equations import THIS
from quantdsl.check.expr import truth
from quantdsl.check.market import ENGINE
from quantdsl.check.panel_cases import PanelFeed
from quantdsl.check.params import literal
from quantdsl.check.tick_cases import TickFeed
from quantdsl.check.types import INT
from quantdsl.check.values import Value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

FEEDS = ("close", "open", "high", "low", "volume", "range")
GIVEN = ("position", "equity", "cash")


class Expectation(Struct, frozen=True):
    """A condition as an entry function of the state that returns a bool."""

    func: str
    text: str
    line: int


class Case(Struct):
    """One test block. Prices are exact decimals; `given` is an entry function or empty."""

    name: str
    line: int
    sets: dict[str, str] = field(default_factory=dict)
    feeds: dict[str, list[Fraction]] = field(default_factory=dict)
    range: Fraction = Fraction(0)
    ticks: TickFeed = field(default_factory=TickFeed)
    panel: PanelFeed = field(default_factory=PanelFeed)
    cash: Fraction | None = None
    given: str = ""
    expectations: list[Expectation] = field(default_factory=list)

    @property
    def instruments(self) -> int:
        """How many a strategy on a universe has in this test."""
        return max(len(self.panel.closes), 1)

    @property
    def entries(self) -> tuple[str, ...]:
        """Its functions."""
        given = [self.given] if self.given else []
        return (*given, *(e.func for e in self.expectations))


class Counts(Binding):
    """`orders.count`, `fills.count`, `trades.count` in an expectation."""

    what = "a list of the run"
    has_members = True

    def __init__(self, strategy: "Strategy", accessor: str) -> None:
        self.strategy = strategy
        self.accessor = accessor

    def member(self, name: str) -> Local | None:
        """Its length."""
        if name != "count":
            return None
        ir = ops.Call(self.strategy.core(f"engine.{self.accessor}"), (ENGINE,))
        return Local(Value(INT, ir), used=True)

    def members(self) -> list[str]:
        """What may follow the dot."""
        return ["count"]


def case(strategy: "Strategy", node: ast.Test, number: int) -> Case:
    """A test of a strategy; its conditions become functions of the library."""
    cx = strategy.context()
    cx.scope = Scope(strategy.scope)
    for word, accessor in (
        ("orders", "order_count"),
        ("fills", "fill_count"),
        ("trades", "trade_count"),
    ):
        cx.scope.names[word] = Counts(strategy, accessor)
    made = Case(node.name, strategy.module.source.position(node.span[0]).line)
    cx.alone = strategy.universe is not None
    for step in node.steps:
        if step.kind == "expect" and step.cond is not None:
            func = f"expect.{number}.{len(made.expectations)}"
            _expect(strategy, cx, made, step.cond, func)
            continue
        for binding in step.bindings:
            if step.kind == "set":
                _set(strategy, cx, made, binding)
            elif step.kind == "feed":
                _feed(strategy, cx, made, binding)
            else:
                _given(strategy, cx, made, binding, number)
    made.panel.hold(cx, node.name, node)
    if not any(step.kind == "expect" for step in node.steps):
        cx.warn(
            "QD0220",
            "this test expects nothing",
            node.span,
            help="add a line such as 'expect orders.count == 1'",
        )
    return made


def _set(strategy: "Strategy", cx: Context, made: Case, binding: ast.Binding) -> None:
    """`set n = 3`: a param's value for this test."""
    name = binding.name.id
    known = {param.name: param for param in strategy.params}
    if name not in known:
        declared = strategy.scope.names.get(name)
        if not (isinstance(declared, Local) and declared.value.bad):  # else that is reported
            unknown(cx, name, binding.name.span, list(known), "among the params")
        return
    if _once(cx, binding, made.sets):
        return
    made.sets[name] = strategy.module.source.text[slice(*binding.value.span)]
    if isinstance(binding.value, ast.Num) and known[name].high is not None:
        number, high = Fraction(binding.value.text), known[name].high
        if high is not None and not known[name].choices and number > high:
            cx.error(
                "QD0701",
                f"{made.sets[name]} lies above the range of {name!r}",
                binding.value.span,
                labels=(Label(known[name].span, "declared here"),),
                reason="memory is sized by the upper end of the range",
            )


def _once(cx: Context, binding: ast.Binding, known: Container[str]) -> bool:
    """True after reporting a name that a test gives twice."""
    if binding.name.id in known:
        cx.error("QD0208", f"{binding.name.id!r} is given already", binding.name.span)
        return True
    return False


def _expect(strategy: "Strategy", cx: Context, made: Case, node: ast.Expr, func: str) -> None:
    outer, cx.block = cx.block, []
    strategy.acting = True
    value = truth(cx, cx.expr(node))
    strategy.acting = False
    block, cx.block = cx.block, outer
    if value.bad:
        return
    state = ops.ParamDecl("s", ops.StructType("State"), inout=True)
    # Ticks and lots are the same for all; a test of one instrument is about that one.
    first = [] if strategy.universe is None else [ops.Let(THIS.name, ops.I64_T, ops.i64(0))]
    body = (*first, *block, ops.Return(value.ir))
    strategy.funcs.append(ops.Func(func, (state,), ops.BOOL_T, body))
    position = strategy.module.source.position(node.span[0])
    text = strategy.module.source.text[slice(*node.span)]
    made.expectations.append(Expectation(func, text, position.line))


def _feed(strategy: "Strategy", cx: Context, made: Case, binding: ast.Binding) -> None:
    """`close = [...]` of the only instrument, or `y = [...]`: closes of one of several; of a
    strategy on ticks `mid = [...]`, `trades = [...]` or a flat book; of one on a universe closes of
    an instrument that the feed names."""
    name = binding.name.id
    if strategy.ticks:
        cx.alone = False  # of a universe it is the only instrument
        if not tick_cases.feed(strategy, cx, made.ticks, binding):
            found = _list(cx, binding.value) or []
            setattr(made.ticks, "mids" if name == "mid" else "trades", found)
        return
    if strategy.universe is not None and name not in FEEDS:
        if "close" in made.feeds:
            cx.error(
                "QD0215",
                "a test feeds one instrument without a name, or several with one each",
                binding.span,
                help=panel_cases.SHAPE,
            )
        elif not _once(cx, binding, made.panel.closes):
            found = _list(cx, binding.value, gaps=True) or []
            panel_cases.closes(strategy, cx, made.panel, binding.name, found)
        return
    aliases = [traded.name for traded in strategy.instruments if traded.name]
    known = [*aliases, "range"] if len(aliases) > 1 else list(FEEDS)
    if name not in known:
        unknown(cx, name, binding.name.span, known, "to feed")
        return
    if _once(cx, binding, made.feeds):
        return
    if name == "range":
        number = literal(cx, binding.value)
        made.range = number[0] if number else Fraction(0)
        return
    values = _list(cx, binding.value)
    if values is not None:
        made.feeds[name] = values
    if strategy.universe is not None:
        _alone(cx, made, binding, name)


def _alone(cx: Context, made: Case, binding: ast.Binding, name: str) -> None:
    """A universe of one instrument, fed without a name."""
    if made.panel.closes:
        cx.error(
            "QD0215",
            f"{name!r} of which instrument? This test feeds several by name",
            binding.span,
            help="leave it out: a volume is a million, and 'range' is that of all",
        )
    cx.alone = False


def _list(cx: Context, node: ast.Expr, *, gaps: bool = False) -> list[Fraction] | None:
    """`[1, 2, 3]`, `repeat([1, 2, 3], 100)`, or several of them joined by `+`; with `gaps` an `na`
    is a moment without a bar."""
    if isinstance(node, ast.Binary) and node.op == "+":
        left, right = _list(cx, node.left, gaps=gaps), _list(cx, node.right, gaps=gaps)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.Array):
        none = (panel_cases.NO_BAR, "")
        found = [
            none if gaps and isinstance(item, ast.Na) else literal(cx, item) for item in node.items
        ]
        return None if None in found else [item[0] for item in found if item is not None]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "repeat"
        and len(node.args) == 2
    ):
        values, times = _list(cx, node.args[0].value, gaps=gaps), literal(cx, node.args[1].value)
        if values is not None and times is not None and 0 < times[0] * len(values) <= 100_000:
            return values * int(times[0])
    cx.error("QD0215", "a feed is a list of numbers, repeat([...], n), or a sum of such", node.span)
    return None


def _given(
    strategy: "Strategy", cx: Context, made: Case, binding: ast.Binding, number: int
) -> None:
    name = binding.name.id
    known = GIVEN if strategy.universe is None else ("cash", "equity", *panel_cases.TRAITS)
    if name not in known:
        unknown(cx, name, binding.name.span, list(known), "to be given")
        return
    if name in panel_cases.TRAITS:
        panel_cases.given(cx, made.panel, binding)
        return
    if name != "position":
        amount = literal(cx, binding.value)
        made.cash = amount[0] if amount else None
        return
    # The position is bought at the flat price before the first bar of the feed, so that the
    # account is one that could exist.
    outer, cx.block = cx.block, []
    strategy.acting = True
    target = ast.Name(binding.span, "target")
    cx.expr(ast.Call(binding.span, target, (ast.Arg(binding.span, None, binding.value),)))
    strategy.acting = False
    block, cx.block = cx.block, outer
    made.given = f"given.{number}"
    state = ops.ParamDecl("s", ops.StructType("State"), inout=True)
    submit = ops.Do(ops.Call(strategy.core("engine.submit"), (ENGINE,)))
    strategy.funcs.append(ops.Func(made.given, (state,), None, (*block, submit)))
