"""What lanes have in common is made once, and each of them reads it as it was at its moment."""

import numpy as np
import pytest

from quantdsl.check.columns import NO_COLUMNS
from quantdsl.codegen import rows
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.ptx import Bounds, gpu_part, ptx_text, target_of
from quantdsl.codegen.rows import history_of
from quantdsl.codegen.target import native
from quantdsl.devices.cpu import CpuRunner, scalar, tiled_rows_of
from quantdsl.devices.work import LaneWork
from quantdsl.ir.ops import I64_T, Call, FieldDecl, Func, Module, Return, StructDecl, Var
from quantdsl.ir.verify import verify
from quantdsl.passes.common import COMMON_TYPE
from quantdsl.passes.past import ask_func, takes_past, with_changes
from quantdsl.shipped import shipped
from tests.backtest.test_lane_entry import checked_of
from tests.backtest.test_tick_sweep import lanes_of
from tests.passes.test_usual import by_turns

WORDS = 5


def maker() -> LaneWork:
    lanes = lanes_of(checked_of(shipped("strategies/skewed_maker.qdsl")), 2, 3_000)
    return lanes.work(NO_COLUMNS)


def asking() -> Module:
    """An entry that asks what a word of five was."""
    fields = tuple(FieldDecl(f"w{k}", I64_T) for k in range(WORDS))
    structs = with_changes(Module((StructDecl(COMMON_TYPE.name, fields),), (), (), ())).structs
    ask = ask_func()
    args = tuple(Var(param.name) for param in ask.params)
    entry = Func("asked", ask.params, I64_T, (Return(Call(ask.name, args)),))
    return Module(structs, (), (ask, entry), (entry.name,))


@pytest.mark.parametrize("seed", range(3))
def test_a_word_is_what_it_was_after_so_many_changes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = rng.integers(0, 9, WORDS)
    log = np.stack((rng.integers(0, WORDS - 1, 40), rng.integers(10, 99, 40)), axis=1)
    now, states = before.copy(), [before.copy()]
    for at, value in log:
        now[at] = value
        states.append(now.copy())
    module, history = asking(), history_of(before, log)
    verify(module)
    program = Program(object_code(module, native()), module, native())
    for moment, state in enumerate(states):
        assert [program.call("asked", history, at, moment) for at in range(WORDS)] == [*state]


def test_a_maker_takes_rows_and_no_warp_waits() -> None:
    work = maker()
    part = gpu_part(work.module, work.kept, work.varying)
    verify(part)
    assert all(param.type != COMMON_TYPE for func in part.funcs for param in func.params)
    assert any(map(takes_past, part.funcs))
    assert "bar.warp.sync" not in ptx_text(part, target_of("sm_90"), Bounds())


def test_where_there_were_more_changes_than_room_rows_are_made_once_more(monkeypatch) -> None:
    work = maker()
    code = tiled_rows_of(work, Bounds().tiling)
    assert code is not None

    def made() -> list[np.ndarray]:
        maker = code.start(work.template, work.params, work.points[:, 0])
        return [maker.rows(piece)[0] for piece in np.split(work.events, [700])]

    expected = made()
    monkeypatch.setattr(rows, "CHANGES", 0)
    monkeypatch.setattr(rows, "MOST", 1)
    for found, one in zip(made(), expected, strict=True):
        assert np.array_equal(found, one)


def test_lanes_in_pieces_of_events_read_the_past_of_each() -> None:
    work = maker()
    expected: list[np.ndarray] = []
    CpuRunner(load=scalar).run(work, 0, work.n_lanes, lambda *done: expected.append(done[-1]))
    for pieces in (1, 3):
        assert np.array_equal(by_turns(work, pieces)[0], np.concatenate(expected, axis=1))
