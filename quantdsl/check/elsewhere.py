"""Words of other tools, and how what they mean is said here."""

_OF_NOW = "write now.{0}; for an action at a time of its own there is 'at 15:45 on month_end:'"
_HOUR, _MINUTE, _DAY, _MONTH, _YEAR, _WEEKDAY = map(
    _OF_NOW.format, ("hour", "minute", "day", "month", "year", "weekday")
)
_STOP = "an exit belongs to its entry: buy(100 shares, stop_loss = close - 1 USD)"
_DAYS = "a day needs its time: 'at session_open on month_start:', 'at 15:45 on month_end:'"
_CASH = "write cash = 10_000 USD"

NAMES = {
    "nz": "'x ?? 0.0' is x, or 0.0 where x is na",
    "isnan": "write 'x is na' or 'x is not na'",
    "isna": "write 'x is na' or 'x is not na'",
    "True": "write true",
    "False": "write false",
    "None": "what is missing is na",
    "print": 'write log("close {close}"), which stands in the report',
    "strategy": "orders are buy, sell, short, cover, target and close_position",
    "modify": 'write replace("tag", limit = close)',
    "amend": 'write replace("tag", limit = close)',
    "exit": "write close_position(), or sell and cover a part of it",
    "close_all": "write flatten()",
    "liquidate": "write flatten()",
    "order_target_percent": "write target(value = 20% of equity)",
    "order_target_value": "write target(value = 1_000 USD)",
    "set_holdings": "write target(value = 20% of equity)",
    "request": "declare a second clock, 'bars 1d as daily', and read daily.close",
    "time": "a bar's time is bars.time, that of the event is now",
    "hour": _HOUR,
    "minute": _MINUTE,
    "weekday": _WEEKDAY,
    "dayofweek": _WEEKDAY,
    "day_of_week": _WEEKDAY,
    "dayofmonth": _DAY,
    "day_of_month": _DAY,
    "month": _MONTH,
    "year": _YEAR,
    "now": "a fn knows no time: give it what it needs as an argument, such as now.hour",
    "bbands": "write ta.bb(close, 20)",
    "bollinger": "write ta.bb(close, 20)",
    "willr": "write ta.wpr(14)",
    "iff": "write 'a if condition else b'",
    "where": "write 'a if condition else b'",
    "ln": "write log(x)",
    "ref": "write close[1], the bar before",
    "prev_close": "write close[1], or daily.close of a second clock, 'bars 1d as daily'",
    "keltner": "write ta.kc(close, 20, 2.0)",
    "sell_short": "write short(100 shares)",
    "buy_to_cover": "write cover(100 shares)",
    "buy_limit": "write buy(100 shares, limit = close - 1 tick)",
    "buy_stop": "write buy(100 shares, stop = close + 1 tick)",
    "sell_limit": "write sell(100 shares, limit = close + 1 tick), or short",
    "sell_stop": "write sell(100 shares, stop = close - 1 tick), or short",
    "order": "orders are buy, sell, short, cover, target and close_position",
    "exit_long": "write close_position()",
    "exit_short": "write close_position()",
    "all": "write close_position() to leave, value = 100% of equity to buy for all",
    "set_stop": _STOP,
    "stop_loss": _STOP,
    "take_profit": _STOP.replace("stop_loss = close - 1 USD", "take_profit = close + 1 USD"),
    "plot": "it stands directly in the strategy, not in a handler: plot(close)",
    # CUDA's
    "threadIdx": "write thread.x",
    "blockIdx": "write block.x",
    "blockDim": "write block_size.x",
    "gridDim": "write grid.x",
    "warpSize": "a warp has 32 threads; lane is the number of one in it",
    "__syncthreads": "write barrier()",
    "__syncwarp": "write warp_barrier()",
    "__threadfence": "write fence(device)",
    "__threadfence_block": "write fence(block)",
    "__threadfence_system": "write fence(system)",
    "__shfl_sync": "write shuffle(x, k)",
    "__shfl_up_sync": "write shuffle_up(x, k)",
    "__shfl_down_sync": "write shuffle_down(x, k)",
    "__shfl_xor_sync": "write shuffle_xor(x, k)",
    "__any_sync": "write vote_any(b)",
    "__all_sync": "write vote_all(b)",
    "__ballot_sync": "write ballot(b)",
    "atomicAdd": "write atomic_add(s[i], x)",
    "atomicMin": "write atomic_min(s[i], x)",
    "atomicMax": "write atomic_max(s[i], x)",
    "atomicExch": "write atomic_exchange(s[i], x)",
    "atomicCAS": "write atomic_compare_swap(s[i], expected, x)",
}

EVENTS = {
    "close": "write 'on bar:' for the close of a bar, 'on session_close:' for that of the day",
    "open": "write 'on session_open:'; an order of 'on bar:' meets the next bar's open",
    "tick": "write 'on quote:', 'on trade:' or 'on book:'",
    "month_end": _DAYS,
    "month_start": _DAYS,
    "week_end": _DAYS,
    "week_start": _DAYS,
    "day": "write 'on session_open:' or 'on session_close:'",
    "risk": "limits stand in 'risk:'; where one of them stops trading, 'on halt:' is told",
}

RISK = {
    "stop_loss": "it belongs to an entry: buy(100 shares, stop_loss = close - 1 USD)",
    "take_profit": "it belongs to an entry: buy(100 shares, take_profit = close + 1 USD)",
    "trailing_stop": "it belongs to an entry: buy(100 shares, trail = 5%)",
    "max_positions": "write max_weight = 10% for the value of each, max_gross for that of all",
    "risk_per_trade": "it belongs to the size: floor_qty(1% of equity / distance_of_the_stop)",
}

BACKTEST = {
    "commission": "write fees = 10bps, or fees = per_share(0.005 USD)",
    "initial_capital": _CASH,
    "capital": _CASH,
    "initial_cash": _CASH,
    "start": "the command says it: --from 2020-01-01",
    "end": "the command says it: --to 2020-12-31",
    "margin": "write leverage = 2 for the most that may be held, maintenance = 25%",
    "spread": "write slippage = 1 tick, which each order that takes liquidity pays",
}

ARGUMENTS = {
    "sl": "stop_loss",
    "tp": "take_profit",
    "trailing_stop": "trail",
    "price": "limit",
    "comment": "tag",
    "name": "tag",
    "id": "tag",
    "label": "tag",
    "size": "qty",
    "amount": "qty",
    "quantity": "qty",
    "shares": "qty",
}
"""Arguments of orders."""
