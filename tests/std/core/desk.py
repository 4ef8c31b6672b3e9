"""The other half of the model: what handlers ask for becomes orders, or is refused."""

import math
from typing import Any

from tests.std.core.model import Market
from tests.std.core.parts import FAULT, NEVER, NONE, Order


class Model(Market):
    """The whole engine: sizing, validity, the risk gate, and the limits of the account."""

    def ask_all(self, intents: list[dict[str, Any]]) -> None:
        """Each intent in order; the legs of an atomic block stand or fall together."""
        block, failed = 0, False
        for a in intents:
            if a.get("atomic", 0) != block:
                failed = False
                if a.get("atomic"):
                    self.block, self.legs, self.legs_filled = self.next_id, 0, 0
                    self.half_since = 0
            block = a.get("atomic", 0)
            if not self.ask(a, failed) and block and not failed:
                failed = True
                for o in self.live():
                    if o.block == self.block and not o.dead:
                        self.end(o, "atomic")

    def ask(self, a: dict[str, Any], failed: bool) -> bool:
        """One intent: resolved to signed lots, judged, sent; False if it was refused."""
        i, verb = a.get("inst", 0), a["verb"]
        book = self.books[i]
        held = book.lots
        if verb == "cancel":
            for o in self.live():
                if o.inst == i and a.get("tag", 0) in (0, o.tag) and not o.dead:
                    self.end(o, "cancelled")
            return True
        if verb == "flatten":
            self.flatten()
            return True
        if verb == "replace":
            for o in self.live():
                if o.inst == i and o.tag == a["tag"] and not o.dead:
                    self.change(o, a)
            return True
        volume = book.bar[4] if book.bar else 0
        price = a.get("limit", a.get("stop", a.get("touch")))
        if price is None:
            slip = self.slip(book.mark, abs(a.get("lots", 0)), volume)
            buys = verb in ("buy", "cover") or (verb == "close" and held < 0)
            if verb == "target" and "lots" not in a:
                aims = [self.size(a, book.mark + by) for by in (-slip, slip)]
                there = held + self.moving(i) + self.closing_lots(i)
                if min(aims) <= there <= max(aims):  # one side alone would trade
                    return True
                buys = min(aims) > there
            price = book.mark + slip if buys else book.mark - slip
        size = self.size(a, price)
        waited = self.waited(a, i)
        awaited = waited.lots if waited else 0
        lots = {
            "buy": size,
            "short": -size,
            "sell": -min(size, max(held + awaited, 0)),
            "cover": min(size, max(-held - awaited, 0)),
            "close": -held,
            "target": size - held - self.moving(i) - self.closing_lots(i),
        }[verb]
        if lots == 0 and verb in ("target", "close"):
            return True
        left = held + self.closing_lots(i)
        exits = verb in ("sell", "cover", "close") or bool(a.get("reduce_only"))
        exits = exits or (lots * left < 0 and abs(lots) <= abs(left))
        closes = min(abs(lots), abs(left)) if lots * left < 0 else 0
        opens = 0 if exits else abs(lots) - closes
        why = self.judge(a, i, lots, opens, price, exits)
        why = "atomic" if failed else why
        if why:
            self.log.append(("reject", self.next_id, lots, why))
            self.next_id += 1
        else:
            self.send(a, i, lots, opens, exits)
        return not why

    def size(self, a: dict[str, Any], price: int) -> int:
        """Lots that an intent asks for, at a price."""
        if "value" not in a and "fraction" not in a:
            return int(a.get("lots", 0))
        money = a["value"] if "value" in a else int(self.equity() * a["fraction"])
        return self.most(abs(money), price, 1.0, self.c.lots_max) * (1 if money > 0 else -1)

    def moving(self, i: int) -> int:
        """Signed lots that working orders may still open."""
        return sum(o.may_open * (1 if o.lots > 0 else -1) for o in self.live() if o.inst == i)

    def closing_lots(self, i: int) -> int:
        """Signed lots on their way that are to close the position."""
        held, total = self.books[i].lots, 0
        for o in self.live():
            sure = not o.exit or (not o.asleep and o.trigger is None and o.limit is None)
            if o.inst == i and sure and o.lots * held < 0:
                total += (abs(o.lots) - o.may_open) * (1 if o.lots > 0 else -1)
        return max(min(total, max(-held, 0)), min(-held, 0))

    def reach_lots(self, i: int, up: bool) -> int:
        """Furthest position that working orders can lead to."""
        opening = sum(o.may_open for o in self.live() if o.inst == i and (o.lots > 0) == up)
        held = self.books[i].lots
        return max(held, 0) + opening if up else min(held, 0) - opening

    @staticmethod
    def enters(o: Order, i: int) -> bool:
        """Whether an order is still to open a position in instrument i or add to it."""
        return o.inst == i and not o.exit and not o.filled

    def unfit(self, a: dict[str, Any], i: int, lots: int) -> str:
        """Why an order is none whatever the market and the account."""
        if FAULT in prices(a) or FAULT in (a.get("lots"), a.get("take_profit"), a.get("stop_loss")):
            return "not_a_number"
        way = {"buy": 1, "cover": 1, "short": -1, "sell": -1}.get(a["verb"], 0)
        if way and (min(a.get("lots", 0), a.get("value", 0)) < 0 or way * lots < 0):
            return "negative_size"
        return "" if self.books[i].bars else "no_price"

    def judge(
        self, a: dict[str, Any], i: int, lots: int, opens: int, price: int, exits: bool
    ) -> str:
        c, book, limit = self.c, self.books[i], self.limits
        if why := self.unfit(a, i, lots):
            return why
        given = prices(a)
        total = self.reach_lots(i, lots > 0) + (opens if lots > 0 else -opens)
        if max(abs(a.get("lots", 0)), abs(lots), abs(total)) > c.lots_max:
            return "out_of_range"
        if given and not (min(given) >= c.price_min and price <= c.price_max):
            return "out_of_range"
        if lots == 0:
            return "no_position" if a["verb"] in ("sell", "cover") else "zero_size"
        worse = price - book.mark if lots > 0 else book.mark - price
        if given and worse > limit.get("price_band", math.inf) * book.mark:
            return "price_band"
        if self.now - book.ts > limit.get("max_data_age", NEVER):
            return "max_data_age"
        if exits:
            return ""
        if self.halted:
            return "halted"
        for name in ("max_daily_loss", "max_drawdown", "max_leg_gap"):
            if name in self.tripped:
                return name
        value = abs(total * price * c.money)
        side = lots > 0
        others = [j for j in range(len(self.books)) if j != i]
        worth = {
            j: {up: self.reach_lots(j, up) * self.books[j].mark * c.money for up in (True, False)}
            for j in others
        }
        measured = {
            "max_order": abs(lots),
            "max_position": abs(total),
            "max_notional": value,
            "max_weight": value / self.equity() if self.equity() > 0 else math.inf,
            "max_gross": value + sum(max(abs(w[True]), abs(w[False])) for w in worth.values()),
            "max_net": abs(total * price * c.money + sum(w[side] for w in worth.values())),
            "max_entries": 1 + book.entered + sum(self.enters(o, i) for o in self.live()),
        }
        for name, amount in measured.items():
            if amount > limit.get(name, math.inf):
                return name
        if book.exit_ts and self.now - book.exit_ts < limit.get("cooldown", 0):
            return "cooldown"
        n, window = limit.get("max_order_rate", (NONE, 0))
        if len([t for t in self.sent if self.now - t < window]) >= n:
            return "max_order_rate"
        if not c.cut and self.carried(book, lots, price) != lots:
            return "unaffordable"
        return ""

    def send(self, a: dict[str, Any], i: int, lots: int, opens: int, exits: bool) -> Order:
        book = self.books[i]
        trail = a.get("trail", 0)
        o = Order(
            self.next_id,
            i,
            lots,
            a.get("limit"),
            a.get("stop", a.get("touch")),
            "touch" not in a,
            a,
            exit=exits,
            opens=opens,
            oco=a.get("oco", 0),
            from_bar=book.bars + 1 + self.c.delay_bars,
            sent=self.now,
        )
        if exits and trail:
            o.trail = trail
            o.trigger = self.trailed(o, book.mark) if o.trigger is None else o.trigger
        if a.get("atomic"):
            o.block = self.block
            self.legs += 1
        if waited := self.waited(a, i):
            o.parent, o.asleep = waited.id, True
        self.next_id += 1
        self.sent.append(self.now)
        self.orders.append(o)
        for side, price in (("profit", a.get("take_profit")), ("stop", a.get("stop_loss"))):
            moves = trail if side == "stop" else 0
            if not exits and (price is not None or moves):
                profit = side == "profit"
                child = Order(
                    self.next_id,
                    i,
                    0,
                    price if profit else None,
                    None if profit else price,
                    True,
                    {"tag": o.tag},
                    exit=True,
                    parent=o.id,
                    bracket=side,
                    trail=moves,
                    oco=-o.id,
                    sent=self.now,
                    asleep=True,
                )
                self.next_id += 1
                self.orders.append(child)
        return o

    def waited(self, a: dict[str, Any], i: int) -> Order | None:
        """The newest order with the tag that one is to wait for; no exit."""
        tag = a.get("after", 0)
        found = [o for o in self.live() if tag and o.inst == i and o.tag == tag and not o.exit]
        return found[-1] if found else None

    def change(self, o: Order, a: dict[str, Any]) -> None:
        """A working order with new terms: judged as a new one in its place."""
        limit, trigger, size = o.limit, o.trigger, abs(o.lots)
        if o.bracket == "profit":
            limit = a.get("take_profit", limit)
        elif o.bracket == "stop":
            stops = trigger is not None or bool(o.trail)
            trigger = a.get("stop_loss", trigger) if stops else None
        else:
            limit = None if limit is None else a.get("limit", limit)
            trigger = None if trigger is None else a.get("stop", a.get("touch", trigger))
            size = size if a["lots"] == NONE else a["lots"]
        lots = max(size, 0) if o.lots > 0 else -max(size, 0)
        if (limit, trigger, lots) == (o.limit, o.trigger, o.lots):
            return
        book, i = self.books[o.inst], o.inst
        self.orders.remove(o)
        left = book.lots + self.closing_lots(i)
        closes = min(abs(lots), abs(left)) if lots * left < 0 else 0
        opens = 0 if o.exit else abs(lots) - closes
        price = limit if limit is not None else trigger if trigger is not None else book.mark
        book.entered -= bool(o.filled and not o.exit)
        terms = {"verb": "replace", "limit": limit, "stop": trigger, "lots": size}
        terms = {name: value for name, value in terms.items() if value is not None}
        why = self.judge(terms, i, lots if not o.bracket else 1, opens, price, opens == 0)
        book.entered += bool(o.filled and not o.exit)
        self.orders.append(o)
        if why:
            self.log.append(("reject", self.next_id, o.lots, why))
            self.next_id += 1
            return
        o.limit, o.trigger, o.lots, o.opens = limit, trigger, lots, opens
        if a["lots"] != NONE:
            o.ask = {name: value for name, value in o.ask.items() if name != "fraction"}
        o.looked, o.from_bar, o.sent = None, max(o.from_bar, book.bars + 1), self.now
        self.sent.append(self.now)

    def flatten(self) -> None:
        for o in self.live():
            if not o.dead:
                self.end(o, "flattened")
        self.live()
        for i, book in enumerate(self.books):
            if book.lots:
                self.send({"verb": "close"}, i, -book.lots, 0, exits=True)

    def guard(self) -> None:
        """Daily loss and drawdown: act once, then refuse until the day is over."""
        losses = {
            "max_daily_loss": self.day_start - self.equity(),
            "max_drawdown": self.peak - self.equity(),
        }
        if self.half_since:
            losses["max_leg_gap"] = self.now - self.half_since
        for name, loss in losses.items():
            if loss > self.limits.get(name, NEVER) and name not in self.tripped:
                self.tripped.add(name)
                does = self.limits.get(name + "_does", 1)
                self.halted |= bool(does & 4)
                if does & 2:
                    self.flatten()
        if "max_leg_gap" in self.tripped:
            self.half_since = 0
        if self.equity() < self.c.margin_maintenance * self.gross():
            self.liquidate()

    def liquidate(self) -> None:
        """All orders end and all positions are closed where the market stands."""
        for o in self.live():
            if not o.dead:
                self.end(o, "liquidated")
        self.live()
        for i, book in enumerate(self.books):
            if book.lots:
                book.room = self.c.lots_max
                o = self.send({"verb": "close"}, i, -book.lots, 0, exits=True)
                self.fill(o, book.mark, maker=False)


def prices(a: dict[str, Any]) -> list[int]:
    """The prices that an order names for itself."""
    return [a[k] for k in ("limit", "stop", "touch") if k in a]
