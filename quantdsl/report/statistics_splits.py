"""Does the best of the past stay good: combinatorially symmetric cross-validation of a sweep.

Bailey, Borwein, Lopez de Prado and Zhu, "The Probability of Backtest Overfitting", Journal of
Computational Finance 20 (4), 2016 (circulated 2013-2015) [PBO]. The days are cut into an even
number of blocks; every choice of half of them is once in sample, and the others out of sample. In
each split the point with the best Sharpe ratio in sample is looked at out of sample.

Only sums per block are needed: count, total and squares of a union of blocks are the sums of
theirs, so a lane of a sweep keeps three numbers a block and no return is ever stored.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.report.result import Float64s

Int64s = npt.NDArray[np.int64]
Sums = tuple[Float64s, ...]  # count, total and squares of returns
Follow = Callable[[Float64s], Float64s]
"""Takes blocks to `followed` of every split, in the order of `followed_here`."""

POINTS_MAX = 10_000
"""More points than this are sampled on a CPU: each costs 13,000 Sharpe ratios."""

CELLS = 1 << 16
"""Sharpe ratios that are computed at once; half a megabyte each array stays in a core's cache."""

CORRELATION_EVERY = 32
"""A rank correlation sorts all points, so only one of this many splits has it computed."""


class Splits(Struct, frozen=True):
    """What became of the best point in sample, one entry a split. Sharpe ratios of one sample."""

    in_sample: Float64s  # its Sharpe ratio where it was chosen
    out_of_sample: Float64s  # and in the other half
    rank: Float64s  # in (0, 1): its place among all points out of sample, 1 is best
    rank_correlation: float  # of all points, in sample with out of sample
    n_points: int
    n_sampled_from: int  # points of the sweep; more than n_points where they were sampled

    @property
    def overfit_probability(self) -> float:
        """Share of splits in which the best in sample is not above the median out of sample."""
        return float(np.mean(self.rank <= 0.5))

    @property
    def loss_probability(self) -> float:
        """Share of splits in which the best in sample loses money out of sample."""
        return float(np.mean(self.out_of_sample < 0.0))

    @property
    def degradation(self) -> float:
        """Slope of the Sharpe ratio out of sample over that in sample; NaN if the latter is one.

        Below zero, the better a point looked, the worse it did.
        """
        centred = self.in_sample - self.in_sample.mean()
        spread = float(np.sum(centred * centred))
        return float(np.sum(centred * self.out_of_sample)) / spread if spread > 0.0 else math.nan


def cross_validate(
    blocks: Float64s, seed: int = 0, follow: Follow | None = None, points_max: int = POINTS_MAX
) -> Splits | None:
    """All splits of `blocks`, [3: count, total, squares][n_blocks][n_points].

    More than `points_max` points are sampled by `seed`; `follow` is `followed_here` on a device.
    None where there is nothing to choose: points that are all alike, as where none trades, or a
    block that is so short that its deviation means nothing. The blocks are an even number.
    """
    n_points = blocks.shape[2]
    if blocks.shape[1] < 2 or blocks[0].max(axis=1).min() < 2 or (blocks == blocks[..., :1]).all():
        return None
    judged = _sampled(blocks, seed, points_max)
    in_sample, out_of_sample, rank = (follow or followed_here)(judged)
    return Splits(
        in_sample=in_sample,
        out_of_sample=out_of_sample,
        rank=rank,
        rank_correlation=_rank_correlation(_sampled(judged, seed, POINTS_MAX)),
        n_points=judged.shape[2],
        n_sampled_from=n_points,
    )


def _sampled(blocks: Float64s, seed: int, points_max: int) -> Float64s:
    if blocks.shape[2] <= points_max:
        return blocks
    rows = np.random.default_rng(seed).choice(blocks.shape[2], points_max, replace=False)
    return blocks[:, :, np.sort(rows)]


def choices(n_blocks: int) -> Int64s:
    """Every choice of half of the blocks that has the first one, as bits, in the order of `unions`.

    The others are the complements of these.
    """
    half = n_blocks // 2
    subsets = range(1 << half)
    return np.array(
        [
            first | second << half
            for first in subsets[1::2]
            for second in subsets
            if first.bit_count() + second.bit_count() == half
        ],
        np.int64,
    )


def followed_here(blocks: Float64s) -> Float64s:
    """`followed` of every split, [3, n_splits]: the choices, then their complements."""
    chosen: list[Float64s] = []
    mirrored: list[Float64s] = []
    for inside, outside in unions(blocks):
        here, there = sharpes(*inside), sharpes(*outside)
        chosen.append(followed(here, there))
        mirrored.append(followed(there, here))
    return np.concatenate([*chosen, *mirrored], axis=1)


def unions(blocks: Float64s) -> Iterator[tuple[Sums, Sums]]:
    """Sums over each choice of half of the blocks that has the first one, and over the others.

    Yields (count, total, squares) twice, [some splits, n_points] each. A choice is one of the first
    half of the blocks with one of the second, whose sums are all made once: an addition a split,
    always in the same order, so that the bits do not hang on a library's threads.
    """
    half = blocks.shape[1] // 2
    assert blocks.shape[1] == 2 * half
    count = blocks[0]
    if (count == count[:, :1]).all():  # as always but for points that lost everything
        count = count[:, :1]
    parts = (count, blocks[1], blocks[2])
    everything = [part.sum(axis=0) for part in parts]
    first = [_subsets(part[:half]) for part in parts]
    second = [_subsets(part[half:]) for part in parts]
    sizes = np.array([subset.bit_count() for subset in range(1 << half)])
    step = max(1, CELLS // blocks.shape[2])
    by_size = [[part[sizes == size] for part in second] for size in range(half + 1)]
    for number in range(1, 1 << half, 2):
        group = by_size[half - number.bit_count()]
        for row in range(0, len(group[0]), step):
            pairs = zip(first, group, strict=True)
            inside = tuple(mine[number] + other[row : row + step] for mine, other in pairs)
            rest = zip(everything, inside, strict=True)
            yield inside, tuple(whole - part for whole, part in rest)


def _subsets(part: Float64s) -> Float64s:
    """Sums of every subset of the rows; the bits of a subset's number say which."""
    sums = np.zeros((1 << len(part), part.shape[1]))
    for number in range(1, len(sums)):
        lowest = number & -number
        sums[number] = sums[number ^ lowest] + part[lowest.bit_length() - 1]
    return sums


def sharpes(count: Float64s, total: Float64s, squares: Float64s) -> Float64s:
    """mean / std with n - 1, from the sums; 0 where nothing varies, as where nothing is traded."""
    spread = count * squares - total * total  # n (n - 1) variance
    spread[spread <= 1e-12 * count * squares] = np.inf
    count = np.maximum(count, 1.0)
    ratio: Float64s = total * np.sqrt((count - 1.0) / (count * spread))
    return ratio


def followed(here: Float64s, there: Float64s) -> Float64s:
    """Sharpe ratio here and there of the point that is best here, and its relative rank there.

    [3, n_splits]. The rank is r / (N + 1) [PBO, section 2.2], in the middle of equal ones.
    """
    rows, best = np.arange(len(here)), here.argmax(axis=1)
    mine = there[rows, best]
    below = np.count_nonzero(there < mine[:, None], axis=1)
    equal = np.count_nonzero(there == mine[:, None], axis=1)
    return np.stack([here[rows, best], mine, (below + (equal + 1) / 2) / (here.shape[1] + 1)])


def _rank_correlation(blocks: Float64s) -> float:
    """Mean over some splits of Spearman's correlation between the points' halves."""
    places = np.arange(blocks.shape[1])
    found = []
    for mask in choices(blocks.shape[1])[::CORRELATION_EVERY].tolist():
        inside = mask >> places & 1 == 1
        here, there = (sharpes(*blocks[:, side].sum(axis=1)) for side in (inside, ~inside))
        found.append(rank_correlation(here, there))
    known = [one for one in found if not math.isnan(one)]
    return math.fsum(known) / len(known) if known else math.nan


def rank_correlation(here: Float64s, there: Float64s) -> float:
    """Spearman's correlation of two series; NaN where one of them is constant."""
    x, y = (place - place.mean() for place in (ranks(here), ranks(there)))
    spread = math.sqrt(float(np.sum(x * x)) * float(np.sum(y * y)))
    return float(np.sum(x * y)) / spread if spread > 0.0 else math.nan


def ranks(values: Float64s) -> Float64s:
    """Places from 1, equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Float64s = (last - (counts - 1) / 2.0)[place]
    return shared
