"""Figures as text, the same in terminal, page and comparison."""

import math
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from quantdsl.report.formula import Unit

if TYPE_CHECKING:
    from quantdsl.data.instrument import Instrument

UNDEFINED = "na"
NS_PER_S = 10**9
NS_PER_DAY = 86_400 * NS_PER_S

_LIMITED = {
    **dict.fromkeys(("max notional", "max gross", "max net", "max weight"), "money"),
    **dict.fromkeys(("max daily loss", "max drawdown", "house loss", "house drawdown"), "money"),
    **dict.fromkeys(("max order", "max position", "own check"), "lots"),
    **dict.fromkeys(("price band", "no reference"), "price"),
    **dict.fromkeys(("max data age", "cooldown", "duplicate", "max leg gap"), "span"),
    **dict.fromkeys(("max order rate", "max cancel rate"), "span"),
}
"""What a limit of std/risk.qdsl is counted in, by its name in words; all others count."""


def figure(value: float, unit: Unit, currency: str = "") -> str:
    """A metric's value as a reader writes it: '12.34 %', '1,200.50 USD', '3.2 days', 'na'."""
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if unit == "fraction":
        return f"{value * 100:z,.2f} %"
    if unit == "money":
        return f"{value:z,.2f} {currency}".rstrip()
    if unit == "count":
        return f"{value:z,.0f}"
    if unit in ("seconds", "ticks"):
        return f"{value:z,.3f} {'s' if unit == 'seconds' else 'ticks'}"
    if unit == "days":
        return duration(value)
    return f"{value:z,.1f} bars" if unit == "bars" else f"{value:z,.2f}"


def duration(days: float) -> str:
    """A length of time in the unit that reads best."""
    if abs(days) >= 2.0:
        return f"{days:,.1f} days"
    hours = days * 24.0
    if abs(hours) >= 2.0:
        return f"{hours:.1f} h"
    minutes = hours * 60.0
    return f"{minutes:.0f} min" if abs(minutes) >= 2.0 else f"{minutes * 60.0:.3g} s"


def span(ns: float) -> str:
    """A length of time, however short, in the unit that reads best."""
    if abs(ns) >= NS_PER_S:
        return duration(ns / NS_PER_DAY)
    return f"{ns / 1e6:,.6g} ms" if abs(ns) >= 1e6 else f"{ns / 1e3:,.6g} us"


def moment(ts_ns: int) -> str:
    """A time as '2024-01-02 14:35' in UTC."""
    return datetime.fromtimestamp(ts_ns // NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M")


def date(ts_ns: int) -> str:
    """A time's day as '2024-01-02' in UTC."""
    return moment(ts_ns)[:10]


def plural(count: int, noun: str) -> str:
    """'1 trade', '2 trades', '0 trades'."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def broken(limit: str, value: int, most: int, instrument: "Instrument", money_digits: int) -> str:
    """A RISK record: 'max daily loss: 18.00 against 15.00'; of a rate, how soon it was too many."""
    if limit == "max weight" and most > 0:  # the record has the value and the equity
        return f"{limit}: {figure(value / most, 'fraction')} of equity"
    kind = _LIMITED.get(limit, "count")

    def shown(whole: int) -> str:
        if kind == "span":
            return duration(whole / NS_PER_DAY)
        if kind == "money":
            return figure(whole / 10.0**money_digits, "money")
        step = {"lots": instrument.lot, "price": instrument.tick}.get(kind, Fraction(1))
        return f"{float(step * whole):,.10g}"

    return f"{limit}: {shown(value)} against {shown(most)}" if most else f"{limit}: {shown(value)}"
