"""Random programs of the grammar, and random damage to them."""

import random
import re

from hypothesis import strategies as st

NAMES = ("x", "close", "fast", "spread_z", "y2", "state", "match", "risk", "log", "max", "step")
UNITS = ("5m", "30 s", "10bps", "1%", "3 ticks", "100 shares", "1_000 USD", "2R", "7 bars")
ATOMS = ("1", "2.5", "1e-6", "0", "15:50", "09:30:15", '"text"', '"a \\"b\\""', "true", "na")
TYPES = ("int", "float", "price?", "array[float, 64]", "ring[price?, N]", "bool")
PIECES = re.compile(
    r'\n *|"(?:\\.|[^"\\\n])*"|\d+[.:]\d[\d:]*|\d+e-\d+|\w+'
    r'|\|>|->|\.\.<|\.\.|[-+*/<>=!]=|\?\?|[^\s\w]'
)


class Writer:
    """Writes programs that are right by construction; `depth` bounds their size."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []

    def one(self, *choices: str) -> str:
        return self.random.choice(choices)

    def maybe(self, text: str, chance: float = 0.3) -> str:
        return text if self.random.random() < chance else ""

    def some(self, make, low: int = 1, high: int = 3, *args) -> list:
        return [make(*args) for _ in range(self.random.randint(low, high))]

    def name(self) -> str:
        return self.one(*NAMES)

    # ---- expressions ------------------------------------------------------------------------

    def atom(self, depth: int) -> str:
        kind = self.random.randrange(8)
        if depth <= 0 or kind < 3:
            return self.one(self.name(), self.one(*ATOMS), self.one(*UNITS))
        if kind == 3:
            return f"({self.expr(depth - 1)}{self.maybe(' |> ta.f()')})"
        if kind == 4:
            return f"[{', '.join(self.some(self.expr, 0, 3, depth - 1))}]"
        value = self.one(self.name(), f"{self.name()}.{self.name()}")
        if kind == 5:
            return f"{value}[{self.expr(depth - 1)}]"
        return f"{value}({self.args(depth - 1)})"

    def args(self, depth: int) -> str:
        args = [
            self.maybe(f"{self.name()} = ") + self.expr(depth)
            for _ in range(self.random.randrange(4))
        ]
        return ", ".join(args) + (self.maybe(",") if args else "")

    def operand(self, depth: int) -> str:
        sign = self.maybe(self.one("-", "+"), 0.1)
        return f"{sign}{self.atom(depth)}{self.maybe(f' ^ {self.atom(depth - 1)}', 0.1)}"

    def sum(self, depth: int) -> str:
        text = self.operand(depth)
        while self.random.random() < 0.35:
            op = self.one("+", "-", "*", "/", "mod", "of", "??")
            text += f" {op} {self.operand(depth - 1)}"
        return text

    def test(self, depth: int) -> str:
        left = self.maybe("not ", 0.1)
        kind = self.random.randrange(8)
        left += self.sum(depth)
        if kind == 0:
            return f"{left} {self.one('<', '<=', '>', '>=', '==', '!=')} {self.sum(depth - 1)}"
        if kind == 1:
            return f"{left} < {self.sum(depth - 1)} <= {self.sum(depth - 1)}"
        if kind == 2:
            return f"{left} crosses {self.one('above', 'below')} {self.sum(depth - 1)}"
        if kind == 3:
            return f"{left} is {self.maybe('not ')}na"
        return left

    def expr(self, depth: int = 2) -> str:
        text = self.test(depth)
        while self.random.random() < 0.15:
            text += f" {self.one('and', 'or')} {self.test(depth - 1)}"
        if depth > 0 and self.random.random() < 0.1:
            text += f" if {self.test(depth - 1)} else {self.expr(depth - 1)}"
        return text

    # ---- lines ------------------------------------------------------------------------------

    def line(self, level: int, text: str) -> None:
        blank = self.maybe("\n", 0.1) + self.maybe(" " * 4 * level + "# alone\n", 0.05)
        self.lines.append(f"{blank}{' ' * 4 * level}{text}{self.maybe('  # why', 0.1)}\n")

    def type(self, chance: float = 0.3) -> str:
        return self.maybe(f": {self.one(*TYPES)}", chance)

    def params(self) -> str:
        one = (f"{self.name()}{self.type(0.7)}{self.maybe(' = 3')}" for _ in range(3))
        return ", ".join(list(one)[: self.random.randrange(4)])

    def suite(self, level: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(level)

    def statement(self, level: int) -> None:
        simple = (
            lambda: f"let {self.name()}{self.type()} = {self.expr()}",
            lambda: f"var {self.name()}{self.type()} = {self.expr()}",
            lambda: f"state {self.name()}{self.type()} = {self.expr()}",
            lambda: f"{self.name()} {self.one('=', '+=', '-=', '*=', '/=')} {self.expr()}",
            lambda: f"e.{self.name()}[{self.expr()}] = {self.expr()}",
            lambda: f"buy({self.args(2)})",
            lambda: self.one("return", "break", "continue", '"doc"', f"return {self.expr()}"),
            lambda: f'assert {self.expr()}{self.maybe(", why".replace("why", chr(34) * 2))}',
        )
        headers = (
            lambda: f"for {self.name()} in {self.sum(1)}..<{self.sum(1)}:",
            lambda: f"parallel for {self.name()} in 0..9 reduce(x: +, y: max):",
            lambda: f"while {self.test(1)} max {self.one('8', 'x', '-1')}:",
            lambda: "atomic:",
        )
        kind = self.random.randrange(12)
        if level >= 4 or kind < 8:
            self.line(level, self.random.choice(simple)())
        elif kind == 8:
            self.if_(level)
        elif kind == 9:
            self.line(level, f"match {self.expr()}:")
            for _ in range(2):
                self.line(level + 1, f"case {', '.join(self.some(self.sum, 1, 2, 1))}:")
                self.suite(level + 2)
        else:
            self.line(level, self.random.choice(headers)())
            self.suite(level + 1)

    def if_(self, level: int) -> None:
        self.line(level, f"if {self.expr()}:")
        self.suite(level + 1)
        for _ in range(self.random.randrange(3)):
            self.line(level, f"elif {self.expr()}:")
            self.suite(level + 1)
        if self.random.random() < 0.5:
            self.line(level, "else:")
            self.suite(level + 1)

    # ---- items ------------------------------------------------------------------------------

    def file(self) -> str:
        self.line(0, "language 1")
        tops = (
            lambda: self.line(0, f"import {self.one('lib.a', 'b')}{self.maybe(' as z')}"),
            lambda: self.line(0, "from lib.x import a, b"),
            lambda: self.line(0, f"const {self.name()}{self.type()} = {self.expr()}"),
            lambda: self.line(0, "enum Side: buy, sell"),
            lambda: self.block("enum Kind", "bid,", "ask, mid"),
            lambda: self.block("struct Band", f"mid: {self.one(*TYPES)}", "state: int"),
            self.function,
            self.strategy,
            lambda: self.test_block(0),
        )
        for _ in range(self.random.randint(1, 4)):
            self.random.choice(tops)()
        return "".join(self.lines)

    def block(self, header: str, *rows: str, level: int = 0) -> None:
        self.line(level, f"{header}:")
        for row in rows:
            self.line(level + 1, row)

    def function(self) -> None:
        if self.random.random() < 0.2:
            self.line(0, f"fn f({self.params()}) = {self.expr()}")
            return
        if self.random.random() < 0.3:
            self.line(0, f"@warmup({self.args(1)})")
        word = self.one("fn", "indicator", "kernel")
        returns = self.maybe(f" -> {self.one(*TYPES)}", 0.5)
        self.line(0, f"{word} f({self.params()}){returns}:")
        self.suite(1)

    def strategy(self) -> None:
        self.block("strategy S", '"What it does."', f"bars 5m{self.maybe(', sync = all as y')}")
        line = self.line
        items = (
            lambda: line(1, f'session "XNYS", flat_by = 15:55{self.maybe(" as s")}'),
            lambda: line(1, f"param {self.name()} = {self.sum(1)}{self.domain()}"),
            lambda: line(1, f"{self.one('require', 'invariant')} {self.expr()}"),
            lambda: line(1, f"let {self.name()} = {self.expr()}{self.maybe('|> xs.f(1)')}"),
            lambda: line(1, f"state {self.name()}: {self.one(*TYPES)}"),
            lambda: line(1, f"plot({self.args(1)})"),
            lambda: self.block(
                self.one("risk", "backtest"), f"max_x = {self.sum(1)} -> flatten, halt(1)",
                f"cash = {self.sum(1)}", level=1,
            ),
            lambda: self.test_block(1),
            self.handler,
        )
        for _ in range(self.random.randint(1, 6)):
            self.random.choice(items)()

    def domain(self) -> str:
        return self.one("", " in 5..50 step 5", " in 1.0..2.0 log 12", ' in {"a", "b"}', " in 1..x")

    def handler(self) -> None:
        header = self.one(
            "on bar", "on ready(x)", f"on quote when {self.test(1)}", "every 30s",
            f"at 15:45{self.maybe(' on month_end')}", f"action go({self.params()})",
        )
        self.line(1, f"{header}:")
        self.suite(2)

    def test_block(self, level: int) -> None:
        self.line(level, 'test "does it":')
        self.line(level + 1, f"{self.one('set', 'feed', 'given')} x = {self.expr()}, y = 2")
        self.line(level + 1, f"expect {self.expr()}")


def write_program(seed: int) -> str:
    return Writer(seed).file()


def damage(text: str, seed: int) -> str:
    """Delete, repeat or swap a few tokens of a program; its lines and blocks stay."""
    rng = random.Random(seed)
    pieces = PIECES.findall("\n".join(row.split("  #")[0] for row in text.split("\n")))
    for _ in range(rng.randint(1, 2)):
        places = [i for i, piece in enumerate(pieces) if not piece.startswith("\n")]
        if len(places) < 2:
            break
        at, other = rng.choice(places), rng.choice(places)
        action = rng.randrange(3)
        if action == 0:
            del pieces[at]
        elif action == 1:
            pieces.insert(at, pieces[other])
        else:
            pieces[at], pieces[other] = pieces[other], pieces[at]
    return " ".join(pieces).replace("\n ", "\n") + "\n"


seeds = st.integers(0, 2**32 - 1)
programs = seeds.map(write_program)
