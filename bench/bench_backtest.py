"""Promise: 3e7 bars a second with orders, costs and all metrics, however many bars and trades."""

import pytest

from bench.oracle import EXPECTED, Prepared

BARS_PER_SECOND = 3e7
MILLION = 1_000_000
FEWEST, MOST = (10, 202), (2, 3)
"""(fast, slow) means that cross seldom, and that cross at nearly every third bar."""


@pytest.fixture(params=EXPECTED, ids="{:,}_bars".format)
def size(request, full):
    """Small sizes run in every test run; the large ones where the clock is looked at."""
    if not full and request.param > 100_000:
        pytest.skip("a large size, for a bench run")
    return request.param


def test_backtest_oracle(benchmark, size):
    prepared = Prepared(size)
    result = benchmark(prepared.run)
    assert result == EXPECTED[size]
    if benchmark.enabled and size == MILLION:
        assert size / benchmark.stats["median"] >= BARS_PER_SECOND


@pytest.mark.parametrize("size", [MILLION, 10 * MILLION], ids="{:,}_bars".format)
def test_cost_of_a_bar_does_not_grow(benchmark, size, full):
    """Ten times the bars, the same time for each, but for the memory of what is kept."""
    if not full:
        size //= 1_000
    prepared = Prepared(size)
    closed, profit = benchmark(prepared.run)
    assert prepared.run() == (closed, profit)
    benchmark.extra_info["bars"] = size


@pytest.mark.parametrize(("fast", "slow"), [FEWEST, MOST], ids=["few_trades", "many_trades"])
def test_cost_of_a_trade(benchmark, fast, slow, full):
    """Trades cost what they cost; the bars between them do not get slower."""
    prepared = Prepared(MILLION if full else 10_000, fast=fast, slow=slow)
    closed, profit = benchmark(prepared.run)
    share = closed / prepared.bars
    assert share < 0.01 if (fast, slow) == FEWEST else share > 0.1
    assert prepared.run() == (closed, profit)
    benchmark.extra_info.update(bars=prepared.bars, trades=closed)
