"""Every figure that a lane of a sweep can report too: computed from accumulators only.

The accumulators are the fields of std/metrics.qdsl, kept by the core while it runs, so a single
backtest and one of ten thousand lanes go through the same sums and these same formulas: an
accumulator is a number, or an array of that of every lane. Every operation here rounds alone and
correctly, or is the C library's on one number, so both leave the same bits.
In the formulas r are the returns between day samples (the session's close; the UTC day without a
session; each bar for bars of a day and longer), n their number and P the samples in a year.
The riskless rate is zero: a strategy that wants to be paid above one subtracts it itself.
"""

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from quantdsl.errors import InternalError
from quantdsl.report.formula import Floats, Formulas, ratio

NS_PER_DAY = 86_400e9
EXPONENT_MAX = 709.0
"""e to more than this is infinite."""


class Sums:
    """The accumulators of one run, or of many lanes, by name; compensated sums folded into one."""

    def __init__(
        self, values: Mapping[str, npt.ArrayLike], money_digits: int, periods_per_year: float
    ) -> None:
        self.values = values
        self.money_unit = 10.0**money_digits
        self.periods_per_year = periods_per_year

    def __getitem__(self, name: str) -> Floats:
        if name not in self.values:
            raise InternalError(f"the core left no accumulator '{name}'")
        value = np.asarray(self.values[name])
        low = self.values.get(f"{name}_lo")
        return value if low is None else value + np.asarray(low)

    def money(self, name: str) -> Floats:
        """An accumulator of money units, in currency."""
        return self[name] / self.money_unit

    @property
    def years(self) -> Floats:
        """Length of the run: day samples over day samples in a year."""
        return (self["ret_n"] + self["ret_bad"]) / self.periods_per_year

    @property
    def mean_return(self) -> Floats:
        """mean(r); the sums are about the first return, so equal returns stay exact."""
        return self["ret_origin"] + ratio(self["ret_sum"], self["ret_n"])

    @property
    def return_deviation(self) -> Floats:
        """Sample standard deviation of r (n - 1); NaN below two samples."""
        return _deviation(self["ret_n"], self["ret_sum"], self["ret_sq"])

    @cached_property
    def annual_return(self) -> Floats:
        """Growth in a year, by the C library on one number after the other: computed once."""
        growth = ratio(self["equity_last"], self["equity_first"])
        defined = (self.years != 0.0) & (growth > 0.0)
        exponent = ratio(_each(_log, _where(defined, growth, 1.0)), self.years)
        small = exponent < EXPONENT_MAX
        annual = _where(small, _each(_expm1, _where(small, exponent, 0.0)), math.inf)
        return _where(defined, annual, math.nan)


def _deviation(n: Floats, total: Floats, squares: Floats) -> Floats:
    """Sample standard deviation from sums; NaN below two samples."""
    variance = ratio(squares - ratio(total * total, n), n - 1)
    return _where(n < 2, math.nan, np.sqrt(_where(variance <= 0.0, 0.0, variance)))


def _where(condition: npt.ArrayLike, chosen: npt.ArrayLike, otherwise: npt.ArrayLike) -> Floats:
    return np.where(condition, chosen, otherwise)


def _each(function: np.ufunc, x: Floats) -> Floats:
    """The C library's function of each number: numpy's own rounds otherwise by processor."""
    return np.asarray(function(x), np.float64)


_log = np.frompyfunc(math.log, 1, 1)
_expm1 = np.frompyfunc(math.expm1, 1, 1)

LANE: Formulas[Sums] = Formulas("accumulators")


# ---- return ----------------------------------------------------------------------------------


@LANE.add("return", "fraction")
def total_return(s: Sums) -> Floats:
    """Total return.
    last equity / first equity - 1
    """
    return ratio(s["equity_last"], s["equity_first"]) - 1.0


@LANE.add("return", "fraction")
def annual_return(s: Sums) -> Floats:
    """Annual return.
    (last equity / first equity) ^ (P / n) - 1; na once equity is lost
    """
    return s.annual_return


@LANE.add("return", "money")
def net_profit(s: Sums) -> Floats:
    """Net profit.
    last equity - first equity, open positions at their last price
    """
    return (s["equity_last"] - s["equity_first"]) / s.money_unit


@LANE.add("return", "money")
def final_equity(s: Sums) -> Floats:
    """Final equity.
    cash and open positions at their last price
    """
    return s.money("equity_last")


@LANE.add("return", "fraction")
def best_period(s: Sums) -> Floats:
    """Best day.
    max(r)
    """
    return _where(s["ret_n"] > 0, s["ret_best"], math.nan)


@LANE.add("return", "fraction")
def worst_period(s: Sums) -> Floats:
    """Worst day.
    min(r)
    """
    return _where(s["ret_n"] > 0, s["ret_worst"], math.nan)


@LANE.add("return", "fraction")
def exposure(s: Sums) -> Floats:
    """Exposure.
    bars with a position or a fill / all bars
    """
    return ratio(s["bars_in_market"], s["bars"])


@LANE.add("return", "ratio")
def turnover(s: Sums) -> Floats:
    """Turnover.
    traded value of both sides / mean equity at the day samples / years
    """
    mean_equity = ratio(s["equity_sum"], s["ret_n"] + s["ret_bad"])
    return ratio(ratio(s["traded"], mean_equity), s.years)


# ---- risk ------------------------------------------------------------------------------------


@LANE.add("risk", "fraction")
def volatility(s: Sums) -> Floats:
    """Volatility.
    std(r) * sqrt(P), std with n - 1
    """
    return s.return_deviation * math.sqrt(s.periods_per_year)


@LANE.add("risk", "ratio")
def sharpe(s: Sums) -> Floats:
    """Sharpe ratio.
    mean(r) / std(r) * sqrt(P)
    """
    return ratio(s.mean_return, s.return_deviation) * math.sqrt(s.periods_per_year)


@LANE.add("risk", "ratio")
def sortino(s: Sums) -> Floats:
    """Sortino ratio.
    mean(r) / sqrt(mean(min(r, 0)^2)) * sqrt(P)
    """
    n = s["ret_n"]
    downside = np.sqrt(ratio(s["ret_down_sq"], n))
    annual = ratio(s.mean_return, downside) * math.sqrt(s.periods_per_year)
    return _where(n < 2, math.nan, annual)


@LANE.add("risk", "ratio")
def calmar(s: Sums) -> Floats:
    """Calmar ratio.
    annual return / |max drawdown|; na without a drawdown
    """
    drawdown = -max_drawdown(s)
    return _where(drawdown > 0.0, ratio(s.annual_return, drawdown), math.nan)


@LANE.add("risk", "ratio")
def omega(s: Sums) -> Floats:
    """Omega ratio.
    sum(max(r, 0)) / sum(max(-r, 0)); na without a losing day
    """
    lost = s["ret_down"]
    return _where((lost > 0.0) & (s["ret_n"] >= 2), ratio(s["ret_up"], lost), math.nan)


# ---- drawdown --------------------------------------------------------------------------------


@LANE.add("drawdown", "fraction")
def max_drawdown(s: Sums) -> Floats:
    """Max drawdown.
    -max over bars of (high so far - equity) / high so far; deeper than on day samples alone
    """
    return 0.0 - ratio(s["dd_drop"], s["dd_peak"])


@LANE.add("drawdown", "money")
def max_drawdown_money(s: Sums) -> Floats:
    """Max drawdown in money.
    -max over bars of (high so far - equity)
    """
    return 0.0 - s.money("dd_money_max")


@LANE.add("drawdown", "days")
def max_drawdown_duration(s: Sums) -> Floats:
    """Longest drawdown.
    longest time below an earlier high, an unfinished one included, in calendar days
    """
    return s["under_ns_max"] / NS_PER_DAY


# ---- trades ----------------------------------------------------------------------------------


@LANE.add("trades", "count")
def trades(s: Sums) -> Floats:
    """Trades.
    closed round trips
    """
    return s["trades"]


@LANE.add("trades", "count")
def trades_long(s: Sums) -> Floats:
    """Long trades.
    closed round trips that began with a buy
    """
    return s["trades_long"]


@LANE.add("trades", "fraction")
def win_rate(s: Sums) -> Floats:
    """Win rate.
    trades with a net profit / trades
    """
    return ratio(s["wins"], s["trades"])


@LANE.add("trades", "ratio")
def profit_factor(s: Sums) -> Floats:
    """Profit factor.
    sum of net profits / sum of net losses
    """
    return ratio(s["gross_profit"], s["gross_loss"])


@LANE.add("trades", "money")
def average_trade(s: Sums) -> Floats:
    """Average trade.
    net profit of the trades / trades
    """
    return ratio(s.money("gross_profit") - s.money("gross_loss"), s["trades"])


@LANE.add("trades", "money")
def average_win(s: Sums) -> Floats:
    """Average win.
    sum of net profits / winning trades
    """
    return ratio(s.money("gross_profit"), s["wins"])


@LANE.add("trades", "money")
def average_loss(s: Sums) -> Floats:
    """Average loss.
    -sum of net losses / losing trades
    """
    return _where(s["losses"] > 0, ratio(-s.money("gross_loss"), s["losses"]), math.nan)


@LANE.add("trades", "money")
def best_trade(s: Sums) -> Floats:
    """Best trade.
    largest net profit
    """
    return _where(s["trades"] > 0, s.money("trade_best"), math.nan)


@LANE.add("trades", "money")
def worst_trade(s: Sums) -> Floats:
    """Worst trade.
    smallest net profit
    """
    return _where(s["trades"] > 0, s.money("trade_worst"), math.nan)


@LANE.add("trades", "ratio")
def sqn(s: Sums) -> Floats:
    """System quality number.
    sqrt(trades) * mean(p) / std(p) of the net profits p, std with trades - 1
    """
    n = s["trades"]
    total = (s["gross_profit"] - s["gross_loss"]).astype(np.float64)
    quality = np.sqrt(n) * ratio(ratio(total, n), _deviation(n, total, s["trade_sq"]))
    return _where(n < 2, math.nan, quality)


@LANE.add("trades", "count")
def longest_winning_run(s: Sums) -> Floats:
    """Longest winning run.
    most winning trades in a row
    """
    return s["win_run_max"]


@LANE.add("trades", "count")
def longest_losing_run(s: Sums) -> Floats:
    """Longest losing run.
    most losing trades in a row
    """
    return s["loss_run_max"]


@LANE.add("trades", "days")
def average_holding(s: Sums) -> Floats:
    """Average holding time.
    mean(exit time - entry time), in calendar days
    """
    return ratio(s["hold_ns"] / NS_PER_DAY, s["trades"])


@LANE.add("trades", "days")
def longest_holding(s: Sums) -> Floats:
    """Longest holding time.
    max(exit time - entry time), in calendar days
    """
    return s["hold_ns_max"] / NS_PER_DAY


@LANE.add("trades", "bars")
def average_holding_bars(s: Sums) -> Floats:
    """Average holding in bars.
    mean(exit bar - entry bar)
    """
    return ratio(s["hold_bars"], s["trades"])


@LANE.add("trades", "money")
def average_mae(s: Sums) -> Floats:
    """Average MAE.
    mean over trades of the worst open loss (maximum adverse excursion), at bar extremes
    """
    return ratio(0.0 - s.money("mae_sum"), s["trades"])


@LANE.add("trades", "money")
def average_mfe(s: Sums) -> Floats:
    """Average MFE.
    mean over trades of the best open profit (maximum favourable excursion), at bar extremes
    """
    return ratio(s.money("mfe_sum"), s["trades"])


# ---- costs -----------------------------------------------------------------------------------


@LANE.add("costs", "money")
def fees(s: Sums) -> Floats:
    """Fees paid.
    sum over fills, rebates negative
    """
    return s.money("fees_paid")


@LANE.add("costs", "money")
def slippage(s: Sums) -> Floats:
    """Slippage paid.
    sum over fills of (price - price before slippage) * signed size
    """
    return s.money("slippage_paid")


@LANE.add("costs", "money")
def financing(s: Sums) -> Floats:
    """Financing paid.
    borrow, funding and dividends owed, less those received
    """
    return s.money("financing_paid")


# ---- orders ----------------------------------------------------------------------------------


@LANE.add("orders", "count")
def orders(s: Sums) -> Floats:
    """Orders.
    sent by the strategy, accepted or not, and by what closes for it: limits, margin, the end
    """
    return s["orders"]


@LANE.add("orders", "count")
def fills(s: Sums) -> Floats:
    """Fills.
    an order may have several
    """
    return s["fills"]


@LANE.add("orders", "count")
def rejected_orders(s: Sums) -> Floats:
    """Rejected orders.
    refused by a risk limit or for being invalid
    """
    return s["orders_rejected"]


@LANE.add("orders", "count")
def cancelled_orders(s: Sums) -> Floats:
    """Cancelled orders.
    ended before they were filled whole
    """
    return s["orders_cancelled"]


@LANE.add("orders", "count")
def nan_orders(s: Sums) -> Floats:
    """NaN orders.
    cancelled because size or price was na or infinite
    """
    return s["orders_nan"]


@LANE.add("orders", "count")
def cut_orders(s: Sums) -> Floats:
    """Cut orders.
    made smaller because the money was not there
    """
    return s["orders_cut"]


@LANE.add("orders", "count")
def liquidations(s: Sums) -> Floats:
    """Liquidations.
    positions closed because the margin was gone
    """
    return s["liquidations"]
