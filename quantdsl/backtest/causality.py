"""`quantdsl check --causality`: rerun on cut data; nothing before the cut may change.

The compiler proves that no expression reads the future; this is the second, dynamic belt, which
would also show a leak in the data layer, the core or the compiler itself.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.program import Run
from quantdsl.check import compile_file
from quantdsl.errors import DataError

CUTS = 5
"""Where the data are cut: this many places, evenly spread."""


def check(path: Path, data: str | None = None, hosts: Sequence[str] = ()) -> list[str]:
    """What changes when the future is cut away, one line each; empty if nothing does.

    `hosts` are the modules of Python that `@host` may run; one that looks ahead is a ConfigError.
    """
    checked = compile_file(path)
    whole = prepare(checked, data=data, hosts=hosts)
    events = np.concatenate(list(whole.data.chunks()))
    if len(events) < 2 * CUTS:
        raise DataError(f"{whole.data.name}: {len(events)} events are too few to cut")
    whole.run.feed(events)
    names = ("time", "equity", *(plot.name for plot in checked.strategy.plots))
    differences: list[str] = []
    known_at = "ts_recv" if checked.strategy.ticks else "ts_event"
    for number in range(1, CUTS + 1):
        cut = events[known_at][len(events) * number // (CUTS + 1)]
        # The file itself ends here, so that reading and aggregating it are on trial too.
        part = prepare(checked, data=data, hosts=hosts, end=f"{np.datetime64(int(cut), 'ns')}Z")
        known = np.concatenate(list(part.data.chunks()))
        part.run.feed(known[known[known_at] <= cut])
        differences += _compare(whole.run, part.run, names, cut)
    return differences


def _compare(whole: Run, part: Run, names: tuple[str, ...], ts: int) -> list[str]:
    """The curve and the records of the cut run against the beginning of the whole one."""
    found: list[str] = []
    short, long = part.curve(), whole.curve()
    for column, name in enumerate(names):
        changed = np.flatnonzero(short[:, column] != long[: len(short), column])
        if len(changed):
            when = np.datetime64(int(short[changed[0], 0]), "ns")
            found.append(f"{name} at {when}, with the data cut at {np.datetime64(int(ts), 'ns')}")
    few, many = part.all_records(), whole.all_records()
    if few.tobytes() != many[: len(few)].tobytes():
        found.append(f"an order or fill, with the data cut at {np.datetime64(int(ts), 'ns')}")
    return found
