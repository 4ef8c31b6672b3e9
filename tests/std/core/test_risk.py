"""The gate stands in front of every order and draws each line where it says."""

import random
from typing import Any

import pytest

from tests.std.core.core import FAULT, HOUR, Core, members
from tests.std.core.play import set_limits

FLAT = (1000, 1000, 1000, 1000, 1000)
TOP = (1 << 63) - 1


def outcome(
    core: Core, intents: list[dict[str, Any]], step: int = 1, bar: tuple[int, ...] = FLAT
) -> list[str]:
    """For each intent "sent" or the reason it was refused for."""
    reasons = members("risk.Reason")
    records = core.step(step * HOUR, (step - 1) * HOUR, {0: bar}, intents)
    return [
        reasons[r[1]] if r[0] == "REJECT" else "sent"
        for r in records
        if r[0] in ("REJECT", "ORDER")
    ]


def buy(lots: int, **more: Any) -> dict[str, Any]:
    return {"verb": "buy", "lots": lots, "line": 1, **more}


@pytest.mark.parametrize(
    ("name", "limit", "order"),
    [
        ("max_order", 20, lambda n: buy(n)),
        ("max_position", 20, lambda n: buy(n)),
        ("max_notional", 20 * 1000 * 10_000, lambda n: buy(n)),
        ("max_gross", 20 * 1000 * 10_000, lambda n: {**buy(n), "verb": "short"}),
        ("max_net", 20 * 1000 * 10_000, lambda n: {**buy(n), "verb": "short"}),
        ("max_weight", 20 * 1000 * 10_000 / 10**11, lambda n: buy(n)),
    ],
)
def test_at_the_limit_passes_and_one_lot_more_does_not(name: str, limit: Any, order: Any) -> None:
    for lots, expected in ((19, "sent"), (20, "sent"), (21, name)):
        core = Core({})
        set_limits(core, {name: limit})
        assert outcome(core, [order(lots)]) == [expected]


def test_working_orders_count_at_once() -> None:
    """However orders are split and spread, all of them filled never pass the limit."""
    for seed in range(20):
        rng = random.Random(seed)
        core = Core({})
        set_limits(core, {"max_position": 100})
        for step in range(1, 40):
            intents = [
                {
                    "verb": rng.choice(["buy", "short", "target"]),
                    "line": 1,
                    "lots": rng.randint(1, 60),
                    "limit": 1000 + rng.randint(-3, 3),
                }
                for _ in range(3)
            ]
            bar = (1000, 1000 + rng.randint(0, 3), 1000 - rng.randint(0, 3), 1000, 50)
            outcome(core, intents, step, bar)
            held = core.get("positions[0].lots")
            assert held + core.get("positions[0].working_buy") <= 100
            assert held - core.get("positions[0].working_sell") >= -100


def test_no_window_ever_holds_more_than_the_order_rate() -> None:
    rng, sent, now = random.Random(5), [], 10 * HOUR
    core = Core({})
    core.step(now, now, {0: FLAT}, [])
    set_limits(core, {"max_order_rate": (5, 1000)})
    for _ in range(2000):
        now += rng.choice([0, 1, 199, 200, 201, 999, 1000])
        records = core.step(now, now, {0: FLAT}, [buy(1, limit=1)])
        core.place({"verb": "cancel", "line": 1})
        sent += [now for r in records if r[0] == "ORDER"]
        assert len([t for t in sent[-6:] if now - t < 1000]) <= 5
    assert len(sent) > 400


@pytest.mark.parametrize("value", [TOP, -TOP, 1 << 62, 1 << 53, (1 << 53) + 1, 10**6 + 1])
@pytest.mark.parametrize("verb", ["buy", "short", "target"])
def test_sizes_out_of_range_are_refused(verb: str, value: int) -> None:
    core = Core({})
    refused = outcome(core, [{"verb": verb, "lots": value, "line": 1}])
    inexact = abs(value) > 1 << 53
    assert refused in ([["value_out_of_range"]] if inexact else [["out_of_range"], ["zero_size"]])
    assert core.get("equity") == core.get("cash") == 10**11
    assert core.get("working") == 0


@pytest.mark.parametrize("name", ["limit", "stop", "touch"])
@pytest.mark.parametrize("value", [TOP, -TOP, 1 << 62, 0, -1, 10**7 + 1])
def test_prices_out_of_range_are_refused(name: str, value: int) -> None:
    core = Core({})
    inexact = abs(value) > 1 << 53
    assert outcome(core, [buy(1, **{name: value})]) == ["value_" * inexact + "out_of_range"]
    assert core.get("working") == 0


@pytest.mark.parametrize(
    "intent",
    [
        buy(FAULT),
        buy(1, limit=FAULT),
        buy(1, stop=FAULT),
        buy(1, stop_loss=FAULT),
        buy(1, take_profit=FAULT),
        {"verb": "buy", "fraction": float("nan"), "line": 1},
        {"verb": "buy", "value": FAULT, "line": 1},
    ],
)
def test_what_is_not_a_number_is_refused_and_counted(intent: dict[str, Any]) -> None:
    core = Core({})
    assert outcome(core, [intent]) == ["not_a_number"]
    assert core.get("metrics.orders_nan") == 1


def test_reducing_orders_pass_what_opening_orders_do_not() -> None:
    core = Core({})
    outcome(core, [buy(50)])
    outcome(core, [], 2)
    set_limits(core, {"max_order": 10, "max_position": 20, "max_order_rate": (0, HOUR)})
    core.set("halted", 1)
    assert outcome(core, [buy(1), {"verb": "sell", "lots": 30, "line": 1}], 3) == ["halted", "sent"]
    set_limits(core, {"price_band": 0.01})
    far = {"verb": "sell", "lots": 5, "limit": 900, "line": 1}
    assert outcome(core, [far], 4) == ["price_band"]


@pytest.mark.parametrize(
    ("intent", "said"),
    [
        (buy(1, limit=1020), "price_band"),
        (buy(1, limit=980), "sent"),
        (buy(1, stop=1020), "price_band"),
        (buy(1, touch=980), "sent"),
        ({"verb": "short", "lots": 1, "limit": 980, "line": 1}, "price_band"),
        ({"verb": "short", "lots": 1, "limit": 1020, "line": 1}, "sent"),
        # What counts is the worst price that an order names for its fill.
        (buy(1, stop=1005, limit=1020), "price_band"),
        (buy(1, stop=1020, limit=1005), "sent"),
    ],
)
def test_a_price_band_bars_the_worse_side_alone(intent: dict[str, Any], said: str) -> None:
    core = Core({})
    outcome(core, [])
    set_limits(core, {"price_band": 0.01})
    assert outcome(core, [intent], 2) == [said]


def test_halt_and_flatten_close_the_position_and_stay() -> None:
    core = Core({})
    outcome(core, [buy(50, stop_loss=500)])
    outcome(core, [], 2)
    set_limits(core, {"max_daily_loss": 1_000_000, "max_daily_loss_does": 7})
    outcome(core, [], 3, (998, 998, 997, 997, 9))
    assert core.get("halted") == 1
    outcome(core, [], 4, (996, 996, 996, 996, 9))
    assert core.get("positions[0].lots") == 0
    assert core.get("working") == 0
    for step in range(5, 20):
        assert outcome(core, [buy(1)], step) == ["halted"]


def test_an_atomic_block_is_sent_whole_or_not_at_all() -> None:
    core = Core({})
    set_limits(core, {"max_order": 10})
    legs = [buy(5, atomic=1), buy(11, atomic=1), buy(6, atomic=1), buy(7, atomic=2)]
    assert outcome(core, legs) == ["sent", "max_order", "atomic", "sent"]
    assert core.get("working") == 1
    assert core.get("positions[0].working_buy") == 7


def test_reasons_are_append_only() -> None:
    assert members("risk.Reason") == (
        "none",
        "zero_size",
        "not_a_number",
        "out_of_range",
        "no_price",
        "no_position",
        "too_many_orders",
        "halted",
        "max_order",
        "max_position",
        "max_notional",
        "max_weight",
        "max_gross",
        "max_net",
        "max_entries",
        "max_order_rate",
        "price_band",
        "max_data_age",
        "cooldown",
        "max_daily_loss",
        "max_drawdown",
        "max_leg_gap",
        "unaffordable",
        "atomic",
        "post_only",
        "unfilled",
        "expired",
        "oco",
        "cancelled",
        "replaced",
        "position_closed",
        "entry_cancelled",
        "flattened",
        "liquidated",
        "run_end",
        "after_flat_by",
        "value_out_of_range",
        "no_reference",
        "max_cancel_rate",
        "max_executions",
        "duplicate",
        "own_check",
        "killed",
        "self_trade",
        "no_book",
        "commanded",
        "house_order",
        "house_position",
        "house_gross",
        "house_loss",
        "house_drawdown",
        "house_collar",
        "house_rate",
        "inverse_contract",
        "negative_size",
        "zero_display",
    )


def test_a_size_set_at_the_fill_keeps_the_limit_of_position() -> None:
    core = Core({})
    set_limits(core, {"max_position": 110})
    outcome(core, [{"verb": "buy", "fraction": 0.01, "line": 1}])
    outcome(core, [], 2, (500, 500, 500, 500, 9))
    assert core.get("positions[0].lots") == 100
    free = Core({})
    outcome(free, [{"verb": "buy", "fraction": 0.01, "line": 1}])
    outcome(free, [], 2, (500, 500, 500, 500, 9))
    assert free.get("positions[0].lots") == 200
