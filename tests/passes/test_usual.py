"""Usual turns apart leave what the plain loop leaves, to the bit."""

import numpy as np
import pytest

from quantdsl.codegen.lanes import FINISH, START
from quantdsl.codegen.ptx import gpu_part
from quantdsl.devices.simulated import BLOCK, kernel_of_lanes
from quantdsl.devices.work import LaneWork
from quantdsl.ir.verify import verify
from tests.backtest.programs import strategy
from tests.backtest.test_lane_entry import checked_text
from tests.codegen.test_rows import by_events
from tests.gpu.works import FILES, checked_of, strategy_work


def by_turns(work: LaneWork, pieces: int) -> tuple[np.ndarray, bool]:
    """The result words of all lanes, and whether they had usual turns apart."""
    kernel, code, shared_bytes = kernel_of_lanes(work)
    maker = None if code is None else code.start(work.template, work.params, work.points[:, -1])
    results = np.full((len(work.results), work.n_lanes), -1, np.int64)
    states = np.zeros((len(work.template), work.n_lanes), np.int64)
    for number, at in enumerate(np.array_split(np.arange(len(work.events)), pieces)):
        mode = START * (number == 0) | FINISH * (number == pieces - 1)
        events, columns = work.events[at], work.columns[at]
        words, turns = (events, len(events)) if maker is None else maker.rows(events)
        addresses = [array.ctypes.data for array in (words, columns, states)]
        kernel.launch(-(-work.n_lanes // BLOCK), BLOCK, (
            work.template.ctypes.data, work.points.ctypes.data, work.params.ctypes.data,
            len(work.params), results.ctypes.data, work.results.ctypes.data, len(work.results),
            addresses[0], turns, *addresses[1:], work.n_lanes, 0, work.n_lanes, mode,
        ), shared_bytes)  # fmt: skip
    return results, shared_bytes > 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_strategies(path):
    work = strategy_work(checked_of(path), 1500)
    verify(gpu_part(work.module, work.kept, work.varying))
    expected = by_events(work)
    for pieces in (1, 5):
        found, usual = by_turns(work, pieces)
        assert np.array_equal(found, expected)
    if path.stem in ("ema_cross", "bracket", "buy_and_hold"):
        assert usual


@pytest.mark.parametrize("seed", range(6))
def test_generated_strategies(seed):
    work = strategy_work(checked_text(strategy(seed)), 400)
    assert np.array_equal(by_turns(work, 2)[0], by_events(work))
