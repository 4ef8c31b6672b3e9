"""The core against the independent model on random markets and orders."""

from typing import Any

import pytest

from tests.std.core.core import HOUR
from tests.std.core.play import play

COSTS = {
    "fee_rate": 0.0005,
    "maker_rate": -0.0001,
    "fee_per_lot": 33.3,
    "fee_per_order": 1000,
    "fee_min": 5000,
    "slip_ticks": 1.0,
    "slip_rate": 0.0005,
    "slip_impact": 0.01,
}
EXITS = "limit stop exits"

CASES: dict[str, dict[str, Any]] = {
    "market": {"allowed": ""},
    "limit and stop": {"allowed": "limit stop"},
    "if touched": {"allowed": "limit stop touch"},
    "brackets": {"allowed": EXITS},
    "trailing": {"allowed": "exits trail"},
    "time in force": {"allowed": "limit stop tif"},
    "one cancels other": {"allowed": "limit stop oco"},
    "by value": {"allowed": "value limit"},
    "everything": {"allowed": "limit stop touch exits trail tif oco value"},
    "costs": {"allowed": EXITS, "config": COSTS},
    "volume share": {
        "allowed": "limit stop exits tif oco",
        "config": {"volume_share": 0.1, "fee_rate": 0.0005, "fee_min": 7000},
    },
    "cut": {
        "allowed": EXITS + " value",
        "config": {"cash": 2 * 10**8, "fee_rate": 0.001, "margin_initial": 0.5},
    },
    "unaffordable": {
        "allowed": EXITS + " value",
        "config": {"cash": 2 * 10**8, "fee_rate": 0.001, "cut": False},
    },
    "one bar later": {"allowed": EXITS, "config": {"delay_bars": 1}},
    "nearest path": {"allowed": EXITS, "config": {"path": "nearest"}},
    "high first": {"allowed": EXITS, "config": {"path": "high_first"}},
    "three instruments": {"allowed": EXITS + " trail oco", "n": 3},
    "order limits": {
        "allowed": EXITS,
        "limits": {
            "max_order": 30,
            "max_position": 50,
            "max_notional": 300_000_000,
            "max_entries": 2,
            "cooldown": 5 * HOUR,
            "price_band": 0.008,
        },
    },
    "portfolio limits": {
        "allowed": EXITS,
        "n": 3,
        "limits": {"max_gross": 600_000_000, "max_net": 400_000_000, "max_weight": 0.004},
    },
    "order rate": {"allowed": "limit", "limits": {"max_order_rate": (3, 5 * HOUR)}},
    "daily loss": {
        "allowed": EXITS,
        "config": {"fee_rate": 0.001},
        "limits": {
            "max_daily_loss": 20_000_000,
            "max_daily_loss_does": 3,
            "max_drawdown": 100_000_000,
        },
    },
    "replaced": {
        "allowed": EXITS + " touch tag",
        "config": {"volume_share": 0.1, **COSTS},
        "limits": {"max_position": 60, "max_entries": 3},
    },
    "one after another": {"allowed": EXITS + " tag after trail"},
    "replaced in full width": {"allowed": "limit stop touch exits trail tif oco value tag after"},
    "legs": {
        "allowed": EXITS + " atomic",
        "n": 2,
        "limits": {"max_position": 50, "max_leg_gap": HOUR, "max_leg_gap_does": 3},
    },
    "old data": {"allowed": EXITS, "n": 3, "limits": {"max_data_age": 0}},
    "borrow": {"allowed": EXITS, "config": {"borrow_rate": 0.5}},
    "liquidation": {
        "allowed": EXITS,
        "n": 2,
        "config": {
            "cash": 4 * 10**7,
            "margin_initial": 0.1,
            "margin_maintenance": 0.09,
            "slip_ticks": 2.0,
            "fee_rate": 0.0005,
        },
    },
    "corporate actions": {"allowed": EXITS + " trail corporate"},
    "halt": {"allowed": EXITS, "limits": {"max_drawdown": 40_000_000, "max_drawdown_does": 7}},
    "inside a bar": {"allowed": "limit stop touch exits trail tif oco value tag after inside"},
    "inside, trailing": {"allowed": "exits trail inside"},
    "inside, three instruments": {
        "allowed": EXITS + " trail oco atomic tag inside",
        "n": 3,
        "config": COSTS,
        "limits": {"max_leg_gap": HOUR, "max_leg_gap_does": 3},
    },
    "inside, one bar later": {"allowed": EXITS + " inside", "config": {"delay_bars": 1}},
    "inside, losses": {
        "allowed": EXITS + " inside",
        "config": {"fee_rate": 0.001, "path": "nearest"},
        "limits": {"max_daily_loss": 20_000_000, "max_daily_loss_does": 3},
    },
}


@pytest.mark.parametrize("name", CASES)
def test_core_equals_model(name: str) -> None:
    for seed in range(12):
        play(seed, 120, **CASES[name])


@pytest.mark.parametrize(
    "name", ["everything", "costs", "three instruments", "order limits", "inside a bar"]
)
def test_interpreter_equals_model(name: str) -> None:
    play(1, 25, interpreted=True, **CASES[name])


@pytest.mark.parametrize("config", [{}, COSTS])
def test_leaving_out_what_is_not_used_changes_nothing(config: dict[str, Any]) -> None:
    for seed in range(12):
        play(seed, 120, uses=0, allowed="", config=config, sizes=frozenset({("USES_PENDING", 1)}))


SPARED = {
    "USES_LIMIT": "stop touch",
    "USES_TRIGGER": "limit exits trail tif oco value",
    "USES_EXITS": "limit stop touch tif oco value tag",
    "USES_TRAIL": "limit stop exits tif oco value",
    "USES_TIF": "limit stop touch exits trail oco value",
    "USES_VALUE": "limit stop touch exits trail tif oco",
    "USES_LATE": "limit stop touch exits trail tif oco",
    "USES_LINK": "limit stop touch exits trail tif value",
    "USES_TAG": "limit stop touch exits trail tif oco value",
    "USES_SIZES": "limit stop touch exits trail tif oco value",
    "USES_LOSS": "limit stop touch exits trail tif oco value",
    "USES_PACE": "limit stop touch exits trail tif oco value",
    "USES_PORTFOLIO": "limit stop touch exits trail tif oco value",
    "USES_ACTIONS": "limit stop touch exits trail tif oco value",
    "USES_INSIDE": "limit stop touch exits trail tif oco value tag after",
}


@pytest.mark.parametrize("part", SPARED)
def test_each_part_can_be_left_out_alone(part: str) -> None:
    for seed in range(4):
        play(seed, 120, allowed=SPARED[part], sizes=frozenset({(part, 0)}))
