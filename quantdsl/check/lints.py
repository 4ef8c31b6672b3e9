"""What is well formed but surely not meant: names nobody reads, params without effect, no costs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quantdsl.check.bindings import Local
from quantdsl.check.equations import OF_THIS, STATE
from quantdsl.ir import ops
from quantdsl.ir.walk import expressions
from quantdsl.lang import ast
from quantdsl.lang.spelling import nearest

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy


def unread(strategy: "Strategy") -> None:
    """Params, equations, states and actions that nothing uses."""
    cx = strategy.cx
    for item in strategy.node.items:
        if not isinstance(item, ast.ParamDecl | ast.Let | ast.State | ast.Action):
            continue
        binding = strategy.scope.names.get(item.name.id)
        if isinstance(binding, Local):
            cx.report_unread(item.name.id, binding)
        elif binding is not None and not getattr(binding, "used", True):
            verb = "called" if isinstance(item, ast.Action) else "read"
            cx.warn(
                "QD0204",
                f"{item.name.id!r} is never {verb}",
                item.name.span,
                help="delete it, or use it where it was meant",
            )
    acting = any(one.event != "flat_by" for one in strategy.handlers)
    if not acting and not strategy.plots and strategy.name:  # a library has no name
        cx.warn(
            "QD0812",
            "this strategy does nothing",
            strategy.node.name.span,
            help="act in a handler, such as 'on bar:'",
        )


def without_effect(strategy: "Strategy") -> None:
    """Params that are read, but by nothing that an order, a limit or a plot depends on."""
    reached = _reached(strategy)
    for param in strategy.params:
        binding = strategy.scope.names.get(param.name)
        idle = param.field not in reached and isinstance(binding, Local) and binding.used
        if idle and not _read_by_unread(strategy, param.field):
            strategy.cx.warn(
                "QD0704",
                f"{param.name!r} changes no order and no plot",
                param.span,
                reason="every point of its range gives the same run",
                help="use it where it was meant, or make it a const",
            )


def _reached(strategy: "Strategy") -> set[str]:
    """The fields of the state that handlers, limits and plots depend on."""
    sources = _sources(strategy)
    made = (*strategy.funcs, *strategy.loops)
    bodies = [*(func.body for func in made), strategy.risk.values]
    waiting = [name for body in bodies for name in _fields(body)]
    waiting += [name for plot in strategy.plots for name in _fields_of(plot.value.ir)]
    waiting += [
        name
        for handler in strategy.handlers
        for need in handler.reads.values()
        for name in _fields_of(need.count)
    ]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += sources.get(name, ())
    return reached


def _sources(strategy: "Strategy") -> dict[str, set[str]]:
    """Field of the state -> the fields that it is computed from."""
    sources: dict[str, set[str]] = {}
    for equation in strategy.equations.all:
        needs = [need.count for _, need in equation.needs]
        sources[equation.place.name] = set(_fields_of(equation.value, *needs))
    for stmt in strategy.equations.at_start + strategy.initial:
        if isinstance(stmt, ops.Assign):
            sources.setdefault(_root(stmt.place), set()).update(_fields_of(stmt.value))
    for (place, _), ring in strategy.equations.rings.items():
        sources[ring.place.name] = set(_fields_of(place))
    for signal in strategy.signals.all:
        sources.setdefault(signal.place.name, set()).update(_fields_of(signal.equation.ir))
    for call in strategy.hosts.values():
        given = (*call.series, *(value for _, value in call.constants))
        sources[call.raw.name] = set(_fields_of(*(value.ir for value in given)))
    return sources


def _read_by_unread(strategy: "Strategy", field: str) -> bool:
    """Whether a param feeds an equation that nothing reads, which is warned of already."""
    sources = _sources(strategy)
    for item in strategy.node.items:
        binding = strategy.scope.names.get(item.name.id) if isinstance(item, ast.Let) else None
        value = getattr(binding, "value", None)
        if binding is None or value is None or getattr(binding, "used", True):
            continue
        waiting, seen = list(_fields_of(value.ir)), set[str]()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += sources.get(name, ())
        if field in seen:
            return True
    return False


def _fields(body: tuple[ops.Stmt, ...]) -> Iterator[str]:
    """Names of the fields of the state that are named in some statements."""
    for node in expressions(body):
        if isinstance(node, ops.Field) and node.base in (STATE, OF_THIS):
            yield node.name


def _fields_of(*exprs: ops.Expr) -> Iterator[str]:
    """Names of the fields of the state that are named in some expressions."""
    return _fields(tuple(ops.Return(expr) for expr in exprs))


def _root(place: ops.Expr) -> str:
    while isinstance(place, ops.Elem) or (
        isinstance(place, ops.Field) and place.base not in (STATE, OF_THIS)
    ):
        place = place.base
    return place.name if isinstance(place, ops.Field) else ""


def missing_blocks(strategy: "Strategy") -> None:
    """A strategy without limits, or without costs."""
    cx, name = strategy.cx, strategy.node.name.span
    if not strategy.has_risk:
        cx.warn(
            "QD0805",
            "this strategy limits no risk",
            name,
            help="add a 'risk:' block; live only the [limits] of the config stand before orders",
        )
    if not strategy.has_backtest:
        cx.warn(
            "QD0806",
            "this strategy states no costs",
            name,
            help="add 'backtest:' with fees and slippage, or give them in a config",
        )


OF_BARS = frozenset({"slippage", "impact", "fill", "delay", "path", "volume_share"})
OF_TICKS = frozenset(
    {"latency", "latency_entry", "latency_response", "latency_feed", "queue", "queue_power"}
)
"""Settings of the backtest block that only one kind of market looks at."""


def idle_settings(strategy: "Strategy") -> None:
    """Settings that fills on this strategy's data do not look at."""
    proportional = any(
        one.word == "proportional" for one in strategy.chosen if one.name == "queue"
    )
    for name, said in strategy.costs.items():
        if strategy.ticks and name in OF_BARS:
            strategy.cx.warn(
                "QD0814",
                f"'{name} =' is of bars: it moves no fill on ticks",
                said.span,
                reason="there an order meets the quotes, trades and levels that the data hold",
                help="leave it out; 'latency =' and 'queue =' say how an order meets ticks",
            )
        if strategy.ticks and name == "queue_power" and not proportional:
            strategy.cx.warn(
                "QD0814",
                "'queue_power =' is of a proportional queue: no other looks at it",
                said.span,
                reason="in a pessimistic queue whoever cancels stood behind the order",
                help="add queue = proportional, or leave it out",
            )
        if not strategy.ticks and name in OF_TICKS:
            strategy.cx.warn(
                "QD0814",
                f"'{name} =' is of ticks: no fill on bars looks at it",
                said.span,
                help="leave it out; 'delay =' lets an order wait for bars",
            )


def unknown_tags(strategy: "Strategy") -> None:
    """Tags by which cancel, replace or after mean orders that none here has."""
    args = [order.args["tag"].value for order in strategy.orders if "tag" in order.args]
    given = {arg.value: arg.span for arg in args if isinstance(arg, ast.Str)}
    for text, span in given.items():
        if "{" in text:
            strategy.cx.warn(
                "QD0816",
                f"the tag {text!r} is one tag, whatever stands in its braces",
                span,
                reason="values are put into the texts of log, alert and mark alone",
                help="give each order a tag of its own, or all of them one without braces",
            )
    for text, span in strategy.asked_tags:
        near = nearest(text, given)
        if text not in given:
            strategy.cx.warn(
                "QD0816",
                f"no order here has the tag {text!r}",
                span,
                reason="the exits of a bracket go by the tag of their entry",
                help=f"did you mean {near!r}?" if near else f'give it to the order: tag = "{text}"',
                edit=(span, f'"{near}"') if near else None,
            )
