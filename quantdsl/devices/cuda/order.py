"""The order in which a GPU takes the lanes of a chunk, so that those of a warp trade alike.

A warp takes as long as the lane of it that trades most, and a block as long as its slowest warp.
Points come with the last param turning fastest: where that one is a stop, each warp has a lane with
the tightest. With another param turning fastest, behind the first, which stays the slowest, lanes
that trade alike are in the same warps, and warps that take as long in the same blocks.

Few lanes leave much of a GPU idle while the warps of those that trade most are at work: what each
lane of a warp does aside, the others wait for. So these come first, in warps of one lane, of two
and so on. They are at one end of a param, such as the shortest average.

Which way is best a short trial tells, remembered for a kind of GPU.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quantdsl.codegen.cache import Cache
from quantdsl.devices.cuda.tune import program_key
from quantdsl.devices.work import LaneWork, Words
from quantdsl.ir.threads import WARP

Order = npt.NDArray[np.int64]


class Lead(NamedTuple):
    """The lanes of one end of a param come first."""

    param: int
    high: bool
    """Whether it is the end of its greatest values."""


Way = int | Lead | None
"""How lanes are taken: with a param turning fastest, some in front, or as they come."""
WORTH_LANE_STEPS = 5 * 10**8
"""A sweep below takes less than the trials."""
TRIALS_SHARE = 8
"""All trials together take one in so many events, each of them twice."""
LEAD_EVENTS = 20_000
"""What a trial takes where lanes may come in front, if all trials have no more events than the
sweep: what warps of their own gain shows late, and they cost some starts."""
GAIN = 1.03
"""Another order has to be so much faster: where nothing trades yet the speeds say nothing."""
SAMPLE = 4_096
"""Points that tell one grid from another."""


def order_of(points: Words, way: Way) -> Order | None:
    """The places of points[param, lane] on some way; None where they stay as they are.

    Where a param turns fastest behind the first, there are three at least. A warp has as many
    values of the last other one as it has room for, and the warps behind it have the same ones.
    """
    if way is None:
        return None
    if isinstance(way, Lead):
        numbers = _numbers(points[way.param]).astype(np.int64)
        return np.argsort(-numbers if way.high else numbers, kind="stable")
    first, *others = map(_numbers, points)
    fast = others.pop(way - 1)
    last = others.pop()
    share = max(WARP // (int(fast.max()) + 1), 1)
    return np.lexsort((first, last // share, *others, last % share, fast)[::-1])


def _numbers(values: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The place of each value among those that there are: words that are sorted in no time."""
    found = pa.array(values).dictionary_encode()
    places = np.argsort(np.argsort(found.dictionary.to_numpy()))
    short = np.uint16 if len(places) <= 1 << 16 else np.uint32
    numbers: npt.NDArray[Any] = places.astype(short)[found.indices.to_numpy()]
    return numbers


def restored(words: Words, order: Order) -> Words:
    """words[:, lane] of lanes in some order as those of the lanes as they came."""
    made = np.empty_like(words)
    for to, row in zip(made, words, strict=True):  # by rows: in one go it takes twice as long
        to[order] = row
    return made


def way_for(
    work: LaneWork,
    device: str,
    architecture: str,
    cache: Cache,
    measured: Callable[[LaneWork, Way], float],
    *,
    spread: bool,
) -> Way:
    """How lanes are taken on a kind of device: remembered or tried.

    `measured` tells the lane-steps a second of some work that is taken so. `spread` is whether
    there are so few that those in front may have warps of their own.
    """
    params = range(len(work.points))
    ways: list[Way] = [*params[1:]] if len(params) > 2 else []
    leads = [Lead(param, high) for param in params for high in (False, True)]
    spread = spread and LEAD_EVENTS * (len(ways) + len(leads)) <= work.lane_steps
    ways += leads if spread else []
    if not ways or work.n_lanes * work.lane_steps < WORTH_LANE_STEPS:
        return None
    key = _key(work, device, architecture)
    stored = cache.get(key)
    if stored is not None:
        known: Way = msgspec.msgpack.decode(stored, type=Way)
        return known
    share = -(-work.lane_steps // (TRIALS_SHARE * (len(ways) + 1)))
    events = LEAD_EVENTS if spread else share
    trial = work._replace(events=work.events[:events], columns=work.columns[:events])
    speeds = [measured(trial, way) for way in ways]
    best = max(range(len(ways)), key=lambda one: speeds[one])
    found = ways[best] if speeds[best] > GAIN * measured(trial, None) else None
    cache.put(key, msgspec.msgpack.encode(found))
    return found


def _key(work: LaneWork, device: str, architecture: str) -> str:
    sample = np.ascontiguousarray(work.points[:, :: -(-work.n_lanes // SAMPLE)])
    points = hashlib.sha256(sample.tobytes()).hexdigest()
    program = program_key(work, architecture)
    text = f"way {device} {program} {work.n_lanes} {work.lane_steps} {points}"
    return hashlib.sha256(text.encode()).hexdigest()
