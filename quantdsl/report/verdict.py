"""What a reader must know before any figure: that the run did not do what it was written for."""

from quantdsl.events.layout import Kind
from quantdsl.report.result import RunResult
from quantdsl.report.words import plural


def verdict(result: RunResult) -> str:
    """The first line of every report: '' for a normal run, else what went wrong and why."""
    orders = int(result.accumulators["orders"])
    rejected = int(result.accumulators["orders_rejected"])
    if orders and 2 * rejected > orders:
        return f"Most orders were rejected: {_rejected(result)}"
    if not result.accumulators["fills"]:
        return f"Nothing was traded: {_why_silent(result, orders)}"
    return ""


def rejections(result: RunResult) -> str:
    """How many orders were rejected, and why; '' where none was, or the verdict says so."""
    if not int(result.accumulators["orders_rejected"]) or verdict(result):
        return ""
    return f"orders were rejected: {_rejected(result)}"


def _rejected(result: RunResult) -> str:
    orders, rejected = (int(result.accumulators[name]) for name in ("orders", "orders_rejected"))
    reasons = _counted(result.reasons_of(Kind.REJECT))
    return f"{rejected:,} of {orders:,}. Reasons: {reasons}."


def _why_silent(result: RunResult, orders: int) -> str:
    """Why no order was filled; the run names its causes, the order counters are the last resort."""
    if result.no_trade_reasons:
        return "; ".join(result.no_trade_reasons) + "."
    if not result.accumulators["bars"]:
        return "no bar reached the strategy; its session and the data have none in common."
    if orders:
        ends = result.reasons_of(Kind.REJECT, Kind.CANCEL)
        return f"{plural(orders, 'order')} and no fill: {_counted(ends) or 'they still work'}."
    return "the strategy placed no order; a size of less than one lot makes none."


def _counted(reasons: dict[str, int]) -> str:
    return ", ".join(f"{why} ({count:,})" for why, count in reasons.items())
