"""With and without columns a lane leaves the same bits, whatever is hoisted."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from quantdsl.backtest import values
from quantdsl.backtest.columns import table_of
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.program import Memory
from quantdsl.check import Checked, columns
from quantdsl.check.columns import NO_COLUMNS
from quantdsl.check.grid import points as range_of
from quantdsl.check.lanes import STEP, column
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.events import layout
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.verify import verify
from tests.backtest.programs import strategy
from tests.backtest.test_lane_entry import (
    FILES,
    checked_of,
    checked_text,
    decided,
    events_of,
    written,
)

SWEPT_MAX, LEVELS = 3, 3
HOISTED = ("bracket", "ema_cross", "sma_cross", "channel_breakout", "pairs_z")
"""Strategies that must have columns here."""

EVERY_KIND = """language 1

strategy EveryKind:
    bars 30m
    bars 1d as daily
    session "XNYS"

    param n = 4   in 2..9 step 1
    param m = 10  in 5..20 step 5
    param k = 0.5 in 0.1..0.9 step 0.1

    let slow  = ta.sma(daily.close, n)
    let hist  = ta.macd(close, n, m, 3)
    let count = ta.barssince(close > ta.sma(close, n)) ?? 0
    let up    = close > ta.sma(close, m)
    let mixed = slow + ta.sma(close, m)
    let deep  = ta.sma(close, n)[m]
    let quick = ta.ema(close, n)

    on bar:
        if flat and up and not up[1] and hist.hist > hist.hist[1]:
            buy(10 shares)
        elif quick crosses below deep or count > 3 and mixed < slow[2] + k:
            close_position()

    on bar(daily):
        if slow > slow[1]:
            sell(1 shares)

    backtest:
        fees = 1bps

    plot(mixed)
"""


@pytest.fixture
def free_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that can be hoisted is."""
    monkeypatch.setattr(columns, "STORE", 0)


def grid(checked: Checked) -> dict[str, list[object]]:
    """A few values of the first params that have a range."""
    found: dict[str, list[object]] = {}
    for param in checked.strategy.params:
        if param.low is not None and len(found) < SWEPT_MAX:
            every = range_of(param)
            spread = {every[0], every[len(every) // 3], param.default}
            found[param.name] = [values.show(param, value) for value in sorted(spread)][:LEVELS]
    return found


def points_of(axes: dict[str, list[object]]) -> Iterator[dict[str, int]]:
    """Every combination, as numbers of values."""
    for levels in product(*(range(len(axis)) for axis in axes.values())):
        yield dict(zip(axes, levels, strict=True))


def fill(checked: Checked, plan, table, axes, levels, template: Memory, events) -> np.ndarray:
    """The table, filled by the lanes of each subset of params."""
    found = np.zeros((len(events) // layout.WORDS, table.width), np.int64)
    by_name = {param.name: param for param in checked.strategy.params}
    for subset in table.subsets:
        module = checked.columns_module(plan, subset.params)
        verify(module)
        executor = Program(object_code(module, native()), module, native())
        for lane, point in enumerate(subset.points):
            memory = template.part(module)
            memory.set(STEP, table.step)
            for name in subset.params:
                text = axes[name][levels[name][point]]
                value = values.chosen([by_name[name]], {name: text})[name]
                memory.set(by_name[name].field, by_name[name].word(value))
            for row, number in enumerate(subset.numbers):
                memory.set(column(number), int(subset.columns[row, lane]))
            executor.call("init", memory.words)
            executor.call("lane", memory.words, events, len(found), found.reshape(-1))
    return found


def assert_same_with_columns(
    checked: Checked, count: int, *, by_column: bool = False
) -> columns.Plan:
    """For a few points of a grid; the plan of what was hoisted."""
    data = arrange(checked).data
    events = np.ascontiguousarray(events_of(data, count)).view(np.int64).reshape(-1)
    n_events = len(events) // layout.WORDS
    axes = grid(checked)
    picked = list(points_of(axes))
    levels = {name: np.array([point[name] for point in picked]) for name in axes}
    swept = {name: len(axis) for name, axis in axes.items()}
    plan, _ = checked.plan(columns.Scope(swept, len(picked), n_events, load=0))
    plain, module = checked.lane_module(), checked.lane_module(plan=plan)
    verify(module)
    target = native()
    one, other = (Program(object_code(m, target), m, target) for m in (plain, module))
    table = table_of(plan, levels, n_events)
    table = table.by_column() if by_column else table
    filled: np.ndarray | None = None
    for number, point in list(enumerate(picked))[:: max(len(picked) // 5, 1)]:
        params = {name: axes[name][level] for name, level in point.items()}
        expected, found = Memory(plain), Memory(module)
        for memory in (expected, found):
            written(checked, data, memory, params)
        for word in range(len(plan.words)):
            found.set(STEP, table.step)
            found.set(column(word), int(table.reads[word, number]))
        if filled is None:
            filled = fill(checked, plan, table, axes, levels, found, events)
        executors = (one, Interpreter(module)) if number == 0 else (one, other)
        for executor, memory in zip(executors, (expected, found), strict=True):
            executor.call("init", memory.words)
            executor.call("lane", memory.words, events, n_events, filled.reshape(-1))
        assert decided(found) == decided(expected), params
    return plan


@pytest.mark.usefixtures("free_loads")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_shipped_strategies(path) -> None:
    checked = checked_of(path)
    plan = assert_same_with_columns(checked, 1500) if len(grid(checked)) > 1 else NO_COLUMNS
    assert plan.hoisted or path.stem not in HOISTED


@pytest.mark.usefixtures("free_loads")
@pytest.mark.parametrize("seed", range(12))
def test_generated_strategies(seed: int) -> None:
    assert_same_with_columns(checked_text(strategy(seed)), 400, by_column=seed % 2 == 1)


@pytest.mark.usefixtures("free_loads")
def test_every_kind_of_value_and_of_history() -> None:
    checked = checked_text(EVERY_KIND)
    plan = assert_same_with_columns(checked, 1500, by_column=True)
    assert {"", "hist"} <= {part for one in plan.hoisted for part in one.parts}
    assert set(plan.subsets) == {("n",), ("m",), ("n", "m")}
