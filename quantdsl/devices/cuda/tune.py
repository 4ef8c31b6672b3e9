"""Blocks and registers of a kernel by a short measured trial, remembered for each kind of GPU.

More registers a thread mean fewer threads at a time; which wins depends on the strategy, so a
large sweep tries a few on its first lanes and events. A small one takes what is remembered, or
the usual.
"""

import hashlib
from collections.abc import Callable, Iterable

import msgspec

from quantdsl.codegen.cache import Cache
from quantdsl.codegen.compile import cache_key
from quantdsl.codegen.ptx import Bounds, target_of
from quantdsl.devices.work import LaneWork

USUAL = Bounds()
FEW_LANES = 32_768
FEW = Bounds(32, 8, 4, whole=True)
"""Where few lanes leave most of a large GPU idle, each may as well have all registers there are,
and its rows near."""
ONE_ORDER = Bounds(32, 8, 32)
"""The same for a strategy that never has two orders: what costs its lanes most beside usual turns
is to begin a tile, and they turn aside too seldom to gain by staying together."""
ALONE_LANES = 16_384
ALONE = Bounds(32, 4, 24, whole=True)
"""For so few that each warp has a scheduler to itself: there is room for long tiles with rows."""
ROOMY = Bounds(128, 2, 16, 4)
"""For lanes that have several orders, as at prices: in short laps they stay together, so that more
of them make a turn with an order at once, and registers do not run out. More lanes at a time would
only share the cache: bench/README.md has what was tried."""
SPILL_BYTES_MAX = 100
"""What the kernel of one order may store and load for want of registers before it gets as many."""
CANDIDATES = (Bounds(), Bounds(128, 4, 64), Bounds(128, 5), Bounds(128, 3), Bounds(128, 2), ROOMY)
"""128, 128, 96, 168, 255 and 255 registers a thread where a multiprocessor has 65,536."""
WORTH_LANE_STEPS = 10**12
"""A sweep below takes less than the compiling of its candidates."""
TRIAL_EVENTS = 20_000
TRIAL_LANES = 1 << 16


def bounds_for(
    work: LaneWork,
    device: str,
    architecture: str,
    cache: Cache,
    measured: Callable[[LaneWork, Bounds], float],
) -> Bounds:
    """The bounds for some work on a kind of device: remembered, tried, or the usual.

    `measured` tells the lane-steps a second of some work under some bounds.
    """
    key = _key(work, device, architecture)
    stored = cache.get(key)
    if stored is not None:
        return msgspec.msgpack.decode(stored, type=Bounds)
    known = by_size(work)
    if known is not None:
        return known
    best = fastest(CANDIDATES, part(work), measured)
    cache.put(key, msgspec.msgpack.encode(best))
    return best


def by_size(work: LaneWork) -> Bounds | None:
    """The bounds that the size of some work decides; None where a trial is worth its time."""
    if work.n_lanes * work.lane_steps >= WORTH_LANE_STEPS:
        return None
    return for_lanes(work, work.n_lanes)


def for_lanes(work: LaneWork, n_lanes: int) -> Bounds:
    """The bounds of so many lanes of some work, untried."""
    if n_lanes > FEW_LANES:
        return USUAL if one_order(work) else ROOMY
    if one_order(work):
        return ALONE if n_lanes <= ALONE_LANES else ONE_ORDER
    return FEW


def one_order(work: LaneWork) -> bool:
    """Whether its strategy never has two orders at a time."""
    return dict(work.module.sizes).get("N_ORDERS") == 1


def fastest(
    candidates: Iterable[Bounds], work: LaneWork, measured: Callable[[LaneWork, Bounds], float]
) -> Bounds:
    """The candidate of the highest speed; the first of equal ones."""
    return max(candidates, key=lambda bounds: measured(work, bounds))


def part(work: LaneWork) -> LaneWork:
    """The first lanes and events: enough to show the speed, little to wait for."""
    return work._replace(
        points=work.points[:, :TRIAL_LANES].copy(),
        events=work.events[:TRIAL_EVENTS],
        columns=work.columns[:TRIAL_EVENTS],
    )


def _key(work: LaneWork, device: str, architecture: str) -> str:
    program = program_key(work, architecture)
    return hashlib.sha256(f"bounds {device} {program} {CANDIDATES}".encode()).hexdigest()


def program_key(work: LaneWork, architecture: str) -> str:
    """What tells the program of some work from others."""
    return cache_key(work.module, target_of(architecture), " ".join(sorted(work.kept)))
