"""Promise: 1,000 lines are lexed and parsed, lossless, in at most 50 ms; formatted in 250 ms."""

import pytest

from quantdsl.lang.format import format_source
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source
from tests.lang.programs import write_program

BODY = """
fn clamp_{i}(x: float, low: float, high: float) -> float:
    "The number of [low, high] that is nearest to x."
    let inside = x if x > low else low  # na is left alone
    return inside if inside < high else high

strategy Cross{i}:
    bars 5m
    session "XNYS", flat_by = 15:55
    param fast   = 10  in 5..50    step 5
    param slow   = 40  in 20..200  step 10
    param stop_k = 2.5 in 1.0..5.0 step 0.5
    require fast < slow
    let f   = ta.sma(close, fast)
    let s   = ta.sma(close, slow)
    let atr = ta.atr(14)
    on bar:
        if flat and f crosses above s:
            let stop_dist = stop_k * atr
            buy(floor_qty(0.5% of equity / stop_dist), stop_loss = close - stop_dist)
        elif long and f crosses below s:
            close_position()
    risk:
        max_daily_loss = 2% of equity -> flatten, halt
"""
LINES = 1_000


@pytest.fixture(scope="module")
def text() -> str:
    rows = "".join(BODY.format(i=i) for i in range(LINES)).splitlines()[:LINES]
    return "language 1\n" + "\n".join(rows[:-1]) + "\n"


def test_parse_1000_lines(benchmark, text):
    source = Source(text, std=True)
    parsed = benchmark(parse, source)
    assert parsed.ok
    assert parsed.tokens.text() == text
    if benchmark.enabled:
        assert benchmark.stats["median"] <= 0.050


def test_format_1000_lines(benchmark, text):
    formatted = benchmark(format_source, text[:60_000])
    assert format_source(formatted) == formatted
    if benchmark.enabled:
        assert benchmark.stats["median"] <= 0.250


def test_parse_random_programs(benchmark):
    """Dense code, as nobody writes it: every line is one long expression."""
    sources = [Source(write_program(seed)) for seed in range(100)]
    results = benchmark(lambda: [parse(source) for source in sources])
    assert all(parsed.ok for parsed in results)
