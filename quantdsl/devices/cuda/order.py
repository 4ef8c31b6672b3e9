"""The order in which a GPU takes the lanes of a chunk, so that those of a warp trade alike.

A warp takes as long as the lane of it that trades most, and points come with the last param
turning fastest: where that one is a stop, each warp has a lane with the tightest. With another
param turning slower, behind the first alone, lanes that trade much are in the same warps, and the
others are done in a fraction of the time. Which param that is a short trial tells, remembered for
a kind of GPU.
"""

import hashlib
from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from quantdsl.codegen.cache import Cache
from quantdsl.devices.cuda.tune import program_key
from quantdsl.devices.work import LaneWork, Words

Order = npt.NDArray[np.int64]
WORTH_LANE_STEPS = 5 * 10**8
"""A sweep below takes less than the trial."""
TRIALS_SHARE = 8
"""All trials together take one in so many events, each of them twice."""
GAIN = 1.03
"""Another order has to be so much faster: where nothing trades yet the speeds say nothing."""
SAMPLE = 4_096
"""Points that tell one grid from another."""


def order_of(points: Words, second: int | None) -> Order | None:
    """The places of points[param, lane] with param `second` turning slower than all but the first,
    otherwise as they come; None where they stay as they are.
    """
    return None if second is None else np.lexsort((points[second], points[0]))


def restored(words: Words, order: Order) -> Words:
    """words[:, lane] of lanes in some order as those of the lanes as they came."""
    made = np.empty_like(words)
    for to, row in zip(made, words, strict=True):  # by rows: in one go it takes twice as long
        to[order] = row
    return made


def second_for(
    work: LaneWork,
    device: str,
    architecture: str,
    cache: Cache,
    measured: Callable[[LaneWork, int | None], float],
) -> int | None:
    """The param that is to turn slower on a kind of device: remembered or tried; None: none is.

    `measured` tells the lane-steps a second of some work in such an order.
    """
    if len(work.points) < 3 or work.n_lanes * work.lane_steps < WORTH_LANE_STEPS:
        return None
    key = _key(work, device, architecture)
    stored = cache.get(key)
    if stored is not None:
        return msgspec.msgpack.decode(stored, type=int | None)
    tried = range(2, len(work.points))
    events = -(-work.lane_steps // (TRIALS_SHARE * (len(tried) + 1)))
    trial = work._replace(events=work.events[:events], columns=work.columns[:events])
    speeds = {second: measured(trial, second) for second in tried}
    best = max(speeds, key=lambda second: speeds[second])
    found = best if speeds[best] > GAIN * measured(trial, None) else None
    cache.put(key, msgspec.msgpack.encode(found))
    return found


def _key(work: LaneWork, device: str, architecture: str) -> str:
    sample = np.ascontiguousarray(work.points[:, :: -(-work.n_lanes // SAMPLE)])
    points = hashlib.sha256(sample.tobytes()).hexdigest()
    program = program_key(work, architecture)
    text = f"order {device} {program} {work.n_lanes} {work.lane_steps} {points}"
    return hashlib.sha256(text.encode()).hexdigest()
