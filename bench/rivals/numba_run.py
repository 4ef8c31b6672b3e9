"""A fused loop compiled by numba: what one would write by hand, and our anchor.

`bare` is the loop whose speed is quoted beside the oracle (no fees, no equity): the machine is as
fast as it should be where it reaches that. `full` does what a backtest has to do: fees, cash,
equity a bar, drawdown, daily returns, and the figures of every trade.
"""

import sys

import numpy as np
from numba import njit
from serve import Bars, Run, serve

FAST, SLOW = 10, 30
DAY_NS = 86_400_000_000_000


@njit(cache=False)
def bare(close: np.ndarray) -> tuple[int, float]:
    fast_sum = slow_sum = 0.0
    was_above = False
    held, entry, trades, profit = False, 0.0, 0, 0.0
    for t in range(len(close)):
        fast_sum += close[t]
        slow_sum += close[t]
        if t >= FAST:
            fast_sum -= close[t - FAST]
        if t >= SLOW:
            slow_sum -= close[t - SLOW]
        if t < SLOW - 1:
            continue
        above = fast_sum * (SLOW / FAST) > slow_sum
        if t >= SLOW:
            if above and not was_above and not held:
                held, entry = True, close[t]
            elif was_above and not above and held:
                held, trades, profit = False, trades + 1, profit + close[t] - entry
        was_above = above
    return trades, profit + (close[-1] - entry if held else 0.0)


@njit(cache=False)
def full(
    ts: np.ndarray, opens: np.ndarray, high: np.ndarray, low: np.ndarray, close: np.ndarray,
    fee_rate: float, curve: np.ndarray, ledger: np.ndarray,
) -> tuple[int, float]:  # fmt: skip
    fast_sum = slow_sum = 0.0
    was_above = False
    cash, start, lots, entry, entry_ts, best, worst = 100_000.0, 100_000.0, 0.0, 0.0, 0, 0.0, 0.0
    order, trades, wins, fees, gained, lost_money = 0, 0, 0, 0.0, 0.0, 0.0
    peak, peak_ts, deepest, under_ns, exposed = start, ts[0], 0.0, 0, 0
    day, day_equity, days, sum_r, sum_rr, sum_down = ts[0] // DAY_NS, start, 0, 0.0, 0.0, 0.0
    for t in range(len(close)):
        if order != 0:
            fee = opens[t] * fee_rate
            cash -= order * opens[t] + fee
            fees += fee
            if order > 0:
                entry, entry_ts, best, worst = opens[t], ts[t], opens[t], opens[t]
            else:
                net = opens[t] - entry - fee - entry * fee_rate
                wins += net > 0.0
                gained += max(net, 0.0)
                lost_money -= min(net, 0.0)
                ledger[trades, 0], ledger[trades, 1] = entry_ts, ts[t]
                ledger[trades, 2], ledger[trades, 3], ledger[trades, 4] = entry, opens[t], net
                ledger[trades, 5], ledger[trades, 6] = best - entry, worst - entry
                trades += 1
            lots += order
            order = 0
        if lots > 0.0:
            exposed += 1
            best, worst = max(best, high[t]), min(worst, low[t])
        equity = cash + lots * close[t]
        curve[t] = equity
        if equity >= peak:
            peak, peak_ts = equity, ts[t]
        deepest = max(deepest, 1.0 - equity / peak)
        under_ns = max(under_ns, ts[t] - peak_ts)
        if ts[t] // DAY_NS != day:
            r = equity / day_equity - 1.0
            day, day_equity, days = ts[t] // DAY_NS, equity, days + 1
            sum_r, sum_rr, sum_down = sum_r + r, sum_rr + r * r, sum_down + min(r, 0.0) ** 2
        fast_sum += close[t]
        slow_sum += close[t]
        if t >= FAST:
            fast_sum -= close[t - FAST]
        if t >= SLOW:
            slow_sum -= close[t - SLOW]
        if t < SLOW - 1:
            continue
        above = fast_sum * (SLOW / FAST) > slow_sum
        if t >= SLOW and above != was_above:
            order = 1 if above and lots == 0.0 else (-1 if lots > 0.0 and not above else 0)
        was_above = above
    ledger[-1, 0], ledger[-1, 1], ledger[-1, 2] = deepest, under_ns, exposed
    ledger[-1, 3], ledger[-1, 4], ledger[-1, 5] = sum_r, sum_rr, sum_down
    ledger[-1, 6] = wins + gained + lost_money + fees + days
    return trades, cash + lots * close[-1] - start


def prepare(bars: Bars) -> Run:
    close = bars["close"]
    if sys.argv[2] == "bare":
        bare(close)
        return lambda: bare(close)
    columns = [bars[name] for name in ("ts", "open", "high", "low", "close")]

    def run() -> tuple[int, float]:
        curve, ledger = np.empty(len(close)), np.empty((len(close) // 4, 7))
        trades, profit = full(*columns, 0.0, curve, ledger)
        return trades, profit

    run()
    return run


serve(prepare)
