"""What traders who know other tools write first, and what a percentage or a bare number is not."""

FOREIGN_ITEMS = {
    "percentages that have names": "let fixed = 2%\nstate kept = 3%\n"
    "action enter(far: float):\n    buy(9 shares, stop_loss = far)\n"
    "on bar:\n    var near = 4%\n    near = 5%\n    enter(6%)\n"
    "    buy(9 shares, stop_loss = fixed)\n    buy(9 shares, stop_loss = kept)\n"
    "    buy(9 shares, stop_loss = near)\n    buy(9 shares, stop_loss = max(kept, fixed))",
    "percentages for limits": "param p = 5% in 1%..9% step 1%\nrisk:\n    max_drawdown = p\n"
    "    max_daily_loss = 2 * p",
    "function without its namespace": "plot(sma(close, 9))",
    "function in capitals": "plot(SMA(close, 9))",
    "function of a namespace in capitals": "plot(ta.SMA(close, 9))",
    "function by the name of another tool": "plot(ta.BBANDS(close, 20).upper)\nplot(willr(14))",
    "line of a band by another name": "plot(ta.bb(close, 20, 2).basis)",
    "most of three": "plot(max(high - low, close, 3.0))",
    "two names for two lines": "let upper, lower = ta.donchian(20)",
    "history of what an equation cannot know": "let fresh = session_open != session_open[1]"
    "\nplot(fresh)",
    "time in an equation": "let early = now < 10:30\nlet late = not early\nplot(late)",
    "states of other kinds": "state top: price = 0\nstate lots: qty = 5\nstate n = 0\n"
    "on bar:\n    n = close * 2\n    n = equity",
    "fees of all there is": "backtest:\n    fees = 1",
    "slippage of all there is": "backtest:\n    fees = 1bps\n    slippage = 1",
    "maker fee of a tenth": "backtest:\n    fees = 0.01\n    maker_fee = 0.1",
    "days of a bar's handler": "on bar on month_end:\n    flatten()",
    "consts of a run's units": "const LOTS = 5 shares\nconst CASH = 5 USD\n"
    "on bar:\n    buy(LOTS)\n    modify(CASH)",
    "weight of thousands of percent": "risk:\n    max_weight = 25",
}
FOREIGN_STATEMENTS = {
    "tag of no order": 'buy(9 shares, stop_loss = low)\nreplace("sl", stop = close - 9 ticks)',
    "tag with a value": 'for i in 1..3:\n    buy(i * 9 shares, limit = low, tag = "g{i}")',
    "misspelt tag": 'buy(9 shares, limit = low, tag = "entry")\n'
    'sell(9 shares, after = "entry", tag = "exit")\ncancel("entri")',
    "wait for no order": 'buy(9 shares, limit = low, tag = "a")\nbuy(9 shares, after = "dip")',
    "percentage for a price": "buy(9 shares, stop_loss = 5%)\n"
    'short(9 shares, take_profit = -2bps)\nlet p = 3%\nreplace("a", limit = p / 2)',
    "part of a price for a price": "target(9 shares, limit = 0.02 * close)\n"
    "sell(9 shares, trail = close)",
    "distance for a price": "buy(9 shares, stop_loss = 20 ticks, take_profit = 5m)\n"
    "short(9 shares, limit = 2 ticks + 1 tick)",
    "distance of a formula for a price": "let far = 2 * ta.atr(14)\n"
    "buy(9 shares, stop_loss = far, take_profit = 0.5 * (high - low), trail = close - far)\n"
    "short(9 shares, limit = abs(ta.sma(close, 9) - low), stop_loss = close + far)",
    "percentage for money": "buy(value = 20%)",
    "percentage for money in a local": "let cap: money = 5% if flat else 2%\nbuy(value = cap)",
    "percentage off a price": "buy(9 shares, limit = close - 2%)",
    "price added to a percentage": "short(9 shares, limit = 1% + (high - low))",
    "percentage compared with money": "if open_profit > 5% or close < -1%:\n    flatten()",
    "words of other tools": "if True and isnan(close) and dayofweek == 1:\n    print(strategy)",
    "calendar by other names": "if now.date == 5 and weekday == 1 and now.dayofweek == 2:\n"
    "    flatten()\nlet monday = 3",
    "misspelt part of now": "if now.hours > 3:\n    flatten()",
    "history of the calendar in a handler": "if now.day != now.day[1]:\n    flatten()",
    "entry price while flat": "if flat and entry_price > 9.0 or long and entry_price > 9.0:\n"
    "    flatten()",
}
