"""Sweeps on vectors give what the interpreter and scalar code give, on whole strategies."""

import re

import numpy as np
import pytest

from quantdsl.codegen.lanes import InterpretedLanes
from quantdsl.codegen.rows import kernel_part, split_lanes
from quantdsl.codegen.simd import emit_lanes, simd_program
from quantdsl.codegen.simd_strides import StrideEmitter
from quantdsl.codegen.target import avx2, avx512, neon
from quantdsl.devices.work import LaneWork
from quantdsl.ir.ops import boolean
from quantdsl.passes.uniform import uniform
from tests.backtest.programs import strategy
from tests.backtest.test_lane_entry import checked_text
from tests.codegen.simd_programs import TARGETS
from tests.codegen.test_rows import at_once, by_events, by_rows
from tests.codegen.test_simd import REGISTERS, assembly
from tests.gpu.works import FILES, checked_of, strategy_work

POINTS = 19


def swept_work(checked, events: int) -> LaneWork:
    """Some points of a strategy: full groups of every width, and a short one."""
    work = strategy_work(checked, events)
    return work._replace(points=np.ascontiguousarray(work.points[:, :POINTS]))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_strategies(path):
    work = swept_work(checked_of(path), 1500)
    expected = by_events(work)
    for target, pieces in zip(TARGETS, (1, 4, 2), strict=False):
        assert np.array_equal(by_rows(work, None, pieces, simd_program, target), expected)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_strategies_as_interpreted(path):
    work = swept_work(checked_of(path), 120)
    found = by_rows(work, None, 1, simd_program, TARGETS[0])
    assert np.array_equal(found, at_once(InterpretedLanes(work.module), work))


@pytest.mark.parametrize("seed", range(8))
def test_generated_strategies(seed):
    work = swept_work(checked_text(strategy(seed)), 400)
    target = TARGETS[seed % len(TARGETS)]
    assert np.array_equal(by_rows(work, None, 2, simd_program, target), by_events(work))


@pytest.mark.parametrize("target", [avx512(), avx2(), neon()], ids=lambda t: f"{t.lanes}_lanes")
def test_the_code_of_a_strategy_uses_the_wide_registers(target):
    work = strategy_work(checked_of(next(path for path in FILES if path.stem == "ema_cross")), 10)
    part = kernel_part(split_lanes(work.module, work.kept, work.varying, None, False))
    text = emit_lanes(part, target, uniform(part, "lane", work.varying)).text
    assert len(re.findall(REGISTERS[target.lanes], assembly(text, target))) >= 5


@pytest.mark.parametrize("name", ["ema_cross", "bracket"])
def test_a_stride_that_a_lane_stops_is_made_row_by_row(name, monkeypatch):
    work = swept_work(checked_of(next(path for path in FILES if path.stem == name)), 1500)
    expected = by_events(work)
    stopped = StrideEmitter.any_lane

    def found(always: bool) -> np.ndarray:
        answer = boolean(always)
        monkeypatch.setattr(StrideEmitter, "any_lane", lambda self, _: stopped(self, answer))
        return by_rows(work, None, 2, simd_program, TARGETS[0])

    assert np.array_equal(found(True), expected)
    assert not np.array_equal(found(False), expected)
