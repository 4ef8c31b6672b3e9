"""The records of a run as arrow tables in human units.

Prices are float64 from exact ticks by one division, so they equal the decimals of the data file;
quantities are in units, money in currency, times are timestamp[ns, UTC]. Rows keep the order in
which the core wrote them. An order's time is when it was sent; the time of a fill is the open of
the bar in which it happened, since a bar does not say when within it.
"""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quantdsl.events.layout import Kind
from quantdsl.report.columns import Flags, choices, numbers, texts, times
from quantdsl.report.day_metrics import days_of, drawdowns, trips_of
from quantdsl.report.messages import messages
from quantdsl.report.order_sizes import TOUCHES, TRAILS, last_terms, order_sizes
from quantdsl.report.order_words import LINE_BITS, NONE
from quantdsl.report.result import Float64s, Int64s, RunResult, Structs

TYPES = (
    *("market", "limit", "stop", "stop_limit"),
    *("market_if_touched", "limit_if_touched", "trailing_stop", "trailing_stop_limit"),
)
"""New names are appended: a type keeps its code."""


def tables(result: RunResult) -> dict[str, pa.Table]:
    """Every table of a run by name: orders, fills, trades, equity, days and messages."""
    return {
        "orders": orders(result),
        "fills": fills(result),
        "trades": trades(result),
        "equity": equity(result),
        "days": days(result),
        "messages": messages(result),
    }


# ---- orders ----------------------------------------------------------------------------------


def orders(result: RunResult) -> pa.Table:
    """One row an order, refused ones too, with what became of it and the source line it is from."""
    rows = last_terms(result.records[np.isin(result.records["kind"], [Kind.ORDER, Kind.REJECT])])
    sent = rows["kind"] == Kind.ORDER
    trigger = np.where(sent & (rows["d"] != rows["c"]), rows["d"], NONE)
    sizes = order_sizes(rows, result.records)
    asked, done = sizes.asked, sizes.filled
    fates = _fates(result, rows, asked, done)
    return pa.table(
        {
            "time": times(rows["ts_event"]),
            "order": numbers(rows["a"]),
            "instrument": _symbols(result, rows),
            "side": _sides(np.where(sent & (asked == 0), -_entry_lots(rows), asked)),
            "type": _types(rows["c"] != NONE, trigger != NONE, rows["flags"] * sent),
            "quantity": numbers(quantities(result, rows, np.abs(asked)), asked == 0),
            "limit": _optional_prices(result, rows, rows["c"]),
            "trigger": _optional_prices(result, rows, trigger),
            "filled": numbers(quantities(result, rows, np.abs(done))),
            "status": texts([status for status, _ in fates]),
            "reason": texts([reason for _, reason in fates]),
            "line": numbers(np.where(sent, rows["e"] & (2**LINE_BITS - 1), rows["d"])),
        }
    )


def _types(limited: Flags, triggered: Flags, flags: npt.NDArray[Any]) -> pa.Array:
    """The name of each order's type: by what meets its trigger, and whether it has a limit."""
    trails, touches = flags & TRAILS != 0, flags & TOUCHES != 0
    trigger = np.select([trails, touches, triggered], [3, 2, 1], 0)  # halves of the codes
    return choices(2 * trigger + limited, TYPES)


def _entry_lots(rows: Structs) -> Int64s:
    """Signed lots of the last order before each that has a size: the entry of an exit without."""
    sized = np.where(rows["b"] != 0, np.arange(len(rows)), 0)
    last: Int64s = rows["b"][np.maximum.accumulate(sized)] if len(rows) else rows["b"]
    return last


def _fates(result: RunResult, rows: Structs, asked: Int64s, done: Int64s) -> list[tuple[str, str]]:
    """(status, reason) of each order; what was written last about it decides."""
    ends = {Kind.REJECT: "rejected", Kind.CANCEL: "cancelled"}
    last: dict[int, tuple[str, str]] = {}
    ended = result.records[np.isin(result.records["kind"], list(ends))]
    for kind, number, code in zip(
        ended["kind"].tolist(), ended["a"].tolist(), ended["flags"].tolist(), strict=True
    ):
        last[number] = (ends[Kind(kind)], result.reasons.get(code, f"reason {code}"))
    fates = []
    for number, wanted, lots in zip(rows["a"].tolist(), asked, done, strict=True):
        filled = "working" if lots == 0 else "filled" if lots == wanted else "partly filled"
        # What still works when a run ends is cancelled; the rest was cut to what could be held.
        fates.append(last.get(number, (filled, "cut" if filled == "partly filled" else "")))
    return fates


# ---- fills and trades ------------------------------------------------------------------------


def fills(result: RunResult) -> pa.Table:
    """One row a fill."""
    rows = result.of_kind(Kind.FILL)
    return pa.table(
        {
            "time": times(rows["ts_recv"]),
            "order": numbers(rows["a"]),
            "instrument": _symbols(result, rows),
            "side": _sides(rows["b"]),
            "quantity": numbers(quantities(result, rows, np.abs(rows["b"]))),
            "price": numbers(prices(result, rows, rows["c"])),
            "fee": numbers(result.money(rows["d"])),
            "position": numbers(quantities(result, rows, rows["e"])),
        }
    )


def trades(result: RunResult) -> pa.Table:
    """One row a closed round trip; `mae` and `mfe` are its worst and best open profit."""
    rows = result.of_kind(Kind.ROUND_TRIP)
    columns = {name: numbers(values) for name, values in trade_numbers(result).items()}
    return pa.table(
        {
            "entry_time": times(rows["a"]),
            "exit_time": times(rows["ts_recv"]),
            "instrument": _symbols(result, rows),
            "side": choices(rows["d"] < 0, ("long", "short")),
            **columns,
        }
    )


def trade_numbers(result: RunResult) -> dict[str, npt.NDArray[Any]]:
    """The numbers of each closed round trip by column."""
    rows, more = result.of_kind(Kind.ROUND_TRIP), result.of_kind(Kind.ROUND_TRIP_MORE)
    assert len(rows) == len(more), "each ROUND_TRIP is followed by its ROUND_TRIP_MORE"
    return {
        "quantity": quantities(result, rows, np.abs(rows["d"])),
        "entry_price": prices(result, rows, rows["b"]),
        "exit_price": prices(result, rows, rows["c"]),
        "profit": result.money(rows["e"]),
        "return": trips_of(result).returns,
        "fees": result.money(more["c"]),
        "mae": result.money(more["d"]),
        "mfe": result.money(more["e"]),
        "entry_bar": more["a"],
        "exit_bar": more["b"],
    }


# ---- equity ----------------------------------------------------------------------------------


def equity(result: RunResult) -> pa.Table:
    """One row a bar: equity, drawdown as a fraction of the high so far, and the plots."""
    columns = {
        "time": times(result.curve_ts),
        "equity": numbers(result.money(result.curve_equity)),
        "drawdown": numbers(curve_drawdown(result)),
    }
    for plot in result.plots:
        columns[f"plot.{plot.name}"] = numbers(plot.values, np.isnan(plot.values))
    return pa.table(columns)


def curve_drawdown(result: RunResult) -> Float64s:
    """Fraction below the high so far at each bar of the curve, 0 or negative."""
    first = int(result.accumulators["equity_first"])
    high = np.maximum(np.maximum.accumulate(result.curve_equity), first)
    under: Float64s = (result.curve_equity - high) / np.where(high > 0, high, 1)
    return under


def days(result: RunResult) -> pa.Table:
    """One row a day sample: equity, return since the last one and drawdown at the samples."""
    rows, sampled = result.of_kind(Kind.DAY), days_of(result)
    return pa.table(
        {
            "time": times(rows["ts_event"]),
            "equity": numbers(result.money(rows["a"])),
            "cash": numbers(result.money(rows["b"])),
            "return": numbers(sampled.returns, np.isnan(sampled.returns)),
            "drawdown": numbers(drawdowns(sampled.returns)),
        }
    )


# ---- units -----------------------------------------------------------------------------------


def prices(result: RunResult, rows: Structs, ticks: Int64s) -> Float64s:
    """Ticks of each row's own instrument as prices."""
    return _scaled(rows, ticks, [instrument.tick for instrument in result.instruments])


def quantities(result: RunResult, rows: Structs, lots: Int64s) -> Float64s:
    """Lots of each row's own instrument as units."""
    return _scaled(rows, lots, [instrument.lot for instrument in result.instruments])


def _scaled(rows: Structs, counts: Int64s, steps: list[Fraction]) -> Float64s:
    """counts * numerator / denominator: an exact product, then the only rounding."""
    which = rows["instrument"]
    numerators = np.array([step.numerator for step in steps], np.int64)
    denominators = np.array([step.denominator for step in steps], np.int64)
    scaled: Float64s = (counts * numerators[which]) / denominators[which]
    return scaled


def _optional_prices(result: RunResult, rows: Structs, ticks: Int64s) -> pa.Array:
    """Prices, null where the order has none, or none yet, as a trail before its entry fills."""
    missing = np.abs(ticks) >= NONE
    return numbers(prices(result, rows, np.where(missing, 0, ticks)), missing)


def _sides(lots: Int64s) -> pa.Array:
    """Which way; null for a refused order that had nothing to reduce."""
    return choices(lots < 0, ("buy", "sell"), missing=lots == 0)


def _symbols(result: RunResult, rows: Structs) -> pa.Array:
    names = [instrument.name for instrument in result.instruments]
    return choices(rows["instrument"], names)
