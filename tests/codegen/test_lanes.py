"""The scalar kernel leaves, lane by lane, what the interpreter leaves."""

import numpy as np
import pytest

from quantdsl.backtest.lane_program import program, run_lanes, state
from quantdsl.backtest.verify import InterpretedRunner
from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import FORBID_COMPILE
from quantdsl.codegen.lanes import InterpretedLanes, load_lanes
from quantdsl.codegen.target import native
from quantdsl.devices.cpu import CpuRunner, scalar
from quantdsl.devices.simulated import SimulatedRunner
from quantdsl.devices.work import Runner
from quantdsl.errors import LimitError
from quantdsl.ir.ops import ArrayType, Assign, Binary, Elem, FieldDecl, Module, Var, i64
from tests.codegen.lane_programs import every_path, random_lanes, swept


@pytest.mark.parametrize("seed", range(24))
def test_every_word_of_every_lane_is_the_interpreters(seed):
    module = random_lanes(seed)
    expected = swept(InterpretedLanes(module), module, seed)
    assert np.array_equal(
        swept(load_lanes(module, every_path(module), native(), None), module, seed), expected
    )


@pytest.mark.parametrize("seed", [3, 4])
def test_chunks_of_events_change_nothing(seed):
    module = random_lanes(seed)
    kernel = load_lanes(module, every_path(module), native(), None)
    assert np.array_equal(swept(kernel, module, seed, 1), swept(kernel, module, seed, 6))


def test_the_kernel_comes_from_the_cache(tmp_path, monkeypatch):
    cache, module = Cache(tmp_path / "cache"), random_lanes(1)
    fresh = swept(load_lanes(module, every_path(module), native(), cache), module, 1)
    monkeypatch.setenv(FORBID_COMPILE, "1")
    assert np.array_equal(
        swept(load_lanes(module, every_path(module), native(), cache), module, 1), fresh
    )


def large_lanes() -> Module:
    """Lanes of 560 KB that add up what they find at places of their own."""
    at = Binary("imod", Binary("imul", Var("k"), state("step")), i64(96))
    place = Elem(state("xs"), at)
    more = Binary("iadd", state("total"), Binary("iadd", place, Var("k")))
    fields = (FieldDecl("step", "i64"), FieldDecl("total", "i64"))
    turn = (Assign(state("total"), more), Assign(place, state("total")))
    return program((*fields, FieldDecl("xs", ArrayType("i64", 70_000))), (), turn)


def test_a_state_beyond_a_threads_memory_runs_on_cores_and_not_on_a_gpu():
    module, steps = large_lanes(), np.arange(1, 20)

    def totals(runner: Runner) -> np.ndarray:
        columns = np.zeros((500, 1), np.int64)
        return run_lanes(runner, module, {"step": steps}, ("total",), columns)["total"]

    expected = totals(InterpretedRunner())
    assert len(np.unique(expected)) > 1
    assert (totals(CpuRunner(2)) == expected).all()
    assert (totals(CpuRunner(1, scalar)) == expected).all()
    with pytest.raises(LimitError, match=r"bytes of state, more(.|\n)*--device cpu"):
        totals(SimulatedRunner())
