"""Small and large universes for tests, and what a run knows of each instrument at each instant."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quantdsl.backtest import values
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.program import Run
from quantdsl.check import Checked, check_source
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.events.layout import MORE, Kind
from quantdsl.ir.interp import Interpreter
from quantdsl.lang.source import Source

FIRST = dt.date(2020, 1, 1)


def compiled(text: str) -> Checked:
    """The strategy of a text; AssertionError with its diagnostics where there are errors."""
    checked, diagnostics = check_source(Source(text, "universe.qdsl"))
    assert checked is not None, diagnostics
    return checked


def table(closes: dict[str, list[float | None]]) -> pa.Table:
    """A long table of daily bars: None is a day without a bar."""
    rows = [
        (symbol, FIRST + dt.timedelta(days=day), close)
        for symbol, column in closes.items()
        for day, close in enumerate(column)
        if close is not None
    ]
    symbols, days, prices = zip(*rows, strict=True)
    return pa.table(
        {
            "date": pa.array([str(day) for day in days]),
            "symbol": pa.array(symbols),
            "open": pa.array(prices),
            "high": pa.array([price * 1.01 for price in prices]),
            "low": pa.array([price * 0.99 for price in prices]),
            "close": pa.array(prices),
            "volume": pa.array([1_000.0] * len(prices)),
        }
    )


def walks(count: int, days: int, seed: int = 1) -> dict[str, list[float | None]]:
    """Random walks, some with gaps, late listings and early ends."""
    random = np.random.default_rng(seed)
    found: dict[str, list[float | None]] = {}
    for number in range(count):
        steps = random.normal(0.0, 0.02, days)
        closes: list[float | None] = (50.0 * np.exp(np.cumsum(steps))).round(2).tolist()
        for day in random.integers(0, days, days // 10 if number % 3 == 0 else 0).tolist():
            closes[day] = None
        if number % 5 == 1:
            closes[: days // 4] = [None] * (days // 4)
        if number % 5 == 2:
            closes[-days // 4 :] = [None] * len(closes[-days // 4 :])
        found[f"A{number:03}"] = closes
    return found


class Panels:
    """A run of a strategy on a universe that can be looked into after each instant."""

    def __init__(self, text: str, *, interpreted: bool = False, **options: Any) -> None:
        arranged = arrange(compiled(text), **options)
        self.checked = arranged.sized(compiled(text))
        self.data = arranged.data
        self.symbols = [one.symbol for one in self.data.instruments]
        module = self.checked.module(arranged.uses)
        executor = Interpreter(module) if interpreted else load(module, native(), Cache())
        self.run = Run(self.checked, module, executor)
        arranged.fill(self.run.memory)
        chosen = values.chosen(self.checked.strategy.params, arranged.given)
        values.write(self.run.memory, self.checked.strategy.params, chosen)
        self.run.memory.set("trade_from", np.iinfo(np.int64).min)
        self.run.memory.set("curve_on", True)
        self.run.start()

    def instants(self) -> Iterator[npt.NDArray[np.void]]:
        """Runs one instant after the other; gives the events of each, once it is over."""
        for events in self.data.chunks():
            ends = np.flatnonzero((events["flags"] & MORE) == 0) + 1
            for first, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
                self.run.feed(events[first:end])
                yield events[first:end]

    def bars(self) -> Iterator[npt.NDArray[np.void]]:
        """As `instants`, of those alone at which a bar closes."""
        for events in self.instants():
            if np.any(events["kind"] == Kind.BAR):
                yield events[events["kind"] == Kind.BAR]

    def panel(self, name: str) -> npt.NDArray[np.float64]:
        """What an equation is for each instrument now; of a bool 0 or 1."""
        value = self.checked.strategy.scope.names[name].get()
        path = f"panel[0].{value.ir.name}"
        memory = self.run.memory
        first = memory.slot(path)
        stride = memory.slot("panel[1].ticked").offset_words
        stride -= memory.slot("panel[0].ticked").offset_words
        words = memory.words[first.offset_words :: stride][: len(self.symbols)]
        if first.type == "f64":
            return np.ascontiguousarray(words).view(np.float64).copy()
        return words.astype(np.float64)

    def single(self, name: str) -> float:
        """What an equation of the whole universe is now."""
        return float(self.run.memory.get(self.checked.strategy.scope.names[name].get().ir.name))


def write(folder: Path, name: str, header: str, rows: list[str]) -> str:
    """A small table on disk."""
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)
