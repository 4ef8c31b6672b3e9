"""The hand-written CUDA kernels that the speed of sweeps is measured against: built, fed, checked.

Each returns what a sweep of its strategy returns, lane by lane, so that the same work is compared.
`nvcc` is needed to build them and a GPU to run them.
"""

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from quantdsl.events.layout import BookSide, Kind

HERE = Path(__file__).resolve().parent
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]

RESULT = np.dtype(
    [
        (name, np.float64)
        for name in (
            "trades", "wins", "gross_profit", "gross_loss", "fees", "cash", "equity", "peak",
            "dd_drop", "dd_peak", "days", "returns", "squares", "bars_in_market",
        )
    ]
)  # fmt: skip
"""As `struct Result` of both kernels; money in money units."""
METRICS = "trades win_rate profit_factor fees net_profit max_drawdown sharpe exposure".split()
"""What a sweep makes of such a result: one beside an anchor keeps no other metric."""

MAKER_RESULT = np.dtype(
    [
        (name, np.float64)
        for name in (
            "trades", "wins", "gross_profit", "gross_loss", "fills", "fees_paid", "equity_last",
            "dd_drop", "dd_peak", "bars_in_market", "overflow",
        )
    ]
)  # fmt: skip
"""As `struct Result` of the maker, by the names of the core's metrics; money in money units."""

MESSAGE = np.dtype(
    [
        ("ts", "i8"), ("now", "i8"), ("base", "f8"), ("var_h", "f8"), ("bids", "u8"),
        ("asks", "u8"), ("first", "i4"), ("count", "i4"), ("bid", "i4"), ("ask", "i4"),
        ("kind", "i4"), ("wide", "i4"),
    ]
)  # fmt: skip
IS_TRADE, BUYS, SELLS, VALID, ON_BOOK, TRADING = 1, 2, 4, 8, 16, 32
"""Bits of `kind`, as the kernel has them."""

FAR = 1_000
"""No order of a lane rests so many ticks away from every touch; one that did would overflow."""

NS_PER_DAY = 86_400_000_000_000


class Market(NamedTuple):
    """Bars as the anchors take them; the days as numbers of bars from the first on."""

    ticks: Float64s  # [bars, 4]: open, high, low, close
    tick: Fraction
    money: int  # money units of one tick of one lot
    day_ends: Int32s

    def close(self, real: Any = np.float64) -> npt.NDArray[Any]:
        """Prices, by operations that each round to `real`: the count of ticks is rounded too."""
        numerator, denominator = real(self.tick.numerator), real(self.tick.denominator)
        return self.ticks[:, 3].astype(real) * numerator / denominator

    def means(self, longest: int, real: Any = np.float64) -> npt.NDArray[Any]:
        """The mean of the first n closes, for n from 1 to `longest`, computed in `real`."""
        totals = np.cumsum(self.close(real), dtype=np.float64)[:longest]
        return totals.astype(real) / np.arange(1, len(totals) + 1).astype(real)


class Account(NamedTuple):
    """Money in money units; `rate` is the fee as a share, `scale` the money units of 1."""

    cash: float
    rate: float
    scale: float
    lots_max: float


def market_of(events: npt.NDArray[np.void], tick: Fraction, money: int) -> Market:
    """The bars among `events`, whose payload is open, high, low, close (ticks) and volume."""
    bars = events[events["kind"] == Kind.BAR]
    day = (bars["ts_event"] - 1) // NS_PER_DAY
    ends = np.append(np.flatnonzero(np.diff(day)) + 1, len(bars)).astype(np.int32)
    return Market(bars["payload"][:, :4].astype(np.float64), tick, money, ends)


@functools.cache
def build(source: str, *options: str) -> ctypes.CDLL:
    """The shared library of a kernel, made by nvcc for the machine's GPU."""
    target = Path(tempfile.mkdtemp()) / f"{source}.so"
    command = ["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", *options]
    subprocess.run([*command, "-o", str(target), str(HERE / f"{source}.cu")], check=True)
    return ctypes.CDLL(str(target))


def ema_cross(
    library: ctypes.CDLL,
    market: Market,
    points: Int32s,
    account: Account,
    *,
    block: int = 128,
    rounds: int = 5,
    real: Any = np.float64,
) -> tuple[npt.NDArray[np.void], Float64s]:
    """RESULT of every lane, and the kernel's seconds in each round.

    `points` is [2, lanes]: fast and slow. Trading starts with bar points.max(), counted from 0.
    `real` is the type of the averages that the library was built for.
    """
    lanes, warm = points.shape[1], int(points.max())
    bars = np.zeros(len(market.ticks), [("close", real), ("pad", real), ("money", "f8", 2)])
    bars["close"] = market.close(real)
    bars["money"] = market.ticks[:, [0, 3]] * market.money
    results, seconds = np.zeros(lanes, RESULT), np.zeros(rounds)
    code = library.run_ema_cross(
        *_market(bars, market.means(warm, real), market.day_ends),
        _address(np.ascontiguousarray(points, np.int32)), lanes, warm,
        ctypes.c_double(account.cash), ctypes.c_double(account.rate),
        ctypes.c_double(account.scale), _address(results), block, rounds, _address(seconds),
    )  # fmt: skip
    _check(code)
    return results, seconds


def bracket(
    library: ctypes.CDLL,
    market: Market,
    points: Float64s,
    account: Account,
    *,
    block: int = 128,
    rounds: int = 5,
) -> tuple[npt.NDArray[np.void], Float64s]:
    """RESULT of every lane, and the kernel's seconds in each round.

    `points` is [4, lanes]: fast, dip, above, below. Trading starts with bar 4 * the longest fast.
    """
    lanes, warm = points.shape[1], 4 * int(points[0].max())
    tick = (market.tick.numerator, market.tick.denominator)
    costs = np.array([*account[:3], market.money, *tick, account.lots_max, 0.2, 0.25], np.float64)
    results, seconds = np.zeros(lanes, RESULT), np.zeros(rounds)
    code = library.run_bracket(
        *_market(np.ascontiguousarray(market.ticks), market.means(warm), market.day_ends),
        _address(np.ascontiguousarray(points, np.float64)), lanes, warm, _address(costs),
        _address(results), block, rounds, _address(seconds),
    )  # fmt: skip
    _check(code)
    return results, seconds


class Ticks(NamedTuple):
    """A recorded book as the maker's anchor takes it: built once, a level's past by its price."""

    messages: npt.NDArray[np.void]
    deltas: Int32s  # [delta, 2]: price (of asks negative), lots
    past: Int32s  # [delta, 2]: number of the delta, lots; by price, bids before asks
    starts: Int32s  # where the past of each price begins
    price_min: int


class Shown(NamedTuple):
    """What a run of the strategy knows after each message, an array for each."""

    bid: Float64s
    ask: Float64s
    valid: Float64s
    fair: Float64s
    sigma: Float64s
    imbalance: Float64s
    flow: Float64s


def ticks_of(events: npt.NDArray[np.void], shown: Shown, start_ns: int, seconds: float) -> Ticks:
    """The ticks among `events`; trading starts at `start_ns`, variance is over `seconds`."""
    events = events[events["kind"] != Kind.SESSION]
    book, trade = events["kind"] == Kind.BOOK_DELTA, events["kind"] == Kind.TRADE
    last = np.flatnonzero(events["flags"] == 0)
    before = np.concatenate([[0], np.cumsum(book)])
    begin = np.concatenate([[0], last[:-1] + 1])
    ends = events[last]
    made = np.zeros(len(last), MESSAGE)
    made["ts"], made["now"] = ends["ts_event"], ends["ts_recv"]
    made["first"], made["count"] = before[begin], before[last + 1] - before[begin]
    traded = trade[last]
    spread = (shown.ask - shown.bid) * 1.0 / 10.0
    lean = (0.6 * shown.imbalance + 0.4 * shown.flow) * spread / 2.0
    made["base"] = shown.fair + lean
    made["var_h"] = shown.sigma / 0.1 * (shown.sigma / 0.1) * seconds
    made["wide"] = shown.ask - shown.bid > 12
    made["bid"] = np.where(traded, ends["payload"][:, 0], shown.bid)
    made["ask"] = np.where(traded, ends["payload"][:, 1], shown.ask)
    trading = ends["ts_recv"] >= start_ns
    side = np.array([0, BUYS, SELLS])[np.where(traded, ends["side"], 0)]
    handled = ~traded & (shown.valid != 0) & trading
    made["kind"] = traded * IS_TRADE + side + (shown.valid != 0) * VALID
    made["kind"] += handled * ON_BOOK + trading * TRADING
    levels = events[book]
    price, lots = levels["payload"][:, 0], levels["payload"][:, 1]
    asks = levels["side"] == BookSide.ASK
    deltas = np.stack([np.where(asks, -price, price), lots], 1).astype(np.int32)
    bit = np.uint64(1) << (price & 63).astype(np.uint64)
    whole = np.flatnonzero(made["count"])
    for name, of in (("bids", ~asks), ("asks", asks)):
        bits = np.where(of, bit, np.uint64(0))
        made[name][whole] = np.bitwise_or.reduceat(bits, made["first"][whole])
    quoted = handled.nonzero()[0]
    price_min = int(shown.bid[quoted].min()) - FAR
    prices = int(shown.ask[quoted].max()) + FAR - price_min
    near = np.flatnonzero((price >= price_min) & (price < price_min + prices))
    key = price[near] - price_min + asks[near] * prices
    order = np.argsort(key, kind="stable")
    past = np.stack([near[order], lots[near[order]]], 1).astype(np.int32)
    starts = np.searchsorted(key[order], np.arange(2 * prices + 1)).astype(np.int32)
    return Ticks(made, deltas, past, starts, price_min)


def skewed_maker(
    library: ctypes.CDLL,
    ticks: Ticks,
    points: Float64s,
    costs: Sequence[float],
    *,
    block: int = 128,
    rounds: int = 5,
) -> tuple[npt.NDArray[np.void], Float64s]:
    """MAKER_RESULT of every lane, and the kernel's seconds in each round.

    `points` is [3, lanes]: gamma, log(1 + gamma / kappa) / gamma, clip; `costs` is cash, money
    units of 1, the maker's rate, money of a tick of a lot, latency of entry and of response.
    """
    lanes = points.shape[1]
    given = np.zeros(1, [("of", "f8", 3), ("whole", "i8", 3), ("prices", "i4", 2)])
    given["of"], given["whole"] = costs[:3], costs[3:]
    given["prices"] = ticks.price_min, (len(ticks.starts) - 1) // 2
    results, seconds = np.zeros(lanes, MAKER_RESULT), np.zeros(rounds)
    code = library.run_skewed_maker(
        *_market(ticks.messages, ticks.deltas, ticks.past, ticks.starts),
        _address(np.ascontiguousarray(points, np.float64)), lanes, _address(given),
        _address(results), block, rounds, _address(seconds),
    )  # fmt: skip
    _check(code)
    return results, seconds


def _market(*arrays: npt.NDArray[Any]) -> list[Any]:
    """Address and length of each array."""
    return [part for array in arrays for part in (_address(array), len(array))]


def _address(array: npt.NDArray[Any]) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)  # keeps the array alive as long as the pointer


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"CUDA error {code}")
