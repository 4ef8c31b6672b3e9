"""One run has one account in one currency: other currencies need a rate, or are refused."""

from collections.abc import Sequence
from fractions import Fraction

import msgspec

from quantdsl.config import DEFAULT, AccountConfig, Resolved
from quantdsl.data.instrument import Instrument
from quantdsl.errors import ConfigError

Known = Sequence[Instrument | None]


def implied(known: Known, resolved: Resolved) -> dict[str, str]:
    """The account's currency as a setting, where nobody states it and the instruments agree."""
    named = {one.currency for one in known if one is not None and _states(one)}
    if len(named) != 1 or resolved.source("account.currency") != DEFAULT:
        return {}
    return {"account.currency": named.pop()}


def converted(known: Known, account: AccountConfig) -> tuple[list[Instrument | None], list[str]]:
    """The instruments with their gains in the account's money, and what was done in words."""
    notes: dict[str, None] = {}
    found: list[Instrument | None] = []
    for one in known:
        if one is None or not _states(one) or one.currency == account.currency:
            found.append(one)
            continue
        rate = account.rates.get(one.currency)
        if rate is None:
            raise ConfigError(
                f"{one.name} is in {one.currency} and the account in {account.currency}: "
                "no rate between them is given\n"
                f"help: write in the config, under [account]: rates = {{ {one.currency} = RATE }} "
                f"where RATE is what one {one.currency} is worth in {account.currency}"
            )
        multiplier = one.multiplier * Fraction(str(rate))
        named = one.named | {"multiplier"}
        found.append(msgspec.structs.replace(one, multiplier=multiplier, named=named))
        notes[f"1 {one.currency} counts as {rate:g} {account.currency}, the whole run long"] = None
    return found, list(notes)


def assumed(instruments: Sequence[Instrument], account: AccountConfig) -> list[str]:
    """A note on each currency other than the account's that is assumed of an instrument, by its
    name or for want of any: prices count as the account's money as they stand."""
    names: dict[str, list[str]] = {}
    for one in instruments:
        if not _states(one) and one.currency != account.currency:
            names.setdefault(one.currency, []).append(one.name)
    return [
        f"{named[0]}{_and_more(len(named) - 1)} assumed to be in {currency}, and the account is in "
        f"{account.currency}: 1 {currency} counts as 1 {account.currency}; account.currency = "
        f'"{currency}" in a config counts in it'
        for currency, named in names.items()
    ]


def _and_more(others: int) -> str:
    return f" and {others} more are" if others else " is"


def _states(one: Instrument) -> bool:
    """Whether an instrument file names the currency; one that was inferred is a guess."""
    return "currency" in one.named
