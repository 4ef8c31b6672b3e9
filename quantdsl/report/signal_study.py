"""What signals are like and what they foretell: the figures of `quantdsl signals --describe`.

A cell is the value of a signal at one bar of one instrument; what is null or not finite is missing.
The forward return over h bars is close[t + h] / close[t] - 1 on the instrument's own bars. It is
of the future, and exists in this description alone: no signal ever sees it.

A group is what values are compared within. On a universe that is an instant, all instruments at
it; else an instrument, all of its bars. The formulas stand in docs/signals.md, with sources.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from quantdsl.report.chart_data import borders
from quantdsl.report.result import Float64s, Int64s

HORIZONS = (1, 2, 5, 10, 21)
LAGS = (1, 2, 5, 10, 21)
LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BUCKETS = 5
MEMBERS_MIN = 3
"""Pairs that a correlation needs."""
BINS = 40

Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]


class Cells(Struct, frozen=True):
    """The rows of a table of signals in order of instrument, then of time."""

    time_ns: Int64s
    instrument: Int64s
    close: Float64s
    inside: Bools
    """Whether its instrument is in the universe at that bar: others lend their closes alone."""
    across: bool
    """Whether instants are compared (a universe), or the bars of an instrument."""

    @classmethod
    def of(
        cls, time_ns: Int64s, instrument: Int64s, close: Float64s, inside: Bools, *, across: bool
    ) -> "Cells":
        """From rows in order of time; `order` of the result takes columns along."""
        order = np.argsort(instrument, kind="stable")
        return cls(time_ns[order], instrument[order], close[order], inside[order], across)

    def later(self, bars: int) -> Bools:
        """Which cells have one of the same instrument so many bars later, `bars` cells on."""
        same = np.zeros(len(self.instrument), np.bool_)
        if 0 < bars < len(same):
            same[:-bars] = self.instrument[bars:] == self.instrument[:-bars]
        return same

    def forward(self, bars: int) -> Float64s:
        """The forward return of each cell, NaN where the data end before."""
        found = np.full(len(self.close), np.nan)
        starts = np.flatnonzero(self.later(bars))
        with np.errstate(divide="ignore", invalid="ignore"):
            found[starts] = self.close[starts + bars] / self.close[starts] - 1.0
        return np.where(np.isfinite(found), found, np.nan)

    def groups(self) -> list[Ints]:
        """The cells of each group: of each instant in order of time, or of each instrument."""
        key = self.time_ns if self.across else self.instrument
        order = np.argsort(key, kind="stable")
        borders = np.flatnonzero(np.diff(key[order])) + 1
        return np.split(order, borders) if len(order) else []


class Foretold(Struct, frozen=True):
    """What a signal says of the return over the next `horizon` bars; NaN where not defined."""

    horizon: int
    groups: int
    spearman: float
    spearman_t: float
    pearson: float
    pearson_t: float
    quintiles: tuple[float, ...]
    """Mean forward return of each fifth of the signal's values, the lowest first."""
    spread: float
    """Highest less lowest fifth."""


class SignalStudy(Struct, frozen=True):
    """The description of one signal."""

    name: str
    cells: int
    present: int
    instruments: int
    """Those with a value anywhere."""
    first_ns: int
    mean: float
    std: float
    skew: float
    kurtosis: float
    least: float
    quantiles: tuple[float, ...]
    most: float
    autocorrelation: tuple[float, ...]
    turnover: float
    foretold: tuple[Foretold, ...]
    bins: tuple[float, ...]
    """Borders of the histogram."""
    counts: tuple[int, ...]
    path_ns: Int64s
    path: Float64s
    """The rank correlation over the next bar, added up over time; empty but on a universe."""

    @property
    def coverage(self) -> float:
        """The share of cells with a value."""
        return self.present / self.cells if self.cells else math.nan


def study(cells: Cells, names: Sequence[str], columns: Iterator[Float64s]) -> list[SignalStudy]:
    """The description of each signal; `columns` are their values in the order of the cells."""
    groups = cells.groups()
    returns = [(bars, cells.forward(bars)) for bars in HORIZONS]
    return [
        _described(
            name,
            np.where(cells.inside & np.isfinite(values), values, np.nan),
            cells,
            groups,
            returns,
        )
        for name, values in zip(names, columns, strict=True)
    ]


def _described(
    name: str,
    values: Float64s,
    cells: Cells,
    groups: list[Ints],
    returns: list[tuple[int, Float64s]],
) -> SignalStudy:
    there = ~np.isnan(values)
    known = np.sort(values[there])
    mean, std, skew, kurtosis = moments(known)
    some = len(known) > 0
    counts, bins = np.histogram(known, BINS, _shown_range(known))
    found = [_foretold(bars, values, later, cells, groups) for bars, later in returns]
    path = found[0][1] if cells.across else np.empty(0)
    moments_of = np.array([cells.time_ns[group[0]] for group in groups], np.int64)
    drawn = ~np.isnan(path)
    return SignalStudy(
        name=name,
        cells=int(np.count_nonzero(cells.inside)),
        present=len(known),
        instruments=len(np.unique(cells.instrument[there])),
        first_ns=int(cells.time_ns[there].min()) if some else 0,
        mean=mean,
        std=std,
        skew=skew,
        kurtosis=kurtosis,
        least=float(known[0]) if some else math.nan,
        quantiles=tuple(np.quantile(known, LEVELS).tolist()) if some else (math.nan,) * len(LEVELS),
        most=float(known[-1]) if some else math.nan,
        autocorrelation=tuple(autocorrelation(values, cells, lag) for lag in LAGS),
        turnover=turnover(values, cells, groups),
        foretold=tuple(one for one, _ in found),
        bins=tuple(bins.tolist()),
        counts=tuple(counts.tolist()),
        path_ns=moments_of[drawn] if cells.across else np.empty(0, np.int64),
        path=np.cumsum(path[drawn]),
    )


def _shown_range(known: Float64s) -> tuple[float, float]:
    """What a histogram shows: all but the outermost half percent on both sides."""
    if not len(known):
        return 0.0, 1.0
    low, high = np.quantile(known, (0.005, 0.995))
    return borders(float(low), float(high))


# ---- distribution --------------------------------------------------------------------------------


def moments(known: Float64s) -> tuple[float, float, float, float]:
    """Mean, sample standard deviation, skewness g1 and excess kurtosis g2; NaN where undefined."""
    if not len(known):
        return (math.nan,) * 4
    mean = float(known.mean())
    apart = known - mean
    # The mean is rounded; what the deviations still add up to is taken off.
    apart -= apart.mean()
    m2, m3, m4 = (float(np.mean(apart**k)) for k in (2, 3, 4))
    std = math.sqrt(m2 * len(known) / (len(known) - 1)) if len(known) > 1 else math.nan
    if known[0] == known[-1]:
        return mean, 0.0 if len(known) > 1 else math.nan, math.nan, math.nan
    return mean, std, m3 / m2**1.5, m4 / m2**2 - 3.0


def autocorrelation(values: Float64s, cells: Cells, lag: int) -> float:
    """The correlation of a signal with itself `lag` bars later, a mean over instruments."""
    starts = np.flatnonzero(cells.later(lag))
    starts = starts[~np.isnan(values[starts]) & ~np.isnan(values[starts + lag])]
    borders = np.flatnonzero(np.diff(cells.instrument[starts])) + 1
    found = [
        float(pearson(values[own], values[own + lag]))
        for own in (np.split(starts, borders) if len(starts) else [])
    ]
    return _mean([one for one in found if not math.isnan(one)])


def turnover(values: Float64s, cells: Cells, groups: list[Ints]) -> float:
    """The mean absolute change from bar to bar of a value's rank, as a share of its group."""
    places = np.full(len(values), np.nan)
    for _, own in _of_one_size(groups, ~np.isnan(values)):
        if own.shape[1] > 1:
            places[own] = ranks(values[own]) / own.shape[1]
    starts = np.flatnonzero(cells.later(1))
    changes = np.abs(places[starts + 1] - places[starts])
    changes = changes[~np.isnan(changes)]
    return float(changes.mean()) if len(changes) else math.nan


def _of_one_size(groups: list[Ints], counted: Bools) -> Iterator[tuple[Ints, Ints]]:
    """The groups by how many of their cells are `counted`: numbers of groups, and a row of such
    cells each. Groups are computed together, since there are as many as instants."""
    every = np.concatenate([np.empty(0, np.intp), *groups])
    number = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    kept = counted[every]
    cells, sizes = every[kept], np.bincount(number[kept], minlength=len(groups))
    begins = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 0]):
        numbers = np.flatnonzero(sizes == size)
        yield numbers, cells[begins[numbers][:, None] + np.arange(size)]


# ---- what is foretold ----------------------------------------------------------------------------


def _foretold(
    bars: int, values: Float64s, later: Float64s, cells: Cells, groups: list[Ints]
) -> tuple[Foretold, Float64s]:
    """What is foretold, and the rank correlation of each group."""
    both = ~np.isnan(values) & ~np.isnan(later)
    ranked = np.full(len(groups), np.nan)
    linear = np.full(len(groups), np.nan)
    fifths = np.full((len(groups), BUCKETS), np.nan)
    sizes = np.zeros(len(groups), np.int64)
    for numbers, own in _of_one_size(groups, both):
        sizes[numbers] = own.shape[1]
        if own.shape[1] < MEMBERS_MIN:
            continue
        signal, ahead = values[own], later[own]
        order = ranks(signal)
        ranked[numbers] = pearson(order, ranks(ahead))
        linear[numbers] = pearson(signal, ahead)
        fifths[numbers] = _fifths(order, ahead)
    quintiles = tuple(_mean([x for x in fifth if not math.isnan(x)]) for fifth in fifths.T.tolist())
    spread = fifths[:, -1] - fifths[:, 0]

    def significance(found: Float64s) -> float:
        return _t_of_groups(found, bars) if cells.across else _t_of_bars(found, sizes, bars)

    return Foretold(
        horizon=bars,
        groups=int(np.count_nonzero(~np.isnan(ranked))),
        spearman=_mean(ranked[~np.isnan(ranked)].tolist()),
        spearman_t=significance(ranked),
        pearson=_mean(linear[~np.isnan(linear)].tolist()),
        pearson_t=significance(linear),
        quintiles=quintiles,
        spread=_mean(spread[~np.isnan(spread)].tolist()),
    ), ranked


def _fifths(order: Float64s, ahead: Float64s) -> Float64s:
    """The mean return of each fifth by rank, group by group; equal values are in one, NaN where
    nobody is."""
    groups, members = order.shape
    bucket = np.minimum(((order - 0.5) * BUCKETS / members).astype(np.intp), BUCKETS - 1)
    place = (bucket + BUCKETS * np.arange(groups)[:, None]).reshape(-1)
    counts = np.bincount(place, minlength=groups * BUCKETS)
    totals = np.bincount(place, ahead.reshape(-1), groups * BUCKETS)
    found = np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)
    return found.reshape(groups, BUCKETS)


def _t_of_groups(found: Float64s, bars: int) -> float:
    """Mean over its standard error, where neighbours share all but one of their `bars` bars."""
    known = found[~np.isnan(found)]
    count = len(known)
    if count <= bars or count < 2:
        return math.nan
    apart = known - known.mean()
    variance = float(np.mean(apart**2))
    for lag in range(1, bars):
        shared = float(np.sum(apart[lag:] * apart[:-lag])) / count
        variance += 2.0 * (1.0 - lag / bars) * shared
    # Of one horizon this is the ordinary t of a mean.
    variance *= count / (count - 1)
    return float(known.mean()) / math.sqrt(variance / count) if variance > 0.0 else math.nan


def _t_of_bars(found: Float64s, sizes: Int64s, bars: int) -> float:
    """The t of a correlation along time: as many observations as returns that do not overlap."""
    known = ~np.isnan(found)
    if not known.any():
        return math.nan
    free = int(sizes[known].min()) / bars - 2.0
    r = float(found[known].mean())
    return r * math.sqrt(free / (1.0 - r * r)) if free > 0.0 and abs(r) < 1.0 else math.nan


def ranks(values: Float64s) -> Float64s:
    """Ranks from 1 on along the last axis; equal values share their mean rank."""
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, -1)
    places = np.arange(values.shape[-1])
    begins, ends = np.ones((2, *values.shape), bool)
    begins[..., 1:] = ends[..., :-1] = ordered[..., 1:] != ordered[..., :-1]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    last = np.where(ends, places, len(places))[..., ::-1]
    last = np.minimum.accumulate(last, axis=-1)[..., ::-1]
    found = np.empty(values.shape)
    np.put_along_axis(found, order, (first + last) / 2.0 + 1.0, -1)
    return found


def pearson(x: Float64s, y: Float64s) -> Float64s:
    """The correlations of samples along the last axis; NaN of fewer than three pairs, or where one
    is constant."""
    if x.shape[-1] < MEMBERS_MIN:
        return np.full(x.shape[:-1], np.nan)
    dx, dy = (one - one.mean(axis=-1, keepdims=True) for one in (x, y))
    product = np.sqrt(np.sum(dx * dx, axis=-1)) * np.sqrt(np.sum(dy * dy, axis=-1))
    varied = (np.ptp(x, axis=-1) != 0.0) & (np.ptp(y, axis=-1) != 0.0) & (product > 0.0)
    found = np.sum(dx * dy, axis=-1) / np.where(varied, product, 1.0)
    return np.where(varied, np.clip(found, -1.0, 1.0), np.nan)


def _mean(found: Sequence[float]) -> float:
    return math.fsum(found) / len(found) if len(found) else math.nan
