"""`quantdsl backtest --trace FROM..TO`: what a strategy saw and did, bar by bar.

The strategy is compiled once more, with a record for every branch, and run over all of the data;
what lies between FROM and TO is printed: equations, branches, orders, fills, with source lines.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.run import carry, reasons
from quantdsl.check import check_source
from quantdsl.check.step import CURVE_WORDS
from quantdsl.data.times import parse_instant
from quantdsl.errors import ConfigError
from quantdsl.events.layout import Kind
from quantdsl.lang.source import Source

TAG_SHIFT = 32


def trace(path: Path, window: str, **options: Any) -> Iterator[str]:
    """The lines of the trace; `window` is FROM..TO, ISO dates or times, TO included."""
    first, dots, last = window.partition("..")
    if not dots:
        raise ConfigError(
            f"--trace {window}: write FROM..TO, such as 2024-01-02T15:00..2024-01-02T16:00"
        )
    begin, end = parse_instant(first), parse_instant(last)
    source = Source.read(path)
    checked, _ = check_source(source, trace=True)
    assert checked is not None  # the run before this one has compiled it
    prepared = prepare(checked, **options)
    carry(prepared.run, prepared.data)
    records, curve = prepared.run.all_records(), prepared.run.curve()
    names = [plot.name for plot in checked.strategy.plots]
    by_ts: dict[int, list[np.void]] = {}
    for record in records[(records["ts_event"] >= begin) & (records["ts_event"] <= end)]:
        by_ts.setdefault(int(record["ts_event"]), []).append(record)
    rows = curve[(curve[:, 0] >= begin) & (curve[:, 0] <= end)]
    seen = {int(row[0]): row for row in rows}
    scale = 10.0**prepared.data.money_digits
    words = reasons(checked)
    for ts in sorted({*by_ts, *seen}):
        yield f"{np.datetime64(ts, 'ns').astype('datetime64[s]')}"
        if ts in seen:
            yield _values(names, seen[ts], scale)
        for record in by_ts.get(ts, ()):
            yield "  " + _line(record, words, source)


def _values(names: list[str], row: Any, scale: float) -> str:
    numbers = row[CURVE_WORDS:].copy().view(np.float64)
    parts = [f"{name} = {number:.10g}" for name, number in zip(names, numbers, strict=True)]
    return "  " + ", ".join([*parts, f"equity = {row[1] / scale:.2f}"])


def _line(record: Any, words: dict[int, str], source: Source) -> str:
    kind, a, b, c, d, e = (int(record[name]) for name in ("kind", "a", "b", "c", "d", "e"))
    if kind == Kind.BRANCH:
        text = source.line_text(a).strip()
        return f"line {a}: {'yes' if b else 'no '}  {text}"
    reason = words.get(int(record["flags"]), "")
    if kind == Kind.ORDER:
        return f"order {a}: {b:+d} lots, line {e & ((1 << TAG_SHIFT) - 1)}"
    if kind == Kind.FILL:
        return f"fill of order {a}: {b:+d} lots at {c} ticks, position now {e} lots"
    if kind == Kind.REJECT:
        return f"order {a} refused ({reason}), line {d}"
    if kind == Kind.CANCEL:
        return f"order {a} ended with {b:+d} lots unfilled ({reason})"
    return f"{Kind(kind).name.lower().replace('_', ' ')}: {a} {b} {c} {d} {e}"
