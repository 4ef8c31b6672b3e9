"""A finished run made by hand: a seeded walk, traded by two averages, without the engine."""

from fractions import Fraction

import numpy as np

from quantdsl.data.instrument import Instrument
from quantdsl.events.layout import BAR, RECORD, Kind
from quantdsl.report.order_words import NONE
from quantdsl.report.result import Benchmark, Plot, RunResult, Setting
from tests.report.accumulate import Accumulators

MINUTE = 60_000_000_000
OPENING = 1_704_205_800_000_000_000  # 2024-01-02 14:30 UTC
BARS_A_DAY = 78
CASH = 100_000_000_000  # 100,000 USD in millionths
TICK_MONEY = 10_000  # one tick of one share, in money units
LOTS = 200
FEE = 1_000_000


def market(n_days: int, seed: int) -> np.ndarray:
    """Five-minute bars of `n_days` sessions, in ticks."""
    rng = np.random.default_rng(seed)
    n = n_days * BARS_A_DAY
    close = 47_000 + np.cumsum(rng.normal(0.4, 40.0, n)).astype(np.int64)
    bars = np.zeros(n, BAR)
    day, slot = np.divmod(np.arange(n), BARS_A_DAY)
    bars["ts_event"] = OPENING + (day + day // 5 * 2) * 1440 * MINUTE + (slot + 1) * 5 * MINUTE
    bars["ts_recv"] = bars["ts_event"] - 5 * MINUTE
    bars["kind"] = Kind.BAR
    bars["open"] = np.concatenate((close[:1], close[:-1]))
    bars["high"] = np.maximum(bars["open"], close) + rng.integers(0, 30, n)
    bars["low"] = np.minimum(bars["open"], close) - rng.integers(0, 30, n)
    bars["close"] = close
    bars["volume"] = rng.integers(1_000, 50_000, n)
    return bars


def record(kind: Kind, ts: int, *words: int, flags: int = 0) -> np.ndarray:
    """One record of the five-minute bar that closes at `ts`."""
    row = np.zeros(1, RECORD)
    row["ts_event"], row["ts_recv"] = ts, ts - 5 * MINUTE
    row["kind"], row["flags"] = kind, flags
    for name, word in zip("abcde", words, strict=False):
        row[name] = word
    return row


def average(values: np.ndarray, length: int) -> np.ndarray:
    sums = np.cumsum(np.concatenate(([0.0], values)))
    out = np.full(len(values), np.nan)
    if len(values) >= length:
        out[length - 1 :] = (sums[length:] - sums[:-length]) / length
    return out


class Trader:
    """Buys at the next open when told, sells likewise; writes records as the core would."""

    def __init__(self) -> None:
        self.acc = Accumulators(CASH)
        self.records: list[np.ndarray] = []
        self.cash = CASH
        self.lots = 0
        self.order_id = 0
        self.entry: dict[str, int] = {}

    def fill(self, ts: int, bar: int, ticks: int, lots: int) -> None:
        self.order_id += 1
        order = (self.order_id, lots, NONE, NONE, 26)
        self.records.append(record(Kind.ORDER, ts, *order))
        self.cash -= ticks * lots * TICK_MONEY + FEE
        self.lots += lots
        self.acc.add("orders", 1)
        self.acc.add("orders_filled", 1)
        self.acc.fill(ticks * lots * TICK_MONEY, FEE, abs(lots) * TICK_MONEY)
        closed = ts + 5 * MINUTE
        self.records.append(record(Kind.FILL, closed, self.order_id, lots, ticks, FEE, self.lots))
        if lots > 0:
            self.entry = {"ts": ts, "bar": bar, "ticks": ticks, "worst": 0, "best": 0}
        else:
            self.close_trip(ts, bar, ticks)

    def close_trip(self, ts: int, bar: int, ticks: int) -> None:
        e = self.entry
        net = (ticks - e["ticks"]) * LOTS * TICK_MONEY - 2 * FEE
        trip = (e["ts"], e["ticks"], ticks, LOTS, net)
        closed = ts + 5 * MINUTE
        self.records.append(record(Kind.ROUND_TRIP, closed, *trip))
        more = (e["bar"], bar, 2 * FEE, e["worst"], e["best"])
        self.records.append(record(Kind.ROUND_TRIP_MORE, closed, *more))
        self.acc.trade(net, ts - e["ts"], bar - e["bar"], e["worst"], e["best"])

    def excursion(self, low: int, high: int) -> None:
        money = LOTS * TICK_MONEY
        self.entry["worst"] = min(self.entry["worst"], (low - self.entry["ticks"]) * money)
        self.entry["best"] = max(self.entry["best"], (high - self.entry["ticks"]) * money)


def synthetic_run(n_days: int = 120, seed: int = 7) -> RunResult:
    """A run of about two round trips a day over `n_days` sessions from January 2024."""
    bars = market(n_days, seed)
    price = bars["close"] / 100.0
    fast, slow = average(price, 10), average(price, 40)
    trader = Trader()
    equity = np.zeros(len(bars), np.int64)
    for i, bar in enumerate(bars):
        wanted = LOTS if i > 0 and fast[i - 1] > slow[i - 1] else 0
        traded = wanted != trader.lots
        if traded:
            trader.fill(int(bar["ts_recv"]), i, int(bar["open"]), wanted - trader.lots)
        if trader.lots:
            trader.excursion(int(bar["low"]), int(bar["high"]))
        equity[i] = trader.cash + int(bar["close"]) * trader.lots * TICK_MONEY
        ts = int(bar["ts_event"])
        trader.acc.mark(ts, int(equity[i]), traded or trader.lots != 0)
        if (i + 1) % BARS_A_DAY == 0:
            trader.acc.day(int(equity[i]))
            words = (int(equity[i]), trader.cash, 0, int(bar["close"]), trader.lots)
            trader.records.append(record(Kind.DAY, ts, *words))
    trader.acc.add("orders", 1)
    trader.acc.add("orders_rejected", 1)
    trader.records.append(record(Kind.REJECT, OPENING, 9_999, LOTS, NONE, 26, flags=3))
    closes = price[BARS_A_DAY - 1 :: BARS_A_DAY]
    return RunResult(
        strategy="SmaCross",
        source_path="strategies/sma_cross.qdsl",
        source_text='language 1\n\nstrategy SmaCross:\n    "<b>Long</b> & short."\n',
        version="0.1.0",
        data_name="synthetic market, seed 7",
        data_sha256="0" * 64,
        params={"fast": "10", "slow": "40"},
        instruments=(Instrument(symbol="TEST", venue="XNYS", tick=Fraction(1, 100)),),
        currency="USD",
        money_digits=6,
        periods_per_year=252.0,
        records=np.concatenate(trader.records),
        curve_ts=bars["ts_event"].copy(),
        curve_equity=equity,
        bars=bars,
        accumulators=trader.acc.values,
        plots=(Plot(name="fast", values=fast, color="orange"), Plot(name="slow", values=slow)),
        benchmark=Benchmark(name="hold", levels=np.concatenate(([470.0], closes))),
        settings=(
            Setting(name="cash", value="100_000 USD", source="default"),
            Setting(name="fees", value="1 USD per order", source="strategy"),
        ),
        notes=("tick 0.01 USD, inferred from the data",),
        reasons={3: "max_notional"},
    )
