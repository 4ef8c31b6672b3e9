"""The oracle on which eight engines agree, to the last digit, at both fill times.

Its bars open where the last one closed, so "at the next open" and "at this close" are one price.
The figures are those published with it; every single trade is also held against a count in exact
integers, written here without the product.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from quantdsl.backtest import values
from quantdsl.backtest.prepare import prepare
from quantdsl.backtest.run import run_end
from quantdsl.check import compile_file
from tests.truth.outside import HERE, run, trades

FAST, SLOW = 10, 30
TICKS = 1_000_000
# bars, closed trades, PnL filled at the next open, PnL filled one bar later; in millionths
PUBLISHED = [
    (10_000, 189, -3_427_264, -3_600_072),
    (100_000, 1_890, 9_418_846, 9_754_723),
    (1_000_000, 19_290, 28_599_390, 25_430_001),
]
SWEEP = {"trades": 437_809, "profit": 6_879_331_288, "best": 4_060_961}
"""Of all pairs with a fast length in 2..101 and a slow one in 102..201, on 10,000 bars."""
Ticks = npt.NDArray[np.int64]


def market(n: int, seed: int = 7) -> pa.Table:
    """`n` minutes of the oracle's walk (numpy's generator of seed 7), prices of six decimals."""
    rng = np.random.default_rng(seed)
    close = np.round(100.0 * np.exp(np.cumsum(rng.normal(0.0, 5e-4, n))), 6)
    opens = np.concatenate([[100.0], close[:-1]])
    reach = np.abs(rng.normal(0.0, 2e-4, (2, n)))
    start = np.datetime64("2020-01-01T00:00", "ns").astype(np.int64)
    return pa.table(
        {
            "time": pa.array(start + np.arange(n) * 60_000_000_000, pa.timestamp("ns", "UTC")),
            "open": opens,
            "high": np.round(np.maximum(opens, close) * (1 + reach[0]), 6),
            "low": np.round(np.minimum(opens, close) * (1 - reach[1]), 6),
            "close": close,
            "volume": rng.integers(100, 10_000, n).astype(np.float64),
        }
    )


def counted(table: pa.Table, delay: int) -> tuple[Ticks, Ticks]:
    """Bar and price of every fill in turn, entry first, by exact moving sums."""
    close = np.round(table["close"].to_numpy() * TICKS).astype(np.int64)
    opens = np.round(table["open"].to_numpy() * TICKS).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(close)])
    slow = sums[SLOW:] - sums[:-SLOW]
    fast = sums[SLOW:] - sums[SLOW - FAST : -FAST]
    lead = fast * (SLOW // FAST) - slow
    assert not np.any(lead == 0), "the oracle promises that no averages tie"
    crossed = np.flatnonzero((lead[1:] > 0) != (lead[:-1] > 0)) + SLOW
    first_up = int(np.argmax(lead[crossed - SLOW + 1] > 0))
    bars = crossed[first_up:] + 1 + delay
    bars = bars[bars < len(close)]
    return bars, opens[bars]


@pytest.mark.parametrize("delay", [0, 1], ids=["next_open", "one_bar_later"])
@pytest.mark.parametrize(("n", "closed", "at_once", "later"), PUBLISHED)
def test_every_trade_and_the_profit_to_the_last_digit(
    n: int, closed: int, at_once: int, later: int, delay: int, tmp_path: Any
) -> None:
    table = market(n)
    result = run("oracle_sma", table, tmp_path / "c.toml", f"[fills]\ndelay_bars = {delay}\n")
    assert result.money_digits == 6
    assert int(result.curve_equity[-1]) - 100_000 * TICKS == (later if delay else at_once)
    bars, ticks = counted(table, delay)
    mine = trades(result)
    assert len(mine["profit"]) == closed == len(bars) // 2
    for name, fills in (("entry", slice(0, 2 * closed, 2)), ("exit", slice(1, 2 * closed, 2))):
        assert np.array_equal(mine[f"{name}_bar"], bars[fills])
        assert np.array_equal(np.rint(mine[f"{name}_price"] * TICKS), ticks[fills])
    assert np.array_equal(mine["size"], np.ones(closed))


def test_the_sums_over_a_sweep_of_ten_thousand_pairs() -> None:
    """One program, its memory put back to the start for every pair."""
    checked = compile_file(HERE / "oracle_sma.qdsl")
    prepared = prepare(checked, data=market(10_000))
    run, params = prepared.run, checked.strategy.params
    start = run.memory.words.copy()
    events = np.concatenate(list(prepared.data.chunks()))
    end = run_end(int(events["ts_event"][-1]))
    found = {"trades": 0, "profit": 0, "best": 0}
    for fast in range(2, 102):
        for slow in range(102, 202):
            run.memory.words[:] = start
            values.write(run.memory, params, values.chosen(params, {"fast": fast, "slow": slow}))
            run.feed(events)
            run.feed(end)
            run.records.clear()
            run.rows.clear()
            profit = int(run.memory.get("e.equity")) - 100_000 * TICKS
            found["trades"] += int(run.memory.get("e.metrics.trades"))
            found["profit"] += profit
            found["best"] = max(found["best"], profit)
    assert found == SWEEP
