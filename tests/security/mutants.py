"""Damaged strategies: tokens deleted, doubled, swapped and replaced, some many times over."""

import re
from functools import cache
from pathlib import Path
from random import Random

from quantdsl.lang import words as vocabulary
from tests.backtest.programs import strategy

KEYWORDS = (vocabulary.RESERVED | vocabulary.ITEM_WORDS | vocabulary.STATEMENT_WORDS
            | vocabulary.TOP_WORDS | vocabulary.TEST_WORDS | vocabulary.AFTER_WORDS)
TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|\d[\d_.:]*[a-z%]*|\|>|\.\.<?|[<>=!]=|\S|\n[ ]*|[ ]+')
SHIPPED = Path(__file__).parents[2] / "strategies"
LITERALS = (
    "0", "1", "-1", "2", "0.5", "1e300", "1e-300", "9223372036854775807", "1000000000000", "na",
    "true", "5m", "1d", "3 ticks", "100 shares", "10 USD", "5%", "2R", "1 mo", '"x"', "15:50",
    "close", "position", "equity", "x0", "ta", "ta.sma", "Side", "bars", "[1, 2]", "1..5", "now",
    "()", "_", "p", "inf", "log", "flat", "buy", "daily", "bar_index", "ta.macd(close, 3, 5, 2)",
)


def seeds() -> list[str]:
    """The shipped strategies and a few generated ones."""
    shipped = [path.read_text() for path in sorted(SHIPPED.glob("*.qdsl"))]
    return shipped + [strategy(seed) for seed in range(12)]


@cache
def tokens_of(text: str) -> tuple[str, ...]:
    """Its tokens, blanks among them."""
    return tuple(TOKEN.findall(text))


def mutant(seeds: list[str], number: int) -> str:
    """One damaged program; the same number gives the same one."""
    random = Random(number)
    tokens = list(tokens_of(random.choice(seeds)))
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _damage(tokens, random)
    return "".join(tokens)


def _damage(tokens: list[str], random: Random) -> None:
    """Most damage leaves a program that parses, so that the checker has to judge it."""
    kind = random.randrange(12)
    if kind < 1:
        words = [n for n, token in enumerate(tokens) if token.strip()]
        at = random.choice(words)
        tokens[at] = "" if random.random() < 0.5 else f"{tokens[at]} {tokens[random.choice(words)]}"
        return
    if kind == 2:
        _lines(tokens, random)
        return
    words = [n for n, token in enumerate(tokens)
             if re.match(r"[\w\"]", token) and token not in KEYWORDS]
    at, other = random.choice(words), random.choice(words)
    if kind < 5:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif kind < 7:
        tokens[at] = tokens[other]
    else:
        tokens[at] = random.choice(LITERALS)


def _lines(tokens: list[str], random: Random) -> None:
    """Delete a line, or put another in its place."""
    lines = "".join(tokens).split("\n")
    at, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[at : at + 1] = random.choice(([], [lines[other]], [lines[at], lines[at]]))
    tokens[:] = TOKEN.findall("\n".join(lines))
