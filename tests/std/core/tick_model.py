"""A venue on ticks in plain Python, written from the rules of docs/fill-rules.md, not from std.

What we know of an order (`Order`, as on bars) and what the venue has of it (`Seat`) are two
objects that only errands and answers connect. Nothing is remembered that can be asked anew.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from tests.std.core.desk import Model
from tests.std.core.parts import NEVER, NONE, Config, Order

BUYS, SELLS = 1, 2  # who took, of a trade
Quote = tuple[int | None, int | None, int, int]


@dataclass
class Seat:
    """An order as the venue has it."""

    id: int
    inst: int
    lots: int
    limit: int | None
    trigger: int | None
    stop_like: bool
    tif: str
    post_only: bool
    exit: bool
    opens: int
    display: int
    expires: int
    triggers: bool  # it had to be touched first
    state: str = "sent"  # sent, armed, live, over
    fresh: bool = False
    filled: int = 0
    ahead: float = math.inf
    traded: int = 0
    shown: int = 0

    @property
    def buys(self) -> bool:
        return self.lots > 0


@dataclass
class Touch:
    """What is known of the market of one instrument, and what is under way to and from it."""

    bids: dict[int, int] = field(default_factory=dict)
    asks: dict[int, int] = field(default_factory=dict)
    valid: bool = False
    synced: bool = False
    was: tuple[int | None, int | None] = (None, None)  # the touch when it was valid last
    position: int = 0  # as the venue has it
    taken: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})
    errands: list[tuple[int, str, int, tuple[Any, ...]]] = field(default_factory=list)
    answers: list[tuple[int, str, int, tuple[Any, ...]]] = field(default_factory=list)
    arrival: int = 0
    due: int = 0

    @property
    def bid(self) -> int | None:
        return max(self.bids, default=None)

    @property
    def ask(self) -> int | None:
        return min(self.asks, default=None)

    def side(self, buys: bool) -> dict[int, int]:
        """The levels that a buy (or a sell) takes from."""
        return self.asks if buys else self.bids


class TickModel(Model):
    """The engine of a run on ticks, with a book or with quotes."""

    def __init__(
        self, config: Config, venue: dict[str, float], *, book: bool, n: int = 1,
        limits: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(config, limits, n)
        self.touch = [Touch() for _ in range(n)]
        self.seats: dict[int, Seat] = {}
        self.on_book = book
        self.entry, self.response = int(venue["latency_entry"]), int(venue["latency_response"])
        self.power = venue.get("queue_power", 0.0)
        self.venue_ts = 0
        self.middle = [0] * n
        self.recalled: set[int] = set()
        self.asked: dict[int, tuple[int | None, int]] = {}  # limit and lots, as asked for last
        self.terms: dict[int, tuple[int | None, int | None, int]] = {}  # all lots, the same
        self.changing: dict[int, int] = {}
        self.quotes: dict[tuple[int, bool], int] = {}  # order of a side
        self.refused: dict[tuple[int, bool], tuple[int, int, int]] = {}

    # ---- the venue ----

    def working(self, i: int | None = None) -> list[Seat]:
        """Seats that are not over, instruments in order, then the oldest first."""
        seats = [s for s in self.seats.values() if s.state != "over" and i in (None, s.inst)]
        return sorted(seats, key=lambda s: (s.inst, s.id))

    def resting(self, i: int) -> list[Seat]:
        return [s for s in self.working(i) if s.state == "live" and s.limit is not None]

    def travel(self, i: int, ts: int) -> None:
        """Errands that arrive, and orders that expire, before an event of `ts`."""
        touch = self.touch[i]
        while touch.errands and touch.errands[0][0] < ts:
            self.venue_ts, what, id_, terms = touch.errands.pop(0)
            seat = self.seats[id_]
            if seat.state == "over":
                continue
            if what == "cancel":
                self.over(seat, terms[0])
            elif what == "change":
                self.amend(seat, *terms)
            elif seat.expires < self.venue_ts:
                self.over(seat, "expired")
            elif not touch.valid:
                self.over(seat, "no_book")
            else:
                seat.state = "armed" if seat.trigger is not None else "live"
                seat.fresh = seat.trigger is None
                self.trigger(seat, touch.ask, touch.bid)
            self.calm()
        for seat in self.working(i):
            if seat.state in ("armed", "live") and seat.expires < ts:
                self.venue_ts = seat.expires
                self.over(seat, "expired")

    def amend(
        self, seat: Seat, total: int, limit: int | None, trigger: int | None, opens: int
    ) -> None:
        left = total - seat.filled
        if left == 0 or (left > 0) != seat.buys:
            self.over(seat, "replaced")
            return
        stays = limit == seat.limit and abs(left) <= abs(seat.lots)
        seat.lots, seat.limit, seat.opens = left, limit, opens
        if seat.state == "armed":
            seat.trigger = trigger
        if seat.state == "live" and not stays:
            seat.fresh = True
        elif stays and seat.display:
            seat.shown = min(seat.shown, abs(left))
        self.tell(seat, "rests", left, limit, seat.ahead, True, not seat.fresh)

    def calm(self) -> None:
        while any(s.fresh for s in self.working()):
            for seat in self.working():
                if seat.fresh:
                    seat.fresh = False
                    self.enter(seat)

    def meets(self, seat: Seat) -> bool:
        touch = self.touch[seat.inst]
        if seat.limit is None:
            return True
        if seat.buys:
            return touch.ask is not None and touch.ask <= seat.limit
        return touch.bid is not None and touch.bid >= seat.limit

    def reachable(self, seat: Seat) -> list[tuple[int, int]]:
        """Levels that the limit reaches, best first, less what was taken of them already."""
        touch = self.touch[seat.inst]
        skip, found = touch.taken[seat.buys], []
        levels = touch.side(seat.buys)
        for price in sorted(levels, reverse=not seat.buys):
            if seat.limit is not None and (price > seat.limit if seat.buys else price < seat.limit):
                break
            found.append((price, max(levels[price] - skip, 0)))
            skip = max(skip - levels[price], 0)
        return found

    def enter(self, seat: Seat) -> None:
        valid, stays = self.touch[seat.inst].valid, seat.exit and seat.triggers
        if not valid and not stays:
            self.over(seat, "no_book")
            return
        if seat.post_only and valid and self.meets(seat):
            self.over(seat, "post_only")
            return
        levels = self.reachable(seat) if valid else []
        if seat.tif == "fok" and sum(lots for _, lots in levels) < abs(seat.lots):
            self.over(seat, "unfilled")
            return
        buys = seat.buys  # a seat that is filled has no side
        for price, lots in levels:
            if seat.state != "live":
                break
            self.spare_own(seat, price)
            lots = min(lots, abs(seat.lots))
            if lots:
                self.touch[seat.inst].taken[buys] += self.seat_fill(seat, lots, price, maker=False)
        if seat.state != "live":
            return
        if seat.tif in ("ioc", "fok") or (seat.limit is None and self.on_book and not stays):
            self.over(seat, "unfilled")
        elif seat.limit is not None:
            self.spare_own(seat, seat.limit)
            seat.ahead, seat.traded = self.level(seat), 0
            seat.shown = min(seat.display, abs(seat.lots))
            self.tell(seat, "rests", seat.lots, seat.limit, seat.ahead, False, True)

    def level(self, seat: Seat) -> float:
        """Lots that others show at the limit of an order."""
        touch = self.touch[seat.inst]
        own = touch.bids if seat.buys else touch.asks
        if self.on_book:
            return float(own.get(seat.limit or 0, 0))
        return shown_at(seat, touch.bid if seat.buys else touch.ask, own)

    def spare_own(self, seat: Seat, price: int) -> None:
        """No order trades with one of ours."""
        for other in self.resting(seat.inst):
            assert other.limit is not None
            better = other.limit <= price if seat.buys else other.limit >= price
            if other.buys != seat.buys and better:
                self.over(other, "self_trade")

    def seat_fill(self, seat: Seat, lots: int, price: int, *, maker: bool) -> int:
        """Up to `lots` > 0, as far as it finds to close and may open."""
        touch = self.touch[seat.inst]
        sign = 1 if seat.buys else -1
        against = abs(touch.position) if seat.lots * touch.position < 0 else 0
        opens = min(seat.opens, abs(seat.lots))
        most = min(against + opens, abs(seat.lots))
        if most == 0:
            self.over(seat, "position_closed")
            return 0
        done = min(lots, most)
        seat.lots = (most - done) * sign
        seat.opens = max(opens - max(done - against, 0), 0)
        seat.filled += done * sign
        touch.position += done * sign
        if not seat.lots:
            seat.state, seat.fresh = "over", False
        self.tell(seat, "fill", done * sign, price, maker, seat.state == "over")
        for other in self.working(seat.inst):
            if other is not seat and other.exit and other.lots * touch.position >= 0:
                self.over(other, "position_closed")
        return done

    def over(self, seat: Seat, why: str) -> None:
        if seat.state != "over":
            seat.state, seat.fresh = "over", False
            self.tell(seat, "end", why)

    def trigger(self, seat: Seat, ask: int | None, bid: int | None) -> None:
        price = ask if seat.buys else bid
        if seat.state != "armed" or seat.trigger is None or price is None:
            return
        rising = seat.buys == seat.stop_like
        if price >= seat.trigger if rising else price <= seat.trigger:
            seat.state, seat.trigger, seat.fresh = "live", None, True

    def tell(self, seat: Seat, what: str, *news: Any) -> None:
        touch = self.touch[seat.inst]
        touch.due = max(self.venue_ts + self.response, touch.due)
        touch.answers.append((touch.due, what, seat.id, news))

    # ---- events ----

    def take_in(self, ts: int, recv: int, i: int, event: tuple[Any, ...]) -> None:
        kind, side, *rest = event
        self.travel(i, ts)
        self.now, self.venue_ts = recv, ts
        name = kind.name
        touch = self.touch[i]
        if name == "FEED":
            lost = side in (2, 3)
            touch.valid, touch.synced = touch.valid and not lost, touch.synced and not lost
        elif name == "QUOTE":
            self.quote(i, rest[0], rest[1], rest[2], rest[3])
        elif name == "TRADE":
            self.trade(i, rest[0], rest[1], side)
        elif name == "BOOK_DELTA":
            self.delta(i, side == 0, rest[0], rest[1])
        elif name == "BOOK_SNAPSHOT":
            touch.bids, touch.asks, touch.synced = {}, {}, True
            for seat in self.resting(i):
                seat.traded = 0

    def quote(self, i: int, bid: int, ask: int, bid_lots: int, ask_lots: int) -> None:
        touch = self.touch[i]
        none = 1 << 53
        bids = {bid: bid_lots} if bid != none else {}
        asks = {ask: ask_lots} if ask != none else {}
        for seat in self.resting(i):
            old, new = (touch.bids, bids) if seat.buys else (touch.asks, asks)
            best = max if seat.buys else min
            before = shown_at(seat, best(old, default=None), old)
            after = shown_at(seat, best(new, default=None), new)
            if after != math.inf:
                self.requeue(seat, after if before == math.inf else before, after)
        touch.bids, touch.asks = bids, asks
        touch.valid = bool(bids and asks) and bid < ask
        touch.taken = {True: 0, False: 0}

    def delta(self, i: int, bid: bool, price: int, lots: int) -> None:
        levels = self.touch[i].bids if bid else self.touch[i].asks
        for seat in self.resting(i):
            if seat.buys == bid and seat.limit == price:
                self.requeue(seat, float(levels.get(price, 0)), float(lots))
        levels.pop(price, None)
        if lots:
            levels[price] = lots

    def requeue(self, seat: Seat, before: float, after: float) -> None:
        """A level changed: what trades do not explain was cancelled, by someone ahead or behind."""
        gone = before - seat.traded - after
        seat.traded = 0
        if not self.power or gone <= 0 or seat.ahead == math.inf:
            seat.ahead = min(seat.ahead, after)
            return
        behind = max(before - seat.ahead, 0.0)
        tail, front = behind**self.power, seat.ahead**self.power
        chance = tail / (tail + front) if tail + front > 0 else 1.0
        moved = seat.ahead - (1.0 - chance) * gone + min(behind - chance * gone, 0.0)
        seat.ahead = max(min(moved, after), 0.0)

    def trade(self, i: int, price: int, lots: int, side: int) -> None:
        left = lots
        for seat in self.resting(i):
            if seat.state != "live" or side == (BUYS if seat.buys else SELLS):
                continue
            assert seat.limit is not None
            if seat.limit == price:
                left -= self.reach_seat(seat, left)
            elif (price < seat.limit) == seat.buys:
                self.seat_fill(seat, abs(seat.lots), seat.limit, maker=True)
        self.calm()
        for seat in self.working(i):
            self.trigger(seat, price, price)
        self.calm()

    def reach_seat(self, seat: Seat, lots: int) -> int:
        past = lots - seat.ahead
        seat.ahead = max(seat.ahead - lots, 0.0)
        seat.traded += lots
        if past < 1:
            return 0
        open_ = min(seat.shown, abs(seat.lots)) if seat.display else abs(seat.lots)
        assert seat.limit is not None
        done = self.seat_fill(seat, min(math.floor(past), open_), seat.limit, maker=True)
        if seat.display and seat.state == "live":
            seat.shown -= done
            if seat.shown <= 0:
                seat.shown, seat.ahead = min(seat.display, abs(seat.lots)), self.level(seat)
        return done

    def complete(self, i: int, told: bool, anew: bool) -> None:
        """The message is whole: the book is what it is, and may have come through our orders."""
        touch = self.touch[i]
        if told and self.on_book:
            touch.taken = {True: 0, False: 0}
            low, high = touch.bid, touch.ask
            two = low is not None and high is not None and low < high
            touch.valid = two and touch.synced
            for seat in self.resting(i) if anew else []:
                seat.ahead, seat.traded = min(seat.ahead, self.level(seat)), 0
        if touch.valid:
            (old_bid, old_ask), touch.was = touch.was, (touch.bid, touch.ask)
            assert touch.bid is not None
            assert touch.ask is not None
            came = {True: old_ask is None or touch.ask < old_ask,
                    False: old_bid is None or touch.bid > old_bid}
            for seat in self.working(i):
                if seat.state == "live" and self.meets(seat):
                    if seat.limit is None:
                        seat.fresh = True
                    elif came[seat.buys]:
                        self.seat_fill(seat, abs(seat.lots), seat.limit, maker=True)
            self.calm()

    # ---- what we hear ----

    def hear_all(self) -> None:
        for i, touch in enumerate(self.touch):
            while touch.answers and touch.answers[0][0] <= self.now:
                _, what, id_, news = touch.answers.pop(0)
                order = next(o for o in self.orders if o.id == id_)
                if what == "fill":
                    self.hear_fill(i, order, *news)
                elif what == "rests":
                    self.hear_rests(order, *news)
                else:
                    self.log.append(("cancel", order.id, order.lots, *news))
                    order.dead = True

    def hear_fill(
        self, i: int, o: Order, lots: int, price: int, maker: bool, last: bool
    ) -> None:
        book = self.books[i]
        against = abs(book.lots) if lots * book.lots < 0 else 0
        o.opens = max(o.may_open - max(abs(lots) - against, 0), 0)
        o.lots -= lots
        fee = self.fee(o, lots, price, maker)
        first = o.filled == 0
        o.filled += lots
        self.book(i, lots, price, fee)
        book.entered += first and not o.exit and book.lots * lots > 0
        self.log.append(("fill", o.id, lots, price, fee, book.lots))
        self.mark_touch(i)
        o.dead = last

    def hear_rests(
        self, o: Order, lots: int, limit: int, ahead: float, changed: bool, said: bool
    ) -> None:
        self.changing[o.id] = self.changing.get(o.id, 0) - changed
        if not self.changing[o.id]:
            o.lots = lots
        if said:
            self.log.append(("rests", o.id, lots, limit, int(min(ahead, float(1 << 53)))))

    def mark_touch(self, i: int) -> None:
        touch, held = self.touch[i], self.books[i].lots
        if touch.valid and touch.bid is not None and touch.ask is not None:
            middle = (touch.bid + touch.ask) // 2
            self.middle[i] = middle
            self.mark(i, touch.bid if held > 0 else touch.ask if held < 0 else middle)

    # ---- what we ask for ----

    def message(
        self, ts: int, recv: int, i: int, events: list[tuple[Any, ...]],
        intents: list[dict[str, Any]],
    ) -> None:
        """One message of an instrument, and what handlers ask for after it."""
        names = [event[0].name for event in events]
        for event in events:
            self.take_in(ts, recv, i, event)
            fresh = event[0].name != "FEED"
        if fresh:
            self.books[i].bars += 1
            self.books[i].ts = recv
            self.books[i].open_ts = ts
            told = bool({"BOOK_DELTA", "BOOK_SNAPSHOT"} & set(names))
            self.complete(i, told, "BOOK_SNAPSHOT" in names)
        self.hear_all()
        if fresh:
            self.mark_touch(i)
        self.guard()
        asked: list[dict[str, Any]] = []
        for intent in intents:
            if intent["verb"] != "quote":
                asked.append(intent)
                continue
            for side, price, sign in ((True, "bid", 1), (False, "ask", -1)):
                lots = sign * intent[f"{price}_lots"]
                if self.moved(intent["inst"], side, intent[price], lots, intent["requote"]):
                    asked.append({**intent, "side": side, "limit": intent[price], "lots": lots})
        for intent in asked:
            self.ask(intent, failed=False)
        self.peak = max(self.peak, self.equity())

    def standing(self, i: int, side: bool) -> Order | None:
        found = [o for o in self.live() if o.id == self.quotes.get((i, side))]
        return found[0] if found and found[0].id not in self.recalled else None

    def moved(self, i: int, side: bool, limit: int, lots: int, requote: int) -> bool:
        o = self.standing(i, side)
        if o is None:
            again = self.refused.get((i, side)) == (limit, lots, self.books[i].lots)
            return lots != 0 and not again
        asked, wanted = self.asked[o.id]
        assert asked is not None
        return abs(limit - asked) >= max(requote, 1) or lots != wanted

    def ask(self, a: dict[str, Any], failed: bool) -> bool:
        assert not failed  # no block of legs here
        i, verb = a.get("inst", 0), a["verb"]
        touch, held = self.touch[i], self.books[i].lots
        if verb == "cancel":
            for o in self.live():
                if o.inst == i:
                    self.recall(o, "cancelled")
            return True
        if verb == "replace":
            for o in self.live():
                if o.inst == i and o.tag == a["tag"]:
                    self.change(o, a)
            return True
        if verb == "quote":
            standing = self.standing(i, a["side"])
            self.refused.pop((i, a["side"]), None)
            if standing is not None:
                self.requote(standing, a)
                return True
            if a["lots"] == 0:
                return True
        size, moving, closing = a.get("lots", 0), self.moving(i), self.closing_lots(i)
        buys = verb in ("buy", "cover") or (verb == "close" and held < 0)
        price = a.get("limit", a.get("stop", a.get("touch")))
        if price is None:
            price = (touch.ask if buys else touch.bid) if touch.valid else self.middle[i]
        lots = {
            "buy": size,
            "quote": size,
            "short": -size,
            "sell": -min(size, max(held, 0)),
            "cover": min(size, max(-held, 0)),
            "close": -held - closing,
            "target": size - held - moving - closing,
        }[verb]
        if verb not in ("sell", "cover", "close") and self.c.cut and abs(lots) <= self.c.lots_max:
            lots = self.carried(self.books[i], lots, price)
        if lots == 0 and verb in ("target", "close"):
            return True
        left = held + closing
        exits = verb in ("sell", "cover", "close") or (lots * left < 0 and abs(lots) <= abs(left))
        closes = min(abs(lots), abs(left)) if lots * left < 0 else 0
        why = self.judge(a, i, lots, 0 if exits else abs(lots) - closes, price, exits)
        if why:
            if verb == "quote":
                self.refused[i, a["side"]] = (a["limit"], a["lots"], held)
            self.log.append(("reject", self.next_id, lots, why))
            self.next_id += 1
            return False
        self.dispatch(a, i, lots, 0 if exits else abs(lots) - closes, exits)
        return True

    def judge(
        self, a: dict[str, Any], i: int, lots: int, opens: int, price: int, exits: bool
    ) -> str:
        if why := self.unfit(a, i, lots):
            return why
        if not self.touch[i].valid:
            return "no_book"
        if a.get("display", 1) <= 0:
            return "zero_display"
        if lots == 0 and a.get("lots") and a["verb"] not in ("sell", "cover"):
            return "unaffordable"
        return super().judge(a, i, lots, opens, price, exits)

    def closing_lots(self, i: int) -> int:
        """What is recalled closes nothing any more."""
        kept, self.orders = self.orders, [o for o in self.orders if o.id not in self.recalled]
        total = super().closing_lots(i)
        self.orders = kept
        return total

    def dispatch(self, a: dict[str, Any], i: int, lots: int, opens: int, exits: bool) -> None:
        o = self.send(a, i, lots, opens, exits)
        trigger = a.get("stop", a.get("touch"))
        self.seats[o.id] = Seat(
            o.id, i, lots, a.get("limit"), trigger, "touch" not in a, o.tif,
            bool(a.get("post_only")), exits, opens, a.get("display", 0),
            a.get("expire_ts", NEVER), trigger is not None,
        )
        self.asked[o.id] = (a.get("limit"), a["lots"] if a["verb"] == "quote" else lots)
        self.terms[o.id] = (a.get("limit"), trigger, lots)
        if a["verb"] == "quote":
            self.quotes[i, a["side"]] = o.id
        self.post(i, "send", o.id)

    def post(self, i: int, what: str, id_: int, *terms: Any) -> None:
        touch = self.touch[i]
        touch.arrival = max(self.now + self.entry, touch.arrival)
        touch.errands.append((touch.arrival, what, id_, terms))

    def recall(self, o: Order, why: str) -> None:
        if o.id not in self.recalled:
            self.recalled.add(o.id)
            self.post(o.inst, "cancel", o.id, why)

    def requote(self, o: Order, a: dict[str, Any]) -> None:
        i, limit, lots = o.inst, a["limit"], a["lots"]
        if lots == 0:
            self.recall(o, "cancelled")
            return
        if not self.moved(i, a["side"], limit, lots, 1):
            return
        if self.anew(o, limit, None, lots):
            self.recall(o, "replaced")
            self.refused[i, a["side"]] = (limit, lots, self.books[i].lots)
        else:
            self.asked[o.id] = (limit, lots)

    def change(self, o: Order, a: dict[str, Any]) -> None:
        """New terms from those that were asked for last, whatever became of them by now."""
        old_limit, old_trigger, total = self.terms[o.id]
        left = total - o.filled
        limit = None if old_limit is None else a.get("limit", old_limit)
        trigger = None if old_trigger is None else a.get("stop", a.get("touch", old_trigger))
        size = abs(left) if a["lots"] == NONE else a["lots"]
        lots = max(size, 0) if left > 0 else -max(size, 0)
        if (limit, trigger, lots) != (old_limit, old_trigger, left):
            self.anew(o, limit, trigger, lots)

    def anew(self, o: Order, limit: int | None, trigger: int | None, lots: int) -> str:
        """Judge new terms as a new order in the place of the old, and send them; why they are
        refused, if they are."""
        i, book = o.inst, self.books[o.inst]
        self.orders.remove(o)
        left = book.lots + self.closing_lots(i)
        closes = min(abs(lots), abs(left)) if lots * left < 0 else 0
        opens = 0 if o.exit else abs(lots) - closes
        price = next((p for p in (limit, trigger) if p is not None), self.middle[i])
        book.entered -= bool(o.filled and not o.exit)
        asked = {"limit": limit, "stop": trigger}
        terms = {name: one for name, one in asked.items() if one is not None}
        terms |= {"verb": "replace", "lots": abs(lots)}
        why = self.judge(terms, i, lots, opens, price, opens == 0)
        book.entered += bool(o.filled and not o.exit)
        self.orders.append(o)
        if not why and o.id in self.recalled:
            why = "cancelled"
        if why:
            self.log.append(("reject", self.next_id, lots, why))
            self.next_id += 1
            return why
        self.changing[o.id] = self.changing.get(o.id, 0) + 1
        o.lots = lots if abs(lots) > abs(o.lots) else o.lots
        o.opens = max(o.opens, opens)
        self.terms[o.id] = (limit, trigger, lots + o.filled)
        self.post(i, "change", o.id, lots + o.filled, limit, trigger, opens)
        self.sent.append(self.now)
        return ""


def shown_at(seat: Seat, best: int | None, levels: dict[int, int]) -> float:
    """Lots at the limit of an order where only the touch is told; inf: it lies behind the touch."""
    if seat.limit == best and best is not None:
        return float(levels[best])
    if best is None:
        return 0.0
    assert seat.limit is not None
    inside = seat.limit > best if seat.buys else seat.limit < best
    return 0.0 if inside else math.inf
