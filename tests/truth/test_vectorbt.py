"""vectorbt 1.2.0 on GOOG: rows of its sweep of 10,591 pairs as single runs.

Its rules: all cash buys at the open after a cross above, all is sold at the open after a cross
below, 0.1% a side, fractions of a share. Ours are 1e-8 of a share, and fees and cash are exact
decimals: relative differences of up to 1e-9 are that rounding.

Four pairs hold a bar on which the two averages are exactly equal. Here averages of prices are
exact sums rounded once, so equal averages compare equal and are no cross; in vectorbt the rounding
of its rolling sums decides, and shows the fast one above or below.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from quantdsl.events.layout import Kind
from quantdsl.report import metrics
from quantdsl.report.result import RunResult
from tests.truth.outside import instrument, run

ABOVE, BELOW = 1, -1
TIES = {(2, 4): ABOVE, (6, 117): BELOW, (10, 22): ABOVE, (11, 12): BELOW}
"""Pairs whose fills hang on a tie, and what vectorbt takes the fast average to be there."""
HARMLESS_TIES = [(5, 8), (12, 26)]
BEST = (12, 15)
SAMPLE_EVERY = 560
Ticks = npt.NDArray[np.int64]


def recount(bars: npt.NDArray[np.void], fast: int, slow: int, tie: int) -> tuple[list[int], float]:
    """Bars of the fills and the final value, by exact sums; `tie` is the side of equal averages."""
    close, opens = bars["close"].astype(np.int64), bars["open"] / 100
    sums = np.concatenate([[0], np.cumsum(close)])
    recent = sums[slow:] - sums[slow - fast : len(sums) - fast]
    lead = recent * slow - (sums[slow:] - sums[:-slow]) * fast
    lead[lead == 0] = tie
    rises, falls = (lead[1:] > 0) & (lead[:-1] <= 0), (lead[1:] < 0) & (lead[:-1] >= 0)
    cash, shares, filled = 10_000.0, 0.0, []
    for bar in np.flatnonzero(rises | falls):
        at = int(bar) + slow + 1
        if at == len(close) or (lead[bar + 1] > 0) == (shares > 0):
            continue
        if shares == 0:
            cash, shares = 0.0, cash / (opens[at] * 1.001)
        else:
            cash, shares = shares * opens[at] * 0.999, 0.0
        filled.append(at)
    return filled, cash + shares * float(close[-1]) / 100


def long_sma(shared_data: Path, tmp_path: Path, fast: int, slow: int) -> RunResult:
    return run(
        "long_sma",
        str(shared_data / "bars/backtesting.py/GOOG.csv"),
        tmp_path / "c.toml",
        instrument("goog_fractional"),
        fast=fast,
        slow=slow,
    )


def filled_bars(result: RunResult) -> list[int]:
    opened = result.of_kind(Kind.FILL)["ts_recv"]
    return np.searchsorted(result.bars["ts_recv"], opened).tolist()


def table(shared_data: Path) -> dict[tuple[int, int], dict[str, float]]:
    rows = pq.read_table(shared_data / "expected/vectorbt_goog_sma_sweep.parquet").to_pylist()
    return {(row["fast"], row["slow"]): row for row in rows}


def test_sampled_rows_of_the_sweep(shared_data: Path, tmp_path: Path) -> None:
    theirs = table(shared_data)
    pairs = [pair for pair in theirs if pair not in TIES][::SAMPLE_EVERY]
    for fast, slow in [*pairs, *HARMLESS_TIES, BEST]:
        result = long_sma(shared_data, tmp_path, fast, slow)
        ours, row = metrics.evaluate(result), theirs[fast, slow]
        equity = np.append(10_000.0, result.money(result.curve_equity))
        returns = equity[1:] / equity[:-1] - 1
        found = {
            "orders": ours["fills"],
            "final_value": ours["final_equity"],
            "max_drawdown": ours["max_drawdown"],
            "total_fees": ours["fees"],
            "sharpe_per_bar": float(np.mean(returns) / np.std(returns, ddof=1)),
        }
        wanted = {name: pytest.approx(row[name], rel=1e-9, abs=1e-10) for name in found}
        assert found == wanted, row


@pytest.mark.parametrize("pair", TIES, ids=str)
def test_pairs_of_equal_averages_differ_by_the_tie_alone(
    pair: tuple[int, int], shared_data: Path, tmp_path: Path
) -> None:
    fast, slow = pair
    result, row = long_sma(shared_data, tmp_path, fast, slow), table(shared_data)[pair]
    fills, value = recount(result.bars, fast, slow, 0)
    assert filled_bars(result) == fills
    assert metrics.evaluate(result)["final_equity"] == pytest.approx(value, rel=1e-9)
    fills, value = recount(result.bars, fast, slow, TIES[pair])
    assert (len(fills), value) == (row["orders"], pytest.approx(row["final_value"], rel=1e-12))


def test_every_other_row_follows_from_exact_averages(shared_data: Path, tmp_path: Path) -> None:
    """All 10,591 rows: the ties above are the only ones that an exact count cannot explain."""
    bars = long_sma(shared_data, tmp_path, *BEST).bars
    differing = []
    for (fast, slow), row in table(shared_data).items():
        fills, value = recount(bars, fast, slow, 0)
        if len(fills) != row["orders"] or abs(value / row["final_value"] - 1) > 1e-9:
            differing.append((fast, slow))
    assert differing == list(TIES)
