"""How else could it have gone: the trades of a run drawn again, in other orders and mixtures.

Each resample draws as many trades as there were, with replacement (Efron, "Bootstrap Methods",
Annals of Statistics 7 (1), 1979), and compounds them. It asks what the same trades could have
given in another order, so it knows nothing of trades that depend on each other, nor of the
swings while a trade is open: a drawdown is one of closed trades.
"""

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.report.result import Float64s

DRAWS = 1 << 18
"""Trades that are drawn at once: two megabytes an array."""

GOLDEN = 0x9E3779B97F4A7C15
MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
LAST_SHIFT = 31
"""Of SplitMix64."""

Redraw = Callable[[Float64s, int, int], Float64s]
"""Takes growth, a number of resamples and a seed to `paths` of each resample."""


class Resamples(Struct, frozen=True):
    """Final return and deepest drawdown of each resample, as fractions, and those of the run."""

    final: Float64s
    drawdown: Float64s  # 0 or negative
    run_final: float
    run_drawdown: float
    n_trades: int

    @property
    def loss_probability(self) -> float:
        """Share of resamples that lose money."""
        return float(np.mean(self.final < 0.0))


def trade_growth(profits: Float64s, cash: float) -> Float64s:
    """Equity after each trade over equity before it, in order of their exits; 0 once all is lost.

    In this order the factors multiply to the final equity over the starting cash.
    """
    level = cash + np.concatenate(([0.0], np.cumsum(profits)))
    ruined = np.maximum.accumulate(level[:-1] <= 0.0)
    growth = np.maximum(level[1:], 0.0) / np.where(ruined, 1.0, level[:-1])
    return np.where(ruined, 0.0, growth)


def bootstrap(
    growth: Float64s, n_resamples: int, seed: int = 0, redraw: Redraw | None = None
) -> Resamples | None:
    """`n_resamples` resamples of the trades; None below two trades.

    `redraw` is `redrawn_here` on a device; both leave the same bits.
    """
    if len(growth) < 2 or n_resamples < 1:
        return None
    final, drawdown = (redraw or redrawn_here)(growth, n_resamples, seed)
    run_final, run_drawdown = paths(growth[None])[:, 0].tolist()
    return Resamples(final, drawdown, run_final, run_drawdown, len(growth))


def redrawn_here(growth: Float64s, n_resamples: int, seed: int) -> Float64s:
    """`paths` of all resamples."""
    step = max(1, DRAWS // len(growth))
    bounds = [*range(0, n_resamples, step), n_resamples]
    parts = (
        paths(growth[drawn(seed, first, end, len(growth))])
        for first, end in itertools.pairwise(bounds)
    )
    return np.concatenate(list(parts), axis=1)


def drawn(seed: int, first: int, end: int, n_trades: int) -> npt.NDArray[np.int64]:
    """Which trades the resamples `first` to `end` draw, [end - first, n_trades].

    Draw k of resample r is number r * n_trades + k of SplitMix64 from `seed` (Steele, Lea, Flood,
    OOPSLA 2014), so that any device can make any of them; its upper half, times the number of
    trades, over 2^32, says which.
    """
    number = np.arange(first * n_trades + 1, end * n_trades + 1, dtype=np.uint64)
    z = np.uint64(seed) + number * np.uint64(GOLDEN)
    for shift, factor in MIX:
        z = (z ^ z >> np.uint64(shift)) * np.uint64(factor)
    z ^= z >> np.uint64(LAST_SHIFT)
    place = (z >> np.uint64(32)) * np.uint64(n_trades) >> np.uint64(32)
    return place.astype(np.int64).reshape(end - first, n_trades)


def paths(growth: Float64s) -> Float64s:
    """[2: final return, deepest drawdown][n_paths] of the compounded factors of each row."""
    level = np.cumprod(growth, axis=1)
    high = np.maximum(np.maximum.accumulate(level, axis=1), 1.0)
    return np.stack([level[:, -1] - 1.0, (level / high).min(axis=1) - 1.0])
