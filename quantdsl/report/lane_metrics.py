"""Every figure that a lane of a sweep can report too: computed from accumulators only.

The accumulators are the fields of std/metrics.qdsl, kept by the core while it runs, so a single
backtest and one of ten thousand lanes go through the same sums and these same formulas.
In the formulas r are the returns between day samples (the session's close; the UTC day without a
session; each bar for bars of a day and longer), n their number and P the samples in a year.
The riskless rate is zero: a strategy that wants to be paid above one subtracts it itself.
"""

import math
from collections.abc import Mapping

from quantdsl.errors import InternalError
from quantdsl.report.formula import Formulas, ratio

NS_PER_DAY = 86_400e9


class Sums:
    """The accumulators of one run by name, with each compensated sum folded into one float."""

    def __init__(
        self, values: Mapping[str, float], money_digits: int, periods_per_year: float
    ) -> None:
        self.values = values
        self.money_unit = 10.0**money_digits
        self.periods_per_year = periods_per_year

    def __getitem__(self, name: str) -> float:
        if name not in self.values:
            raise InternalError(f"the core left no accumulator '{name}'")
        return self.values[name] + self.values.get(f"{name}_lo", 0)

    def money(self, name: str) -> float:
        """An accumulator of money units, in currency."""
        return self[name] / self.money_unit

    @property
    def years(self) -> float:
        """Length of the run: day samples over day samples in a year."""
        return (self["ret_n"] + self["ret_bad"]) / self.periods_per_year

    @property
    def mean_return(self) -> float:
        """mean(r); the sums are about the first return, so equal returns stay exact."""
        return self["ret_origin"] + ratio(self["ret_sum"], self["ret_n"])

    @property
    def return_deviation(self) -> float:
        """Sample standard deviation of r (n - 1); NaN below two samples."""
        n = self["ret_n"]
        if n < 2:
            return math.nan
        return math.sqrt(max(self["ret_sq"] - self["ret_sum"] ** 2 / n, 0.0) / (n - 1))


LANE: Formulas[Sums] = Formulas("accumulators")


# ---- return ----------------------------------------------------------------------------------


@LANE.add("return", "fraction")
def total_return(s: Sums) -> float:
    """Total return.
    last equity / first equity - 1
    """
    return ratio(s["equity_last"], s["equity_first"]) - 1.0


@LANE.add("return", "fraction")
def annual_return(s: Sums) -> float:
    """Annual return.
    (last equity / first equity) ^ (P / n) - 1; na once equity is lost
    """
    growth = ratio(s["equity_last"], s["equity_first"])
    if s.years == 0.0 or not growth > 0.0:
        return math.nan
    exponent = math.log(growth) / s.years
    return math.expm1(exponent) if exponent < 709.0 else math.inf


@LANE.add("return", "money")
def net_profit(s: Sums) -> float:
    """Net profit.
    last equity - first equity, open positions at their last price
    """
    return (s["equity_last"] - s["equity_first"]) / s.money_unit


@LANE.add("return", "money")
def final_equity(s: Sums) -> float:
    """Final equity.
    cash and open positions at their last price
    """
    return s.money("equity_last")


@LANE.add("return", "fraction")
def best_period(s: Sums) -> float:
    """Best day.
    max(r)
    """
    return s["ret_best"] if s["ret_n"] else math.nan


@LANE.add("return", "fraction")
def worst_period(s: Sums) -> float:
    """Worst day.
    min(r)
    """
    return s["ret_worst"] if s["ret_n"] else math.nan


@LANE.add("return", "fraction")
def exposure(s: Sums) -> float:
    """Exposure.
    bars with a position or a fill / all bars
    """
    return ratio(s["bars_in_market"], s["bars"])


@LANE.add("return", "ratio")
def turnover(s: Sums) -> float:
    """Turnover.
    traded value of both sides / mean equity at the day samples / years
    """
    mean_equity = ratio(s["equity_sum"], s["ret_n"] + s["ret_bad"])
    return ratio(ratio(s["traded"], mean_equity), s.years)


# ---- risk ------------------------------------------------------------------------------------


@LANE.add("risk", "fraction")
def volatility(s: Sums) -> float:
    """Volatility.
    std(r) * sqrt(P), std with n - 1
    """
    return s.return_deviation * math.sqrt(s.periods_per_year)


@LANE.add("risk", "ratio")
def sharpe(s: Sums) -> float:
    """Sharpe ratio.
    mean(r) / std(r) * sqrt(P)
    """
    return ratio(s.mean_return, s.return_deviation) * math.sqrt(s.periods_per_year)


@LANE.add("risk", "ratio")
def sortino(s: Sums) -> float:
    """Sortino ratio.
    mean(r) / sqrt(mean(min(r, 0)^2)) * sqrt(P)
    """
    n = s["ret_n"]
    if n < 2:
        return math.nan
    downside = math.sqrt(s["ret_down_sq"] / n)
    return ratio(s.mean_return, downside) * math.sqrt(s.periods_per_year)


@LANE.add("risk", "ratio")
def calmar(s: Sums) -> float:
    """Calmar ratio.
    annual return / |max drawdown|; na without a drawdown
    """
    drawdown = -max_drawdown(s)
    return annual_return(s) / drawdown if drawdown > 0.0 else math.nan


@LANE.add("risk", "ratio")
def omega(s: Sums) -> float:
    """Omega ratio.
    sum(max(r, 0)) / sum(max(-r, 0)); na without a losing day
    """
    lost = s["ret_down"]
    return s["ret_up"] / lost if lost > 0.0 and s["ret_n"] >= 2 else math.nan


# ---- drawdown --------------------------------------------------------------------------------


@LANE.add("drawdown", "fraction")
def max_drawdown(s: Sums) -> float:
    """Max drawdown.
    -max over bars of (high so far - equity) / high so far; deeper than on day samples alone
    """
    return 0.0 - ratio(s["dd_drop"], s["dd_peak"])


@LANE.add("drawdown", "money")
def max_drawdown_money(s: Sums) -> float:
    """Max drawdown in money.
    -max over bars of (high so far - equity)
    """
    return 0.0 - s.money("dd_money_max")


@LANE.add("drawdown", "days")
def max_drawdown_duration(s: Sums) -> float:
    """Longest drawdown.
    longest time below an earlier high, an unfinished one included, in calendar days
    """
    return s["under_ns_max"] / NS_PER_DAY


# ---- trades ----------------------------------------------------------------------------------


@LANE.add("trades", "count")
def trades(s: Sums) -> float:
    """Trades.
    closed round trips
    """
    return s["trades"]


@LANE.add("trades", "count")
def trades_long(s: Sums) -> float:
    """Long trades.
    closed round trips that began with a buy
    """
    return s["trades_long"]


@LANE.add("trades", "fraction")
def win_rate(s: Sums) -> float:
    """Win rate.
    trades with a net profit / trades
    """
    return ratio(s["wins"], s["trades"])


@LANE.add("trades", "ratio")
def profit_factor(s: Sums) -> float:
    """Profit factor.
    sum of net profits / sum of net losses
    """
    return ratio(s["gross_profit"], s["gross_loss"])


@LANE.add("trades", "money")
def average_trade(s: Sums) -> float:
    """Average trade.
    net profit of the trades / trades
    """
    return ratio(s.money("gross_profit") - s.money("gross_loss"), s["trades"])


@LANE.add("trades", "money")
def average_win(s: Sums) -> float:
    """Average win.
    sum of net profits / winning trades
    """
    return ratio(s.money("gross_profit"), s["wins"])


@LANE.add("trades", "money")
def average_loss(s: Sums) -> float:
    """Average loss.
    -sum of net losses / losing trades
    """
    return ratio(-s.money("gross_loss"), s["losses"]) if s["losses"] else math.nan


@LANE.add("trades", "money")
def best_trade(s: Sums) -> float:
    """Best trade.
    largest net profit
    """
    return s.money("trade_best") if s["trades"] else math.nan


@LANE.add("trades", "money")
def worst_trade(s: Sums) -> float:
    """Worst trade.
    smallest net profit
    """
    return s.money("trade_worst") if s["trades"] else math.nan


@LANE.add("trades", "ratio")
def sqn(s: Sums) -> float:
    """System quality number.
    sqrt(trades) * mean(p) / std(p) of the net profits p, std with trades - 1
    """
    n = s["trades"]
    if n < 2:
        return math.nan
    total = s["gross_profit"] - s["gross_loss"]
    deviation = math.sqrt(max(s["trade_sq"] - total**2 / n, 0.0) / (n - 1))
    return math.sqrt(n) * ratio(total / n, deviation)


@LANE.add("trades", "count")
def longest_winning_run(s: Sums) -> float:
    """Longest winning run.
    most winning trades in a row
    """
    return s["win_run_max"]


@LANE.add("trades", "count")
def longest_losing_run(s: Sums) -> float:
    """Longest losing run.
    most losing trades in a row
    """
    return s["loss_run_max"]


@LANE.add("trades", "days")
def average_holding(s: Sums) -> float:
    """Average holding time.
    mean(exit time - entry time), in calendar days
    """
    return ratio(s["hold_ns"] / NS_PER_DAY, s["trades"])


@LANE.add("trades", "days")
def longest_holding(s: Sums) -> float:
    """Longest holding time.
    max(exit time - entry time), in calendar days
    """
    return s["hold_ns_max"] / NS_PER_DAY


@LANE.add("trades", "bars")
def average_holding_bars(s: Sums) -> float:
    """Average holding in bars.
    mean(exit bar - entry bar)
    """
    return ratio(s["hold_bars"], s["trades"])


@LANE.add("trades", "money")
def average_mae(s: Sums) -> float:
    """Average MAE.
    mean over trades of the worst open loss (maximum adverse excursion), at bar extremes
    """
    return ratio(0.0 - s.money("mae_sum"), s["trades"])


@LANE.add("trades", "money")
def average_mfe(s: Sums) -> float:
    """Average MFE.
    mean over trades of the best open profit (maximum favourable excursion), at bar extremes
    """
    return ratio(s.money("mfe_sum"), s["trades"])


# ---- costs -----------------------------------------------------------------------------------


@LANE.add("costs", "money")
def fees(s: Sums) -> float:
    """Fees paid.
    sum over fills, rebates negative
    """
    return s.money("fees_paid")


@LANE.add("costs", "money")
def slippage(s: Sums) -> float:
    """Slippage paid.
    sum over fills of (price - price before slippage) * signed size
    """
    return s.money("slippage_paid")


@LANE.add("costs", "money")
def financing(s: Sums) -> float:
    """Financing paid.
    borrow, funding and dividends owed, less those received
    """
    return s.money("financing_paid")


# ---- orders ----------------------------------------------------------------------------------


@LANE.add("orders", "count")
def orders(s: Sums) -> float:
    """Orders.
    submitted by the strategy, accepted or not
    """
    return s["orders"]


@LANE.add("orders", "count")
def fills(s: Sums) -> float:
    """Fills.
    an order may have several
    """
    return s["fills"]


@LANE.add("orders", "count")
def rejected_orders(s: Sums) -> float:
    """Rejected orders.
    refused by a risk limit or for being invalid
    """
    return s["orders_rejected"]


@LANE.add("orders", "count")
def cancelled_orders(s: Sums) -> float:
    """Cancelled orders.
    ended before they were filled whole
    """
    return s["orders_cancelled"]


@LANE.add("orders", "count")
def nan_orders(s: Sums) -> float:
    """NaN orders.
    cancelled because size or price was na or infinite
    """
    return s["orders_nan"]


@LANE.add("orders", "count")
def cut_orders(s: Sums) -> float:
    """Cut orders.
    made smaller because the money was not there
    """
    return s["orders_cut"]


@LANE.add("orders", "count")
def liquidations(s: Sums) -> float:
    """Liquidations.
    positions closed because the margin was gone
    """
    return s["liquidations"]
