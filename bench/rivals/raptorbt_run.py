"""raptorbt: averages by its own function, signals by numpy, the run with all 48 metrics."""

import numpy as np
import raptorbt
from serve import Bars, Run, serve

FAST, SLOW = 10, 30
CAPITAL = 1e9
"""So large that one unit stays the same share of equity: it sizes by shares of equity only."""


def prepare(bars: Bars) -> Run:
    config = raptorbt.BacktestConfig(
        initial_capital=CAPITAL, fees=0.0, slippage=0.0, fill_timing="next_bar_open"
    )
    sizes = bars["close"] / CAPITAL

    def run() -> tuple[int, float]:
        above = raptorbt.sma(bars["close"], FAST) > raptorbt.sma(bars["close"], SLOW)
        before = np.roll(above, 1)
        before[:SLOW] = above[:SLOW] = above[SLOW - 1]
        result = raptorbt.run_single_backtest(
            bars["ts"], bars["open"], bars["high"], bars["low"], bars["close"], bars["volume"],
            above & ~before, ~above & before, direction=1, weight=1.0, symbol="X", config=config,
            position_sizes=sizes,
        )  # fmt: skip
        metrics = result.metrics
        return metrics.total_closed_trades, metrics.end_value - metrics.start_value

    return run


serve(prepare)
