"""Interpreter, scalar code, SIMD code and the simulated GPU leave the same bits, lane by lane.

With and without columns, of every strategy that is here and of generated ones. The digest among
the results is of each order, fill and trade.
"""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest import verify
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.stream import materialised
from quantdsl.backtest.verify import (
    InterpretedRunner,
    Lanes,
    Target,
    compared,
    draw,
    targets,
    usual_plan,
)
from quantdsl.check import Checked, columns
from tests.backtest.programs import strategy
from tests.backtest.test_lane_entry import checked_of, checked_text

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("strategies", "bench/strategies", "tests/truth")
    for path in (ROOT / folder).glob("*.qdsl")
)
POINTS, EVENTS = 4, 600
GENERATED, GENERATED_EVENTS = 12, 300


def assert_one_hash(checked: Checked, n_events: int) -> None:
    arranged = arrange(checked)
    points = draw(checked, arranged, POINTS, np.random.default_rng(1))
    every = materialised(arranged.data)
    events = np.concatenate([every[:n_events], every[-1:]])
    lanes = Lanes(checked, arranged, points, events)
    machine = targets(usual_plan(checked, n_events), lambda _: None)
    outcomes = compared(lanes, [Target("interpreter", InterpretedRunner()), *machine])
    assert len(outcomes) >= 4
    assert [outcome.difference for outcome in outcomes] == [""] * len(outcomes)
    assert len({outcome.hash for outcome in outcomes}) == 1


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_strategy_here(path: Path) -> None:
    assert_one_hash(checked_of(path), EVENTS)


@pytest.mark.parametrize("seed", range(GENERATED))
def test_generated_strategies(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:  # all that can be hoisted is
        monkeypatch.setattr(verify, "LOAD_GPU", 0)
        monkeypatch.setattr(columns, "STORE", 0)
    assert_one_hash(checked_text(strategy(seed)), GENERATED_EVENTS)
