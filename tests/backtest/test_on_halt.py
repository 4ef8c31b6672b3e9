"""`on halt`: once, when a limit or a person has stopped all orders that open a position."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from quantdsl.backtest import values
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.run import run_checked
from quantdsl.backtest.stream import materialised
from quantdsl.backtest.verify import InterpretedRunner, Lanes, Target, compared, targets
from quantdsl.check import Checked
from quantdsl.check.columns import NO_COLUMNS
from quantdsl.events.codes import Command, KilledBy
from quantdsl.events.layout import Kind
from quantdsl.ir.interp import Interpreter
from tests.backtest.tick_runs import checked_strategy, event, prepared, quote, run_both, state
from tests.std.universe import compiled, table

MINUTES = """language 1
strategy S:
    "Buys the first bar, and tells when it was halted."
    bars 1m
    {universe}
    state halts = 0
    state at    = 0

    on start:
        at = -1

    on bar:
        if bar_index == 1:
            buy({of}100 shares)

    on halt:
        halts = halts + 1
        {act}

    risk:
        {limit}

    backtest:
        cash     = 10_000 USD
        fees     = 0bps
        slippage = 0 ticks
"""
DRAWN = "max_drawdown = 5% of equity -> halt"
CLOSES = [10.0, 10.0, 10.0, 9.0, 8.0, 7.0, 8.0, 9.0, 10.0, 9.0]


def minutes(closes: list[float] = CLOSES) -> pa.Table:
    times = [1_704_189_600 + 60 * n for n in range(len(closes))]
    prices = dict.fromkeys(("open", "high", "low", "close"), closes)
    return pa.table({"time": times, **prices, "volume": [100_000] * len(closes)})


def told(checked: Checked, data: pa.Table) -> tuple[list[int], np.ndarray]:
    """At which bars it said that it was halted, and all records."""
    ran = run_checked(checked, Path("x"), data=data)
    records = ran.records
    logs = records[records["kind"] == Kind.LOG]["ts_event"]
    first = 1_704_189_600 * 10**9
    return [(int(ts) - first) // (60 * 10**9) - 1 for ts in logs], records


def minute(limit: str, act: str = 'log("halted")') -> Checked:
    return compiled(MINUTES.format(universe="", of="", act=act, limit=limit))


def test_it_runs_in_the_instant_in_which_equity_breaks_a_limit() -> None:
    # 100 shares at 10: 5 % of 10,000 are lost at a price of 5, which never comes; 1 % is.
    bars, _ = told(minute("max_drawdown = 250 USD -> halt"), minutes())
    assert bars == [5]
    assert told(minute(DRAWN), minutes())[0] == []


def test_after_an_order_over_its_limit_it_runs_in_the_next_instant() -> None:
    bars, records = told(minute("max_order = 10 shares -> halt"), minutes())
    assert (records["kind"] == Kind.REJECT).sum() == 1
    assert bars == [2]


def test_what_reduces_passes_then() -> None:
    _, records = told(minute("max_drawdown = 250 USD -> halt", "close_position()"), minutes())
    fills = records[records["kind"] == Kind.FILL]
    assert fills["b"].tolist() == [100, -100]
    assert fills["c"].tolist() == [10, 8]  # at the open of the bar after the one at 7


PANEL = """language 1
strategy S:
    bars 1d
    universe "ALL"
    param part = 20 in 10..30 step 10
    on bar:
        if bar_index == 1:
            buy(part * 10 shares)
    on halt:
        for i in universe:
            if i.position > 0 shares:
                sell(i, 5 shares)
    risk:
        max_drawdown = 2_000 USD -> halt
    backtest:
        cash = 100_000 USD
"""


@pytest.mark.parametrize("panel", [False, True], ids=["one", "universe"])
def test_every_target_leaves_the_same(panel: bool) -> None:
    if panel:
        falls: list[float | None] = [100.0 - day for day in range(30)]
        rises: list[float | None] = [50.0 + day / 4 for day in range(30)]
        checked, data = compiled(PANEL), table({"A": falls, "B": rises})
    else:
        checked, data = minute("max_drawdown = 250 USD -> halt", "close_position()"), minutes()
    arranged = arrange(checked, data=data)
    checked = arranged.sized(checked)
    points = (values.chosen(checked.strategy.params, {}),) * 2
    lanes = Lanes(checked, arranged, points, materialised(arranged.data))
    oracle = Target("interpreter", InterpretedRunner())
    found = compared(lanes, [oracle, *targets(NO_COLUMNS, lambda _: None)])
    assert [one.difference for one in found] == [""] * len(found)
    assert len(found) >= 4
    if panel:
        records = run_checked(compiled(PANEL), Path("x"), data=data).records
        sold = records[(records["kind"] == Kind.FILL) & (records["b"] == -5)]
        assert sorted(sold["instrument"].tolist()) == [0, 1]


TICKS = """language 1
strategy T:
    quotes
    state halts = 0
    on halt:
        halts = halts + 1
    on quote:
        if flat:
            buy(1 shares)
    risk:
        max_position = 10 shares
"""


def test_a_person_halts_arms_and_halts_again() -> None:
    """Commands come in instants of their own; while it stays halted it is told of once."""
    checked = checked_strategy(TICKS)
    module = checked.module(frozenset({"USES_COMMAND"}))
    run = prepared(checked, module, Interpreter(module))

    def command(ms: int, side: Command, bits: int = KilledBy.PERSON) -> np.ndarray:
        return event(Kind.COMMAND, ms, bits, side=side)

    counts = []
    for ms, side in (
        (10, Command.KILL), (20, Command.REDUCE), (30, Command.ARM), (40, Command.REDUCE),
        (50, Command.KILL), (60, Command.ARM), (70, Command.KILL),
    ):  # fmt: skip
        run.feed(np.concatenate([command(ms, side), quote(ms + 5, 1_000, 1_002)]))
        counts.append(state(run, checked, "halts"))
    assert counts == [1, 1, 1, 2, 2, 2, 3]


def test_without_a_halt_it_never_runs() -> None:
    run = run_both(TICKS, [quote(10 * n, 1_000 + n, 1_002 + n) for n in range(1, 9)])
    assert state(run, checked_strategy(TICKS), "halts") == 0
