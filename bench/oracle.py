"""The run that the benches of the backtest share: the oracle's rule over the oracle's bars.

What is timed starts when the bars lie in memory as events and ends when records, curve and every
accumulated metric are there: orders, the risk gate, fills, costs and accounts all included.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.run import run_end
from quantdsl.check import compile_file
from tests.truth.test_oracle import PUBLISHED, market

ORACLE = Path(__file__).resolve().parent.parent / "tests" / "truth" / "oracle_sma.qdsl"
CASH = 100_000_000_000
"""The strategy's cash in millionths, the unit of its money."""
EXPECTED = {bars: (closed, profit) for bars, closed, profit, _ in PUBLISHED}
"""Bars -> closed trades, profit in millionths."""


class Prepared:
    """The oracle's strategy over its bars, ready to run again and again."""

    def __init__(self, bars: int, **params: int) -> None:
        prepared = prepare(compile_file(ORACLE), data=market(bars), params=params)
        self.bars, self.prepared = bars, prepared
        self.engine = prepared.run
        self.events: list[npt.NDArray[np.void]] = list(prepared.data.chunks())
        self.events.append(run_end(int(self.events[-1]["ts_event"][-1])))
        self.fresh = self.engine.memory.words.copy()
        outbox = self.engine.memory.slot("e.outbox")
        # What lies in the outbox is never read before it is written anew.
        self.kept = (slice(0, outbox.offset_words), slice(outbox.offset_words + outbox.words, None))

    def run(self) -> tuple[int, int]:
        """One backtest from the first bar to the last: closed trades, profit in millionths."""
        engine = self.engine
        for part in self.kept:
            engine.memory.words[part] = self.fresh[part]
        engine.records.clear()
        engine.rows.clear()
        for events in self.events:
            engine.feed(events)
        closed = int(engine.memory.get("e.metrics.trades"))
        return closed, int(engine.curve()[-1, 1]) - CASH
