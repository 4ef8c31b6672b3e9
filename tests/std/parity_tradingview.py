"""Rows of the parity table: TradingView's exports on EURUSD."""

from collections.abc import Callable
from datetime import timedelta

import numpy as np

from tests.std.harness import run
from tests.std.parity import Market, Row, routine

SESSION_OPEN = timedelta(hours=21)
"""EURUSD opens at 17:00 in New York, which is 21:00 UTC on the days of the vwap export."""


def _row(
    call: str, table: str, name: str, column: str = "", field: str = "", skip: int = 0,
    rule: str = "", **given: object,
) -> Row:
    market = f"EURUSD {table}"

    def compute(_: Market) -> np.ndarray:
        found = routine(name, market, tuple(given.items()))
        return found[field] if field else found  # type: ignore[index]

    return Row(call, "TradingView", market, column or call, compute, skip, rule)


def rows() -> list[Row]:
    """Every column of the exports."""
    return (_averages() + _bands() + _oscillators() + _extremes() + _supertrend() + _runs()
            + _crosses() + _vwaps())


def _averages() -> list[Row]:
    def of_price(name: str, length: int) -> Row:
        call = f"{name}(close, {length})"
        return Row(call, "TradingView", "EURUSD ma", call,
                   lambda at: run(name, src=at.price("close"), len=length))

    return [
        of_price("ta.sma", 10),
        _row("ta.sma(hl2, 20)", "ma", "ta.sma", src="hl2", len=20),
        _row("ta.sma(hlc3, 15)", "ma", "ta.sma", src="hlc3", len=15),
        _row("ta.ema(close, 20)", "ma", "ta.ema", src="close", len=20),
        _row("ta.ema(ohlc4, 10)", "ma", "ta.ema", src="ohlc4", len=10),
        _row("ta.rma(hlcc4, 5)", "ma", "ta.rma", src="hlcc4", len=5),
        _row("ta.rma(high, 15)", "ma", "ta.rma", src="high", len=15),
        _row("ta.alma(close, 5, 0.85, 6)", "ma", "ta.alma", src="close", len=5),
        _row("ta.alma(close, 10, 0.55, 12)", "ma", "ta.alma", src="close", len=10, offset=0.55,
             sigma=12.0),
        of_price("ta.wma", 5),
        of_price("ta.wma", 20),
        _row("ta.hma(close, 9)", "ma", "ta.hma", src="close", len=9),
        _row("ta.hma(close, 20)", "ma", "ta.hma", src="close", len=20),
        _row("ta.swma(hlc3)", "ma", "ta.swma", src="hlc3"),
        _row("ta.vwma(close, 20)", "ma", "ta.vwma", src="close", len=20, data="bars"),
    ]


def _bands() -> list[Row]:
    fields = (("middle", "base"), ("upper", "upper"), ("lower", "lower"))
    found = [_row(f"ta.bb(close, 20, 2).{ours}", "bb", "ta.bb", f"ta.bb(close, 20, 2).{theirs}",
                  ours, src="close", len=20, mult=2.0) for ours, theirs in fields]
    found.append(_row("ta.bbw(close, 20, 2.1)", "bb", "ta.bbw", src="close", len=20, mult=2.1,
                      rule="TradingView's variance cancels; std is within 1e-15 of the exact"))
    for call, handle_na in (("ta.tr(false)", False), ("ta.tr(true)", True), ("ta.tr", False)):
        found.append(_row(call, "tr", "ta.tr", data="bars", handle_na=handle_na))
    found.append(_row("ta.atr(14)", "tr", "ta.atr", data="bars", len=14))
    return found


def _oscillators() -> list[Row]:
    found = [
        _row("ta.mfi(close, 14)", "mfi+rsi+stoch", "ta.mfi", src="close", len=14, data="bars",
             skip=14, rule="TradingView counts the first bar as a rise and a fall at once; std "
             "starts at the second: 14 rows left out"),
        _row("ta.rsi(close, 14)", "mfi+rsi+stoch", "ta.rsi", src="close", len=14),
        _row("ta.stoch(close, high, low, 20)", "mfi+rsi+stoch", "ta.stoch", src="close",
             high="high", low="low", len=20),
        _row("ta.sar(0.02, 0.02, 0.2)", "sar", "ta.sar", data="bars"),
    ]
    found += [_row(f"ta.dmi(17, 14).{ours}", "dmi", "ta.dmi", f"ta.dmi(17, 14).{theirs}", ours,
                   len=17, smoothing=14, data="bars")
              for ours, theirs in (("plus", "dip"), ("minus", "dim"), ("adx", "adx"))]
    found += [_row(f"ta.macd(close, 12, 26, 9).{field}", "macd", "ta.macd", field=field,
                   src="close", fast=12, slow=26, signal=9)
              for field in ("macd", "signal", "hist")]
    return found


def _extremes() -> list[Row]:
    found = []
    for name in ("highest", "lowest", "highestbars", "lowestbars"):
        own = "low" if name.startswith("low") else "high"
        for argument, price in (("10", own), ("close, 10", "close")):
            found.append(_row(f"ta.{name}({argument})", "highest+lowest", f"ta.{name}",
                              src=price, len=10))
    for name, own in (("pivothigh", "high"), ("pivotlow", "low")):
        for argument, price in (("10, 5", own), ("close, 10, 5", "close")):
            found.append(_row(f"ta.{name}({argument})", "pivot", f"ta.{name}", src=price,
                              left=10, right=5))
    return found


def _supertrend() -> list[Row]:
    def side(sign: int) -> Callable[[Market], np.ndarray]:
        def compute(at: Market) -> np.ndarray:
            found = run("ta.supertrend", factor=3.0, len=10, data=at.bars)
            return np.where(found["direction"] == sign, found["value"], np.nan)
        return compute

    rule = "TradingView prints 0 on the first bar, before there is a band: that row is left out"
    return [Row(f"ta.supertrend(3, 10), {word}", "TradingView", "EURUSD supertrend",
                f"ta.supertrend(3, 10).{word}", side(sign), 1, rule)
            for word, sign in (("up", -1), ("down", 1))]


def _runs() -> list[Row]:
    def compute(name: str) -> Callable[[Market], np.ndarray]:
        def over_ema(at: Market) -> np.ndarray:
            return run(name, src=run("ta.ema", src=at.mean("close"), len=20), len=5)
        return over_ema

    return [Row(f"ta.{name}(ta.ema(close, 20), 5)", "TradingView", "EURUSD falling+rising",
                f"ta.{name}(ema, 5)", compute(f"ta.{name}"), expect=np.abs)
            for name in ("falling", "rising")]


def _crosses() -> list[Row]:
    def mean(at: Market, name: str, length: int) -> np.ndarray:
        return run(name, overload=int(name == "ta.sma"), src=at.mean("close"), len=length)

    def of_emas(name: str) -> Callable[[Market], np.ndarray]:
        return lambda at: run(name, x=mean(at, "ta.ema", 5), y=mean(at, "ta.ema", 11))

    def value_when(at: Market) -> np.ndarray:
        crossed = run("ta.cross", x=mean(at, "ta.sma", 14), y=mean(at, "ta.sma", 7))
        return run("ta.valuewhen", cond=crossed, src=at.mean("close"), occurrence=1)

    rule = "the export does not name its lengths; {} reproduce it"
    found = [Row(f"ta.{name}(ta.ema(close, 5), ta.ema(close, 11))", "TradingView",
                 "EURUSD cross", f"ta.{name}(ema1, ema2)", of_emas(f"ta.{name}"),
                 rule=rule.format("5 and 11"), expect=lambda column: np.abs(np.sign(column)))
             for name in ("cross", "crossover", "crossunder")]
    found.append(Row("ta.valuewhen(ta.cross(slow, fast), close, 1)", "TradingView",
                     "EURUSD valuewhen", "ta.valuewhen(ta.cross(slow, fast), close, 1)",
                     value_when, rule=rule.format("sma 14 and 7")))
    return found


def _vwaps() -> list[Row]:
    def anchor(at: Market, period: timedelta, first: bool) -> np.ndarray:
        since = at.columns["time"] - SESSION_OPEN.total_seconds()
        number = since // period.total_seconds()
        return np.concatenate([[first], number[1:] != number[:-1]])

    def plain(hours: int, first: bool) -> Callable[[Market], np.ndarray]:
        return lambda at: run("ta.vwap", overload=1, src=at.mean("close"), data=at.bars,
                              anchor=anchor(at, timedelta(hours=hours), first))

    def band(field: str) -> Callable[[Market], np.ndarray]:
        return lambda at: run("ta.vwap_bands", src=at.mean("close"), mult=2.0, data=at.bars,
                              anchor=anchor(at, timedelta(hours=6), False))[field]

    def change(minutes: int) -> str:
        return f"timeframe.change(&quot;{minutes}&quot;)"

    market = "EURUSD vwap"
    found = [
        Row("ta.vwap(close, session_start)", "TradingView", market, "ta.vwap(close)",
            plain(24, True)),
        Row("ta.vwap(close, every 4 h)", "TradingView", market,
            f"ta.vwap(close, {change(240)})", plain(4, False)),
    ]
    found += [Row(f"ta.vwap_bands(close, every 6 h, 2).{field}", "TradingView", market,
                  f"ta.vwap(close, {change(360)}, 2.0).{theirs}", band(field))
              for field, theirs in (("middle", "vwap"), ("upper", "upper_band"),
                                    ("lower", "lower_band"))]
    return found
