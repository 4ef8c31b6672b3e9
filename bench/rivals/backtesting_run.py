"""backtesting.py: a Strategy with two indicators, one unit an order, the full statistics."""

import warnings

import pandas as pd
from backtesting import Backtest, Strategy
from backtesting.lib import crossover
from serve import Bars, Run, serve

FAST, SLOW = 10, 30


def average(values: pd.Series, length: int) -> pd.Series:
    return pd.Series(values).rolling(length).mean()


class Cross(Strategy):
    def init(self) -> None:
        self.fast = self.I(average, self.data.Close, FAST)
        self.slow = self.I(average, self.data.Close, SLOW)

    def next(self) -> None:
        if crossover(self.fast, self.slow):
            self.buy(size=1)
        elif crossover(self.slow, self.fast):
            self.position.close()


def prepare(bars: Bars) -> Run:
    names = ("open", "high", "low", "close", "volume")
    table = pd.DataFrame(
        {name.capitalize(): bars[name] for name in names}, index=pd.to_datetime(bars["ts"])
    )
    warnings.simplefilter("ignore")
    backtest = Backtest(table, Cross, cash=100_000, commission=0.0, finalize_trades=False)

    def run() -> tuple[int, float]:
        stats = backtest.run()
        return len(stats["_trades"]), stats["Equity Final [$]"] - 100_000

    return run


serve(prepare)
