"""Nothing fills unguarded: a part of an entry has its stop for as long as the entry works."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.std.core.core import HOUR, N_ORDERS, Core, members
from tests.std.core.play import random_bar
from tests.std.core.tick_core import BOOK, QUOTES, TickCore
from tests.std.core.tick_play import LATENCIES, MS, Street

ENDED = ("free", "over")


def asked(rng: random.Random, price: int) -> list[dict[str, Any]]:
    """Entries with a stop each, and what takes a part of the position out, or ends an entry."""
    made = []
    while rng.random() < 0.4:
        tag, lots, chance = rng.randint(1, 3), rng.randint(1, 30), rng.random()
        intent: dict[str, Any] = {"line": 1, "verb": "close"}
        if chance < 0.5:
            way = rng.choice([-1, 1])
            intent = {"verb": "buy" if way > 0 else "short", "lots": lots, "tag": tag, "line": 1}
            intent |= {"limit": price + rng.randint(-3, 3), "stop_loss": price - 6 * way}
            intent |= {"take_profit": price + 3 * way} if rng.random() < 0.6 else {}
        elif chance < 0.9:
            intent = {"verb": rng.choice(["sell", "cover"]), "lots": lots, "line": 1}
            intent |= {"after": tag} if rng.random() < 0.5 else {"limit": price}
        elif chance < 0.95:
            intent = {"verb": "cancel", "tag": tag, "line": 1}
        made.append(intent)
    return made


def unguarded(core: Core, filled: str) -> Iterator[int]:
    """The entries at work that have filled in part and have no exit of their own at work."""
    stages = members("orders.Stage")
    orders = [f"orders[{n}]" for n in range(N_ORDERS)]
    works = {
        core.get(f"{o}.id"): n
        for n, o in enumerate(orders)
        if stages[int(core.get(f"{o}.stage"))] not in ENDED
    }
    follows = [n for n in works.values() if core.get(f"orders[{n}].follow")]
    guarded = {core.get(f"orders[{n}].parent") for n in follows}
    for id_, n in works.items():
        entry = not core.get(f"orders[{n}].exit")
        if entry and core.get(filled.format(n)) and id_ not in guarded:
            yield int(id_)


def stale(core: Core, position: str) -> Iterator[int]:
    """The exits at work of a position that is closed, and that no entry at work opens again."""
    orders = [f"orders[{n}]" for n in range(N_ORDERS)]
    works = [o for o in orders if members("orders.Stage")[int(core.get(f"{o}.stage"))] not in ENDED]
    entries = {core.get(f"{o}.id") for o in works if not core.get(f"{o}.exit")}
    for o in works if core.get(position) == 0 else ():
        waits = members("orders.Stage")[int(core.get(f"{o}.stage"))] in ("held", "sent")
        if core.get(f"{o}.exit") and not waits and core.get(f"{o}.parent") not in entries:
            yield int(core.get(f"{o}.id"))


@pytest.mark.parametrize("seed", range(6))
def test_on_bars(seed: int) -> None:
    rng, price = random.Random(seed), 1000
    core, seen = Core({"volume_share": 0.1}), 0
    for step in range(400):
        bar = random_bar(rng, price)
        price, ts = bar[3], (step + 1) * HOUR
        core.step(ts, ts - HOUR, {0: bar}, asked(rng, price))
        assert not list(unguarded(core, "orders[{}].done")), f"seed {seed} step {step}"
        assert not list(stale(core, "positions[0].lots")), f"seed {seed} step {step}"
        seen += core.get("positions[0].lots") != 0
    assert seen > 100


@pytest.mark.parametrize("book", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_on_ticks(seed: int, book: bool) -> None:
    rng, ts, seen = random.Random(seed), 10**9, 0
    core, street = TickCore({}, LATENCIES, sizes=BOOK if book else QUOTES), Street(rng, book=book)
    for step in range(800):
        ts += rng.choice([1, 2, 5, 20]) * MS // 2
        core.message(ts, street.message(), asked(rng, street.mid))
        assert not list(unguarded(core, "resting[{}].filled")), f"seed {seed} step {step}"
        seen += core.get("venues[0].position") != 0
    assert seen > 100
