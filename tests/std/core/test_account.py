"""Money is conserved: the core's own records explain cash, position and equity to the unit."""

import random
from typing import Any

import pytest

from quantdsl.events import layout
from tests.std.core.core import HOUR, Core
from tests.std.core.play import random_bar, random_intent
from tests.std.core.test_play import COSTS

MONEY = 10_000


def trade(seed: int, steps: int, config: dict[str, Any]) -> tuple[Core, list[tuple[Any, ...]]]:
    """Random trading that turns through flat often; returns the core and all its records."""
    rng = random.Random(seed)
    core, price, records = Core(config), 1000, []
    for step in range(steps):
        bar = random_bar(rng, price)
        price = bar[3]
        intents = [random_intent(rng, price, 1, "limit stop exits trail") for _ in range(2)]
        ts = (step + 1) * HOUR
        records += core.step(ts, ts - HOUR, {0: bar}, intents, step % 7 == 6)
    return core, records


@pytest.mark.parametrize("seed", range(4))
def test_every_unit_of_cash_is_explained(seed: int) -> None:
    core, records = trade(seed, 400, COSTS)
    fills = [r for r in records if r[0] == "FILL"]
    assert len(fills) > 300
    spent = sum(lots * ticks * MONEY + fee for _, _, _, _, lots, ticks, fee, _ in fills)
    assert core.get("cash") == 10**11 - spent
    assert core.get("positions[0].lots") == sum(r[4] for r in fills)
    assert core.get("metrics.fees_paid") == sum(r[6] for r in fills)
    held = 0
    for _, _, _, _, lots, _, _, after in fills:
        held += lots
        assert after == held
    core.run("market")
    assert core.get("equity") == core.get("cash") + held * core.get("market[0].close") * MONEY


@pytest.mark.parametrize("seed", range(4))
def test_round_trips_and_open_profit_add_up_to_equity(seed: int) -> None:
    core, records = trade(seed, 400, {**COSTS, "close_at_end": 1})
    core.ingest(10**6 * HOUR, 10**6 * HOUR, 0, layout.Kind.SESSION, 2)
    for entry in ("market", "submit", "finish"):
        core.run(entry)
    trips = [r for r in records + core.drain() if r[0] == "ROUND_TRIP"]
    assert core.get("positions[0].lots") == 0
    assert core.get("equity") == core.get("cash") == 10**11 + sum(r[7] for r in trips)
    assert core.get("metrics.trades") == len(trips)
    assert core.get("metrics.gross_profit") - core.get("metrics.gross_loss") == sum(
        r[7] for r in trips
    )


def test_a_split_and_a_dividend_keep_what_they_must() -> None:
    core = Core({})
    core.step(
        HOUR,
        0,
        {0: (1000, 1000, 1000, 1000, 9)},
        [{"verb": "buy", "lots": 11, "line": 1, "stop_loss": 900}],
    )
    core.step(2 * HOUR, HOUR, {0: (1000, 1000, 1000, 1000, 9)}, [])
    before = core.get("equity")
    core.ingest(3 * HOUR, 2 * HOUR, 0, layout.Kind.CORPORATE, 0, 1, 2)
    assert core.get("positions[0].lots") == 5
    assert core.get("market[0].mark") == 2000
    assert core.get("equity") == before
    assert core.get("cash") == 10**11 - 10 * 1000 * MONEY
    core.ingest(3 * HOUR, 2 * HOUR, 0, layout.Kind.CORPORATE, 1, 700, 1)
    assert core.get("cash") == 10**11 - 10 * 1000 * MONEY + 5 * 700
    records = core.step(3 * HOUR, 2 * HOUR, {0: (1810, 1810, 1790, 1790, 9)}, [])
    fills = [r for r in records if r[0] == "FILL"]
    assert [(r[4], r[5]) for r in fills] == [(-5, 1800)]


def test_a_split_that_leaves_less_than_a_lot_pays_it_out_and_ends_the_exits() -> None:
    flat = {0: (1000, 1000, 1000, 1000, 9)}
    core = Core({})
    for step, lots in enumerate((25, 4, 0), 1):
        intents = [{"verb": "buy", "lots": lots, "line": 1, "stop_loss": 900}] if lots else []
        core.step(step * HOUR, (step - 1) * HOUR, flat, intents)
    core.ingest(4 * HOUR, 3 * HOUR, 0, layout.Kind.CORPORATE, 0, 1, 10)
    assert (core.get("positions[0].lots"), core.get("positions[0].count")) == (2, 1)
    assert core.get("equity") == 10**11
    assert core.get("working") == 1
    core.ingest(4 * HOUR, 3 * HOUR, 0, layout.Kind.CORPORATE, 0, 1, 10)
    assert (core.get("positions[0].lots"), core.get("positions[0].count")) == (0, 0)
    assert core.get("equity") == core.get("cash") == 10**11
    assert core.get("working") == 0


def test_borrow_is_charged_for_the_time_held_short() -> None:
    core = Core({"borrow_rate": 0.10, "day_rule": 2})
    year = 8766 * HOUR
    core.step(
        HOUR, 0, {0: (1000, 1000, 1000, 1000, 9)}, [{"verb": "short", "lots": 100, "line": 1}]
    )
    core.step(2 * HOUR, HOUR, {0: (1000, 1000, 1000, 1000, 9)}, [])
    paid = core.get("metrics.financing_paid")
    core.step(2 * HOUR + year, HOUR, {0: (1000, 1000, 1000, 1000, 9)}, [])
    assert core.get("metrics.financing_paid") - paid == 100 * 1000 * MONEY // 10


def test_borrow_is_of_the_nights_in_between_alone() -> None:
    """What is sold short in a day pays nothing for the night before, and what is covered in one
    pays for the last night.
    """
    core, year, bars = (
        Core({"borrow_rate": 0.10, "day_rule": 2}),
        8766 * HOUR,
        {0: (1000,) * 4 + (9,)},
    )
    core.step(HOUR, 0, bars, [{"verb": "short", "lots": 100, "line": 1}])
    core.step(HOUR + year, HOUR, bars, [{"verb": "cover", "lots": 100, "line": 2}])
    assert core.get("positions[0].lots") == -100
    assert core.get("metrics.financing_paid") == 0
    core.step(HOUR + 3 * year, HOUR + year, bars, [])
    assert core.get("positions[0].lots") == 0
    assert core.get("metrics.financing_paid") == 2 * 100 * 1000 * MONEY // 10


def test_below_the_maintenance_margin_all_is_closed() -> None:
    core = Core({"cash": 100_000_000, "margin_initial": 0.25, "margin_maintenance": 0.2})
    core.step(
        HOUR,
        0,
        {0: (1000, 1000, 1000, 1000, 9)},
        [{"verb": "buy", "lots": 40, "line": 1, "stop_loss": 500}],
    )
    core.step(2 * HOUR, HOUR, {0: (1000, 1000, 1000, 1000, 9)}, [])
    assert core.get("positions[0].lots") == 40
    records = core.step(3 * HOUR, 2 * HOUR, {0: (930, 930, 930, 930, 9)}, [])
    assert core.get("positions[0].lots") == 0
    assert core.get("metrics.liquidations") == 1
    assert ("FILL", -40, 930) in [(r[0], r[4], r[5]) for r in records]


def test_models_speak_currency_whatever_the_money_unit() -> None:
    """The scale of money changes no fill; a fee that lies on a half unit may round either way."""
    _, records = trade(3, 300, COSTS)
    _, again = trade(3, 300, {**COSTS, "money_scale": 1e6})
    fills = [[r for r in run if r[0] == "FILL"] for run in (records, again)]
    assert [(f[4], f[5]) for f in fills[0]] == [(f[4], f[5]) for f in fills[1]]
    assert all(abs(a[6] - b[6]) <= 1 for a, b in zip(*fills, strict=True))
