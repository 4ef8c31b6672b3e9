"""vectorbt: its own averages and crossings, from_signals, then orders, trades and profit."""

import pandas as pd
import vectorbt as vbt
from serve import Bars, Run, serve

FAST, SLOW = 10, 30


def prepare(bars: Bars) -> Run:
    index = pd.to_datetime(bars["ts"])
    close = pd.Series(bars["close"], index=index)

    def run() -> tuple[int, float]:
        fast, slow = vbt.MA.run(close, FAST), vbt.MA.run(close, SLOW)
        portfolio = vbt.Portfolio.from_signals(
            close,
            fast.ma_crossed_above(slow),
            fast.ma_crossed_below(slow),
            size=1.0,
            fees=0.0,
            init_cash=100_000.0,
            freq="1min",
        )
        # What a report needs: closed trades, profit, drawdown and the ratio of returns.
        trades = portfolio.trades.closed.count()
        portfolio.max_drawdown()
        portfolio.sharpe_ratio()
        return int(trades), float(portfolio.total_profit())

    run()  # numba compiles on the first call, which is not what is measured
    return run


serve(prepare)
