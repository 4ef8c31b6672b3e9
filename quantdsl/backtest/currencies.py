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


def _states(one: Instrument) -> bool:
    """Whether an instrument file names the currency; one that was inferred is a guess."""
    return "currency" in one.named
