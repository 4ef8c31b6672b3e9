"""The records of a run as arrow tables in human units.

Prices are float64 from exact ticks by one division, so they equal the decimals of the data file;
quantities are in units, money in currency, times are timestamp[ns, UTC]. Rows keep the order in
which the core wrote them. An order's time is when it was sent; the time of a fill is the open of
the bar in which it happened, since a bar does not say when within it.
"""

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quantdsl.events.layout import Kind
from quantdsl.report.day_metrics import days_of, drawdowns, trips_of
from quantdsl.report.result import Float64s, RunResult, Structs

TIME = pa.timestamp("ns", tz="UTC")
NONE = 2**53
"""Ticks of a limit or trigger that an order does not have (std/orders.qdsl)."""


def tables(result: RunResult) -> dict[str, pa.Table]:
    """Every table of a run by name: orders, fills, trades, equity and days."""
    return {
        "orders": orders(result),
        "fills": fills(result),
        "trades": trades(result),
        "equity": equity(result),
        "days": days(result),
    }


def orders(result: RunResult) -> pa.Table:
    """One row an order, refused ones too, with what became of it and the source line it is from."""
    rows = result.records[np.isin(result.records["kind"], [Kind.ORDER, Kind.REJECT])]
    sent = rows["kind"] == Kind.ORDER
    trigger = np.where(sent & (rows["d"] != rows["c"]), rows["d"], NONE)
    numbers = rows["a"].tolist()
    outcome, filled = _outcomes(result), _filled_lots(result)
    done = np.array([filled.get(number, 0) for number in numbers], np.int64)
    fates = [outcome.get(number, ("working", "")) for number in numbers]
    status = np.array([fate for fate, _ in fates], object)
    status[(status == "filled") & (np.abs(done) < np.abs(rows["b"]))] = "partly filled"
    return pa.table(
        {
            "time": _times(rows["ts_event"]),
            "order": pa.array(rows["a"]),
            "instrument": _symbols(result, rows),
            "side": _sides(rows["b"]),
            "type": _types(rows["c"] != NONE, trigger != NONE),
            "quantity": pa.array(quantities(result, rows, np.abs(rows["b"]))),
            "limit": _optional_prices(result, rows, rows["c"]),
            "trigger": _optional_prices(result, rows, trigger),
            "filled": pa.array(quantities(result, rows, np.abs(done))),
            "status": pa.array(status, pa.string()),
            "reason": pa.array([reason for _, reason in fates], pa.string()),
            "line": pa.array(np.where(sent, rows["e"] & 0xFFFF_FFFF, rows["d"])),
        }
    )


def _types(limited: npt.NDArray[np.bool_], triggered: npt.NDArray[np.bool_]) -> pa.Array:
    """The name of each order's type; a trigger is a stop's or a touch's price."""
    names = np.array([["market", "limit"], ["stop", "stop_limit"]])
    return pa.array(names[triggered.astype(int), limited.astype(int)])


def _outcomes(result: RunResult) -> dict[int, tuple[str, str]]:
    """Order number -> (status, reason); what was written last about an order decides."""
    outcome: dict[int, tuple[str, str]] = {}
    ends = {Kind.FILL: "filled", Kind.REJECT: "rejected", Kind.CANCEL: "cancelled"}
    rows = result.records[np.isin(result.records["kind"], list(ends))]
    for kind, number, code in zip(
        rows["kind"].tolist(), rows["a"].tolist(), rows["flags"].tolist(), strict=True
    ):
        reason = "" if kind == Kind.FILL else result.reasons.get(code, f"reason {code}")
        outcome[number] = (ends[Kind(kind)], reason)
    return outcome


def _filled_lots(result: RunResult) -> dict[int, int]:
    """Order number -> signed lots filled."""
    total: dict[int, int] = {}
    rows = result.of_kind(Kind.FILL)
    for number, lots in zip(rows["a"].tolist(), rows["b"].tolist(), strict=True):
        total[number] = total.get(number, 0) + lots
    return total


def fills(result: RunResult) -> pa.Table:
    """One row a fill."""
    rows = result.of_kind(Kind.FILL)
    return pa.table(
        {
            "time": _times(rows["ts_recv"]),
            "order": pa.array(rows["a"]),
            "instrument": _symbols(result, rows),
            "side": _sides(rows["b"]),
            "quantity": pa.array(quantities(result, rows, np.abs(rows["b"]))),
            "price": pa.array(prices(result, rows, rows["c"])),
            "fee": pa.array(result.money(rows["d"])),
            "position": pa.array(quantities(result, rows, rows["e"])),
        }
    )


def trades(result: RunResult) -> pa.Table:
    """One row a closed round trip; `mae` and `mfe` are its worst and best open profit."""
    rows, more = result.of_kind(Kind.ROUND_TRIP), result.of_kind(Kind.ROUND_TRIP_MORE)
    assert len(rows) == len(more), "each ROUND_TRIP is followed by its ROUND_TRIP_MORE"
    return pa.table(
        {
            "entry_time": _times(rows["a"]),
            "exit_time": _times(rows["ts_recv"]),
            "instrument": _symbols(result, rows),
            "side": pa.array(np.where(rows["d"] > 0, "long", "short")),
            "quantity": pa.array(quantities(result, rows, np.abs(rows["d"]))),
            "entry_price": pa.array(prices(result, rows, rows["b"])),
            "exit_price": pa.array(prices(result, rows, rows["c"])),
            "profit": pa.array(result.money(rows["e"])),
            "return": pa.array(trips_of(result).returns),
            "fees": pa.array(result.money(more["c"])),
            "mae": pa.array(result.money(more["d"])),
            "mfe": pa.array(result.money(more["e"])),
            "entry_bar": pa.array(more["a"]),
            "exit_bar": pa.array(more["b"]),
        }
    )


def equity(result: RunResult) -> pa.Table:
    """One row a bar: equity, drawdown as a fraction of the high so far, and the plots."""
    columns = {
        "time": _times(result.curve_ts),
        "equity": pa.array(result.money(result.curve_equity)),
        "drawdown": pa.array(curve_drawdown(result)),
    }
    for plot in result.plots:
        columns[f"plot.{plot.name}"] = pa.array(plot.values, from_pandas=True)
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
            "time": _times(rows["ts_event"]),
            "equity": pa.array(result.money(rows["a"])),
            "cash": pa.array(result.money(rows["b"])),
            "return": pa.array(sampled.returns, from_pandas=True),
            "drawdown": pa.array(drawdowns(sampled.returns)),
        }
    )


def prices(result: RunResult, rows: Structs, ticks: npt.NDArray[np.int64]) -> Float64s:
    """Ticks of each row's own instrument as prices."""
    return _scaled(rows, ticks, [instrument.tick for instrument in result.instruments])


def quantities(result: RunResult, rows: Structs, lots: npt.NDArray[np.int64]) -> Float64s:
    """Lots of each row's own instrument as units."""
    return _scaled(rows, lots, [instrument.lot for instrument in result.instruments])


def _scaled(rows: Structs, counts: npt.NDArray[np.int64], steps: list[Fraction]) -> Float64s:
    """counts * numerator / denominator: an exact product, then the only rounding."""
    which = rows["instrument"]
    numerators = np.array([step.numerator for step in steps], np.int64)
    denominators = np.array([step.denominator for step in steps], np.int64)
    scaled: Float64s = (counts * numerators[which]) / denominators[which]
    return scaled


def _optional_prices(result: RunResult, rows: Structs, ticks: npt.NDArray[np.int64]) -> pa.Array:
    """Prices, null where the order has none."""
    missing = ticks == NONE
    return pa.array(prices(result, rows, np.where(missing, 0, ticks)), mask=missing)


def _times(ts: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.ascontiguousarray(ts)).cast(TIME)


def _sides(lots: npt.NDArray[np.int64]) -> pa.Array:
    """Which way; null for a refused order of no size."""
    return pa.array(np.where(lots > 0, "buy", "sell"), mask=lots == 0)


def _symbols(result: RunResult, rows: Structs) -> pa.Array:
    names = pa.array([instrument.name for instrument in result.instruments], pa.string())
    return names.take(pa.array(np.ascontiguousarray(rows["instrument"])))
