"""The real files of the shared data folder load, and every price comes back as its decimal."""

import csv as csv_module
import gzip
import tarfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from quantdsl.errors import DataError
from tests.data.helpers import XNYS, bars, check_stream, events, one, utc

# path, rows, bar length, tick, lot
FILES = [
    ("bars/backtesting.py/GOOG.csv", 2148, "1d", "0.01", "1"),
    ("bars/backtesting.py/EURUSD.csv", 5000, "1h", "0.00001", "1"),
    ("bars/backtesting.py/BTCUSD.csv", 156, "1mo", "0.01", "0.0001"),
    ("bars/nautilus/6EH4.XCME_1min_bars_20240101_20240131.csv.gz", 29996, "1m", "0.00005", "1"),
    ("bars/nautilus/btc-perp-20211231-20220201_1m.csv.gz", 45031, "1m", "0.125", "0.00001"),
    ("bars/nautilus/fxcm/gbpusd-m1-bid-2012.csv.gz", 30117, "1m", "0.00001", "1"),
    ("bars/nautilus/fxcm/usdjpy-m1-ask-2013.csv.gz", 28761, "1m", "0.001", "1"),
    ("expected/tradingview/eurusd_60m_ohlcv.csv.gz", 23054, "1h", "0.00001", "1"),
    ("expected/tradingview/futures_pnl_ohlcv.csv.gz", 7913, "1h", "0.025", "1"),
    ("expected/tradingview/ta/sar.csv.gz", 200, "30m", "0.00001", "1"),
    ("universe/skfolio/sp500_index.csv.gz", 8313, "1d", "0.01", "1"),
    ("universe/skfolio/sp500_dataset.csv.gz#KO", 8313, "1d", "0.001", "1"),
]


@pytest.mark.parametrize(("path", "rows", "length", "tick", "lot"), FILES, ids=lambda v: str(v))
def test_file(shared_data: Path, path: str, rows: int, length: str, tick: str, lot: str) -> None:
    data = one(str(shared_data / path))
    assert data.rows == rows
    assert str(data.clocks[0]) == length
    assert data.instruments[0].tick == Fraction(tick)
    assert data.instruments[0].lot == Fraction(lot)
    assert len(check_stream(data)) == rows


def test_every_price_is_the_decimal_of_the_file(shared_data: Path) -> None:
    path = shared_data / "bars/nautilus/6EH4.XCME_1min_bars_20240101_20240131.csv.gz"
    made = bars(one(str(path)))
    with gzip.open(path, "rt") as file:
        rows = list(csv_module.DictReader(file))
    for field in ("open", "high", "low", "close"):
        exact = [int(Decimal(row[field]) / Decimal("0.00005")) for row in rows]
        assert made[field].tolist() == exact
        floats = made[field] * 1 / 20_000
        assert floats.tolist() == [float(row[field]) for row in rows]
    assert made["volume"].tolist() == [int(row["volume"]) for row in rows]


def test_zone_offsets_are_taken_from_the_file(shared_data: Path) -> None:
    data = one(str(shared_data / "expected/tradingview/eurusd_60m_ohlcv.csv.gz"))
    assert data.span[0] == utc("2022-01-02T22:00")
    assert not any("without a zone" in note for note in data.notes)


def test_times_without_zone_are_utc_and_said(shared_data: Path) -> None:
    path = str(shared_data / "bars/backtesting.py/EURUSD.csv")
    data = one(path)
    assert any("read as UTC" in note for note in data.notes)
    moved = one(path, tz="America/New_York")
    assert moved.span[0] - data.span[0] == 4 * 3600 * 10**9


def test_daily_dates_become_sessions(shared_data: Path) -> None:
    made = bars(one(str(shared_data / "bars/backtesting.py/GOOG.csv"), session=XNYS))
    assert len(made) == 2148
    assert made["ts_recv"][0] == utc("2004-08-19T13:30")
    assert made["ts_event"][0] == utc("2004-08-19T20:00")
    assert utc("2004-11-26T18:00") in made["ts_event"]  # the half day after Thanksgiving


def test_wide_table_needs_a_ticker(shared_data: Path) -> None:
    path = str(shared_data / "universe/skfolio/sp500_dataset.csv.gz")
    with pytest.raises(DataError, match=r"20 tickers .* choose one by instrument"):
        one(path)
    with pytest.raises(DataError, match=r"has no column 'JPN'.*did you mean 'JPM'"):
        one(f"{path}#JPN")
    data = one(path, symbol="XNYS:PEP")
    assert data.instruments[0].name == "XNYS:PEP"
    assert any("closes only" in note for note in data.notes)
    assert "no volume: it is read as 0, and with volume_share nothing fills" in data.notes


def test_coarser_file_is_an_error_that_names_both(shared_data: Path) -> None:
    path = str(shared_data / "bars/backtesting.py/GOOG.csv")
    with pytest.raises(DataError, match=r"GOOG.csv: holds bars of 1d .* asks for bars of\s+5m"):
        one(path, clocks=("5m",))


def test_minutes_become_hours_and_days(shared_data: Path) -> None:
    path = str(shared_data / "bars/nautilus/btc-perp-20211231-20220201_1m.csv.gz")
    minutes = bars(one(path))
    data = one(path, clocks=("1h", "1d"))
    check_stream(data)
    hours, days = bars(data), bars(data, clock=1)
    assert len(days) == 32  # the hour before midnight is a day's bar of its own, and it is said
    assert days["volume"].sum() == hours["volume"][:745].sum()
    assert "bars of the data missing inside bars of 1h: 1" in data.notes
    assert "bars of the data missing inside bars of 1d: 1,381" in data.notes
    second = slice(59, 119)  # the file begins at 23:01
    assert hours["high"][1] == minutes["high"][second].max()
    assert hours["close"][1] == minutes["close"][second][-1]


@pytest.fixture(scope="module")
def stocks(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The 505 stock files, unpacked outside the repository."""
    folder = tmp_path_factory.mktemp("stocks")
    archive = shared_data / "universe/cnuge/individual_stocks_5yr.tar.xz"
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return next(folder.rglob("*.csv")).parent


def test_all_505_stocks(stocks: Path) -> None:
    good = bad = 0
    dropped: dict[str, int] = {}
    for path in sorted(stocks.glob("*.csv")):
        data = one(str(path), bad_rows="drop")
        good += data.rows
        for reason, count in data.feeds[0].reader.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
            bad += count
    assert good + bad == 619_040
    assert dropped == {"missing value": 11, "prices outside low to high": 12}


def test_bad_row_names_file_and_row(stocks: Path) -> None:
    faults = []
    for path in sorted(stocks.glob("*.csv")):
        try:
            one(str(path))
        except DataError as error:
            faults.append(str(error))
    assert faults
    assert all("_data.csv: row " in fault and "(line " in fault for fault in faults)


def test_parquet_is_the_same_as_csv(shared_data: Path, tmp_path: Path) -> None:
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    source = shared_data / "bars/backtesting.py/EURUSD.csv"
    table = pyarrow.csv.read_csv(source)
    table = table.rename_columns(["time", *table.column_names[1:]])
    pyarrow.parquet.write_table(table, tmp_path / "EURUSD.parquet")
    pyarrow.feather.write_feather(table, tmp_path / "EURUSD.feather")
    expected = events(one(str(source)))
    for ending in ("parquet", "feather"):
        assert np.array_equal(events(one(str(tmp_path / f"EURUSD.{ending}"))), expected)
    assert np.array_equal(events(one(table)), expected)
