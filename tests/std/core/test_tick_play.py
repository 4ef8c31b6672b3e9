"""The venue on ticks against the independent model, on random markets and orders."""

from typing import Any

import pytest

from tests.std.core.tick_play import MS, play

UNTAGGED = "quote tif stop display"
ALL = f"{UNTAGGED} replace"
COSTS = {"fee_rate": 0.0005, "maker_rate": -0.0001, "fee_per_lot": 33.3, "fee_per_order": 1000}
PROPORTIONAL = {"latency_entry": 1 * MS, "latency_response": 1 * MS, "queue_power": 2.0}

CASES: dict[str, dict[str, Any]] = {
    "market and limit": {"allowed": ""},
    "quotes": {"allowed": "quote"},
    "time in force": {"allowed": "tif"},
    "stops": {"allowed": "stop"},
    "icebergs": {"allowed": "display"},
    "replaced": {"allowed": "replace"},
    "replaced stops and icebergs": {"allowed": "replace stop tif display"},
    "everything": {"allowed": ALL, "config": COSTS},
    "no latency": {"allowed": ALL, "venue": {"latency_entry": 0, "latency_response": 0}},
    "slow answers": {
        "allowed": ALL,
        "venue": {"latency_entry": 1 * MS, "latency_response": 40 * MS},
    },
    "slow feed": {"allowed": ALL, "feed_ms": 7},
    "proportional queue": {"allowed": "quote", "venue": PROPORTIONAL},
    "two instruments": {"allowed": ALL, "n": 2},
    "order limits": {"allowed": ALL, "limits": {"max_order": 20, "max_position": 25}},
    "cut": {"allowed": "quote tif", "config": {"cash": 3 * 10**8, "fee_rate": 0.001}},
    "unaffordable": {"allowed": "quote", "config": {"cash": 3 * 10**8, "cut": False}},
}


@pytest.mark.parametrize("book", [False, True], ids=["quotes", "book"])
@pytest.mark.parametrize("name", CASES)
def test_core_equals_model(name: str, book: bool) -> None:
    fills = 0
    for seed in range(6):
        core, _ = play(seed, 120, book=book, **CASES[name])
        fills += core.get("metrics.fills")
    assert fills > 20


@pytest.mark.parametrize("book", [False, True], ids=["quotes", "book"])
def test_interpreter_equals_model(book: bool) -> None:
    play(3, 30, book=book, interpreted=True, **CASES["everything"])


SPARED = ("USES_EXITS", "USES_TRAIL", "USES_LINK", "USES_TAG", "USES_VALUE", "USES_SHORT")


@pytest.mark.parametrize("book", [False, True], ids=["quotes", "book"])
def test_leaving_out_what_is_not_used_changes_nothing(book: bool) -> None:
    spared = frozenset((part, 0) for part in SPARED)
    for seed in range(3):
        play(seed, 120, book=book, sizes=spared, allowed=UNTAGGED, config=COSTS)
    bare = spared | {("USES_TIF", 0), ("USES_TRIGGER", 0)}
    play(1, 120, book=book, sizes=bare, allowed="")
