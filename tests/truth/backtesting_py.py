"""The statistics of backtesting.py 0.6.6 from an equity curve and trades, by its own formulas.

Where its definition is also ours the report's metric is compared itself (SAME). The others are
its own: a Sharpe ratio over geometric annual figures, a profit factor of returns, a log-return
beta. They are computed here from our curve and trades, so that they test those.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
DAY_NS = 86_400_000_000_000

# statistic of backtesting.py -> (our metric, factor)
SAME = {
    "Equity Final [$]": ("final_equity", 1),
    "Return [%]": ("total_return", 100),
    "Max. Drawdown [%]": ("max_drawdown", 100),
    "# Trades": ("trades", 1),
    "Win Rate [%]": ("win_rate", 100),
    "Best Trade [%]": ("best_trade_return", 100),
    "Worst Trade [%]": ("worst_trade_return", 100),
    "Expectancy [%]": ("expectancy", 100),
    "SQN": ("sqn", 1),
}


def geometric_mean(returns: Column) -> float:
    """Of 1 + r, less 1."""
    return float(np.exp(np.mean(np.log1p(returns))) - 1)


def curve_statistics(
    equity: Column, close: Column, opened_ns: Column, first: int, days_a_year: int
) -> dict[str, float]:
    """What follows from equity and closes of each bar; `first` is the first bar with averages."""
    day = opened_ns // DAY_NS
    last_of_day = np.append(day[1:] != day[:-1], True)
    daily = equity[last_of_day]
    returns = daily[1:] / daily[:-1] - 1
    growth = 1 + geometric_mean(returns)
    annual = growth**days_a_year - 1
    spread = (np.var(returns, ddof=1) + growth**2) ** days_a_year - growth ** (2 * days_a_year)
    downside = np.sqrt(np.mean(np.minimum(returns, 0.0) ** 2)) * np.sqrt(days_a_year)
    high = np.maximum.accumulate(equity)
    depths = [np.max(1 - equity[a : b + 1] / high[a : b + 1]) for a, b in falls(equity)]
    years = (opened_ns[-1] - opened_ns[0]) / DAY_NS / 365.25
    covariance = np.cov(np.diff(np.log(equity)), np.diff(np.log(close)))
    beta = covariance[0, 1] / covariance[1, 1]
    total = equity[-1] / equity[0] - 1
    held = close[-1] / close[first] - 1
    return {
        "Equity Peak [$]": float(high[-1]),
        "Buy & Hold Return [%]": held * 100,
        "Return (Ann.) [%]": annual * 100,
        "Volatility (Ann.) [%]": float(np.sqrt(spread)) * 100,
        "CAGR [%]": (float(equity[-1] / equity[0]) ** (1 / years) - 1) * 100,
        "Sharpe Ratio": annual / float(np.sqrt(spread)),
        "Sortino Ratio": annual / downside,
        "Calmar Ratio": annual / float(np.max(depths)),
        "Beta": beta,
        "Alpha [%]": (total - beta * held) * 100,
        "Avg. Drawdown [%]": -100 * float(np.mean(depths)),
    }


def falls(equity: Column) -> list[tuple[int, int]]:
    """Each stretch of more than one bar from a high to the next one, or to the end."""
    at_high = np.flatnonzero(equity == np.maximum.accumulate(equity))
    ends = np.unique(np.append(at_high, len(equity) - 1)).tolist()
    return [(a, b) for a, b in pairwise(ends) if b > a + 1]


def trade_statistics(mine: dict[str, Column], bars: int) -> dict[str, float]:
    """What follows from the closed trades of a run over `bars` bars."""
    returns, profit = mine["return"], mine["profit"]
    wins, losses = profit[profit > 0], profit[profit < 0]
    won = len(wins) / len(profit)
    held = np.zeros(bars, bool)
    for entry, leave in zip(mine["entry_bar"], mine["exit_bar"], strict=True):
        held[entry : leave + 1] = True
    return {
        "Commissions [$]": float(mine["fees"].sum()),
        "Exposure Time [%]": float(np.mean(held)) * 100,
        "Avg. Trade [%]": geometric_mean(returns) * 100,
        "Profit Factor": float(returns[returns > 0].sum() / -returns[returns < 0].sum()),
        "Kelly Criterion": won - (1 - won) / (np.mean(wins) / -np.mean(losses)),
    }


def durations(
    mine: dict[str, Column], equity: Column, opened_ns: Column, bar_ns: int
) -> dict[str, int]:
    """Lengths of time in ns; a mean is rounded up to whole bars."""
    under = np.array([opened_ns[b] - opened_ns[a] for a, b in falls(equity)])
    held = mine["exit_time"] - mine["entry_time"]
    return {
        "Duration": int(opened_ns[-1] - opened_ns[0]),
        "Max. Drawdown Duration": int(under.max()),
        "Avg. Drawdown Duration": -int(-under.sum() // len(under) // bar_ns) * bar_ns,
        "Max. Trade Duration": int(held.max()),
        "Avg. Trade Duration": -int(-held.sum() // len(held) // bar_ns) * bar_ns,
    }
