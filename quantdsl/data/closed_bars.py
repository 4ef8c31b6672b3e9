"""The bars of a file as a live session takes them: events, each with its begin and its close."""

from collections.abc import Iterator, Sequence

import numpy as np

from quantdsl.data.aggregate import place
from quantdsl.data.events import Data
from quantdsl.data.instrument import Instrument
from quantdsl.data.spec import SourceSpec
from quantdsl.data.ticks import Events
from quantdsl.events.layout import BAR, EVENT, Kind


def sources(
    paths: str, symbols: Sequence[str], known: Sequence[Instrument | None]
) -> tuple[SourceSpec, ...]:
    """Where each symbol's data are: in a file each, a comma between them, or in one of them all.

    `known` says of each symbol what is known of its instrument; None is inferred from the data.
    """
    parts, alone = paths.split(","), len(symbols) == 1
    of_each = parts if len(parts) == len(symbols) else [parts[0]] * len(symbols)
    return tuple(
        SourceSpec(symbol="" if alone else symbol, source=source, instrument=one)
        for symbol, source, one in zip(symbols, of_each, known, strict=True)
    )


def closed_bars(data: Data, index: int, instrument: int) -> Iterator[Events]:
    """BAR events of one of the data's instruments, oldest first, in its ticks and lots.

    `ts_recv` is when a bar began, `ts_event` when it closed, `instrument` the number to give them.
    """
    own = data.feeds[index]
    for rows in own.rows():
        start, end, _, inside = place(rows.ts, data.placing[index])
        bars = np.zeros(rows.size, BAR)
        bars["ts_recv"], bars["ts_event"] = start, end
        bars["instrument"], bars["kind"] = instrument, Kind.BAR
        numbers = own.whole_numbers(rows)
        for name, column in zip(("open", "high", "low", "close", "volume"), numbers, strict=True):
            bars[name] = column
        yield bars[inside].view(EVENT)
