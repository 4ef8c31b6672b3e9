"""Random strategies: valid QuantDSL text that trades, for comparing ways to run it."""

from random import Random

INDICATORS = (
    "ta.sma({s}, {n})",
    "ta.ema({s}, {n})",
    "ta.rsi({s}, {n})",
    "ta.atr({n})",
    "ta.wma({s}, {n})",
    "ta.highest({s}, {n})",
    "ta.lowest({s}, {n})",
    "ts.zscore({s}, {n})",
    "ta.stdev({s}, {n})",
    "ta.roc({s}, {n})",
    "ta.macd({s}, 3, {n}, 4).hist",
    "ta.bb({s}, {n}, 2.0).upper",
    "ta.cci({s}, {n})",
    "ts.std({s}, {n})",
    "ta.mom({s}, {n})",
)
SERIES = ("close", "open", "high", "low", "hl2", "hlc3", "float(volume)")
FUNCTIONS = (
    "sqrt(abs({x}))",
    "log(abs({x}) + 1.0)",
    "exp(min({x} / 1e3, 5.0))",
    "tanh({x})",
    "abs({x})",
    "floor({x})",
    "sin({x})",
    "sign({x}) * {x}",
    "max({x}, {y})",
    "min({x}, {y})",
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} / {y}",
    "({x} if {x} > {y} else {y})",
    "clamp({x}, -1e6, 1e6)",
)
EXTRAS = (
    "",
    ", stop_loss = close - {d} ticks",
    ", take_profit = close + {d} ticks",
    ", limit = close - {d} ticks",
    ", stop = close + {d} ticks",
    ", trail = {d} ticks",
    ", limit = close - {d} ticks, tif = day",
    ", stop_loss = close - {d} ticks, take_profit = close + {e} ticks",
)


def strategy(seed: int) -> str:
    """The text of a strategy; every seed gives one that compiles."""
    return _Maker(Random(seed)).text()


def moody_strategy(seed: int) -> str:
    """The same with a handler that runs on a condition, goes by an enum and keeps structs.

    Its limits halt, and it may borrow: its turns end in branches that have changed something.
    """
    return _Moody(Random(seed)).text()


class _Maker:
    declared: tuple[str, ...] = ()
    """Lines before the strategy."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.lets: list[str] = []

    def kept(self) -> list[str]:
        """More states."""
        return []

    def when(self) -> str:
        """The condition of the handler."""
        return ""

    def limits(self) -> list[str]:
        """More of the risk block."""
        return []

    def costs(self) -> list[str]:
        """More of the backtest block."""
        return []

    def text(self) -> str:
        r = self.random
        lines = [
            "language 1",
            "",
            *self.declared,
            "strategy Generated:",
            "    bars 5m",
            '    session "XNYS"',
            "",
            f"    param p = {r.randint(2, 6)} in 2..9 step 1",
            f"    param q = {r.randint(1, 9)}.5 in 0.5..9.5 step 0.5",
            "",
        ]
        for n in range(r.randint(2, 6)):
            lines.append(f"    let x{n} = {self.series()}")
            self.lets.append(f"x{n}")
        lines += ["", "    state n = 0", "    state last: float? = na", *self.kept(), ""]
        lines += [f"    on bar{self.when()}:", *self.handler()]
        lines += ["", "    risk:", f"        max_position = {r.randint(100, 900)} shares"]
        if r.random() < 0.5:
            lines.append("        max_daily_loss = 1% of equity -> flatten, halt")
        lines += self.limits()
        lines += [
            "",
            "    backtest:",
            f"        fees = {r.randint(0, 5)}bps",
            f"        slippage = {r.randint(0, 2)} ticks",
            *self.costs(),
            "",
        ]
        for name in self.lets:
            lines.append(f'    plot({name}, "{name}")')
        return "\n".join(lines) + "\n"

    def handler(self) -> list[str]:
        r = self.random
        lines = ["        n += 1", f"        let here = {self.value()}"]
        lines += [f"        if {self.condition()}:", f"            last = {self.value()}"]
        lines += [f"        if flat and {self.condition()}:", f"            {self.order()}"]
        lines += [f"        elif {self.condition()}:", f"            {self.leave()}"]
        if r.random() < 0.5:
            lines += [f"        while n > {r.randint(3, 30)} max 4:", "            n -= 2"]
        lines += [
            f"        if here > (last ?? {r.randint(1, 90)}.0) and n mod 7 == 3:",
            f"            {self.order()}",
        ]
        return lines

    def order(self) -> str:
        r = self.random
        verb = r.choice(("buy", "buy", "short"))
        extra = r.choice(EXTRAS).format(d=r.randint(1, 40), e=r.randint(5, 60))
        return f"{verb}({r.randint(1, 300)} shares{extra if verb == 'buy' else ''})"

    def leave(self) -> str:
        return self.random.choice(
            (
                "close_position()",
                "cancel_all()",
                "sell(10 shares)",
                "cover(10 shares)",
                "target(20 shares)",
                "flatten()",
            )
        )

    def condition(self) -> str:
        r = self.random
        a, b = self.value(), self.value()
        name = r.choice(self.lets)
        return r.choice(
            (
                f"{a} > {b}",
                f"{a} <= {b}",
                f"{name} crosses above {name}[1]",
                f"not ({a} < {b})",
                f"n mod {r.randint(2, 9)} == 0",
                f"{a} > {b} or n > {r.randint(1, 50)}",
                f"close > close[{r.randint(1, 5)}]",
            )
        )

    def series(self) -> str:
        r = self.random
        if r.random() < 0.6:
            n = r.choice(("p", str(r.randint(2, 12))))
            source = r.choice((*SERIES, *self.lets))
            return r.choice(INDICATORS).format(s=source, n=n)
        value = self.value(depth=2)
        clocked = any(name in value for name in (*SERIES, *self.lets))
        return value if clocked else f"{value} + close"  # a constant has no history

    def value(self, depth: int = 1) -> str:
        r = self.random
        if depth == 0 or r.random() < 0.3:
            atoms = [*SERIES, "q", f"{r.randint(0, 40)}.25", "float(p)"]
            atoms += self.lets * 3
            atom = r.choice(atoms)
            history = atom in self.lets and r.random() < 0.3
            return f"{atom}[{r.choice(('1', '3', 'p'))}]" if history else atom
        form = r.choice(FUNCTIONS)
        return form.format(x=self.value(depth - 1), y=self.value(depth - 1))


class _Moody(_Maker):
    declared = ("enum Mood: calm, hot, cold", "", "struct Pair:", "    a: float", "    b: int", "")

    def kept(self) -> list[str]:
        start = self.random.choice(("0.0", "q", "2.5"))
        return ["    state mood = Mood.calm", f"    state w = Pair(a = {start}, b = 1)"]

    def when(self) -> str:
        r = self.random
        return r.choice(("", f" when close < float(equity) / {r.randint(1, 9)}"))

    def limits(self) -> list[str]:
        more = "duplicate = 90m -> halt", "max_order = 90 shares -> cancel_all"
        return self.random.choice(([], *([f"        {line}"] for line in more)))

    def costs(self) -> list[str]:
        return self.random.choice(([], ["        leverage = 2"], ["        borrow = 2%"]))

    def handler(self) -> list[str]:
        r = self.random
        lines = ["        n += 1", "        match mood:"] if r.random() < 0.6 else []
        for name in ("calm", "hot", "cold") if lines else ():
            lines += [f"            case {name}:", f"                {self.act()}"]
        if lines:
            lines += [f"        mood = Mood.{r.choice(('hot', 'cold'))}"]
        lines += [f"        if {r.choice(self.lets)} crosses above close:"]
        lines += ["            mood = Mood.calm", f"            {self.order()}"]
        if r.random() < 0.3:
            lines += [f"        if {self.condition()}:", f"            {self.leave()}"]
        if r.random() < 0.4:
            lots = r.randint(1, 90)
            lines += [f"        short({lots} shares, stop = close - 60 ticks, tif = ioc)"]
        return lines

    def act(self) -> str:
        r = self.random
        return r.choice(("w.b = n", "n += 2", "last = float(volume)", self.order(), "cancel_all()"))

    def series(self) -> str:
        r = self.random
        chosen = r.choice(("close", "hl2", "ta.sma(close, p)", "ta.ema(close, p)"))
        if r.random() < 0.4:
            chosen = f"{self.value()} + {chosen}"
        return f"Pair(a = {chosen}, b = 1).a" if r.random() < 0.15 else chosen
