"""A session beside a backtest of the same strategy, settings and assumptions on recorded data."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from quantdsl.backtest.prepare import Arranged, data_spec, make_ready
from quantdsl.backtest.universe import Members, found_in
from quantdsl.check import Checked, compile_file
from quantdsl.data.instrument import Instrument, instrument_of
from quantdsl.data.signals import answered
from quantdsl.data.spec import DataSpec
from quantdsl.data.tick_data import open_run_data
from quantdsl.data.times import show_instant
from quantdsl.errors import ConfigError
from quantdsl.events.layout import EVENT, RECORD, Kind
from quantdsl.journal.difference import Assumed, Compared, Ran, compare
from quantdsl.journal.matching import Rows, clock_shift_ns, had, of_market
from quantdsl.journal.reader import segments
from quantdsl.live import manifest as manifests
from quantdsl.live.manifest import Manifest, StrategyPart


class Beside(NamedTuple):
    """A session beside its recording."""

    compared: Compared
    clock_shift_ns: int
    """What the session's clock is ahead of the recorder's."""
    ticks: tuple[float, ...]
    """The price step of each instrument."""
    symbols: tuple[str, ...]
    """The instruments."""


def against_data(folder: Path, name: str, path: Path | str) -> Beside:
    """The orders and fills of a strategy of the session in `folder`, and those on the data `path`.

    The times of recorded ticks are moved to the session's clock: each listener to a venue has its
    own, and a recording may be played again years later. JournalError, ConfigError and DataError
    where the one or the other cannot be used.
    """
    manifest = manifests.read(folder)
    part = manifest.part(name)
    session = _journalled(folder, manifest, part)
    checked = compile_file(folder / part.name / manifests.SOURCE / part.file)
    symbols = [manifest.instruments[place].symbol for place in part.places]
    spec = _spec(checked, part, str(path), symbols)
    ahead_ns = 0
    if spec.ticks:
        told = np.concatenate([np.empty(0, EVENT), *open_run_data(spec).chunks()])
        ahead_ns = clock_shift_ns(session.events, told)
    spec = msgspec.structs.replace(spec, clock_shift_ns=ahead_ns)
    opened = open_run_data(spec)
    key, awaited = "ts_recv" if spec.ticks else "ts_event", spec.awaited

    def again(events: Rows) -> Ran:
        """The strategy on a stream, trading from when the session did."""
        if awaited is not None and not (events["kind"] == Kind.SIGNAL).any():
            events = np.concatenate(list(answered(iter([events]), awaited, key)))
        arranged = Arranged(part.settings, opened, part.params, (), frozenset(manifest.uses))
        run = make_ready(checked, arranged, part.trade_from).run
        run.memory.set("curve_on", False)
        run.feed(events)
        return Ran(events, run.all_records())

    recorded = again(np.concatenate([np.empty(0, EVENT), *opened.chunks()]))
    entry_ns = round(part.settings.config.venue.latency_entry_us * 1_000)
    assumed = Assumed(entry_ns, checked.library.reasons(), symbols)
    found = compare(session, recorded, again, assumed)
    if not found.shared:
        raise ConfigError(
            f"{path}: tells of no event of the market that {name} was told of: the session goes "
            f"{_span(session.events)}, the data {_span(recorded.events)}\n"
            "help: name data of the same market and time, as quantdsl record writes them beside a "
            "session"
        )
    ticks = tuple(float(one.tick) for one in opened.instruments)
    return Beside(found, ahead_ns, ticks, tuple(symbols))


def _journalled(folder: Path, manifest: Manifest, part: StrategyPart) -> Ran:
    read = list(segments(folder / part.name, digest=manifest.digest))
    events = np.concatenate([np.empty(0, EVENT), *(one.inputs() for one in read)])
    records = np.concatenate([np.empty(0, RECORD), *(one.outputs() for one in read)])
    if not of_market(events).any():
        raise ConfigError(f"{folder}: nothing has happened yet in {part.name}: nothing to compare")
    return Ran(events, records)


def _spec(checked: Checked, part: StrategyPart, path: str, symbols: Sequence[str]) -> DataSpec:
    """The recorded data of these instruments in place of the session's feeds."""
    settings = part.settings
    data = msgspec.structs.replace(settings.config.data, path=path)
    settings = msgspec.structs.replace(
        settings, config=msgspec.structs.replace(settings.config, data=data)
    )
    known: list[Instrument | None] = [
        instrument_of(dict(one), manifests.FILE) for one in part.terms
    ]
    if checked.strategy.universe is None:
        return data_spec(checked, settings, known)
    found = found_in(path, symbols, "the session", ticks=bool(checked.strategy.ticks))
    return data_spec(checked, settings, known, Members(*found), part.changes)


def _span(events: Rows) -> str:
    times = had(events[of_market(events)])
    if not len(times):
        return "without one"
    return f"from {show_instant(int(times.min()))} to {show_instant(int(times.max()))}"
