"""With and without columns a lane of a universe leaves the same bits, on every target."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quantdsl.backtest import values
from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.stream import materialised
from quantdsl.backtest.verify import InterpretedRunner, Lanes, Target, compared
from quantdsl.check import columns
from quantdsl.check.columns import NO_COLUMNS, Plan, Scope
from quantdsl.devices import cpu
from quantdsl.devices.choose import runner
from quantdsl.devices.cpu import CpuRunner
from tests.std.universe import compiled, table, walks, write

DAILY = """language 1
strategy Daily:
    "Every kind of equation that a universe has."
    bars 1d{more}
    universe "ALL", point_in_time = true, filter = liquid
    session "XNYS"

    param n    = 4   in 2..6 step 2
    param m    = 3   in 2..4 step 1
    param tail = 20% in 10%..30% step 10%

    let liquid = ts.mean({price}, 5) > 20
    let fast   = {price} / ts.mean({price}, n) - 1
    let wide   = ta.macd(close, 3, 8, m)
    let score  = xs.neutralize(fast, by = sector)
    let ahead  = xs.top(score, tail)
    let level  = xs.mean(fast[1]) ?? 0
    let calm   = level - level[2]
{rank}    let turned = score[m] - score
    let weight = xs.scale(turned, gross = 50%)

    on bar:
        if ahead and wide.hist > wide.hist[1] and flat and calm < 0.01:
            buy(20 shares)
        elif not ahead and score < 0:
            close_position()

    at session_close - 5m:
        if calm > 0.002:
            rebalance(weight, via = moc, min_trade = 1%)
    {handlers}
    risk:
        max_gross = 200% of equity
    backtest:
        cash     = 1_000_000 USD
        leverage = 2
        fees     = 1bps
"""
WEEKS = {
    "rank": "    let rank   = xs.rank(weekly.close)\n",
    "more": "\n    bars 1w as weekly",
    "handlers": "on bar(weekly):\n        if weekly.close < weekly.close[1] or rank < 0.2:\n"
    "            close_position()\n",
}
PLAIN = {"more": "", "price": "close", "handlers": "", "rank": ""}


def options(folder: Path, names: list[str]) -> dict[str, Any]:
    """Sectors by turns, and members that come and go."""
    sectors = [f"{name},{'AB'[k % 2]}" for k, name in enumerate(names)]
    members = [
        f"{name},{'2020-02-03' if k % 4 == 1 else ''},{'2020-03-20' if k % 4 == 2 else ''}"
        for k, name in enumerate(names)
    ]
    more = {
        "universe.groups": write(folder, "sectors.csv", "symbol,sector", sectors),
        "universe.members": write(folder, "members.csv", "symbol,entry,exit", members),
    }
    return {"more": more}


def lanes_of(text: str, folder: Path, count: int = 9) -> tuple[Lanes, Plan]:
    """The lanes of some points of a universe with gaps, and all that can be hoisted of it."""
    closes = walks(count, 70, seed=3)
    arranged = arrange(compiled(text), data=table(closes), **options(folder, [*closes]))
    checked = arranged.sized(compiled(text))
    swept = {"n": ["2", "4"], "m": ["2", "3"], "tail": ["10%", "30%"]}
    points = tuple(
        values.chosen(checked.strategy.params, {"n": n, "m": m, "tail": tail})
        for n in swept["n"]
        for m in swept["m"]
        for tail in swept["tail"]
    )
    events = materialised(arranged.data)
    scope = Scope({name: len(one) for name, one in swept.items()}, len(points), len(events), 0)
    return Lanes(checked, arranged, points, events), checked.plan(scope)[0]


@pytest.fixture
def free_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that can be hoisted is."""
    monkeypatch.setattr(columns, "STORE", 0)


@pytest.mark.usefixtures("free_loads")
@pytest.mark.parametrize(
    "words", [PLAIN, PLAIN | WEEKS, PLAIN | {"more": ", adjust = all", "price": "adj.close"}]
)
def test_every_target_leaves_the_same(words: dict[str, str], tmp_path: Path) -> None:
    text = DAILY.format(**words)
    lanes, plan = lanes_of(text, tmp_path)
    lines = {lanes.checked.strategy.equations.all[one.number].line for one in plan.hoisted}
    assert len(plan.hoisted) >= 5, lines
    assert {(), ("n",), ("m",)} <= set(plan.subsets)
    found = compared(
        lanes,
        [
            Target("scalar", CpuRunner(load=cpu.scalar)),
            Target("scalar, columns", CpuRunner(load=cpu.scalar), plan),
            Target("SIMD, columns", CpuRunner(), plan),
            Target("simulated, columns", runner("simulated", print), plan),
        ],
    )
    assert [one.difference for one in found] == [""] * 4
    few = replace(lanes, points=lanes.points[:2])
    sampled = [Target("scalar", CpuRunner(load=cpu.scalar), NO_COLUMNS),
               Target("interpreter, columns", InterpretedRunner(), plan)]
    assert [one.difference for one in compared(few, sampled)] == ["", ""]
