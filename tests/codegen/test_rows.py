"""Kernels over rows leave what kernels over events leave, to the bit."""

from collections.abc import Callable

import numpy as np
import pytest

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import FORBID_COMPILE
from quantdsl.codegen.jit import Program
from quantdsl.codegen.lanes import FINISH, START, InterpretedLanes, load_lanes
from quantdsl.codegen.ptx import Bounds, gpu_part
from quantdsl.codegen.rows import load_rows, split_lanes
from quantdsl.codegen.simd import simd_program
from quantdsl.codegen.target import Target, avx2, native
from quantdsl.devices.work import LaneWork
from tests.backtest.programs import strategy
from tests.backtest.test_lane_entry import checked_text
from tests.gpu.works import FILES, checked_of, program_work, strategy_work


def by_rows(
    work: LaneWork,
    cache: Cache | None,
    pieces: int,
    load: Callable[..., Program] = load_lanes,
    target: Target | None = None,
) -> np.ndarray:
    """The result words of all lanes, the events handed over in pieces of rows."""
    parts = work.module, work.kept
    code = load_rows(*parts, work.varying, native(), cache)
    kernel = load(*parts, target or native(), cache, work.varying)
    maker = None if code is None else code.start(work.template, work.params, work.points[:, -1])
    results = np.full((len(work.results), work.n_lanes), -1, np.int64)
    states = np.zeros((len(work.template), work.n_lanes), np.int64)
    cut = np.array_split(np.arange(len(work.events)), pieces)
    for number, at in enumerate(cut):
        mode = START * (number == 0) | FINISH * (number == pieces - 1)
        events, columns = work.events[at], work.columns[at]
        words, turns = (events, len(events)) if maker is None else maker.rows(events)
        kernel.call(
            "lanes", work.template, work.points.reshape(-1), work.params, len(work.params),
            results.reshape(-1), work.results, len(work.results), words.reshape(-1), turns,
            columns.reshape(-1), states.reshape(-1), work.n_lanes, 0, work.n_lanes, mode,
        )  # fmt: skip
    return results


def by_events(work: LaneWork) -> np.ndarray:
    return at_once(load_lanes(work.module, work.kept, native(), Cache()), work)


def at_once(kernel: Program | InterpretedLanes, work: LaneWork) -> np.ndarray:
    """The result words of all lanes, each fed all events in one call."""
    results = np.full((len(work.results), work.n_lanes), -1, np.int64)
    kernel.call(
        "lanes", work.template, work.points.reshape(-1), work.params, len(work.params),
        results.reshape(-1), work.results, len(work.results), work.events.reshape(-1),
        len(work.events), work.columns.reshape(-1), work.template, work.n_lanes, 0, work.n_lanes,
        START | FINISH,
    )  # fmt: skip
    return results


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_strategies(path, tmp_path):
    work, cache = strategy_work(checked_of(path), 1500), Cache(tmp_path / "cache")
    expected = by_events(work)
    for pieces in (1, 4):
        assert np.array_equal(by_rows(work, cache, pieces), expected)


@pytest.mark.parametrize("seed", range(8))
def test_generated_strategies(seed):
    work = strategy_work(checked_text(strategy(seed)), 400)
    assert np.array_equal(by_rows(work, None, 2), by_events(work))


@pytest.mark.parametrize("seed", range(8))
def test_what_cannot_be_split_takes_events(seed):
    work = program_work(seed)
    assert np.array_equal(by_rows(work, None, 1), by_events(work))


def test_kernels_and_their_rows_are_of_one_split():
    work = strategy_work(checked_of(FILES[0]), 200)
    split_lanes.cache_clear()
    by_rows(work, None, 1)
    by_rows(work, None, 1, simd_program, avx2())
    assert split_lanes.cache_info().misses == 1


def test_a_part_for_gpus_is_made_once():
    work = strategy_work(checked_of(FILES[0]), 200)
    part = gpu_part(work.module, work.kept, work.varying)
    assert gpu_part(work.module, work.kept, work.varying, Bounds()) is part


def test_rows_come_from_the_cache(tmp_path, monkeypatch):
    cache, work = Cache(tmp_path / "cache"), strategy_work(checked_of(FILES[0]), 200)
    fresh = by_rows(work, cache, 1)
    monkeypatch.setenv(FORBID_COMPILE, "1")
    assert np.array_equal(by_rows(work, cache, 1), fresh)


def test_what_a_turn_does_not_write_is_zero() -> None:
    # Lanes read the column that a row names before they know whether the row names one.
    work = strategy_work(checked_of(next(path for path in FILES if path.stem == "sma_cross")), 400)
    code = load_rows(work.module, work.kept, work.varying, native(), None)
    assert code is not None
    made = []
    for _ in range(3):
        maker = code.start(work.template, work.params, work.points[:, 0])
        made.append(maker.rows(work.events)[0].copy())
        np.full((len(work.events) + 1, code.width), -1)  # where the next rows may come to lie
    assert np.count_nonzero(made[0][: code.width] == 0) > 0
    assert np.array_equal(made[0], made[1])
    assert np.array_equal(made[0], made[2])
