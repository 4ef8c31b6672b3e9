"""Damaged recordings: a code each, counted, a book invalid after it, and never a crash."""

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from quantdsl.data.tick_feed import TickScan
from quantdsl.data.tick_formats import Opening, open_ticks
from quantdsl.data.ticks import Fault
from quantdsl.errors import DataError
from quantdsl.events.layout import Feed, Kind

SNAPSHOT = '{"lastUpdateId":10,"bids":[["100.0","1.0"]],"asks":[["101.0","1.0"]]}'


def change(first: int, last: int, before: int | None = None, bids: str = '["99.5","2.0"]') -> str:
    futures = "" if before is None else f',"pu":{before}'
    return (
        f'{{"stream":"x@depth","data":{{"e":"depthUpdate","E":1723161256000,"s":"XY","U":{first},'
        f'"u":{last}{futures},"b":[{bids}],"a":[]}}}}'
    )


def recording(folder: Path, messages: list[str]) -> Path:
    start = 1_723_161_256_000_000_000
    path = folder / "x.txt"
    path.write_text("".join(f"{start + n} {text}\n" for n, text in enumerate(messages)))
    return path


def decoded(path: Path, bad_rows: str = "drop"):
    reader = open_ticks(Opening(path, bad_rows=bad_rows))
    return reader.tally, np.concatenate(list(reader.chunks()))


def shown(events) -> list[str]:
    return [Kind(kind).name for kind in events["kind"]]


BOOK = ["BOOK_SNAPSHOT", "BOOK_DELTA", "BOOK_DELTA"]


def test_changes_before_the_snapshot_are_spliced_by_the_rule(tmp_path):
    messages = [change(8, 9), change(10, 12), change(13, 13), SNAPSHOT, change(14, 15)]
    tally, events = decoded(recording(tmp_path, messages))
    assert shown(events) == [*BOOK, *["BOOK_DELTA"] * 3]
    assert tally.counts == {Fault.NO_SNAPSHOT: 1}
    # What came before is had when the snapshot is.
    assert len(set(events["ts_recv"][:5].tolist())) == 1
    assert events["payload"][3:, 2].tolist() == [12, 13, 15]


@pytest.mark.parametrize(
    ("after", "gap"),
    [
        (change(11, 12), False),
        (change(12, 13), True),
        (change(9, 12, before=8), False),
        (change(11, 12, before=10), False),
        (change(12, 13, before=11), True),
    ],
)
def test_the_first_change_after_a_snapshot_must_reach_over_it(after, gap, tmp_path):
    """Spot: U <= id + 1 <= u; futures: U <= id <= u, or the one that follows it, pu == id."""
    tally, events = decoded(recording(tmp_path, [SNAPSHOT, after]))
    assert (events["kind"][-1] == Kind.FEED) == gap == (tally.counts[Fault.GAP] == 1)


def test_a_missing_change_is_a_gap_until_the_next_snapshot(tmp_path):
    later = SNAPSHOT.replace(":10,", ":15,")
    lost = [change(14, 14), change(15, 15)]
    messages = [SNAPSHOT, change(11, 12), *lost, later, change(16, 16)]
    tally, events = decoded(recording(tmp_path, messages), "stop")
    assert shown(events) == [*BOOK, "BOOK_DELTA", "FEED", *BOOK, "BOOK_DELTA"]
    assert events["side"][4] == Feed.GAP
    assert tally.counts[Fault.GAP] == 1


def of(symbol: str, text: str) -> str:
    return text.replace('"s":"XY"', f'"s":"{symbol}"')


def test_a_recording_of_which_nothing_can_be_used_says_why(tmp_path):
    def said(messages: list[str]) -> str:
        reader = open_ticks(Opening(recording(tmp_path, messages), bad_rows="drop"))
        with pytest.raises(DataError) as told:
            TickScan(reader, 0)
        return str(told.value).partition("holds no message that can be used")[2]

    without = said([change(8, 9), change(10, 12)])
    assert without.startswith(": 2 changes of a book before its snapshot\nhelp: record the venue's")
    first = f"the first: {tmp_path / 'x.txt'}: line 2: message not understood"
    damaged = said([change(8, 9), change(10, 12, bids='["x","2.0"]')])
    assert damaged.startswith(": 1 change of a book before its snapshot, 1 message not ")
    assert damaged.endswith(first)


def test_messages_of_another_symbol_are_none_of_ours(tmp_path):
    """They were taken into the one book, with prices of another market."""
    others = [of("XZ", change(11, 14)), of("XYZ", change(11, 14))]
    trade = '{"e":"trade","E":1723161256000,"s":"%s","t":7,"p":"99.5","q":"1.0","m":true}'
    messages = [SNAPSHOT, change(11, 12), *others, trade % "XZ", trade % "XY", change(13, 13)]
    path = recording(tmp_path, messages)
    with pytest.raises(DataError, match=r"holds 3 symbols \(XY, XZ, XYZ\): choose .*x\.txt#XY$"):
        decoded(path)
    with pytest.raises(DataError, match="has no symbol 'XX'; it holds XY, XZ, XYZ"):
        open_ticks(Opening(path, symbol="XX"))
    reader = open_ticks(Opening(path, symbol="XY"))
    events = np.concatenate(list(reader.chunks()))
    assert shown(events) == [*BOOK, "BOOK_DELTA", "TRADE", "BOOK_DELTA"]
    assert reader.tally.counts == {Fault.UNKNOWN_INSTRUMENT: 3}
    reader = open_ticks(Opening(path, symbol="XZ"))
    assert shown(np.concatenate(list(reader.chunks()))) == [*BOOK, "BOOK_DELTA", "TRADE"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        change(11, 12)[:-9],
        change(11, 12, bids='["99.5"]'),
        change(11, 12, bids='["99.5","1e5"]'),
        change(11, 12, bids='["99.123456789","1.0"]'),
        change(11, 12, bids='["99999999999999999999","1.0"]'),
    ],
)
def test_what_cannot_be_read_leaves_no_book(text, tmp_path):
    path = recording(tmp_path, [SNAPSHOT, text])
    with pytest.raises(DataError, match="line 2: message not understood"):
        decoded(path, "stop")
    tally, events = decoded(path)
    assert shown(events) == [*BOOK, "FEED"]
    assert tally.counts == {Fault.UNREADABLE: 1}


def test_a_damaged_archive_is_told(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00" + bytes(40))
    with pytest.raises(DataError, match="is damaged"):
        open_ticks(Opening(path))


def test_databento_cut_off_or_in_the_wrong_order_of_bytes(tmp_path, shared_data):
    pytest.importorskip("databento_dbn")
    import pyarrow as pa

    folder = shared_data / "ticks/databento"
    source = folder / "ESU4_trades_2024-07-01T23-58_2024-07-02T00-02.dbn.zst"
    raw = pa.input_stream(str(source), compression="detect").read()
    path = tmp_path / "x.dbn"
    path.write_bytes(raw[:-20])
    tally, events = decoded(path)
    assert tally.counts == {Fault.TRUNCATED: 1}
    assert len(events) == 119
    with pytest.raises(DataError, match="message cut off"):
        decoded(path, "stop")
    size = struct.unpack("<I", raw[4:8])[0]
    path.write_bytes(raw[:4] + struct.pack(">I", size) + raw[8:])
    with pytest.raises(DataError, match="wrong order"):
        open_ticks(Opening(path))
    path.write_bytes(raw[: 8 + size] + bytes(48) + raw[8 + size :])
    with pytest.raises(DataError, match="message not understood"):
        decoded(path, "stop")


def test_lobster_lines_that_are_none(tmp_path):
    path = tmp_path / "AAPL_2012-06-21_34200000_57600000_message_1.csv"
    good = "34200.5,1,7,10,5853300,1\n"
    path.write_text(good + "34200.6,9,8,10,5853300,1\n" + "34200.7,3,7,10,5853300,1\n")
    with pytest.raises(DataError, match="line 2: message not understood"):
        decoded(path, "stop")
    tally, events = decoded(path)
    assert shown(events) == ["BOOK_SNAPSHOT", "BOOK_DELTA", "FEED", "BOOK_DELTA"]
    assert tally.counts == {Fault.UNREADABLE: 1}


def test_a_lean_archive_without_a_line_is_refused(tmp_path):
    path = tmp_path / "20131007_trade.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("20131007_ibm_trade_tick.csv", "")
    with pytest.raises(DataError, match=r"20131007_trade.zip: the file is empty"):
        decoded(path)


def test_lean_marks_and_sides(shared_data):
    path = shared_data / "ticks/lean/equity/usa/tick/ibm/20131007_quote.zip"
    tally, events = decoded(path)
    assert len(events) + tally.counts[Fault.SUSPICIOUS] == 109_067
    trades, events = decoded(path.with_name("20131007_trade.zip"))
    assert len(events) + trades.counts[Fault.SUSPICIOUS] == 24_293
