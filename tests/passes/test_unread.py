"""Stores that no result is made of go; what is asked for stays as it was."""

import numpy as np

from quantdsl.backtest.program import STATE
from quantdsl.codegen.lanes import FINISH, START, InterpretedLanes
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import Assign, Do, Field, Module, StructType
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import statements
from quantdsl.passes.unread import drop_unread
from quantdsl.passes.unused import drop_unused
from tests.backtest.test_lane_entry import FILES, checked_of
from tests.gpu.works import strategy_work

LANES = 2
ASKED = frozenset({"e.metrics.trades", "e.metrics.fees_paid"})


def stored(module: Module) -> set[str]:
    """The fields that are assigned to."""
    return {
        stmt.place.name
        for func in module.funcs
        for stmt in statements(func.body)
        if isinstance(stmt, Assign) and isinstance(stmt.place, Field)
    }


def left_by(work, module: Module, offsets: np.ndarray) -> np.ndarray:
    results = np.zeros((len(offsets), LANES), np.int64)
    points = np.ascontiguousarray(work.points[:, :LANES])
    InterpretedLanes(module).call(
        "lanes", work.template, points.reshape(-1), work.params, len(work.params),
        results.reshape(-1), offsets, len(offsets), work.events.reshape(-1), len(work.events),
        np.zeros(1, np.int64), np.empty(0, np.int64), LANES, 0, LANES, START | FINISH,
    )  # fmt: skip
    return results


def test_only_what_is_asked_for_is_computed():
    work = strategy_work(checked_of(next(p for p in FILES if p.stem == "bracket")), 600)
    left = drop_unused(drop_unread(work.module, "lane", ASKED))
    verify(left)
    gone = stored(work.module) - stored(left)
    assert {"gross_profit", "win_run", "mae_max", "hold_ns_max"} <= gone
    assert {"trades", "fees_paid", "lots", "cash", "limit"} <= stored(left)
    layout = Layout(left.structs)
    offsets = np.array([layout.locate(STATE, path).offset_words for path in sorted(ASKED)])
    found = left_by(work, left, offsets)
    assert found[1].any()
    assert np.array_equal(found, left_by(work, work.module, offsets))


def test_a_sum_that_nobody_asks_for_goes_beside_one_that_stays():
    work = strategy_work(checked_of(next(p for p in FILES if p.stem == "bracket")), 600)
    asked = ASKED | {"e.metrics.ret_sum.total", "e.metrics.ret_sum.carry"}
    left = drop_unused(drop_unread(work.module, "lane", asked))
    verify(left)
    added = {
        stmt.call.args[0].name
        for func in left.funcs
        for stmt in statements(func.body)
        if isinstance(stmt, Do) and stmt.call.func == "sums.add"
        if isinstance(stmt.call.args[0], Field)
    }
    assert "ret_sum" in added
    assert not added & {"mae_sum", "mfe_sum", "trade_sq", "hold_ns", "traded"}
    layout = Layout(left.structs)
    offsets = np.array([layout.locate(STATE, path).offset_words for path in sorted(asked)])
    found = left_by(work, left, offsets)
    assert found.any(axis=1).sum() > 2
    assert np.array_equal(found, left_by(work, work.module, offsets))


def test_a_struct_is_copied_by_what_is_read_of_it():
    work = strategy_work(checked_of(next(p for p in FILES if p.stem == "ema_cross")), 10)
    left = drop_unread(work.module, "lane", work.kept)
    intent = StructType("orders.Intent")
    words = Layout(left.structs).words(intent)
    place = next(func for func in left.funcs if func.name == "orders.place")
    copies = [s for s in statements(place.body) if isinstance(s, Assign)]
    assert 1 < len(copies) < words
