"""The truth table of docs/fill-rules.md for ticks: each row is run by the core and by the model."""

from dataclasses import dataclass, field
from typing import Any

from quantdsl.events.layout import Aggressor, BookSide, Feed, Kind
from tests.std.core.core import members
from tests.std.core.parts import Config
from tests.std.core.tick_core import BOOK, Event, TickCore, delta, snapshot, trade
from tests.std.core.tick_model import TickModel
from tests.std.core.tick_play import equal
from tests.std.core.truth import PAGE

BEGIN, END = "<!-- tick table: generated -->", "<!-- end of tick table -->"
MS = 1_000_000
VENUE = {"latency_entry": MS, "latency_response": MS}
BIDS, ASKS = {999: 10, 998: 20}, {1001: 5, 1002: 10}
Message = list[Event]


@dataclass
class Row:
    """One order, what the market does once it has arrived, and the rule in words."""

    order: str
    asked: dict[str, Any]
    market: str
    why: str
    messages: list[Message] = field(default_factory=list)
    then: dict[str, Any] | None = None  # asked for after the first message that follows
    on_its_way: list[Message] = field(default_factory=list)


def sells(price: int, lots: int) -> Message:
    return [trade(price, lots, Aggressor.SELLS)]


def buys(price: int, lots: int) -> Message:
    return [trade(price, lots, Aggressor.BUYS)]


REST = {"verb": "buy", "lots": 4, "limit": 999}
HIDDEN = {**REST, "display": 2}
EIGHT = {"verb": "buy", "lots": 8, "limit": 1001}
OFFER = {"verb": "short", "lots": 3, "limit": 1000}
ASK_TO_999 = [delta(BookSide.BID, 999, 0), delta(BookSide.ASK, 999, 2)]
HIGHER = [delta(BookSide.ASK, 1001, 0), delta(BookSide.ASK, 1002, 0), delta(BookSide.ASK, 1003, 9)]
GAP = [(Kind.FEED, int(Feed.GAP))]
FAR = [delta(BookSide.BID, 990, 7)]
"""A message that concerns no order: time passes with it."""

ROWS = [
    Row("market, buy 8", {"verb": "buy", "lots": 8}, "-", "it walks the book"),
    Row("market, buy 20", {"verb": "buy", "lots": 20}, "-", "the book holds no more"),
    Row("limit 1001, buy 8", EIGHT, "-", "what its limit does not reach rests"),
    Row("limit 1001, buy 8, ioc", {**EIGHT, "tif": "ioc"}, "-", "the rest ends"),
    Row("limit 1001, buy 8, fok", {**EIGHT, "tif": "fok"}, "-", "all or nothing"),
    Row("limit 1001, buy 8, post-only", {**EIGHT, "post_only": True}, "-", "it would take"),
    Row("market, buy 8", {"verb": "buy", "lots": 8}, "asks move to 1003 while it travels",
        "the book counts as it is when the order arrives", on_its_way=[HIGHER]),
    Row("limit 1001, buy 8", EIGHT, "the feed has a gap while it travels",
        "nobody knows the book: no order", on_its_way=[GAP]),
    Row("limit 999, buy 4", REST, "8 sold at 999", "10 stand ahead of it", [sells(999, 8)]),
    Row("limit 999, buy 4", REST, "12 sold at 999", "10 ahead, then 2 of it", [sells(999, 12)]),
    Row("limit 999, buy 4", REST, "12 bought at 999", "a buyer meets sells", [buys(999, 12)]),
    Row("limit 999, buy 4", REST, "1 sold at 998", "a trade went through its price",
        [sells(998, 1)]),
    Row("limit 999, buy 4", REST, "999 goes from 10 to 3, then 5 sold there",
        "pessimistic: who cancels stands behind it, as long as there are such",
        [[delta(BookSide.BID, 999, 3)], sells(999, 5)]),
    Row("limit 999, buy 4", REST, "999 goes from 10 to 14, then 12 sold there",
        "who comes later stands behind it", [[delta(BookSide.BID, 999, 14)], sells(999, 12)]),
    Row("limit 999, buy 4", REST, "the ask falls to 999", "the book came through its price",
        [ASK_TO_999]),
    Row("limit 999, buy 4, display 2", HIDDEN, "13 sold at 999",
        "only what is shown fills; the rest goes to the end of the level", [sells(999, 13)]),
    Row("limit 999, buy 4, display 2", HIDDEN, "13, then 11 sold at 999",
        "10 ahead again, then 1", [sells(999, 13), sells(999, 11)]),
    Row("limit 999, buy 4, cancelled", REST, "20 sold at 999 while the cancel travels",
        "the cancel comes too late", [FAR, sells(999, 20)], {"verb": "cancel"}),
    Row("limit 999, buy 4, gtd", {**REST, "tif": "gtd", "expire_ts": 1006 * MS},
        "20 sold at 999 after that", "its time has passed", [FAR, sells(999, 20)]),
    Row("limit 1000, short 3, then market, buy 2", OFFER, "-",
        "no order trades with one's own: the one that rests ends", [FAR],
        {"verb": "buy", "lots": 2}),
    Row("stop 1002, buy 3", {"verb": "buy", "lots": 3, "stop": 1002}, "a trade at 1002",
        "a trade touches it; then it is a market order", [buys(1002, 1)]),
    Row("stop 1002, buy 3", {"verb": "buy", "lots": 3, "stop": 1002}, "the ask rises to 1003",
        "where trades are told, only trades touch", [HIGHER]),
]


def run(row: Row) -> str:
    """What becomes of the orders of a row, the same from the core and from the model."""
    core = TickCore({}, VENUE, sizes=BOOK)
    model = TickModel(Config(), VENUE, book=True)
    told: list[str] = []
    reasons = members("risk.Reason")
    ts = 1000 * MS

    def step(at: int, events: Message, intents: list[dict[str, Any]]) -> None:
        model.log.clear()
        records = core.message(at, events, intents)
        model.message(at, at, 0, events, intents)
        equal(core, model, records, row.order)
        for kind, flags, _, _, lots, price, _, _ in records:
            if kind == "FILL":
                told.append(f"{abs(lots)} at {price}{'' if flags else ', taking'}")
            elif kind in ("CANCEL", "REJECT"):
                told.append(f"ends: `{reasons[flags]}`")

    step(ts, snapshot(BIDS, ASKS), [{"inst": 0, "line": 1, **row.asked}])
    for n, message in enumerate(row.on_its_way):
        step(ts + (n + 1) * MS // 2, message, [])
    # The first one after the arrival shows that the order is there.
    step(ts + 2 * MS, FAR, [])
    for n, message in enumerate(row.messages):
        after = [{"inst": 0, "line": 2, **row.then}] if row.then and n == 0 else []
        at = ts + (5 + 4 * n) * MS if row.then is None or n == 0 else ts + 5 * MS + MS // 2
        step(at, message, after)
    for n in range(3):
        step(ts + (40 + 5 * n) * MS, [(Kind.FEED, int(Feed.STALE))], [])
        step(ts + (41 + 5 * n) * MS, FAR, [])
    return "; ".join(told) or "-"


def table() -> str:
    """The rows in Markdown."""
    lines = ["| order | market | what becomes of it | why |", "|---|---|---|---|"]
    lines += [f"| {row.order} | {row.market} | {run(row)} | {row.why} |" for row in ROWS]
    return "\n".join(lines)


def page_with(text: str) -> str:
    """The page with this table in its place."""
    before, rest = PAGE.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page_with(table()))
