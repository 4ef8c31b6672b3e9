"""Usual turns apart leave what the plain loop leaves, to the bit."""

import numpy as np
import pytest

from quantdsl.codegen.compile import Form, load
from quantdsl.codegen.emit import emit
from quantdsl.codegen.lanes import FINISH, INTERFACE, START, on_a_cpu
from quantdsl.codegen.ptx import GPU_DEPTH, gpu_part
from quantdsl.codegen.rows import load_rows
from quantdsl.codegen.target import native
from quantdsl.devices.work import LaneWork
from quantdsl.ir.verify import verify
from quantdsl.passes.usual import SLOW
from tests.backtest.programs import strategy
from tests.backtest.test_lane_entry import checked_text
from tests.codegen.test_rows import by_events
from tests.gpu.works import FILES, checked_of, strategy_work


def by_turns(work: LaneWork, pieces: int) -> tuple[np.ndarray, bool]:
    """The result words of all lanes, and whether they had usual turns apart."""
    made = []

    def passed(module):
        made.append(gpu_part(module, work.kept, work.varying))
        verify(made[0])
        return made[0]

    form = Form("usual", passed, lambda module, target: emit(module, target, on_a_cpu), INTERFACE)
    kernel = load(work.module, native(), None, form)
    code = load_rows(work.module, work.kept, work.varying, native(), None, GPU_DEPTH)
    maker = None if code is None else code.start(work.template, work.params, work.points[:, -1])
    results = np.full((len(work.results), work.n_lanes), -1, np.int64)
    states = np.zeros((len(work.template), work.n_lanes), np.int64)
    for number, at in enumerate(np.array_split(np.arange(len(work.events)), pieces)):
        mode = START * (number == 0) | FINISH * (number == pieces - 1)
        events = work.events[at]
        words, turns = (events, len(events)) if maker is None else maker.rows(events)
        kernel.call(
            "lanes", work.template, work.points.reshape(-1), work.params, len(work.params),
            results.reshape(-1), work.results, len(work.results), words.reshape(-1), turns,
            work.columns[at].reshape(-1), states.reshape(-1), work.n_lanes, 0, work.n_lanes, mode,
        )  # fmt: skip
    return results, any(func.name == SLOW for func in made[0].funcs)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_strategies(path):
    work = strategy_work(checked_of(path), 1500)
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
