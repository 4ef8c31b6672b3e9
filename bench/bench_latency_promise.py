"""Promise: what a strategy writes as @latency(p99 = ...) above a handler, that handler keeps."""

import pytest

from bench.latency import noted, opened
from quantdsl.check import Checked, check_source, compile_file
from quantdsl.lang.source import Source
from quantdsl.shipped import shipped

SMALL = """\
language 1

strategy Small:
    bars 5m

    @latency(p99 = 50us)
    on bar when close > ta.sma(close, 20):
        target(1 shares)

    on fill:
        close_position()
"""
"""For the runs that only test: LLVM takes half a minute for what is shipped."""
EVENTS, EVENTS_SMALL = 200_000, 8_000


def promising() -> list[str]:
    """The shipped strategies that promise a latency."""
    paths = sorted(shipped("strategies").glob("*.qdsl"))
    return [path.stem for path in paths if "@latency" in path.read_text(encoding="utf-8")]


def small() -> Checked:
    checked, found = check_source(Source(SMALL, "small.qdsl"))
    assert checked is not None, found
    return checked


@pytest.mark.parametrize("name", ["small", *promising()])
def test_handler(benchmark, full, name):
    """The whole turn of the instants on which the handler runs, at its 99th percentile."""
    if not full and name != "small":
        pytest.skip("compiled in a bench run alone")
    checked = small() if name == "small" else compile_file(shipped(f"strategies/{name}.qdsl"))
    made = opened(checked, EVENTS if full else EVENTS_SMALL)
    rows = benchmark.pedantic(made.whole, args=(0.0,), rounds=3 if full else 1)
    told = [row for row in rows if row.p99_at_most_ns]
    promised = [one.promises.p99_ns for one in checked.strategy.handlers if one.promises.p99_ns]
    assert [row.p99_at_most_ns for row in told] == promised
    for row in told:
        noted(benchmark, [row])
        benchmark.extra_info[f"{row.name} p99_ns"] = row.percentiles_ns[2]
        assert not full or row.percentiles_ns[2] <= row.p99_at_most_ns
