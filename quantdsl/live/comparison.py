"""A session beside a backtest of the same strategy, settings and assumptions on recorded data."""

from pathlib import Path

import msgspec
import numpy as np

from quantdsl.backtest.prepare import Arranged, data_spec, make_ready
from quantdsl.check import compile_file
from quantdsl.data.instrument import Instrument, instrument_of
from quantdsl.data.tick_data import open_run_data
from quantdsl.errors import ConfigError
from quantdsl.events.layout import EVENT, RECORD
from quantdsl.journal.difference import Compared, Ran, compare
from quantdsl.journal.reader import segments
from quantdsl.live import manifest as manifests


def against_data(folder: Path, name: str, path: Path) -> Compared:
    """The orders and fills of a strategy of the session in `folder`, and those on the data `path`.

    JournalError, ConfigError and DataError where the one or the other cannot be used.
    """
    manifest = manifests.read(folder)
    part = manifest.part(name)
    read = list(segments(folder / part.name, digest=manifest.digest))
    events = np.concatenate([np.empty(0, EVENT), *(one.inputs() for one in read)])
    records = np.concatenate([np.empty(0, RECORD), *(one.outputs() for one in read)])
    if not len(events):
        raise ConfigError(f"{folder}: nothing has happened yet in {name}: nothing to compare")
    settings = part.settings
    data = msgspec.structs.replace(settings.config.data, path=str(path))
    settings = msgspec.structs.replace(
        settings, config=msgspec.structs.replace(settings.config, data=data)
    )
    checked = compile_file(folder / part.name / manifests.SOURCE / part.file)
    known: list[Instrument | None] = [
        instrument_of(dict(one), manifests.FILE) for one in part.terms
    ]
    opened = open_run_data(data_spec(checked, settings, known))
    arranged = Arranged(settings, opened, part.params, (), frozenset(manifest.uses))
    run = make_ready(checked, arranged, part.trade_from).run
    run.memory.set("curve_on", False)
    told = []
    for chunk in opened.chunks():
        told.append(chunk)
        run.feed(chunk)
    return compare(Ran(events, records), Ran(np.concatenate(told), run.all_records()))
