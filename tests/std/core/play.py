"""Random markets and orders, played to the core and to the model side by side."""

import random
from typing import Any

from quantdsl.events import layout
from tests.std.core.core import HOUR, NONE, Core, Sizes, members
from tests.std.core.desk import Model
from tests.std.core.parts import Config

Bars = dict[int, tuple[int, int, int, int, int]]


def random_bar(rng: random.Random, last: int) -> tuple[int, int, int, int, int]:
    """A bar after `last`: often plain, sometimes with a gap, a flat bar or no volume."""
    gap = rng.choice([0, 0, 0, rng.randint(-8, 8)])
    open_ = max(last + gap, 20)
    close = max(open_ + rng.randint(-10, 10), 20)
    high = max(open_, close) + rng.choice([0, rng.randint(0, 8)])
    low = min(open_, close) - rng.choice([0, rng.randint(0, 8)])
    return open_, high, low, close, rng.choice([0, rng.randint(1, 60), rng.randint(1, 500)])


def random_intent(rng: random.Random, price: int, n: int, allowed: str) -> dict[str, Any]:
    """One order, its prices around `price`; `allowed` names the features it may use."""
    verb = rng.choice(["buy", "buy", "short", "sell", "cover", "target", "close", "cancel"])
    intent: dict[str, Any] = {"verb": verb, "inst": rng.randrange(n), "line": rng.randint(1, 99)}

    def near() -> int:
        return price + rng.randint(-12, 12)

    if verb in ("close", "cancel"):
        return intent
    if "tag" in allowed:
        intent["tag"] = rng.randint(0, 3)
        if rng.random() < 0.2:
            change = {"verb": "replace", "lots": rng.choice([NONE, NONE, rng.randint(-1, 40)])}
            names = rng.sample(["limit", "stop", "take_profit", "stop_loss"], 2)
            return {**intent, **change, **{name: near() for name in names}}
    if "after" in allowed and rng.random() < 0.3:
        intent["after"] = rng.randint(1, 3)
    intent["lots"] = rng.choice([0, rng.randint(1, 40), rng.randint(1, 40)])
    if verb == "target" or rng.random() < 0.03:  # a size below zero is refused
        intent["lots"] *= rng.choice([-1, 1])
    kind = rng.choice(["market", "limit", "stop", "stop_limit", "touch"])
    if kind in ("limit", "stop_limit") and "limit" in allowed:
        intent["limit"] = near()
    if kind in ("stop", "stop_limit") and "stop" in allowed:
        intent["stop"] = near()
    if kind == "touch" and "touch" in allowed:
        intent["touch"] = near()
    if "exits" in allowed and verb in ("buy", "short"):
        for name in ("take_profit", "stop_loss"):
            if rng.random() < 0.5:
                intent[name] = near()
    if "trail" in allowed and rng.random() < 0.2 and "touch" not in intent:
        intent["trail"] = rng.randint(1, 10)
    if "tif" in allowed:
        intent["tif"] = rng.choice(["gtc", "gtc", "day", "ioc", "fok"])
        intent["post_only"] = "limit" in intent and rng.random() < 0.2
        if rng.random() < 0.1:
            intent["when"] = "close"
    if "oco" in allowed and rng.random() < 0.3:
        intent["oco"] = rng.randint(1, 2)
    if "value" in allowed and rng.random() < 0.3 and verb in ("buy", "short", "target"):
        del intent["lots"]
        if rng.random() < 0.5:
            intent["value"] = rng.randint(-1 if verb == "target" else 1, 60) * 10_000_000
        else:
            intent["fraction"] = rng.randint(1, 60) / 100
    return intent


def random_intents(
    rng: random.Random, prices: list[int], allowed: str, appetite: float
) -> list[dict[str, Any]]:
    """What handlers ask for at one instant."""
    intents: list[dict[str, Any]] = []
    n = len(prices)
    while rng.random() < appetite:
        i = rng.randrange(n)
        intents.append({**random_intent(rng, prices[i], n, allowed), "inst": i})
        if "atomic" in allowed and intents[-1]["verb"] in ("buy", "short", "sell", "cover"):
            intents[-1]["atomic"] = rng.choice([0, 1, 1, 2])
    return intents


def play(
    seed: int,
    steps: int,
    *,
    allowed: str,
    config: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    n: int = 1,
    interpreted: bool = False,
    uses: int = 1,
    sizes: Sizes = frozenset(),
    appetite: float = 0.35,
) -> tuple[Core, Model]:
    """Play `steps` random instants to both; raises at the first difference."""
    rng = random.Random(seed)
    config = config or {}
    core = Core(config_words(config), n, interpreted=interpreted, uses=uses, sizes=sizes)
    model = Model(Config(**config), limits, n)
    prices = [1000] * n
    for step in range(steps):
        bars: Bars = {}
        for i in range(n):
            if n == 1 or rng.random() < 0.8:
                bars[i] = random_bar(rng, prices[i])
                prices[i] = bars[i][3]
        if not bars:
            bars[0] = random_bar(rng, prices[0])
            prices[0] = bars[0][3]
        asked = [random_intents(rng, prices, allowed, appetite)]
        if "inside" in allowed:
            asked.append(random_intents(rng, prices, allowed, appetite))
        intents = asked[0]
        set_limits(core, limits or {})
        ts = (step + 1) * HOUR
        ts_open = ts - HOUR
        if len(asked) > 1 and asked[1]:
            # A timer before the bar, at its open or inside it.
            ts_open = rng.choice([ts_open, ts - HOUR // 2])
            moment = rng.choice([ts - 3 * HOUR // 4, ts - HOUR // 2, ts - HOUR // 4])
            between(core, model, moment, asked[1], f"seed {seed} before {step} {asked[1]}")
        session_close = step % 7 == 6
        model.log.clear()
        if "corporate" in allowed and rng.random() < 0.1:
            corporate(core, model, rng, ts, prices)
        records = core.step(ts, ts_open, bars, intents, session_close)
        model.step(ts, ts_open, bars, intents, session_close)
        compare(core, model, records, f"seed {seed} step {step} bars {bars} intents {intents}")
    return core, model


def between(core: Core, model: Model, ts: int, intents: list[dict[str, Any]], where: str) -> None:
    """An instant without a bar in which a handler sends orders."""
    model.log.clear()
    core.ingest(ts, ts, 0, layout.Kind.TIMER, 0)
    records = core.step(ts, ts, {}, intents)
    model.step(ts, ts, {}, intents)
    compare(core, model, records, where)


def corporate(core: Core, model: Model, rng: random.Random, ts: int, prices: list[int]) -> None:
    """A split or a dividend, before the bars of the instant; prices follow a split."""
    i = rng.randrange(len(prices))
    if rng.random() < 0.5 or prices[i] < 600:
        a, b = rng.randint(1, 10**6), rng.randint(1, 9)
        core.ingest(ts, ts, i, layout.Kind.CORPORATE, 1, a, b)
        model.dividend(i, a, b)
    else:
        core.ingest(ts, ts, i, layout.Kind.CORPORATE, 0, 2, 1)
        model.split(i, 2)
        prices[i] //= 2


def config_words(config: dict[str, Any]) -> dict[str, Any]:
    """The same config for the core: enums as codes."""
    words = {**config, "path": members("engine.Path").index(config.get("path", "conservative"))}
    return {**words, "cut": int(config.get("cut", True))}


def set_limits(core: Core, limits: dict[str, Any]) -> None:
    """Write limits as the compiler does, right before submit."""
    for name, value in limits.items():
        if name == "max_order_rate":
            core.set("limits.max_order_rate", value[0])
            core.set("limits.rate_ns", value[1])
        else:
            core.set(f"limits.{name}", value)


def compare(core: Core, model: Model, records: list[tuple[Any, ...]], where: str) -> None:
    """Same fills, trades, refusals, cancels, cash, equity, positions and working orders."""
    reasons = members("risk.Reason")
    seen: list[tuple[Any, ...]] = []
    more: tuple[Any, ...] = ()
    for kind, flags, _, a, b, c, d, e in records:
        if kind == "FILL":
            seen.append(("fill", a, b, c, d, e))
        elif kind == "REJECT":
            seen.append(("reject", a, b, reasons[flags]))
        elif kind == "CANCEL":
            seen.append(("cancel", a, b, reasons[flags]))
        elif kind == "ROUND_TRIP":
            more = ("trip", b, c, d, e)
        elif kind == "ROUND_TRIP_MORE":
            seen.append((*more, a, b, d, e))
    assert sorted(seen, key=str) == sorted(model.log, key=str), (
        f"{where}\ncore  {seen}\nmodel {model.log}"
    )
    assert core.get("cash") == model.cash, where
    assert core.get("equity") == model.equity(), where
    for i, book in enumerate(model.books):
        assert core.get(f"positions[{i}].lots") == book.lots, where
        ours = [o for o in model.live() if o.inst == i and not o.bracket]
        assert core.get(f"positions[{i}].orders_working") == len(ours), where
    assert core.get("working") == len(model.live()), where
    assert core.get("outbox_lost") == 0, where
