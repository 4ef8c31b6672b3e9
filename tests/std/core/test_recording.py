"""The venue on a recording: fills of takers as another simulator published them."""

import csv

import numpy as np

from quantdsl.events.layout import Kind
from tests.std.book.recordings import path
from tests.std.core.recording import messages
from tests.std.core.tick_core import RECORDED, TickCore

MS = 1_000_000


def taker_fills() -> list[dict[str, int]]:
    """Sixty orders of 0.01 for the touch or better, each five seconds after the last."""
    with path("expected/hftbacktest_taker_fills.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [
        {
            "sent": int(row["local_ts_ns"]),
            "lots": int(row["side"]) * round(float(row["exec_qty"]) * 1000),
            "price": round(float(row["exec_price"]) * 10),
            "venue": int(row["exch_ts_ns"]),
            "known": int(row["resp_local_ts_ns"]),
        }
        for row in rows
    ]


def play_takers(orders: list[dict[str, int]]) -> list[list[tuple[int, int, int, int]]]:
    """(lots, price, venue time, time known) of the fills of each order."""
    venue = {"latency_entry": 10 * MS, "latency_response": 10 * MS}
    core = TickCore({"price_max": 10**8, "money": 100}, venue, sizes=RECORDED)
    stream = messages()
    ends = np.flatnonzero(stream["flags"] == 0) + 1
    received = stream["ts_recv"][ends - 1]
    begin = 0
    for order in orders:
        verb = "buy" if order["lots"] > 0 else "short"
        intent = {"verb": verb, "lots": abs(order["lots"]), "tif": "ioc", "line": 1}
        last = order["known"] + 1000 * MS
        for now, intents in ((order["sent"], [intent]), (order["known"], []), (last, [])):
            stop = int(ends[np.searchsorted(received, now, "right") - 1])
            core.feed(stream[begin:stop])
            begin = stop
            core.ingest(now, now, 0, Kind.TIMER, 0)
            core.act(intents)
    rows = core.rows()
    fills = rows[rows["kind"] == Kind.FILL]
    columns = [fills[name].tolist() for name in ("a", "b", "c", "ts_recv", "ts_event")]
    found: dict[int, list[tuple[int, int, int, int]]] = {}
    for order_id, *fill in zip(*columns, strict=True):
        found.setdefault(order_id, []).append(tuple(fill))
    return list(found.values())


def shown(stream: np.ndarray, ts: int) -> int:
    """When the first message is received that happened after `ts`."""
    return int(stream["ts_recv"][stream["ts_event"] > ts].min())


def test_takers_fill_where_another_simulator_filled_them() -> None:
    """All sixty orders, at the price and time of its list, with two differences that have a name.

    The other simulator fills an order whole at the best price and knows of it although no message
    shows it yet. Ours walks the book, and hears of a fill when a later message has come.
    """
    orders, stream = taker_fills(), messages()
    found = play_takers(orders)
    assert len(found) == len(orders) == 60
    walked = {}
    for number, (order, fills) in enumerate(zip(orders, found, strict=True)):
        assert sum(lots for lots, *_ in fills) == order["lots"]
        assert fills[0][1] == order["price"]
        assert {venue for _, _, venue, _ in fills} == {order["venue"]}
        known = max(order["known"], shown(stream, order["venue"]))
        assert {heard for *_, heard in fills} == {known}
        if len(fills) > 1:
            walked[number] = [(lots, price) for lots, price, *_ in fills]
    assert walked == {49: [(-2, 616_404), (-8, 616_403)]}
    late = [order["known"] < shown(stream, order["venue"]) for order in orders]
    assert 0 < sum(late) < 60
