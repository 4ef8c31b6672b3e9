"""The gate says what a gate of plain integers says, half of the time at a limit, one below, above.

State and order are made up: positions, working orders and prices that no market has led to.
"""

import os
import random
from typing import Any

import numpy as np
import pytest

from tests.std.core.core import HOUR, NEVER, NONE, Core, members
from tests.std.core.play import set_limits
from tests.std.core.test_throttles import SMALL

CASES = int(os.environ.get("QUANTDSL_TEST_INTENTS", "4000"))
INTERPRETED = 40
MONEY = 10_000
FREE: dict[str, Any] = {
    "max_order": NONE, "max_position": NONE, "max_notional": NONE, "max_weight": float("inf"),
    "max_gross": NONE, "max_net": NONE, "max_entries": NONE, "price_band": float("inf"),
    "max_data_age": NEVER, "cooldown": 0, "max_order_rate": (NONE, 0),
}
KINDS = [name for name in FREE if name != "max_order_rate"]


def measures(state: dict[str, int], order: dict[str, Any]) -> dict[str, Any]:
    """What each limit bounds, of an order that opens; of shares also the two parts."""
    size = order["lots"] if order["verb"] == "buy" else -order["lots"]
    buys = size > 0
    price = order["limit"]
    held, up, down = state["held"], state["buy"], state["sell"]
    after = (max(held, 0) + up if buys else min(held, 0) - down)
    against = abs(held) if held * size < 0 else 0
    opens = max(abs(size) - against, 0)
    worse = (price - state["close"]) * (1 if buys else -1)
    after += opens if buys else -opens
    value = after * price * MONEY
    return {
        "max_order": abs(size), "max_position": abs(after), "max_notional": abs(value),
        "max_weight": abs(value) / state["equity"],
        "max_gross": abs(value), "max_net": abs(value),
        "max_entries": state["entered"] + state["entries"] + 1,
        "price_band": worse / state["close"],
        "max_data_age": state["age"], "cooldown": state["rest"], "opens": opens,
        "of": {"max_weight": (abs(value), state["equity"]),
               "price_band": (worse, state["close"])},
    }


def verdict(found: dict[str, Any], limits: dict[str, Any]) -> str:
    """The first limit that is broken, in the order in which the gate looks at them."""

    def over(name: str) -> bool:
        if name in found["of"]:  # a share, of which only the product is rounded
            part, whole = found["of"][name]
            return part > limits[name] * whole
        return found[name] > limits[name]

    for name in ("price_band", "max_data_age"):
        if over(name):
            return name
    if found["opens"] == 0:
        return "none"
    for name in ("max_order", "max_position", "max_notional", "max_weight", "max_gross", "max_net",
                 "max_entries"):
        if over(name):
            return name
    return "cooldown" if found["cooldown"] < limits["cooldown"] else "none"


def some_state(rng: random.Random) -> dict[str, int]:
    return {
        "held": rng.choice((0, rng.randint(-400, 400))), "buy": rng.randint(0, 50),
        "sell": rng.randint(0, 50), "entered": rng.randint(0, 4), "entries": rng.randint(0, 4),
        "close": rng.randint(900, 1100), "age": rng.randint(0, 50), "rest": rng.randint(1, 50),
        "equity": rng.randint(10**12, 10**13),
    }


def at_the_edge(rng: random.Random, name: str, exact: float) -> Any:
    """A limit at what is measured, one below or one above; a share next to it as a float."""
    step = rng.choice((-1, 0, 1))
    if name in ("max_weight", "price_band"):
        return exact if step == 0 else float(np.nextafter(exact, step * np.inf))
    return max(int(exact) + step, 0)


def pour(core: Core, state: dict[str, int], now: int) -> None:
    """Writes a state into the words that the gate reads."""
    words = {
        "now": now, "equity": state["equity"], "market[0].bars": 5,
        "market[0].close": state["close"], "market[0].mark": state["close"],
        "market[0].ts": now - state["age"],
        "positions[0].lots": state["held"], "positions[0].working_buy": state["buy"],
        "positions[0].working_sell": state["sell"], "positions[0].entered": state["entered"],
        "positions[0].entries_working": state["entries"], "positions[0].closing": 0,
        "positions[0].exit_ts": now - state["rest"],
    }
    for path, value in words.items():
        core.set(path, value)


@pytest.mark.parametrize("interpreted", [False, True], ids=["machine", "interpreter"])
def test_the_gate_agrees_with_plain_integers_at_every_edge(interpreted: bool) -> None:
    rng, seen = random.Random(2), set()
    core = Core({}, interpreted=interpreted, sizes=SMALL if interpreted else frozenset())
    empty = core.words.copy()
    reasons = members("risk.Reason")
    for _ in range(INTERPRETED if interpreted else CASES):
        core.words[:] = empty
        state, now = some_state(rng), 100 * HOUR
        order = {"verb": rng.choice(("buy", "short")), "lots": rng.randint(1, 300), "line": 1,
                 "limit": state["close"] + rng.randint(-90, 90)}
        found = measures(state, order)
        limits = dict(FREE)
        for name in rng.sample(KINDS, rng.randint(1, 3)):
            limits[name] = at_the_edge(rng, name, found[name])
        set_limits(core, limits)
        pour(core, state, now)
        core.place(order)
        core.run("submit")
        told = [r for r in core.drain() if r[0] in ("ORDER", "REJECT")]
        assert len(told) == 1
        ours = reasons[told[0][1]] if told[0][0] == "REJECT" else "none"
        # What equity cannot carry is another matter than the limits.
        if ours != "unaffordable":
            assert ours == verdict(found, limits), (state, order, limits)
            seen.add(ours)
    assert interpreted or seen == {"none", *KINDS}
