"""The codes of families 02 to 08, what the checker finds, for the registry."""

import quantdsl.check.kernel_codes  # noqa: F401 (defines those of family 09)
from quantdsl.check.code_examples import (
    BLOCKS,
    ORDER,
    STRATEGY,
    TICKS,
    at_top,
    in_handler,
    item,
    whole,
)
from quantdsl.lang.codes import define

# ---- 02: names ---------------------------------------------------------------------------------

in_handler(
    "QD0201",
    "unknown name",
    "Nothing here has this name. The message names the nearest one that exists; 'quantdsl help'\n"
    "lists everything that the language brings.",
    "        if clsoe > open:\n            buy(100 shares)\n",
    "        if close > open:\n            buy(100 shares)\n",
)
at_top(
    "QD0202",
    "unknown or missing type",
    "Every parameter states its type: bool int float price qty money duration time, series[...]\n"
    "of one of them, a struct or an enum.",
    "fn double(x: flaot) -> float:\n    return 2.0 * x\n",
    "fn double(x: float) -> float:\n    return 2.0 * x\n",
)
in_handler(
    "QD0203",
    "not a value, or not callable",
    "A function is called, with brackets; a namespace, an enum or a struct is no value by itself.",
    "        if close > sqrt:\n            buy(100 shares)\n",
    "        if close > sqrt(2.0):\n            buy(100 shares)\n",
)
item(
    "QD0204",
    "never read",
    "A param, equation, state or local that nothing reads is usually a slip: another name was\n"
    "meant where it should have been used. A name that begins with _ says that it is meant.",
    "    state count = 0\n",
    "",
)
in_handler(
    "QD0205",
    "no such part",
    "What stands before the dot has no part of this name.",
    "        if close.high > open:\n            buy(100 shares)\n",
    "        if high > open:\n            buy(100 shares)\n",
)
item(
    "QD0206",
    "name of the language",
    "A name of your own may hide a value of the language, which is said; it may never take the\n"
    "place of a function or a namespace, so that ta.sma and buy(...) mean the same in every file.",
    "    let sqrt = ta.sma(close, 20)\n    plot(sqrt)\n",
    "    let mean = ta.sma(close, 20)\n    plot(mean)\n",
)
at_top(
    "QD0207",
    "for the standard library only",
    "Some words and functions (inout, bits, shifts) exist in the library's own files alone: they\n"
    "would undo what the language promises about a strategy.",
    "fn next(inout x: int) -> int:\n    return x + 1\n",
    "fn next(x: int) -> int:\n    return x + 1\n",
)
item(
    "QD0208",
    "defined twice",
    "One name means one thing in one place.",
    "    let mean = ta.sma(close, 20)\n    let mean = ta.sma(close, 50)\n    plot(mean)\n",
    "    let mean = ta.sma(close, 20)\n    let slow = ta.sma(close, 50)\n"
    "    plot(mean)\n    plot(slow)\n",
)
at_top(
    "QD0209",
    "wrong return",
    "A function returns a value of its declared type on every path; a handler or an action\n"
    "returns nothing.",
    "fn half(x: float) -> float:\n    if x > 0.0:\n        return x / 2.0\n",
    "fn half(x: float) -> float:\n    if x > 0.0:\n        return x / 2.0\n    return 0.0\n",
)
item(
    "QD0210",
    "not constant",
    "A const is computed once, when compiling, from literals and other consts.",
    "    const start = close\n",
    "    let start = close\n    plot(start)\n",
)
item(
    "QD0211",
    "defined by itself",
    "An equation is a formula of market data; a value that depends on its own past is a state\n"
    "that a handler changes, or an indicator.",
    "    let total = total + close\n    plot(total)\n",
    "    let total = ts.sum(close, 20)\n    plot(total)\n",
)
item(
    "QD0212",
    "malformed data line or time",
    "bars, instrument, session, at and every have one form each; the message shows it.",
    "    session 24\n",
    '    session "XNYS"\n',
)
at_top(
    "QD0213",
    "import that cannot be read",
    "An import is a file below the folder of the strategy, without symbolic links and without\n"
    "cycles, and holds functions, indicators, constants and types.",
    "import lib.missing\n",
    "",
)
item(
    "QD0215",
    "malformed feed",
    "A test feeds numbers: a list, repeat([...], n), or a sum of such.",
    '    test "rises":\n        feed close = 10\n        expect flat\n',
    '    test "rises":\n        feed close = [10]\n        expect flat\n',
)
item(
    "QD0216",
    "not available yet",
    "The language has this, this version does not compile it. Nothing of a strategy is ever\n"
    "ignored, so it is an error.",
    "    on bar:\n        buy(100 shares, stop_loss = close - 2R)\n",
    "",
)
item(
    "QD0217",
    "does not stand here",
    "Directly in a strategy stand declarations and plot(...); whatever acts stands in a handler.",
    "    buy(100 shares)\n",
    "    on start:\n        buy(100 shares)\n",
)
define(
    "QD0218",
    "one strategy in a file",
    "A strategy file holds exactly one strategy; libraries hold none and are checked through the\n"
    "strategies that import them.",
    "const a = 1\n",
    whole("", "", ""),
)
at_top(
    "QD0219",
    "annotation out of place",
    "@warmup(expr) and @cost(text) stand above an indicator, with one argument; @async above an\n"
    "equation, with its deadline; @critical_path, @latency and @cpu above a handler;\n"
    "@no_allocation, @inline_always and @vectorizable above a handler, a fn or an indicator.",
    "@warmup(1)\nfn f(x: float) -> float:\n    return x\n",
    "fn f(x: float) -> float:\n    return x\n",
)
item(
    "QD0220",
    "test without expectation",
    "A test that expects nothing always passes.",
    '    test "rises":\n        feed close = [10, 11]\n',
    '    test "rises":\n        feed close = [10, 11]\n        expect orders.count == 2\n',
)

define(
    "QD0221",
    "not in these data",
    "A strategy reads what its data items bring: bars have open, high, low, close and volume;\n"
    "quotes and a book have bid and ask, trades have trade.price. The message names the item.",
    TICKS.format(items="    trades\n", handler="on trade", condition="trade.price < mid"),
    TICKS.format(
        items="    trades\n    quotes\n", handler="on trade", condition="trade.price < mid"
    ),
)

# ---- 03: types and units -----------------------------------------------------------------------

in_handler(
    "QD0301",
    "wrong type",
    "The value has another type than what stands here takes. Numbers widen to float by\n"
    "themselves; nothing else converts silently.",
    "        if close:\n            buy(100 shares)\n",
    "        if close > open:\n            buy(100 shares)\n",
)
_PAIR = 'strategy S:\n    instrument "XNYS:KO" as y\n    instrument "XNYS:PEP" as x\n    bars 5m\n'
_TRADE = "    on bar:\n        target(y, value = 1_000 USD)\n"
define(
    "QD0302",
    "different units",
    "A price is a count of ticks of one instrument, and a tick is not the same money in every\n"
    "market; so prices of two instruments do not add, subtract or compare. For a statistic make\n"
    "them floats. Nor does a price add to a size or to a duration.",
    f"{_PAIR}    let gap = y.close - x.close\n    plot(gap)\n{_TRADE}"
    f"{BLOCKS.replace('max_position = 1_000 shares', 'max_gross = 5_000 USD')}",
    f"{_PAIR}    let gap = float(y.close) - float(x.close)\n    plot(gap)\n{_TRADE}"
    f"{BLOCKS.replace('max_position = 1_000 shares', 'max_gross = 5_000 USD')}",
)
in_handler(
    "QD0303",
    "cannot be compared",
    "Times compare with times, durations with durations, enum members with members of the same\n"
    "enum, and only for equality.",
    "        if now > 5m:\n            buy(100 shares)\n",
    "        if now > 09:35:\n            buy(100 shares)\n",
)
in_handler(
    "QD0304",
    "length that is not fixed or not whole",
    "Months and years differ in length, and a count of ticks or lots is whole.",
    "        if close > open + 0.5 ticks:\n            buy(100 shares)\n",
    "        if close > open + 1 tick:\n            buy(100 shares)\n",
)
in_handler(
    "QD0305",
    "indicator of a value that is no series",
    "An indicator keeps state and runs once on every bar, wherever its call stands. A value that\n"
    "exists only while a handler runs cannot feed it.",
    "        let mid = close + position / 100 shares\n        if ta.sma(mid, 5) > 0.0:\n"
    "            buy(100 shares)\n",
    "        if ta.sma(close, 5) > 0.0:\n            buy(100 shares)\n",
)
item(
    "QD0306",
    "equation of the account",
    "Equations are made of market data and params alone, so that they can be computed for many\n"
    "params at once. Position, equity and states belong to handlers.",
    "    let size_now = position\n    plot(close)\n",
    "    plot(close)\n",
)
at_top(
    "QD0307",
    "of which instrument?",
    "Ticks and lots mean something only for one instrument. In a function they come with a\n"
    "parameter; with several instruments, say which one.",
    "fn big(q: float) -> bool:\n    return q > 100 shares\n",
    "fn big(q: float) -> bool:\n    return q > 100.0\n",
)
in_handler(
    "QD0308",
    "wrong arguments",
    "The call gives too many, too few, unknown or repeated arguments, or a share of\n"
    "more than all; the message shows what fits. A share of 1 is all, not one: a warning.",
    "        if abs(close, open) > 1.0:\n            buy(100 shares)\n",
    "        if abs(close - open) > 1.0:\n            buy(100 shares)\n",
)
in_handler(
    "QD0309",
    "range out of place",
    "A range stands after 'in' alone: of a param, or of a loop.",
    "        let r = 1..5\n        if close > r:\n            buy(100 shares)\n",
    "        if close > 1.0 and close < 5.0:\n            buy(100 shares)\n",
)
in_handler(
    "QD0310",
    "list out of place",
    "A list stands as a const or in a test; what a handler keeps is a state with a fixed size.",
    "        let r = [1.0, 2.0]\n        if close > r[0]:\n            buy(100 shares)\n",
    "        if close > 1.0:\n            buy(100 shares)\n",
)
item(
    "QD0311",
    "indicator without a clock",
    "An indicator steps once on every bar of what it reads. Constants have no bars.",
    "    let mean = ta.sma(2.0, 20)\n    plot(mean)\n",
    "    let mean = ta.sma(close, 20)\n    plot(mean)\n",
)

# ---- 04: time ----------------------------------------------------------------------------------

item(
    "QD0401",
    "reads the future",
    "close[1] is the bar before this one, close[2] the one before that. A negative index would\n"
    "be a bar that has not happened; there is no way to write one.",
    "    let gap = close - close[-1]\n    plot(gap)\n",
    "    let gap = close - close[1]\n    plot(gap)\n",
)
in_handler(
    "QD0402",
    "no history",
    "Only a series has history: market data and equations. A value computed in a handler exists\n"
    "now; write it as an equation, or keep a state.",
    "        let size_now = position + 0 shares\n        if size_now[1] > 0 shares:\n"
    "            buy(100 shares)\n",
    "        if close[1] > open:\n            buy(100 shares)\n",
)
item(
    "QD0403",
    "unknown window",
    "How far back something looks must be known before the run: a constant, or a param with a\n"
    "range. A statistic of all data would know the future.",
    "    let m = ts.mean(close)\n    plot(m)\n",
    "    let m = ts.mean(close, 20)\n    plot(m)\n",
)
at_top(
    "QD0404",
    "malformed warm-up",
    "@warmup gives the number of steps before the first value: an int made of const parameters.",
    "@warmup(1.5)\nindicator same(src: series[float]) -> float:\n    return src\n",
    "@warmup(1)\nindicator same(src: series[float]) -> float:\n    return src\n",
    use="    plot(same(close))\n",
)
_AWAITED = "    @async(deadline = 2ms)\n    let fc = ta.linreg(close, 50)\n"
item(
    "QD0405",
    "equation of an asynchronous signal",
    "The value of an '@async' equation comes some time after its instant, so an equation cannot\n"
    "have it at its own. Compute inside the '@async' equation, or read it in a handler.",
    f"{_AWAITED}    let edge = fc - close\n    plot(edge)\n",
    "    @async(deadline = 2ms)\n    let edge = ta.linreg(close, 50) - close\n"
    "    on ready(edge):\n        if edge > 0.0:\n            buy(100 shares)\n",
)
item(
    "QD0406",
    "not an asynchronous signal",
    "'on ready(x)' runs when the value of an '@async' equation has come, 'on stale(x)' when it\n"
    "has not come in time. Any other equation has its value at once: read it in 'on bar'.",
    "    let fc = ta.linreg(close, 50)\n    on ready(fc):\n        cancel_all()\n",
    f"{_AWAITED}    on ready(fc):\n        if fc > close:\n            buy(100 shares)\n",
)

# ---- 05: na ------------------------------------------------------------------------------------

in_handler(
    "QD0501",
    "may be na here",
    "A value whose type ends in ? can be missing by design. Say what happens then, before it is\n"
    "compared, stored or ordered with.",
    "        if half > 5.0:\n            buy(100 shares)\n",
    "        if half is not na and half > 5.0:\n            buy(100 shares)\n",
    items="    let half = ts.half_life(close, 20)\n",
)
item(
    "QD0502",
    "na does not fit",
    "na is a value of optional types and of float alone.",
    "    state last: int = na\n    on fill:\n        last = 1\n        if last > 0:\n"
    "            flatten()\n",
    "    state last: int? = na\n    on fill:\n        last = 1\n        if (last ?? 0) > 0:\n"
    "            flatten()\n",
)
in_handler(
    "QD0503",
    "negated comparison",
    "Every comparison with na is false, so its negation is true: not (a < b) also holds where a\n"
    "or b is missing. Write the comparison that is meant.",
    "        if not (ta.sma(close, 5) < ta.sma(close, 9)):\n            buy(100 shares)\n",
    "        if ta.sma(close, 5) >= ta.sma(close, 9):\n            buy(100 shares)\n",
)
in_handler(
    "QD0504",
    "never na",
    "This value cannot be missing, so asking has no effect.",
    "        if close is not na and close > open:\n            buy(100 shares)\n",
    "        if close > open:\n            buy(100 shares)\n",
)
in_handler(
    "QD0505",
    "comparison with na",
    "Nothing equals na, not even na.",
    "        if close == na:\n            buy(100 shares)\n",
    "        if ta.sma(close, 5) is not na:\n            buy(100 shares)\n",
)

# ---- 06: bounds --------------------------------------------------------------------------------

in_handler(
    "QD0601",
    "index not proven",
    "There is no check at run time, so that every index must be shown to lie inside its array:\n"
    "a constant, a loop counter, 'i mod n', or clamp.",
    "        count += 1\n        last[count] = float(close)\n        if last[0] > 1.0:\n"
    "            buy(100 shares)\n",
    "        count += 1\n        last[count mod 4] = float(close)\n        if last[0] > 1.0:\n"
    "            buy(100 shares)\n",
    items="    state count = 0\n    state last: array[float, 4]\n",
)
in_handler(
    "QD0602",
    "loop without a bound",
    "Every handler ends in a time known beforehand: a loop runs over a range whose end is a\n"
    "constant, a param or held by min.",
    "        for i in 0..<n:\n            n -= 1\n        if n > 0:\n            buy(100 shares)\n",
    "        for i in 0..<8:\n            n -= 1\n        if n > 0:\n            buy(100 shares)\n",
    items="    state n = 0\n",
)
item(
    "QD0603",
    "size not known when compiling",
    "Memory is laid out before the run: a window, a size or a length is a constant, a const or a\n"
    "param with a range.",
    "    let mean = ta.sma(close, 0)\n    plot(mean)\n",
    "    let mean = ta.sma(close, 1)\n    plot(mean)\n",
)
at_top(
    "QD0604",
    "recursion",
    "A function or action that calls itself has no bound that is known when compiling.",
    "fn f(x: float) -> float:\n    return f(x) + 1.0\n",
    "fn f(x: float) -> float:\n    return x + 1.0\n",
)
in_handler(
    "QD0605",
    "never reached",
    "Nothing after a return, break or continue runs, and of two equal cases only the first.",
    "        if flat:\n            return\n            buy(100 shares)\n        flatten()\n",
    "        if flat:\n            buy(100 shares)\n            return\n        flatten()\n",
)
in_handler(
    "QD0606",
    "state out of place",
    "A state stands directly in the strategy, or at the top of an indicator's body.",
    "        state n = 0\n        if n > 0:\n            buy(100 shares)\n",
    "        if flat:\n            buy(100 shares)\n",
)
in_handler(
    "QD0607",
    "cannot be assigned to",
    "'let' names a value once. 'var' may change while a handler runs, 'state' lives on.",
    "        let n = 0\n        n = 1\n        if n > 0:\n            buy(100 shares)\n",
    "        var n = 0\n        n = 1\n        if n > 0:\n            buy(100 shares)\n",
)
item(
    "QD0608",
    "array of arrays",
    "An array holds numbers or structs; two dimensions are one array and i * width + k.",
    "    state grid: array[array[float, 4], 4]\n    on fill:\n        grid[0][0] = 1.0\n"
    "        if grid[0][0] > 0.0:\n            flatten()\n",
    "    state grid: array[float, 16]\n    on fill:\n        grid[0] = 1.0\n"
    "        if grid[0] > 0.0:\n            flatten()\n",
)
at_top(
    "QD0609",
    "match with gaps",
    "A match over an enum has a case for every member, or 'case _:' for the rest.",
    "enum Side: none, up\nfn f(s: Side) -> int:\n    match s:\n        case up:\n"
    "            return 1\n    return 0\n",
    "enum Side: none, up\nfn f(s: Side) -> int:\n    match s:\n        case up:\n"
    "            return 1\n        case _:\n            return 0\n",
)
in_handler(
    "QD0610",
    "not in a loop",
    "break and continue act on the loop around them.",
    "        if flat:\n            break\n        flatten()\n",
    "        if flat:\n            return\n        flatten()\n",
)
item(
    "QD0611",
    "over a limit",
    "A strategy runs in memory and time that are known beforehand; each has a limit, which the\n"
    "message names.",
    "    let mean = ta.sma(close, 1_000_000_000_000)\n    plot(mean)\n",
    "    let mean = ta.sma(close, 1_000)\n    plot(mean)\n",
)

define(
    "QD0612",
    "output in a critical path",
    "A handler with '@critical_path' may compute, order and set states; a message is made\n"
    "elsewhere, from a state that it leaves.",
    TICKS.format(
        items="    quotes\n    @critical_path\n",
        handler="on quote",
        condition="spread < 2 ticks",
    ).replace("            buy", '            log("buys")\n            buy'),
    TICKS.format(
        items="    quotes\n    @critical_path\n",
        handler="on quote",
        condition="spread < 2 ticks",
    ),
)

# ---- 07: params --------------------------------------------------------------------------------

item(
    "QD0701",
    "outside the range",
    "The default, and every value of a test, lies in the param's range.",
    "    param n = 60 in 5..50 step 5\n    plot(ta.sma(close, n))\n",
    "    param n = 50 in 5..50 step 5\n    plot(ta.sma(close, n))\n",
)
item(
    "QD0702",
    "malformed param",
    "A default is a literal or a const; after 'in' stands a range or a set of choices.",
    "    param n = 5 in 50\n    plot(ta.sma(close, n))\n",
    "    param n = 5 in 5..50\n    plot(ta.sma(close, n))\n",
)
item(
    "QD0703",
    "malformed range",
    "A range runs upwards, in units of the default's kind, in steps above zero.",
    "    param n = 5 in 50..5\n    plot(ta.sma(close, n))\n",
    "    param n = 5 in 5..50\n    plot(ta.sma(close, n))\n",
)
item(
    "QD0704",
    "param without effect",
    "No order, limit or plot depends on this param, so every point of its range gives the same\n"
    "run, at the full price of a sweep.",
    "    param n = 5 in 5..50\n    param m = 9 in 5..50\n    require n < m\n"
    "    plot(ta.sma(close, n))\n",
    "    param n = 5 in 5..50\n    plot(ta.sma(close, n))\n",
)
item(
    "QD0705",
    "require that never holds",
    "The defaults, and at least one point of the ranges, must satisfy every require.",
    "    param n = 5 in 5..50 step 5\n    require n > 60\n    plot(ta.sma(close, n))\n",
    "    param n = 5 in 5..50 step 5\n    require n < 60\n    plot(ta.sma(close, n))\n",
)

# ---- 08: orders and risk -----------------------------------------------------------------------

item(
    "QD0801",
    "order outside a handler",
    "Orders, actions and messages happen when an event is handled; `atomic` holds orders alone.",
    "    let order = buy(100 shares)\n",
    "    on start:\n        buy(100 shares)\n",
)
in_handler(
    "QD0802",
    "wrong order arguments",
    "An order has one amount and any of limit, stop, take_profit, stop_loss, trail, tif, tag ...",
    "        buy(100 shares, limt = close)\n",
    "        buy(100 shares, limit = close)\n",
)
in_handler(
    "QD0803",
    "amount that is no quantity",
    "A plain number could be shares, lots or money, so none is taken: write the unit, round a\n"
    "computed number with floor_qty, or size by money with value =.",
    "        buy(100)\n",
    "        buy(100 shares)\n",
)
define(
    "QD0804",
    "wrong limit",
    "Each limit of the risk block has its unit: a quantity, money, a share, a rate, a duration.",
    f"{STRATEGY}{ORDER}    risk:\n        max_order = 5%\n    backtest:\n        fees = 1bps\n",
    f"{STRATEGY}{ORDER}    risk:\n        max_order = 500 shares\n"
    "    backtest:\n        fees = 1bps\n",
)
define(
    "QD0805",
    "no risk block",
    "Without limits of its own a strategy has the [limits] of the config before its orders in a\n"
    "live session, and none in a backtest.",
    f"{STRATEGY}{ORDER}    backtest:\n        fees = 1bps\n",
    whole("", "", ""),
)
define(
    "QD0806",
    "no costs",
    "A result without fees and slippage is not one that could have been earned. Give them in the\n"
    "file or in a config; the report prints what was used.",
    f"{STRATEGY}{ORDER}    risk:\n        max_position = 1_000 shares\n",
    whole("", "", ""),
)
_MODEL = "fn free(lots: int) -> float:\n    return 0.0\n"
define(
    "QD0807",
    "model that does not fit",
    "A fn named in the backtest block takes what the built-in model takes, and returns the same.",
    f"{_MODEL}{STRATEGY}{ORDER}    risk:\n        max_position = 1_000 shares\n"
    "    backtest:\n        fees = free\n",
    whole("", "", ""),
)
in_handler(
    "QD0808",
    "price on the wrong side",
    "A stop of a long lies below its entry and a target above; of a short the other way round. On\n"
    "the wrong side it acts at once.",
    "        buy(100 shares, stop_loss = close + 5 ticks)\n",
    "        buy(100 shares, stop_loss = close - 5 ticks)\n",
)
in_handler(
    "QD0809",
    "order that can never fill",
    "post_only refuses to trade at once, ioc and fok refuse to rest.",
    "        buy(100 shares, limit = close, tif = ioc, post_only = true)\n",
    "        buy(100 shares, limit = close, tif = day, post_only = true)\n",
)
in_handler(
    "QD0810",
    "order over the file's own limit",
    "The risk gate would refuse this order every time.",
    "        buy(5_000 shares)\n",
    "        buy(500 shares)\n",
)
in_handler(
    "QD0811",
    "exit without an entry",
    "sell only leaves a long and cover only leaves a short; they never turn a position around.",
    "        sell(100 shares)\n",
    "        short(100 shares)\n",
)
define(
    "QD0812",
    "nothing to do",
    "No handler acts and nothing is plotted, so a run shows nothing.",
    f"{STRATEGY}{BLOCKS}",
    whole("", "", ""),
)
define(
    "QD0813",
    "wrong setting",
    "Each line of the backtest block takes one kind of value; the message says which.",
    whole("", "", "") + "        path = random\n",
    whole("", "", "") + "        path = nearest\n",
)
define(
    "QD0814",
    "setting without effect",
    "Fills on bars and on ticks follow different rules. What is said of the other kind of data\n"
    "has no effect on them: slippage, impact, fill, delay, path and volume_share are of bars;\n"
    "latency and queue are of ticks, queue_power of a proportional queue.",
    whole("", "", "") + "        latency = 5ms\n",
    whole("", "", "") + "        delay = 1\n",
)
in_handler(
    "QD0815",
    "size below zero",
    "buy, sell, short and cover say which way an order goes, and an iceberg shows some of it.",
    "        buy(-100 shares)\n",
    "        short(100 shares)\n",
)
in_handler(
    "QD0816",
    "tag of no order",
    "cancel, replace and after mean the orders that were given this tag.",
    '        buy(100 shares, limit = low, tag = "dip")\n        cancel("dep")\n',
    '        buy(100 shares, limit = low, tag = "dip")\n        cancel("dip")\n',
)
in_handler(
    "QD0818",
    "distance for a price",
    "A stop or a limit is a price; only trail is a distance from one.",
    "        buy(100 shares, stop_loss = 2 * ta.atr(14))\n",
    "        buy(100 shares, stop_loss = close - 2 * ta.atr(14))\n",
)
