"""Rows of the parity table for the functions of std/talib_*.qdsl."""

from collections.abc import Callable

import numpy as np

from tests.std.parity import Market, Row, routine

GOOG = "GOOG 1d"
SEED = "starts from other values; compared once the seed weighs less than 1e-11"
RESIDUE = "compared as 100 + value: near 0 the residue of TA-Lib's running sums shows"


def _row(call: str, column: str, field: str = "", skip: int = 0, rule: str = "",
         shift: float = 0.0, **given: object) -> Row:
    """One output of `call`; `shift` is added to both sides."""
    name = call.partition("(")[0]

    def compute(_: Market) -> np.ndarray:
        found = routine(name, GOOG, tuple(given.items()))
        return shift + (found[field] if field else found)  # type: ignore[index,operator]

    expect: Callable[[Market], np.ndarray] | None = None
    if shift:
        def expect(at: Market) -> np.ndarray:
            return shift + at.columns[column]

    shown = f"{call}.{field}" if field else call
    source = "TA-Lib " + column.partition("_")[0]
    return Row(shown, source, GOOG, column, compute, skip, rule, expect)


def _averages() -> list[Row]:
    return [
        _row("ta.dema(close, 20)", "DEMA_20", src="close", len=20),
        _row("ta.tema(close, 20)", "TEMA_20", src="close", len=20),
        _row("ta.t3(close, 5)", "T3_5_0.7", src="close", len=5),
        _row("ta.kama(close, 10)", "KAMA_10", src="close", len=10),
        _row("ta.trima(close, 20)", "TRIMA_20", src="close", len=20),
        _row("ta.midpoint(close, 14)", "MIDPOINT_14", src="close", len=14),
    ]


def _oscillators() -> list[Row]:
    stoch = {"len": 14, "smooth_k": 3, "smooth_d": 3, "data": "bars"}
    stochrsi = {"src": "close", "rsi_len": 14, "len": 5, "smooth": 3}
    first = "std gives k as soon as it is defined, TA-Lib with d"
    return [
        _row("ta.apo(close, 12, 26)", "APO_12_26", src="close"),
        _row("ta.ppo(close, 12, 26)", "PPO_12_26", src="close"),
        _row("ta.trix(close, 15)", "TRIX_15", src="close", len=15),
        _row("ta.ultosc(7, 14, 28)", "ULTOSC", data="bars"),
        _row("ta.aroon(14)", "AROON_UP_14", "up", data="bars"),
        _row("ta.aroon(14)", "AROON_DOWN_14", "down", data="bars"),
        _row("ta.stochslow(14, 3, 3)", "STOCH_K_14_3_3", "k", skip=17, rule=first, **stoch),
        _row("ta.stochslow(14, 3, 3)", "STOCH_D_14_3_3", "d", **stoch),
        _row("ta.stochrsi(close, 14, 5, 3)", "STOCHRSI_K", "k", skip=20, rule=first, **stochrsi),
        _row("ta.stochrsi(close, 14, 5, 3)", "STOCHRSI_D", "d", shift=100.0, rule=RESIDUE,
             **stochrsi),
    ]


def _bars() -> list[Row]:
    return [
        _row("ta.plus_di(14)", "PLUS_DI_14", data="bars"),
        _row("ta.minus_di(14)", "MINUS_DI_14", data="bars"),
        _row("ta.adx(14)", "ADX_14", data="bars"),
        _row("ta.natr(14)", "NATR_14", skip=400, rule=SEED, len=14, data="bars"),
        _row("ta.trange()", "TRANGE", data="bars"),
        _row("ta.ad()", "AD", data="bars"),
        _row("ta.medprice()", "MEDPRICE", data="bars"),
        _row("ta.typprice()", "TYPPRICE", data="bars"),
    ]


def _statistics() -> list[Row]:
    return [
        _row("ts.sum(close, 20)", "SUM_20", src="close", len=20),
        _row("ts.max(close, 20)", "MAX_20", src="close", len=20),
        _row("ts.min(close, 20)", "MIN_20", src="close", len=20),
        _row("ts.corr(high, low, 30)", "CORREL_HL_30", x="high", y="low", len=30),
        _row("ta.beta(low, high, 5)", "BETA_HL_5", src="low", benchmark="high", len=5,
             rule="TA-Lib takes the benchmark first"),
        _row("ta.linearreg_slope(close, 14)", "LINEARREG_SLOPE_14", src="close", shift=100.0,
             rule=RESIDUE),
        _row("ta.tsf(close, 14)", "TSF_14", src="close"),
    ]


ROWS = _averages() + _oscillators() + _bars() + _statistics()
