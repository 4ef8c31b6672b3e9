"""A reference in Python of the accumulators that std/metrics.qdsl keeps."""

import math

ZERO = """
equity_last ts_first ts_last bars bars_in_market peak_ts under_ns_max
dd_money_max dd_drop dd_peak_ts dd_trough_ts ret_n ret_bad ret_origin ret_sum ret_sq
ret_up ret_down ret_down_sq ret_best ret_worst equity_sum fills traded fees_paid
slippage_paid financing_paid trades wins losses gross_profit gross_loss trade_sq
trade_best trade_worst trades_long wins_long profit_long hold_bars hold_bars_max
hold_ns hold_ns_max mae_sum mae_max mfe_sum mfe_max win_run loss_run win_run_max
loss_run_max orders orders_filled orders_rejected orders_cancelled orders_nan
orders_cut liquidations
"""
"""The accumulators that begin at 0."""


class Accumulators:
    """Folds marks, day samples, fills and trades; `values` is what a RunResult carries."""

    def __init__(self, equity: int) -> None:
        self.values: dict[str, float] = dict.fromkeys(ZERO.split(), 0)
        self.values |= {"equity_first": equity, "equity_last": equity}
        self.values |= {"peak": equity, "dd_peak": equity, "equity_day": equity}

    def add(self, name: str, amount: float) -> None:
        self.values[name] += amount

    def most(self, name: str, value: float) -> None:
        self.values[name] = max(self.values[name], value)

    def mark(self, ts: int, equity: int, in_market: bool) -> None:
        v = self.values
        if v["bars"] == 0:
            v["ts_first"] = v["peak_ts"] = ts
        v["equity_last"], v["ts_last"] = equity, ts
        self.add("bars", 1)
        self.add("bars_in_market", int(in_market))
        if equity >= v["peak"]:
            v["peak"], v["peak_ts"] = equity, ts
        self.most("under_ns_max", ts - v["peak_ts"])
        drop = v["peak"] - equity
        self.most("dd_money_max", drop)
        if drop * v["dd_peak"] > v["dd_drop"] * v["peak"]:
            v |= {"dd_drop": drop, "dd_peak": v["peak"]}
            v |= {"dd_peak_ts": v["peak_ts"], "dd_trough_ts": ts}

    def day(self, equity: int) -> None:
        before = self.values["equity_day"]
        self.values["equity_day"] = equity
        self.add("equity_sum", float(equity))
        self.period(float(equity - before) / float(before) if before > 0 else math.nan)

    def period(self, r: float) -> None:
        """One return; the part of `day` that published cases, which start at returns, can use."""
        v = self.values
        if math.isnan(r):
            self.add("ret_bad", 1)
            return
        if v["ret_n"] == 0:
            v["ret_origin"] = v["ret_best"] = v["ret_worst"] = r
        self.add("ret_n", 1)
        self.add("ret_sum", r - v["ret_origin"])
        self.add("ret_sq", (r - v["ret_origin"]) ** 2)
        self.add("ret_up", max(r, 0.0))
        self.add("ret_down", max(-r, 0.0))
        self.add("ret_down_sq", min(r, 0.0) ** 2)
        v["ret_best"], v["ret_worst"] = max(v["ret_best"], r), min(v["ret_worst"], r)

    def fill(self, notional: int, fee: int, slippage: int) -> None:
        self.add("fills", 1)
        self.add("traded", float(abs(notional)))
        self.add("fees_paid", fee)
        self.add("slippage_paid", slippage)

    def trade(self, net: int, hold_ns: int, hold_bars: int, worst: int, best: int) -> None:
        v = self.values
        if v["trades"] == 0:
            v["trade_best"] = v["trade_worst"] = net
        self.add("trades", 1)
        self.add("trades_long", 1)
        self.add("wins", int(net > 0))
        self.add("losses", int(net < 0))
        self.add("gross_profit", max(net, 0))
        self.add("gross_loss", max(-net, 0))
        self.add("trade_sq", float(net) ** 2)
        v["trade_best"], v["trade_worst"] = max(v["trade_best"], net), min(v["trade_worst"], net)
        self.add("hold_bars", hold_bars)
        self.add("hold_ns", float(hold_ns))
        self.most("hold_ns_max", hold_ns)
        self.add("mae_sum", float(max(-worst, 0)))
        self.add("mfe_sum", float(max(best, 0)))
        v["win_run"] = v["win_run"] + 1 if net > 0 else 0
        v["loss_run"] = v["loss_run"] + 1 if net < 0 else 0
        self.most("win_run_max", v["win_run"])
        self.most("loss_run_max", v["loss_run"])
