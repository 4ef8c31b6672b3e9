"""The risk and backtest blocks: each line against the one table of what may stand there."""

from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quantdsl.check import arith, elsewhere
from quantdsl.check.bindings import unknown
from quantdsl.check.context import Context
from quantdsl.check.equations import for_all
from quantdsl.check.functions import Declared
from quantdsl.check.literals import DURATION_NS, FRACTION, is_quantity, signed
from quantdsl.check.market import ENGINE
from quantdsl.check.params import literal
from quantdsl.check.shares import told_of_factor
from quantdsl.check.types import DURATION, FLOAT, SAFE, money
from quantdsl.check.values import Value
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label
from quantdsl.lang.words import CURRENCIES

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

LIMITS = ops.Field(ENGINE, "limits")

RISK: dict[str, tuple[str, str]] = {
    "max_order": ("lots", "largest single order"),
    "max_position": ("lots", "largest position, working orders counted"),
    "max_notional": ("money", "largest value of one position"),
    "max_weight": ("share", "largest value of one position, of equity"),
    "max_gross": ("money", "largest sum of the values of all positions, signs dropped"),
    "max_net": (
        "money",
        "largest sum of the values of all positions, signed; a rebalance counts as a whole",
    ),
    "max_entries": ("count", "orders that open or add to one position"),
    "max_order_rate": ("rate", "orders in a sliding window, such as 200 / 1s"),
    "price_band": ("share", "how much worse than the last price an order's may be"),
    "max_data_age": ("duration", "oldest bar an order may be based on"),
    "cooldown": ("duration", "pause after a closed round trip"),
    "max_daily_loss": ("money", "loss of equity since the day began"),
    "max_drawdown": ("drawdown", "loss of equity since its peak"),
    "max_leg_gap": ("duration", "how long one leg of an atomic block may wait for the other"),
    "max_cancel_rate": ("rate", "cancels in a sliding window, such as 100 / 1s"),
    "max_executions": ("count", "orders that execute, until somebody arms the strategy again"),
    "duplicate": ("duration", "within which no order goes out a second time"),
    "check": ("fn", "a fn of (price, size, position, equity) that must let every order pass"),
}
"""name -> (unit, meaning). std/risk.qdsl enforces each; the order here is the order there."""

NEEDS = {
    "USES_SIZES": frozenset({"max_order", "max_position", "max_notional"}),
    "USES_PORTFOLIO": frozenset({"max_gross", "max_net", "max_weight"}),
    "USES_NET": frozenset({"max_net"}),
    "USES_PACE": frozenset(
        {"max_order_rate", "cooldown", "max_entries", "max_data_age", "price_band"}
    ),
    "USES_LOSS": frozenset({"max_daily_loss", "max_drawdown"}),
    "USES_THROTTLE": frozenset({"max_cancel_rate", "max_executions", "duplicate"}),
    "USES_CHECK": frozenset({"check"}),
}
"""What a limit needs of the core (library.USES)."""

WATCHED = ("max_daily_loss", "max_drawdown", "max_leg_gap")
"""Limits that are looked at whenever the market moves; the others when an order is sent."""

ACTIONS = {"reject": 1, "flatten": 2, "halt": 4, "cancel_all": 8, "alert": 16}


class RiskBlock(Struct):
    """What writes the values: `watched` of limits on the account, `limits` of those on orders.

    `once` writes the masks of actions, which never change.
    """

    watched: list[ops.Stmt] = field(default_factory=list)
    limits: list[ops.Stmt] = field(default_factory=list)
    once: list[ops.Stmt] = field(default_factory=list)
    lines: dict[str, ast.Setting] = field(default_factory=dict)

    @property
    def values(self) -> tuple[ops.Stmt, ...]:
        """What writes all values."""
        return (*self.watched, *self.limits)


def risk(strategy: "Strategy", cx: Context, block: ast.Block, into: RiskBlock) -> None:
    """Elaborate the lines of a risk block."""
    for line in block.settings:
        name = line.name.id
        if name not in RISK:
            help = elsewhere.RISK.get(name)
            near = [] if help else list(RISK)
            unknown(cx, name, line.name.span, near, "in the risk block", help)
            continue
        if name in into.lines:
            cx.error("QD0208", f"{name!r} is limited already", line.name.span)
            continue
        into.lines[name] = line
        strategy.uses |= {part for part, names in NEEDS.items() if name in names}
        cx.block = into.watched if name in WATCHED else into.limits
        if name == "check":
            _check(strategy, cx, line)
        else:
            value = _limit(strategy, cx, RISK[name][0], line)
            if value is None:
                continue
            cx.block.append(ops.Assign(ops.Field(LIMITS, name), value, cx.line(line)))
        mask = _actions(cx, line)
        if mask > ACTIONS["reject"]:
            strategy.uses.add("USES_ACTIONS")
        into.once.append(ops.Assign(ops.Field(LIMITS, name + "_does"), ops.i64(mask)))


def _actions(cx: Context, line: ast.Setting) -> int:
    mask = 0
    for node in line.actions:
        name_node = node.func if isinstance(node, ast.Call) else node
        name = name_node.id if isinstance(name_node, ast.Name) else ""
        if name not in ACTIONS:
            unknown(cx, name, node.span, list(ACTIONS), "among the actions of a limit")
            continue
        args = node.args if isinstance(node, ast.Call) else ()
        text = name == "alert" and len(args) == 1 and isinstance(args[0].value, ast.Str)
        if args and not text:
            takes = "one text" if name == "alert" else "no arguments"
            cx.error("QD0804", f"the action {name} takes {takes}", node.span)
        mask |= ACTIONS[name]
    return mask or ACTIONS["reject"]


def _check(strategy: "Strategy", cx: Context, line: ast.Setting) -> None:
    """The user's own check, compiled into the gate in place of the one that lets all pass."""
    own = cx.scope.find(line.value.id) if isinstance(line.value, ast.Name) else None
    if isinstance(own, Declared):
        _model(strategy, cx, line, own)
    else:
        cx.error("QD0804", "check is the name of a fn", line.value.span)


def _limit(strategy: "Strategy", cx: Context, unit: str, line: ast.Setting) -> ops.Expr | None:
    node = line.value
    said = _said(node)
    if said is not None and said[0] < 0:
        cx.error(
            "QD0804",
            f"{line.name.id} is below 0, so it is broken from the start",
            node.span,
            help="a limit says how much at most, of a loss too: leave out the sign",
        )
        return None
    if unit == "rate":
        return _rate(cx, node, "cancel_ns" if line.name.id == "max_cancel_rate" else "rate_ns")
    if unit == "lots" and len(strategy.instruments) > 1 and is_quantity(node):
        cx.error(
            "QD0307",
            "shares of which instrument? This limit is one for all of them",
            node.span,
            help="max_notional and max_gross limit money, max_weight a share of equity",
        )
        return None
    value = for_all(
        cx, arith.plain(cx, cx.expr(node)), "give money or a share of equity: max_weight = 10%"
    )
    if value.bad:
        return None
    if unit == "drawdown" and value.percent:
        # A share is meant of the peak, from which a drawdown is measured.
        peak = Value(
            money(), ops.Call(strategy.core("engine.peak"), (ENGINE,)), unit=cx.units.money(cx)
        )
        limit = arith.coerce(cx, arith.binary(cx, "of", value, peak, node.span), money())
        return _at_most(node, limit.ir)
    kind = value.type.kind
    if unit == "lots":
        if kind != "qty":
            cx.error("QD0804", f"{line.name.id} is a quantity, such as 500 shares", node.span)
            return None
        return value.ir
    if unit == "count" and kind == "int":
        return value.ir
    wanted = {"money": money(), "drawdown": money(), "share": FLOAT, "duration": DURATION}
    if unit == "share":
        told_of_factor(cx, node)
    if unit in wanted:
        limit = arith.coerce(cx, value, wanted[unit])
        return None if limit.bad else _at_most(node, limit.ir)
    cx.error("QD0804", f"{line.name.id} is a {unit}", node.span)
    return None


def _said(node: ast.Expr) -> tuple[Fraction, str] | None:
    """The number that a limit is written as, alone or as a share of something."""
    return signed(node.left if isinstance(node, ast.Binary) and node.op == "of" else node)


def _at_most(node: ast.Expr, limit: ops.Expr) -> ops.Expr:
    """A limit; one above all money that an account can count becomes the most it can count.

    So it binds nothing; without this it would be na, and refuse every order. What is asked for this
    costs nothing where a share is written, of 100 % at most.
    """
    share = _said(node)
    if share is not None and share[1] in FRACTION and share[0] * FRACTION[share[1]] <= 1:
        return limit
    match limit:
        case ops.Select(x=ops.Unary(op="f64_to_i64", x=count), y=ops.Const()):
            # Of what is no number `fmin` gives the second.
            return arith.checked_int(ops.Binary("fmin", ops.f64(float(SAFE - 1)), count))
    return limit


def _rate(cx: Context, node: ast.Expr, window_of: str) -> ops.Expr | None:
    """`200 / 1s`: a count and the window it counts in."""
    if isinstance(node, ast.Binary) and node.op == "/":
        count, window = cx.expr(node.left), cx.expr(node.right)
        if isinstance(count.const, int) and window.type == DURATION:
            cx.emit(ops.Assign(ops.Field(LIMITS, window_of), window.ir))
            return count.ir
    cx.error("QD0804", "a rate is a count in a window, such as 200 / 1s", node.span)
    return None


# ---- backtest ----------------------------------------------------------------------------------

BACKTEST: dict[str, str] = {
    "cash": "money at the start",
    "fees": "what a fill costs: a share of its value, or an amount per share, contract or order",
    "min_fee": "least fee of an order",
    "maker_fee": "what a fill of an order that rested costs; below zero it is a rebate",
    "slippage": "by how much an order that takes liquidity fills worse",
    "impact": "share of price for an order as large as the bar's volume",
    "fill": "when an order may fill, which is the next bar; a fn says how much of it",
    "delay": "bars an order waits before it may fill",
    "path": "which extreme of a bar comes first where an order cares",
    "volume_share": "most of a bar's volume that fills may use",
    "leverage": "largest gross exposure over equity",
    "maintenance": "share of gross exposure below which all is closed",
    "borrow": "yearly rate on the value held short",
    "unaffordable": "what happens to an order that the account cannot pay for",
    "close_at_end": "whether the end of the data closes what is open, at the last price",
    "latency": "how long an order takes to the venue, and its answer back, in a run on ticks",
    "latency_entry": "how long an order takes to the venue",
    "latency_response": "how long the answer takes back",
    "latency_feed": "times the feed's own latency, added to both",
    "signal_delay": "how long after its instant an '@async' equation is answered",
    "queue": "who cancels at a level of the book: those behind an order, or both in proportion",
    "queue_power": "power of the shares of a proportional queue",
    "sizing": "a fn that sizes value = p of equity, size_at = fill",
}


MODELS = {
    "fees": "matching.fee_model",
    "slippage": "matching.slippage_model",
    "fill": "matching.fill_model",
    "sizing": "orders.size_model",
}
"""Settings that may name a fn of the user's, and the std function that it stands in for."""

CHECKS = {"check": "risk.check_model"}
"""The same of the risk block."""


class Chosen(Struct, frozen=True):
    """A line of the backtest block: a number in a unit, or a word; `span` for messages."""

    name: str
    number: float | None
    unit: str
    word: str
    span: ast.Span


FORMS: dict[str, tuple[str, ...]] = {
    "cash": ("money",),
    "fees": ("share", "per_share", "per_contract", "per_order"),
    "min_fee": ("money",),
    "maker_fee": ("share",),
    "slippage": ("ticks", "share"),
    "impact": ("share",),
    "fill": ("next_open",),
    "delay": ("count",),
    "path": ("conservative", "nearest", "high_first", "low_first"),
    "volume_share": ("share",),
    "leverage": ("count",),
    "maintenance": ("share",),
    "borrow": ("share",),
    "unaffordable": ("cut", "reject"),
    "close_at_end": ("bool",),
    "latency": ("duration",),
    "latency_entry": ("duration",),
    "latency_response": ("duration",),
    "latency_feed": ("count",),
    "signal_delay": ("duration",),
    "queue": ("pessimistic", "proportional"),
    "queue_power": ("count",),
    "sizing": (),
}
"""What each setting may be: a number of a kind, or one of its words; a fn besides (MODELS)."""

COSTS = ("fees", "maker_fee", "slippage")
COST_READ_AS_PERCENT = Fraction(5, 100)
"""No fill costs a twentieth of its value, so a bare number from here on meant percent."""

KINDS = {
    "money": "money, such as 1 USD",
    "share": "a share, such as 2bps",
    "ticks": "ticks",
    "count": "a plain number",
    "bool": "true or false",
    "duration": "a duration, such as 10ms",
}


def backtest(strategy: "Strategy", cx: Context, block: ast.Block) -> list[Chosen]:
    """The lines of a backtest block as plain data; the run turns them into config words."""
    chosen: list[Chosen] = []
    for line in block.settings:
        name = line.name.id
        if name not in BACKTEST:
            help = elsewhere.BACKTEST.get(name)
            unknown(cx, name, line.name.span, list(BACKTEST), "in the backtest block", help)
        elif name in strategy.costs:
            cx.error(
                "QD0208",
                f"{name!r} is set already",
                line.name.span,
                labels=(Label(strategy.costs[name].span, "here"),),
            )
        else:
            strategy.costs[name] = line.name
            if line.actions:
                cx.error(
                    "QD0217",
                    "a setting of a backtest has no actions",
                    line.actions[0].span,
                    help="limits with actions stand in 'risk:'",
                )
            found = _setting(strategy, cx, line)
            chosen += [found] if found is not None else []
    return chosen


def _setting(strategy: "Strategy", cx: Context, line: ast.Setting) -> Chosen | None:
    """One line; None for a fn of the user's and for what is reported."""
    name, node, word = line.name.id, line.value, ""
    forms = FORMS[name]
    own = cx.scope.find(node.id) if isinstance(node, ast.Name) else None
    if name in MODELS and isinstance(own, Declared):
        _model(strategy, cx, line, own)
        return None
    if isinstance(node, ast.Name) and node.id in forms:
        return Chosen(name, None, "", node.id, line.span)
    if isinstance(node, ast.Bool) and "bool" in forms:
        return Chosen(name, float(node.value), "", "", line.span)
    kinds = tuple(form for form in forms if form in KINDS)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in forms
        and node.func.id.startswith("per_")
        and len(node.args) == 1
    ):
        word, node, kinds = node.func.id, node.args[0].value, ("money",)
    if isinstance(node, ast.Num | ast.Unary) and kinds:
        number = literal(cx, node)
        if number is not None and _kind(number[1], kinds):
            _told_of_factor(cx, name, node, number)
            if number[1] in CURRENCIES:
                strategy.hold_currency(number[1], node.span)
            return Chosen(name, float(number[0]), number[1], word, line.span)
    wanted = [KINDS.get(form, form + "(1 USD)" if form[:4] == "per_" else form) for form in forms]
    if name in MODELS:
        wanted.append("the name of a fn")
    cx.error(
        "QD0813",
        f"'{name} =' cannot be this",
        line.value.span,
        help=f"give {' or '.join(wanted)}",
    )
    return None


def _told_of_factor(cx: Context, name: str, node: ast.Expr, number: tuple[Fraction, str]) -> None:
    """Warn of `fees = 1`, which is all that a fill is worth: percent or ticks were meant."""
    if name not in COSTS or number[1] or number[0] < COST_READ_AS_PERCENT:
        return
    text = cx.module.source.text[slice(*node.span)]
    meant = f"{text} tick" if name == "slippage" and number[0] >= 1 else f"{text}%"
    told = f"{name} = {text} is {float(number[0]):.0%} of each fill"
    cx.warn("QD0813", told, node.span, help=f"did you mean {meant}?", edit=(node.span, meant))


def _kind(unit: str, kinds: tuple[str, ...]) -> bool:
    """Whether a number in this unit is of one of the kinds; ticks and durations need their unit."""
    if unit in ("%", "bps"):
        return "share" in kinds
    if unit in ("tick", "ticks"):
        return "ticks" in kinds
    if unit in DURATION_NS:
        return "duration" in kinds
    if unit == "":
        return kinds not in (("ticks",), ("duration",))
    return "money" in kinds and unit in CURRENCIES


def _model(strategy: "Strategy", cx: Context, line: ast.Setting, own: Declared) -> None:
    """A fn of the user's in place of the std model with the same signature."""
    name = (MODELS | CHECKS)[line.name.id]
    key, _, short = name.partition(".")
    std = strategy.library.routine(cx, strategy.library.namespace(key).names[short], 0)
    routine = strategy.library.routine(cx, own, 0)
    wanted = [param.type for param in std.params]
    if [param.type for param in routine.params] != wanted or routine.result != std.result:
        signature = ", ".join(f"{param.name}: {param.type}" for param in std.params)
        cx.error(
            "QD0807",
            f"{own.name} does not fit here",
            line.value.span,
            reason=f"a model for '{line.name.id}' takes what the built-in one takes",
            help=f"fn {own.name}({signature}) -> {std.result}",
        )
        return
    strategy.models[name] = routine.ir_name
    if name == MODELS["fill"]:
        strategy.uses.add("USES_OWN_FILL")
