"""A second engine in plain Python integers, written from the rules and not from std/*.qdsl.

It knows bars, orders, fees, slippage, margin and round trips (sizing and the risk gate stand in
desk.py); prices are ticks, sizes lots, money is units. It is slow and direct on purpose: what a
working order does is asked anew at each point of each bar, sizes are searched for, sums are taken
over lists.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

from tests.std.core.parts import FAULT, KEPT_ENTRIES, NEVER, NONE, Book, Config, Order

YEAR_NS = 31_557_600_000_000_000


def round_half_even(x: float) -> int:
    return round(x)


class Market(ABC):
    """Orders on bars and the accounts of one portfolio; `log` collects what happens, in order."""

    def __init__(self, config: Config, limits: dict[str, Any] | None = None, n: int = 1) -> None:
        self.c, self.limits = config, limits or {}
        self.books = [Book() for _ in range(n)]
        self.orders: list[Order] = []
        self.cash = config.cash
        self.next_id = 1
        self.log: list[tuple[Any, ...]] = []
        self.now = 0
        self.peak = self.day_start = config.cash
        self.sent: list[int] = []
        self.halted = False
        self.tripped: set[str] = set()
        self.cuts = 0
        self.borrow_paid = self.borrowed = 0
        self.block = self.legs = self.legs_filled = self.half_since = 0

    # ---- valuation ----

    def equity(self) -> int:
        return self.cash + sum(b.lots * b.mark * self.c.money for b in self.books)

    def gross(self) -> int:
        return sum(abs(b.lots) * b.mark * self.c.money for b in self.books)

    def slip(self, price: int, lots: int, volume: int) -> int:
        c = self.c
        impact = price * c.slip_impact * lots / volume if volume > 0 else 0.0
        return max(math.ceil(c.slip_ticks + price * c.slip_rate + impact - 1e-9), 0)

    def fee(self, o: Order | None, lots: int, price: int, maker: bool) -> int:
        """Fee of a fill; with an order, what is still to pay of its running total."""
        c = self.c
        rate = c.maker_rate if maker else c.fee_rate
        due = abs(float(abs(lots) * price * c.money)) * rate + float(abs(lots)) * c.fee_per_lot
        due = (o.fee_due if o else 0.0) + due + (0.0 if o and o.filled else float(c.fee_per_order))
        total = round_half_even(due)
        total = max(total, c.fee_min) if c.fee_min else total
        if o is None:
            return total
        fee, o.fee_due, o.fee_paid = total - o.fee_paid, due, total
        return fee

    def most(self, budget: int, price: int, weight: float, up_to: int) -> int:
        """Largest size that `budget` pays for."""

        def fits(n: int) -> bool:
            need = math.ceil(float(n * price * self.c.money) * weight)
            return n == 0 or need + self.fee(None, n, price, False) <= budget

        low, high = 0, up_to
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low if budget >= 0 else 0

    def carried(self, book: Book, lots: int, price: int) -> int:
        held = book.lots
        closing = max(min(lots, max(-held, 0)), min(-held, 0))
        if closing == lots:
            return lots
        kept = self.gross() - abs(closing) * book.mark * self.c.money
        free = self.equity() - math.ceil(kept * self.c.margin_initial)
        n = self.most(free, price, self.c.margin_initial, abs(lots - closing))
        return closing + (n if lots > 0 else -n)

    # ---- one instant ----

    @abstractmethod
    def ask_all(self, intents: list[dict[str, Any]]) -> None:
        """What handlers ask for, in order."""

    @abstractmethod
    def guard(self) -> None:
        """The limits of the account, after the market moved."""

    def step(
        self,
        ts: int,
        ts_open: int,
        bars: dict[int, tuple[int, int, int, int, int]],
        intents: list[dict[str, Any]],
        session_close: bool = False,
    ) -> None:
        self.now = ts
        for i, bar in bars.items():
            book = self.books[i]
            book.bar, book.bars, book.ts, book.open_ts = bar, book.bars + 1, ts, ts_open
            book.room = self.c.lots_max
            if self.c.volume_share > 0:
                book.room = min(math.floor(bar[4] * self.c.volume_share), self.c.lots_max)
        self.closing = session_close
        self.walk(bars)
        if session_close:
            for o in self.live():
                if o.tif == "day" and not o.dead:
                    self.end(o, "expired")
                elif o.ask.get("when") == "close" and not o.dead:
                    self.end(o, "unfilled")
        self.guard()
        self.ask_all(intents)
        self.peak = max(self.peak, self.equity()) if bars else self.peak
        if session_close:
            self.pay_borrow()
            self.day_start, self.tripped = self.equity(), set()

    def pay_borrow(self) -> None:
        """What was short at the end of the day before pays for the time since."""
        held = (self.now - self.borrow_paid) / YEAR_NS if self.borrow_paid else 0.0
        self.cash -= round_half_even(self.borrowed * self.c.borrow_rate * held)
        self.borrow_paid = self.now
        self.borrowed = sum(max(-b.lots, 0) * b.mark * self.c.money for b in self.books)

    def dividend(self, i: int, a: int, b: int) -> None:
        """a / b money a lot held; shorts pay."""
        self.cash += round_half_even(self.books[i].lots * (a / b))

    def split(self, i: int, a: int) -> None:
        """`a` lots for one: sizes grow, prices fall, what rounding changes of the value is paid."""
        book, money = self.books[i], self.c.money
        before = book.lots * book.mark * money
        book.mark = round_half_even(book.mark / a)
        for e in book.entries:
            e["lots"] *= a
            e.update({name: round_half_even(e[name] / a) for name in ("ticks", "high", "low")})
        self.cash += before - book.lots * book.mark * money
        for o in self.orders:
            if o.inst == i:
                o.lots *= a
                o.limit, o.trigger = (
                    p if p is None else round_half_even(p / a) for p in (o.limit, o.trigger)
                )
                o.trail = max(round_half_even(o.trail / a), min(o.trail, 1))

    def live(self) -> list[Order]:
        self.orders = [o for o in self.orders if not o.dead]
        return sorted(self.orders, key=lambda o: (o.inst, o.id))

    def walk(self, bars: dict[int, tuple[int, int, int, int, int]]) -> None:
        paths: dict[int, list[int]] = {}
        for point in range(4):
            for i, (o, h, lo, c, _) in bars.items():
                if point == 1:
                    paths[i] = [o, *((lo, h) if self.low_first(i) else (h, lo)), c]
                if point == 0:
                    self.mark(i, o)
            here = {i: paths[i][point] if point else bars[i][0] for i in bars}
            later = []
            for o in self.live():
                if o.inst in here and not (o.asleep or o.woken or o.dead):
                    if self.shrinks(o):
                        self.look(o, here[o.inst], point)
                    else:
                        later.append(o)
            for o in later:
                if not o.dead:
                    self.look(o, here[o.inst], point)
            for o in self.live():
                if o.woken and not o.dead:
                    self.look(o, here[o.inst], point)
                o.woken = False
            for i in bars:
                self.mark(i, here[i])

    def shrinks(self, o: Order) -> bool:
        held = self.books[o.inst].lots
        return o.exit or (o.lots * held < 0 and abs(o.lots) <= abs(held))

    def low_first(self, i: int) -> bool:
        o, h, lo, _, _ = self.books[i].bar or (0, 0, 0, 0, 0)
        rule = self.c.path
        if rule == "nearest":
            return o - lo <= h - o
        if rule != "conservative":
            return rule == "low_first"
        if self.books[i].lots:
            return self.books[i].lots > 0
        waiting = [x for x in self.live() if x.inst == i and not x.asleep]
        return waiting[0].lots < 0 if waiting else True

    def mark(self, i: int, price: int) -> None:
        book = self.books[i]
        book.mark = price
        for e in book.entries:
            e["high"], e["low"] = max(e["high"], price), min(e["low"], price)

    # ---- an order at one point ----

    def look(self, o: Order, price: int, point: int) -> None:
        book = self.books[o.inst]
        when = o.ask.get("when", "any")
        if book.bars < o.from_bar or (when == "close" and not (point == 3 and self.closing)):
            return
        if o.sent > book.open_ts and point < 3:  # no price of before it was sent is for it
            o.looked = None
            return
        if self.now > o.ask.get("expire_ts", NEVER):
            self.end(o, "expired")
            return
        start = price if point == 0 or o.looked is None else o.looked
        rested = o.looked is not None or book.bars > o.from_bar
        o.looked = price
        at: int | None = start
        rests = o.trigger is None and o.limit is not None and rested
        if o.trigger is not None:
            rising = (o.lots > 0) == o.stop_like
            at = reach(start, price, o.trigger, rising)
            if at is None and o.trail:
                o.trigger = self.trailed(o, price)
            if at is not None:
                o.trigger, o.trail, start = None, 0, at
        if o.trigger is None and at is not None and o.limit is not None:
            at = reach(start, price, o.limit, o.lots < 0)
        if at is not None:
            self.fill(o, at, rests)
        if (o.tif in ("ioc", "fok") or when != "any") and not o.dead:
            self.end(o, "unfilled")

    @staticmethod
    def trailed(o: Order, price: int) -> int:
        if o.lots < 0:
            return max(o.trigger if o.trigger is not None else FAULT, price - o.trail)
        return min(o.trigger if o.trigger is not None else NONE, price + o.trail)

    def fill(self, o: Order, at: int, maker: bool) -> None:
        book = self.books[o.inst]
        if o.ask.get("post_only") and not maker:
            self.end(o, "post_only")
            return
        self.mark(o.inst, at)
        want = o.lots
        volume = book.bar[4] if book.bar else 0
        if "fraction" in o.ask and o.ask["verb"] in ("buy", "short") and not o.filled:
            price = at + (self.slip(at, abs(o.lots), volume) if o.lots > 0 else 0)
            n = self.most(int(self.equity() * o.ask["fraction"]), price, 1.0, self.c.lots_max)
            want = n if o.lots > 0 else -n
        late = want != o.lots
        found = abs(book.lots) if want * book.lots < 0 else 0
        may_open = abs(want) if late else o.opens
        want = min(abs(want), found + may_open) * (1 if want > 0 else -1)
        if want == 0 and not o.exit:
            self.end(o, "position_closed")
        lots = max(-book.room, min(book.room, want))
        if lots == 0 or (o.tif == "fok" and lots != want):
            return
        ticks = at
        if not maker:
            slip = self.slip(at, abs(lots), volume)
            ticks = at + slip if lots > 0 else at - slip
            if o.limit is not None:
                ticks = min(ticks, o.limit) if lots > 0 else max(ticks, o.limit)
        paid = self.carried(book, lots, ticks)
        if paid != lots:
            self.cuts += 1
            if paid == 0 or not self.c.cut:
                self.end(o, "unaffordable")
                return
            want = want - lots + paid
        book.room -= abs(paid)
        o.lots = (o.lots if o.exit and paid == lots and self.filling(o) else want) - paid
        o.opens = may_open - max(abs(paid) - found, 0)
        fee = self.fee(o, paid, ticks, maker)
        first = o.filled == 0
        o.filled += paid
        self.book(o.inst, paid, ticks, fee)
        book.entered += first and not o.exit and book.lots * paid > 0
        self.log.append(("fill", o.id, paid, ticks, fee, book.lots))
        self.consequences(o, paid, ticks)

    def book(self, i: int, lots: int, ticks: int, fee: int) -> None:
        book, money = self.books[i], self.c.money
        self.cash -= lots * ticks * money + fee
        closing = min(abs(lots), abs(book.lots)) if lots * book.lots < 0 else 0
        fee_closing = portion(fee, closing, abs(lots))
        fee_opening, left = fee - fee_closing, closing
        while left:
            e = book.entries[0]
            n = min(left, abs(e["lots"]))
            exit_fee, costs = portion(fee_closing, n, left), portion(e["costs"], n, abs(e["lots"]))
            signed = n if e["lots"] > 0 else -n
            extremes = [
                (p - e["ticks"]) * signed * money
                for p in (max(e["high"], ticks), min(e["low"], ticks))
            ]
            net = (ticks - e["ticks"]) * signed * money - costs - exit_fee
            self.log.append(
                (
                    "trip",
                    e["ticks"],
                    ticks,
                    signed,
                    net,
                    e["bar"],
                    book.bars - 1,
                    min(extremes),
                    max(extremes),
                )
            )
            e["lots"] -= signed
            e["costs"] -= costs
            fee_closing -= exit_fee
            left -= n
            book.exit_ts = self.now
            if e["lots"] == 0:
                book.entries.pop(0)
        if not book.entries:
            book.entered = 0
        rest = (abs(lots) - closing) * (1 if lots > 0 else -1)
        if rest and len(book.entries) == KEPT_ENTRIES:
            newest = book.entries[-1]
            newest["lots"] += rest
            newest["costs"] += fee_opening + (ticks - newest["ticks"]) * rest * money
        elif rest:
            book.entries.append(
                {
                    "lots": rest,
                    "ticks": ticks,
                    "costs": fee_opening,
                    "bar": book.bars - 1,
                    "high": ticks,
                    "low": ticks,
                }
            )

    def consequences(self, o: Order, lots: int, ticks: int) -> None:
        if o.lots == 0:
            o.dead = True
            self.leg_filled(o)
        for other in self.live():
            if other is o or other.dead:
                continue
            if other.parent == o.id and not o.exit:
                other.lots -= lots if other.bracket else 0
                if other.asleep:
                    other.asleep, other.looked = False, ticks
                    other.woken = True
                    if other.trail:
                        other.trigger = self.trailed(other, ticks)
            elif o.oco and other.oco == o.oco:
                other.lots -= lots if other.bracket else other.lots
                if other.lots == 0:
                    self.end(other, "oco")
                elif other.inst == o.inst and self.idle(other) and not self.filling(other):
                    self.end(other, "position_closed")
            elif o.bracket and not o.lots and other.id == o.parent:
                self.end(other, "oco")
            elif other.inst == o.inst and self.idle(other) and not self.filling(other):
                self.end(other, "position_closed")

    def filling(self, o: Order) -> bool:
        """The entry of an exit still works."""
        return any(other.id == o.parent for other in self.live())

    def idle(self, o: Order) -> bool:
        """It is an exit at work, and nothing is left for it to close."""
        return o.exit and not o.asleep and o.lots * self.books[o.inst].lots >= 0

    def leg_filled(self, o: Order) -> None:
        """A leg of the newest atomic block is whole: from now on the others are late, if any."""
        if o.block and o.block == self.block:
            self.legs_filled += 1
            half = self.legs_filled < self.legs
            self.half_since = (self.half_since or self.now) if half else 0

    def end(self, o: Order, why: str) -> None:
        o.dead = True
        self.log.append(("cancel", o.id, o.lots, why))
        if not o.filled:
            for child in self.live():
                if child.parent == o.id and child.asleep and not child.dead:
                    self.end(child, "entry_cancelled")
        elif not o.exit:
            for child in self.live():
                if child.parent == o.id and self.idle(child):
                    self.end(child, "oco" if why == "oco" else "entry_cancelled")


def reach(start: int, end: int, level: int, rising: bool) -> int | None:
    """Where a price going from start to end meets a level from the given side, if it does."""
    if rising:
        return start if start >= level else level if end >= level else None
    return start if start <= level else level if end <= level else None


def portion(money: int, part: int, whole: int) -> int:
    """A share of money, rounded half to even."""
    return money if part == whole else round_half_even(float(money) * (part / whole))
