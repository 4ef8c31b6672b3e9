"""Promise: from an event in the ring to its order in the ring 250 ns at the median."""

from bench.latency import backtested, noted, sized


def test_tick_to_order(benchmark, full):
    """The whole turn as it runs live; its records are those of a backtest, byte for byte."""
    made = sized(full)
    rows = benchmark.pedantic(made.whole, args=(0.0,), rounds=3 if full else 1)
    assert made.records.tobytes() == backtested(made, full)
    names = [row.name for row in rows]
    rows = rows[: names.index("tick to order") + 1]
    assert noted(benchmark, rows).count == len(made.ordering)
