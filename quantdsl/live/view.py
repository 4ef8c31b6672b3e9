"""What a session shows of itself, and what it may be told: the words of both pipes.

Prices and quantities are in units, for people's eyes; money is in the account's currency; times are
ns since 1970 UTC. A `Snapshot` tells only what the journal holds. Fills, bars and log lines come
once each, with numbers that grow by one, so that a reader knows what it has missed.
"""

from typing import Literal

from msgspec import Struct

State = Literal["starting", "active", "reducing", "halted", "stopped", "lost"]
"""Of a strategy or a session; `lost` is what the supervisor says of one that is silent."""
Side = Literal["buy", "sell"]
Level = Literal["info", "warning", "error"]
CommandKind = Literal["halt", "reduce", "cancel_all", "flatten", "rearm", "stop"]


class Command(Struct, frozen=True):
    """What a person, a file or the supervisor wants; the log line with its `id` is the answer."""

    kind: CommandKind
    strategy: str = ""
    """Empty: all."""
    by: str = ""
    """Who said so, for the journal: cockpit, terminal, supervisor, ..."""
    id: str = ""


class InstrumentView(Struct, frozen=True):
    """How an instrument is written."""

    symbol: str
    price_digits: int = 2
    quantity_digits: int = 0
    feed: str = ""
    currency: str = ""


class SignalView(Struct, frozen=True):
    """What became of the requests of one asynchronous signal; the rest of them is in flight."""

    name: str
    asked: int = 0
    ready: int = 0
    stale: int = 0
    """Not answered by their deadline."""
    dropped: int = 0
    """Refused while too many were in flight, or overtaken by a newer answer."""
    age_mean_us: float = 0.0
    """Of the inputs of what was ready."""
    age_most_us: float = 0.0
    device: str = "cpu"
    """What computes it; empty where nothing does any more."""
    answer_us: float = 0.0
    """From the events to the values of the strategy's signals: the median of the newest."""


class StrategyView(Struct, frozen=True):
    """One strategy of the session."""

    name: str
    state: State
    reason: str = ""
    """Why it is not active; empty if it is."""
    symbols: tuple[str, ...] = ()
    equity: float = 0.0
    cash: float = 0.0
    profit: float = 0.0
    """Since the session's first start, after fees."""
    profit_today: float = 0.0
    drawdown: float = 0.0
    """Share of the highest equity that is lost now: 0 or more."""
    drawdown_max: float = 0.0
    exposure: float = 0.0
    """Money in positions, shorts counted as longs."""
    orders: int = 0
    rejected: int = 0
    fills: int = 0
    signals: tuple[SignalView, ...] = ()
    behind: int = 0
    """Events that wait because the engine's ring is full."""
    conflated: int = 0
    """Quotes left out so far because a newer one came while they waited."""
    left_out: int = 0
    """Events that came after it was halted by a fault."""


class Position(Struct, frozen=True):
    """What a strategy holds of one instrument."""

    strategy: str
    symbol: str
    quantity: float
    """Negative: short."""
    price: float
    """Average of entry."""
    mark: float
    value: float
    """Money at the mark, negative: short."""
    unrealised: float
    realised: float = 0.0


class WorkingOrder(Struct, frozen=True):
    """An order that may still fill."""

    id: int
    strategy: str
    symbol: str
    side: Side
    type: str
    """As in the language: market, limit, stop, ..."""
    quantity: float
    filled: float
    price: float | None
    """Limit, or stop where there is no limit."""
    ts: int
    ahead: float | None = None
    """Units that stand before it in the queue, where the paper venue keeps one."""


class FillRow(Struct, frozen=True):
    """One fill."""

    seq: int
    ts: int
    strategy: str
    symbol: str
    side: Side
    quantity: float
    price: float
    fee: float = 0.0
    profit: float = 0.0
    """Realised by it, after its fee."""
    order: int = 0
    maker: bool = False


class BarRow(Struct, frozen=True):
    """A bar, closed or still forming; a later row of the same symbol and time replaces it."""

    seq: int
    ts: int
    """Its opening."""
    symbol: str
    open: float
    high: float
    low: float
    close: float
    volume: float = 0.0
    closed: bool = True


class BookView(Struct, frozen=True):
    """The best levels of one instrument, best first: (price, quantity)."""

    symbol: str
    bids: tuple[tuple[float, float], ...]
    asks: tuple[tuple[float, float], ...]
    ts: int
    valid: bool = True
    last: float | None = None
    """Price of the last trade."""
    last_side: Side | None = None


class Gauge(Struct, frozen=True):
    """A limit of the risk gate and how much of it is used."""

    name: str
    """As in the config: daily_loss, position, ..."""
    value: float
    limit: float
    unit: str = ""
    strategy: str = ""
    """Empty: of the session."""
    tripped: bool = False
    """It has latched, and a person must re-arm it."""


class FeedHealth(Struct):
    """One feed; its own thread alone writes it, so it is not frozen."""

    name: str
    symbols: tuple[str, ...] = ()
    state: Literal["connecting", "live", "stale", "down", "ended"] = "connecting"
    why: str = ""
    """What went wrong last; empty: nothing."""
    messages: int = 0
    events: int = 0
    bytes: int = 0
    gaps: int = 0
    duplicates: int = 0
    resyncs: int = 0
    reconnects: int = 0
    bad: int = 0
    """Messages that were not understood."""
    rejected: int = 0
    """Events refused at the edge: crossed, off tick, out of range."""
    dropped: int = 0
    last_recv: int = 0
    """When the last message came; 0: none yet."""
    delay_ns: int = 0
    """Typical time from the venue's stamp to ours, the offset of clocks taken off."""
    clock_offset_ns: int = 0
    """Venue's clock minus ours, as estimated."""


class LatencyView(Struct, frozen=True):
    """A histogram of the session so far: `counts[i]` spans were at most `upto_ns[i]`."""

    name: str
    """event to record, decode, ..."""
    upto_ns: tuple[float, ...]
    counts: tuple[int, ...]
    p50_ns: float = 0.0
    p90_ns: float = 0.0
    p99_ns: float = 0.0
    p999_ns: float = 0.0
    max_ns: float = 0.0


class LogLine(Struct, frozen=True):
    """One line of what happened."""

    seq: int
    ts: int
    level: Level
    source: str
    """A strategy, a feed, session, supervisor, ..."""
    text: str


class Snapshot(Struct, frozen=True):
    """The whole session, ten times a second; a missing one means that it hangs."""

    seq: int
    ts: int
    session: str
    state: State
    started: int
    reason: str = ""
    folder: str = ""
    build: str = ""
    resumed: bool = False
    events: int = 0
    """Consumed by the engine since the first start."""
    committed: int = 0
    """Of those, on disk."""
    currency: str = "USD"
    equity: float = 0.0
    profit: float = 0.0
    profit_today: float = 0.0
    drawdown: float = 0.0
    drawdown_max: float = 0.0
    instruments: tuple[InstrumentView, ...] = ()
    strategies: tuple[StrategyView, ...] = ()
    positions: tuple[Position, ...] = ()
    working: tuple[WorkingOrder, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    feeds: tuple[FeedHealth, ...] = ()
    books: tuple[BookView, ...] = ()
    latency: tuple[LatencyView, ...] = ()
    fills: tuple[FillRow, ...] = ()
    """Since the snapshot before; so are bars and log."""
    bars: tuple[BarRow, ...] = ()
    log: tuple[LogLine, ...] = ()
