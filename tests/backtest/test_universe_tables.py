"""Whose bars a folder, a long table and a wide one hold, for a universe."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

import quantdsl
from quantdsl.errors import DataError

TEXT = """language 1

strategy All:
    bars 1d
    universe "ALL"

    let ret = close / close[1] - 1
"""
DAYS = pd.bdate_range("2024-01-01", periods=20)


def bars(symbol: str | None = None, start: int = 0, stop: int = 20) -> pd.DataFrame:
    """Some days of an instrument, with its symbol where there is one."""
    closes = [10.0 + day for day in range(start, stop)]
    columns = dict.fromkeys(("open", "high", "low", "close"), closes)
    named = {} if symbol is None else {"symbol": symbol}
    return pd.DataFrame({"time": DAYS[start:stop], **named, **columns, "volume": 100.0})


def rows(data: object) -> dict[str, int]:
    """How many bars each instrument has."""
    table = quantdsl.compile(TEXT).signals(data)
    return dict(table["instrument"].cast("string").to_pandas().value_counts())


def test_files_of_one_symbol_in_a_folder_are_parts_of_its_bars(tmp_path: Path) -> None:
    """The last one alone was read, and the history before it was lost."""
    bars(stop=12).to_csv(tmp_path / "A_2023.csv", index=False)
    bars(start=12).to_csv(tmp_path / "A_2024.csv", index=False)
    bars().to_csv(tmp_path / "B.csv", index=False)
    bars().to_csv(tmp_path / "A.US.csv", index=False)  # of another, and no part of A
    assert rows(tmp_path) == {"A": 20, "A.US": 20, "B": 20}
    bars().to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="are parts of one table, in order of name"):
        rows(tmp_path)


@pytest.mark.parametrize("missing", [None, " "])
def test_a_row_without_a_symbol_is_refused(missing: str | None) -> None:
    """It was a bar of an instrument called NONE."""
    table = pd.concat([bars("A"), bars("B").assign(symbol=missing)])
    with pytest.raises(DataError, match="row 21: its symbol is empty, or such as NA"):
        rows(table)


def test_symbols_that_differ_in_the_case_of_letters_alone_are_refused() -> None:
    """Bars of one of them were left out."""
    with pytest.raises(DataError, match="A and a are one instrument, in letters of another case"):
        rows(pd.concat([bars("A"), bars("B"), bars("a")]))


@pytest.mark.parametrize("names", [["time", "a", "B"], ["B", "a", "time"]])
def test_a_wide_table_of_any_case_and_order_is_read(tmp_path: Path, names: list[str]) -> None:
    """It had "no bars of a, which the data names"."""
    closes = [10.0 + day for day in range(20)]
    wide = pd.DataFrame({"time": DAYS, "a": closes, "B": closes})[names]
    wide.to_csv(tmp_path / "wide.csv", index=False)
    for data in (wide, tmp_path / "wide.csv"):
        assert rows(data) == {"A": 20, "B": 20}


def test_a_ticker_may_be_called_like_a_column_of_times(tmp_path: Path) -> None:
    """TIME passed for the times of the table, and its dates for an instrument."""
    closes = [10.0 + day for day in range(20)]
    wide = pd.DataFrame({"Date": DAYS, "A": closes, "TIME": closes})
    wide.to_csv(tmp_path / "wide.csv", index=False)
    for data in (wide, tmp_path / "wide.csv"):
        assert rows(data) == {"A": 20, "TIME": 20}
    named = wide.rename(columns={"Date": "index", "TIME": "TS"})
    named.to_csv(tmp_path / "named.csv", index=False)
    for data in (named, tmp_path / "named.csv"):
        assert rows(data) == {"A": 20, "TS": 20}


def test_a_cell_without_a_number_of_a_wide_table_is_no_bar(tmp_path: Path) -> None:
    """Who is listed late was a bad row, and stopped the run without the name of its column."""
    wide = pd.DataFrame({"date": DAYS, "A": [10.0 + day for day in range(20)]})
    wide["LATE"] = wide["A"].where(wide.index >= 12)
    wide.to_csv(tmp_path / "wide.csv", index=False)
    for data in (wide, tmp_path / "wide.csv"):
        assert rows(data) == {"A": 20, "LATE": 8}
    notes = quantdsl.compile(TEXT).describe(tmp_path / "wide.csv").notes
    told = r"wide.csv, column LATE: 8 bars of 1d .*; none in 12 cells without a number$"
    assert any(re.search(told, note) for note in notes)
    wide.loc[15, "LATE"] = -1.0
    wide.to_csv(tmp_path / "wide.csv", index=False)
    with pytest.raises(DataError, match=r", column LATE: row 16 \(line 17\): price not positive"):
        rows(tmp_path / "wide.csv")


def test_columns_of_two_levels_are_refused() -> None:
    """Each was an instrument of its own, such as ('CLOSE', 'A')."""
    closes = pd.DataFrame({"date": DAYS, "A": [10.0 + day for day in range(20)]}).set_index("date")
    frame = pd.concat(dict.fromkeys(("open", "high", "low", "close"), closes), axis=1)
    with pytest.raises(DataError, match=r"have 2 levels, such as \('open', 'A'\)\nhelp: make one"):
        rows(frame)
    frame.columns.names = ["price", "symbol"]
    assert rows(frame.stack("symbol").reset_index()) == {"A": 20}


def test_rows_that_are_in_no_order_are_said_to_be_left_out(tmp_path: Path) -> None:
    """It was said that finer data are needed."""
    back = [day + 1 - day % 2 * 2 for day in range(20)]  # 1, 0, 3, 2, ...
    bars().to_csv(tmp_path / "A.csv", index=False)
    bars().iloc[back].to_csv(tmp_path / "B.csv", index=False)
    options = {"data": {"bad_rows": "drop"}}
    with pytest.raises(DataError, match=r"B\.csv: holds bars of .*\nhelp: left out are .* back"):
        quantdsl.compile(TEXT).signals(tmp_path, config=options)


def test_members_that_are_not_read_are_told_of() -> None:
    config = {"universe.members": "members.csv"}
    text = f"{TEXT}\n    at 15:45:\n        rebalance(xs.weights(ret))\n"
    notes = quantdsl.backtest(text, bars("A"), config=config).result.notes
    assert "the universe is 1 instrument as listed today" in notes[0]
    assert "universe.members is not read, as the strategy does not say point_in" in notes[0]


SPARSE = {"two days": [2, 3], "one day": [7], "every other": range(0, 20, 2), "weekly": [2, 7, 12]}


def long_table(days: Sequence[int]) -> pd.DataFrame:
    return pd.concat([bars("A"), bars("B"), bars("C").iloc[[*days]]])


def wide_table(days: Sequence[int]) -> pd.DataFrame:
    closes = bars()["close"]
    return pd.DataFrame({"time": DAYS, "A": closes, "B": closes, "C": closes.loc[[*days]]})


@pytest.mark.parametrize("days", SPARSE.values(), ids=SPARSE)
@pytest.mark.parametrize("make", [long_table, wide_table])
def test_rows_of_a_table_that_are_few_or_far_apart_are_bars_of_its_length(
    make: Callable[[Sequence[int]], pd.DataFrame], days: Sequence[int]
) -> None:
    """Two days over a weekend were bars of 72h, and one day none, so that nothing ran."""
    assert rows(make(days)) == {"A": 20, "B": 20, "C": len(days)}


def test_a_file_of_a_few_rows_is_of_bars_as_long_as_those_of_the_others(tmp_path: Path) -> None:
    for symbol, start in (("A", 0), ("B", 0), ("C", 19)):
        bars(start=start).to_csv(tmp_path / f"{symbol}.csv", index=False)
    assert rows(tmp_path) == {"A": 20, "B": 20, "C": 1}
    weekly = bars().assign(time=pd.bdate_range("2024-01-01", periods=20, freq="W-MON"))
    weekly.to_csv(tmp_path / "C.csv", index=False)
    with pytest.raises(DataError, match=r"C\.csv: holds bars of 1w"):
        rows(tmp_path)


def test_bars_of_a_day_beside_bars_of_minutes_are_no_bars_with_gaps() -> None:
    minutes = bars("A").assign(time=pd.date_range("2024-01-02", periods=20, freq="5min"))
    with pytest.raises(DataError, match="rows of B: holds bars of 1d and the strategy asks for"):
        quantdsl.compile(TEXT.replace("1d", "5m")).signals(pd.concat([minutes, bars("B")]))


def test_a_universe_of_single_rows_is_refused() -> None:
    with pytest.raises(DataError, match="holds one usable row only"):
        rows(pd.concat([bars("A", 3, 4), bars("B", 3, 4)]))
