"""Promise: a fill is in position and cash in 10 ns at the median; on any strategy in 200."""

from bench.latency import noted, same_bits, sized
from quantdsl.events.layout import Kind
from quantdsl.live.stages import hold_probe


def test_position_update(benchmark, full):
    """On the FILL records of a run, in the state of the midst of that run."""
    made = sized(full)
    records = made.inputs(Kind.FILL)
    assert same_bits(made, hold_probe(made.module), records[:20])
    rows = benchmark.pedantic(made.routine, args=(hold_probe, Kind.FILL), rounds=3 if full else 1)
    assert noted(benchmark, rows).name == "position update"
