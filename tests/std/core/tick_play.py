"""Random ticks and orders, played to the core and to the model side by side."""

import random
from typing import Any

from quantdsl.events.layout import Aggressor, BookSide, Feed, Kind
from tests.std.core.core import Sizes
from tests.std.core.parts import NONE, Config
from tests.std.core.play import compare, config_words, set_limits
from tests.std.core.tick_core import BOOK, QUOTES, Event, TickCore, delta, quote, snapshot, trade
from tests.std.core.tick_model import TickModel

MS = 1_000_000
LATENCIES = {"latency_entry": 3 * MS, "latency_response": 2 * MS}


class Street:
    """A market near 1000 that makes one message after another."""

    def __init__(self, rng: random.Random, *, book: bool) -> None:
        self.rng, self.book, self.mid = rng, book, 1000
        self.levels: dict[BookSide, dict[int, int]] = {BookSide.BID: {}, BookSide.ASK: {}}
        self.lost = True

    def message(self) -> list[Event]:
        """Mostly the touch and trades at it; now and then what no venue should send."""
        rng, chance = self.rng, self.rng.random()
        self.mid = max(self.mid + rng.choice([-1, 0, 0, 0, 1]), 900)
        if chance < 0.02:
            self.lost = True
            return [(Kind.FEED, int(rng.choice([Feed.GAP, Feed.RESET, Feed.STALE, Feed.GOOD])))]
        if chance < 0.4:
            price = self.mid + rng.choice([-2, -1, -1, 0, 0, 1, 1, 2])
            return [trade(price, rng.randint(1, 15), rng.choice(list(Aggressor)))]
        return self.depth() if self.book else [self.touch()]

    def touch(self) -> Event:
        rng = self.rng
        bid, ask = self.mid - rng.randint(0, 2), self.mid + rng.randint(0, 2)
        sizes = rng.randint(1, 20), rng.randint(1, 20)
        sides = rng.choice([(bid, ask)] * 9 + [(None, ask), (bid, None)])
        return quote(*sides, *sizes)

    def depth(self) -> list[Event]:
        rng = self.rng
        if (self.lost and rng.random() < 0.5) or not self.levels[BookSide.BID]:
            self.lost = False
            bids = {self.mid - 1 - n: rng.randint(1, 20) for n in range(6)}
            asks = {self.mid + 1 + n: rng.randint(1, 20) for n in range(6)}
            self.levels = {BookSide.BID: bids, BookSide.ASK: asks}
            return snapshot(bids, asks)
        made: dict[tuple[BookSide, int], int] = {}
        for _ in range(rng.randint(1, 4)):
            side = rng.choice(list(BookSide))
            sign = -1 if side == BookSide.BID else 1
            price = self.mid + sign * rng.randint(1, 4)
            made[side, price] = rng.choice([0, rng.randint(1, 20), rng.randint(1, 20)])
        for side in BookSide:  # most messages leave the sides apart
            for price in [p for p in self.levels[side] if self.inside(side, p)]:
                if rng.random() < 0.9:
                    made[side, price] = 0
        for (side, price), lots in made.items():
            self.levels[side].pop(price, None)
            if lots:
                self.levels[side][price] = lots
        return [delta(side, price, lots) for (side, price), lots in made.items()]

    def inside(self, side: BookSide, price: int) -> bool:
        return price >= self.mid if side == BookSide.BID else price <= self.mid


def random_order(rng: random.Random, price: int, now: int, n: int, allowed: str) -> dict[str, Any]:
    """One intent near `price`; `allowed` names the features it may use."""
    inst, line = rng.randrange(n), rng.randint(1, 99)
    if "quote" in allowed and rng.random() < 0.6:
        sizes = [rng.choice([0, 5, 5, 5, 8]) for _ in range(2)]
        wide = rng.randint(0, 3)
        return {"verb": "quote", "inst": inst, "bid": price - wide, "bid_lots": sizes[0],
                "ask": price + rng.randint(0, 3), "ask_lots": sizes[1],
                "post_only": rng.random() < 0.7, "requote": rng.choice([0, 1, 2]), "line": line}
    verb = rng.choice(["buy", "buy", "short", "short", "sell", "cover", "target", "close",
                       "cancel", "cancel"])
    intent: dict[str, Any] = {"verb": verb, "inst": inst, "line": line}
    if verb in ("close", "cancel"):
        return intent
    if "replace" in allowed:
        intent["tag"] = rng.randint(1, 3)
        if rng.random() < 0.4:
            names = rng.sample(["limit", rng.choice(["stop", "touch"])], rng.randint(0, 2))
            terms = {name: price + rng.randint(-3, 3) for name in names}
            lots = rng.choice([NONE, NONE, rng.randint(-1, 40)])
            return {**intent, **terms, "verb": "replace", "lots": lots}
    intent["lots"] = rng.choice([0, rng.randint(1, 12), rng.randint(1, 40)])
    if verb == "target" or rng.random() < 0.03:  # a size below zero is refused
        intent["lots"] *= rng.choice([-1, 1])
    kind = rng.choice(["market", "limit", "limit", "limit", "stop", "stop_limit", "touch"])
    if kind in ("limit", "stop_limit"):
        intent["limit"] = price + rng.randint(-3, 3)
    if kind in ("stop", "stop_limit") and "stop" in allowed:
        intent["stop"] = price + rng.randint(-3, 3)
    if kind == "touch" and "stop" in allowed:
        intent["touch"] = price + rng.randint(-3, 3)
    if "tif" in allowed:
        intent["tif"] = rng.choice(["gtc", "gtc", "ioc", "fok", "gtd"])
        intent["post_only"] = kind == "limit" and rng.random() < 0.3
        if intent["tif"] == "gtd":
            intent["expire_ts"] = now + rng.randint(-2, 60) * MS
    if "display" in allowed and rng.random() < 0.5:
        intent["display"] = rng.choice([0, *range(-1, 7)])
    return intent


def play(
    seed: int,
    steps: int,
    *,
    allowed: str,
    book: bool,
    config: dict[str, Any] | None = None,
    venue: dict[str, float] | None = None,
    limits: dict[str, Any] | None = None,
    n: int = 1,
    interpreted: bool = False,
    sizes: Sizes = frozenset(),
    feed_ms: int = 0,
) -> tuple[TickCore, TickModel]:
    """Play `steps` random messages to both; raises at the first difference."""
    rng = random.Random(seed)
    config, venue = config or {}, LATENCIES if venue is None else venue
    uses = (BOOK if book else QUOTES) | sizes
    core = TickCore(config_words(config), venue, instruments=n, interpreted=interpreted, sizes=uses)
    model = TickModel(Config(**config), venue, book=book, n=n, limits=limits)
    streets = [Street(rng, book=book) for _ in range(n)]
    ts = 10**9
    for step in range(steps):
        ts += rng.choice([0, 1, 1, 2, 5, 20]) * MS // 2
        i = rng.randrange(n)
        events = streets[i].message()
        recv = ts + feed_ms * MS
        orders = []
        while rng.random() < 0.3:
            order = random_order(rng, streets[i].mid, recv, n, allowed)
            orders.append(order)
        set_limits(core, limits or {})
        model.log.clear()
        records = core.message(ts, events, orders, recv=recv, inst=i)
        model.message(ts, recv, i, events, orders)
        where = f"seed {seed} step {step} ts {ts} {events} {orders}"
        equal(core, model, records, where)
    return core, model


def equal(
    core: TickCore, model: TickModel, records: list[tuple[Any, ...]], where: str
) -> None:
    """As on bars; and each order rests behind the same queue."""
    seen = [(a, b, c, d) for kind, _, _, a, b, c, d, _ in records if kind == "ACK"]
    rests = [entry[1:] for entry in model.log if entry[0] == "rests"]
    ours = [tuple(NONE if word is None else word for word in entry) for entry in rests]
    assert sorted(seen) == sorted(ours), f"{where}\ncore  {seen}\nmodel {ours}"
    model.log = [entry for entry in model.log if entry[0] != "rests"]
    compare(core, model, records, where)
    for i, touch in enumerate(model.touch):
        assert core.get(f"venues[{i}].position") == touch.position, where
        assert bool(core.get(f"venues[{i}].valid")) == touch.valid, where
        assert core.get(f"venues[{i}].hurried") == 0, where
