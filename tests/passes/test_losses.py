"""Limits on losses that strides ask as bounds: the same bits, and turns stay in strides."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.sweep import Sweep, prepare_sweep, run
from quantdsl.check import compile_file
from quantdsl.codegen.ptx import gpu_part
from quantdsl.devices.choose import runner
from quantdsl.devices.cuda.tune import FEW
from quantdsl.devices.cuda.tune import USUAL as USUAL_BOUNDS
from quantdsl.ir.ops import I64_T, Assign, Binary, Break, Elem, If, Let, Select, Var, i64
from quantdsl.passes.marks import marked
from quantdsl.passes.tile import is_word
from quantdsl.passes.usual import GROUP_WORDS
from tests.backtest.test_lane_entry import checked_text
from tests.codegen.test_rows import by_events
from tests.gpu.works import FILES
from tests.passes.test_usual import Interpreted, by_turns
from tests.truth.test_oracle import market

TEXT = """\
language 1

strategy Limited:
    bars 1m

    param fast = 5  in 2..9   step 1
    param slow = 30 in 10..60 step 10

    let f = ta.ema(close, fast)
    let s = ta.ema(close, slow)

    on bar:
        if f crosses above s:
            target(SIZE)
        elif f crosses below s:
            target(0 shares)

    risk:
        LIMIT

    backtest:
        cash         = 100_000 USD
        fees         = 1bps
        close_at_end = true
"""
LIMITS = {
    "a share of equity": "max_daily_loss = 1.5% of equity -> flatten, halt",
    "a share, the other way round": "max_daily_loss = equity * 1% -> flatten",
    "a small share": "max_daily_loss = 0.05% of equity -> flatten",
    "a share of most": "max_daily_loss = 99.95% of equity -> halt",
    "all": "max_daily_loss = 100% of equity -> halt",
    "an amount": "max_daily_loss = 1_500 USD -> flatten, halt",
    "nothing": "max_daily_loss = 0 USD -> flatten",
    "an amount of the peak": "max_drawdown = 2_500 USD -> flatten, halt",
    "a share of the peak": "max_drawdown = 3% -> flatten, halt",
    "both": "max_daily_loss = 1.5% of equity -> flatten\n        max_drawdown = 3% -> halt",
}
RANGES = {"fast": "2..9:1", "slow": "20..60:20"}


SHIPPED = {
    "sma_cross": {"fast": "5..15:5", "slow": "20..30:10"},
    "crypto_breakout": {"entry": "8..24:8", "trail": "2.0..4.0:2.0"},
    "supertrend_trail": {"factor": "1.0..2.0:1.0", "len": "5..10:5"},
    "opening_range": {"length": "3..6:1", "reward": "0.5..1.5:1.0"},
}
"""Strategies with a limit of a share of equity, most of which tell values once they are warm."""


def limited(limit: str, size: str = "900 shares", cash: str = "100_000 USD") -> Sweep:
    text = TEXT.replace("LIMIT", limit).replace("SIZE", size).replace("100_000 USD", cash)
    return prepare_sweep(checked_text(text), Path("limited.qdsl"), data=market(2500), ranges=RANGES)


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_strides_leave_what_turns_leave(limit):
    work = limited(limit).work
    expected = by_events(work)
    for bounds, pieces in ((USUAL_BOUNDS, 1), (USUAL_BOUNDS, 3), (FEW, 2)):
        found, usual = by_turns(work, pieces, bounds)
        assert usual
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_cores_leave_it_too(limit):
    sweep = limited(limit)
    lanes = run(sweep, runner("cpu", lambda _: None))
    assert np.array_equal(lanes.words, by_events(sweep.work)[: len(lanes.words)])


@pytest.mark.parametrize("size", ["-900 shares", "1 share", "100_000 shares"])
def test_short_small_and_more_than_there_is(size):
    work = limited(LIMITS["a share of equity"], size, "150_000 USD").work
    assert np.array_equal(by_turns(work, 2)[0], by_events(work))


@pytest.mark.parametrize("name", ["a share of equity", "an amount", "a share of the peak"])
def test_some_lanes_meet_their_limit(name):
    """Else the tests above would compare nothing."""
    free = by_events(limited("max_daily_loss = 100_000_000 USD").work)
    met = (by_events(limited(LIMITS[name]).work) != free).any(axis=0)
    assert met.any()
    assert not met.all()


FAR = ("max_daily_loss = 8% of equity", "max_daily_loss = 9_000 USD", "max_drawdown = 12%")


@pytest.mark.parametrize("limit", [*FAR, f"{FAR[0]}\n        {FAR[2]}"])
def test_a_limit_is_no_reason_to_make_turns_one_by_one(limit):
    lanes, free = Interpreted(limited(limit).work), Interpreted(limited("max_entries = 9").work)
    assert GROUP_WORDS in dict(lanes.module.sizes)
    lanes.run(5)
    free.run(5)
    assert (lanes.usual_calls, lanes.slow_turns) == (free.usual_calls, free.slow_turns)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_strategies_trade_alike_on_cores_and_in_strides(name):
    """With the columns of a GPU's plan, whichever runs the lanes."""
    path = next(path for path in FILES if path.stem == name)
    sweep = prepare_sweep(
        compile_file(path),
        path,
        data=market(60_000),
        ranges=SHIPPED[name],
        sweep={"device": "cuda:0"},
    )
    module = gpu_part(sweep.work.module, sweep.work.kept, sweep.work.varying)
    # The stop of supertrend_trail follows the prices.
    assert (GROUP_WORDS in dict(module.sizes)) == (name != "supertrend_trail")
    cores, strides = (run(sweep, runner(choice, print)) for choice in ("cpu", "simulated"))
    assert np.array_equal(cores.words, strides.words)
    assert len(np.unique(cores.words, axis=1).T) > 1  # they trade


@pytest.mark.parametrize(("op", "asked"), [("ilt", True), ("ile", True), ("igt", False)])
def test_what_differs_from_row_to_row_is_asked_of_less_alone(op, asked):
    price, other = (Elem(Var("rows"), Binary("iadd", Var("base@"), i64(k))) for k in (5, 6))
    held = Select(Binary("ine", Var("lots"), i64(0)), price, Var("before"))
    body = (
        Let("move", I64_T, Binary("isub", price, Var("before"))),
        Assign(Var("before"), held),
        Assign(
            Var("worth"), Binary("iadd", Var("worth"), Binary("imul", Var("lots"), Var("move")))
        ),
        If(Binary(op, Var("worth"), Binary("isub", Var("day"), other)), (Break(),)),
    )
    mark, _ = marked(body, is_word, lambda expr: expr == Var("lots"))
    assert (mark is not None) == asked
