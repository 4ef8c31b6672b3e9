"""TradingView's strategy tester: every trade of six exports, each by a strategy file.

Its rules, as the strategies express them: a signal of one bar fills at the open of the next; an
order to the other side closes and reverses at one price; a stop is met within the bar, whose path
goes to the nearer extreme first (path = nearest); percent-of-equity orders are sized at the close
of the signal's bar; slippage is in ticks and worsens every market order; the trade still open is
listed at the last close. No trade of these exports needs a bar from before its file.

What differs is asserted row by row: two rows of the futures hang on averages that are exactly
equal, and one exit is stamped with the minute of the export instead of its bar.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from quantdsl.report.result import RunResult
from tests.truth.outside import Column, instrument, run, trades
from tests.truth.tradingview import SHOWN, exported

EURUSD = "eurusd_60m_ohlcv"


class Export(NamedTuple):
    """One export: the bars it was made on, how many trades it lists, and its money rules."""

    bars: str
    count: int
    settings: str = ""
    point_value: float = 1.0
    fee: float = 0.0


EXPORTS = {
    "macd": Export(EURUSD, 1808),
    "supertrend": Export(EURUSD, 602, instrument("eurusd")),
    "channelbreakout": Export(EURUSD, 2946),
    "slippage_basic": Export(EURUSD, 2, fee=0.001),
    "slippage_direction": Export("slippage_direction_ohlcv", 2304, fee=0.001),
    "futures_pnl": Export("futures_pnl_ohlcv", 294, instrument("qm"), point_value=500.0),
}
OPEN_OF_LAST_BAR_TO_EXPORT_NS = 33 * 60_000_000_000
TIED_BAR, AFTER_TIE = 7528, 280
"""The bar of QM on which the averages are equal, and the index of the trade that it ends."""


def produced(name: str, shared_data: Path, tmp_path: Path) -> tuple[RunResult, dict[str, Column]]:
    """Our run of an export's strategy, and its trades with the running sum of profits."""
    export = EXPORTS[name]
    bars = shared_data / f"expected/tradingview/{export.bars}.csv.gz"
    result = run(f"tv_{name}", str(bars), tmp_path / "c.toml", export.settings)
    mine = trades(result)
    mine["cumulative"] = np.cumsum(mine["profit"])
    return result, mine


def listed(name: str, shared_data: Path) -> dict[str, Column]:
    theirs = exported(shared_data / f"expected/tradingview/{name}_trades.csv.gz")
    assert len(theirs["size"]) == EXPORTS[name].count
    return theirs


def compare(mine: dict[str, Column], theirs: dict[str, Column], export: Export) -> None:
    """Side, size, bars and prices exactly; the profit that follows from them; what is shown."""
    assert len(mine["size"]) == export.count
    for name in ("entry_time", "exit_time"):
        assert np.array_equal(mine[name], theirs[name]), name
    for name in ("size", "entry_price", "exit_price"):
        assert np.max(np.abs(mine[name] - theirs[name])) < 1e-9, name
    assert np.max(np.abs(np.abs(mine["size"]) * mine["entry_price"] - theirs["value"])) < 1e-6
    gain = theirs["size"] * (theirs["exit_price"] - theirs["entry_price"]) * export.point_value
    traded = np.abs(theirs["size"]) * (theirs["exit_price"] + theirs["entry_price"])
    # A fee here is money of six decimals, and that of a reversal is rounded for each half again.
    assert np.max(np.abs(mine["profit"] - (gain - traded * export.fee))) < 2e-6
    # TradingView takes the entry's fee off the run-up and adds it to the drawdown.
    paid = np.abs(theirs["size"]) * theirs["entry_price"] * export.fee
    shown = mine | {"mfe": np.maximum(mine["mfe"] - paid, 0), "mae": mine["mae"] - paid}
    for ours in SHOWN.values():
        units = (shown[ours] - theirs[ours]) / theirs[f"{ours}_digit"]
        # Profits round to what is shown; sums and extremes are one digit off in 28 rows of 7,956.
        assert np.max(np.abs(units)) < (0.500_001 if ours == "profit" else 1), ours


@pytest.mark.parametrize("name", ["macd", "supertrend", "channelbreakout", "slippage_basic"])
def test_every_trade(name: str, shared_data: Path, tmp_path: Path) -> None:
    _, mine = produced(name, shared_data, tmp_path)
    compare(mine, listed(name, shared_data), EXPORTS[name])


def test_every_trade_but_the_minute_of_the_export(shared_data: Path, tmp_path: Path) -> None:
    """The last bar was not over when the list was exported: its exit bears that minute."""
    _, mine = produced("slippage_direction", shared_data, tmp_path)
    theirs = listed("slippage_direction", shared_data)
    assert theirs["exit_time"][-1] == mine["exit_time"][-1] + OPEN_OF_LAST_BAR_TO_EXPORT_NS
    theirs["exit_time"][-1] = mine["exit_time"][-1]
    compare(mine, theirs, EXPORTS["slippage_direction"])


def test_every_trade_but_a_cross_that_is_a_tie(shared_data: Path, tmp_path: Path) -> None:
    """Equal averages are no cross here; TradingView's rounding sees the fast one above already.

    So it reverses at the open after the tie and we one bar later, when the average is above.
    """
    result, mine = produced("futures_pnl", shared_data, tmp_path)
    theirs, bars = listed("futures_pnl", shared_data), result.bars
    lead = [
        int(bars["close"][at - 9 : at + 1].sum() * 3 - bars["close"][at - 29 : at + 1].sum())
        for at in range(TIED_BAR - 1, TIED_BAR + 2)
    ]
    assert np.sign(lead).tolist() == [-1, 0, 1]
    opens = bars["open"] / 40
    # The short bought back later and the long bought later are both cheaper; 12.5 USD a tick.
    shift = 12.5 * float(bars["open"][TIED_BAR + 1] - bars["open"][TIED_BAR + 2])
    assert shift == 537.5
    for column, index in (("exit", AFTER_TIE), ("entry", AFTER_TIE + 1)):
        assert theirs[f"{column}_time"][index] == bars["ts_recv"][TIED_BAR + 1]
        assert theirs[f"{column}_price"][index] == opens[TIED_BAR + 1]
        theirs[f"{column}_time"][index] = bars["ts_recv"][TIED_BAR + 2]
        theirs[f"{column}_price"][index] = opens[TIED_BAR + 2]
        theirs["profit"][index] += shift
        theirs["cumulative"][index:] += shift
    later = AFTER_TIE + 1
    theirs["value"][later] = mine["entry_price"][later]
    # TradingView's long, entered higher, never had a profit.
    assert (theirs["mfe"][later], mine["mfe"][later]) == (0.0, 112.5)
    theirs["mfe"][later], theirs["mae"][later] = 112.5, theirs["mae"][later] + shift
    compare(mine, theirs, EXPORTS["futures_pnl"])
