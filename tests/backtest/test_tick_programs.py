"""Generated strategies on ticks: what a lane leaves is what a run of its point leaves, to the bit.

They look back at prices, trades and equations. The interpreter runs both, and of a few strategies
every target runs the lanes.
"""

from functools import cache

import numpy as np
import pytest

from quantdsl.backtest import values
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.program import STATE, Run
from quantdsl.backtest.run import run_end
from quantdsl.backtest.verify import (
    KEPT,
    InterpretedRunner,
    Lanes,
    Target,
    compared,
    draw,
    results,
    targets,
)
from quantdsl.check.columns import NO_COLUMNS
from quantdsl.events.layout import EVENT
from quantdsl.ir.interp import Interpreter
from quantdsl.passes.common import own_leaves
from tests.backtest.test_lane_entry import checked_text
from tests.backtest.test_same_bits import canonical
from tests.backtest.tick_programs import strategy, ticks

GENERATED, ON_TARGETS = 12, 3
POINTS, MESSAGES = 2, 100
DIGEST = "e.metrics.digest"
"""Of lanes alone."""
ORACLE = Target("interpreter", InterpretedRunner())


@cache
def lanes_of(seed: int) -> Lanes:
    """A few points of a generated strategy over generated ticks."""
    checked = checked_text(strategy(seed))
    arranged = arrange(checked)
    points = draw(checked, arranged, POINTS, np.random.default_rng(seed))
    events = ticks(seed, MESSAGES)
    events = np.concatenate([events, run_end(int(events["ts_recv"][-1]) + 1)])
    return Lanes(checked, arranged, points, events.view(np.int64).reshape(-1, 8))


@cache
def single(seed: int, row: int) -> Run:
    """A run of one of the points alone, not to be changed."""
    lanes = lanes_of(seed)
    module = lanes.checked.module(lanes.arranged.uses)
    run = Run(lanes.checked, module, Interpreter(module))
    lanes.arranged.fill(run.memory)
    values.write(run.memory, lanes.checked.strategy.params, lanes.points[row])
    run.memory.set("trade_from", np.iinfo(np.int64).min)
    run.start()
    run.feed(lanes.events.view(EVENT).reshape(-1))
    return run


@pytest.mark.parametrize("seed", range(GENERATED))
def test_a_lane_is_the_run_of_its_point(seed: int) -> None:
    lanes = lanes_of(seed)
    work = lanes.work(NO_COLUMNS)
    left = results(work, ORACLE)
    for row in range(POINTS):
        run, at = single(seed, row), 0
        words, layout = canonical(run), run.memory.layout
        for leaf in own_leaves(work.module, STATE):
            if leaf.path.startswith(KEPT):
                mine, at = left[at : at + leaf.words, row], at + leaf.words
                place = layout.locate(STATE, leaf.path).offset_words
                assert leaf.path == DIGEST or (words[place : place + leaf.words] == mine).all()
        assert at == len(left)


@pytest.mark.parametrize("seed", range(ON_TARGETS))
def test_every_target_leaves_one_hash(seed: int) -> None:
    outcomes = compared(lanes_of(seed), [ORACLE, *targets(NO_COLUMNS, lambda _: None)])
    assert [outcome.difference for outcome in outcomes] == [""] * len(outcomes)
    assert len(outcomes) >= 4


def test_they_trade() -> None:
    filled = [single(seed, 0).memory.get("e.metrics.orders_filled") for seed in range(4)]
    assert sum(filled) > 4
