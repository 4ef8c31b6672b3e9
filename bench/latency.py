"""A strategy on a pinned core, for the benches of its latency: what is measured, checked, noted."""

from functools import cache

import numpy as np

from quantdsl.backtest.prepare import prepare
from quantdsl.check import Checked, compile_file
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import load
from quantdsl.codegen.target import native
from quantdsl.events.layout import EVENT
from quantdsl.ir.interp import Interpreter
from quantdsl.live.latency import PROMISES_NS, Bench, Row
from quantdsl.live.machine import read_machine
from quantdsl.live.placement import FEED, Wish, plan
from quantdsl.live.stages import Probe
from quantdsl.shipped import shipped

MEASURED, TESTED = ("skewed_maker", 1_000_000), ("sma_cross", 8_000)
"""Strategy and events of a bench run, and of a test: the promises are of the maker, over whose
book the interpreter takes minutes."""


@cache
def bench(strategy: str, events: int) -> Bench:
    """The shipped strategy before its first event, its orders known."""
    made = opened(compile_file(shipped(f"strategies/{strategy}.qdsl")), events)
    made.whole(0.0)
    return made


def opened(checked: Checked, events: int) -> Bench:
    """A strategy before its first event, on at most `events` of its data."""
    made = Bench(prepare(checked), plan(read_machine(), [Wish("engine", None)], [FEED]), events)
    made.noise()
    return made


def sized(full: bool) -> Bench:
    """At the size of a promise, or of a test."""
    return bench(*(MEASURED if full else TESTED))


def same_bits(made: Bench, probe: Probe, inputs: np.ndarray) -> bool:
    """Whether machine code and interpreter answer alike, and leave one state, after these inputs.

    They begin in the midst of the run.
    """
    left = []
    for executor in (Interpreter(probe.module), load(probe.module, native(), Cache())):
        words = made.middle()
        count = executor.call("probe", words, inputs.reshape(-1), len(inputs), made.curve())
        left.append((count, words.tobytes()))
    return left[0] == left[1]


def backtested(made: Bench, full: bool) -> bytes:
    """The records of a backtest of the same events."""
    strategy, _ = MEASURED if full else TESTED
    prepared = prepare(compile_file(shipped(f"strategies/{strategy}.qdsl")))
    prepared.run.memory.set("curve_on", False)
    prepared.run.feed(made.stream.reshape(-1).view(EVENT))
    return prepared.run.all_records().tobytes()


def noted(benchmark, rows: list[Row]) -> Row:
    """The last row, its figures in the bench's report; in a bench run it keeps its hard promise."""
    row = rows[-1]
    benchmark.extra_info.update(p50_ns=row.percentiles_ns[0], max_ns=row.max_ns, of=row.how)
    assert row.count > 0
    assert np.all(np.diff(row.percentiles_ns) >= 0)
    if benchmark.enabled and row.name in PROMISES_NS:
        assert row.percentiles_ns[0] <= PROMISES_NS[row.name][1]
    return row
