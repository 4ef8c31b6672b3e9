"""On a universe: fills and orders of the instrument that they befell, and loops over all."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest import values
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.run import run_checked
from quantdsl.backtest.stream import materialised
from quantdsl.backtest.verify import InterpretedRunner, Lanes, Target, compared
from quantdsl.check import check_source
from quantdsl.devices import cpu
from quantdsl.devices.choose import runner
from quantdsl.devices.cpu import CpuRunner
from quantdsl.events.layout import Kind
from quantdsl.lang.source import Source
from tests.std.universe import compiled, table, walks, write

TEXT = """language 1
strategy Events:
    "Buys what rose, all at once in the afternoon; takes a profit on each fill."
    bars 1d
    universe "ALL"{members}
    session "XNYS"

    let up = close > close[1]

    at session_close - 5m:
        for i in universe:
            if up and i.close > i.close[1]:
                buy(i, 20 shares)

    on fill:
        if fill.qty > 0 shares:
            sell(10 shares, limit = fill.price + 3 ticks)

    on order:
        if order.state == filled and order.qty < 0 shares and this.position > 40 shares:
            close_position(this)

    risk:
        max_gross = 300% of equity
    backtest:
        cash     = 1_000_000 USD
        leverage = 4
        fees     = 1bps
"""
ALL = TEXT.format(members="")
FIRST = np.datetime64("2020-01-01")


def of(records: np.ndarray, kind: Kind, instrument: int) -> np.ndarray:
    return records[(records["kind"] == kind) & (records["instrument"] == instrument)]


def test_the_loop_sends_for_whom_its_condition_holds_and_fills_are_answered() -> None:
    closes = walks(6, 50, seed=4)
    ran = run_checked(compiled(ALL), Path("x"), data=table(closes))
    days = FIRST + np.arange(50).astype("timedelta64[D]")
    opened = np.is_busday(days, holidays=["2020-01-01", "2020-01-20", "2020-02-17"])
    for number, column in enumerate(closes.values()):
        known: list[float] = []
        rises = 0
        for close in itertools.compress(column, opened):  # the timer comes before the day's bar
            rises += len(known) > 1 and known[-1] > known[-2]
            known += [] if close is None else [close]
        fills = of(ran.records, Kind.FILL, number)
        bought, sold = fills[fills["b"] == 20], fills[fills["b"] == -10]
        assert rises > 8
        assert column[-1] is None or len(bought) == rises  # who has no bar any more fills nothing
        # Each profit is taken three ticks above the price of the instrument's own fill, or better.
        wanted = np.sort(bought["c"])[: len(sold)] + 3
        assert len(sold) > 3
        assert (np.sort(sold["c"]) >= wanted).all()


def test_members_alone_are_looped_over(tmp_path: Path) -> None:
    closes: dict[str, list[float | None]] = {
        name: [10.0 + 0.1 * day for day in range(40)] for name in ("A", "B")
    }
    members = write(tmp_path, "members.csv", "symbol,entry,exit", ["A,,", "B,2030-01-01,"])
    text = TEXT.format(members=", point_in_time = true")
    more = {"universe.members": members}
    ran = run_checked(compiled(text), Path("x"), data=table(closes), more=more)
    assert len(of(ran.records, Kind.FILL, 0)) > 20
    assert len(of(ran.records, Kind.FILL, 1)) == 0


def test_every_target_leaves_the_same() -> None:
    checked = compiled(ALL)
    arranged = arrange(checked, data=table(walks(5, 40, seed=2)))
    points = (values.chosen(checked.strategy.params, {}),) * 2
    lanes = Lanes(checked.sized(5), arranged, points, materialised(arranged.data))
    found = compared(
        lanes,
        [
            Target("interpreter", InterpretedRunner()),
            Target("scalar", CpuRunner(load=cpu.scalar)),
            Target("SIMD", CpuRunner()),
            Target("simulated", runner("simulated", print)),
        ],
    )
    assert [one.difference for one in found] == [""] * 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("    on bar:\n        for i in universe:\n            buy(i, 1 shares)\n", "for each"),
        ("    on halt:\n        cancel_all()\n", "of which instrument"),
    ],
)
def test_what_cannot_be_is_refused(line: str, message: str) -> None:
    text = ALL.replace("    on fill:", f"{line}\n    on fill:")
    checked, diagnostics = check_source(Source(text, "events.qdsl"))
    assert checked is None
    assert any(message in one.message for one in diagnostics), diagnostics
