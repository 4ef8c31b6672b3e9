"""`every 30s`, `at 15:45 on month_end` and `flat_by`: when a timer fires, and what it runs."""

from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl import limits
from quantdsl.check import civil
from quantdsl.check.bindings import unknown
from quantdsl.check.context import LimitExceeded
from quantdsl.check.market import ENGINE
from quantdsl.check.types import DURATION
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

DAYS = ("day", "week_start", "week_end", "month_start", "month_end", "year_start", "year_end")


class TimerSpec(Struct):
    """When a timer fires; the data layer turns it into events by the session's calendar."""

    id: int
    at_s: int | None = None
    after_open_ns: int | None = None
    before_close_ns: int | None = None
    every_ns: int | None = None
    on: str = ""
    flat_by: bool = False


def every(strategy: "Strategy", node: ast.Every) -> None:
    """A handler that runs again and again, from the session's open on."""
    value = strategy.cx.expr(node.period)
    if value.bad:
        return
    if value.type.kind != "duration" or not isinstance(value.const, int) or value.const <= 0:
        strategy.cx.error(
            "QD0212", "'every' needs a duration, such as 'every 30s'", node.period.span
        )
        return
    timer = _timer(strategy, node.span)
    timer.every_ns = value.const
    strategy.timers.append(timer)
    strategy.handler("timer", node, timer=timer.id)


def at(strategy: "Strategy", node: ast.At) -> None:
    """A handler that runs at a time of the session's days."""
    timer = _timer(strategy, node.span)
    if isinstance(node.day, ast.Name):
        timer.on = node.day.id
    elif node.day is not None:
        said = "a handler's days are one word"
        strategy.cx.error("QD0212", said, node.day.span, help=f"one of {', '.join(DAYS)}")
        return
    if node.day is not None and timer.on not in DAYS:
        weekday = timer.on in civil.WEEKDAYS
        help = f"ask in the handler: if now.weekday == {timer.on}:" if weekday else None
        known = [] if weekday else list(DAYS)
        unknown(strategy.cx, timer.on, node.day.span, known, "among the days", help)
        return
    if isinstance(node.time, ast.Time):
        timer.at_s = node.time.seconds
    else:
        timer.after_open_ns = _distance(strategy, node.time, "session_open", "+")
        timer.before_close_ns = _distance(strategy, node.time, "session_close", "-")
    if timer.at_s is timer.after_open_ns is timer.before_close_ns is None:
        strategy.cx.error(
            "QD0212",
            "'at' needs a time of day, or a border of the session",
            node.time.span,
            help="such as 15:45, session_open, session_open + 5m or session_close - 5m",
        )
        return
    strategy.timers.append(timer)
    strategy.handler("timer", node, timer=timer.id)


def _distance(strategy: "Strategy", node: ast.Expr, border: str, op: str) -> int | None:
    """How far into the session a moment lies from one of its borders; None if it is no such."""
    if isinstance(node, ast.Name) and node.id == border:
        return 0
    if not isinstance(node, ast.Binary) or node.op != op or not isinstance(node.left, ast.Name):
        return None
    if node.left.id != border:
        return None
    length = strategy.cx.expr(node.right)
    if length.type != DURATION or not isinstance(length.const, int) or length.const < 0:
        return None
    return length.const


def flat_by(strategy: "Strategy") -> None:
    """`flat_by = T`: at T every order is cancelled and every position closed."""
    if "flat_by" not in strategy.session:
        return
    timer = TimerSpec(len(strategy.timers), at_s=strategy.session["flat_by"], flat_by=True)
    strategy.timers.append(timer)
    line = ops.i64(strategy.module.source.position(strategy.node.span[0]).line)
    call = ops.Call(strategy.core("engine.flat_by"), (ENGINE, line))
    strategy.own_handler("flat_by", (ops.Do(call),), timer.id)


def _timer(strategy: "Strategy", span: ast.Span) -> TimerSpec:
    """A new timer; it counts once it is complete."""
    if len(strategy.timers) >= limits.TIMERS - 1:  # one is left for flat_by
        raise LimitExceeded(limits.TIMERS, "too many timers", span)
    return TimerSpec(len(strategy.timers))
