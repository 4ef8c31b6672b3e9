"""Small wrong programs, by name: whole files, items of a strategy, and statements of a handler."""

from textwrap import indent

from tests.check.foreign_cases import FOREIGN_ITEMS, FOREIGN_STATEMENTS
from tests.check.kernel_cases import KERNELS, kernel
from tests.check.universe_cases import UNIVERSES

PAIR = """\
strategy S:
    instrument "XNYS:KO" as y
    instrument "XNYS:PEP" as x
    bars 5m
"""
STRATEGY = "strategy S:\n    bars 5m\n"
TICKS = "strategy S:\n    quotes\n    trades\n    book depth = 10\n"
TICK_ORDER = "    on quote:\n        buy(1 shares)\n"
ORDER = "    on bar:\n        buy(1 shares)\n"
AWAITED = "    @async(deadline = 2ms)\n    let a = ta.sma(close, 9)\n"
FILES = {
    "price of a fill of several": PAIR + "    state last = 0.0\n    state n = 0\n"
    "    on fill:\n        n += 1\n        last = float(fill.price)\n",
    "flat of one of several": PAIR + "    on bar when y.flat:\n        buy(y, value = 9 USD)\n",
    "threads outside a kernel": STRATEGY + "    plot(close + float(thread.x))\n    on bar:\n"
    "        barrier()\n",
    "tensor outside a kernel": "fn f(x: float) -> float:\n    var a: tensor[float, 2, 2] = 0\n"
    "    return x\n" + STRATEGY + "    plot(f(close))\n",
    "parallel outside a kernel": "fn f(n: const int) -> float:\n    var s = 0.0\n"
    "    parallel for i in 0..<n reduce(s: +):\n        s += 1.0\n    return s\n"
    + STRATEGY + ORDER,
    "f32 outside a kernel": "fn f(x: f32) -> float = float(x)\n" + STRATEGY + ORDER,
    "f32() outside a kernel": STRATEGY + "    plot(f32(close))\n",
    "kernel in an indicator": "kernel k(r: window[float, 4]) -> float:\n    return r[0]\n"
    "indicator f(x: series[float]) -> float:\n    return k(x)\n"
    + STRATEGY + "    plot(f(close))\n",
    "device of a handler": STRATEGY + "    @device(auto)\n" + ORDER,
    "tensor without anything": "kernel k(x: tensor) -> float:\n    return 1.0\n" + STRATEGY + ORDER,
    "threads without end": f"@workgroup({10**20})\nkernel k(x: tensor[float, n]):\n"
    "    if thread.x < 0:\n        barrier()\n" + STRATEGY + ORDER,
    "value of what returns nothing": "fn f(x: float):\n    let y = x\n" + STRATEGY
    + "    let a = f(float(close))\n    on bar:\n        let b = f(2.0)\n"
    "        if a > b:\n            buy(1 shares)\n",
    "value in place of a return": "fn f(x: float) -> float:\n    x + 1.0\n"
    + STRATEGY + "    plot(f(close))\n",
    "size that is a parameter too": "kernel k(n: int, x: tensor[float, n]) -> float:\n"
    "    return float(n)\n" + STRATEGY + ORDER,
    "no strategy": "const a = 1\n",
    "two strategies": STRATEGY + ORDER + "strategy T:\n    bars 5m\n" + ORDER,
    "nothing to do": STRATEGY,
    "nothing but a session": STRATEGY + '    session "XNYS", flat_by = 15:55\n',
    "kernel of a constant": "kernel k(r: window[f32, 64]) -> f32?:\n    return r[0]\n" + STRATEGY
    + "    plot(k(3.0))\n",
    **{name: kernel(body, **more) for name, (body, more) in KERNELS.items()},
    "annotation of a handler": STRATEGY + "    @fast\n" + ORDER,
    "an annotation with an argument": STRATEGY + "    @inline_always(2)\n" + ORDER,
    "a vectorizable equation": STRATEGY + "    @vectorizable\n    let a = close\n    plot(a)\n"
    + ORDER,
    "latency without a percentile": STRATEGY + "    @latency(1us)\n" + ORDER,
    "a critical equation": STRATEGY + "    @critical_path\n    let a = close\n    plot(a)\n"
    + ORDER,
    "two cores": STRATEGY + "    @cpu(1)\n" + ORDER
    + "    @cpu(2)\n    on fill:\n        flatten()\n",
    "log in a critical path": STRATEGY + "    @critical_path\n" + ORDER + '        log("x")\n',
    "mark in a critical path": STRATEGY + "    @critical_path\n" + ORDER + '        mark("x")\n',
    "an asynchronous handler": STRATEGY + "    @async(deadline = 2ms)\n" + ORDER,
    "a deadline without its name": STRATEGY + "    @async(2ms)\n    let a = ta.sma(close, 9)\n"
    "    on ready(a):\n        cancel_all()\n" + ORDER,
    "a signal of a price": STRATEGY + AWAITED.replace("ta.sma(close, 9)", "close - close[1]"),
    "two deadlines": STRATEGY + "    @async(deadline = 1s)\n" + AWAITED,
    "a deadline that is no time": STRATEGY + "    @async(deadline = 0ms)\n"
    "    let a = ta.sma(close, 9)\n    plot(a)\n" + ORDER,
    "a deadline of centuries": STRATEGY + "    @async(deadline = 110_000d)\n"
    "    let a = ta.sma(close, 9)\n    on ready(a):\n        cancel_all()\n" + ORDER,
    "an equation of a signal": STRATEGY + AWAITED + "    let b = a + 1.0\n    plot(b)\n" + ORDER,
    "a signal of a signal": STRATEGY + AWAITED + "    @async(deadline = 1s)\n"
    "    let b = ta.sma(a, 3)\n    on ready(b):\n        cancel_all()\n" + ORDER,
    "a plot of a signal": STRATEGY + AWAITED + "    plot(a)\n" + ORDER,
    "ready of an equation": STRATEGY + "    let a = ta.sma(close, 9)\n    plot(a)\n"
    "    on ready(a):\n        cancel_all()\n" + ORDER,
    "ready of nothing": STRATEGY + "    on ready:\n        cancel_all()\n" + ORDER,
    "a signal that may be na": STRATEGY + AWAITED + "    on bar:\n        if a > close:\n"
    "            buy(1 shares)\n",
    "part of a signal": STRATEGY + AWAITED + "    on ready(a):\n        if a.agee < 1s:\n"
    "            buy(1 shares)\n",
    "a signal of several values": STRATEGY + "    @async(deadline = 2ms)\n"
    "    let a = ta.macd(close, 12, 26, 9)\n    on ready(a):\n        cancel_all()\n" + ORDER,
    "a signal without a clock": STRATEGY + "    @async(deadline = 2ms)\n    let a = 2.0\n"
    "    on ready(a):\n        cancel_all()\n" + ORDER,
    "unknown annotation": STRATEGY + "    @critcal_path\n" + ORDER,
    "warmup of a fn": "@warmup(3)\nfn f(x: float) -> float = x\n" + STRATEGY + ORDER,
    "cost without text": "@cost(1)\nindicator f(x: series[float]) -> float:\n    return x\n"
    + STRATEGY + ORDER,
    "warmup of a float": "@warmup(2.5)\nindicator f(x: series[float]) -> float:\n    return x\n"
    + STRATEGY + ORDER,
    "warmup of a bool": "@warmup(true)\nindicator f(x: series[float]) -> float:\n    return x\n"
    + STRATEGY + ORDER,
    "case of a variable": STRATEGY + "    state n = 0\n    on bar:\n        match 5:\n"
    "            case n:\n                flatten()\n",
    "prices of two instruments": PAIR + "    let gap = y.close - x.close\n    plot(gap)\n",
    "compare two instruments": PAIR + "    plot(1.0 if y.close > x.close else 0.0)\n",
    "limit of another instrument": PAIR
    + "    on bar:\n        buy(y, value = 5 USD, limit = x.close)\n",
    "no leg of a block": STRATEGY + "    on bar:\n        atomic:\n            buy(1 shares)\n"
    "            close_position()\n            cancel(\"a\")\n            buy(2 shares)\n",
    "cancel in an equation": STRATEGY + "    let a = cancel(\"a\")\n" + ORDER,
    "which instrument": PAIR + "    on bar:\n        buy(value = 5 USD)\n",
    "shares of which": PAIR + "    on bar:\n        let n = 5 shares\n        buy(y, n)\n"
    "        buy(y, floor_qty(5, x), limit = snap(y.close, up))\n        let p = snap(5.5, up)\n"
    "        buy(y, floor_qty(p))\n        let m = floor_qty(5)\n        buy(x, m)\n",
    "limit of which shares": PAIR + "    risk:\n        max_order = 5 shares\n",
    "one name for two instruments": PAIR.replace("as x", "as y"),
    "instruments without names": 'strategy S:\n    instrument "A"\n    instrument "B"\n'
    "    bars 5m\n",
    "feed of two instruments on ticks": PAIR.replace("bars 5m", "quotes")
    + '    test "a":\n        feed mid = [1]\n        expect order_count == 0\n',
    "recursion": "fn f(x: float) -> float:\n    return f(x)\n" + STRATEGY + ORDER,
    "unused function with an error": "fn f(x: float) -> float:\n    return y\n" + STRATEGY + ORDER,
    "missing return": "fn f(x: float) -> float:\n    if x > 0.0:\n        return x\n" + STRATEGY
    + ORDER,
    "parameter without type": "fn f(x) -> float:\n    return 1.0\n" + STRATEGY + ORDER,
    "unknown type": "fn f(x: flaot) -> float = 1.0\n" + STRATEGY + ORDER,
    "inout": "fn f(inout x: int) -> int = 1\n" + STRATEGY + ORDER,
    "bits": "fn f(x: float) -> int = bits(x)\n" + STRATEGY + ORDER,
    "shares in a fn": "fn f(x: float) -> bool = x > 5 shares\n" + STRATEGY + ORDER,
    "history in a fn": "fn f(x: float) -> float = x[1]\n" + STRATEGY + ORDER,
    "history of a result": "indicator f(x: series[float]) -> float:\n    let m = ta.macd(x)\n"
    "    return m[1].hist\n" + STRATEGY + "    plot(f(close))\n" + ORDER,
    "indicator in a fn": "fn f(x: float) -> float = ta.sma(x, 5)\n" + STRATEGY + ORDER,
    "state in a fn": "fn f(x: float) -> float:\n    state n = 0.0\n    return x\n"
    + STRATEGY + ORDER,
    "index of a buffer": "indicator f(x: series[float], len: const int) -> float:\n"
    "    state buf: array[float, len]\n    buf[len] = x\n    return buf[0]\n"
    + STRATEGY + ORDER,
    "index before a buffer": "indicator f(x: series[float], len: const int) -> float:\n"
    "    state buf: array[float, len]\n    buf[len - 2] = x\n    return buf[0]\n"
    + STRATEGY + ORDER,
    "array of arrays": "indicator f(x: series[float]) -> float:\n"
    "    state a: array[array[float, 4], 4]\n    return x\n" + STRATEGY + ORDER,
    "ring of arrays": STRATEGY + "    state a: ring[array[float, 4], 4]\n" + ORDER,
    "enum without cases": "enum Side: none, up, down\n" + STRATEGY
    + "    state side = Side.none\n    on bar:\n        match side:\n            case none:\n"
    "                side = Side.up\n",
    "case of nothing": "enum Side: none, up\n" + STRATEGY
    + "    state side = Side.none\n    on bar:\n        match side:\n            case nonne:\n"
    "                side = Side.up\n            case _:\n                flatten()\n",
    "member twice": "enum Side: up, up\n" + STRATEGY + ORDER,
    "parameter twice": "fn f(x: float, x: float) -> float = x\n" + STRATEGY + ORDER,
    "struct by position": "struct T:\n    x: float\nfn f(a: float) -> T = T(a)\n" + STRATEGY
    + ORDER,
    "const of a param": STRATEGY + "    param n = 3\n    const UNITS = n\n" + ORDER,
    "import of nothing": "import lib.missing\n" + STRATEGY + ORDER,
    "import from nothing": "from lib.missing import a\n" + STRATEGY + ORDER,
    "model that does not fit": "fn free(lots: int) -> float = 0.0\n" + STRATEGY + ORDER
    + "    backtest:\n        fees = free\n",
    "slippage model": "fn slip(price: float) -> float = price\n" + STRATEGY + ORDER
    + "    backtest:\n        slippage = slip\n",
}
ITEMS = {
    "future": "let gap = close - close[-1]\nplot(gap)",
    "future by a param": "param n = 1 in -1..5\nplot(close[n])",
    "misspelt name": "plot(clsoe)",
    "misspelt indicator": "plot(ta.smaa(close, 5))",
    "unread equation": "let a = ta.sma(close, 5)",
    "unread state": "state n = 0",
    "part of a price": "plot(close.high)",
    "part of a macd": "plot(ta.macd(close, 3, 5, 2).hits)",
    "part of a duration": "param t = 5m\nplot(close if t.minutes > 2.0 else open)",
    "idle series": "param n = 5 in 1..9\nlet a = n * 2\nrequire a > 3\nplot(close)",
    "const of the account": "const a = position * 2",
    "hides a value": "let volume = ta.sma(close, 5)\nplot(volume)",
    "hides a function": "let sqrt = ta.sma(close, 5)\nplot(sqrt)",
    "hides a namespace": "param ta = 5 in 1..9\nplot(ts.mean(close, ta))",
    "twice": "let a = close\nlet a = open\nplot(a)",
    "test twice": 'test "a":\n    expect flat\ntest "a":\n    expect flat',
    "action that nothing calls": "action go(n: int):\n    buy(n)",
    "const of a series": "const a = close",
    "const of nothing": "const a = []",
    "const of ticks": "const a = [1 tick, 2 ticks]",
    "const of an indicator": "const a = ta.sma(close, 5)",
    "circle": "let a = b + close\nlet b = a + open\nplot(a)",
    "itself": "let a = a + close\nplot(a)",
    "bars without length": "bars as x",
    "bars too fine": "bars 1m as fine",
    "bars without name": "bars 1d",
    "tick bars": "bars 500 ticks as slow",
    "bars of a price without ticks": "bars 1h, price = bid as slow",
    "sync": "bars 1d as daily\nbars 1w as weekly\nsession 5",
    "session order": 'session "XNYS", start = 15:00, flat_by = 09:00',
    "event": "on bra:\n    flatten()",
    "timer": "on timer:\n    flatten()",
    "event of later": "on quote:\n    flatten()",
    "clock of an event": "on fill(bars):\n    flatten()",
    "every": "every 5:\n    flatten()",
    "at": "at close:\n    flatten()",
    "quotes": "quotes",
    "book": "book depth = 10",
    "statement": "buy(1 shares)",
    "loose expression": "close + 1",
    "feed": 'test "a":\n    feed close = close\n    expect flat',
    "feed of ticks": 'test "a":\n    feed close = repeat([1], 0)\n    expect flat',
    "empty test": 'test "a":\n    feed close = [1, 2]',
    "test without anything": 'param n = 2 in 1..5\nplot(ta.sma(close, n))\n'
    'test "a":\n    set n = 3',
    "test above the range": 'param n = 2 in 1..5\nplot(ta.sma(close, n))\ntest "a":\n'
    "    set n = 9\n    expect flat",
    "equation of the account": "let a = position\nplot(a)",
    "plot of the account": "plot(equity)",
    "indicator of a constant": "plot(ta.sma(2.0, 5))",
    "rsi of a param": "param n = 5 in 1..9\nplot(ta.rsi(n, 5))",
    "whole-sample mean": "plot(mean(close))",
    "mean without window": "plot(ts.mean(close))",
    "window of a series": "plot(ta.sma(close, volume))",
    "window zero": "plot(ta.sma(close, 0))",
    "size of a param": "param n = 4 in 1..9\nstate a: array[float, n]",
    "huge window": "plot(ta.sma(close, 1_000_000_000_000))",
    "huge history": "plot(close[2_000_000])",
    "na in an int": "state n: int = na",
    "recursive action": "action a():\n    b()\naction b():\n    a()\non fill:\n    a()",
    "param of parts": "param n = 2.5 ticks\nplot(close)",
    "param of half a ns": "param n = 0.5ns\nplot(close if n > 1s else open)",
    "param of centuries":
        "param n = 60_000d in 1d..60_000d log 3\nplot(close if n > 1s else open)",
    "param of all money": "param n = 1e300 USD\nplot(close if n > 1 USD else open)",
    "param beyond an int": "param n = 99999999999999999999\nplot(close if n > 1 else open)",
    "param of risk": "param n = 2R\nplot(close)",
    "param of months": "param n = 2mo\nplot(close)",
    "default outside": "param n = 60 in 5..50 step 5\nplot(ta.sma(close, n))",
    "default no choice": 'param m = "c" in {"a", "b"}\nplot(close if m == "a" else open)',
    "param of a const with a unit": "const W = 5 ticks\nparam n = W\nplot(close + n)",
    "param of a series": "param n = close\nplot(n)",
    "param in a number": "param n = 5 in 9\nplot(ta.sma(close, n))",
    "range backwards": "param n = 5 in 9..1\nplot(ta.sma(close, n))",
    "range of other units": "param n = 5m in 1..9\nplot(ta.sma(close, 5) if n > 2m else close)\n"
    'test "a":\n    set n = 3m\n    expect flat',
    "prefix left out": "plot(1.0 if cross_over(open, close) else 0.0)",
    "idle param": "param n = 5 in 1..9\nparam m = 7 in 1..9\nrequire n < m\nplot(ta.sma(close, n))",
    "param only in a test": 'param m = 7 in 1..9\ntest "a":\n    expect m > 3',
    "require never": "param n = 5 in 1..9\nrequire n > 20\nplot(ta.sma(close, n))",
    "require not by default": "param n = 5 in 1..9\nrequire n > 6\nplot(ta.sma(close, n))",
    "order in an equation": "let a = buy(1 shares)\nplot(close)",
    "action in an equation": "action go():\n    flatten()\nlet a = go()\nplot(close)",
    "limit of a share": "risk:\n    max_order = 5%",
    "limit without unit": "risk:\n    max_order_rate = 200",
    "action of a limit": "risk:\n    max_order = 5 shares -> flatten(3)",
    "unknown limit": "risk:\n    max_ordr = 5 shares",
    "limit twice": "risk:\n    max_order = 5 shares\n    max_order = 6 shares",
    "order over the limit": "risk:\n    max_order = 5 shares\non fill:\n    buy(9 shares)",
    "order over the position": "risk:\n    max_position = 5 lots\non fill:\n    buy(9 lots)",
    "setting": "backtest:\n    path = random",
    "fees in ticks": "backtest:\n    fees = 2 ticks",
    "color": 'plot(close, "x", color = oragne)',
    "choice twice": "param n = 1 in {1, 1}\nplot(ta.sma(close, n))",
    "step without range": "param n = 1 step 2\nplot(ta.sma(close, n))",
    "log of half a point": "param n = 5.0 in 1.0..50.0 log 2.5\nplot(close * n)",
    "log of a name": "param n = 5.0 in 1.0..50.0 log close\nplot(close * n)",
    "log from zero": "param n = 5.0 in 0.0..50.0 log 5\nplot(close * n)",
    "off the grid": "param n = 7 in 5..50 step 5\nplot(ta.sma(close, n))",
    "bars in a state": "state a: bars",
    "latency": "backtest:\n    latency = 5 ticks",
    "latency of bars": "backtest:\n    latency = 5ms",
    "queue of a power": "backtest:\n    queue = proportional(2)",
}
STATEMENTS = {
    "a price of something": "buy(value = 20 ticks of equity)",
    "number for a bool": "if close:\n    flatten()",
    "namespace as a value": "if close > ta:\n    flatten()",
    "function as a value": "if close > sqrt:\n    flatten()",
    "call of a value": "if close(5) > open:\n    flatten()",
    "unread local": "let a = close",
    "assigned but unread": "var a = 5\na = 6",
    "return of a value": "return 5",
    "ticks and minutes": "if close > 5m:\n    flatten()",
    "time and number": "if now > 5m:\n    flatten()",
    "two currencies": "if 6 EUR > 7 USD:\n    flatten()",
    "months": "if now > now + 5 mo:\n    flatten()",
    "centuries": "if now > now + 60_000d:\n    flatten()",
    "lots beyond": "buy(9_007_199_254_740_992 lots)",
    "half a tick": "if close > open + 0.5 ticks:\n    flatten()",
    "multiples of risk": "let r = 2R\nlog(\"{r}\")",
    "indicator of a local": "let mid = close + float(position)\n"
    "if ta.sma(mid, 5) > 0.0:\n    flatten()",
    "too many arguments": "if abs(close, open) > 1.0:\n    flatten()",
    "argument twice": "if ta.sma(close, len = 5, len = 6) > 1.0:\n    flatten()",
    "range as a value": "let r = 1..5",
    "range in a sum": "if close > 1..5:\n    flatten()",
    "list as a value": "let r = [1, 2]",
    "list as an argument": "buy([1, 2])",
    "history of a local": "let p = float(position)\nif p[1] > 0.0:\n    flatten()",
    "maybe na": "if ts.half_life(close, 20) > 5.0:\n    flatten()",
    "entry price may be na": "if close > entry_price + 1.0:\n    flatten()",
    "na alone": "let a = na",
    "negated": "if not (ta.sma(close, 5) < ta.sma(close, 9)):\n    flatten()",
    "negated division": "if not (close / open > 1.0):\n    flatten()",
    "never na": "if close is na:\n    flatten()",
    "default of what is there": "if position ?? 1 shares > 0 shares:\n    flatten()",
    "equal to na": "if close == na:\n    flatten()",
    "na is not equal": "if na != close:\n    flatten()",
    "loop to a variable": "var n = 5\nn += 1\nfor i in 0..<n:\n    flatten()",
    "loop over a number": "for i in 5:\n    flatten()",
    "huge loops": "for i in 0..<100_000:\n    for j in 0..<100_000:\n        flatten()",
    "unreachable": "return\nflatten()",
    "case twice": "match 5:\n    case 1:\n        flatten()\n    case 1:\n        cancel_all()",
    "state in a handler": "state n = 0",
    "assign to a let": "let n = 0\nn = 1",
    "assign to a price": "close = 5.0",
    "break outside": "break",
    "continue outside": "continue",
    "match of a float": "match close:\n    case 1:\n        flatten()",
    "misspelt argument": "buy(1 shares, limt = close)",
    "no amount": "buy()",
    "two amounts": "buy(1 shares, 2 shares)",
    "time in force": "buy(1 shares, tif = forever)",
    "hidden": "buy(1 shares, hidden = true)",
    "display on bars": "buy(9 shares, limit = close, display = 1 shares)",
    "size below zero": "short(-100 shares)",
    "amount below zero": "buy(value = -1_000 USD)",
    "number of shares": "buy(100)",
    "float of shares": "buy(1.5)",
    "stop above": "buy(1 shares, stop_loss = close + 5 ticks)",
    "target below a limit": "buy(1 shares, limit = close - 9 ticks, "
    "take_profit = close - 12 ticks)",
    "stop of a short": "short(1 shares, stop_loss = close * 0.98)",
    "resting at once": "buy(1 shares, limit = close, tif = ioc, post_only = true)",
    "resting market": "buy(1 shares, post_only = true)",
    "only sells": "sell(5 shares)",
    "only covers": "cover(5 shares)",
    "message": "mark(close)",
    "value in a message": 'log("up {close + 1.0}")',
    "brace in a message": 'alert("up { {close}")',
    "message with a value": 'log("price", close)',
    "flatten one": "flatten(5)",
    "floor_qty of nothing": "buy(floor_qty(5.0, y))",
    "case of another type": "match 5:\n    case 1.5:\n        flatten()",
    "loop over a namespace": "for ta in 0..<3:\n    flatten()",
    "assert": "assert close > 1.0",
}
TICK_ITEMS = {
    "quote at a percentage": "on trade:\n    quote(bid = 5%, bid_qty = 1 unit, requote_if = 2bps)",
    "quotes twice": "quotes",
    "slippage of ticks": "backtest:\n    slippage = 2 ticks",
    "book twice": "book depth = 5",
    "bars of the middle": "bars 1m, price = mid",
    "bars of the volume of quotes": "bars 100 shares, price = bid",
    "bars of a month of ticks": "bars 1mo",
    "bars of no ticks": "bars 0 ticks",
    "bars of half a lot": "bars 0.5 lots",
    "bars of ticks that wait": "bars 1m, sync = all",
    "bars since a fill on ticks": "bars 1m\non bar when bars_since(entry) > 3:\n    flatten()",
    "bar event on ticks": "on bar:\n    flatten()",
    "price of bars on ticks": "plot(ta.sma(close, 5))",
    "bars of an indicator on ticks": "plot(ta.atr(14))",
    "feed of a stale handler": "on stale(bars):\n    flatten()",
    "stale of nothing": "on stale:\n    flatten()",
    "instrument of an event": "on trade(y):\n    flatten()",
    "misspelt figure of a trade": "plot(trade.prize)",
    "levels above the depth": "plot(book.microprice(levels = 11))",
    "levels of no number": "plot(book.imbalance(levels = mid))",
    "level beyond the depth": "plot(float(book.bid_qty[10]))",
    "a side as a value": "plot(book.bid)",
    "misspelt function of the book": "plot(book.micorprice())",
    "misspelt argument of the book": "plot(book.imbalance(level = 2))",
    "flow of an argument": "plot(float(book.order_flow_imbalance(2)))",
    "depth to a float": "plot(float(book.depth_to(mid)))",
    "fill of a number": "plot(book.vwap_to_fill(500) ?? mid)",
    "fill may be na": "plot(book.vwap_to_fill(500 shares) + 1.0)",
    "queue of nothing": "on trade:\n    if (book.queue_ahead(bid) ?? 0.0) > 5.0:\n"
    "        flatten()",
    "queue in an equation": "plot(book.queue_ahead(working.bid) ?? 0.0)",
    "working order in an equation": "plot(working.bid)",
    "quote by position": "on trade:\n    quote(bid, 5 shares)",
    "quote of a price alone": "on trade:\n    quote(bid = bid)",
    "quote of nothing": "on trade:\n    quote(post_only = true)",
    "quote of a number": "on trade:\n    quote(bid = bid, bid_qty = 5)",
    "misspelt argument of a quote": "on trade:\n    quote(bid = bid, bid_qyt = 5 shares)",
    "quote in an equation": "let a = quote(bid = bid, bid_qty = 5 shares)",
    "order for an auction on ticks": "on trade:\n    buy(5 shares, tif = moc)",
    "display of nothing": "on trade:\n    buy(5 shares, limit = bid, display = 0 shares)",
    "power of a pessimistic queue": "backtest:\n    queue_power = 2",
    "display of a number": "on trade:\n    buy(5 shares, limit = bid, display = 5)",
    "feed of bars on ticks": 'test "a":\n    feed close = [1, 2]\n    expect flat',
    "feed of a list of books": 'test "a":\n    feed book = [1, 2]\n    expect flat',
    "feed of quotes as a book": 'test "a":\n    feed quotes = flat_book(mid = 9)\n    expect flat',
    "feed twice on ticks": 'test "a":\n    feed mid = [1]\n    feed mid = [2]\n    expect flat',
    "feed of half a tick": 'test "a":\n    feed mid = [1], spread = 0.5 ticks\n    expect flat',
    "feed of no trade": 'test "a":\n    feed trades = repeat([1], 0)\n    expect flat',
    "misspelt event of ticks": "on quotes:\n    flatten()",
}
SOURCES = {
    "quotes with a name": "quotes as q",
    "trades of a length": "trades 5m",
    "book without depth": "book",
    "book of no depth": "book depth = 0",
    "book of shares": "book depth = 100 shares",
    "book of ticks": "book depth = 3 ticks",
    "cross-section of a universe without a name": "bars 1d\n    universe max = 9\n"
    "    plot(xs.mean(close / close[1]))",
    "universe without a name": "bars 1d\n    universe point_in_time = true",
    "universe of a strange setting": 'bars 1d\n    universe "SP500", size = 3',
    "universe with a symbol twice": 'bars 1d\n    universe "KO", "KO"\n    plot(xs.sum(close))',
    "rank of quotes": 'quotes\n    universe "A"\n    plot(xs.mean(mid))',
    "adjusted bars of trades": 'trades\n    bars 1m, adjust = all\n    universe "A"',
    "universe of a strange maximum": 'bars 1d\n    universe "SP500", max = 2.5',
    "filter of all": 'bars 1d\n    universe "A", filter = bar_index\n    plot(xs.sum(close))',
    "cross-section without a universe": "bars 1d\n    plot(xs.rank(close))",
    "sector without a universe": "bars 1d\n    plot(dollar_volume)",
    "adjusted by whim": 'bars 1d, adjust = often\n    universe "A"\n    plot(xs.sum(adj.close))',
    "adjusted without a universe": "bars 1d, adjust = all\n    plot(close)",
    "book in a strategy on quotes": "quotes\n    plot(book.microprice(levels = 1))",
    "stale book in a strategy on quotes": "quotes\n    on stale(book):\n        flatten()",
    "quotes in a strategy on trades": "trades\n    plot(mid)",
}
WARNED = {"no limits and no costs": STRATEGY + ORDER}
BLOCKS = "    risk:\n        max_position = 900 shares\n    backtest:\n        fees = 1bps\n"


def _finished(text: str) -> str:
    """The strategy with limits and costs, unless it is about them."""
    several = "instrument" in text or "universe" in text
    for kind in ("risk", "backtest"):
        if f"    {kind}:" not in text and "strategy" in text:
            blocks = BLOCKS.replace("max_position = 900 shares", "max_gross = 900 USD")
            head, _, rest = (blocks if several else BLOCKS).partition("    backtest")
            text += head if kind == "risk" else "    backtest" + rest
    return text


PROGRAMS = {
    **{name: _finished(text) for name, text in FILES.items()},
    **{name: _finished(STRATEGY + indent(text + "\n", "    ") + ORDER)
       for name, text in (ITEMS | FOREIGN_ITEMS).items()},
    **{name: _finished(f"{STRATEGY}    on bar:\n{indent(text, ' ' * 8)}\n    plot(close)\n")
       for name, text in (STATEMENTS | FOREIGN_STATEMENTS).items()},
    **{name: _finished(TICKS + indent(text + "\n", "    ") + TICK_ORDER)
       for name, text in TICK_ITEMS.items()},
    **{name: _finished(f"strategy S:\n    {text}\n    on start:\n        flatten()\n")
       for name, text in SOURCES.items()},
    **{name: _finished(f'strategy S:\n    bars 1d\n    universe "A"\n    {text}\n')
       for name, text in UNIVERSES.items()},
    **WARNED,
}
