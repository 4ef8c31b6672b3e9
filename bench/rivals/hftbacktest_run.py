"""hftbacktest: a maker at the touch, whole latency and queue model, on the recorded events.

    hftbacktest_run.py EVENTS.npz FILLS.npy

Answers each line of stdin by a run: seconds, events, wakes. The first one leaves its fills in
FILLS.npy: side, ticks, lots, time at the venue, time when we knew.
"""

import json
import sys
import time

import numpy as np
from hftbacktest import GTX, LIMIT, BacktestAsset, HashMapMarketDepthBacktest
from hftbacktest.data import correct_event_order
from hftbacktest.types import (
    BUY_EVENT,
    DEPTH_EVENT,
    LOCAL_EVENT,
    SELL_EVENT,
    TRADE_EVENT,
    event_dtype,
)
from numba import njit

TICK, LOT = 0.1, 0.001
LOTS = 1
LATENCY_NS = 10_000_000
NEW, FILLED, NOTHING = 1, 3, 0
FEED = 2
FILL_WORDS, FILLS_MAX = 4, 100_000
FOREVER_NS = 10**15


def events(path: str) -> np.ndarray:
    """The recording as hftbacktest takes it: rows that the venue and we see in another order,
    twice."""
    with np.load(path) as stored:
        rows = np.zeros(len(stored["ticks"]), event_dtype)
        what = np.where(stored["trade"], TRADE_EVENT, DEPTH_EVENT)
        rows["ev"] = what | np.where(stored["buy"], BUY_EVENT, SELL_EVENT)
        rows["exch_ts"], rows["local_ts"] = stored["ts"], stored["recv"]
        rows["px"], rows["qty"] = stored["ticks"] * TICK, stored["lots"] * LOT
    by_venue = np.argsort(rows["exch_ts"], kind="mergesort")
    by_us = np.argsort(rows["local_ts"], kind="mergesort")
    return correct_event_order(rows, by_venue, by_us)


def opened(rows: np.ndarray) -> HashMapMarketDepthBacktest:
    asset = (
        BacktestAsset()
        .data([rows])
        .linear_asset(1.0)
        .constant_order_latency(LATENCY_NS, LATENCY_NS)
        .risk_adverse_queue_model()
        .no_partial_fill_exchange()
        .trading_value_fee_model(0.0, 0.0)
        .tick_size(TICK)
        .lot_size(LOT)
        .last_trades_capacity(0)
    )
    return HashMapMarketDepthBacktest([asset])


@njit
def make(hbt, received, told, fills):
    """Quotes LOTS a side at the touch after each message, when nothing of ours is under way.

    What the venue did becomes known once a message shows a later time: `told` at `received`.
    """
    ids = np.zeros(2, np.uint64)
    at = np.zeros(2, np.int64)  # ticks
    next_id = np.uint64(1)
    sent = -FOREVER_NS
    wakes, n, k = 0, 0, 0
    while hbt.wait_next_feed(False, FOREVER_NS) == FEED:
        wakes += 1
        now = hbt.current_timestamp
        while k + 1 < len(received) and received[k + 1] <= now:
            k += 1
        depth = hbt.depth(0)
        touch = (depth.best_bid_tick, depth.best_ask_tick)
        orders = hbt.orders(0)
        for side in range(2):
            order = orders.get(ids[side]) if ids[side] != 0 else None
            if order is None or order.req != NOTHING:
                continue
            filled = order.status == FILLED  # by the very message that tells of its time
            if order.exch_timestamp >= told[k] + np.int64(filled):
                continue
            if filled:
                fills[n, 0] = 1 if side == 0 else -1
                fills[n, 1] = order.exec_price_tick
                fills[n, 2] = order.exch_timestamp
                fills[n, 3] = now
                n += 1
            if order.status != NEW:
                ids[side] = 0
        answered = now >= sent + 2 * LATENCY_NS and told[k] > sent + LATENCY_NS
        if not answered or touch[0] >= touch[1]:
            continue
        for side in range(2):
            if ids[side] == 0:
                price = touch[side] * TICK
                if side == 0:
                    hbt.submit_buy_order(0, next_id, price, LOTS * LOT, GTX, LIMIT, False)
                else:
                    hbt.submit_sell_order(0, next_id, price, LOTS * LOT, GTX, LIMIT, False)
                ids[side], at[side], sent = next_id, touch[side], now
                next_id += np.uint64(1)
            elif at[side] != touch[side]:
                hbt.cancel(0, ids[side], False)
                sent = now
    return wakes, n


def main() -> None:
    rows = events(sys.argv[1])
    seen = rows[(rows["ev"] & LOCAL_EVENT) == LOCAL_EVENT]
    received = seen["local_ts"].copy()
    told = np.maximum.accumulate(seen["exch_ts"])
    fills = np.zeros((FILLS_MAX, FILL_WORDS), np.int64)
    kept = False
    for _ in sys.stdin:
        market = opened(rows)
        start = time.process_time()
        wakes, n = make(market, received, told, fills)
        seconds = time.process_time() - start
        market.close()
        if not kept:  # this run has compiled, too: its time is none
            np.save(sys.argv[2], fills[:n])
            kept = True
        answer = {"cpu_seconds": seconds, "events": len(rows), "wakes": wakes, "fills": n}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
