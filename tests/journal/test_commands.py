"""`quantdsl journal`: what it shows, exports, verifies, and refuses."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from quantdsl.cli import run
from quantdsl.cli.replay import _trades
from quantdsl.events.arrow import rows_of
from quantdsl.events.layout import EVENT, RECORD, Kind
from quantdsl.journal.reader import OPEN
from quantdsl.journal.writer import Policy
from quantdsl.report.order_sizes import CHANGED
from quantdsl.report.order_words import LINE_BITS, NONE
from tests.journal.helpers import contents, opened, written
from tests.journal.test_recovery import begun, chunks, drive


def test_shows_what_a_journal_holds(tmp_path, capsys):
    prepared = begun("sma_cross")
    journal = opened(tmp_path)
    drive(prepared, journal, chunks(prepared)[:20])
    journal.close()
    inputs, outputs, _ = contents(tmp_path)
    assert run(["journal", "show", str(tmp_path), "--last", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{tmp_path}: ended in order\n")
    assert f"{len(inputs):,} events: " in said
    assert f"{len(outputs):,} records: " in said
    assert f"{(outputs['kind'] == 8).sum():,} fill" in said
    assert said.count("instrument 0") == 3


def test_a_change_of_an_order_is_no_order(tmp_path, capsys):
    made = np.zeros(3, RECORD)
    made["kind"], made["a"], made["flags"] = Kind.ORDER, 1, (0, CHANGED, CHANGED)
    journal = opened(tmp_path)
    journal.outputs(made)
    journal.close()
    assert run(["journal", "show", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "3 records: 2 change, 1 order\n" in said
    assert said.count("UTC  change") == 2
    assert _trades(made) == "1 order, 2 changes, 0 fills"


def test_tells_orders_in_words_and_why_they_were_refused(tmp_path, capsys):
    made = np.zeros(5, RECORD)
    made["kind"] = Kind.ORDER, Kind.REJECT, Kind.FILL, Kind.CANCEL, Kind.RISK
    made["flags"] = 0, 9, 0, 26, 0
    made["a"] = 1, 2, 1, 1, 19
    made["b"] = 2_000, 5, 1_500, 500, 1_800
    made["c"] = 101, 102, 101, 0, 1_500
    made["d"] = NONE, 12, 0, 0, 0
    made["e"] = (3 << LINE_BITS) + 11, 0, 1_500, 0, 0
    journal = opened(tmp_path)
    journal.outputs(made)
    journal.close()
    assert run(["journal", "show", str(tmp_path)]) == 0
    told = [line.split("instrument 0  ")[1] for line in capsys.readouterr().out.splitlines()[-5:]]
    assert told == [
        "order 1: +2,000 lots, limit 101 ticks, line 11",
        "order 2 refused: max position, line 12",
        "order 1 fills: +1,500 lots at 101 ticks, position +1,500 lots",
        "order 1 ends: expired",
        "max daily loss: 1,800 against 1,500",
    ]


def test_exports_every_word(tmp_path, capsys):
    session, out = tmp_path / "session", tmp_path / "out"
    for name in ("one", "two"):
        written(session / name, 30, policy=Policy(segment_bytes=1000))
    assert run(["journal", "export", str(session), "--out", str(out)]) == 0
    assert "60 events, 30 records" in capsys.readouterr().out
    for name in ("one", "two"):
        inputs, outputs, _ = contents(session / name)
        events = rows_of(pq.read_table(out / name / "events.parquet"))
        assert events.view(EVENT).tobytes() == inputs.tobytes()
        records = rows_of(pq.read_table(out / name / "records.parquet"))
        assert records.tobytes() == outputs.tobytes()


def test_exports_what_lies_before_the_damage(tmp_path, capsys):
    journal = tmp_path / "journal"
    written(journal, 3)
    written(journal, 5)
    path = journal / f"00000002{OPEN}"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    assert run(["journal", "export", str(journal), "--out", str(tmp_path / "out")]) == 2
    assert "damaged at byte 88" in capsys.readouterr().err
    table = pq.read_table(tmp_path / "out" / "journal" / "events.parquet")
    assert rows_of(table)["ts_event"].tolist() == list(range(6))


@pytest.mark.parametrize(
    ("cut", "says"),
    [(0, "ended in order"), (10, "killed in the middle of a write: 30 bytes of it are left out")],
)
def test_verifies(tmp_path, capsys, cut, says):
    written(tmp_path, 3, end=True)
    path = tmp_path / f"00000001{OPEN}"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - cut])
    assert run(["journal", "verify", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: 1 segment whole, {says}\n"
    path.write_bytes(np.frombuffer(data, np.uint8).copy()[::-1].tobytes())
    assert run(["journal", "verify", str(tmp_path)]) == 2
    assert "no segment of a journal, or its start is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["show"], ["verify"], ["export", "--out", "out"]])
def test_a_folder_without_a_journal_is_told(tmp_path, capsys, words):
    assert run(["journal", words[0], str(tmp_path), *words[1:]]) == 2
    assert "there is no journal\nhelp: name the folder of a session" in capsys.readouterr().err
