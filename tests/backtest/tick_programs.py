"""Random strategies on ticks, which look back at what ticks, and random ticks for them."""

from random import Random

import numpy as np

from quantdsl.events.layout import Aggressor, BookSide, Feed
from tests.backtest.tick_runs import Message, delta, feed, flat_book, quote, trade

QUOTES = ("bid", "ask", "mid", "spread", "float(bid_qty)", "float(ask_qty)")
TRADES = ("float(trade.price)", "float(trade.qty)", "float(trade.signed_qty)")
BARS = ("close", "high", "low", "float(volume)")
BOOK = (
    "book.imbalance(levels = {n})",
    "book.microprice(levels = {n})",
    "float(book.depth_to(bid - {n} ticks))",
    "(book.vwap_to_fill({n} shares) ?? 0.0)",
    "float(book.order_flow_imbalance())",
)
WINDOWS = (
    "ta.sma({s}, {n})",
    "ta.ema({s}, {n})",
    "ta.highest({s}, {n})",
    "ta.lowest({s}, {n})",
    "ts.std({s}, {n})",
    "ts.sum({s}, {n})",
    "ts.zscore({s}, {n})",
    "ts.delta({s}, {n})",
    "ts.ewm_mean({s}, halflife = {t}ms)",
    "ts.ewm_rate_std({s}, halflife = {t}ms)",
)
FORMS = (
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / ({y} + 1.0)",
    "max({x}, {y})",
    "min({x}, {y})",
    "abs({x})",
    "sign({x})",
    "sqrt(abs({x}))",
    "({x} if {x} > {y} else {y})",
)
LIMITS = ("bid", "ask", "bid - {d} * tick", "ask + {d} * tick", "bid[1]", "ask[p]")
WITH = (
    "",
    ", limit = {limit}",
    ", limit = {limit}, post_only = true",
    ", limit = {limit}, tif = ioc",
    ", limit = {limit}, tif = fok",
    ", limit = {limit}, display = 1 share",
    ", limit = {limit}, stop_loss = {limit} - {e} * tick",
)
LEAVE = ("close_position()", "cancel_all()", "flatten()", "target(2 shares)")


def strategy(seed: int) -> str:
    """The text of a strategy; every seed gives one that compiles."""
    return _Maker(Random(seed)).text()


class _Maker:
    def __init__(self, random: Random) -> None:
        r = self.random = random
        self.book = r.random() < 0.5
        self.trades = r.random() < 0.8
        self.bars = self.trades and r.random() < 0.4
        self.series = list(QUOTES[:4] if self.book else QUOTES)
        self.series += TRADES * self.trades + BARS * self.bars
        self.lets: list[str] = []

    def text(self) -> str:
        r = self.random
        lines = ["language 1", "", "strategy Generated:"]
        lines += [f"    book depth = {r.choice((5, 10))}" if self.book else "    quotes"]
        lines += ["    trades"] * self.trades
        lines += [f"    bars {r.choice(('20 ticks', '1s', '40 shares'))}"] * self.bars
        lines += [
            "",
            f"    param p = {r.randint(1, 4)} in 1..5 step 1",
            f"    param q = {r.randint(1, 9)}.5 in 0.5..9.5 step 0.5",
            "    param tick = 0.01",
            "",
        ]
        for n in range(r.randint(1, 5)):
            lines.append(f"    let x{n} = {self.equation()}")
            self.lets.append(f"x{n}")
        lines += ["", "    state n = 0", "    state last = 0.0", "    state heard = 0"]
        main = "book" if self.book else "quote"
        lines += self.handler(main, fresh=r.random() < 0.3)
        if self.trades and r.random() < 0.7:
            lines += self.handler("trade", fresh=False)
        if self.bars and r.random() < 0.7:
            lines += self.handler("bar", fresh=False)
        if r.random() < 0.4:
            lines += ["", "    on fill:", "        heard += 1"]
            lines += ["        if heard mod 3 == 0:", f"            {r.choice(LEAVE)}"]
        if r.random() < 0.3:
            lines += ["", f"    every {r.choice(('200ms', '1s'))}:", f"        {self.order()}"]
        if r.random() < 0.3:
            name = "book" if self.book else "quotes"
            lines += ["", f"    on stale({name}):", "        cancel_all()"]
        lines += ["", "    risk:", f"        max_position = {r.randint(5, 90)} shares"]
        lines += ["", "    backtest:", f"        fees = {r.randint(0, 3)}bps"]
        lines += [f"        latency = {r.choice(('0ms', '1ms', '20ms'))}"]
        lines += [f"        close_at_end = {r.choice(('true', 'false'))}"]
        return "\n".join(lines) + "\n"

    def handler(self, on: str, *, fresh: bool) -> list[str]:
        r = self.random
        when = f" when {self.condition()}" if fresh else ""
        lines = ["", f"    on {on}{when}:", "        n += 1", f"        let here = {self.value()}"]
        lines += [f"        if {self.condition()}:", f"            last = {self.value()}"]
        lines += [f"        if flat and {self.condition()}:", f"            {self.order()}"]
        lines += [f"        elif {self.condition()}:", f"            {r.choice(LEAVE)}"]
        if r.random() < 0.4:
            lines += [f"        if here > last and n mod {r.randint(2, 5)} == 1:"]
            lines += [f"            {self.order()}"]
        return lines

    def order(self) -> str:
        r = self.random
        if self.random.random() < 0.25:
            return (
                f"quote(bid = bid - {r.randint(0, 3)} * tick, bid_qty = {r.randint(1, 4)} shares, "
                f"ask = ask + {r.randint(0, 3)} * tick, ask_qty = {r.randint(1, 4)} shares, "
                f"post_only = true, requote_if = {r.randint(1, 2)} ticks)"
            )
        verb = r.choice(("buy", "short"))
        limit = r.choice(LIMITS).format(d=r.randint(0, 4))
        extra = r.choice(WITH[: 6 if verb == "short" else 7]).format(limit=limit, e=r.randint(3, 9))
        return f"{verb}({r.randint(1, 9)} shares{extra})"

    def condition(self) -> str:
        r = self.random
        a, b, past = self.value(), self.value(), self.past()
        return r.choice(
            (
                f"{a} > {b}",
                f"{a} <= {b}",
                f"not ({a} < {past})",
                f"{past} > {self.past()}",
                f"{r.choice(self.series)} > {past}",
                f"n mod {r.randint(2, 6)} == 0",
                f"({a} > {b} or n > {r.randint(1, 50)})",
            )
        )

    def past(self) -> str:
        """What something that ticks was some of its ticks ago."""
        r = self.random
        name = r.choice((*self.series, *self.lets))
        ago = r.choice(("1", "2", "4", "p"))
        if name.startswith("float("):
            return f"float({name[6:-1]}[{ago}])"
        return f"{name}[{ago}]"

    def equation(self) -> str:
        r = self.random
        source = r.choice((*self.series, *self.lets, self.past()))
        if self.book and r.random() < 0.3:
            return r.choice(BOOK).format(n=r.randint(1, 4))
        if r.random() < 0.6:
            n = r.choice(("p", str(r.randint(2, 9))))
            return r.choice(WINDOWS).format(s=source, n=n, t=r.choice((50, 400)))
        return r.choice(FORMS).format(x=self.past(), y=source)

    def value(self, depth: int = 1) -> str:
        r = self.random
        if depth == 0 or r.random() < 0.4:
            own = [*self.series, *self.lets * 2, "q", "float(p)", f"{r.randint(0, 40)}.25"]
            return self.past() if r.random() < 0.5 else r.choice(own)
        return r.choice(FORMS).format(x=self.value(depth - 1), y=self.value(depth - 1))


def ticks(seed: int, count: int) -> np.ndarray:
    """Messages of a market that moves: book, quotes, trades, now and then a state of the feed."""
    random = Random(seed)
    bid, ms = 9_990, 0.0
    made: list[Message] = [flat_book(0, bid, bid + 2, lots=4), quote(0, bid, bid + 2, 4)]
    for _ in range(count):
        ms += random.choice((0.0, 0.5, 3.0, 40.0, 400.0))
        what = random.random()
        if what < 0.25:
            side, away = random.choice((BookSide.BID, BookSide.ASK)), random.randint(0, 4)
            price = bid - away if side == BookSide.BID else bid + 2 + away
            made.append(delta(ms, side, price, random.randint(0 if away else 1, 9)))
        elif what < 0.5:
            price = bid + random.randint(-1, 3)
            made.append(trade(ms, price, random.randint(1, 9), random.choice(list(Aggressor))))
        elif what < 0.6:
            bid += random.randint(-3, 3)
            made.append(flat_book(ms, bid, bid + 2, lots=random.randint(1, 6)))
        elif what < 0.97:
            bid += random.randint(-1, 1)
            made.append(quote(ms, bid, bid + random.randint(1, 3), random.randint(1, 6)))
        else:
            made += [feed(ms, Feed.STALE), flat_book(ms, bid, bid + 2), feed(ms, Feed.GOOD)]
    return np.concatenate(made)
