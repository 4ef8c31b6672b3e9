"""Usual turns apart leave what the plain loop leaves, to the bit."""

from pathlib import Path

import numpy as np
import pytest

from bench.shipped import GRIDS
from quantdsl.backtest.sweep import prepare_sweep
from quantdsl.check import compile_file
from quantdsl.codegen.lanes import FINISH, START
from quantdsl.codegen.ptx import Bounds, gpu_part
from quantdsl.devices.cpu import rows_of
from quantdsl.devices.cuda.tune import FEW, ROOMY
from quantdsl.devices.cuda.tune import USUAL as USUAL_BOUNDS
from quantdsl.devices.simulated import BLOCK, kernel_within
from quantdsl.devices.work import LaneWork
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import I64_T, BufferType, Call, For, StructType
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import expressions
from quantdsl.passes.held import HELD_TYPE, HELD_WORDS
from quantdsl.passes.hot import HOT_SIZES, HOT_TYPES, MOST
from quantdsl.passes.stride import LONG_STRIDE_BITS
from quantdsl.passes.tile import is_word
from quantdsl.passes.usual import GROUP_WORDS, IMAGE_WORDS
from quantdsl.shipped import shipped
from tests.backtest.programs import moody_strategy, strategy
from tests.backtest.test_lane_entry import checked_text
from tests.codegen.test_rows import by_events
from tests.gpu.works import FILES, checked_of, strategy_work
from tests.truth.test_oracle import market


def by_turns(
    work: LaneWork, pieces: int, bounds: Bounds = USUAL_BOUNDS
) -> tuple[np.ndarray, bool]:
    """The result words of all lanes, and whether they had usual turns apart."""
    kernel, code, shared_bytes = kernel_within(work, bounds)
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
    for bounds in (USUAL_BOUNDS, FEW):
        verify(gpu_part(work.module, work.kept, work.varying, bounds))
    expected = by_events(work)
    for pieces in (1, 5):
        found, usual = by_turns(work, pieces)
        assert np.array_equal(found, expected)
    for bounds in (FEW, ROOMY):
        assert np.array_equal(by_turns(work, 2, bounds)[0], expected)
    if path.stem in ("ema_cross", "bracket", "buy_and_hold"):
        assert usual


@pytest.mark.parametrize("seed", range(6))
def test_generated_strategies(seed):
    work = strategy_work(checked_text(strategy(seed)), 400)
    expected = by_events(work)
    for bounds in (USUAL_BOUNDS, FEW, ROOMY):
        assert np.array_equal(by_turns(work, 2, bounds)[0], expected)


@pytest.mark.parametrize("seed", [3, 4, 9])
def test_sweeps_of_generated_strategies(seed):
    checked, some = checked_text(moody_strategy(seed)), {"points": "random:3"}
    work = prepare_sweep(checked, Path("<input>"), end="2022-01-12", sweep=some).work
    found, usual = by_turns(work, 2)
    assert usual
    assert np.array_equal(found, by_events(work))


def test_threads_without_a_lane_leave_the_states_of_others():
    """Where nothing makes them wait, one that runs the last lane once more may come behind it."""
    checked, some = checked_text(strategy(102)), {"points": "random:5"}
    work = prepare_sweep(checked, Path("<input>"), end="2022-01-12", sweep=some).work
    found, usual = by_turns(work, 3)
    assert not usual
    assert np.array_equal(found, by_events(work))


ON_A_CONDITION = """language 1

strategy OnACondition:
    "Sends an order that is refused, on each bar of a handler with a condition."

    bars 1h

    param lots     = 30 shares in 10 shares..90 shares step 20 shares
    param never_at = 0.0 in 0.0..1.0 step 1.0

    on bar when close < float(equity):
        if close < never_at:
            sell(lots)
        short(46 shares, stop = close - 60 ticks, tif = ioc)

    risk:
        duplicate = 90m -> halt
"""


def test_a_row_on_which_nobody_trades_does_nothing_before_it_is_another():
    checked = checked_text(ON_A_CONDITION)
    work = prepare_sweep(checked, Path("<input>"), end="2022-02-01").work
    expected = by_events(work)
    for bounds in (USUAL_BOUNDS, FEW):
        found, usual = by_turns(work, 1, bounds)
        assert usual
        assert np.array_equal(found, expected)


def swept(name: str, ranges: dict[str, str]) -> LaneWork:
    path = next(path for path in FILES if path.stem == name)
    return prepare_sweep(compile_file(path), path, data=market(1200), ranges=ranges).work


def test_most_turns_are_usual_and_made_in_strides():
    work = swept("ema_cross", {"fast": "3..5:1", "slow": "514..516:1"})
    expected = by_events(work)
    lanes = Interpreted(work)
    for lane in (0, work.n_lanes - 1):
        found = lanes.run(lane)
        assert np.array_equal(found[work.results], expected[:, lane])
    warm = 2 * (len(work.events) - 600)
    assert lanes.held_words == 2  # the weights of two averages
    assert lanes.idle_turns > 2 * (514 - Interpreted.ROWS)  # averages warm up
    assert lanes.slow_turns < 0.1 * warm
    assert lanes.usual_calls < warm / 4


def test_words_that_turns_change_are_apart_where_there_are_registers():
    work = swept("bracket", {"fast": "3..5:2", "above": "0.2..0.4:0.2"})
    lanes, expected = Interpreted(work, FEW), by_events(work)
    assert min(lanes.hot_words.values()) > 0
    assert sum(lanes.hot_words.values()) <= MOST
    slow = next(func for func in lanes.module.funcs if func.name == "slow")
    assert not any(isinstance(node, Call) for node in expressions(slow.body))
    for lane in (0, work.n_lanes - 1):
        assert np.array_equal(lanes.run(lane)[work.results], expected[:, lane])


OF_PARAMS = """language 1

strategy OfParams:
    "Buys a share of a price below the market, and sells at one above it."

    bars 1h

    param dip   = 0.5 in 0.5..1.5 step 0.5
    param above = 1.0 in 0.0..2.0 step 1.0

    on bar when flat:
        buy(1 shares, limit = close * (1 - 1.0 / 3.0 * (dip / 100)),
            take_profit = close * (1 + above / 100))
"""


def test_quotients_of_params_are_held_for_turns_with_orders():
    """Also where usual turns hold nothing. What is made of literals is one."""
    work = prepare_sweep(checked_text(OF_PARAMS), Path("<input>"), end="2022-02-01").work
    assert Interpreted(work).held_words == 0
    lanes, expected = Interpreted(work, FEW), by_events(work)
    assert lanes.held_words == 2
    for lane in range(work.n_lanes):
        assert np.array_equal(lanes.run(lane)[work.results], expected[:, lane])
    assert np.array_equal(by_turns(work, 2, FEW)[0], expected)


def test_what_a_turn_reads_of_its_row_it_reads_first():
    work = swept("bracket", {"fast": "3..5:2"})
    module = gpu_part(work.module, work.kept, work.varying, FEW)
    slow = next(func for func in module.funcs if func.name == "slow")
    (loop,) = (stmt for stmt in slow.body if isinstance(stmt, For))
    reads = [k for k, stmt in enumerate(loop.body) if any(map(is_word, expressions((stmt,))))]
    assert len(reads) > 10
    assert reads == list(range(reads[0], reads[0] + len(reads)))


def test_levels_of_orders_are_asked_of_strides():
    work = swept("bracket", {"fast": "3..5:2"})
    sizes = dict(gpu_part(work.module, work.kept, work.varying).sizes)
    assert IMAGE_WORDS in sizes
    assert GROUP_WORDS in sizes


class Interpreted:
    """The functions of usual turns called one by one, as a kernel's thread does."""

    ROWS = 32

    def __init__(self, work: LaneWork, bounds: Bounds = USUAL_BOUNDS) -> None:
        self.work, self.module = work, gpu_part(work.module, work.kept, work.varying, bounds)
        self.interpreter = Interpreter(self.module)
        sizes = dict(self.module.sizes)
        self.words, self.group = sizes[IMAGE_WORDS], sizes[GROUP_WORDS]
        self.held_words = sizes[HELD_WORDS]
        self.hot_words = {param: sizes[size] for param, size in HOT_SIZES.items() if size in sizes}
        self.slow_turns = self.idle_turns = self.usual_calls = 0

    def run(self, lane: int) -> np.ndarray:
        """The State of a lane after all events."""
        work, call = self.work, self.interpreter.call
        state = work.template.copy()
        state[work.params] = work.points[:, lane]
        call("init", state)
        code = rows_of(work)
        assert code is not None
        maker = code.start(work.template, work.params, work.points[:, lane])
        rows, turns = maker.rows(work.events)
        columns, memory = np.zeros(1, np.int64), self.interpreter.memory
        given = memory(BufferType(I64_T), rows.reshape(-1))
        s = memory(StructType("State"), state)
        made = np.zeros((turns >> LONG_STRIDE_BITS) * self.group, np.int64)
        call("gather", given, 0, turns, filled := memory(BufferType(I64_T), made), 0)
        filled.store()
        held = memory(HELD_TYPE, np.zeros(self.held_words, np.int64))
        call("hold", s, held)
        hot = [
            memory(HOT_TYPES[param], np.zeros(count, np.int64))
            for param, count in self.hot_words.items()
        ]
        extra = [held, *hot]
        if hot:
            call("take", s, *hot)
        for first in range(0, turns, self.ROWS):
            to = min(first + self.ROWS, turns)
            tile = memory(BufferType(I64_T), np.zeros((self.ROWS + 1) * self.words, np.int64))
            for row in range(first, to):
                call("image", given, row, tile, (row - first) * self.words)
            groups = memory(BufferType(I64_T), made[(first >> LONG_STRIDE_BITS) * self.group :])
            reached = first
            while reached < to:
                reached = call("usual", s, tile, groups, first, reached, to, columns, *extra)
                self.usual_calls += 1
                if reached < to:
                    idled = call("idle", s, given, reached, to, columns, *extra)
                    self.idle_turns += idled - reached
                    reached = idled
                if reached < to:
                    behind = call("slow", s, given, reached, reached + 1, to, columns, *extra)
                    self.slow_turns += behind - reached
                    reached = behind
        if hot:
            call("give", s, *hot)
        call("last", s, given, turns)
        s.store()
        return state


@pytest.mark.parametrize("name", ["crypto_breakout", "opening_range"])
def test_turns_of_strategies_that_go_short_are_usual(name):
    """A word more that the end of a day writes, and two of them took twice as long on a GPU."""
    path = shipped(f"strategies/{name}.qdsl")
    sweep = prepare_sweep(compile_file(path), path, data=market(20_000), ranges=GRIDS[name])
    work = sweep.work
    module = gpu_part(work.module, work.kept, work.varying, USUAL_BOUNDS)
    assert IMAGE_WORDS in dict(module.sizes)
