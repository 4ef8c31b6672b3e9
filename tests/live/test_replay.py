"""A session through `quantdsl replay` and `quantdsl compare`: the same bytes, and why not."""

import hashlib
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantdsl.cli import run
from quantdsl.config import find
from quantdsl.journal.format import BlockKind, frame
from quantdsl.journal.reader import OPEN, segments
from quantdsl.live.creation import Wish, create
from quantdsl.live.feed import open_feed
from quantdsl.live.machine import usable
from quantdsl.live.manifest import Manifest
from quantdsl.live.sequencer import Sequencer
from quantdsl.live.strategy import LiveStrategy
from quantdsl.shipped import shipped
from tests.live.programs import ready

MISSED = slice(1000, 1040)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """(session on a recording that lacks some bars, that recording, the whole of it)."""
    folder = tmp_path_factory.mktemp("recorded")
    bars = ready("sma_cross").data.bars_table(0)[:2000]
    columns = {name: pa.array(bars[name] / 100) for name in ("open", "high", "low", "close")}
    times = pa.array(bars["ts_recv"]).cast(pa.timestamp("ns", "UTC"))
    table = pa.table({"timestamp": times, **columns, "volume": pa.array(bars["volume"])})
    there = np.ones(len(bars), bool)
    there[MISSED] = False
    whole, holed, session = (
        folder / name for name in ("whole.parquet", "holed.parquet", "session")
    )
    pq.write_table(table, whole)
    pq.write_table(table.filter(pa.array(there)), holed)
    said = {"data.path": holed, "paper.speed": 1e6}
    wish = Wish(shipped("strategies/sma_cross.qdsl"), {})
    carried(session, create(session, [wish], config=find("paper_replay"), said=said))
    return session, holed, whole


def carried(folder: Path, manifest: Manifest) -> None:
    """A session without processes around it: as long as it takes on a machine that is busy."""
    strategy = LiveStrategy(folder, manifest, manifest.strategies[0])
    feed, sequencer = open_feed(manifest.feeds[0]), Sequencer([strategy.lane])
    strategy.start(max(usable()), pytest.fail)  # it has no signal that a worker would answer
    feed.run(sequencer, threading.Event())
    sequencer.advance(feed.now_ns())
    strategy.stop()
    assert strategy.look() == ""


def test_a_replay_gives_every_byte_again(recorded, capsys):
    session, _, _ = recorded
    assert run(["replay", str(session)]) == 0
    said = capsys.readouterr().out
    records = b"".join(one.outputs().tobytes() for one in segments(session / "SmaCross"))
    assert len(records) > 64 * 100
    assert f"all {len(records) // 64:,} records the same, byte for byte" in said
    assert hashlib.sha256(records).hexdigest() in said
    assert run(["replay", str(session / "SmaCross")]) == 0
    assert capsys.readouterr().out == said


def test_the_same_data_give_the_same_orders(recorded, capsys):
    session, holed, _ = recorded
    assert run(["compare", str(session), "--data", str(holed)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert all(line.endswith("the same, 0 different") for line in said)


def test_what_the_session_missed_explains_every_difference(recorded, capsys):
    session, _, whole = recorded
    assert run(["compare", str(session), "--data", str(whole), "--all"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) > 3
    assert all("missed data" in line for line in said if line.startswith("  "))
    assert "is not in the session" in said[2]


@pytest.mark.parametrize("words", [["compare", "."], ["compare", ".", ".", "--data", "."]])
def test_a_comparison_needs_one_other(words, capsys):
    assert run(words) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "name a second run, or --data PATH for the journal of a session" in said
    assert ("and not both" in said) is (len(words) > 2)


def test_a_folder_that_is_no_session_is_told(tmp_path, capsys):
    assert run(["replay", str(tmp_path)]) == 2
    assert "is no session\nhelp: name the folder of a session" in capsys.readouterr().err


def test_a_changed_record_is_found(recorded, tmp_path, capsys):
    """A journal whose frames are whole and whose records are not those of the run."""
    session, _, _ = recorded
    changed = tmp_path / "session"
    for path in session.rglob("*"):
        if path.is_file():
            target = changed / path.relative_to(session)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (journal,) = (changed / "SmaCross").glob(f"*{OPEN}")
    (segment,) = segments(changed / "SmaCross")
    rewritten = segment.header.pack()

    blocks = [
        block._replace(data=bytes([block.data[0] ^ 1]) + bytes(block.data[1:]))
        if block.kind == BlockKind.OUTPUT
        else block
        for block in segment.blocks
    ]
    journal.write_bytes(rewritten + frame(segment.header.salt, 0, 0, blocks))
    assert run(["replay", str(changed)]) == 2
    assert "the replay of the journal differs at record 0" in capsys.readouterr().err
