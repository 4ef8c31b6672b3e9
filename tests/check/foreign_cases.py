"""What traders who know other tools write first, and what a percentage or a bare number is not."""

FOREIGN_ITEMS = {
    "percentages that have names": "let fixed = 2%\nstate kept = 3%\n"
    "action enter(far: float):\n    buy(9 shares, stop_loss = far)\n"
    "on bar:\n    var near = 4%\n    near = 5%\n    enter(6%)\n"
    "    buy(9 shares, stop_loss = fixed)\n    buy(9 shares, stop_loss = kept)\n"
    "    buy(9 shares, stop_loss = near)\n    buy(9 shares, stop_loss = max(kept, fixed))",
    "limits below 0": "plot(close)\nrisk:\n    max_drawdown = -5% -> halt\n"
    "    max_gross = -1% of equity\n",
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
    "days that are reckoned": "at 15:45 on month_end - 1:\n    flatten()",
    "days of a bar's handler": "on bar on month_end:\n    flatten()",
    "consts of a run's units": "const LOTS = 5 shares\nconst CASH = 5 USD\n"
    "on bar:\n    buy(LOTS)\n    modify(CASH)",
    "lengths for the series of an indicator": "let flow = ta.mfi(14)\n"
    "let k = ta.stoch(close, 14, 3)\nplot(flow + k)",
    "series for the length of an indicator": "plot(ta.atr(close, 14) + ta.vwma(close, volume, 9))",
    "lines of other tools": "timeframe 1d\ninput n = 20\nsymbol \"KO\"\ncommission 0.1%\n"
    "capital = 10000\nvar units = 0\non_bar:\n    buy(9 shares)\ndef f(x):\n    return x",
    "events of other tools": "on close:\n    flatten()\non tick:\n    flatten()\n"
    "on month_end:\n    flatten()\nat 15:45 on friday:\n    flatten()",
    "blocks of other tools": "risk:\n    stop_loss = 5%\nbacktest:\n    commission = 0.1%\n"
    "    initial_capital = 10_000 USD\n    start = 2020",
    "names of other tools": "let p = close.shift(1)\nlet r = ref(close, 1)\nlet l = ln(close)\n"
    "plot(p + r + l + prev_close)",
    "list of names for two lines": "let [upper, lower] = ta.donchian(20)\n"
    "let (m, s) = ta.macd(close)",
    "limits of other tools": "max_drawdown = 20%\nrisk:\n    max_positions = 5\n"
    "on risk:\n    flatten()",
    "hours of half a day": "at 9:30am:\n    flatten()\nat 12:05 PM:\n    flatten()\n"
    "at 9am:\n    flatten()\nat 15:00:61pm:\n    flatten()",
    "order that is no call": "buy 9 shares\non bar:\n    sell 9 shares\n",
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
    "share of equity for a size": "buy(50% of equity)",
    "part of cash for a size": "short(qty = 0.5 * cash, limit = high)",
    "money for a size": "buy(9_000 USD)",
    "percentage for a size": "buy(9 shares)\nsell(50%)",
    "money for a number of units": "buy(floor_qty(50% of equity))\nsell(floor_qty(100%))\n"
    "buy(floor_qty(50% of equity / close))",
    "stops of ranges on the wrong side": "let far = 2 * ta.atr(14)\n"
    "buy(9 shares, stop = close - far)\nbuy(9 shares, stop_loss = high + far)\n"
    "short(9 shares, stop_loss = close - far, take_profit = close + ta.tr() / 2)\n"
    "buy(9 shares, stop = high + far, stop_loss = close - far)\n"
    "buy(9 shares, stop_loss = close - far, take_profit = close + far)",
    "argument of another tool": "buy(9 shares, sl = low)",
    "order without an amount": 'buy("KO", 9 shares)\nsell()',
    "orders of other tools": "sell_short(9 shares)\nbuy_to_cover(9 shares)\nset_stop(low)\n"
    "plot(close)\nsell(all)",
    "declarations of other tools": "x = 5\nint z = 3\nfor i = 0 to 9:\n    flatten()",
    "steps of other tools": "var i = 0\ni++\nvar j = 9\nj--",
    "words of other tools": "if True and isnan(close) and dayofweek == 1:\n    print(strategy)",
    "calendar by other names": "if now.date == 5 and weekday == 1 and now.dayofweek == 2:\n"
    "    flatten()\nlet monday = 3",
    "misspelt part of now": "if now.hours > 3:\n    flatten()",
    "history of the calendar in a handler": "if now.day != now.day[1]:\n    flatten()",
    "entry price while flat": "if flat and entry_price > 9.0 or long and entry_price > 9.0:\n"
    "    flatten()",
    "sells before it holds": "if flat and close > open:\n            buy(5 shares)\n"
    "            sell(5 shares, stop = low)",
}
