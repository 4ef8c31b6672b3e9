"""Promise: from the return of a handler to the record of its order 40 ns at the median."""

from bench.latency import noted, sized
from quantdsl.codegen.stamped import ORDER, RETURN


def test_order_submit(benchmark, full):
    """The difference of two ends of the turn as it runs live; neither changes a record."""
    made = sized(full)
    assert len(made.sending) > 10
    for until in (RETURN, ORDER):
        assert made.through(until, 0)[2].tobytes() == made.records.tobytes()
    rows = benchmark.pedantic(made.submission, rounds=3 if full else 1)
    assert noted(benchmark, rows).count == len(made.sending)
