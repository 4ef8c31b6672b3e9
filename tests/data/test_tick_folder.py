"""Several files of ticks of one instrument: one stream, in order of receipt, whole messages."""

import numpy as np
import pytest

from quantdsl.data.tick_data import open_tick_data
from quantdsl.errors import DataError
from quantdsl.events.layout import MORE, Kind
from tests.data.test_tick_data import at, quotes, spec, streamed, table

BOOK = ["time,is_snapshot,side,price,size"]


def trades(*rows: str) -> list[str]:
    return ["time,price,size,side", *rows]


def told(events: np.ndarray) -> list[tuple[Kind, int]]:
    return [(Kind(e["kind"]), (int(e["ts_recv"]) - at(0)) // 1_000_000_000) for e in events]


def test_quotes_trades_and_a_book_are_one_stream(tmp_path):
    book = [f"{at(0)},true,bid,10.0,5", f"{at(0)},true,ask,10.1,5", f"{at(3)},false,bid,10.0,7"]
    table(tmp_path, BOOK + book, "a_book.csv")
    table(tmp_path, quotes(*(f"{at(s)},10.0,10.1,1,1" for s in (1, 3))), "b_quotes.csv")
    table(tmp_path, trades(*(f"{at(s)},10.1,1,buy" for s in (1, 2, 3))), "c_trades.csv")
    (tmp_path / ".hidden").write_text("no ticks")
    events = streamed(spec(tmp_path, ticks="book quotes trades"))
    assert told(events) == [
        (Kind.BOOK_SNAPSHOT, 0), (Kind.BOOK_DELTA, 0), (Kind.BOOK_DELTA, 0),
        (Kind.QUOTE, 1), (Kind.TRADE, 1), (Kind.TRADE, 2),
        (Kind.BOOK_DELTA, 3), (Kind.QUOTE, 3), (Kind.TRADE, 3),
    ]  # fmt: skip
    assert np.flatnonzero(events["flags"] & MORE).tolist() == [0, 1]


def test_files_of_days_are_what_one_file_is(tmp_path):
    rows = [f"{at(n)},10.{n % 7}0,10.{n % 7}1,{n % 5 + 1},2" for n in range(300)]
    (tmp_path / "days").mkdir()
    table(tmp_path, quotes(*rows))
    for day in range(3):
        table(tmp_path / "days", quotes(*rows[100 * day : 100 * day + 100]), f"{2 - day}.csv")
    whole = streamed(spec(tmp_path / "ticks.csv"))
    assert (streamed(spec(tmp_path / "days")) == whole).all()


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a": quotes("{1},9,10,1,1"), "b": ["time,high", "{1},9"]}, "b.csv: holds no ticks"),
        (
            {"a": quotes("{1},9,10,1,1", "{3},9,10,1,1"), "b": quotes("{2},9,10,1,1")},
            "hold the same kind of ticks of the same time",
        ),
        (
            {"a": quotes("{1},9,10,1,1"), "b": trades("{3},9,1,buy", "{2},9,1,buy")},
            "b.csv: .* backward time",
        ),
        (
            {"a": quotes("{1},9,10,1,1"), "b": ["received,time,price,size", "{3},{3},9,1"]},
            "they differ in times of receipt",
        ),
        (
            {
                "a": ["time,symbol,bid,ask", "{1},A/B,9,10"],
                "b": ["time,symbol,price,size", "{3},AB,9,1"],
            },
            r"they differ in symbols \(A/B, AB\)",
        ),
        ({}, "the folder holds no file of ticks"),
    ],
    ids=["no ticks", "two of one kind", "out of order", "receipt", "symbols", "empty"],
)
def test_what_is_no_whole_is_refused(files, said, tmp_path):
    moments = {f"{{{n}}}": str(at(n)) for n in range(4)}
    for name, lines in files.items():
        text = "\n".join(lines)
        for mark, moment in moments.items():
            text = text.replace(mark, moment)
        table(tmp_path, text.split("\n"), f"{name}.csv")
    with pytest.raises(DataError, match=said):
        open_tick_data(spec(tmp_path))


def test_a_table_without_rows_does_not_tell_that_nothing_happened(tmp_path):
    table(tmp_path, quotes(f"{at(1)},10.0,10.1,1,1", f"{at(2)},10.0,10.1,1,1"), "a_quotes.csv")
    table(tmp_path, trades(), "b_trades.csv")
    with pytest.raises(DataError, match=r"holds quotes, and the .* for trades[\s\S]*with rows"):
        open_tick_data(spec(tmp_path, ticks="quotes trades"))


def test_files_without_a_symbol_are_of_the_one_that_others_name(tmp_path):
    rows = ["time,symbol,bid,ask,bid_size,ask_size", f"{at(1)},A/B,9,10,1,1"]
    table(tmp_path, rows, "a_quotes.csv")
    table(tmp_path, trades(f"{at(2)},9,1,buy"), "b_trades.csv")
    data = open_tick_data(spec(tmp_path, ticks="quotes trades"))
    assert [kind for kind, _ in told(np.concatenate(list(data.chunks())))] == [
        Kind.QUOTE, Kind.TRADE
    ]  # fmt: skip


def test_the_books_of_lobster_are_read_with_their_messages(tmp_path, shared_data):
    name = "AAPL_2012-06-21_message_10_first999.csv"
    for one in (name, name.replace("message", "orderbook")):
        (tmp_path / one).write_bytes((shared_data / "book/lobster" / one).read_bytes())
    folder = streamed(spec(tmp_path, ticks="book"))
    assert np.array_equal(folder, streamed(spec(tmp_path / name, ticks="book")))
    assert len(folder) > 1_000


def test_what_is_counted_is_counted_once(tmp_path):
    table(tmp_path, quotes(f"{at(1)},10.0,10.0,1,1", f"{at(2)},10.0,10.1,1,1"), "a.csv")
    table(tmp_path, trades(f"{at(1)},10.05,1,buy"), "b.csv")
    for source in (tmp_path / "a.csv", tmp_path):
        data = open_tick_data(spec(source))
        for _ in range(2):
            assert sum(map(len, data.chunks())) > 0
            data.bars_table()
        assert sum("bad ticks: 1 locked quote" in note for note in data.notes) == 1
