"""Shapes and forms of tables: column names, times, packing, and clear words for what is wrong."""

import gzip
import os
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdsl.data import table
from quantdsl.data.events import open_data
from quantdsl.data.rows import Reading, RowReader
from quantdsl.data.spec import DataSpec, SourceSpec
from quantdsl.data.tick_table import TickTableReader
from quantdsl.errors import ConfigError, DataError
from tests.data.helpers import bars, csv, events, one, utc

ROWS = "2024-01-02 10:00,1.5,2,1,1.75,10\n2024-01-02 10:01,1.75,2.5,1.5,2,20\n"
PLAIN = "time,open,high,low,close,volume\n" + ROWS


@pytest.mark.parametrize(
    "header",
    [
        "time,open,high,low,close,volume",
        ",Open,High,Low,Close,Volume",
        "Unnamed: 0,OPEN,HIGH,LOW,CLOSE,VOL",
        "timestamp_utc,o,h,l,c,v",
        "Date,Open,High,Low,Last,Tick Volume",
        "window_start,open,high,low,close,volume",
        "<DATETIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>",
    ],
)
def test_column_names(tmp_path: Path, header: str) -> None:
    made = bars(one(csv(tmp_path, f"{header}\n{ROWS}")))
    assert made["open"].tolist() == [150, 175]
    assert made["volume"].tolist() == [10, 20]


def test_volumes_of_0_alone_are_told(tmp_path: Path) -> None:
    """As of currencies from MT5, whose <TICKVOL> counts: with volume_share nothing fills."""
    header = "<DATETIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<TICKVOL>,<VOL>\n"
    told = [
        [note for note in one(csv(tmp_path, header + rows), **columns).notes if "every v" in note]
        for rows in (ROWS.replace("\n", ",0\n"), ROWS.replace("\n", ",3\n"))
        for columns in ({}, {"columns": {"volume": "<TICKVOL>"}})
    ]
    assert told[1:] == [[], [], []]
    (note,) = told[0]
    assert "every volume is 0, and with volume_share nothing fills; data.col" in note


@pytest.mark.parametrize(
    ("opens", "told"),
    [
        ((100, 51, 52, 210), "after a close of 100, as a split makes it, the first of 2 such"),
        ((100, 14.4, 14), "opens at 14.4 after a close of 100, as a split makes it, and nothing"),
        ((100, 61, 40, 72), None),
        ((1, 2, 1, 2, 1, 2, 1), None),  # of ticks
    ],
)
def test_a_jump_as_of_a_split_is_told_unless_a_file_of_splits_is_given(
    tmp_path: Path, opens: tuple[float, ...], told: str | None
) -> None:
    """What is held of prices that are not adjusted loses six sevenths in a night."""
    rows = [f"2024-01-{day:02},{x},{x},{x},{x},9" for day, x in enumerate(opens, 1)]
    path = csv(tmp_path, "\n".join(["time,open,high,low,close,volume", *rows]) + "\n")
    notes = [note for note in one(path).notes if "as a split" in note]
    assert len(notes) == (told is not None)
    assert all(str(told) in note for note in notes)
    splits = csv(tmp_path, "time,action,value\n2024-01-02,split,2\n", "splits.csv")
    assert not [note for note in one(path, actions=str(splits)).notes if "as a split" in note]


def test_a_column_of_symbols_that_names_nobody_says_nothing(tmp_path: Path) -> None:
    rows = "2024-01-02,,1\n2024-01-03,,2\n"
    assert bars(one(csv(tmp_path, f"date,symbol,close\n{rows}")))["close"].tolist() == [1, 2]
    named = csv(tmp_path, f"date,symbol,close\n{rows}2024-01-04,KO,3\n", "named.csv")
    with pytest.raises(DataError, match=r"row 1.*no symbol"):
        one(named)


@pytest.mark.parametrize(
    "times",
    [
        ("2024-01-02T10:00:00Z", "2024-01-02T10:01:00Z"),
        ("2024-01-02 05:00-05:00", "2024-01-02 05:01-05:00"),
        ("2024-01-02T05:00:00-0500", "2024-01-02T05:01:00-0500"),
        ("1704189600", "1704189660"),
        ("1704189600000", "1704189660000"),
        ("1704189600000000", "1704189660000000"),
        ("1704189600000000000", "1704189660000000000"),
        ("2024.01.02 10:00", "2024.01.02 10:01"),
        ("2024/01/02 10:00:00", "2024/01/02 10:01:00"),
        ("20240102 10:00", "20240102 10:01"),
        ("2024-01-02 10:00:00.000000", "2024-01-02 10:01:00.000000"),
    ],
)
def test_forms_of_time(tmp_path: Path, times: tuple[str, str]) -> None:
    text = "time,close\n" + "".join(
        f"{time},{price}\n" for time, price in zip(times, (1, 2), strict=True)
    )
    assert one(csv(tmp_path, text)).span == (utc("2024-01-02T10:00"), utc("2024-01-02T10:01"))


def test_time_in_two_columns(tmp_path: Path) -> None:
    text = "<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\n"
    text += "2024.01.02\t10:00:00\t1\t2\t1\t2\n2024.01.02\t10:05:00\t1\t2\t1\t2\n"
    data = one(csv(tmp_path, text))
    assert data.span == (utc("2024-01-02T10:00"), utc("2024-01-02T10:05"))


def test_american_dates_need_their_form_named(tmp_path: Path) -> None:
    path = csv(tmp_path, "date,close\n01/02/2024,1\n01/03/2024,2\n")
    with pytest.raises(DataError, match="'01/02/2024' is not a time that can be read"):
        one(path)
    assert one(path, time_format="%m/%d/%Y").span[0] == utc("2024-01-02")


def test_compact_dates(tmp_path: Path) -> None:
    data = one(csv(tmp_path, "date,close\n20240102,1\n20240103,2\n"))
    assert data.span == (utc("2024-01-02"), utc("2024-01-03"))
    assert str(data.clocks[0]) == "1d"


def test_zone_of_times(tmp_path: Path) -> None:
    text = "time,close\n2024-03-08 09:30,1\n2024-03-08 09:31,1\n2024-03-11 09:30,1\n"
    data = one(csv(tmp_path, text), tz="America/New_York")
    assert data.span == (utc("2024-03-08T14:30"), utc("2024-03-11T13:30"))
    for own in (text, "time,close\n2024-03-08T09:30Z,1\n2024-03-08T09:31Z,1\n"):
        with pytest.raises(ConfigError, match="time zone 'Mars/Base' is not known"):
            one(csv(tmp_path, own), tz="Mars/Base")


def test_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    text = "time;open;high;low;close\n2024-01-02;1,5;2,25;1,0;2,0\n2024-01-03;2,0;2,5;1,5;2,25\n"
    made = bars(one(csv(tmp_path, text)))
    assert made["high"].tolist() == [225, 250]


def test_packed_files_are_the_same(tmp_path: Path) -> None:
    plain = events(one(csv(tmp_path, PLAIN)))
    with gzip.open(tmp_path / "bars.csv.gz", "wt") as file:
        file.write(PLAIN)
    with zipfile.ZipFile(tmp_path / "bars.csv.zip", "w") as archive:
        archive.writestr("bars.csv", PLAIN)
    with pa.CompressedOutputStream(str(tmp_path / "bars.csv.zst"), "zstd") as stream:
        stream.write(PLAIN.encode())
    for ending in ("gz", "zip", "zst"):
        assert np.array_equal(events(one(str(tmp_path / f"bars.csv.{ending}"))), plain)


def test_a_zip_archive_holds_one_table_beside_hidden_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bars.zip", "w") as archive:
        archive.writestr("bars.csv", PLAIN)
        archive.writestr("__MACOSX/._bars.csv", "\0")
    assert np.array_equal(
        events(one(str(tmp_path / "bars.zip"))), events(one(csv(tmp_path, PLAIN)))
    )
    with zipfile.ZipFile(tmp_path / "bars.zip", "a") as archive:
        archive.writestr("more.csv", PLAIN)
    with pytest.raises(DataError, match=r"holds 2 files \(bars.csv, more.csv\); a zip archive"):
        one(str(tmp_path / "bars.zip"))


def test_mapping_of_columns(tmp_path: Path) -> None:
    path = csv(tmp_path, "when,first,max,min,end\n2024-01-02,1,2,1,2\n2024-01-03,1,2,1,2\n")
    mapping = {"time": "when", "open": "first", "high": "max", "low": "min", "close": "end"}
    assert one(path, columns=mapping).rows == 2
    with pytest.raises(DataError, match=r"names the column 'whn'.*did you mean 'when'"):
        one(path, columns=mapping | {"time": "whn"})
    with pytest.raises(DataError, match=r"a column is one of .* did you mean 'time'"):
        one(path, columns={"tme": "when"})


def test_folder_of_parts_and_of_symbols(tmp_path: Path) -> None:
    for year in (2022, 2023):
        text = f"date,close\n{year}-01-03,1\n{year}-01-04,2\n"
        csv(tmp_path, text, f"{year}.csv")
    assert one(str(tmp_path)).rows == 4
    with pytest.raises(DataError, match="has no file for KO; it holds 2022, 2023"):
        one(str(tmp_path), symbol="XNYS:KO")
    csv(tmp_path, "date,close\n2024-01-03,5\n2024-01-04,6\n", "ko_daily.csv")
    assert bars(one(str(tmp_path), symbol="XNYS:KO"))["close"].tolist() == [5, 6]


def test_a_file_of_another_instrument_is_never_taken(tmp_path: Path) -> None:
    """BRK read BRK.B.csv, and BRK.B found no file at all."""
    for close, name in enumerate(("BRK.B", "BTC-USD", "ES=F", "KO-2024", "KO-A"), start=1):
        csv(tmp_path, f"date,close\n2024-01-03,{close}\n2024-01-04,{close}\n", f"{name}.csv")
    for close, symbol in enumerate(("brk.b", "BTC/USD", "ES=F", "KO", "KO-A"), start=1):
        assert bars(one(str(tmp_path), symbol=symbol))["close"].tolist() == [close, close]
    csv(tmp_path, "date,close\n2024-01-03,9\n2024-01-04,9\n", "pep.us.csv")
    assert bars(one(str(tmp_path), symbol="PEP"))["close"].tolist() == [9, 9]
    names = {"BRK.B": "BRK.B", "ES=F": "ES=F", "KO-2024": "KO", "pep.us": "PEP"}
    for name, symbol in names.items():
        assert one(str(tmp_path / f"{name}.csv")).instruments[0].symbol == symbol
    for symbol in ("BRK", "BTC", "ES", "K"):
        with pytest.raises(DataError, match=f"has no file for {symbol}; it holds BRK.B, BTC-USD"):
            one(str(tmp_path), symbol=symbol)


def test_files_of_several_instruments_are_no_parts_of_one_table(tmp_path: Path) -> None:
    for name in ("KO", "PEP"):
        csv(tmp_path, "date,close\n2024-01-03,1\n2024-01-04,1\n", f"{name}.csv")
    with pytest.raises(DataError, match=r"PEP.csv: row 1 .* backward time.* name one file"):
        one(str(tmp_path))
    told = one(str(tmp_path), bad_rows="drop").feeds[0].reader.first_fault
    assert told.endswith("where each is of an instrument of its own, name one file.")


def test_parts_are_read_in_order_of_their_numbers(tmp_path: Path) -> None:
    for part in range(1, 13):
        csv(tmp_path, f"date,close\n2024-{part:02}-03,{part}\n", f"KO_{part}.csv")
    assert bars(one(str(tmp_path), clocks=("1mo",)))["close"].tolist() == list(range(1, 13))


def test_table_of_several_symbols(tmp_path: Path) -> None:
    text = (
        "date,symbol,close\n2024-01-02,KO,1\n2024-01-02,PEP,5\n2024-01-03,KO,2\n2024-01-03,PEP,6\n"
    )
    path = csv(tmp_path, text)
    assert bars(one(path, symbol="XNYS:PEP"))["close"].tolist() == [5, 6]
    assert bars(one(f"{path}#ko"))["close"].tolist() == [1, 2]
    with pytest.raises(DataError, match=r"several instruments \(KO, PEP\): choose one by"):
        one(path)
    with pytest.raises(DataError, match=r"has no row of 'GE'.*holds KO, PEP"):
        one(path, symbol="GE")


@pytest.mark.parametrize("symbol", ["", "KO"])
def test_a_row_that_does_not_say_whose_it_is_is_a_bad_one(tmp_path: Path, symbol: str) -> None:
    """It was left out without a word, or of an instrument None."""
    days = (f"2024-01-{day:02},{'' if day == 4 else 'KO'},{day}" for day in range(2, 9))
    path = csv(tmp_path, "\n".join(("date,symbol,close", *days)))
    with pytest.raises(DataError, match=r"row 3 \(line 4\): no symbol: its symbol is empty"):
        one(path, symbol=symbol)
    data = one(path, symbol=symbol, bad_rows="drop")
    assert bars(data)["close"].tolist() == [2, 3, 5, 6, 7, 8]
    assert f"{path}: bad rows left out: 1 no symbol" in data.notes


def test_live_tables(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    index = pandas.date_range("2024-01-02 10:00", periods=3, freq="min")
    frame = pandas.DataFrame({"Open": 1.5, "High": 2.0, "Low": 1.0, "Close": 1.25}, index=index)
    made = bars(one(frame))
    assert made["close"].tolist() == [125] * 3
    arrow = pa.table({"time": pa.array(index), "close": pa.array([1.1, 1.2, 1.3], pa.float32())})
    assert bars(one(arrow))["close"].tolist() == [11, 12, 13]
    with pytest.raises(DataError, match="the dict given is not a table"):
        one({"time": []})
    with pytest.raises(DataError, match="the Table given: the table has no column"):
        one(pa.table({}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "the file is empty"),
        (b"\x00\x01\x02\x03" * 64, "is not a table: its first bytes are 00 01 02 03"),
        (b"\xff\xfet\x00i\x00m\x00e\x00", "is not a table: it is text in UTF-16: save it as UTF-8"),
        (b"PK\x03\x04 broken\0", "is not a table: it is packed by zip, and its name does not end"),
        (
            gzip.compress(b"time,close\n", mtime=0),
            "it is packed by gzip, and its name does not end in .gz",
        ),
        ("time,close,Prämie\n".encode("latin-1"), "is not a table: line 1 is no text in UTF-8"),
        (b"PAR1 broken", "is a damaged Parquet file"),
        (b"ARROW1\x00\x00 broken", "is a damaged Arrow file"),
        (b"hello world\n", "is not a table: its first line is 'hello world'"),
        (b'{"topic":"book","data":[["1","2"],["1","2"]]}\n', "its lines are JSON, of which"),
        (b'1737.5: {"channel":"trades","data":[]}\n', "its lines are JSON, of which"),
        (b"time,open,open\n1,2,3\n", "the column 'open' stands there twice"),
        (b"a,b,c\n1,2,3\n", "no column for time among 'a', 'b', 'c'"),
        (b"tiem,open,high,low,close\n", "no column for time .* did you mean 'tiem'"),
        (
            b"ticker,open,high,low,close,when\n",
            r"no column for time .* 'when'\nhelp: .* = \"NAME\"",
        ),
        (b"time,open,high,close\n2024-01-02,1,2,1\n", r'no column for low[\s\S]* low = "NAME" '),
        (
            b"2024,1.5,2.5,1.5,2.0\n2025,1,2,3,4\n",
            "its first line holds values and no column names",
        ),
        (b"time,close\n", "holds no usable row"),
        (b"time,close\n2024-01-02,1\n", "holds one usable row only"),
        (b"time,close\n2024-01-02,one\n2024-01-03,2\n", "line 2: close is 'one'.* not a number"),
        (b"time,close\n2024-01-02,1\n2024-01-03,2,3\n", "line 3 has 3 cells and the header has 2"),
        (
            b"time,close\n2024-01-02,1\nyesterday,1\ntoday,2\n",
            r"row 2 \(line 3\): time not understood: 'yesterday' is not a time",
        ),
        (
            b"time,close\n0001-01-02,1\n",
            r"row 1 \(line 2\): time not understood: '0001-01-02' lies outside the years",
        ),
        (
            b"time,close\n,3\n2024-01-02,1\n2024-01-01T00:00Z,2\n",
            r"row 3 \(line 4\): '2024-01-01T00:00Z' has a zone .* give all of them the same form",
        ),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"time,close\n2024-01-02,1\n\xe9t\xe9,2\n", "is not a table: line 3 is no text in UTF-8"),
        (b"time,close\n2024-01-02,1\n2024-01-03,2\x00\n", "is not a table: line 3 is no text"),
        (
            b"time,close\n2024-01-02,1\n2024-01-03," + b"x" * 200_000 + b"\n",
            "line 3: field larger than field limit",
        ),
        (b"\x00" * 70_000, "its first line has more than 65,536 bytes"),
        (b"time,close," + b"x," * 40_000, "its first line has more than 65,536 bytes"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bars.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        one(str(path))
    assert str(path) in str(caught.value)


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file or folder"):
        one(str(tmp_path / "none.csv"))
    with pytest.raises(DataError, match="holds no data file"):
        one(str(tmp_path))


def test_damaged_gzip(tmp_path: Path) -> None:
    packed = gzip.compress(PLAIN.encode() * 1000)
    (tmp_path / "bars.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match="is damaged"):
        one(str(tmp_path / "bars.csv.gz"))


@pytest.mark.parametrize("kind", ["Parquet", "Arrow"])
def test_damage_in_the_middle_names_the_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bars"
    table = pa.table({"time": list(range(1_700_000_000, 1_700_005_000)), "close": [1.5] * 5_000})
    if kind == "Parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    damaged = bytearray(path.read_bytes())
    damaged[200:600] = b"\xff" * 400
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=f"bars: is a damaged {kind} file: "):
        one(str(path))


GOOD = "2024-01-02,5,6,4,5,9\n"
BAD = [
    ("2024-01-03,nan,6,4,5,9\n", "missing value"),
    ("2024-01-03,5,,4,5,9\n", "missing value"),
    ("2024-01-03,5,4,6,5,9\n", "prices outside low to high"),
    ("2024-01-03,7,6,4,5,9\n", "prices outside low to high"),
    ("2024-01-03,5,6,-4,5,9\n", "price not positive"),
    ("2024-01-03,5,inf,4,5,9\n", "infinite value"),
    ("2024-01-03,5,1e400,4,5,9\n", "infinite value"),
    ("2024-01-03,5,6,4,5,-9\n", "volume negative"),
    ("2024-01-03,5,1e13,4,5,9\n", "price outside 1e-09 to 1e"),
    ("2024-01-02,5,6,4,5,9\n", "duplicate time"),
    ("2024-01-01,5,6,4,5,9\n", "backward time"),
    (",5,6,4,5,9\n", "no time"),
    ("yesterday,5,6,4,5,9\n", "time not understood"),
    ("2024-02-30,5,6,4,5,9\n", "time not understood"),
    ("9024-01-03,5,6,4,5,9\n", "time not understood"),
]


@pytest.mark.parametrize(("row", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_bad_rows_stop_or_are_counted(tmp_path: Path, row: str, reason: str) -> None:
    text = f"date,open,high,low,close,volume\n{GOOD}{row}2024-01-04,5,6,4,5,9\n"
    path = csv(tmp_path, text)
    with pytest.raises(DataError, match=rf"bars.csv: row 2 \(line 3\): {reason}.*--bad-rows drop"):
        one(path)
    data = one(path, bad_rows="drop")
    assert data.rows == 2
    assert any(f"bad rows left out: 1 {reason}" in note for note in data.notes)


@pytest.mark.parametrize(
    ("times", "form", "said"),
    [
        (("x", "1704189600", "", "soon", "1704189660"), None, "'x' is no number, and '1704189600'"),
        (("total", "2024-01-02T10:00Z", "-", "2024", "2024-01-02T10:01Z"), None, "'total' is not"),
        (("?", "02/01/2024 10:00", "", "2.1.", "02/01/2024 10:01"), "%d/%m/%Y %H:%M", "does not f"),
        (("20241301", "2024-01-02 10:00", "", "0", "2024-01-02 10:01"), None, "'20241301' is not"),
    ],
)
def test_times_that_cannot_be_read_stop_or_are_counted(
    tmp_path: Path, times: tuple[str, ...], form: str | None, said: str
) -> None:
    path = csv(tmp_path, "time,close\n" + "".join(f"{time},5\n" for time in times))
    with pytest.raises(DataError, match=rf"bars.csv: row 1 \(line 2\): .*{said}.*--bad-rows drop"):
        one(path, time_format=form)
    data = one(path, time_format=form, bad_rows="drop")
    assert data.span == (utc("2024-01-02T10:00"), utc("2024-01-02T10:01"))
    assert any("left out: 2 times not understood, 1 no time" in note for note in data.notes)


@pytest.mark.parametrize(
    "times",
    [
        pa.array([20240102, 20241301, 20240103]),
        pa.array([1704153600, 1704153600000, 1704240000]),
        pa.array([1704153600, 2**50, 1704240000], pa.timestamp("s")),
    ],
)
def test_numbers_that_are_no_time_are_bad_rows(tmp_path: Path, times: pa.Array) -> None:
    """A month 13 was January of the next year, and too many seconds another century."""
    path = tmp_path / "bars.parquet"
    pq.write_table(pa.table({"time": times, "close": [1.0, 2.0, 3.0]}), path)
    with pytest.raises(DataError, match="row 2: time not understood"):
        one(str(path))
    data = one(str(path), bad_rows="drop")
    assert data.span == (utc("2024-01-02"), utc("2024-01-03"))


def test_times_of_which_none_can_be_read_are_told_in_any_case(tmp_path: Path) -> None:
    path = csv(tmp_path, "time,close\n01/02/2024,1\n01/03/2024,2\n")
    with pytest.raises(DataError, match="name its form") as stopped:
        one(path)
    assert "--bad-rows" not in str(stopped.value)
    said = r"2 times not understood; the first: .*'01/02/2024' is not"
    with pytest.raises(DataError, match=said):
        one(path, bad_rows="drop")


@pytest.mark.parametrize(
    ("row", "told", "counted"),
    [
        ("2024-01-03,5,x,4,5,9\n", "line 3: high is 'x', which is not a number", "missing value"),
        ("2024-01-03,5,1_0,4,5,9\n", "which is not a number", "missing value"),
        ("2024-01-03,5,6,4,5\n", "line 3 has 5 cells", "wrong number of cells"),
    ],
)
def test_damaged_lines_stop_or_are_counted(
    tmp_path: Path, row: str, told: str, counted: str
) -> None:
    text = f"date,open,high,low,close,volume\n{GOOD}{row}2024-01-04,5, 6,4,5,9\n"
    path = csv(tmp_path, text)
    with pytest.raises(DataError, match=told):
        one(path)
    data = one(path, bad_rows="drop")
    assert data.rows == 2
    assert any(f"bad rows left out: 1 {counted}" in note for note in data.notes)


def test_a_point_is_no_decimal_sign_where_a_comma_is(tmp_path: Path) -> None:
    """7.256 shares would be 7256 there: no volume is read a thousand times too small."""
    head = "date;open;high;low;close;volume\n"
    lines = [f"2024-01-0{day};101,5;102,5;100,5;101,25;{day}.256\n" for day in range(2, 5)]
    good = "2024-01-05;101,5;102,5;100,5;101,25;7256\n2024-01-08;101,5;102,5;100,5;101,25;100\n"
    path = csv(tmp_path, head + "".join(lines) + good)
    with pytest.raises(DataError, match=r"line 2: volume is '2.256'.*decimals stand behind a com"):
        one(path)
    data = one(path, bad_rows="drop")
    assert data.rows == 2
    assert any("3 missing values" in note for note in data.notes)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("2024-01-03,2\n2024-01-02,1\n2024-01-01,1\n", "2 backward times; .*from new to old"),
        (
            "2024-01-02,x\n2024-01-03,y\n",
            r"2 missing values; the first: .*row 1 \(line 2\).*; close is 'x', which is not a",
        ),
        ("2024-01-02,1,2\n", "1 wrong number of cells; .*'2024-01-02,1,2' has 3 cells"),
    ],
)
def test_why_few_rows_are_left_is_told(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        one(csv(tmp_path, f"date,close\n{rows}"), bad_rows="drop")


def test_hidden_files_of_a_folder_are_no_data(tmp_path: Path) -> None:
    csv(tmp_path, PLAIN)
    (tmp_path / "._bars.csv").write_bytes(b"\x00\x05\x16\x07 of another system")
    assert one(tmp_path).rows == one(tmp_path / "bars.csv").rows


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "bars.csv"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="is a pipe, and data are read more than once"):
        one(pipe)


def test_a_ticker_of_a_table_without_tickers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither a column of symbols nor one named 'KO'"):
        one(f"{csv(tmp_path, PLAIN)}#KO")


def test_a_ticker_of_a_folder_of_files_is_told_its_file(tmp_path: Path) -> None:
    """The help was to leave it out, and then all files were taken for parts of one table."""
    csv(tmp_path, PLAIN, "PEP.csv")
    path = csv(tmp_path, PLAIN, "KO.csv")
    with pytest.raises(DataError, match=f"nor one named 'KO': name its file, {path}"):
        one(f"{tmp_path}#KO")


def test_newest_first_is_named(tmp_path: Path) -> None:
    text = "date,close\n" + "".join(f"2024-01-{day:02d},1\n" for day in range(20, 2, -1))
    with pytest.raises(DataError, match="from new to old: sort the file by time"):
        one(csv(tmp_path, text))


def test_one_instruments_bars_are_not_read_as_anothers(tmp_path: Path) -> None:
    path = csv(tmp_path, PLAIN)
    both = tuple(SourceSpec(symbol=name, source=path) for name in ("XNYS:KO", "XNYS:PEP"))
    with pytest.raises(DataError, match=r"bars of one instrument.* XNYS:KO, XNYS:PEP"):
        open_data(DataSpec(instruments=both))


@pytest.mark.parametrize(
    "text",
    [
        "time,KO,PEP\n2024-01-02 10:00,1,2\n2024-01-02 10:01,1.5,2.5\n",
        "time,symbol,open,high,low,close\n"
        "2024-01-02 10:00,KO,1,1,1,1\n2024-01-02 10:00,PEP,2,2,2,2\n"
        "2024-01-02 10:01,KO,1,1,1,1\n2024-01-02 10:01,PEP,2,2,2,2\n",
    ],
)
def test_a_table_of_several_tickers_serves_several_instruments(tmp_path: Path, text: str) -> None:
    path = csv(tmp_path, text)
    both = tuple(SourceSpec(symbol=name, source=path) for name in ("XNYS:KO", "XNYS:PEP"))
    data = open_data(DataSpec(instruments=both))
    first = [data.bars_table(i)["close"][0] * float(data.instruments[i].tick) for i in (0, 1)]
    assert first == pytest.approx([1, 2])


@pytest.mark.parametrize("zoned_first", [True, False])
@pytest.mark.parametrize("ticks", [True, False])
def test_times_that_name_a_zone_from_a_later_block_on_are_refused(
    tmp_path, monkeypatch, zoned_first, ticks
):
    """As those within one block are: their hours were moved, or counted as backward."""
    monkeypatch.setattr(table, "BLOCK_BYTES", 1 << 12)
    zones = ("Z", "") if zoned_first else ("", "Z")
    lines = ["time,price,size" if ticks else "time,close"]
    size, changed = len(lines[0]) + 1, 0
    for minute in range(200):
        tail = ",100.5,1\n" if ticks else ",100.5\n"
        time = f"2024-01-02T{minute // 60:02}:{minute % 60:02}:00"
        if not changed and size + len(time + zones[0] + tail) > table.BLOCK_BYTES:
            changed = minute  # the first row of the second block
        lines.append(time + zones[bool(changed)] + tail[:-1])
        size += len(lines[-1]) + 1
    assert changed
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines) + "\n")
    words = "no zone and the times before it have one" if zoned_first else "a zone and the times"
    said = rf"row {changed + 1} \(line {changed + 2}\): '2024-01-02T[0-9:]*Z?' has {words}"
    opened = table.open_table(path)
    reader = TickTableReader("x", opened) if ticks else RowReader("x", opened, Reading())
    with pytest.raises(DataError, match=said):
        list(reader.chunks())
