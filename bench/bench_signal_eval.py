"""Promise: equations and handlers take 150 ns at the median; on any strategy 1,000."""

from bench.latency import noted, same_bits, sized
from quantdsl.live.stages import STAGES, stage_probes


def test_signal_eval(benchmark, full):
    """The difference of the step with and without them, on recorded events."""
    made = sized(full)
    probe = stage_probes(made.module)[STAGES.index("handlers")]
    assert same_bits(made, probe, made.stream[:300])
    rows = benchmark.pedantic(made.stages, rounds=3 if full else 1)
    names = [row.name for row in rows]
    assert names[: len(STAGES)] == list(STAGES)
    noted(benchmark, rows[: names.index("signal evaluation") + 1])
