"""Lanes with room for few orders leave what lanes with room for all leave, crowded or not."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from quantdsl.backtest.sweep import Sweep, placed, prepare_sweep, run
from quantdsl.backtest.sweep_parts import Parts
from quantdsl.check import compile_file
from quantdsl.check.few import few_orders
from quantdsl.devices.cpu import CpuRunner
from quantdsl.devices.work import Words
from tests.backtest.test_lane_entry import checked_text
from tests.truth.test_oracle import market

ROOT = Path(__file__).parents[2]

WAITS = """language 1

strategy Waits:
    bars 1m

    param depth = 0 in 0..60 step 10

    on bar:
        if flat:
            buy(1 shares, limit = close * (1 - depth / 100.0))
        else:
            close_position()

    backtest:
        cash = 100_000 USD
"""
"""Limits far below the market fill up any table; those at the close fill at once."""

ASKED = {
    "if close > 1:\n            buy(1 shares)\n        else:\n            close_position()": 1,
    "if close > 1:\n            close_position()\n            buy(1 shares)": 2,
    "if flat:\n            buy(1 shares, limit = close)\n            cancel_all()": 4,
    "buy(1 shares, limit = close, take_profit = close * 2, stop_loss = 1)": 6,
    "if flat:\n            buy(1 shares, stop_loss = 1)\n        else:\n"
    "            cancel_all()\n            close_position()": 8,
    "for k in 0..<3:\n            buy(1 shares)": 0,
}
"""What a handler of bars asks for, and the orders that its lanes have room for."""


@pytest.fixture(scope="module")
def bars() -> pa.Table:
    return market(3_000)


def strategy(handler: str) -> str:
    head, _, tail = WAITS.partition("        if flat:")
    return f"{head}        {handler}\n\n    backtest:{tail.partition('backtest:')[2]}"


@pytest.mark.parametrize("handler", ASKED)
def test_the_text_says_how_many_orders_an_instant_asks_for(handler: str) -> None:
    checked = checked_text(strategy(handler))
    assert few_orders(checked.strategy, frozenset()) == ASKED[handler]


@pytest.mark.parametrize("use", ["USES_TICKS", "USES_LINK"])
def test_what_needs_the_queue_has_it(use: str) -> None:
    checked = checked_text(WAITS)
    assert few_orders(checked.strategy, frozenset()) == 2
    assert few_orders(checked.strategy, frozenset({use})) == 0


def test_many_instruments_have_the_queue() -> None:
    for name in ("pairs_z", "xs_momentum"):
        checked = compile_file(ROOT / f"strategies/{name}.qdsl")
        assert few_orders(checked.strategy, frozenset()) == 0


def both(sweep: Sweep) -> tuple[Sweep, Sweep]:
    """The sweep, whose lanes have room for few orders, and one with room for all."""
    assert sweep.code.few
    roomy = placed(sweep, sweep.work.events, sweep.start_ns, sweep.code.plan, roomy=True)
    assert not roomy.code.few
    return sweep, roomy


@pytest.mark.parametrize("name", ["ema_cross", "bracket"])
def test_lanes_with_little_room_leave_the_same(name: str, bars: pa.Table) -> None:
    path = ROOT / f"bench/strategies/{name}.qdsl"
    few, roomy = both(
        prepare_sweep(compile_file(path), path, data=bars, sweep={"points": "sobol:24"})
    )
    assert len(few.work.template) < len(roomy.work.template) / 2
    assert np.array_equal(run(few, CpuRunner()).words, run(roomy, CpuRunner()).words)


@pytest.mark.parametrize("depths", ["0..60:10", "10..60:1"], ids=["some", "most"])
def test_crowded_lanes_run_again(depths: str, bars: pa.Table, tmp_path: Path) -> None:
    """Each is told of once, and kept on disk as it is in the end."""
    path = tmp_path / "waits.qdsl"
    path.write_text(WAITS)
    sweep = prepare_sweep(compile_file(path), path, data=bars, ranges={"depth": depths})
    few, roomy = both(sweep)
    told: list[tuple[int, int]] = []
    parts = Parts(tmp_path / "parts", few.manifest())
    runner = CpuRunner(threads=1)
    crowded = 0

    def looked(_lo: int, _hi: int, words: Words) -> None:
        nonlocal crowded
        crowded += np.count_nonzero(words[-1])

    runner.run(few.work, 0, few.n_points, looked)
    assert crowded > 0
    lanes = run(few, runner, parts=parts, progress=lambda done, n: told.append((done, n)))
    assert lanes.complete
    assert np.array_equal(lanes.words, run(roomy, runner).words)
    assert told[-1] == (few.n_points, few.n_points)
    again = run(few, runner, parts=parts, resume=True)
    assert np.array_equal(again.words, lanes.words)
