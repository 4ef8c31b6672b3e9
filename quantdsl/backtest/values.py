"""Values for params: from text or numbers to the words of the state."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from quantdsl.backtest.program import Memory
from quantdsl.check.literals import DURATION_NS, FRACTION, PLURAL, converted
from quantdsl.check.params import Param
from quantdsl.config import keys
from quantdsl.data.instrument import exact
from quantdsl.errors import ConfigError, LimitError
from quantdsl.lang.spelling import nearest
from quantdsl.limits import NUMBER_CHARS


def chosen(
    params: Sequence[Param], given: Mapping[str, object], *, below: bool = False
) -> dict[str, Fraction]:
    """Every param's value: as given, or its default. ConfigError names what does not fit.

    `below` admits values under a range's low end, as short tests need: of an int those that a test
    of the file sets, which the checker has proven; memory is sized by the high end, which always
    holds.
    """
    for name in given:
        named(params, name)
    return {
        one.name: value(one, given[one.name], below=below) if one.name in given else one.default
        for one in params
    }


def named(params: Sequence[Param], name: str) -> Param:
    """The param of a name; ConfigError, with the nearest and all that there are, where none is."""
    known = {param.name: param for param in params}
    if name not in known:
        near = nearest(name, known)
        hint = f"; did you mean {near}?" if near else ""
        listed = f"its params are {', '.join(known)}" if known else "it has no params"
        settings = " and ".join(key for key in keys() if key.endswith(f".{name}"))
        also = f"; of a config there is {settings}" if settings else ""
        raise ConfigError(f"the strategy has no param {name!r}{hint}\nhelp: {listed}{also}")
    return known[name]


def value(param: Param, given: object, *, below: bool = False) -> Fraction:
    """One value of a param; ConfigError where it does not fit."""
    if param.kind == "bool":
        return Fraction(_bool(param, given))
    if param.choices:
        return Fraction(_choice(param, given))
    exact = number(param, str(given))
    low = param.low
    if below and low is not None:
        low = param.least if param.kind == "int" else min(low, Fraction(1))
    if low is not None and param.high is not None and not low <= exact <= param.high:
        raise ConfigError(
            f"{param.name} = {given} lies outside its range "
            f"{show(param, low)}..{show(param, param.high)}\nhelp: {_way_in(param, exact, low)}"
        )
    if not below:
        _hold_unit(param, str(given), exact)
    if not counts(param, exact):
        of = " of nanoseconds" if param.kind == "duration" else ""
        raise ConfigError(f"{param.name} = {given}: a whole number{of} is needed")
    if param.kind == "int" and param.low is None:
        _hold_lowered(param, exact)
    return exact


def counts(param: Param, number: Fraction) -> bool:
    """Whether the state can hold a number as it is: whole ticks, lots, ints and ns are counted."""
    return not param.whole or (number * DURATION_NS.get(param.unit, 1)).denominator == 1


def _way_in(param: Param, number: Fraction, low: Fraction) -> str:
    """What may have been meant by a value outside of the range: by 0.05 often 5%."""
    meant = number / FRACTION.get(param.unit, Fraction(1))
    if param.unit in FRACTION and param.high is not None and low <= meant <= param.high:
        return f"it counts in {param.unit}; did you mean {param.name}={show(param, meant)}?"
    return "widen the range in the strategy's file, from which memory and warm-up follow"


def _hold_unit(param: Param, text: str, number: Fraction) -> None:
    """A bare number of a param in percent is refused where it may as well be a share: 0.05 is then
    0.05 % or 5 %. From 1 on (in bps from 0.01 on) it is none, for a share is no more than that."""
    unit = param.unit
    if unit not in FRACTION or text.strip().endswith(tuple(FRACTION)) or number == 0:
        return
    share = number / FRACTION[unit]
    fits = param.low is None or param.high is None or param.low <= share <= param.high
    if abs(share) < 100 and fits:
        meant, said = show(param, share), show(param, number)
        raise ConfigError(
            f"{param.name} = {text}: it counts in {unit}; is {meant} meant, or {said}?\n"
            f"help: write {param.name}={meant} or {param.name}={said}"
        )


def _hold_lowered(param: Param, number: Fraction) -> None:
    """An int without a range is at most its default, and no less than what is proven."""
    if param.least <= number <= param.default:
        return
    why = "without a range it can only be lowered below its default "
    if number < param.least and param.held_line:
        why = f"line {param.held_line} is proven for "
        why += f"{param.least}.." if param.least < param.default else ""
    elif number < param.least:
        why = f"without a range it is at least {param.least} and at most its default "
    low, high = min(param.least, number), max(param.default, number)
    raise ConfigError(
        f"{param.name} = {number}: {why}{param.default}; declare one: "
        f"param {param.name} = {param.default} in {low}..{high}"
    )


def _bool(param: Param, given: object) -> int:
    words = {"true": 1, "false": 0, "1": 1, "0": 0}
    text = str(given).lower()
    if text not in words:
        raise ConfigError(f"{param.name} is true or false, not {given}")
    return words[text]


def _choice(param: Param, given: object) -> int:
    """Which choice this is: by its text, or as a number or truth value of Python or TOML."""
    text = str(given).strip('"')
    if text in param.choices:
        return param.choices.index(text)
    meant = _plain(text)
    for place, choice in enumerate(param.choices):
        if _plain(choice) == meant:
            return place
    raise ConfigError(f"{param.name} is one of {', '.join(param.choices)}, not {text}")


def _plain(text: str) -> Fraction | str:
    """A text without what its writer is free in: `10.0` is 10, `True` is true."""
    if text in ("True", "False"):
        return text.lower()
    try:
        return exact(text)
    except ValueError:
        return text


def number(param: Param, text: str) -> Fraction:
    """A decimal, with or without the unit that the declaration has; or in another of its kind."""
    bare = text.strip().replace("_", "")
    if (other := _in_other_unit(param, bare)) is not None:
        return other
    one = next((unit for unit, many in PLURAL.items() if many == param.unit), "")
    for unit in (param.unit, one):
        bare = bare.removesuffix(unit).strip()
    if len(bare) > NUMBER_CHARS:
        raise LimitError(f"{param.name}: this number has more than {NUMBER_CHARS}")
    try:
        return exact(bare)
    except ValueError:
        unit = f" in {param.unit}" if param.unit else ""
        several = ".." in text or "," in text
        raise ConfigError(
            f"{param.name} = {text}: a number{unit} is needed\n"
            f"help: such as its default, {param.name}={show(param, param.default)}"
            f"{'; several are given to a sweep, by --range (in Python ranges=)' if several else ''}"
        ) from None


def _in_other_unit(param: Param, text: str) -> Fraction | None:
    """`60m` of a param in hours; None where it is not in another unit."""
    found = re.fullmatch(r"([-+\d.]+) ?([a-z%]+)", text)
    if found is None or found[2] == param.unit or len(text) > NUMBER_CHARS:
        return None
    try:
        value = converted(exact(found[1]), found[2], param.unit)
    except ValueError:
        return None
    if value is not None and 10 ** value.denominator.bit_length() % value.denominator:
        raise ConfigError(
            f"{param.name} = {text}: that is no decimal number of {param.unit}\n"
            f"help: write the default of {param.name} in {found[2]}"
        )
    return value


def write(memory: Memory, params: list[Param], values: Mapping[str, Fraction]) -> None:
    """Put the values into the state."""
    for param in params:
        memory.set(param.field, param.word(values[param.name]))


def show(param: Param, value: Fraction) -> str:
    """A value as the user writes it."""
    if param.kind == "bool":
        return "true" if value else "false"
    if param.choices:
        return param.choices[int(value)]
    digits = float(value)
    text = str(int(value)) if value.denominator == 1 else repr(digits)
    return f"{text}{'' if param.unit in ('%', 'bps') else ' ' if param.unit else ''}{param.unit}"
