"""What a sweep asks of the core: no records, their digest instead, and sums of blocks of days."""

import random
from itertools import pairwise
from typing import Any

import pytest

from tests.std.core.core import HOUR, Core
from tests.std.core.play import random_bar, random_intent

MASK = (1 << 64) - 1


def played(seed: int, sizes: dict[str, int], **config: Any) -> tuple[Core, list[tuple[Any, ...]]]:
    """200 instants of random orders; the core and all of its records."""
    rng = random.Random(seed)
    core = Core(config, sizes=frozenset(sizes.items()))
    records, price = [], 1000
    for step in range(200):
        bar = random_bar(rng, price)
        price = bar[3]
        intents = [random_intent(rng, price, 1, "limit stop exits")] * (rng.random() < 0.5)
        ts = (step + 1) * HOUR
        records += core.step(ts, ts - HOUR, {0: bar}, intents, step % 5 == 4)
    return core, records


def mixed(digest: int, word: int) -> int:
    """One word more in the digest, as std/metrics.qdsl says."""
    x = (digest ^ (word & MASK)) * 2_685_821_657_736_338_717 & MASK
    return x ^ x >> 32


def figures(core: Core) -> dict[str, Any]:
    """All that a report reads, but the digest."""
    decl = next(s for s in core.module.structs if s.name == "metrics.Metrics")
    scalars = [f.name for f in decl.fields if f.type in ("i64", "f64")]
    return {name: core.get(f"metrics.{name}") for name in scalars if name != "digest"}


@pytest.mark.parametrize("seed", range(3))
def test_a_lane_without_records_decides_as_a_run_does(seed: int) -> None:
    run, records = played(seed, {})
    lane, nothing = played(seed, {"USES_RECORDS": 0, "N_RECORDS": 1})
    assert records
    assert not nothing
    assert lane.get("outbox_lost") == 0
    assert figures(lane) == figures(run)


def test_the_digest_is_of_every_record_kept_or_not() -> None:
    run, _ = played(0, {"USES_DIGEST": 1})
    lane, _ = played(0, {"USES_DIGEST": 1, "USES_RECORDS": 0, "N_RECORDS": 1})
    assert lane.get("metrics.digest") == run.get("metrics.digest") != 0
    run.set("metrics.digest", 0)
    bar = (1000, 1000, 1000, 1000, 9)
    records = run.step(10**15, 10**15, {0: bar}, [{"verb": "buy", "lots": -1}])
    first, digest = run.slot("outbox[0].ts_event").offset_words, 0
    for row in run.words[first : first + 8 * len(records)].reshape(-1, 8).tolist():
        for word in (row[0], *row[2:]):
            digest = mixed(digest, word)
    assert run.get("metrics.digest") & MASK == digest


def test_blocks_of_days_hold_the_returns_of_their_samples() -> None:
    core, records = played(1, {"N_BLOCKS": 4}, samples=42)
    equities = [core.get("config.cash"), *(r[3] for r in records if r[0] == "DAY")]
    returns = [float(b - a) / float(a) for a, b in pairwise(equities)]
    assert len(returns) == 40
    for k, part in enumerate((returns[:11], returns[11:21], returns[21:32], returns[32:])):
        total = squares = 0.0
        for r in part:
            total += r
            squares += r * r
        assert core.get(f"metrics.blocks[{k}].count") == len(part)
        assert core.get(f"metrics.blocks[{k}].total") == total
        assert core.get(f"metrics.blocks[{k}].squares") == squares
