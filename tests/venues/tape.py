"""The messages that a test venue plays, and the book that they make: the oracle of every adapter.

A tape is a real recording or a made-up market; both are lists of Message in order of time. The
oracle book is plain Python on the venue's own decimal texts, and knows no adapter.
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import gcd
from pathlib import Path

import pytest

DATA = Path(__file__).parents[3] / "shared" / "data" / "ws"


@dataclass(frozen=True, slots=True)
class Message:
    """One text frame of a venue; `book` where it changes a book, `snapshot` where it is one."""

    at_ns: int
    symbol: str
    channel: str
    text: str
    book: bool = False
    snapshot: bool = False


@dataclass
class Book:
    """Both sides of a book: Decimal price -> text of the size that lies there, no zeros."""

    bids: dict[Decimal, tuple[str, str]] = field(default_factory=dict)
    asks: dict[Decimal, tuple[str, str]] = field(default_factory=dict)
    sequence: int = 0

    def clear(self) -> None:
        self.bids.clear()
        self.asks.clear()

    def set(self, side: int, price: str, size: str) -> None:
        """Side 0 bids, 1 asks; size zero takes the level away, absent or not."""
        levels = self.asks if side else self.bids
        if Decimal(size) == 0:
            levels.pop(Decimal(price), None)
        else:
            levels[Decimal(price)] = (price, size)

    def levels(self, side: int, depth: int | None = None) -> list[tuple[str, str]]:
        """Texts of the levels, best first."""
        levels = self.asks if side else self.bids
        return [levels[price] for price in sorted(levels, reverse=side == 0)[:depth]]

    def in_units(self, tick: Fraction, lot: Fraction) -> tuple[dict[int, int], dict[int, int]]:
        """Ticks -> lots of the bids and of the asks."""
        def whole(text: str, unit: Fraction) -> int:
            value = Fraction(text) / unit
            assert value.denominator == 1, (text, unit)
            return value.numerator

        bids, asks = (
            {whole(price, tick): whole(size, lot) for price, size in side.values()}
            for side in (self.bids, self.asks)
        )
        return bids, asks


def unit_of(texts: Iterator[str] | list[str]) -> Fraction:
    """The largest decimal of which all numbers are multiples: the tick or lot they show."""
    digits, whole = 0, 0
    for text in texts:
        value = Decimal(text)
        exponent = -int(value.normalize().as_tuple().exponent)
        if exponent > digits:
            whole *= 10 ** (exponent - digits)
            digits = exponent
        whole = gcd(whole, int(value.scaleb(digits)))
    return Fraction(max(whole, 1), 10**digits)


def recorded(name: str) -> list[str]:
    """Lines of a recording below shared/data/ws, or the test is skipped."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"the recording ws/{name} is not here")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def received(name: str) -> Iterator[tuple[int, str]]:
    """(time of receipt in ns, text) of each frame that a cryptofeed recording received."""
    for line in recorded(f"cryptofeed/{name}.gz"):
        at, _, text = line.partition(": ")
        if text and " " not in at:
            yield int(Fraction(at) * 1_000_000_000), text
