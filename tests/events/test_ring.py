"""Rings between threads and processes: order, wholeness, misuse, the death of an end (E5)."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from quantdsl.errors import RingError
from quantdsl.events.layout import EVENT
from quantdsl.events.ring import (
    AHEAD,
    CONSUMER,
    HEAD_WORDS,
    PRODUCER,
    PUBLISHED,
    SILENT_NS_MAX,
    Consumer,
    Producer,
    Ring,
    Watch,
    shared_folder,
)

STRESS_EVENTS = 1_000_000
SEEN_WITHIN_S = 0.5
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "ring"


def numbered(first: int, count: int) -> np.ndarray:
    """Records whose eight words agree, so that a torn one is seen."""
    records = np.zeros(count, EVENT)
    records.view(np.int64).reshape(-1, 8)[:] = np.arange(first, first + count)[:, None]
    return records


def words_of(records: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(records).view(np.int64).reshape(-1, 8)


def test_layout_keeps_what_is_written_apart():
    ring = Ring.create(None, 8)
    assert ring.address % 64 == 0
    assert HEAD_WORDS * 8 % 64 == 0
    assert ring.words.nbytes == HEAD_WORDS * 8 + 8 * 64
    ring.records[0]["ts_event"] = 7
    assert ring.words[HEAD_WORDS] == 7


def test_claim_publish_take_release():
    ring = Ring.create(None, 8)
    producer, consumer = ring.producer(), ring.consumer()
    assert len(consumer.take(9)) == 0
    room = producer.try_claim(5)
    room[:] = numbered(0, 5)
    assert len(consumer.take(9)) == 0, "what is claimed is not yet seen"
    producer.publish(5)
    assert ring.waiting == 5
    assert np.array_equal(consumer.pop(3), numbered(0, 3))
    assert producer.push(numbered(5, 9)) == 6, "full at eight"
    assert len(producer.try_claim(1)) == 0
    got = [*consumer.pop(9)["ts_event"], *consumer.pop(9)["ts_event"]]
    assert got == list(range(3, 11))


@pytest.mark.parametrize("first", [2**63 - 5, -3, 2**63 - 1])
def test_cursors_pass_the_end_of_their_words(first):
    ring = Ring.create(None, 4, first=first)
    producer, consumer = ring.producer(), ring.consumer()
    got = []
    for turn in range(0, 12, 3):
        assert producer.push(numbered(turn, 3)) == 3
        while len(taken := consumer.pop(3)):
            got += taken["ts_event"].tolist()
    assert got == list(range(12))
    assert ring.cells[PUBLISHED] != first


@pytest.mark.parametrize("capacity", [0, 1, 3, 100, 1 << 25, -8])
def test_a_capacity_is_a_power_of_two(capacity):
    with pytest.raises(RingError, match="power of two"):
        Ring.create(None, capacity)


def test_misuse_is_refused():
    ring = Ring.create(None, 8)
    producer, consumer = ring.producer(), ring.consumer()
    producer.try_claim(2)
    with pytest.raises(RingError, match="3 records are published, but 2 were claimed"):
        producer.publish(3)
    producer.publish(2)
    with pytest.raises(RingError, match="0 were claimed"):
        producer.publish(1)
    consumer.take(8)
    with pytest.raises(RingError, match="2 were taken"):
        consumer.release(3)
    with pytest.raises(RingError, match="at least 1"):
        producer.try_claim(0)


def test_one_producer_and_one_consumer():
    ring = Ring.create(None, 8)
    producer = ring.producer()
    with pytest.raises(RingError, match="has a producer already"):
        ring.producer()
    ring.consumer().close()
    ring.consumer()
    ring.cells[PUBLISHED] += 1  # a second producer that asked nobody
    producer.try_claim(1)
    with pytest.raises(RingError, match="another producer"):
        producer.publish(1)
    ring.cells[PUBLISHED] += 100
    consumer = _consumer_of(ring)
    with pytest.raises(AssertionError, match="cursors"):
        consumer.take(1)


def _consumer_of(ring: Ring) -> Consumer:
    ring.leave_role(CONSUMER)
    return ring.consumer()


def test_files_that_are_no_ring(path):
    with pytest.raises(RingError, match="no ring to open"):
        Ring.open(path)
    path.write_bytes(b"x" * 5000)
    with pytest.raises(RingError, match="is no ring"):
        Ring.open(path)
    path.unlink()
    Ring.create(path, 64)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        Ring.create(path, 64)
    os.truncate(path, 2048)
    with pytest.raises(RingError, match="cut off"):
        Ring.open(path)


def test_two_mappings_of_one_file(path):
    here, there = Ring.create(path, 16), Ring.open(path)
    here.producer().push(numbered(0, 3))
    assert np.array_equal(there.consumer().pop(5), numbered(0, 3))
    here.unlink()
    assert not path.exists()


def test_threads_see_whole_records_in_order():
    ring = Ring.create(None, 256)
    total = 40_000

    def produce() -> None:
        producer, sent = ring.producer(), 0
        while sent < total:
            sent += producer.push(numbered(sent, min(97, total - sent)))

    thread = threading.Thread(target=produce)
    thread.start()
    _check_stream(ring, total)
    thread.join()


def _check_stream(ring: Ring, total: int) -> None:
    consumer, seen = ring.consumer(), 0
    while seen < total:
        taken = consumer.take(1 << 20)
        words = words_of(taken)
        assert np.array_equal(words[:, 0], np.arange(seen, seen + len(words)))
        assert (words == words[:, :1]).all(), "a torn record"
        seen += len(words)
        consumer.release(len(words))


def produce_in_a_process(path: Path, total: int) -> None:
    producer, sent = Ring.open(path).producer(), 0
    while sent < total:
        sent += producer.push(numbered(sent, min(1000, total - sent)))


def test_stress_between_processes():
    """A million records through 1,024 places: none torn, lost or twice."""
    path = shared_folder() / f"quantdsl-test-{os.getpid()}"
    ring = Ring.create(path, 1024)
    try:
        process = SPAWN.Process(target=produce_in_a_process, args=(path, STRESS_EVENTS))
        process.start()
        _check_stream(ring, STRESS_EVENTS)
        process.join()
        assert process.exitcode == 0
    finally:
        ring.unlink()


def claim_and_die(path: Path) -> None:
    producer = Ring.open(path).producer()
    producer.push(numbered(0, 2))
    producer.try_claim(3)[:] = numbered(100, 3)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_producer_dies_between_claim_and_publish(path):
    """What it published stays, what it only claimed is never seen, and another goes on."""
    ring = Ring.create(path, 8)
    process = SPAWN.Process(target=claim_and_die, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not Watch(ring, PRODUCER).alive()
    consumer = ring.consumer()
    assert np.array_equal(consumer.pop(8), numbered(0, 2))
    ring.producer().push(numbered(2, 1))
    assert np.array_equal(consumer.pop(8), numbered(2, 1))


def show_and_die(path: Path) -> None:
    producer = Ring.open(path).producer()
    producer.push(numbered(0, 7))
    producer.try_claim(1)[:] = numbered(100, 1)
    producer.ring.cells[AHEAD] = producer.published + 1
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_producer_dies_with_a_record_ahead(path):
    """It is there until another takes over; whole instants never hold it."""
    ring = Ring.create(path, 8)
    process = SPAWN.Process(target=show_and_die, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    consumer = ring.consumer()
    assert np.array_equal(consumer.ahead(), numbered(100, 1))
    assert np.array_equal(consumer.pop(8), numbered(0, 7))
    assert np.array_equal(consumer.ahead(), numbered(100, 1))
    ring.producer().push(numbered(7, 1))
    assert len(consumer.ahead()) == 0
    assert np.array_equal(consumer.pop(8), numbered(7, 1))


@pytest.mark.parametrize("first", [0, 2**63 - 3, -3])
def test_ahead_is_between_published_and_its_cursor(first):
    ring = Ring.create(None, 8, first=first)
    producer, consumer = ring.producer(), ring.consumer()
    assert len(consumer.ahead()) == 0
    producer.try_claim(3)[:] = numbered(0, 3)
    ring.cells[AHEAD] = (first + 2 + 2**63) % 2**64 - 2**63
    assert np.array_equal(consumer.ahead(), numbered(0, 2))
    producer.publish(3)
    assert len(consumer.ahead()) == 0, "published: they come by take"
    assert np.array_equal(consumer.pop(8), numbered(0, 3))


def take_and_die(path: Path) -> None:
    Ring.open(path).consumer().take(2)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_consumer_dies_before_it_releases(path):
    """What it took and did not release, the next one gets again."""
    ring = Ring.create(path, 8)
    ring.producer().push(numbered(0, 3))
    process = SPAWN.Process(target=take_and_die, args=(path,))
    process.start()
    process.join()
    assert not Watch(ring, CONSUMER).alive()
    assert np.array_equal(ring.consumer().pop(8), numbered(0, 3))


def test_a_silent_heart_is_seen_in_time():
    """By the watcher's own clock: within half a second where it looks every 100 ms."""
    now = [0]
    ring = Ring.create(None, 8)
    assert not Watch(ring, PRODUCER).alive(), "nobody is there yet"
    producer = ring.producer()
    watch = Watch(ring, PRODUCER, lambda: now[0])
    for _ in range(20):
        now[0] += 100_000_000
        producer.beat()
        assert watch.alive()
    stopped = now[0]
    while watch.alive():
        now[0] += 100_000_000
    assert (now[0] - stopped) / 1e9 <= SEEN_WITHIN_S
    assert now[0] - stopped > SILENT_NS_MAX
    producer.beat()
    assert watch.alive()


def hang(path: Path) -> None:
    Ring.open(path).producer()
    time.sleep(3600)


def test_a_process_that_hangs_is_noticed(path):
    ring = Ring.create(path, 8)
    process = SPAWN.Process(target=hang, args=(path,))
    process.start()
    while not ring.cells[PRODUCER]:
        time.sleep(0.01)
    watch = Watch(ring, PRODUCER)
    assert watch.alive()
    while watch.alive():
        time.sleep(0.05)
    assert process.is_alive()
    process.kill()
    process.join()


def test_producer_and_consumer_are_exported_by_the_ring():
    ring = Ring.create(None, 2)
    assert isinstance(ring.producer(), Producer)
    assert isinstance(ring.consumer(), Consumer)
