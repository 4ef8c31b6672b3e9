"""Signals of the real universe against pandas, polars, exact sums, and each stock by itself."""

import math
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from quantdsl.backtest.panels import PanelTurn
from quantdsl.backtest.signals import prepare_signals
from tests.std.universe import compiled

TIGHT = 1e-9
EQUATIONS = """
    let ret   = close / close[1] - 1
    let mean  = ts.mean(ret, 20)
    let wide  = ts.std(ret, 20)
    let z     = ts.zscore(float(close), 60)
    let fast  = ta.ema(close, 12)
    let rsi   = ta.rsi(close, 14)
    let atr   = ta.atr(14)
    let hist  = ta.macd(close).hist
"""
ACROSS = """
    let rank  = xs.rank(z)
    let drawn = xs.winsorize(mean, 5%)
    let score = xs.zscore(wide)
    let both  = xs.corr(mean, wide)
    let tenth = xs.quantile(ret, 10%)
"""
UNIVERSE = f"""language 1
strategy All:
    "Each stock, then across them."
    bars 1d
    universe "ALL"
{EQUATIONS}{ACROSS}"""
ALONE = f"""language 1
strategy One:
    "A stock by itself."
    bars 1d
{EQUATIONS}"""


@pytest.fixture(scope="module")
def stocks(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 505 stocks, a file each."""
    folder = tmp_path_factory.mktemp("stocks")
    with tarfile.open(shared_data / "universe/cnuge/individual_stocks_5yr.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return next(folder.rglob("*.csv")).parent


@pytest.fixture(scope="module")
def signals(stocks: Path) -> pa.Table:
    """A row of each stock's bar, and its close."""
    prepared = prepare_signals(compiled(UNIVERSE), data=str(stocks), bad_rows="drop", closes=True)
    assert isinstance(prepared.turn, PanelTurn)
    return prepared.table()


def wide(signals: pa.Table, name: str) -> pd.DataFrame:
    """A column as [time, stock]; a stock without a bar has none."""
    frame = pd.DataFrame(
        {
            "time": signals["time"].cast(pa.int64()).to_numpy(),
            "stock": signals["instrument"].cast(pa.string()).to_pylist(),
            "value": signals[name].to_numpy(),
        }
    )
    return frame.pivot(index="time", columns="stock", values="value")


def close_to(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Equal at 1e-9 of the largest, with the same ones missing."""
    ours, theirs = found.to_numpy(), expected.to_numpy()
    assert np.array_equal(np.isnan(ours), np.isnan(theirs))
    assert np.nanmax(np.abs(ours - theirs)) <= TIGHT * max(np.nanmax(np.abs(theirs)), 1e-3)


def test_pandas_has_the_same(signals: pa.Table) -> None:
    """Along time by each stock's own bars; ranks and who is missing exactly."""
    assert len(set(signals["instrument"].to_pylist())) == 505
    z, mean, spread, ret = (wide(signals, name) for name in ("z", "mean", "wide", "ret"))
    closes = wide(signals, "close of the bar")
    for stock in closes.columns[::10]:
        own = closes[stock].dropna()
        change = own / own.shift(1) - 1
        rolling = own.rolling(60)
        expected = {
            "ret": change,
            "mean": change.rolling(20).mean(),
            "wide": change.rolling(20).std(),
            "z": (own - rolling.mean()) / rolling.std(),
        }
        for name, series in expected.items():
            found = {"ret": ret, "mean": mean, "wide": spread, "z": z}[name][[stock]]
            close_to(found.loc[own.index], series.to_frame())
    ranks = wide(signals, "rank")
    assert np.array_equal(ranks, z.rank(axis=1, pct=True), equal_nan=True)
    low, high = mean.quantile(0.05, axis=1), mean.quantile(0.95, axis=1)
    close_to(wide(signals, "drawn"), mean.clip(low, high, axis=0))
    middle, width = spread.mean(axis=1), spread.std(axis=1)
    close_to(wide(signals, "score"), spread.sub(middle, axis=0).div(width, axis=0))
    one = wide(signals, "both").max(axis=1).to_frame()
    close_to(one, mean.where(spread.notna()).corrwith(spread, axis=1).to_frame())
    tenth = wide(signals, "tenth").max(axis=1).to_frame()
    close_to(tenth, ret.quantile(0.1, axis=1).to_frame())


def direct(window: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation by their definitions: exact sums, in two passes."""
    middle = math.fsum(window) / len(window)
    squares = math.fsum((value - middle) ** 2 for value in window)
    return middle, math.sqrt(squares / (len(window) - 1))


def test_windows_of_each_stock_by_their_definitions(signals: pa.Table) -> None:
    """Every stock, each at other days: exact sums over the window alone, at 1e-12."""
    every = np.array(signals["instrument"].cast(pa.string()).to_pylist())
    columns = {name: signals[name].to_numpy() for name in ("ret", "mean", "wide", "z")}
    closes = signals["close of the bar"].to_numpy()
    checked = 0
    for number, stock in enumerate(np.unique(every)):
        rows = np.flatnonzero(every == stock)
        own, close = {name: column[rows] for name, column in columns.items()}, closes[rows]
        change = own["ret"][1:]  # of ticks, whose ratio is rounded once
        assert np.abs(change - (close[1:] / close[:-1] - 1)).max() < 1e-15 * 8
        for end in range(60 + number % 97, len(rows), 97):
            middle, spread = direct(change[end - 20 : end])
            assert own["mean"][end] == pytest.approx(middle, rel=0, abs=1e-12 * spread)
            assert own["wide"][end] == pytest.approx(spread, rel=1e-12)
            middle, spread = direct(close[end - 59 : end + 1])
            wanted = (close[end] - middle) / spread
            room = 1e-12 * max(abs(wanted), middle / spread)
            assert own["z"][end] == pytest.approx(wanted, rel=0, abs=room)
            checked += 1
    assert checked > 4_000


def test_polars_has_the_same_cross_sections(signals: pa.Table) -> None:
    """At each instant of the whole universe: ranks exactly, the rest at 1e-9.

    A rank is place / count, divided once. Where polars divides a column by a number it multiplies
    by the number's reciprocal, which rounds twice and is away by one in the last bit for two ranks
    of five. So the count is a column here, and that other way is shown to be all the difference.
    """
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(signals.drop_columns(["instrument"]))
    of = polars.col("z")
    ranked = frame.filter(of.is_not_nan()).with_columns(
        place=of.rank("average").over("time"),
        count=polars.len().over("time"),
        shortcut=(of.rank("average") / polars.len()).over("time"),
    )
    ours, place, shortcut = (ranked[name].to_numpy() for name in ("rank", "place", "shortcut"))
    count = ranked["count"].to_numpy().astype(float)
    assert len(ours) > 500_000
    assert np.array_equal(ours, place / count)
    by_reciprocal = shortcut != ours
    assert np.array_equal(shortcut[by_reciprocal], (place * (1.0 / count))[by_reciprocal])
    of = polars.col("wide")
    scored = frame.filter(of.is_not_nan()).with_columns(
        ((of - of.mean()) / of.std()).over("time").alias("theirs"),
    )
    away = (scored["score"] - scored["theirs"]).abs()
    assert float(away.max()) <= TIGHT * float(scored["theirs"].abs().max())
    of = polars.col("ret")
    cut = frame.filter(of.is_not_nan()).with_columns(
        theirs=of.quantile(0.1, "linear").over("time")
    )
    away = (cut["tenth"] - cut["theirs"]).abs()
    assert float(away.max()) <= TIGHT * float(cut["theirs"].abs().max())


def test_a_stock_by_itself_has_the_same_bits(signals: pa.Table, stocks: Path) -> None:
    names = [line.split()[1] for line in EQUATIONS.strip().splitlines()]
    every = np.array(signals["instrument"].cast(pa.string()).to_pylist())
    for path in sorted(stocks.glob("*.csv"))[::60]:
        symbol = path.name.partition("_")[0]
        alone = prepare_signals(compiled(ALONE), data=str(path), bad_rows="drop").table()
        rows = np.flatnonzero(every == symbol)
        for name in names:
            ours = signals[name].to_numpy()[rows]
            assert np.array_equal(ours, alone[name].to_numpy(), equal_nan=True), (symbol, name)
