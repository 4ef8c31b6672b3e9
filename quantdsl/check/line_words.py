"""The words that lines of a file begin with, as `quantdsl help` tells them.

A test compiles each example where it belongs, and holds that no such word is missing.
"""

from quantdsl.check.kinds import KINDS
from quantdsl.check.timers import DAYS
from quantdsl.check.words import Word

FILE: dict[str, Word] = {
    "language": Word("language 1", "The first line of a file: which language it is in.", ""),
    "import": Word("import name", "What another file of the folder has, as name.thing.", ""),
    "from": Word("from name import a, b", "Things of another file, by their own names.", ""),
    "strategy": Word("strategy Name:", "What is indented below it is one strategy.", ""),
    "struct": Word(
        "struct Name:",
        "A value of several fields.",
        "struct Band:\n    low: float\n    high: float",
    ),
    "enum": Word(
        "enum Name: a, b", "A value that is one of these names.", "enum Mood: calm, tense"
    ),
    "fn": Word(
        "fn name(x: type, ...) -> type:",
        "A function of what it is given, and of nothing else.",
        "fn half(x: float) -> float:\n    return x / 2.0",
    ),
    "indicator": Word(
        "indicator name(src: series[float], ...) -> type:",
        "A function with a state of its own wherever it is called, which goes on bar by bar.",
        "indicator total(src: series[float]) -> float:\n    state sum = 0.0\n    sum += src\n"
        "    return sum",
    ),
    "kernel": Word(
        "kernel name(r: window[float, 64], ...) -> type: | kernel name(x: tensor[float, n], ...):",
        "A function of whole windows, or of tensors of a caller, whose loops may be parallel.",
        "kernel first(r: window[float, 8]) -> float:\n    return r[7]",
    ),
}

STRATEGY: dict[str, Word] = {
    "bars": Word(
        "bars 5m", "Runs on bars of this length, or of ticks, shares or money.", "bars 5m"
    ),
    "quotes": Word("quotes", "Runs on the best bid and ask: bid, ask, mid, spread.", "quotes"),
    "trades": Word("trades", "Runs on single trades: trade.price, trade.qty.", "trades"),
    "book": Word(
        "book depth = n",
        "Runs on an order book, of which n levels a side are seen.",
        "book depth = 10",
    ),
    "session": Word(
        'session "XNYS" [, flat_by = 15:55]',
        "The exchange whose hours count; all is closed by that time.",
        'session "XNYS", flat_by = 15:55',
    ),
    "instrument": Word(
        'instrument "KO" as y',
        "An instrument and its short name; y.close is of it.",
        'instrument "KO" as y',
    ),
    "universe": Word(
        'universe "NAME" [, point_in_time = true, filter = condition, max = n]',
        "All instruments of a set: every equation is one value for each.",
        'universe "ALL"',
    ),
    "param": Word(
        "param name = value [in low..high step s | log n | {a, b}]",
        "A setting of the strategy: --set gives it a value, a sweep tries its range.",
        "param len = 20 in 5..50 step 5",
    ),
    "require": Word(
        "require condition",
        "What params must keep; a point that does not is left out.",
        "require 2 < 3",
    ),
    "invariant": Word(
        "invariant condition",
        "What must hold after every event; the run stops where it does not.",
        "invariant equity > 0 USD",
    ),
    "const": Word("const name = value", "A value that never changes.", "const step = 0.5"),
    "let": Word(
        "let name = expression",
        "An equation: one value for each bar or tick; name[1] is that before. In a handler: a "
        "value for the rest of it.",
        "let mean = ta.sma(close, 20)",
    ),
    "state": Word(
        "state name = value",
        "What handlers remember from one event to the next.",
        "state count = 0",
    ),
    "on": Word(
        "on bar | quote | trade | book | fill | order | start | stop | session_open | "
        "session_close | halt | stale(book) | ready(fc) [when condition]:",
        "A handler: what to do at such an event, where the condition holds.",
        "on bar when close > open:\n    buy(1 share)",
    ),
    "every": Word("every 5m:", "A handler that runs again and again.", "every 5m:\n    flatten()"),
    "at": Word(
        f"at 15:45 | session_open + 5m | session_close - 5m [on {' | '.join(DAYS)}]:",
        "A handler for a time of day, of every session or of the first or last one of a span.",
        "at 15:45:\n    flatten()",
    ),
    "action": Word(
        "action name():",
        "What several handlers do alike; unlike a fn it may order.",
        "action leave():\n    flatten()",
    ),
    "risk": Word(
        "risk:",
        "Limits that every order passes; 'quantdsl help' lists them.",
        "risk:\n    max_order = 10 shares",
    ),
    "backtest": Word(
        "backtest:",
        "Costs, latency and models of fills; 'quantdsl help' lists them.",
        "backtest:\n    fees = 1bps",
    ),
    "test": Word(
        'test "what is expected":',
        "A test of the strategy, run by 'quantdsl test'.",
        'test "idle":\n    feed close = [10.0, 10.5]\n    expect flat',
    ),
    "plot": Word('plot(expression, "name")', "A line in the report.", 'plot(close, "close")'),
}

STATEMENTS: dict[str, Word] = {
    "var": Word(
        "var name = value",
        "A name of this handler whose value may change.",
        "var sum = 0.0\nsum += float(close)",
    ),
    "if": Word(
        "if condition: ... elif condition: ... else: ...",
        "One of several ways.",
        "if close > open:\n    buy(1 share)\nelse:\n    flatten()",
    ),
    "for": Word(
        "for i in low..high:",
        "As often as the range says; ..< leaves the end out.",
        "var sum = 0\nfor i in 0..<5:\n    sum += i",
    ),
    "parallel": Word(
        "parallel for i in low..high [reduce(name: min)]:",
        "In a kernel: turns that need not wait for one another.",
        "",
    ),
    "while": Word(
        "while condition max n:",
        "As long as it holds, n times at most.",
        "var x = float(close)\nwhile x > 1.0 max 50:\n    x = x / 2.0",
    ),
    "match": Word(
        "match value:",
        "One way for each value of an enum.",
        "",
    ),
    "return": Word("return [value]", "Ends the handler or the function.", "return"),
    "break": Word("break", "Leaves the loop.", "for i in 0..<5:\n    break"),
    "continue": Word("continue", "Goes on with the next turn.", "for i in 0..<5:\n    continue"),
    "crosses": Word(
        "a crosses above b, a crosses below b",
        "It was not so one bar before, and now is.",
        "if close crosses above open:\n    buy(1 share)",
    ),
    "na": Word("na", "No value; x ?? y is x, or y where x is na.", "var x: float? = na"),
    "mod": Word(
        "a mod b", "What is left of a after whole times b, never below zero.", "let left = 7 mod 3"
    ),
}

ANNOTATIONS: dict[str, Word] = {
    "critical_path": Word(
        "@critical_path",
        "Above a handler: its machine code calls nothing, takes no memory and makes no message.",
        "@critical_path\nevery 5m:\n    flatten()",
    ),
    "latency": Word(
        "@latency(p99 = 1us)",
        "Above a handler: what it may take; 'quantdsl bench latency' measures it.",
        "@latency(p99 = 1us)\nevery 5m:\n    flatten()",
    ),
    "cpu": Word(
        "@cpu(3)",
        "Above a handler: the core that the engine is pinned to; a config's live.cpu comes first.",
        "@cpu(3)\nevery 5m:\n    flatten()",
    ),
    "no_allocation": Word(
        "@no_allocation",
        "Above a handler, a fn or an indicator: its machine code takes no memory.",
        "@no_allocation\nevery 5m:\n    flatten()",
    ),
    "inline_always": Word(
        "@inline_always",
        "Above a handler, a fn or an indicator: no call is left in its machine code.",
        "@inline_always\nevery 5m:\n    flatten()",
    ),
    "vectorizable": Word(
        "@vectorizable",
        "Above a handler, a fn or an indicator: each inner loop runs in wide registers.",
        "",
    ),
    "warmup": Word(
        "@warmup(bars)",
        "Above an indicator: the bars until it is warm, in place of what its body waits for.",
        "",
    ),
    "cost": Word(
        '@cost("O(1)")',
        "Above an indicator or a fn: the operations of a bar, for its readers.",
        "",
    ),
    "async": Word(
        "@async(deadline = 2ms)",
        "Above an equation: computed beside the loop, and answered by an event (docs/async.md).",
        "",
    ),
    "host": Word(
        '@host("module:function")',
        "Above an indicator without a body: a function of Python gives its values, where --host "
        "allows that module.",
        "",
    ),
    "device": Word(
        "@device(auto | cpu | cuda)",
        "Above an equation or a kernel: where signals are computed.",
        "",
    ),
    "kernel": Word(
        f"@kernel({' | '.join(KINDS)})",
        "Above a kernel: its kind; another one than it has is an error.",
        "",
    ),
    "workgroup": Word(
        "@workgroup(256)",
        "Above a kernel: the threads that share a parallel loop, or are a block.",
        "",
    ),
    "grid": Word(
        "@grid(ceil(n / 256))",
        "Above a kernel of threads over tensors: how many blocks there are.",
        "",
    ),
    "shared": Word(
        "@shared(4_096)",
        "Above a kernel: the bytes of shared memory that it may take at most.",
        "",
    ),
    "unroll": Word(
        "@unroll(4)",
        "Above a kernel: each innermost loop has so many turns, or a multiple.",
        "",
    ),
    "lanes": Word(
        "@lanes(4)",
        "Above a kernel: each parallel loop has so many turns, or a multiple.",
        "",
    ),
    "fast": Word(
        "@fast(bf16 | f16 | tf32 | order)",
        "Above a kernel of tensors: how its result on a device may be another one.",
        "",
    ),
}
"""What is said above a handler, an equation, a function or a kernel."""

SECTIONS = {
    "a file": FILE,
    "lines of a strategy": STRATEGY,
    "lines of a handler": STATEMENTS,
    "annotations": ANNOTATIONS,
}
