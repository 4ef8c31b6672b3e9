"""Small files that ask for huge work, each refused by the name of a limit, soon, in little memory.

Run as a module, this file compiles every bomb in its own process, which holds itself to 256 MiB
more than the compiler needs, and prints what came of each as JSON: what was said, and how many
calls of functions it took.
"""

import json
import resource
import sys
from pathlib import Path

from quantdsl.check import check_source
from quantdsl.errors import QuantDSLError
from quantdsl.lang.source import Source
from tests.counting import calls

HEAD = "strategy S:\n    bars 5m\n"
ORDER = "    on bar:\n        buy(1 shares)\n"
HANDLER = f"{HEAD}    on bar:\n"
EXTRA_BYTES = 256 * 2**20


def equation(text: str) -> str:
    return f"{HEAD}    let a = {text}\n    plot(a)\n{ORDER}"


def chain(first: str, step: str, count: int, *, indent: str = "    let") -> str:
    """x0 = first, x1 = step of x0 ...: a name that stands for exponentially much."""
    lines = [f"{indent} x0 = {first}\n"]
    lines += [f"{indent} x{n} = {step.format(f'x{n - 1}')}\n" for n in range(1, count)]
    return "".join(lines)


def doubled(kind: str, body: str, last: str) -> str:
    """g0, g1 = g0 twice, g2 = g1 twice ...: calls that grow exponentially."""
    return "".join(f"{kind} g{n}{body.format(f'g{n - 1}' if n else last)}\n" for n in range(40))


DOUBLE = "(x: float) -> float = {0}(x) + {0}(x + 1.0)"
DOUBLE_SERIES = "(x: series[float]) -> float:\n    return {0}(x) + {0}(x + 1.0)"
REFUSED = {
    "brackets": equation("(" * 30_000 + "1" + ")" * 30_000),
    "100,000 brackets": equation("(" * 100_000 + "1" + ")" * 100_000),
    "sum of 5,000 terms": equation(" + ".join(["close"] * 5_000)),
    "power of 3,000": equation("^".join(["close"] * 3_000)),
    "5,000 signs": equation("-" * 5_000 + "close"),
    "9,000 parts": equation("close" + ".a" * 9_000),
    "9,000 indices": equation("close" + "[1]" * 9_000),
    "3,000 pipes": equation("close" + " |> ta.sma(5)" * 3_000),
    "50,000 statements": HANDLER + "        buy(1 shares)\n" * 50_000,
    "2,500 statements": HANDLER + "        buy(1 shares)\n" * 2_500,
    "1,500 series": HEAD
    + "".join(f"    let x{n} = ta.sma(close, {n + 1})\n" for n in range(1_500)),
    "functions that double": doubled("fn", DOUBLE, "sqrt") + HEAD + "    plot(g39(close))\n",
    "indicators that double": doubled("indicator", DOUBLE_SERIES, "sqrt") + HEAD
    + "    plot(g39(close))\n",
    "actions that double": HEAD + "    action f0():\n        flatten()\n"
    + "".join(f"    action f{n}():\n        f{n - 1}()\n        f{n - 1}()\n" for n in range(1, 40))
    + "    on bar:\n        f39()\n",
    "window that doubles": HEAD + "    param p = 2 in 1..5\n" + chain("p", "{0} + {0}", 60)
    + "    plot(ta.sma(close, x59))\n",
    "window": equation("ta.sma(close, 1_000_000_000_000)"),
    "largest window": equation("ta.sma(close, 9_223_372_036_854_775_807)"),
    "window of a param": HEAD + "    param n = 5 in 1..1_000_000_000_000\n"
    "    plot(ta.sma(close, n))\n",
    "history": equation("close[1_000_000_000_000]"),
    "histories": HEAD + chain("close", "{0}[1_000_000]", 12) + "    plot(x11)\n",
    "array": HEAD + "    state a: array[float, 1_000_000_000_000]\n    on bar:\n"
    "        a[0] = float(close)\n        if a[1] > 0.0:\n            flatten()\n",
    "loops": HANDLER + "        for i in 0..<1_000_000_000:\n"
    "            for j in 0..<1_000_000_000:\n                flatten()\n",
    "while": HANDLER + "        while close > 0.0 max 9_223_372_036_854_775_807:\n"
    "            flatten()\n",
    "range": HEAD + "    param n = 0.5 in 0.0..1e12 step 1e-6\n    plot(close * n)\n",
    "3,000 params": HEAD + "".join(f"    param p{n} = 5\n" for n in range(3_000)),
    "1,000 instruments": "strategy S:\n" + "".join(
        f'    instrument "X:A{n}" as a{n}\n' for n in range(1_000)) + "    bars 5m\n",
    "80 clocks": "strategy S:\n    bars 1m\n" + "".join(
        f"    bars {n + 2}m as c{n}\n" for n in range(80)),
    "300 timers": HEAD + "    every 5m:\n        flatten()\n" * 300,
    "orders of 60 instruments": "strategy S:\n" + "".join(
        f'    instrument "X:A{n}" as a{n}\n' for n in range(60)) + "    bars 5m\n    on bar:\n"
    + "        cancel_all()\n" * 600,
}
SHARED = {
    "equations": HEAD + chain("close * 2.0", "{0} + {0}", 60) + "    plot(x59)\n" + ORDER,
    "constants": HEAD + chain("2.0", "{0} + {0}", 60) + "    plot(x59 + close)\n" + ORDER,
    "consts": chain("2.0", "{0} + {0}", 60, indent="const") + HEAD + "    plot(x59 * close)\n",
    "params": HEAD + "    param p = 2.0\n" + chain("p", "{0} + {0}", 60)
    + "    plot(x59 + close)\n",
    "choices": HEAD + chain("close * 2.0", "{0} if {0} > 1.0 else {0}", 60) + "    plot(x59)\n",
    "locals": HANDLER + chain("close * 2.0", "{0} + {0}", 60, indent="        let")
    + "        if x59 > 0.0:\n            flatten()\n",
    "warm-ups": HEAD + "    param n = 5 in 2..9\n    param m = 5 in 2..9\n"
    + chain("ta.sma(close, n)", "ta.sma({0}, n) + ta.ema({0}, m)", 60) + "    plot(x59)\n",
}
"""Legal: what is named is computed once, however often it is used."""


def outcome(text: str) -> str:
    """What the compiler says."""
    try:
        checked, found = check_source(Source(text))
        said = " ".join(f"{d.message} {d.reason}" for d in found if d.severity == "error")
        if checked is not None:
            checked.module()
    except QuantDSLError as error:
        said = str(error)
    return said


def main() -> None:
    outcome(HEAD + ORDER)  # what the compiler itself needs is not the bomb's
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + EXTRA_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    every = {**REFUSED, **SHARED}
    said = {name: calls(lambda text=text: outcome(text)) for name, text in every.items()}
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main()
