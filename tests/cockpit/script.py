"""A session that is played from a seed: it trades, fills, obeys commands, and needs no engine."""

import math
import random
from bisect import bisect_left
from collections import deque

from quantdsl.live.view import (
    BarRow,
    BookView,
    Command,
    FeedHealth,
    FillRow,
    Gauge,
    InstrumentView,
    LatencyView,
    LogLine,
    Position,
    SignalView,
    Snapshot,
    StrategyView,
    WorkingOrder,
)

START_NS = 1_770_000_000_000_000_000
CASH = 100_000.0
FRAMES_A_SECOND = 10
BAR_S = 5
UPTO_NS = tuple(100.0 * 2 ** (i / 3) for i in range(40))
SYMBOLS = {"BTCUSDT": (97_250.0, 2, 4, 12.0), "ETHUSDT": (2_710.0, 2, 3, 0.4)}
"""Price, its digits, digits of a quantity, how far it goes in a tenth of a second."""


class Script:
    """Call `next` for each snapshot; `send` obeys as a session would, in the next one."""

    def __init__(self, seed: int = 1, name: str = "paper-demo") -> None:
        self.random, self.name = random.Random(seed), name
        self.seq = self.rows = self.order = 0
        self.state, self.reason = "active", ""
        self.mid = {symbol: how[0] for symbol, how in SYMBOLS.items()}
        self.held = dict.fromkeys(SYMBOLS, 0.0)
        self.paid = dict.fromkeys(SYMBOLS, 0.0)
        self.bar: dict[str, list[float]] = {}
        self.working: list[WorkingOrder] = []
        self.realised = self.fees = self.highest = self.worst = 0.0
        self.fills = 0
        self.trend = dict.fromkeys(SYMBOLS, 0.0)
        self.counts = [0] * len(UPTO_NS)
        self.commands: deque[Command] = deque()
        self.sent: list[Command] = []
        self.new_fills: list[FillRow] = []
        self.new_log: list[LogLine] = []

    @property
    def ts(self) -> int:
        return START_NS + self.seq * 1_000_000_000 // FRAMES_A_SECOND

    def send(self, command: Command) -> None:
        self.sent.append(command)
        self.commands.append(command)

    def say(self, level: str, source: str, text: str) -> None:
        self.rows += 1
        self.new_log.append(LogLine(self.rows, self.ts, level, source, text))

    def next(self) -> Snapshot:
        """The next tenth of a second."""
        self.seq += 1
        self.new_fills, self.new_log = [], []
        if self.seq == 1:
            self.say("info", "session", "active: 2 instruments, 300 bars of warm-up")
        while self.commands:
            self.obey(self.commands.popleft())
        bars = [self.move(symbol) for symbol in SYMBOLS]
        if self.state == "active":
            self.trade()
        for _ in range(self.random.randrange(20, 60)):
            spread = self.random.lognormvariate(math.log(900), 0.45)
            self.counts[min(bisect_left(UPTO_NS, spread), len(UPTO_NS) - 1)] += 1
        return self.snapshot(bars)

    def move(self, symbol: str) -> BarRow:
        """The price goes on; its bar of five seconds as it stands."""
        step = SYMBOLS[symbol][3]
        away = SYMBOLS[symbol][0] - self.mid[symbol]
        self.trend[symbol] = 0.98 * self.trend[symbol] + self.random.gauss(0, 0.05 * step)
        self.mid[symbol] += self.trend[symbol] + self.random.gauss(0, step * 0.4) + 0.004 * away
        price = round(self.mid[symbol], 2)
        if self.seq % (BAR_S * FRAMES_A_SECOND) == 1 or symbol not in self.bar:
            self.bar[symbol] = [price, price, price, price]
        bar = self.bar[symbol]
        bar[:] = bar[0], max(bar[1], price), min(bar[2], price), price
        self.rows += 1
        opened = self.ts // (BAR_S * 10**9) * BAR_S * 10**9
        return BarRow(self.rows, opened, symbol, *bar, volume=1.0, closed=False)

    def trade(self) -> None:
        """Orders lie against the last move; those that the price reaches fill."""
        for order in list(self.working):
            away = self.mid[order.symbol] - (order.price or 0.0)
            if away < 0 if order.side == "buy" else away > 0:
                self.working.remove(order)
                self.fill(order.symbol, order.side, order.quantity, order.price or 0.0, order.id)
        for symbol in SYMBOLS:
            if self.random.random() < 0.04 and len(self.working) < 6:
                price, digits, _, step = SYMBOLS[symbol]
                buys = (self.mid[symbol] < price) != (self.random.random() < 0.2)
                if abs(self.held[symbol]) * price > 15_000:
                    buys = self.held[symbol] < 0
                side = "buy" if buys else "sell"
                wanted = round(self.mid[symbol] + (-step if buys else step) * 3, digits)
                units = round(5_000 / price, SYMBOLS[symbol][2])
                self.order += 1
                self.working.append(
                    WorkingOrder(
                        self.order, "CryptoMaker", symbol, side, "limit", units, 0.0, wanted,
                        self.ts, ahead=round(self.random.random() * 3, 3),
                    )
                )  # fmt: skip

    def fill(self, symbol: str, side: str, units: float, price: float, order: int) -> None:
        """Position, money and the row of one fill."""
        signed, held = units if side == "buy" else -units, self.held[symbol]
        closing = min(abs(held), units) if held * signed < 0 else 0.0
        fee = units * price * 0.0002
        profit = closing * (price - self.paid[symbol]) * (1 if held > 0 else -1)
        after = round(held + signed, 6)
        if held * after <= 0:
            self.paid[symbol] = price
        elif not closing:
            self.paid[symbol] = (self.paid[symbol] * abs(held) + price * units) / abs(after)
        self.held[symbol] = after
        self.realised += profit
        self.fees += fee
        self.fills += 1
        self.new_fills.append(
            FillRow(
                self.fills, self.ts, "CryptoMaker", symbol, side, units, price, fee,
                profit - fee if closing else 0.0, order, maker=True,
            )
        )  # fmt: skip

    def obey(self, command: Command) -> None:
        """As the session does, with a line in its log."""
        if command.kind in ("halt", "cancel_all", "flatten"):
            self.working.clear()
        if command.kind == "flatten":
            for symbol, held in self.held.items():
                if held:
                    side = "sell" if held > 0 else "buy"
                    self.fill(symbol, side, abs(held), round(self.mid[symbol], 2), 0)
        if command.kind == "halt":
            self.state, self.reason = "halted", f"halted by {command.by}"
        if command.kind == "rearm":
            self.state, self.reason = "active", ""
        level = "warning" if command.kind == "halt" else "info"
        self.say(level, "session", f"{command.kind} by {command.by}, {command.id}")

    def snapshot(self, bars: list[BarRow]) -> Snapshot:
        """All of it."""
        positions = tuple(
            Position(
                "CryptoMaker", symbol, held, self.paid[symbol], round(self.mid[symbol], 2),
                held * self.mid[symbol], held * (self.mid[symbol] - self.paid[symbol]),
            )
            for symbol, held in self.held.items()
            if held
        )  # fmt: skip
        profit = self.realised - self.fees + sum(one.unrealised for one in positions)
        self.highest = max(self.highest, profit)
        lost = (self.highest - profit) / (CASH + self.highest)
        self.worst = max(self.worst, lost)
        exposure = sum(abs(one.value) for one in positions)
        strategy = StrategyView(
            "CryptoMaker", self.state, self.reason, tuple(SYMBOLS), CASH + profit, CASH, profit,
            profit, lost, self.worst, exposure, self.order, 3, self.fills,
            (SignalView("forecast", 3 * self.seq, 3 * self.seq - 2, 1, 1, 41.0, 250.0),),
        )  # fmt: skip
        gauges = (
            Gauge("daily_loss", max(0.0, -profit), 2_000.0, "USD", "CryptoMaker"),
            Gauge("exposure_gross", exposure, 50_000.0, "USD", "CryptoMaker"),
            Gauge("position", abs(self.held["BTCUSDT"]), 0.25, "BTC", "CryptoMaker"),
            Gauge("messages_per_s", 4.0 * len(self.working), 50.0, "", "CryptoMaker"),
            Gauge("executions", self.fills % 500, 500.0, "", "CryptoMaker"),
            Gauge("drawdown", 100 * lost, 5.0, "%", ""),
        )
        feed = FeedHealth(
            "binance", tuple(SYMBOLS), "live", messages=41 * self.seq, events=63 * self.seq,
            gaps=1, resyncs=1, last_recv=self.ts, delay_ns=38_000_000,
        )  # fmt: skip
        return Snapshot(
            self.seq, self.ts, self.name, self.state, START_NS, self.reason,
            events=63 * self.seq, committed=63 * self.seq, equity=CASH + profit, profit=profit,
            profit_today=profit, drawdown=lost, drawdown_max=self.worst,
            instruments=tuple(
                InstrumentView(symbol, how[1], how[2], "binance", "USD")
                for symbol, how in SYMBOLS.items()
            ),
            strategies=(strategy,), positions=positions, working=tuple(self.working),
            gauges=gauges, feeds=(feed,), books=tuple(map(self.book, SYMBOLS)),
            latency=(self.latency(),), fills=tuple(self.new_fills), bars=tuple(bars),
            log=tuple(self.new_log),
        )  # fmt: skip

    def book(self, symbol: str) -> BookView:
        """Twelve levels a side around the price."""
        mid, digits = self.mid[symbol], SYMBOLS[symbol][2]
        tick = SYMBOLS[symbol][3] / 10

        def side(sign: int) -> tuple[tuple[float, float], ...]:
            return tuple(
                (
                    round(mid + sign * tick * (i + 0.5), 2),
                    round(self.random.lognormvariate(0, 0.8), digits),
                )
                for i in range(12)
            )

        return BookView(symbol, side(-1), side(1), self.ts, last=round(mid, 2), last_side="buy")

    def latency(self) -> LatencyView:
        """The histogram so far, with the percentiles that follow from it."""
        total, found, seen = sum(self.counts), [], 0
        for share in (0.5, 0.9, 0.99, 0.999, 1.0):
            seen = 0
            for upto, count in zip(UPTO_NS, self.counts, strict=True):
                seen += count
                if seen >= share * total:
                    found.append(upto)
                    break
        return LatencyView("event to record", UPTO_NS, tuple(self.counts), *found)
