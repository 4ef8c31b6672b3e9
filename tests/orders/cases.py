"""Orders as a user writes them, with their fills worked out by hand from docs/fill-rules.md.

Bars are (open, high, low, close[, volume]); the first bar closes before anything can fill. A day
ends at midnight UTC, which is the close of bar 3.
"""

from dataclasses import dataclass

Bar = tuple[float, ...]
Fill = tuple[int, float, float]

FLAT = (100, 100, 100, 100)
RISES = (100, 101, 100, 101)
FALLS = (100, 100, 99, 99)
WIDE = (100, 101, 99, 100)
GAP_UP = (101, 102, 100.5, 101)
GAP_DOWN = (99, 99.5, 98, 98)


@dataclass(frozen=True)
class Case:
    """What a strategy does after which bar, and what must come of it."""

    orders: dict[int, str]
    bars: tuple[Bar, ...]
    fills: tuple[Fill, ...] = ()  # (bar, signed quantity, price)
    ends: tuple[str, ...] = ()  # reasons of the orders that did not fill in full, in order
    settings: str = ""
    risk: str = "max_position = 1_000 shares"
    cash: str = "100_000 USD"
    param: str = ""


def buy(arguments: str, *bars: Bar, fills: tuple[Fill, ...] = (), **more: object) -> Case:
    """One buy after the first bar."""
    return Case({1: f"buy({arguments})"}, (FLAT, *bars), fills, **more)  # type: ignore[arg-type]


TYPES = {
    "market": buy("10 shares", GAP_UP, fills=((2, 10, 101),)),
    "limit": buy("10 shares, limit = 99.5", FALLS, fills=((2, 10, 99.5),)),
    "limit, better open": buy("10 shares, limit = 99.5", GAP_DOWN, fills=((2, 10, 99),)),
    "stop": buy("10 shares, stop = 100.5", RISES, fills=((2, 10, 100.5),)),
    "stop, worse open": buy("10 shares, stop = 100.5", GAP_UP, fills=((2, 10, 101),)),
    "stop-limit": buy("10 shares, stop = 100.5, limit = 100.6", GAP_UP, fills=((2, 10, 100.6),)),
    "stop-limit, not reached": buy("10 shares, stop = 102, limit = 103", GAP_DOWN, GAP_DOWN),
    "touch": buy("10 shares, touch = 99.5", FALLS, fills=((2, 10, 99.5),)),
    "limit if touched": buy("10 shares, touch = 99.5, limit = 99.4", FALLS, fills=((2, 10, 99.4),)),
    "price from the bar": buy("10 shares, limit = close - 50 ticks", FALLS, fills=((2, 10, 99.5),)),
    "short at a limit": Case(
        {1: "short(10 shares, limit = 100.5)"}, (FLAT, RISES), ((2, -10, 100.5),)
    ),
    "cover at a stop": Case(
        {1: "short(10 shares)", 2: "cover(10 shares, stop = 100.5)"},
        (FLAT, FLAT, RISES),
        ((2, -10, 100), (3, 10, 100.5)),
    ),
    "target": Case(
        {1: "target(20 shares)", 2: "target(-10 shares)", 3: "close_position()"},
        (FLAT, FLAT, FLAT, FLAT),
        ((2, 20, 100), (3, -30, 100), (4, 10, 100)),
    ),
    "flatten": Case(
        {1: "buy(10 shares)", 2: "buy(5 shares, limit = 90)", 3: "flatten()"},
        (FLAT, FLAT, FLAT, FLAT),
        ((2, 10, 100), (4, -10, 100)),
        ("flattened",),
    ),
}

AFTER_RISE = (101, 101, 99, 99)
EXITS = {
    "trail in price": buy(
        "10 shares, trail = 0.50", RISES, AFTER_RISE, fills=((2, 10, 100), (3, -10, 100.5))
    ),
    "trail in ticks": buy(
        "10 shares, trail = 50 ticks", RISES, AFTER_RISE, fills=((2, 10, 100), (3, -10, 100.5))
    ),
    "trail in percent": buy(
        "10 shares, trail = 1%", RISES, AFTER_RISE, fills=((2, 10, 100), (3, -10, 99.99))
    ),
    "trail in a percentage that has a name": buy(
        "10 shares, trail = 2 * (max(0.25%, 0.1%) if flat else 0.5%)",
        RISES,
        AFTER_RISE,
        fills=((2, 10, 100), (3, -10, 100.49)),
    ),
    "trailing order": Case(
        {1: "buy(10 shares)", 2: "sell(10 shares, trail = 50 ticks)"},
        (FLAT, FLAT, RISES, AFTER_RISE),
        ((2, 10, 100), (4, -10, 100.5)),
    ),
    "take profit": buy(
        "10 shares, take_profit = 101, stop_loss = 99",
        RISES,
        fills=((2, 10, 100), (2, -10, 101)),
        ends=("oco",),
    ),
    "stop loss": buy(
        "10 shares, take_profit = 101, stop_loss = 99",
        WIDE,
        fills=((2, 10, 100), (2, -10, 99)),
        ends=("oco",),
    ),
    "bracket": buy(
        "10 shares, bracket(take_profit = 101, stop_loss = 99)",
        WIDE,
        settings="path = high_first",
        fills=((2, 10, 100), (2, -10, 101)),
        ends=("oco",),
    ),
    "exits of a short": Case(
        {1: "short(10 shares, take_profit = 99, stop_loss = 101)"},
        (FLAT, WIDE),
        ((2, -10, 100), (2, 10, 101)),
        ("oco",),
    ),
    "one cancels the other": Case(
        {
            1: 'buy(10 shares, stop = 100.5, oco = "range"); '
            'short(10 shares, stop = 99.5, oco = "range")'
        },
        (FLAT, WIDE),
        ((2, 10, 100.5),),
        ("oco",),
    ),
    "targets by tag": Case(
        {
            1: 'buy(30 shares, stop_loss = 99, tag = "entry")',
            2: 'sell(10 shares, limit = 101, tag = "near"); '
            'sell(10 shares, limit = 102, tag = "far")',
        },
        (FLAT, FLAT, RISES, (101, 102, 101, 102), (102, 102, 98, 98)),
        ((2, 30, 100), (3, -10, 101), (4, -10, 102), (5, -10, 99)),
    ),
    "scaling out": Case(
        {
            1: 'buy(10 shares, limit = 99.5, stop_loss = 98, tag = "in"); '
            'sell(4 shares, limit = 101, after = "in"); sell(6 shares, limit = 102, after = "in")'
        },
        (FLAT, FALLS, RISES, GAP_UP),
        ((2, 10, 99.5), (3, -4, 101), (4, -6, 102)),
        ("position closed",),
    ),
    "scaling out of a short": Case(
        {
            1: 'short(10 shares, limit = 100.5, tag = "in"); '
            'cover(4 shares, limit = 99, after = "in"); cover(9 shares, stop = 102, after = "in")'
        },
        (FLAT, RISES, FALLS, GAP_UP),
        ((2, -10, 100.5), (3, 4, 99), (4, 6, 102)),
        ("cut",),
    ),
    "out before all is in": buy(
        "10 shares, limit = 99.5, take_profit = 101, stop_loss = 98",
        (100, 100, 99, 99, 8),
        RISES,
        FALLS,
        settings="volume_share = 50%",
        fills=((2, 4, 99.5), (3, -4, 101)),
        ends=("oco", "oco"),
    ),
    "after another": Case(
        {
            1: 'buy(10 shares, limit = 99.5, tag = "first"); '
            'buy(5 shares, stop = 100.5, after = "first")'
        },
        (FLAT, RISES, FALLS, RISES),
        ((3, 10, 99.5), (4, 5, 100.5)),
    ),
}

LIFE = {
    "good till cancelled": buy(
        "10 shares, limit = 99.5, tif = gtc", FLAT, FLAT, FALLS, fills=((4, 10, 99.5),)
    ),
    "day": buy("10 shares, limit = 99.5, tif = day", FLAT, FLAT, FALLS, ends=("expired",)),
    "good till date": buy(
        "10 shares, limit = 99.5, tif = gtd(now + 2h)", FLAT, FLAT, FALLS, ends=("expired",)
    ),
    "good till a later date": buy(
        "10 shares, limit = 99.5, tif = gtd(now + 3h)", FLAT, FLAT, FALLS, fills=((4, 10, 99.5),)
    ),
    "immediate or cancel": buy(
        "10 shares, tif = ioc",
        (100, 100, 100, 100, 8),
        FLAT,
        settings="volume_share = 50%",
        fills=((2, 4, 100),),
        ends=("unfilled",),
    ),
    "immediate, not there": buy("10 shares, limit = 99.5, tif = ioc", FALLS, ends=("unfilled",)),
    "fill or kill": buy(
        "10 shares, tif = fok",
        (100, 100, 100, 100, 8),
        FLAT,
        settings="volume_share = 50%",
        ends=("unfilled",),
    ),
    "on the open": buy("10 shares, tif = opg", FLAT, FLAT, GAP_UP, fills=((4, 10, 101),)),
    "on the close": buy("10 shares, tif = cls", FLAT, RISES, FALLS, fills=((3, 10, 101),)),
    "reduce only": Case(
        {1: "buy(10 shares)", 2: "short(20 shares, reduce_only = true)"},
        (FLAT, FLAT, FLAT),
        ((2, 10, 100), (3, -10, 100)),
        ("cut",),
    ),
    "post only": buy("10 shares, limit = 99.5, post_only = true", FALLS, fills=((2, 10, 99.5),)),
    "post only, would take": buy(
        "10 shares, limit = 100.5, post_only = true", FALLS, ends=("post only",)
    ),
    "replace": Case(
        {
            1: 'buy(10 shares, limit = 98, tag = "entry")',
            2: 'replace("entry", limit = 99.5, qty = 20 shares)',
        },
        (FLAT, FLAT, FALLS),
        ((3, 20, 99.5),),
    ),
    "replace a stop loss": Case(
        {
            1: 'buy(10 shares, stop_loss = 90, tag = "entry")',
            2: 'replace("entry", stop_loss = 99.5)',
        },
        (FLAT, FLAT, FALLS),
        ((2, 10, 100), (3, -10, 99.5)),
    ),
    "cancel": Case(
        {1: 'buy(10 shares, limit = 99.5, tag = "entry")', 2: 'cancel("entry")'},
        (FLAT, FLAT, FALLS),
        ends=("cancelled",),
    ),
    "cancel all": Case(
        {1: "buy(10 shares, limit = 99.5)", 2: "cancel_all()"},
        (FLAT, FLAT, FALLS),
        ends=("cancelled",),
    ),
    "scaling in": Case(
        {1: "buy(10 shares)", 2: "buy(10 shares)", 3: "buy(10 shares)"},
        (FLAT, FLAT, FLAT, FLAT),
        ((2, 10, 100), (3, 10, 100)),
        ("max entries",),
        risk="max_entries = 2",
    ),
    "a limit beyond all money": buy(
        "10 shares", FLAT, risk="max_notional = 100_000_000_000 USD", fills=((2, 10, 100),)
    ),
    "a param beyond all money": buy(
        "10 shares",
        FLAT,
        param="param most = 100_000_000_000_000 USD",
        risk="max_notional = most",
        fills=((2, 10, 100),),
    ),
    "a loss of a param beyond all money": Case(
        {1: "buy(10 shares)", 2: "buy(10 shares)"},
        (FLAT, FLAT, FLAT),
        ((2, 10, 100), (3, 10, 100)),
        param="param most = 100_000_000_000_000 USD",
        risk="max_daily_loss = most",
    ),
    "a share beyond all money": buy(
        "10 shares", FLAT, risk="max_gross = 100_000_000_000% of equity", fills=((2, 10, 100),)
    ),
    "a loss beyond all money": Case(
        {1: "buy(10 shares)", 2: "buy(10 shares)"},
        (FLAT, FLAT, FLAT),
        ((2, 10, 100), (3, 10, 100)),
        risk="max_daily_loss = 100_000_000_000% of equity",
    ),
    "a drawdown beyond all money": Case(
        {1: "buy(10 shares)", 2: "buy(10 shares)"},
        (FLAT, FLAT, FLAT),
        ((2, 10, 100), (3, 10, 100)),
        risk="max_drawdown = 100_000_000_000%",
    ),
    "volume share": buy(
        "10 shares",
        (100, 100, 100, 100, 8),
        (101, 101, 101, 101, 8),
        (102, 102, 102, 102, 8),
        settings="volume_share = 50%",
        fills=((2, 4, 100), (3, 4, 101), (4, 2, 102)),
    ),
    "delay": buy("10 shares", FLAT, GAP_UP, settings="delay = 1", fills=((3, 10, 101),)),
}

HALF = (50, 50, 50, 50)
SIZES = {
    "value": buy("value = 1_050 USD", FLAT, fills=((2, 10, 100),)),
    "value of equity": buy("value = 10% of equity", HALF, fills=((2, 100, 50),)),
    "sized at the fill": buy("value = 10% of equity, size_at = fill", HALF, fills=((2, 200, 50),)),
    "target value": Case(
        {1: "target(value = 1_000 USD)", 2: "target(value = 500 USD)"},
        (FLAT, FLAT, FLAT),
        ((2, 10, 100), (3, -5, 100)),
    ),
    "value with its fee inside": buy(
        "value = 1_000 USD", FLAT, settings="fees = 10bps", fills=((2, 9, 100),)
    ),
    "cut to the cash": buy(
        "20 shares", FLAT, cash="1_000 USD", fills=((2, 10, 100),), ends=("cut",)
    ),
    "refused for cash": buy(
        "20 shares",
        FLAT,
        cash="1_000 USD",
        settings="unaffordable = reject",
        ends=("unaffordable",),
    ),
    "leverage": buy(
        "50 shares",
        FLAT,
        cash="1_000 USD",
        settings="leverage = 4",
        fills=((2, 40, 100),),
        ends=("cut",),
    ),
    # equity 1,000 - 40 * 7 = 720 is below 20 % of 40 * 93 = 3,720
    "liquidation": buy(
        "40 shares, stop_loss = 50",
        FLAT,
        (93, 93, 93, 93),
        cash="1_000 USD",
        settings="leverage = 4\n        maintenance = 20%",
        fills=((2, 40, 100), (3, -40, 93)),
        ends=("liquidated",),
    ),
    # 10 shares are worth 1,010 USD where a purchase fills, 990 where a sale does.
    "a target that buys is judged as a purchase": Case(
        {1: "target(10 shares)", 2: "target(-10 shares)"},
        (FLAT, FLAT, FLAT),
        ((3, -10, 99),),
        ("max notional",),
        settings="slippage = 100 ticks",
        risk="max_notional = 1_000 USD",
    ),
    "slippage in ticks": buy(
        "10 shares", FLAT, settings="slippage = 2 ticks", fills=((2, 10, 100.02),)
    ),
    "slippage in bps": buy("10 shares", FLAT, settings="slippage = 5bps", fills=((2, 10, 100.05),)),
    "slippage by volume": buy("10 shares", FLAT, settings="impact = 10%", fills=((2, 10, 100.1),)),
}

CASES = {**TYPES, **EXITS, **LIFE, **SIZES}

# Of 10 shares bought at 100: money 1,000.
FEES = {
    "bps": ("buy(10 shares)", "fees = 10bps", 1.0),
    "per share": ("buy(10 shares)", "fees = per_share(0.02 USD)", 0.2),
    "per contract": ("buy(10 shares)", "fees = per_contract(2 USD)", 20.0),
    "per order": ("buy(10 shares)", "fees = per_order(5 USD)", 5.0),
    "minimum": ("buy(10 shares)", "fees = 10bps\n        min_fee = 3 USD", 3.0),
    "taker": ("buy(10 shares)", "fees = 10bps\n        maker_fee = 2bps", 1.0),
    "maker": ("buy(10 shares, limit = 99.5)", "fees = 10bps\n        maker_fee = 2bps", 0.199),
    "rebate": ("buy(10 shares, limit = 99.5)", "fees = 10bps\n        maker_fee = -2bps", -0.199),
}
