"""A journal gives back what was written, across openings, segments, threads and policies."""

import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from quantdsl.errors import JournalError
from quantdsl.journal.format import HEADER, PIECE_BYTES, codec
from quantdsl.journal.reader import CLOSED, OPEN, segments
from quantdsl.journal.writer import Journal, Policy
from tests.journal.helpers import DIGEST, contents, events, opened, records, written
from tests.waiting import until


def test_gives_back_what_was_written(tmp_path):
    written(tmp_path, 50, end=True)
    inputs, outputs, notes = contents(tmp_path)
    assert inputs["ts_event"].tolist() == list(range(100))
    assert outputs["ts_event"].tolist() == list(range(1000, 1050))
    assert notes == [f"note {k}".encode() for k in range(50)]
    (segment,) = segments(tmp_path)
    assert segment.ended
    assert segment.torn == 0
    assert segment.next[1:] == (51, 100, 50)


def test_a_note_knows_the_events_before_it(tmp_path):
    written(tmp_path, 3)
    (segment,) = segments(tmp_path)
    notes = [(block.tag, block.first) for block in segment.blocks if block.kind == 3]
    assert notes == [(7, 2), (7, 4), (7, 6)]


def test_goes_on_where_it_ended(tmp_path):
    for opening in range(4):
        journal = opened(tmp_path)
        assert journal.committed == (10 * opening, opening)
        journal.inputs(events(10 * opening, 10))
        journal.outputs(records(opening, 1))
        journal.commit()
        assert journal.committed == journal.taken == (10 * opening + 10, opening + 1)
        journal.abandon()
    inputs, outputs, _ = contents(tmp_path)
    assert inputs["ts_event"].tolist() == list(range(40))
    assert outputs["ts_event"].tolist() == list(range(4))


def test_segments_are_closed_and_compressed(tmp_path):
    journal = opened(tmp_path, policy=Policy(segment_bytes=20_000))
    for k in range(100):
        journal.inputs(np.repeat(events(k, 1), 20))
        journal.commit()
    journal.close()
    closed, still_open = list(tmp_path.glob(f"*{CLOSED}")), list(tmp_path.glob(f"*{OPEN}"))
    assert len(closed) == 6
    assert len(still_open) == 1
    assert sum(path.stat().st_size for path in closed) < 100 * 20 * 64 / 5
    inputs, _, _ = contents(tmp_path)
    assert inputs["ts_event"].tolist() == np.repeat(np.arange(100), 20).tolist()
    assert list(tmp_path.glob("*.new")) == []


def test_reads_from_an_event_on(tmp_path):
    journal = opened(tmp_path, policy=Policy(segment_bytes=1000))
    for k in range(40):
        journal.inputs(events(k, 1))
        journal.outputs(records(k, 1))
        journal.commit()
    journal.close()
    for after in (0, 1, 17, 39, 40):
        found = list(segments(tmp_path, after=after))
        rest = np.concatenate([segment.inputs(after)["ts_event"] for segment in found])
        assert rest.tolist() == list(range(after, 40))
    assert len(found) < len(list(segments(tmp_path))) / 2


@pytest.mark.parametrize("fsync", ["group", "interval", "never"])
def test_a_thread_commits_what_others_hand_over(tmp_path, fsync):
    policy = Policy(fsync=fsync, group_ms=1, interval_ms=20, segment_bytes=100_000)
    journal = Journal.open(tmp_path, manifest_digest=DIGEST, policy=policy)

    def hand_over(first: int) -> None:
        for k in range(first, first + 1000):
            journal.inputs(events(k, 1))
            if k % 100 == 0:
                journal.sync()
                assert journal.committed.inputs > k - first

    threads = [threading.Thread(target=hand_over, args=(start,)) for start in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(lambda: journal.committed.inputs == 3000, lambda: journal.committed)
    journal.close()
    assert journal.failed is None
    inputs, _, _ = contents(tmp_path)
    assert sorted(inputs["ts_event"]) == list(range(3000))
    for start in (0, 1000, 2000):
        own = inputs["ts_event"][(inputs["ts_event"] // 1000) * 1000 == start]
        assert own.tolist() == list(range(start, start + 1000)), "a thread's own order is kept"


def test_one_process_writes(tmp_path):
    journal = opened(tmp_path)
    with pytest.raises(JournalError, match="another process writes this journal"):
        opened(tmp_path)
    journal.abandon()
    opened(tmp_path).close()


def test_the_lock_ends_with_its_process(tmp_path):
    script = (
        "import sys, os; from pathlib import Path; from quantdsl.journal.writer import Journal;"
        "Journal.open(Path(sys.argv[1]), manifest_digest=bytes(range(32))); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == 9
    opened(tmp_path).close()


def test_belongs_to_one_session(tmp_path):
    written(tmp_path, 2)
    with pytest.raises(JournalError, match="another session"):
        opened(tmp_path, manifest_digest=bytes(32))
    assert contents(tmp_path)[0]["ts_event"].tolist() == [0, 1, 2, 3]


def test_files_are_the_users_alone(tmp_path):
    folder = tmp_path / "journal"
    written(folder, 2)
    written(folder, 2)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_a_missing_segment_is_told(tmp_path):
    for _ in range(3):
        written(tmp_path, 2)
    (tmp_path / f"00000002{CLOSED}").unlink()
    with pytest.raises(JournalError, match="segment 2 is missing"):
        contents(tmp_path)
    with pytest.raises(JournalError, match="segment 2 is missing"):
        opened(tmp_path)


def test_a_segment_of_another_time_is_told(tmp_path):
    """The second segment of a journal that went another way has other counts before it."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, frames in ((one, 2), (two, 3)):
        written(folder, frames)
        written(folder, 2)
    os.replace(two / f"00000002{OPEN}", one / f"00000002{OPEN}")
    with pytest.raises(JournalError, match="does not continue the one before"):
        contents(one)


@pytest.mark.parametrize("kept", [0, 1, HEADER.size - 1])
def test_killed_before_the_header_was_whole(tmp_path, kept):
    written(tmp_path, 3)
    written(tmp_path, 0)
    path = tmp_path / f"00000002{OPEN}"
    path.write_bytes(path.read_bytes()[:kept])
    assert len(contents(tmp_path)[0]) == 6
    written(tmp_path, 1)
    assert len(contents(tmp_path)[0]) == 8


def test_killed_between_compressing_and_removing(tmp_path):
    """Both forms of one segment are there: they hold the same, one is read and one goes."""
    written(tmp_path, 3)
    before = (tmp_path / f"00000001{OPEN}").read_bytes()
    written(tmp_path, 0)
    (tmp_path / f"00000002{OPEN}").unlink()
    (tmp_path / f"00000001{OPEN}").write_bytes(before)
    assert len(contents(tmp_path)[0]) == 6
    written(tmp_path, 1)
    assert len(contents(tmp_path)[0]) == 8
    assert not (tmp_path / f"00000001{OPEN}").exists()


def test_what_waits_for_a_slow_disk_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("quantdsl.journal.writer.PENDING_BYTES_MAX", 64 * 100)
    journal = opened(tmp_path)
    journal.inputs(events(0, 100))
    assert journal.failed is None
    journal.inputs(events(100, 1))
    assert "does not keep up" in journal.failed
    journal.abandon()


def test_a_full_segment_is_packed_a_piece_at_a_time(tmp_path):
    """It is read where the system keeps it; what is held is its packed form, and a piece."""
    journal = opened(tmp_path, policy=Policy(segment_bytes=6 * PIECE_BYTES))
    count = PIECE_BYTES // 64
    parts = [np.sort(events(k * count, count), order="ts_event") for k in range(7)]
    for part in parts:
        part["payload"] = 0
    codec()
    for part in parts[:-1]:
        journal.inputs(part)
        journal.commit()
    journal.inputs(parts[-1])
    tracemalloc.start()
    try:
        journal.commit()  # which writes one frame, and packs seven
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    journal.abandon()
    packed, current = sorted(tmp_path.glob("0*"))
    assert packed.name.endswith(CLOSED)
    assert current.name.endswith(OPEN)
    assert most < 4.5 * PIECE_BYTES, "two copies of the frame that was written, and little else"
    assert contents(tmp_path)[0].tobytes() == b"".join(part.tobytes() for part in parts)
