"""`quantdsl check --causality`: rerun on cut data; nothing before the cut may change.

The compiler proves that no expression reads the future; this is the second, dynamic belt, which
would also show a leak in the data layer, the core or the compiler itself.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.program import Run
from quantdsl.check import compile_file
from quantdsl.errors import DataError
from quantdsl.events.layout import MORE

CUTS = 5
"""Where the data are cut: this many places, evenly spread."""


def check(path: Path, data: str | None = None) -> list[str]:
    """What changes when the future is cut away, one line each; empty if nothing does."""
    checked = compile_file(path)
    whole = prepare(checked, data=data)
    events = np.concatenate(list(whole.data.chunks()))
    if len(events) < 2 * CUTS:
        raise DataError(f"{whole.data.name}: {len(events)} events are too few to cut")
    whole.run.feed(events)
    differences: list[str] = []
    for number in range(1, CUTS + 1):
        part = prepare(checked, data=data)
        at = _whole_instants(events, len(events) * number // (CUTS + 1))
        part.run.feed(events[:at])
        names = ("time", "equity", *(plot.name for plot in checked.strategy.plots))
        differences += _compare(whole.run, part.run, names, events[at - 1]["ts_event"])
    return differences


def _whole_instants(events: npt.NDArray[np.void], at: int) -> int:
    """The nearest place at or before `at` where an instant is complete."""
    while at > 1 and events["flags"][at - 1] & MORE:
        at -= 1
    return at


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
