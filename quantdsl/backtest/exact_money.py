"""Money is a whole number of units below 2^53: what an account would pay for beyond that is said,
and an account that is beyond it by itself is refused."""

from collections.abc import Sequence
from fractions import Fraction

from quantdsl.config import AccountConfig
from quantdsl.data.events import Data
from quantdsl.data.instrument import EXACT_MAX, Instrument, show_fraction
from quantdsl.data.tick_data import RunData
from quantdsl.errors import LimitError


def cash_units(account: AccountConfig, instruments: Sequence[Instrument], digits: int) -> int:
    """The account's cash in money units; LimitError where they are no exact count."""
    units: int = round(Fraction(str(account.cash)) * 10**digits)
    if units < EXACT_MAX:
        return units
    finest = min(instruments, key=lambda one: one.tick_value)
    raise LimitError(
        f"account.cash = {account.cash:,.15g} {account.currency} is {float(units):.3g} money units "
        f"of 1e-{digits}, and the limit is 2^53: one tick ({show_fraction(finest.tick)}) of one "
        f"lot ({show_fraction(finest.lot)}) of {finest.name} is worth so little\n"
        "help: name a coarser tick or lot in an instrument file, or start with less cash"
    )


def small_positions(data: RunData, account: AccountConfig) -> list[str]:
    """A note, if the engine counts less of an instrument than the cash could buy of it once."""
    if not isinstance(data, Data):  # a book holds orders at prices that nobody trades at
        return []
    held = [_position(data, index) for index in range(len(data.instruments))]
    small = [one for one in held if one[0] < account.cash / account.margin_initial]
    if not small:
        return []
    worth, units, one = min(small, key=lambda position: position[0])
    others = f", and of {len(small) - 1} more something like it" if len(small) > 1 else ""
    return [
        f"of {one.name} {units:,.15g} units are held at most{others}: money is counted in ticks of "
        f"{show_fraction(one.tick)}, 2^53 of them. At the lowest price they are worth {worth:,.0f} "
        f"{account.currency}, less than the account could pay for. A larger order by value "
        "is cut to them, one by quantity refused; a coarser tick or lot in an instrument file "
        "allows more"
    ]


def _position(data: Data, index: int) -> tuple[float, float, Instrument]:
    """The largest position of an instrument: its worth at the lowest price, and its units."""
    one, most = data.instruments[index], data.limits(index).position_lots_max
    lowest = Fraction(data.feeds[index].scan.price_min)
    return float(most * one.tick_value * lowest / one.tick), float(most * one.lot), one
