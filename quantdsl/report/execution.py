"""What became of the orders of a run on ticks: filled or not, as maker or taker, and what followed.

A fill counts at the venue's own time. The middle is that of the data's quotes, without any that of
the book, and where there is neither the last price traded; a mark-out beyond the end of the data is
left out.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.events.layout import NO_PRICE, Kind
from quantdsl.report.formula import Floats, Formulas, ratio
from quantdsl.report.order_sizes import last_terms, order_sizes

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Structs = npt.NDArray[np.void]

SECOND_NS = 1_000_000_000
HORIZONS_S = (0.0, 0.1, 1.0, 10.0, 60.0, 300.0)
"""Times after a fill at which the middle is compared with its price."""

Middles = Callable[[int, Int64s], Float64s]
"""Takes an instrument and moments of the venue's time to the middle then, in ticks, else NaN."""


class Execution(Struct, frozen=True, kw_only=True):
    """The orders and fills of a run on ticks, [o] accepted orders and [f] fills."""

    assumptions: tuple[str, ...]  # latencies and queues, a line each
    order_lots: Int64s  # [o]
    order_filled: Int64s  # [o]
    fill_lots: Int64s  # [f] positive
    buys: Bools  # [f]
    maker: Bools  # [f]
    markout: Float64s  # [f, len(HORIZONS_S)] ticks in favour of the fill
    queue_ahead: Int64s  # [n] lots ahead of each order that came to rest, where they are known
    queue_s: Float64s  # [n] seconds from resting to the first fill, of those filled there
    position_ts: Int64s  # [p] ns
    position_lots: Int64s  # [p] sum of absolute positions from then on
    end_ts: int


def execution_of(
    records: Structs, middles: Middles, end_ts: int, assumptions: tuple[str, ...]
) -> Execution:
    """The orders and fills among `records`, marked against the market."""

    def of(kind: Kind) -> Structs:
        chosen: Structs = records[records["kind"] == kind]
        return chosen

    fills, orders, rests = of(Kind.FILL), of(Kind.ORDER), of(Kind.ACK)
    accepted = last_terms(orders[~np.isin(orders["a"], of(Kind.REJECT)["a"])])
    sizes = order_sizes(accepted, records)
    rests = rests[rests["flags"] == 0]  # else it was made smaller, and kept its place
    ahead = rests["d"].astype(np.int64)
    lots = fills["b"].astype(np.int64)
    position_ts, position_lots = _positions(fills)
    return Execution(
        assumptions=assumptions,
        order_lots=np.abs(sizes.asked),
        order_filled=np.abs(sizes.filled),
        fill_lots=np.abs(lots),
        buys=lots > 0,
        maker=fills["flags"] != 0,
        markout=_markouts(fills, middles),
        queue_ahead=ahead[ahead < NO_PRICE],
        queue_s=_queue_times(fills, rests),
        position_ts=position_ts,
        position_lots=position_lots,
        end_ts=end_ts,
    )


def _markouts(fills: Structs, middles: Middles) -> Float64s:
    found = np.full((len(fills), len(HORIZONS_S)), np.nan)
    for instrument in np.unique(fills["instrument"]).tolist():
        own = np.flatnonzero(fills["instrument"] == instrument)
        sign, price = np.sign(fills["b"][own]), fills["c"][own]
        later = np.array([round(seconds * SECOND_NS) for seconds in HORIZONS_S])
        moments = fills["ts_recv"][own].astype(np.int64)[:, None] + later
        middle = middles(int(instrument), moments.ravel()).reshape(moments.shape)
        found[own] = sign[:, None] * (middle - price[:, None])
    return found


def _queue_times(fills: Structs, rests: Structs) -> Float64s:
    """Seconds from the last time an order came to rest before its first fill as a maker to that."""
    makers = fills[fills["flags"] != 0]
    numbers, first = np.unique(makers["a"], return_index=True)
    filled = dict(zip(numbers.tolist(), makers["ts_recv"][first].tolist(), strict=True))
    rested = {
        number: ts
        for number, ts in zip(rests["a"].tolist(), rests["ts_recv"].tolist(), strict=True)
        if ts <= filled.get(number, -1)
    }
    waits = [(filled[number] - ts) / SECOND_NS for number, ts in rested.items()]
    return np.array(waits, np.float64)


def _positions(fills: Structs) -> tuple[Int64s, Int64s]:
    """The sum of absolute positions in lots after each fill."""
    held: dict[int, int] = {}
    sums = []
    for instrument, lots in zip(fills["instrument"].tolist(), fills["e"].tolist(), strict=True):
        held[instrument] = abs(lots)
        sums.append(sum(held.values()))
    return fills["ts_recv"].astype(np.int64), np.array(sums, np.int64)


def weighted(values: Float64s, weights: Int64s) -> Floats:
    """The mean by weight of the values that are known."""
    known = np.isfinite(values)
    return ratio(float((values[known] * weights[known]).sum()), float(weights[known].sum()))


EXECUTION: Formulas[Execution] = Formulas("order records and ticks")
_of = EXECUTION.add


@_of("execution", "fraction")
def fill_ratio(x: Execution) -> Floats:
    """Fill ratio.

    lots filled / lots of accepted orders, as they were last changed; an exit without a size is as
    large as what it filled, or had to fill
    """
    return ratio(float(x.order_filled.sum()), float(x.order_lots.sum()))


@_of("execution", "fraction")
def orders_filled_share(x: Execution) -> Floats:
    """Orders with a fill.

    accepted orders with at least one fill / accepted orders
    """
    return ratio(float(np.count_nonzero(x.order_filled)), float(len(x.order_filled)))


@_of("execution", "fraction")
def maker_share(x: Execution) -> Floats:
    """Maker share.

    lots filled while resting / lots filled
    """
    return ratio(float(x.fill_lots[x.maker].sum()), float(x.fill_lots.sum()))


@_of("execution", "fraction")
def taker_share(x: Execution) -> Floats:
    """Taker share.

    lots filled on arrival / lots filled
    """
    return ratio(float(x.fill_lots[~x.maker].sum()), float(x.fill_lots.sum()))


@_of("execution", "count")
def queue_ahead(x: Execution) -> Floats:
    """Lots ahead on joining a level.

    mean over the orders that came to rest where the data tell what their level holds
    """
    return ratio(float(x.queue_ahead.sum()), float(len(x.queue_ahead)))


def _quantile(values: Float64s, share: float) -> Floats:
    return np.asarray(np.quantile(values, share) if len(values) else np.nan)


@_of("execution", "seconds")
def queue_time(x: Execution) -> Floats:
    """Time in the queue, median.

    from coming to rest to the first fill there, both in the venue's time; filled orders only
    """
    return _quantile(x.queue_s, 0.5)


@_of("execution", "seconds")
def queue_time_95(x: Execution) -> Floats:
    """Time in the queue, 95th percentile.

    as the median, linear between samples
    """
    return _quantile(x.queue_s, 0.95)


def _markout(x: Execution, seconds: float) -> Floats:
    return weighted(x.markout[:, HORIZONS_S.index(seconds)], x.fill_lots)


@_of("execution", "ticks")
def markout_0s(x: Execution) -> Floats:
    """Mark-out at the fill.

    mean by lots of side * (middle - price), side 1 for a buy and -1 for a sell: what the spread
    gave (maker) or took (taker)
    """
    return _markout(x, 0.0)


@_of("execution", "ticks")
def markout_1s(x: Execution) -> Floats:
    """Mark-out after 1 s.

    mean by lots of side * (middle 1 s after the fill - price)
    """
    return _markout(x, 1.0)


@_of("execution", "ticks")
def markout_10s(x: Execution) -> Floats:
    """Mark-out after 10 s.

    mean by lots of side * (middle 10 s after the fill - price)
    """
    return _markout(x, 10.0)


@_of("execution", "ticks")
def markout_60s(x: Execution) -> Floats:
    """Mark-out after 60 s.

    mean by lots of side * (middle 60 s after the fill - price)
    """
    return _markout(x, 60.0)


@_of("execution", "count")
def inventory_max(x: Execution) -> Floats:
    """Largest inventory, lots.

    largest sum of absolute positions over the instruments
    """
    return np.asarray(float(x.position_lots.max(initial=0)))


@_of("execution", "count")
def inventory_mean(x: Execution) -> Floats:
    """Mean inventory, lots.

    mean over time, from the first fill to the end, of the sum of absolute positions
    """
    lasted = np.diff(np.append(x.position_ts, x.end_ts))
    return ratio(float((x.position_lots * lasted).sum()), float(lasted.sum()))
