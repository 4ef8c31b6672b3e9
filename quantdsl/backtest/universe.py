"""Which instruments a strategy's universe has in a run, and what the files say of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from quantdsl.check import Checked
from quantdsl.check.universe import GROUPS
from quantdsl.config import UniverseConfig
from quantdsl.data import universe as files
from quantdsl.data.many import named
from quantdsl.data.tick_data import RunData
from quantdsl.data.universe import Change
from quantdsl.errors import ConfigError
from quantdsl.events.layout import Trait
from quantdsl.report.words import plural

BUILT_IN = tuple(f"SYN{n + 1}" for n in range(16))
BUILT_IN_SECTORS = 4


class Members(msgspec.Struct, frozen=True):
    """The instruments of a run in declared order; `sources` holds the data of each."""

    symbols: tuple[str, ...]
    sources: tuple[Any, ...]
    notes: tuple[str, ...] = ()


def members(checked: Checked, config: UniverseConfig, path: str, table: Any) -> Members:
    """The instruments of the strategy's universe; DataError where bars of some are missing."""
    universe = checked.strategy.universe
    assert universe is not None
    source = table if table is not None else path or None
    if source is None:
        return Members(universe.symbols or BUILT_IN, (None,) * len(universe.symbols or BUILT_IN))
    if isinstance(source, str) and "," in source and not Path(source).exists():
        raise ConfigError("the data of a universe are one folder or one table, not several files")
    listed, where = _listed(checked, config)
    symbols, chosen = found_in(source, listed, where, ticks=bool(checked.strategy.ticks))
    notes = []
    if not universe.point_in_time:
        unread = "; universe.members is not read, as the strategy does not say point_in_time = true"
        notes.append(
            f"the universe is {plural(len(symbols), 'instrument')} as listed today: who failed "
            "before is not among them, so past results look better than they were"
            + (unread if config.members else "")
        )
    own = universe.name.rpartition(":")[2].upper()
    if not listed and len(symbols) > 1 and own in (one.upper() for one in symbols):
        notes.append(
            f'"{universe.name}" is the name of a universe here, whose instruments are all '
            f"{len(symbols):,} of the data: for {own} alone write instrument \"{universe.name}\""
        )
    return Members(symbols, chosen, tuple(notes))


def found_in(
    source: Any, listed: Sequence[str], where: str, *, ticks: bool
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The symbols that `where` lists, else all of a file, folder or table, with the data of each;
    DataError names those that it lacks."""
    have = files.tick_sources(source, listed) if ticks else files.sources(source)
    symbols = listed or sorted(have)
    shown = str(source) if isinstance(source, str | Path) else "the table given"
    files.lacking(symbols, have, where, shown)
    return tuple(symbols), tuple(have[one.rpartition(":")[2].upper()] for one in symbols)


def awaited(symbols: Sequence[str]) -> Members:
    """Instruments whose bars come later."""
    return Members(tuple(symbols), (None,) * len(symbols))


def listed_by(checked: Checked, config: UniverseConfig) -> list[str]:
    """The symbols that the strategy or a file lists; none: all that the data or a feed have."""
    return _listed(checked, config)[0]


def _listed(checked: Checked, config: UniverseConfig) -> tuple[list[str], str]:
    """The symbols that the strategy or a file lists, and who does; none: all of the data."""
    universe = checked.strategy.universe
    assert universe is not None
    if universe.symbols:
        return list(universe.symbols), "the strategy"
    if universe.name.endswith((".csv", ".txt", ".tsv")):
        return files.symbols_in(universe.name), universe.name
    for path in (config.symbols, config.members if universe.point_in_time else ""):
        if path:
            return files.symbols_in(path), path
    return [], "the data"


def changes(
    checked: Checked, config: UniverseConfig, symbols: Sequence[str]
) -> tuple[Change, ...]:
    """What the files say of the instruments; ConfigError names those that are missing."""
    universe = checked.strategy.universe
    assert universe is not None
    index = {symbol.rpartition(":")[2].upper(): n for n, symbol in enumerate(symbols)}
    traits = universe.traits
    if tuple(symbols) == BUILT_IN:
        return _built_in(len(symbols), traits)
    wanted = [name for name, which in GROUPS.items() if which in traits]
    line = checked.source.position
    missing = []
    for path, key, which, names in (
        (config.members, "members", Trait.MEMBER, "symbol, entry, exit"),
        (config.eligible, "eligible", Trait.ELIGIBLE, "symbol, entry, exit"),
    ):
        if which in traits and not path:
            at = line(traits[which][1][0]).line
            missing.append((f"point_in_time, line {at}" if which is Trait.MEMBER else
                            f"eligible, line {at}", key, names))
    if wanted and not config.groups:
        at = min(line(traits[GROUPS[name]][1][0]).line for name in wanted)
        names = ", ".join(("symbol", *wanted))
        missing.append((f"{' and '.join(wanted)}, line {at}", "groups", names))
    files.required(missing)
    found: list[Change] = []
    if Trait.MEMBER in traits:
        found += files.spans(config.members, Trait.MEMBER, index)
    if Trait.ELIGIBLE in traits:
        found += files.spans(config.eligible, Trait.ELIGIBLE, index)
    if wanted:
        found += files.groups(config.groups, wanted, index)
    return tuple(found)


def ungrouped_notes(checked: Checked, data: RunData) -> Iterator[str]:
    """One note for each kind of group that some instruments are never in."""
    universe = checked.strategy.universe
    traits = universe.traits if universe is not None else {}
    for name, which in GROUPS.items():
        changes = (one for one in data.spec.changes if one.trait is which)
        told = {one.instrument for one in changes if one.value >= 0}
        lacking = [one.name for n, one in enumerate(data.instruments) if n not in told]
        if which in traits and lacking:
            yield f"no file tells the {name} of {named(lacking)}: missing in what is done by {name}"


def unadjusted_notes(checked: Checked, data: RunData) -> Iterator[str]:
    """A note where adjusted prices are asked for, and no file tells what to adjust by."""
    adjust = checked.strategy.adjust
    files = any(one.source is not None for one in data.spec.instruments)
    if adjust is not None and files and not data.spec.actions:
        yield f"adjust = {adjust[0]}, and data.actions names no file of splits: adj.close is close"


def _built_in(count: int, traits: Any) -> tuple[Change, ...]:
    """The built-in market's: all are members, in four sectors by turns."""
    found = []
    for which in traits:
        for n in range(count):
            value = n % BUILT_IN_SECTORS if which in GROUPS.values() else 1
            found.append(Change(files.ALWAYS, n, which, value))
    return tuple(found)
