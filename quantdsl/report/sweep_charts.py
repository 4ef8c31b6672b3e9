"""The arrays that the page of a sweep draws, small for any number of points.

A grid is seen two params at a time, in at most a few thousand cells; of lines and dots the best
points are drawn and an even choice of the others by rank. Arrays travel as in chart_data.py.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from quantdsl.report.chart_data import borders, curve_data, equity_curve, pack
from quantdsl.report.metrics import BY_NAME
from quantdsl.report.result import Float64s
from quantdsl.report.sweep_result import Axis, Int64s, SweepResult
from quantdsl.report.sweep_study import Study
from quantdsl.report.sweep_walk import WalkForward

CELLS_MAX = 240_000  # of all heatmaps together
BINS_MAX = 160  # along one side of a heatmap
MEDIANS_MAX = 200_000  # more points than this are sampled for the medians of cells
LINES_MAX, DOTS_MAX = 1_500, 4_000
BEST_SHARE = 0.1
"""Of the lines and dots, so many are the best points; the others are spread evenly over ranks."""
BARS = 60
TICKS_MAX = 200  # values of a param that the page can name
MODES = 2  # of a heatmap
SPARSE = 4
"""A subset with fewer points than one in so many cells gets larger cells, two points in each."""

Places = npt.NDArray[np.intp]


def sweep_data(
    result: SweepResult, study: Study, walk: WalkForward | None = None
) -> dict[str, Any]:
    """Everything the page's script draws, ready for JSON."""
    row = study.best
    return {
        "objective": _objective(result, result.objective),
        "lower": result.sign < 0.0,
        "axes": [_axis(axis) for axis in result.axes],
        "best": [] if row is None else result.levels[:, row].tolist(),
        "heat": _heatmaps(result, study),
        "lines": _lines(result),
        "around": _around(result, study),
        "splits": _splits(result, study),
        "bars": _histograms(result, study),
        "equity": None if result.best is None else equity_curve(result.best),
        "walk": None if walk is None else _walk(walk),
        "currency": result.currency,
    }


def _walk(walk: WalkForward) -> dict[str, Any]:
    """The stitched equity of the tests."""
    high = np.maximum(np.maximum.accumulate(walk.level), 1.0)
    return curve_data(walk.curve_ts, walk.cash, walk.cash * walk.level, walk.level / high - 1.0)


def _objective(result: SweepResult, name: str) -> dict[str, str]:
    return {"title": BY_NAME[name].title, "unit": BY_NAME[name].unit, "currency": result.currency}


def _axis(axis: Axis) -> dict[str, Any]:
    """Name, number of levels and as many of them in words as the page can use."""
    n = len(axis.levels)
    at = np.unique(np.linspace(0, n - 1, min(n, TICKS_MAX)).round().astype(int)).tolist()
    return {"name": axis.name, "n": n, "at": at, "text": [axis.levels[place] for place in at]}


# ---- heatmaps --------------------------------------------------------------------------------


def _heatmaps(result: SweepResult, study: Study) -> dict[str, Any]:
    """Every pair of params (a lone one with itself): cells with others at best, and in the median.

    Levels next to each other share a cell where there are too many; then the best or the median is
    that of the cell's points.
    """
    n_axes = len(result.axes)
    pairs = [(x, y) for y in range(n_axes) for x in range(y)] or [(0, 0)]
    if study.best is None:
        return {"sampled": 0, "pairs": []}
    bins = min(BINS_MAX, max(8, math.isqrt(CELLS_MAX // (MODES * len(pairs)))))
    rows = np.flatnonzero(np.isfinite(result.score))
    sampled = 0
    if len(rows) > MEDIANS_MAX:
        rows = np.sort(np.random.default_rng(study.seed).choice(rows, MEDIANS_MAX, replace=False))
        sampled = MEDIANS_MAX
    rows = rows[np.argsort(result.score[rows], kind="stable")]
    return {"sampled": sampled, "pairs": [_pair(result, study, pair, bins, rows) for pair in pairs]}


def _pair(
    result: SweepResult, study: Study, pair: tuple[int, int], bins: int, rows: Places
) -> dict[str, Any]:
    """One heatmap: cells[y * nx + x]. `rows` are in order of their scores."""
    sizes = [min(bins, len(result.axes[axis].levels)) for axis in pair]
    if pair[0] == pair[1]:
        sizes[1] = 1
    elif len(rows) * SPARSE < math.prod(sizes):
        scale = math.sqrt(len(rows) / math.prod(sizes) / 2.0)
        sizes = [max(2, int(size * scale)) for size in sizes]
    x, y = (
        result.levels[axis].astype(np.int64) * size // len(result.axes[axis].levels)
        for axis, size in zip(pair, sizes, strict=True)
    )
    cell = y * sizes[0] + x
    n_cells = sizes[0] * sizes[1]
    best = _best_cells(result.score, cell, n_cells, _slice(result, study, pair))
    median = _median_cells(result.score[rows], cell[rows], n_cells)
    return {
        "x": pair[0],
        "y": pair[1],
        "nx": sizes[0],
        "ny": sizes[1],
        "best": pack(result.sign * best),
        "median": pack(result.sign * median),
    }


def _slice(result: SweepResult, study: Study, pair: tuple[int, int]) -> Places:
    """Rows at which all other params are as at the best point."""
    same = np.isfinite(result.score)
    for axis, place in enumerate(result.levels):
        if axis not in pair:
            same &= place == place[study.best]
    return np.flatnonzero(same)


def _best_cells(score: Float64s, cell: Int64s, n_cells: int, rows: Places) -> Float64s:
    """The largest score of each cell, NaN in an empty one."""
    cells = np.full(n_cells, -np.inf)
    np.maximum.at(cells, cell[rows], score[rows])
    return np.where(np.isneginf(cells), np.nan, cells)


def _median_cells(score: Float64s, cell: Int64s, n_cells: int) -> Float64s:
    """The median score of each cell, NaN in an empty one; `score` is sorted."""
    order = np.argsort(cell, kind="stable")
    counts = np.bincount(cell, minlength=n_cells)
    first = np.cumsum(counts) - counts
    cells = np.full(n_cells, np.nan)
    full = np.flatnonzero(counts)
    low, high = ((counts[full] - back) // 2 + first[full] for back in (1, 0))
    cells[full] = (score[order[low]] + score[order[high]]) / 2.0
    return cells


# ---- lines, dots and bars --------------------------------------------------------------------


def shown(result: SweepResult, most: int) -> Int64s:
    """At most `most` rows with a score, worst first so that the best are drawn last, on top."""
    known = int(np.count_nonzero(np.isfinite(result.score)))
    ranked: Int64s = np.argsort(-result.score, kind="stable")
    ranked = ranked[np.isfinite(result.score[ranked])]
    if known <= most:
        return ranked[::-1]
    best = int(most * BEST_SHARE)
    others = np.linspace(best, known - 1, most - best).round().astype(np.int64)
    chosen: Int64s = ranked[np.append(np.arange(best), others)]
    return chosen[::-1]


def _lines(result: SweepResult) -> dict[str, Any]:
    """Parallel coordinates: the place of each point on each axis, in 0..1, and its objective."""
    rows = shown(result, LINES_MAX)
    sizes = np.array([max(1, len(axis.levels) - 1) for axis in result.axes])
    places = result.levels[:, rows] / sizes[:, None]
    return {
        "places": [pack(place) for place in places],
        "value": pack(result.metric(result.objective)[rows]),
    }


def _around(result: SweepResult, study: Study) -> dict[str, Any]:
    """Each point's objective and the median of its neighbours'."""
    rows = shown(result, DOTS_MAX)
    rows = rows[study.neighbourhood.tried[rows] > 0]
    return {
        "own": pack(result.metric(result.objective)[rows]),
        "median": pack(result.sign * study.neighbourhood.median[rows]),
        "best": study.best is not None and study.best in rows,
    }


def _splits(result: SweepResult, study: Study) -> dict[str, Any] | None:
    """Annual Sharpe ratio of each split's best point, in sample and out of sample."""
    if study.splits is None:
        return None
    a_year = math.sqrt(result.periods_per_year)
    return {
        "inside": pack(study.splits.in_sample * a_year),
        "outside": pack(study.splits.out_of_sample * a_year),
    }


def _histograms(result: SweepResult, study: Study) -> list[dict[str, Any]]:
    """The objective over all points, and the Sharpe ratio with what luck is expected to show."""
    found = []
    for name in dict.fromkeys((result.objective, "sharpe")):
        values = result.metric(name)
        known = values[np.isfinite(values)]
        if not len(known):
            continue
        marks = [("median", float(np.median(known)))]
        if study.best is not None:
            marks.append(("best point", float(values[study.best])))
        if name == "sharpe" and study.luck is not None:
            marks.append(("best by luck", study.luck.expected_best))
        counts, edges = np.histogram(known, BARS, borders(float(known.min()), float(known.max())))
        found.append(
            {
                **_objective(result, name),
                "low": float(edges[0]),
                "high": float(edges[-1]),
                "counts": counts.tolist(),
                "marks": [(word, value) for word, value in marks if math.isfinite(value)],
            }
        )
    return found
