"""Cut anywhere, a journal is its longest whole prefix; changed anywhere, it is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quantdsl.errors import JournalError
from quantdsl.journal.files import Files
from quantdsl.journal.format import FRAME, HEADER, pack, unpack
from quantdsl.journal.reader import OPEN, segment_in, segments
from quantdsl.journal.writer import Policy
from tests.journal.helpers import contents, events, opened, records, written

NAME = f"00000001{OPEN}"


class Unsynced(Files):
    """A disk that need not be waited for."""

    def sync(self, descriptor: int) -> None:
        pass

    def sync_folder(self, folder: Path) -> None:
        pass


def frames_of(data: bytes) -> list[bytes]:
    """The frames of a segment."""
    found, at = [], HEADER.size
    while at < len(data):
        size = FRAME.size + FRAME.unpack_from(data, at)[1]
        found.append(data[at : at + size])
        at += size
    return found


def joined(data: bytes, frames: list[bytes]) -> bytes:
    return data[: HEADER.size] + b"".join(frames)


def found_in(data: bytes, each: int = 1) -> tuple[int, int]:
    """(whole frames, torn bytes) of a segment of these bytes; what is read is a prefix."""
    segment = segment_in(Path(NAME), data, last=True)
    times = segment.inputs()["ts_event"].tolist()
    records = each * segment.frames
    assert times == list(range(2 * records))
    assert segment.outputs()["ts_event"].tolist() == list(range(1000, 1000 + records))
    assert segment.whole + segment.torn == len(data)
    return segment.frames, segment.torn


def refused(data: bytes) -> bool:
    """Whether a last segment of these bytes is refused."""
    try:
        segment_in(Path(NAME), data, last=True)
    except JournalError:
        return True
    return False


def unpacked(packed: bytes) -> bool:
    """Whether a compressed segment of these bytes is taken."""
    try:
        segment_in(Path(NAME), unpack(packed, NAME), last=False)
    except JournalError:
        return False
    return True


def cuts(folder: Path, frames: int, each: int) -> int:
    """Cut a journal at every byte behind its header; how many bytes it had."""
    written(folder, frames, each=each, files=Unsynced())
    path = folder / NAME
    data = path.read_bytes()
    ends = [HEADER.size]
    for frame in frames_of(data):
        ends.append(ends[-1] + len(frame))
    for cut in range(HEADER.size, len(data) + 1):
        whole = sum(end <= cut for end in ends[1:])
        assert found_in(data[:cut], each) == (whole, cut - ends[whole])
    return len(data)


def test_cut_at_every_byte(tmp_path):
    assert cuts(tmp_path, 8, 1) > 2_000


@pytest.mark.slow
def test_cut_64_kib_at_every_byte(tmp_path):
    """In frames of a kilobyte and more: each cut reads what lies before it."""
    assert cuts(tmp_path, 48, 7) > 1 << 16


def test_zeros_behind_the_last_frame_are_torn(tmp_path):
    written(tmp_path, 5)
    data = (tmp_path / NAME).read_bytes()
    for count in (1, 8, 24, 4096):
        assert found_in(data + bytes(count)) == (5, count)


@pytest.mark.parametrize("dropped", [1, 7, 100, 250, 300])
def test_what_is_written_after_a_torn_end_follows_the_last_whole_frame(tmp_path, dropped):
    written(tmp_path, 5)
    path = tmp_path / NAME
    data = path.read_bytes()
    path.write_bytes(data[:-dropped])
    (segment,) = segments(tmp_path)
    journal = opened(tmp_path)
    assert journal.committed == (2 * segment.frames, segment.frames)
    journal.inputs(events(2 * segment.frames, 4))
    journal.outputs(records(1000 + segment.frames, 1))
    journal.close()
    inputs, outputs, _ = contents(tmp_path)
    assert inputs["ts_event"].tolist() == list(range(2 * segment.frames + 4))
    assert outputs["ts_event"].tolist() == list(range(1000, 1001 + segment.frames))
    torn = list(tmp_path.glob("*.torn"))
    assert [one.read_bytes() for one in torn] == [data[:-dropped]], "no byte is thrown away"


def flips(data: bytes, first: int = 0) -> Iterator[tuple[int, bytes]]:
    """(byte, the data with one bit of it changed), for every bit."""
    changed = bytearray(data)
    for at in range(first, len(data)):
        for bit in range(8):
            changed[at] ^= 1 << bit
            yield at, bytes(changed)
            changed[at] ^= 1 << bit


def flip_all(folder: Path, frames: int) -> None:
    written(folder, frames, files=Unsynced())
    path = folder / NAME
    data = path.read_bytes()
    last = len(data) - len(frames_of(data)[-1])
    for at, changed in flips(data):
        if at < last:
            assert refused(changed), f"a changed bit of byte {at} was not seen"
        else:  # as if it had been torn: nothing later shows that it was on disk
            assert found_in(changed) == (frames - 1, len(data) - last)


def test_every_bit_of_a_segment_counts(tmp_path):
    flip_all(tmp_path, 4)


@pytest.mark.long
def test_every_bit_of_forty_frames_counts(tmp_path):
    flip_all(tmp_path, 40)


def test_every_bit_of_a_compressed_segment_counts(tmp_path):
    written(tmp_path, 4, files=Unsynced())
    packed = pack((tmp_path / NAME).read_bytes())
    assert unpacked(packed)
    for at, changed in flips(packed):
        assert not unpacked(changed), f"a changed bit of byte {at} was not seen"
    for cut in range(len(packed)):
        assert not unpacked(packed[:cut]), "a compressed segment is never torn: it was renamed"
    assert not unpacked(packed + b"\0")


def damages(data: bytes, others: bytes) -> Iterator[tuple[str, bytes]]:
    """Frames zeroed, lost, doubled, swapped, and from elsewhere, each before the last one."""
    frames = frames_of(data)
    foreign = frames_of(others)
    for k in range(len(frames) - 1):
        rest = frames[k + 1 :]
        yield f"zeroed {k}", joined(data, [*frames[:k], bytes(len(frames[k])), *rest])
        yield f"lost {k}", joined(data, [*frames[:k], *rest])
        yield f"doubled {k}", joined(data, [*frames[: k + 1], *frames[k:]])
        yield f"foreign {k}", joined(data, [*frames[:k], foreign[k], *rest])
        yield f"byte added {k}", joined(data, [*frames[:k], b"\1", *frames[k:]])
        yield f"byte lost {k}", joined(data, [*frames[:k], frames[k][:-1], *rest])
        for j in range(k + 1, len(frames)):
            swapped = frames.copy()
            swapped[k], swapped[j] = frames[j], frames[k]
            yield f"swapped {k} {j}", joined(data, swapped)


def test_damage_before_the_end_is_refused_and_nothing_changed(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    written(one, 8)
    written(two, 8, manifest_digest=bytes(32))
    data, others = (one / NAME).read_bytes(), (two / NAME).read_bytes()
    seen = 0
    for what, damaged in damages(data, others):
        assert refused(damaged), what
        (one / NAME).write_bytes(damaged)
        with pytest.raises(JournalError):
            opened(one)
        assert sorted(path.name for path in one.iterdir()) == [NAME, "lock"]
        assert (one / NAME).read_bytes() == damaged, what
        seen += 1
    assert seen == 7 * 6 + 28


def test_frames_that_do_not_belong_behind_the_last_are_left_out(tmp_path):
    written(tmp_path, 8)
    data = (tmp_path / NAME).read_bytes()
    frames = frames_of(data)
    for stray in (frames[-1], frames[2], bytes(len(frames[0]))):
        assert found_in(joined(data, [*frames, stray])) == (8, len(stray))
        zeroed = joined(data, [*frames[:-1], bytes(len(frames[-1]))])
        assert found_in(zeroed) == (7, len(frames[-1]))


def test_an_ordered_end_protects_the_last_frame(tmp_path):
    """What a session that ended in order has acknowledged is refused when it is damaged."""
    written(tmp_path, 4, end=True)
    path = tmp_path / NAME
    data = path.read_bytes()
    frames = frames_of(data)
    end = len(data) - len(frames[-1])
    for at, changed in flips(data, end - len(frames[-2])):
        assert refused(changed) == (at < end)
    path.write_bytes(data[:-1])
    (segment,) = segments(tmp_path)
    assert not segment.ended
    assert segment.frames == 4


def test_frames_that_were_not_flushed_may_be_lost_in_any_order(tmp_path):
    """Without a flush between them a power cut may leave the later of two frames."""
    written(tmp_path, 6, policy=Policy(fsync="never"))
    path = tmp_path / NAME
    frames = frames_of(data := path.read_bytes())
    holed = joined(data, [*frames[:3], bytes(len(frames[3])), *frames[4:]])
    assert found_in(holed) == (3, sum(map(len, frames[3:])))
