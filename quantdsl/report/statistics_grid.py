"""Is a point good because its surroundings are: its neighbours on the grid, one step away.

A neighbour differs in one param by one step. Words and truth values have no order, so a point has
no neighbours along them. A point that was not tried, or whose score is not defined, is left out.
"""


import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.report.result import Float64s
from quantdsl.report.sweep_result import Int32s, Int64s, SweepResult


class Neighbourhood(Struct, frozen=True):
    """What surrounds each point, [n_points]; scores are oriented so that more is better."""

    tried: Int64s  # neighbours with a score
    median: Float64s  # of their scores, NaN where there is none
    worst: Float64s
    smooth: Float64s  # mean of the point and its neighbours, -inf without a score or a neighbour

    def rank(self, row: int) -> int:
        """Place of a point among all when each is seen as the mean of its surroundings."""
        return 1 + int(np.count_nonzero(self.smooth > self.smooth[row]))

    def ranked(self, top: int) -> Int64s:
        """At most `top` rows that have surroundings, best first; of equal ones the first."""
        order: Int64s = np.argsort(-self.smooth, kind="stable")[:top]
        return order[self.smooth[order] > -np.inf]


def neighbourhood(result: SweepResult) -> Neighbourhood:
    """The neighbourhood of every point of a sweep that has at least one row."""
    score = result.score
    steps = _steps(result) if len(score) else []
    around = np.full((max(1, len(steps)), len(score)), np.nan)
    for row, found in enumerate(steps):
        around[row] = np.where(found >= 0, score[found], np.nan)
    around[~np.isfinite(around)] = np.nan
    around.sort(axis=0)  # NaN last
    tried = np.count_nonzero(~np.isnan(around), axis=0)
    columns = np.arange(len(score))
    low, high = np.maximum(tried - 1, 0) // 2, tried // 2
    return Neighbourhood(
        tried=tried,
        median=(around[low, columns] + around[high, columns]) / 2.0,
        worst=around[0],
        smooth=np.where(tried > 0, (np.nansum(around, axis=0) + score) / (tried + 1), -np.inf),
    )


def _steps(result: SweepResult) -> list[npt.NDArray[np.int64]]:
    """Row of the neighbour down and up each ordered axis, -1 where that point was not tried."""
    strides, number = _numbers(result.levels, [len(axis.levels) for axis in result.axes])
    order = np.argsort(number, kind="stable")
    known = number[order]
    steps = []
    for axis, place, stride in zip(result.axes, result.levels, strides, strict=True):
        if not axis.is_number:
            continue
        for step in (-1, 1):
            inside = (place + step >= 0) & (place + step < len(axis.levels))
            wanted = number + step * stride
            at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            steps.append(np.where(inside & (known[at] == wanted), order[at], -1))
    return steps


def _numbers(levels: Int32s, sizes: list[int]) -> tuple[list[int], Int64s]:
    """The number of each point in the full grid, last axis fastest, and the stride of each axis."""
    strides = [1] * len(sizes)
    for k in range(len(sizes) - 2, -1, -1):
        strides[k] = strides[k + 1] * sizes[k + 1]
    number = np.zeros(levels.shape[1], np.int64)
    for place, stride in zip(levels, strides, strict=True):
        number += place.astype(np.int64) * stride
    return strides, number
