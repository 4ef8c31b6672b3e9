"""What lanes of a sweep may count on: settings that are the same for all, tables nobody reads."""

import random

import numpy as np
import pytest

from quantdsl.backtest.lane_code import BLANK, _plan, settings, settled
from quantdsl.backtest.program import STATE
from quantdsl.codegen.lanes import FINISH, START, InterpretedLanes
from quantdsl.devices.work import LaneWork
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import Field
from quantdsl.ir.walk import expressions
from quantdsl.passes.known import settle_known
from tests.backtest.programs import strategy
from tests.backtest.test_lane_entry import FILES, checked_of, checked_text
from tests.gpu.works import strategy_work

LANES = 2


def interpreted(work: LaneWork, template: np.ndarray) -> np.ndarray:
    """The results of the first lanes."""
    results = np.zeros((len(work.results), LANES), np.int64)
    points = np.ascontiguousarray(work.points[:, :LANES])
    InterpretedLanes(work.module).call(
        "lanes", template, points.reshape(-1), work.params, len(work.params),
        results.reshape(-1), work.results, len(work.results), work.events.reshape(-1),
        len(work.events), np.zeros(1, np.int64), np.empty(0, np.int64), LANES, 0, LANES,
        START | FINISH,
    )  # fmt: skip
    return results


def filled(work: LaneWork) -> np.ndarray:
    """The template with anything at all in the blank tables."""
    rng, template = random.Random(1), work.template.copy()
    leaves = [x for x in Layout(work.module.structs).leaves(STATE) if x.path.startswith(BLANK)]
    assert leaves
    for leaf in leaves:
        for at in range(leaf.offset_words, leaf.offset_words + leaf.words):
            template[at] = rng.getrandbits(1 if leaf.type == "bool" else 40)
    return template


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_begins_in_a_blank_table_is_never_read(path):
    work = strategy_work(checked_of(path), 300)
    assert np.array_equal(interpreted(work, filled(work)), interpreted(work, work.template))


@pytest.mark.parametrize("seed", range(8))
def test_nor_by_generated_strategies(seed):
    work = strategy_work(checked_text(strategy(seed)), 300)
    assert np.array_equal(interpreted(work, filled(work)), interpreted(work, work.template))


def test_settings_are_known_but_what_is_swept_and_what_changes_often_is_not():
    checked = checked_of(next(path for path in FILES if path.stem == "ema_cross"))
    module = checked.lane_module()
    template = np.zeros(Layout(module.structs).words(STATE), np.int64)
    paths = dict(settings(module, template, {"p1"}))
    assert {"e.config.fee_rate", "e.instruments[0].tick_num", "p2"} <= set(paths)
    assert not {"p1", "e.config.cash", "e.config.samples", "e.instruments[0].lots_max"} & set(
        paths
    )
    left = settle_known(settled(module, tuple(paths.items())))
    read = {
        node.name
        for func in left.funcs
        for node in expressions(func.body)
        if isinstance(node, Field)
    }
    assert {"p1", "cash", "lots_max"} <= read
    assert not {"p2", "fee_rate", "slip_ticks", "verb"} & read


def test_a_plan_is_weighed_once_and_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("QUANTDSL_CACHE_DIR", str(tmp_path / "cache"))
    checked = checked_of(next(path for path in FILES if path.stem == "ema_cross"))
    asked = (checked, (("fast", 10), ("slow", 10)), 100, 10_000)
    made = {load: _plan.__wrapped__(*asked, load) for load in (0.0, 1e9)}
    assert made[0.0] != made[1e9]
    monkeypatch.setattr(type(checked), "plan", not_asked)
    for load, plan in made.items():
        assert _plan.__wrapped__(*asked, load) == plan
    with pytest.raises(AssertionError, match="weighed anew"):
        _plan.__wrapped__(*asked[:3], 20_000, 1.0)


def not_asked(*_: object) -> None:
    raise AssertionError("weighed anew")
