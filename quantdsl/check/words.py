"""The words of a strategy that are neither std's nor in a table beside what elaborates them.

`quantdsl help` and the tour show these rows; a test compiles each example, and holds that no name
of a strategy's scope is missing here or in the tables of builtins, trading, market and settings.
"""

from msgspec import Struct


class Word(Struct, frozen=True):
    """A row: how it is written, what it does, an example for a handler of one instrument."""

    signature: str
    text: str
    example: str


ORDER_ARGUMENTS: dict[str, Word] = {
    "limit": Word(
        "limit = price",
        "Fills at this price or better; a float is rounded to the passive side.",
        "buy(100 shares, limit = close - 2 ticks)",
    ),
    "stop": Word(
        "stop = price",
        "Wakes where the market gets worse than this price, then as a market or limit order.",
        "buy(100 shares, stop = ta.highest(high, 20) + 1 tick)",
    ),
    "touch": Word(
        "touch = price",
        "Wakes where the market gets better than this price (if touched).",
        "buy(100 shares, touch = close - 1 USD)",
    ),
    "trail": Word(
        "trail = distance",
        "A stop that follows at a distance in price, in ticks or in percent and never retreats.",
        "buy(100 shares, trail = 2%)",
    ),
    "take_profit": Word(
        "take_profit = price",
        "An exit at this price that wakes when the entry fills.",
        "buy(100 shares, take_profit = close + 1 USD)",
    ),
    "stop_loss": Word(
        "stop_loss = price",
        "A stop that wakes when the entry fills; together with take_profit one cancels the other.",
        "buy(100 shares, stop_loss = close - 2 * ta.atr(14))",
    ),
    "bracket": Word(
        "bracket(take_profit =, stop_loss =, trail =)",
        "The same exits, written together.",
        "buy(100 shares, bracket(take_profit = close + 2 USD, stop_loss = close - 1 USD))",
    ),
    "value": Word(
        "value = money",
        "Size by money instead of a quantity: the lots that it pays for with slippage and fees.",
        "buy(value = 10% of equity)",
    ),
    "size_at": Word(
        "size_at = fill",
        "Size at the fill, of the equity at that moment.",
        "buy(value = 10% of equity, size_at = fill)",
    ),
    "qty": Word("qty = quantity", "The size by name.", "buy(qty = 100 shares)"),
    "tif": Word(
        "tif = gtc | day | gtd(t) | ioc | fok | moo | moc | loo | loc",
        "How long the order works, or which auction of the session it is for.",
        "buy(100 shares, limit = close, tif = day)",
    ),
    "oco": Word(
        'oco = "group"',
        "Orders of one group: the first that fills cancels the others.",
        'buy(100 shares, stop = close + 1 USD, oco = "range")',
    ),
    "tag": Word(
        'tag = "name"',
        "A name for cancel, replace and after.",
        'buy(100 shares, limit = close, tag = "entry")',
    ),
    "after": Word(
        'after = "tag"',
        "Waits until the order with that tag begins to fill. A sell or cover closes at most what "
        "is held and what that order may still bring.",
        'sell(50 shares, limit = close + 1 USD, after = "entry")',
    ),
    "post_only": Word(
        "post_only = true",
        "Cancelled instead of taking liquidity.",
        "buy(100 shares, limit = close, post_only = true)",
    ),
    "reduce_only": Word(
        "reduce_only = true",
        "Never opens or turns a position.",
        "sell(100 shares, limit = close + 1 USD, reduce_only = true)",
    ),
}

ORDER_ARGUMENTS["display"] = Word(
    "display = quantity",
    "On ticks: shows only so much of the order at once (an iceberg).",
    "buy(500 shares, limit = bid, display = 100 shares)",
)

ACTIONS: dict[str, Word] = {
    "close_position": Word(
        "close_position([instrument])", "Close the position at market.", "close_position()"
    ),
    "flatten": Word(
        "flatten()", "Cancel every order and close every position at market.", "flatten()"
    ),
    "cancel_all": Word(
        "cancel_all([instrument])", "Cancel every working order, exits too.", "cancel_all()"
    ),
    "cancel": Word(
        'cancel("tag")',
        "Cancel the working orders with that tag; exits of what has filled stay.",
        'cancel("entry")',
    ),
    "replace": Word(
        'replace("tag", limit =, stop =, ...)',
        "Give the working orders with that tag new prices.",
        'replace("entry", limit = close - 1 tick)',
    ),
    "quote": Word(
        "quote([instrument,] bid =, bid_qty =, ask =, ask_qty =, post_only =, requote_if =)",
        "What should stand on both sides; only what differs from it is sent. A side of 0, or that "
        "is left out, is withdrawn; a float is rounded away from the market; a price that differs "
        "by less than requote_if stays.",
        "quote(bid = mid - 0.02, bid_qty = 100 shares, ask = mid + 0.02, ask_qty = 100 shares)",
    ),
    "atomic": Word(
        "atomic:",
        "Its orders pass the risk gate together or not at all; it holds nothing else.",
        "",
    ),
    "floor_qty": Word(
        "floor_qty(x [, instrument]) -> qty",
        "x units as a quantity, rounded down to a lot; an order of an na is refused and counted.",
        "floor_qty(1% of equity / close)",
    ),
    "snap": Word(
        "snap(x, up | down | nearest) -> price",
        "A float as a price on the grid of ticks.",
        "snap(close - 0.5 * ta.atr(14), down)",
    ),
}

MARKET: dict[str, Word] = {
    "open": Word("open -> price", "First price of the bar.", "open"),
    "high": Word("high -> price", "Highest price of the bar.", "high"),
    "low": Word("low -> price", "Lowest price of the bar.", "low"),
    "close": Word("close -> price", "Last price of the bar; close[1] is the bar before.", "close"),
    "volume": Word("volume -> qty", "What was traded in the bar.", "volume"),
    "hl2": Word("hl2 -> float", "(high + low) / 2", "hl2"),
    "hlc3": Word("hlc3 -> float", "(high + low + close) / 3", "hlc3"),
    "ohlc4": Word("ohlc4 -> float", "(open + high + low + close) / 4", "ohlc4"),
    "bars": Word("bars", "The bars themselves, for an indicator that takes them.", "bars.high"),
    "bar_index": Word("bar_index -> int", "Bars of the finest clock before this one.", "bar_index"),
    "now": Word("now -> time", "Time of the event: a bar's close, or when a tick came.", "now"),
    "now.weekday": Word(
        "now.weekday -> monday | tuesday | wednesday | thursday | friday | saturday | sunday",
        "Day of the week, an int: monday is 0, sunday 6. As all that follows now it is of the last "
        "nanosecond that has passed, on the session's clocks, of UTC without a session.",
        "now.weekday == monday",
    ),
    "now.day": Word("now.day -> int", "Day of the month, 1 to 31.", "now.day <= 5"),
    "now.month": Word("now.month -> int", "Month of the year, 1 to 12.", "now.month == 12"),
    "now.year": Word("now.year -> int", "Year, such as 2026.", "now.year >= 2020"),
    "now.hour": Word(
        "now.hour -> int",
        "Hour of the day, 0 to 23: 9 of a bar that closes at 10:00.",
        "now.hour >= 10",
    ),
    "now.minute": Word(
        "now.minute -> int",
        "Minute of the hour, 0 to 59: 34 of a bar that closes at 9:35.",
        "now.minute == 59",
    ),
    "session_open": Word("session_open -> time", "When today's session began.", "session_open"),
    "session_close": Word("session_close -> time", "When today's session ends.", "session_close"),
    "never": Word("never -> time", "A time before all others: of what has not happened.", "never"),
}

TICKS: dict[str, Word] = {
    "bid": Word("bid -> price", "Best bid of the quotes, where there are none of the book.", "bid"),
    "ask": Word("ask -> price", "Best ask of the quotes, where there are none of the book.", "ask"),
    "bid_qty": Word("bid_qty -> qty", "What is bid for at the best bid.", "bid_qty"),
    "ask_qty": Word("ask_qty -> qty", "What is offered at the best ask.", "ask_qty"),
    "spread": Word("spread -> price", "From the best bid to the best ask.", "spread"),
    "mid": Word("mid -> float", "Halfway between the best bid and the best ask.", "mid"),
    "trade.price": Word("trade.price -> price", "Price of the last trade.", "trade.price"),
    "trade.qty": Word("trade.qty -> qty", "Size of the last trade.", "trade.qty"),
    "trade.signed_qty": Word(
        "trade.signed_qty -> qty",
        "Size of the last trade, below zero where the seller took; 0 where the data do not tell.",
        "trade.signed_qty",
    ),
}

TICKS |= {
    "book.bid": Word(
        "book.bid[n] -> price?", "The n-th best bid, from 0; na: no such level.", "book.bid[1]"
    ),
    "book.ask": Word(
        "book.ask[n] -> price?", "The n-th best ask, from 0; na: no such level.", "book.ask[1]"
    ),
    "book.bid_qty": Word(
        "book.bid_qty[n] -> qty", "What is bid for at the n-th best bid, from 0.", "book.bid_qty[1]"
    ),
    "book.ask_qty": Word(
        "book.ask_qty[n] -> qty", "What is offered at the n-th best ask, from 0.", "book.ask_qty[1]"
    ),
    "book.microprice": Word(
        "book.microprice(levels = 1) -> float",
        "low + (high - low) * bids / (bids + asks): the mean bid and ask of the levels by size, "
        "weighted by the size of the other side. Evaluated once a message.",
        "book.microprice(levels = 3)",
    ),
    "book.imbalance": Word(
        "book.imbalance(levels = 1) -> float",
        "(bids - asks) / (bids + asks) of the sizes of the best levels: -1 .. 1.",
        "book.imbalance(levels = 5)",
    ),
    "book.order_flow_imbalance": Word(
        "book.order_flow_imbalance() -> qty",
        "What the last message added to the best bid less what it added to the best ask "
        "(Cont, Kukanov, Stoikov 2014).",
        "book.order_flow_imbalance()",
    ),
    "book.depth_to": Word(
        "book.depth_to(price) -> qty",
        "What rests from the touch to a price: of the bids below mid, of the asks above.",
        "book.depth_to(bid - 5 ticks)",
    ),
    "book.vwap_to_fill": Word(
        "book.vwap_to_fill(qty) -> float?",
        "Mean price of taking so much, of a sale where it is below zero; na: there is less.",
        "book.vwap_to_fill(500 shares) ?? mid",
    ),
    "book.queue_ahead": Word(
        "book.queue_ahead(working.bid | working.ask) -> float?",
        "What rests before one's own best order, as the queue model has it; na: none rests.",
        "book.queue_ahead(working.bid) ?? 0.0",
    ),
    "working.bid": Word(
        "working.bid -> float",
        "Highest limit of one's own buys at work or on their way; na without one.",
        "working.bid",
    ),
    "working.ask": Word(
        "working.ask -> float",
        "Lowest limit of one's own sells at work or on their way; na without one.",
        "working.ask",
    ),
}

POSITION: dict[str, Word] = {
    "flat": Word("flat -> bool", "Nothing is held; working orders do not count.", "flat"),
    "long": Word("long -> bool", "The position is above zero.", "long"),
    "pending": Word(
        "pending -> bool", "An order works; the exits of brackets do not count.", "pending"
    ),
    "entry_price": Word(
        "entry_price -> float?",
        "Average price of the position; na when flat, so never below `if long:`.",
        "entry_price ?? 0.0",
    ),
    "bars_since": Word(
        "bars_since(entry) -> int",
        "Bars since the position was opened; the bar that filled the entry is 0.",
        "bars_since(entry)",
    ),
}

NEWS: dict[str, Word] = {
    "fill.price": Word("fill.price -> price", "In on fill: where it filled.", "fill.price"),
    "fill.qty": Word("fill.qty -> qty", "In on fill: how much, sales below zero.", "fill.qty"),
    "fill.fee": Word("fill.fee -> money", "In on fill: what it cost.", "fill.fee"),
    "order.state": Word(
        "order.state -> filled | rejected | cancelled",
        "In on order: what became of it.",
        "order.state",
    ),
    "order.reason": Word(
        "order.reason",
        "In on order: why it was refused or cancelled; the reasons are on the page of fill rules.",
        "order.reason",
    ),
    "order.qty": Word(
        "order.qty -> qty", "In on order: filled, or what was left of it.", "order.qty"
    ),
    "order.id": Word("order.id -> int", "In on order: its number in the report.", "order.id"),
}

OUTPUT: dict[str, Word] = {
    "log": Word(
        'log("text {name}")', "Write a line into the report, with values.", 'log("at {close}")'
    ),
    "alert": Word('alert("text")', "A line that also goes to the alerts.", 'alert("wide range")'),
    "mark": Word('mark("text")', "A mark at this bar on the chart.", 'mark("new high")'),
}
"""`log(x)` of a number is the natural logarithm of std/math."""

UNIVERSE: dict[str, Word] = {
    "rebalance": Word(
        "rebalance(weight, via = market | moc | moo, min_trade = 0%, max_turnover = inf)",
        "Where a handler runs once: orders that take each instrument to its weight of equity; "
        "changes below min_trade of equity are left out, and all are cut to max_turnover.",
        "rebalance(xs.scale(score), via = moc, min_trade = 0.1%, max_turnover = 60%)",
    ),
    "this": Word("this", "The instrument for which a handler runs.", ""),
    "dollar_volume": Word(
        "dollar_volume -> float", "Close times volume, in the currency.", "dollar_volume"
    ),
    "eligible": Word(
        "eligible -> bool", "Whether the file of universe.eligible has it.", "eligible"
    ),
    "adj.close": Word(
        "adj.close, adj.open, adj.high, adj.low -> float",
        "Prices times the factors of splits and dividends known so far; with adjust = all.",
        "adj.close / adj.close[1] - 1",
    ),
} | {
    name: Word(
        name,
        f"The {name} that the file of universe.groups tells, for by = {name}.",
        f"xs.demean(score, by = {name})",
    )
    for name in ("sector", "industry", "country")
}

SECTIONS: dict[str, dict[str, Word]] = {
    "universe": UNIVERSE,
    "orders": ACTIONS,
    "arguments of orders": ORDER_ARGUMENTS,
    "market": MARKET,
    "quotes, trades and book": TICKS,
    "position and account": POSITION,
    "news of orders": NEWS,
    "output": OUTPUT,
}

LIMIT_EXAMPLES = {
    "lots": "500 shares",
    "money": "25% of equity",
    "share": "5%",
    "count": "3",
    "rate": "200 / 1s",
    "duration": "30m",
    "drawdown": "15%",
}
"""Unit of a limit of settings.RISK -> a value of it; that of a fn is a name of the user's."""

SETTING_EXAMPLES = {
    "money": "1 USD",
    "share": "2bps",
    "ticks": "1 tick",
    "count": "2",
    "bool": "true",
    "duration": "10ms",
    "per_share": "per_share(0.005 USD)",
    "per_contract": "per_contract(1.2 USD)",
    "per_order": "per_order(1 USD)",
}
"""Form of a setting of settings.FORMS -> a value of it; other forms are words of their own."""

USUAL = {
    "cash": "100_000 USD",
    "maker_fee": "0.1bps",
    "maintenance": "25%",
    "volume_share": "10%",
    "borrow": "0.5%",
    "delay": "1",
}
"""Setting -> a value that makes sense, where that of its form does not."""
