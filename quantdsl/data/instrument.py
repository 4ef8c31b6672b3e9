"""What is traded: its price step, size step, contract size, calendar and costs.

Prices and sizes inside quantdsl are whole numbers of ticks and lots. This module holds the
fractions that connect them with the decimals of files and orders, and proves at start that the
numbers of a run stay exact.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from quantdsl.errors import ConfigError, LimitError
from quantdsl.files import read_toml
from quantdsl.limits import NUMBER_CHARS
from quantdsl.wanted import fault

EXACT_MAX = 2**53
"""Whole numbers below this are exact as i64 and as f64 alike."""

PRICE_ROOM = 4
"""An order's price may lie so many times above the highest of the data."""

MONEY_DIGITS_MIN = 6
MONEY_DIGITS_MAX = 12


class Fees(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the venue charges; a strategy's `backtest:` block or a config may say otherwise."""

    maker_bps: float = 0.0
    taker_bps: float = 0.0
    per_share: float = 0.0
    per_contract: float = 0.0
    per_order: float = 0.0
    minimum: float = 0.0


class Instrument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One traded thing. `tick` is in quote currency, `lot` in units, `multiplier` units a lot unit.

    An `inverse` contract is worth a number of its own over its price: it is recorded and charted,
    and an order on it is refused, since money here is a whole number a tick.
    `named` holds the fields that the user wrote; what he wrote is law, the rest was inferred.
    """

    symbol: str
    venue: str = ""
    tick: Fraction = Fraction(1, 100)
    lot: Fraction = Fraction(1)
    multiplier: Fraction = Fraction(1)
    currency: str = "USD"
    calendar: str = ""
    inverse: bool = False
    prices: Literal["traded", "adjusted"] = "traded"
    price_min: Fraction | None = None
    price_max: Fraction | None = None
    fees: Fees = Fees()
    named: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """`XNYS:KO`, or the bare symbol where no venue is known."""
        return f"{self.venue}:{self.symbol}" if self.venue else self.symbol

    @property
    def tick_value(self) -> Fraction:
        """Money that one lot gains when the price rises one tick."""
        return self.tick * self.lot * self.multiplier

    def statement(self) -> str:
        """One line of what a run assumes of this instrument and where it comes from."""
        parts = [
            f"{what} {show_fraction(value)}{'' if what in self.named else ' (inferred)'}"
            for what, value in (("tick", self.tick), ("lot", self.lot))
        ]
        if self.multiplier != 1:
            parts.append(f"multiplier {show_fraction(self.multiplier)}")
        if self.inverse:
            known = "" if "inverse" in self.named else " (by its name)"
            parts.append(f"inverse: charted, not traded{known}")
        known = "" if "currency" in self.named else " (assumed)"
        parts.append(f"{self.currency}{known}")
        return f"{self.name}: {', '.join(parts)}"


class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An instrument as TOML has it: numbers as text, so that 0.00005 stays what was written."""

    symbol: str = ""
    venue: str = ""
    tick: str | int | float = ""
    lot: str | int | float = ""
    multiplier: str | int | float = ""
    currency: str = ""
    calendar: str = ""
    inverse: bool = False
    prices: Literal["traded", "adjusted"] = "traded"
    price_min: str | int | float = ""
    price_max: str | int | float = ""
    fees: Fees = Fees()


def show_fraction(value: Fraction) -> str:
    """A fraction as a plain decimal where it has one, else as `a/b`."""
    digits = decimals(value)
    if digits is None:
        return f"{value.numerator}/{value.denominator}"
    scaled = value * 10**digits
    text = f"{abs(scaled.numerator):0{digits + 1}d}"
    whole, part = (text[:-digits], "." + text[-digits:]) if digits else (text, "")
    return f"{'-' if value < 0 else ''}{whole}{part}"


def decimals(value: Fraction) -> int | None:
    """Digits after the point that write `value` exactly, or None if no decimal does."""
    denominator = value.denominator
    twos = (denominator & -denominator).bit_length() - 1
    denominator >>= twos
    fives = 0
    while denominator % 5 == 0:
        denominator //= 5
        fives += 1
    return max(twos, fives) if denominator == 1 else None


_NUMBER = re.compile(
    r"[+-]?(\d+/0*[1-9]\d*|(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?)", re.ASCII | re.IGNORECASE
)


def exact(text: str) -> Fraction:
    """A decimal or a quotient such as 1/32 as it is written; ValueError for anything else.

    Python's own also takes the digits of other scripts, and computes 1e999999999 for hours.
    """
    if len(text) > NUMBER_CHARS or not _NUMBER.fullmatch(text):
        raise ValueError("not a number of the language's form")
    return Fraction(text)


def fraction(text: str | int | float, what: str) -> Fraction:
    """`0.01`, `1/32` or `5` as an exact positive fraction, or ConfigError."""
    try:
        value = exact(str(text))
    except ValueError:
        value = Fraction(0)
    if value <= 0 or value.denominator >= EXACT_MAX or value.numerator >= EXACT_MAX:
        raise ConfigError(f"{what} = {text!r} is not a positive number such as 0.01 or 1/32")
    return value


def instrument_of(entry: object, where: str) -> Instrument:
    """An instrument from a decoded TOML table, or ConfigError naming `where`."""
    try:
        file = msgspec.convert(entry, _File)
    except msgspec.ValidationError as error:
        given = entry if isinstance(entry, dict) else {}
        raise ConfigError(f"{where}: {fault(error, _File, given)[1]}") from None
    assert isinstance(entry, dict)
    named: dict[str, object] = {}
    for key in entry:
        value = getattr(file, key)
        if key in ("tick", "lot", "multiplier", "price_min", "price_max"):
            value = fraction(value, f"{where}: {key}")
        named[key] = value
    if not file.symbol:
        raise ConfigError(f'{where}: an instrument needs a symbol, as in symbol = "KO"')
    return msgspec.structs.replace(Instrument(symbol=file.symbol, named=frozenset(named)), **named)


def load_instruments(path: Path) -> dict[str, Instrument]:
    """The instruments of a TOML file (`[[instrument]]` tables or one flat table), by symbol."""
    _, document = read_toml(path)
    entries = document.get("instrument", [document] if "symbol" in document else None)
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: holds no [[instrument]] table")
    found = [instrument_of(entry, str(path)) for entry in entries]
    return {one.symbol: one for one in found}


def money_digits(instruments: list[Instrument]) -> int:
    """Decimals of a money unit: 6, or what the smallest tick value needs; LimitError above 12."""
    digits = MONEY_DIGITS_MIN
    for one in instruments:
        needed = decimals(one.tick_value)
        if needed is None or needed > MONEY_DIGITS_MAX:
            raise LimitError(
                f"{one.name}: one tick of one lot is worth {one.tick_value} {one.currency}, which "
                f"no decimal of {MONEY_DIGITS_MAX} digits holds: name a coarser tick or lot"
            )
        digits = max(digits, needed)
    return digits


class Limits(msgspec.Struct, frozen=True):
    """What the core may count with for one instrument; every product of them is below 2^53."""

    money_per_tick_lot: int
    price_ticks_min: int
    price_ticks_max: int
    position_lots_max: int


class Listed(Protocol):
    """The instruments of a run, and what its money and prices are counted in."""

    @property
    def instruments(self) -> Sequence[Instrument]: ...

    @property
    def money_digits(self) -> int: ...

    def limits(self, instrument: int) -> Limits: ...


def limits(one: Instrument, price_max: float, digits: int) -> Limits:
    """The limits of a run whose data never trade above `price_max`.

    An order's price may lie PRICE_ROOM times higher, unless the user named the highest price.
    """
    units = one.tick_value * 10**digits
    assert units.denominator == 1
    highest = one.price_max or Fraction(price_max) * PRICE_ROOM
    price_ticks_max = int(highest / one.tick)
    return Limits(
        money_per_tick_lot=int(units),
        price_ticks_min=max(1, int((one.price_min or Fraction(0)) / one.tick)),
        price_ticks_max=price_ticks_max,
        position_lots_max=(EXACT_MAX - 1) // (price_ticks_max * int(units)),
    )


def check_exact(one: Instrument, price_max: float, volume_max: float, digits: int) -> None:
    """LimitError unless the largest price, volume and the value of one lot stay exact integers."""
    for what, largest, unit in (
        ("highest price", Fraction(price_max) / one.tick, "ticks"),
        ("largest volume", Fraction(volume_max) / one.lot, "lots"),
        (
            "value of one lot at the highest price",
            Fraction(price_max) * one.lot * one.multiplier * 10**digits,
            "money units",
        ),
    ):
        if largest >= EXACT_MAX:
            raise LimitError(
                f"{one.name}: the {what} is {float(largest):.3g} {unit}, and the limit is 2^53: "
                "name a coarser tick or lot in the instrument file"
            )
