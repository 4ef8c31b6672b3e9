"""The runner on threads: every lane once, the interpreter's bits, and a clean end when stopped."""

import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from quantdsl.devices import cpu
from quantdsl.devices.cpu import Compiled, CpuRunner
from quantdsl.devices.feed import pieces, whole_bytes, width_of
from quantdsl.devices.together import Together
from tests.devices.lane_work import expected, random_work, run


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("load", [cpu.scalar, cpu.simd])
def test_lanes_have_the_interpreters_bits(seed, threads, load):
    work = random_work(seed)
    assert np.array_equal(run(CpuRunner(threads, load), work), expected(work))


def test_a_part_of_the_lanes():
    work = random_work(1)
    results = run(CpuRunner(2), work, 7, 40)
    assert np.array_equal(results[:, 7:40], expected(work)[:, 7:40])


def test_events_larger_than_a_piece(monkeypatch):
    work = random_work(2)
    monkeypatch.setattr(cpu, "PIECE_BYTES", 100)
    assert len(list(pieces(work, 100))) > 3
    assert np.array_equal(run(CpuRunner(2), work), expected(work))


def test_lanes_too_large_for_a_stack_are_dealt_one_by_one(monkeypatch):
    """A few points are for all cores, and events in pieces keep few of them."""
    work, dealt = random_work(2, lanes=8), list[tuple[int, int]]()
    assert CpuRunner(2).plan(work).lanes_a_chunk == cpu.BLOCK_LANES
    monkeypatch.setattr(cpu, "is_large", lambda _: True)
    CpuRunner(2).run(work, 0, 8, lambda lo, hi, _: dealt.append((lo, hi)))
    assert sorted(dealt) == [(n, n + 1) for n in range(8)]


@pytest.mark.parametrize("width", [None, 1, 30])
def test_a_piece_of_all_bytes_holds_all_events(width):
    work = random_work(2, events=40)
    rows = None if width is None else SimpleNamespace(room=width)
    found = pieces(work, whole_bytes(work, rows), width_of(work, rows))
    assert list(found) == [0, 40]


def test_no_params_and_no_lanes():
    work = random_work(3)
    none = work._replace(params=work.params[:0], points=np.empty((0, 5), np.int64))
    assert np.array_equal(run(CpuRunner(1), none), expected(none))
    run(CpuRunner(1), work, 5, 5)


def test_pieces_never_cut_an_instant():
    work = random_work(4, events=40)
    times = np.repeat(np.arange(8), 5)
    work = work._replace(events=np.stack([times, times], axis=1))
    for size in (1, 24, 24 * 7, 24 * 12, 10**9):
        ends = list(pieces(work, size))
        assert ends[0] == 0
        assert ends[-1] == 40
        assert all(end % 5 == 0 for end in ends)
        assert ends == sorted(set(ends))


def test_what_finished_raises_stops_the_run_and_leaves_no_thread():
    work, before = random_work(5, lanes=640), threading.active_count()

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CpuRunner(2).run(work, 0, work.n_lanes, stop)
    assert threading.active_count() == before


@pytest.mark.parametrize("together", [False, True])
def test_a_thread_that_cannot_start_leaves_no_other(together, monkeypatch):
    """As Ctrl-C between two starts: the first one went on with all of the sweep."""
    before, start, started = threading.active_count(), threading.Thread.start, []

    class Program:
        def call(self, *_):
            time.sleep(0.02)

    def once(thread):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    runner = CpuRunner(2, lambda *_: Compiled(Program(), None))
    monkeypatch.setattr(threading.Thread, "start", once)
    with pytest.raises(RuntimeError, match="start new thread"):
        run(Together([runner, runner]) if together else runner, random_work(5, lanes=3_200))
    assert threading.active_count() == before


def test_an_error_in_a_thread_reaches_the_caller():
    def broken(*_):
        class Program:
            def call(self, *_):
                raise RuntimeError("broken")

        return Compiled(Program(), None)

    with pytest.raises(RuntimeError, match="broken"):
        run(CpuRunner(2, broken), random_work(6))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_threads_are_pinned_one_a_core():
    seen = []

    def load(*_):
        class Program:
            def call(self, *_):
                seen.append(frozenset(os.sched_getaffinity(0)))

        return Compiled(Program(), None)

    before = os.sched_getaffinity(0)
    run_work = random_work(7, lanes=256)
    CpuRunner(load=load).run(run_work, 0, 256, lambda *_: None)
    assert all(len(cores) == 1 for cores in seen)
    assert os.sched_getaffinity(0) == before


def test_a_plan_names_threads_and_bytes():
    work = random_work(8)
    assert str(CpuRunner(2).plan(work)) == (
        f"cpu, 2 threads: {8 * len(work.template):,} bytes a lane, 16 lanes a chunk"
    )
