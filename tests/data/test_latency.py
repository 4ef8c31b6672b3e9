"""Files of measured latencies: rows in time order, by symbol, of another time; what is refused."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.data.instrument import Instrument
from quantdsl.data.latency import Latencies
from quantdsl.data.times import parse_instant
from quantdsl.errors import DataError, LimitError
from quantdsl.events.layout import Feed, Kind
from quantdsl.limits import LATENCY_ROWS

ONE, OTHER = Instrument(symbol="AAA"), Instrument(symbol="BBB")
START = parse_instant("2024-08-08T12:00:00Z")
SECOND = 1_000_000_000


def latencies(folder: Path, rows: str, seconds: float = 10.0, instruments=(ONE,)) -> Latencies:
    path = folder / "latency.csv"
    path.write_text(rows, encoding="utf-8")
    return Latencies(str(path), instruments, (START, START + round(seconds * SECOND)))


def table(*rows: tuple[float, str, float, float]) -> str:
    """Rows of (seconds after the start, symbol, entry, response)."""
    lines = ["time,symbol,entry_us,response_us"]
    for second, symbol, entry, response in rows:
        moment = np.datetime64(START + round(second * SECOND), "ns")
        lines.append(f"{moment}Z,{symbol},{entry},{response}")
    return "\n".join(lines) + "\n"


def told(found: Latencies) -> list[tuple[float, int, int, int]]:
    """(seconds after the start, instrument, entry ns, response ns) of each event."""
    events = found.events
    assert set(events["kind"].tolist()) <= {Kind.FEED}
    assert set(events["side"].tolist()) <= {Feed.LATENCY}
    seconds = (events["ts_recv"] - START) / SECOND
    assert (events["ts_event"] == events["ts_recv"] - events["payload"][:, 1]).all()
    return [(s, int(e["instrument"]), *e["payload"][:2].tolist())
            for s, e in zip(seconds.tolist(), events, strict=True)]  # fmt: skip


def test_rows_hold_from_their_time_on_and_the_first_from_the_start(tmp_path):
    rows = table((4, "AAA", 30, 40.5), (2, "AAA", 10, 20), (2, "BBB", 1, 2), (11, "AAA", 9, 9))
    assert told(latencies(tmp_path, rows)) == [(0, 0, 10_000, 20_000), (4, 0, 30_000, 40_500)]
    both = told(latencies(tmp_path, rows, instruments=(OTHER, ONE)))
    assert both == [(0, 0, 1_000, 2_000), (0, 1, 10_000, 20_000), (4, 1, 30_000, 40_500)]


def test_what_held_at_the_start_is_kept(tmp_path):
    rows = table((-9, "AAA", 1, 1), (-3, "AAA", 2, 2), (5, "AAA", 3, 3))
    assert told(latencies(tmp_path, rows)) == [(0, 0, 2_000, 2_000), (5, 0, 3_000, 3_000)]


def test_a_table_without_symbols_is_of_every_instrument(tmp_path):
    rows = f"time,entry_us,response_us\n{START // SECOND},5,6\n"
    found = told(latencies(tmp_path, rows, instruments=(ONE, OTHER)))
    assert found == [(0, 0, 5_000, 6_000), (0, 1, 5_000, 6_000)]


def test_a_file_of_another_time_is_played_from_the_start_again_and_again(tmp_path):
    day = 86_400.0
    rows = table((day, "AAA", 1, 1), (day + 1, "AAA", 2, 2), (day + 3, "AAA", 3, 3))
    found = latencies(tmp_path, rows, seconds=6)
    # It lasts three seconds, and the usual step of one and a half after its last row.
    assert told(found) == [
        (0, 0, 1_000, 1_000), (1, 0, 2_000, 2_000), (3, 0, 3_000, 3_000),
        (4.5, 0, 1_000, 1_000), (5.5, 0, 2_000, 2_000),
    ]  # fmt: skip
    assert "of another time: played 2 times" in found.statement()[0]


def test_without_a_file_there_is_nothing():
    found = Latencies("", [ONE], (START, START + SECOND))
    assert (len(found.events), found.statement(), found.hashes()) == (0, [], [])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("when,symbol,took\n1,AAA,2\n", "is no table of latencies; it has when, symbol, took"),
        (table((1, "CCC", 1, 1)), "holds no latency of AAA"),
        (table((1, "AAA", 1, 1), (2, "AAA", -1, 1)), "row 2 has no time, or a latency that"),
        (table((1, "AAA", 1e9 + 1, 1)), "row 1 has no time, or a latency that"),
        (table((1, "AAA", float("nan"), 1)), "row 1 has no time, or a latency that"),
    ],
    ids=["columns", "symbols", "negative", "years", "nan"],
)
def test_what_is_no_latency_is_named_with_its_place(tmp_path, rows, said):
    with pytest.raises(DataError, match=said):
        latencies(tmp_path, rows)


def test_a_short_file_is_not_played_without_end(tmp_path):
    rows = table((-1e6, "AAA", 5, 6), (-1e6 + 1e-6, "AAA", 5, 6))
    with pytest.raises(LimitError, match=LATENCY_ROWS.name):
        latencies(tmp_path, rows, seconds=100)
