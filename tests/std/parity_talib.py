"""Rows of the parity table: TA-Lib 0.8.1 on GOOG daily."""

from collections.abc import Callable

import numpy as np

from tests.std.harness import run
from tests.std.parity import Market, Row, routine

MARKET = "GOOG 1d"


def _row(
    call: str, column: str, name: str, field: str = "", skip: int = 0, rule: str = "",
    floor: float = 0.0, apart: int = 0, expect: Callable[[np.ndarray], np.ndarray] | None = None,
    **given: object,
) -> Row:
    def compute(_: Market) -> np.ndarray:
        found = routine(name, MARKET, tuple(given.items()))
        return found[field] if field else found  # type: ignore[index]

    return Row(call, _source(column), MARKET, column, compute, skip, rule, floor, apart, expect)


def _source(column: str) -> str:
    return "TA-Lib " + "_".join(part for part in column.split("_") if part[0].isalpha())


def _seed(rows: int) -> dict[str, object]:
    return {"skip": rows, "rule": f"the seeds differ; compared from row {rows} on, where they "
                                  "weigh less than 1e-11"}


def rows() -> list[Row]:
    """Every column of the file but the Hilbert cycle's, which std does not have."""
    return _averages() + _oscillators() + _directional() + _volume() + _windows() + _prices()


def _averages() -> list[Row]:
    def of_price(name: str, column: str, length: int) -> Row:
        return Row(f"{name}(close, {length})", _source(column), MARKET, column,
                   lambda at: run(name, src=at.price("close"), len=length))

    found = [of_price("ta.sma", f"SMA_{n}", n) for n in (5, 10, 20, 50)]
    found += [_row(f"ta.ema(close, {n})", f"EMA_{n}", "ta.ema", src="close", len=n)
              for n in (5, 10, 20, 50)]
    found.append(of_price("ta.wma", "WMA_20", 20))
    found += [_row(f"ta.{name}(close, {n})", f"{name.upper()}_{n}", f"ta.{name}", src="close",
                   len=n) for name, n in (("dema", 20), ("tema", 20), ("kama", 10), ("trima", 20))]
    found.append(_row("ta.t3(close, 5)", "T3_5_0.7", "ta.t3", src="close", len=5))
    found += [_row(f"ta.bb(close, 20, 2).{field}", column, "ta.bb", field, src="close", len=20,
                   mult=2.0)
              for field, column in (("middle", "BBM_20_2"), ("upper", "BBU_20_2"),
                                    ("lower", "BBL_20_2"))]
    return found


def _oscillators() -> list[Row]:
    found = [_row(f"ta.rsi(close, {n})", f"RSI_{n}", "ta.rsi", src="close", len=n)
             for n in (2, 14)]
    found += [_row(f"ta.macd(close, 12, 26, 9).{field}", f"{column}_12_26_9", "ta.macd", field,
                   src="close", fast=12, slow=26, signal=9, **_seed(400))
              for field, column in (("macd", "MACD"), ("signal", "MACDSIGNAL"),
                                    ("hist", "MACDHIST"))]
    found += [
        _row("ta.apo(close, 12, 26)", "APO_12_26", "ta.apo", src="close"),
        _row("ta.ppo(close, 12, 26)", "PPO_12_26", "ta.ppo", src="close"),
        _row("ta.trix(close, 15)", "TRIX_15", "ta.trix", src="close", len=15),
        _row("ta.ultosc()", "ULTOSC", "ta.ultosc", data="bars"),
        _row("ta.cci(hlc3, 20)", "CCI_20", "ta.cci", src="hlc3", len=20),
        _row("ta.roc(close, 10)", "ROC_10", "ta.roc", src="close", len=10),
        _row("ta.mom(close, 10)", "MOM_10", "ta.mom", src="close", len=10),
        _row("ta.wpr(14)", "WILLR_14", "ta.wpr", len=14, data="bars"),
        _row("2 * ta.rsi(close, 14) - 100", "CMO_14", "ta.rsi", src="close", len=14,
             rule="TA-Lib smooths CMO as RSI; `ta.cmo` sums, as Chande and Pine",
             expect=lambda column: (column + 100) / 2),
    ]
    return found + _stochastics()


def _stochastics() -> list[Row]:
    late = "TA-Lib holds %K back until %D exists: {} rows left out"
    residue = "relative to at least 1 %: TA-Lib's sums leave 1e-14 where the mean is 0"
    slow = {"name": "ta.stochslow", "len": 14, "data": "bars"}
    rsi = {"name": "ta.stochrsi", "src": "close", "floor": 1.0}
    return [
        _row("ta.stochslow(14, 3, 3).k", "STOCH_K_14_3_3", field="k", skip=17,
             rule=late.format(17), **slow),
        _row("ta.stochslow(14, 3, 3).d", "STOCH_D_14_3_3", field="d", **slow),
        _row("ta.stochrsi(close).k", "STOCHRSI_K", field="k", skip=20,
             rule=f"{late.format(20)}; {residue}", **rsi),
        _row("ta.stochrsi(close).d", "STOCHRSI_D", field="d", rule=residue, **rsi),
    ]


def _directional() -> list[Row]:
    dmi = {"len": 14, "smoothing": 14, "data": "bars"}
    found = [_row(f"ta.dmi(14, 14).{field}", f"{column}_14", "ta.dmi", field, **_seed(600), **dmi)
             for field, column in (("plus", "PLUS_DI"), ("minus", "MINUS_DI"), ("adx", "ADX"))]
    found += [_row(f"ta.{name}(14)", f"{name.upper()}_14", f"ta.{name}", len=14, data="bars")
              for name in ("adx", "plus_di", "minus_di")]
    found += [_row(f"ta.aroon(14).{field}", f"AROON_{field.upper()}_14", "ta.aroon", field,
                   len=14, data="bars") for field in ("up", "down")]
    return [
        *found,
        _row("ta.tr()", "TRANGE", "ta.tr", data="bars"),
        _row("ta.atr(14)", "ATR_14", "ta.atr", len=14, data="bars", **_seed(400)),
        _row("ta.natr(14)", "NATR_14", "ta.natr", len=14, data="bars", **_seed(400)),
        _row("ta.sar(0.02, 0.02, 0.2)", "SAR_0.02_0.2", "ta.sar", data="bars", apart=115,
             rule="on a reversal TA-Lib holds the stop outside two bars, Pine and std three"),
        Row("abs(ta.sarext())", "TA-Lib SAR", MARKET, "SAR_0.02_0.2",
            lambda at: np.abs(run("ta.sarext", data=at.bars)),
            rule="TA-Lib's own rule, which std keeps as sarext: negative in a falling trend"),
    ]


def _volume() -> list[Row]:
    return [
        _row("ta.obv()", "OBV", "ta.obv", data="bars", expect=lambda column: column - column[0],
             rule="TA-Lib starts from the first bar's volume, std from 0"),
        _row("ta.accdist()", "AD", "ta.accdist", data="bars"),
        _row("ta.mfi(hlc3, 14)", "MFI_14", "ta.mfi", src="hlc3", len=14, data="bars"),
    ]


def _windows() -> list[Row]:
    def beta(at: Market) -> np.ndarray:
        return run("ta.beta", src=at.mean("low"), benchmark=at.mean("high"), len=5)

    return [
        _row("ta.stdev(close, 20)", "STDDEV_20", "ta.stdev", src="close", len=20),
        _row("ta.variance(close, 20)", "VAR_20", "ta.variance", src="close", len=20),
        _row("ta.linreg(close, 14)", "LINEARREG_14", "ta.linreg", src="close", len=14),
        _row("ta.linearreg_slope(close, 14)", "LINEARREG_SLOPE_14", "ta.linearreg_slope",
             src="close", len=14, floor=0.1,
             rule="relative to at least 0.1 a bar: TA-Lib's sums cancel where the slope is 0"),
        _row("ta.tsf(close, 14)", "TSF_14", "ta.tsf", src="close", len=14),
        _row("ta.highest(close, 20)", "MAX_20", "ta.highest", src="close", len=20),
        _row("ta.lowest(close, 20)", "MIN_20", "ta.lowest", src="close", len=20),
        _row("ta.midpoint(close, 14)", "MIDPOINT_14", "ta.midpoint", src="close", len=14),
        _row("sums.total(close, 20)", "SUM_20", "sums.total", src="close", len=20),
        _row("ta.correlation(high, low, 30)", "CORREL_HL_30", "ta.correlation", x="high",
             y="low", len=30),
        Row("ta.beta(low, high, 5)", "TA-Lib BETA", MARKET, "BETA_HL_5", beta,
            rule="TA-Lib's first argument is the market"),
    ]


def _prices() -> list[Row]:
    return [
        _row("ta.typprice()", "TYPPRICE", "ta.typprice", data="bars"),
        _row("ta.medprice()", "MEDPRICE", "ta.medprice", data="bars"),
    ]
