"""What limits repeats: rates of orders and cancels, executions, duplicates, and the kill switch.

Each against a plain count of what went out, as machine code and interpreted.
"""

import random
from typing import Any

import pytest

from tests.std.core.core import HOUR, Core, members
from tests.std.core.play import set_limits
from tests.std.core.test_risk import FLAT, buy, outcome

CANCEL = {"verb": "cancel", "line": 1}
SMALL = frozenset({("N_RECORDS", 512), ("N_NEWS", 16)})
"""Less memory for the interpreter, which reads all of it for each call."""
BOTH = pytest.mark.parametrize("interpreted", [False, True], ids=["machine", "interpreter"])


def core_of(*, interpreted: bool, **config: Any) -> Core:
    return Core(config, interpreted=interpreted, sizes=SMALL if interpreted else frozenset())


class Arrivals:
    """A core at a time of its own choosing, and what it answers."""

    def __init__(self, limits: dict[str, Any], *, interpreted: bool) -> None:
        self.core = core_of(interpreted=interpreted)
        self.now = 10 * HOUR
        self.core.step(self.now, self.now, {0: FLAT}, [])
        set_limits(self.core, limits)
        self.working = 0

    def ask(self, *intents: dict[str, Any]) -> list[tuple[str, str]]:
        """(kind of record, its reason) for orders, refusals and cancels."""
        reasons = members("risk.Reason")
        records = self.core.step(self.now, self.now, {0: FLAT}, list(intents))
        found = [(r[0], reasons[r[1]]) for r in records if r[0] in ("ORDER", "REJECT", "CANCEL")]
        self.working += sum({"ORDER": 1, "CANCEL": -1}.get(kind, 0) for kind, _ in found)
        return found


def gaps(rng: random.Random, window: int, limit: int) -> int:
    """Times between messages that try the edges of the window, bursts among them."""
    edge = rng.choice((window - 1, window, window + 1, window // limit))
    return rng.choice((0, 0, 0, 1, edge, rng.randint(1, window)))


@BOTH
@pytest.mark.parametrize("limit", [1, 5, 200])
def test_no_window_holds_more_orders_or_cancels_than_its_rate(
    limit: int, interpreted: bool
) -> None:
    """The oracle counts all that went out in the window before; message N + 1 is refused."""
    rng, window = random.Random(limit), 1_000
    turns = 40 if interpreted else 3_000
    limits = {"max_order_rate": (limit, window), "max_cancel_rate": limit, "cancel_ns": window}
    world = Arrivals(limits, interpreted=interpreted)
    sent: list[int] = []
    cancelled: list[int] = []
    refused = 0
    for _ in range(turns):
        world.now += gaps(rng, window, limit) if rng.random() < 0.5 else 0
        if rng.random() < 0.6 and world.working < 20:
            full = sum(world.now - t < window for t in sent[-limit:]) >= limit
            expected = ("REJECT", "max_order_rate") if full else ("ORDER", "none")
            assert world.ask(buy(1, limit=1)) == [expected]
            sent += [world.now] * (not full)
        else:
            room = limit - sum(world.now - t < window for t in cancelled[-limit:])
            ends = min(room, world.working)
            left = world.working > ends
            expected_all = [("CANCEL", "cancelled")] * ends + [("REJECT", "max_cancel_rate")] * left
            assert world.ask(CANCEL) == expected_all
            cancelled += [world.now] * ends
            refused += left
    assert len(sent) > 5
    assert len(cancelled) > 2
    assert refused > 0 or interpreted or limit == 200


@BOTH
def test_an_execution_beyond_the_limit_is_impossible_until_somebody_arms_it(
    interpreted: bool,
) -> None:
    """However orders are sent, and over the roll of a day, no more of them execute."""
    rng, limit = random.Random(11), 4 if interpreted else 25
    core = core_of(interpreted=interpreted, day_rule=1)
    core.step(HOUR, HOUR, {0: FLAT}, [])
    set_limits(core, {"max_executions": limit})
    executed: set[int] = set()
    armed = 0
    for step in range(2, 28 if interpreted else 400):
        price = rng.randint(990, 1010)
        high, low = price + rng.randint(0, 9), price - rng.randint(0, 9)
        bar = (price, high, low, price, rng.randint(1, 9))
        orders = [
            {
                "verb": rng.choice(("buy", "short", "sell", "close")),
                "lots": rng.randint(1, 30),
                "limit": price + rng.randint(-9, 9),
                "line": 1,
            }
            for _ in range(rng.randint(0, 3))
        ]
        if rng.random() < 0.2:
            orders.append(CANCEL)
        for record in core.step(step * HOUR * 5, step * HOUR * 5, {0: bar}, orders):
            if record[0] == "FILL":
                executed.add(record[3])
        assert len(executed) == core.get("watch.executions") <= limit
        if step == (24 if interpreted else 300):
            assert len(executed) == limit
            assert outcome(core, [buy(1)], step * 5 + 1) == ["max_executions"]
            core.set("watch.executions", 0)
            executed.clear()
            armed = step
    assert armed
    assert executed


@BOTH
def test_no_order_goes_out_twice_within_the_window(interpreted: bool) -> None:
    """The oracle keeps all that was sent; like is: instrument, side, size, limit and trigger."""
    rng, window = random.Random(4), 1_000
    world = Arrivals({"duplicate": window}, interpreted=interpreted)
    sent: list[tuple[int, Any]] = []
    refused = 0
    for _ in range(40 if interpreted else 2_000):
        world.now += rng.choice((0, 1, window // 3, window - 1, window))
        order = {"verb": rng.choice(("buy", "short")), "lots": rng.randint(1, 2), "line": 1,
                 "limit" if rng.random() < 0.7 else "stop": rng.choice((900, 901))}
        order["limit" if "stop" in order else "tag"] = 900 if "stop" in order else 0
        like = (order["verb"], order["lots"], order["limit"], order.get("stop"))
        again = any(world.now - t < window and like == other for t, other in sent)
        found = world.ask(CANCEL, order)[-1]
        assert found == (("REJECT", "duplicate") if again else ("ORDER", "none"))
        refused += again
        if not again:
            sent.append((world.now, like))
    assert refused > 3
    assert len(sent) > 10


@BOTH
def test_a_command_delivered_twice_moves_the_position_once(interpreted: bool) -> None:
    rng = random.Random(8)
    held = []
    for times in (1, 2):
        core = core_of(interpreted=interpreted)
        core.step(HOUR, HOUR, {0: FLAT}, [])
        set_limits(core, {"duplicate": HOUR})
        rng.seed(8)
        for step in range(2, 10 if interpreted else 40):
            lots = rng.randint(1, 50)
            order = {"verb": rng.choice(("buy", "short")), "lots": lots, "line": 1}
            core.step(step * HOUR, step * HOUR, {0: FLAT}, [order] * times)
        core.step(41 * HOUR, 41 * HOUR, {0: FLAT}, [])
        held.append(core.get("positions[0].lots"))
    assert held[0] == held[1] != 0


@BOTH
@pytest.mark.parametrize("held", [0, 20])
def test_the_kill_switch_ends_all_orders_at_the_next_event_and_stays(
    held: int, interpreted: bool
) -> None:
    core = core_of(interpreted=interpreted)
    core.step(HOUR, HOUR, {0: FLAT}, [buy(20)] if held else [])
    core.step(2 * HOUR, HOUR, {0: FLAT}, [])
    assert core.get("positions[0].lots") == held
    outcome(core, [buy(5, limit=990), {"verb": "short", "lots": 3, "limit": 1010, "line": 1}], 3)
    core.set("watch.killed", 1)
    # The bar would fill both: they are cancelled before they can meet it.
    records = core.step(4 * HOUR, 3 * HOUR, {0: (1000, 1020, 980, 1000, 99)}, [])
    killed = members("risk.Reason").index("killed")
    assert [r[:2] for r in records if r[0] != "DAY"] == [("CANCEL", killed)] * 2
    reducing = {"verb": "sell", "lots": 5, "line": 1}
    every = [buy(1), reducing, {"verb": "close", "line": 1}, {"verb": "flatten", "line": 1}]
    for step in range(5, 7 if interpreted else 12):
        asked = every if held else every[:1]
        told = outcome(core, [*asked, CANCEL], step)
        assert told == ["killed"] * len(told)
        assert len(told) == (3 if held else 1)
        assert core.get("watch.killed") == 1
        assert core.get("working") == 0
        assert core.get("positions[0].lots") == held
    core.set("watch.killed", 0)
    assert outcome(core, [buy(1)], 12) == ["sent"]


@BOTH
def test_killed_cancels_pass_the_cancel_rate(interpreted: bool) -> None:
    core = core_of(interpreted=interpreted)
    core.step(HOUR, HOUR, {0: FLAT}, [])
    set_limits(core, {"max_cancel_rate": 0, "cancel_ns": HOUR})
    assert outcome(core, [buy(1, limit=1), buy(2, limit=1)], 2) == ["sent", "sent"]
    assert outcome(core, [CANCEL], 3) == ["max_cancel_rate"]
    assert core.get("working") == 2
    core.set("watch.killed", 1)
    outcome(core, [CANCEL], 4)
    assert core.get("working") == 0


@pytest.mark.parametrize("word", ["lots", "limit", "stop", "touch", "take_profit", "stop_loss",
                                  "value", "trail"])
@pytest.mark.parametrize("value", [(1 << 53) + 1, -(1 << 53) - 1, (1 << 63) - 1, -(1 << 63)])
def test_values_beyond_the_exact_integers_are_refused_whatever_asks(
    word: str, value: int
) -> None:
    """Before anything is computed of them: no word of the state but the count of refusals moves."""
    core = core_of(interpreted=False)
    core.step(HOUR, HOUR, {0: FLAT}, [buy(3)])
    core.step(2 * HOUR, HOUR, {0: FLAT}, [buy(3, limit=900, tag=1)])
    for verb in ("buy", "short", "target", "replace"):
        before = core.get("cash"), core.get("working"), core.get("positions[0].working_buy")
        assert outcome(core, [{"verb": verb, "lots": 1, "tag": 1, "line": 1, word: value}], 3) == [
            "value_out_of_range"
        ]
        after = core.get("cash"), core.get("working"), core.get("positions[0].working_buy")
        assert before == after
