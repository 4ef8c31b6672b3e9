"""Signals from Python: any table in, a pyarrow table out, and no copy on the way."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import quantdsl
from quantdsl.errors import ConfigError, DataError
from quantdsl.report.signal_report import SignalReport
from tests.std.universe import table as universe
from tests.std.universe import walks
from tests.tables import Streamed, hourly

STRATEGY = """language 1

strategy Fast:
    bars 1h
    param n = 5 in 2..10 step 1

    let fast = ta.sma(close, n)
    let up   = close > fast

    plot(fast)
"""
PANEL = """language 1

strategy Ranked:
    bars 1d
    universe "ALL"

    let past = close / close[3] - 1
    let rank = xs.rank(past)

    plot(xs.mean(rank))
"""


@pytest.fixture(scope="module")
def bars() -> pa.Table:
    return hourly(500)


def test_any_table_gives_the_same_signals(bars: pa.Table) -> None:
    found = quantdsl.signals(STRATEGY, bars, n=4)
    assert found.schema.names == ["time", "instrument", "fast", "up"]
    for other in (bars.to_pandas(), Streamed(bars)):
        assert quantdsl.signals(STRATEGY, other, params={"n": 4}).equals(found)


def test_any_table_of_a_universe_gives_the_same_signals() -> None:
    bars, wide = of_two()
    found = quantdsl.signals(PANEL, bars)
    assert len(found) == 18
    for other in (bars.to_pandas(), Streamed(bars)):
        assert quantdsl.signals(PANEL, other).equals(found)
    for other in (wide, wide.set_index("date")):
        assert quantdsl.signals(PANEL, other)["rank"].equals(found["rank"])


def test_a_bad_row_of_a_universe_names_whose_it_is(tmp_path: Path) -> None:
    bars, wide = of_two()
    bad = bars.to_pandas()
    bad.loc[13, "high"] = 1.0
    bad.to_csv(tmp_path / "long.csv", index=False)
    with pytest.raises(DataError, match="the DataFrame given, rows of BBB: row 7: prices outside"):
        quantdsl.signals(PANEL, bad)
    with pytest.raises(DataError, match=r"long\.csv, rows of BBB: row 7: prices outside"):
        quantdsl.signals(PANEL, str(tmp_path / "long.csv"))
    wide.loc[4, "AAA"] = -1.0
    with pytest.raises(DataError, match="the DataFrame given, column AAA: row 5: "):
        quantdsl.signals(PANEL, wide)
    with pytest.raises(DataError, match="the DataFrame given: holds no rows"):
        quantdsl.signals(PANEL, bad.iloc[:0])


def of_two() -> tuple[pa.Table, pd.DataFrame]:
    """Nine bars of two instruments as a long table, and their closes in columns."""
    dates = pd.bdate_range("2024-01-02", periods=9)
    closes = {"AAA": [10.0, 11.0, 10.5] * 3, "BBB": [20.0, 19.0, 21.0] * 3}
    wide = pd.DataFrame({"date": dates, **closes})
    long = wide.melt("date", var_name="symbol", value_name="close")
    long = long.sort_values(["date", "symbol"], ignore_index=True)
    long["open"] = long["high"] = long["low"] = long["close"]
    return pa.Table.from_pandas(long, preserve_index=False), wide


def test_polars_gives_the_same_signals(bars: pa.Table) -> None:
    polars = pytest.importorskip("polars")
    found = quantdsl.signals(STRATEGY, bars, n=4)
    assert quantdsl.signals(STRATEGY, polars.from_arrow(bars), n=4).equals(found)


def test_the_values_are_those_of_pandas(bars: pa.Table) -> None:
    found = quantdsl.signals(STRATEGY, bars, n=4).to_pandas()
    expected = pd.Series(bars["close"].to_numpy()).rolling(4).mean()
    assert found["fast"].to_numpy() == pytest.approx(expected.to_numpy(), rel=1e-9, nan_ok=True)
    up = bars["close"].to_numpy() > expected.to_numpy()
    assert found["up"].tolist()[3:] == up.tolist()[3:]
    assert found["up"].isna().sum() == 3


def test_columns_go_out_without_a_copy(bars: pa.Table) -> None:
    found = quantdsl.signals(STRATEGY, bars, n=4)
    again = pa.RecordBatchReader.from_stream(found).read_all()
    ours, theirs = (one["fast"].chunk(0).buffers()[1].address for one in (found, again))
    assert ours == theirs


def test_a_universe_is_described_across_its_instruments() -> None:
    strategy = quantdsl.compile(PANEL)
    data = universe(walks(12, 60))
    table = strategy.signals(data)
    assert len(table["instrument"].unique()) == 12
    report = strategy.describe(data)
    assert isinstance(report, SignalReport)
    assert report.across
    assert report.distribution["signal"].to_pylist() == ["past", "rank"]
    assert len(report.foretold) == 10
    assert report.rows == len(table)
    shown = f"{strategy.name}: 2 signals, 12 instruments, {len(table):,} rows"
    assert repr(report) == f"<SignalReport of {shown}>"
    mean = report.distribution["mean"].to_pylist()[0]
    assert mean == pytest.approx(pc.mean(table["past"]).as_py(), rel=1e-9)


def test_a_description_is_of_who_is_in_the_universe() -> None:
    """A rank correlation of a signal was that of all instruments, members or not."""
    chosen = PANEL.replace('universe "ALL"', 'universe "ALL", filter = close > 52')
    every, some = (
        quantdsl.compile(text).describe(universe(walks(12, 60))) for text in (PANEL, chosen)
    )
    told = ["who is in the universe" in " ".join(one.notes) for one in (every, some)]
    assert told == [False, True]
    past, rank = some.studies  # what goes through xs.* is of members alone
    assert past.foretold[0].spearman == rank.foretold[0].spearman
    assert past.foretold[0].spearman != every.studies[0].foretold[0].spearman
    assert past.coverage == rank.coverage
    assert past.cells < every.studies[0].cells == some.rows


def test_a_setting_given_as_a_param_is_told_where_it_belongs(bars: pa.Table) -> None:
    with pytest.raises(ConfigError, match=r"; of a config there is data\.tz$"):
        quantdsl.signals(STRATEGY, bars, tz="America/New_York")


def test_one_of_several_instruments_of_a_table_is_chosen_in_the_strategy(bars: pa.Table) -> None:
    """A table in memory has no path to put a '#' behind."""
    names = pa.array([f"N{row % 2}" for row in range(bars.num_rows)])
    with pytest.raises(DataError, match="choose one by instrument \"N0\" in the strategy"):
        quantdsl.signals(STRATEGY, bars.append_column("symbol", names))


def test_a_param_that_is_not_there_is_named(bars: pa.Table) -> None:
    with pytest.raises(ConfigError, match="no param 'm'"):
        quantdsl.signals(STRATEGY, bars, m=4)
