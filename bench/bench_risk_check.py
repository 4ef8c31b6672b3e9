"""Promise: the risk gate decides in 15 ns at the median; on any strategy in 100."""

from bench.latency import noted, same_bits, sized
from quantdsl.events.layout import Kind
from quantdsl.live.stages import gate_probe


def test_risk_check(benchmark, full):
    """On the ORDER records of a run, in the state of the midst of that run."""
    made = sized(full)
    records = made.inputs(Kind.ORDER)
    assert len(records) > 10
    assert same_bits(made, gate_probe(made.module), records)
    rows = benchmark.pedantic(made.routine, args=(gate_probe, Kind.ORDER), rounds=3 if full else 1)
    assert noted(benchmark, rows).name == "risk gate"
