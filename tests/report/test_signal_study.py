"""Every figure of a description against other people's code, and against exact sums."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from quantdsl.report.signal_study import (
    BUCKETS,
    HORIZONS,
    LAGS,
    LEVELS,
    Cells,
    SignalStudy,
    moments,
    pearson,
    ranks,
    study,
)

TIGHT = 1e-9
DAYS, NAMES = 60, 17


def panel(seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Closes and a signal [day, name], with gaps; the signal has ties and tells a little."""
    random = np.random.default_rng(seed)
    steps = random.normal(0.0, 0.02, (DAYS, NAMES))
    closes = 50.0 * np.exp(np.cumsum(steps, axis=0))
    signal = np.round(np.vstack([steps[1:], steps[:1]]) * 30 + random.normal(0, 1, steps.shape), 1)
    signal[random.random(signal.shape) < 0.05] = np.nan
    closes[random.random(signal.shape) < 0.04] = np.nan  # a bar that is not there
    closes[:10, 3] = np.nan
    closes[40:, 5] = np.nan
    return closes, signal


def cells_of(
    closes: np.ndarray, signal: np.ndarray, *, across: bool
) -> tuple[Cells, np.ndarray]:
    """The rows of a table in order of time, as cells."""
    day, name = np.nonzero(~np.isnan(closes))
    order = np.argsort(name, kind="stable")
    moment, number, price = day.astype(np.int64), name.astype(np.int64), closes[day, name]
    inside = np.ones(len(day), np.bool_)
    cells = Cells.of(moment, number, price, inside, across=across)
    return cells, signal[day, name][order]


def described(*, across: bool) -> SignalStudy:
    cells, values = cells_of(*panel(), across=across)
    (found,) = study(cells, ["x"], iter([values]))
    return found


def forward(closes: np.ndarray, bars: int) -> np.ndarray:
    """The return over the next bars of own bars, [day, name], as one would say it."""
    found = np.full_like(closes, np.nan)
    for name in range(closes.shape[1]):
        days = [day for day in range(len(closes)) if not math.isnan(closes[day, name])]
        for place, day in enumerate(days[: max(len(days) - bars, 0)]):
            found[day, name] = closes[days[place + bars], name] / closes[day, name] - 1.0
    return found


def pairs(signal: np.ndarray, later: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Those of each row that both have."""
    both = ~np.isnan(signal) & ~np.isnan(later)
    return [(x[own], y[own]) for x, y, own in zip(signal, later, both, strict=True)]


def test_the_distribution_is_that_of_scipy_and_numpy() -> None:
    closes, signal = panel()
    known = signal[~np.isnan(closes) & ~np.isnan(signal)]
    found = described(across=True)
    assert found.present == len(known)
    assert found.coverage == len(known) / np.count_nonzero(~np.isnan(closes))
    assert found.mean == pytest.approx(math.fsum(known) / len(known), rel=TIGHT)
    assert found.std == pytest.approx(np.std(known, ddof=1), rel=TIGHT)
    assert found.skew == pytest.approx(stats.skew(known), rel=TIGHT)
    assert found.kurtosis == pytest.approx(stats.kurtosis(known), rel=TIGHT)
    assert found.quantiles == pytest.approx(np.quantile(known, LEVELS), rel=TIGHT)
    assert (found.least, found.most) == (known.min(), known.max())
    assert sum(found.counts) <= len(known)


def test_values_that_rounding_alone_tells_apart_have_a_histogram() -> None:
    closes, signal = panel()
    near = np.where(signal > 0, 3.0, np.nextafter(3.0, 4.0))
    cells, values = cells_of(closes, near, across=True)
    (found,) = study(cells, ["x"], iter([values]))
    assert found.bins[0] < 3.0 < found.bins[-1]
    assert sum(found.counts) == found.present


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_moments_hold_against_exact_sums(offset: float) -> None:
    known = np.sort(np.random.default_rng(2).gamma(2.0, 1.0, 400) + offset)
    exact = [Fraction(x) for x in known.tolist()]
    mean = sum(exact) / len(exact)
    m2, m3, m4 = (sum((x - mean) ** k for x in exact) / len(exact) for k in (2, 3, 4))
    expected = (
        float(mean),
        math.sqrt(m2 * len(exact) / (len(exact) - 1)),
        float(m3) / float(m2) ** 1.5,
        float(m4 / m2**2) - 3.0,
    )
    assert moments(known) == pytest.approx(expected, rel=TIGHT)


@pytest.mark.parametrize("bars", HORIZONS)
def test_across_instruments_each_instant_is_scipys_correlation(bars: int) -> None:
    closes, signal = panel()
    found = next(one for one in described(across=True).foretold if one.horizon == bars)
    signal = np.where(np.isnan(closes), np.nan, signal)
    groups = [(x, y) for x, y in pairs(signal, forward(closes, bars)) if len(x) >= 3]
    ranked = np.array([stats.spearmanr(x, y).statistic for x, y in groups])
    linear = np.array([stats.pearsonr(x, y).statistic for x, y in groups])
    assert found.groups == len(groups) > 30
    assert found.spearman == pytest.approx(math.fsum(ranked) / len(ranked), rel=TIGHT)
    assert found.pearson == pytest.approx(math.fsum(linear) / len(linear), rel=TIGHT)
    assert found.spearman_t == pytest.approx(newey_west(ranked, bars), rel=TIGHT)
    assert found.pearson_t == pytest.approx(newey_west(linear, bars), rel=TIGHT)
    if bars == 1:
        assert found.pearson_t == pytest.approx(stats.ttest_1samp(linear, 0).statistic, rel=TIGHT)
        assert found.spearman > 0.2


def newey_west(found: np.ndarray, bars: int) -> float:
    """The t of a mean by definition, each product by itself."""
    mean, count = math.fsum(found) / len(found), len(found)
    apart = [x - mean for x in found.tolist()]
    total = math.fsum(x * x for x in apart)
    for lag in range(1, bars):
        shared = math.fsum(x * y for x, y in zip(apart[lag:], apart, strict=False))
        total += 2.0 * (1.0 - lag / bars) * shared
    return mean / math.sqrt(total / count * count / (count - 1) / count)


@pytest.mark.parametrize("bars", HORIZONS)
def test_along_time_each_instrument_is_scipys_correlation(bars: int) -> None:
    closes, signal = panel()
    found = next(one for one in described(across=False).foretold if one.horizon == bars)
    signal = np.where(np.isnan(closes), np.nan, signal)
    groups = [(x, y) for x, y in pairs(signal.T, forward(closes, bars).T) if len(x) >= 3]
    ranked = [stats.spearmanr(x, y).statistic for x, y in groups]
    r = math.fsum(ranked) / len(ranked)
    free = min(len(x) for x, _ in groups) / bars - 2.0
    assert found.spearman == pytest.approx(r, rel=TIGHT)
    if free > 0:
        assert found.spearman_t == pytest.approx(r * math.sqrt(free / (1 - r * r)), rel=TIGHT)
    else:
        assert math.isnan(found.spearman_t)


def test_fifths_are_means_of_the_names_in_them() -> None:
    closes, signal = panel()
    signal = np.where(np.isnan(closes), np.nan, signal)
    for across in (True, False):
        found = described(across=across).foretold[0]
        later = forward(closes, 1)
        rows = pairs(signal, later) if across else pairs(signal.T, later.T)
        fifths: list[list[float]] = [[] for _ in range(BUCKETS)]
        spreads = []
        for x, y in rows:
            if len(x) < 3:
                continue
            place = (stats.rankdata(x) - 0.5) / len(x)
            own = [
                [v for v, p in zip(y.tolist(), place, strict=True) if int(p * BUCKETS) == n]
                for n in range(BUCKETS)
            ]
            for n, members in enumerate(own):
                fifths[n] += [math.fsum(members) / len(members)] if members else []
            if own[0] and own[-1]:
                low, high = (math.fsum(part) / len(part) for part in (own[0], own[-1]))
                spreads.append(high - low)
        expected = [math.fsum(means) / len(means) for means in fifths]
        assert found.quintiles == pytest.approx(expected, rel=TIGHT, abs=1e-15)
        assert found.spread == pytest.approx(math.fsum(spreads) / len(spreads), rel=TIGHT)


@pytest.mark.parametrize("lag", LAGS)
def test_autocorrelation_is_that_of_each_names_own_bars(lag: int) -> None:
    closes, signal = panel()
    expected = []
    for name in range(NAMES):
        own = signal[~np.isnan(closes[:, name]), name]
        x, y = own[:-lag], own[lag:]
        both = ~np.isnan(x) & ~np.isnan(y)
        if np.count_nonzero(both) >= 3:
            expected.append(stats.pearsonr(x[both], y[both]).statistic)
    found = described(across=True).autocorrelation[LAGS.index(lag)]
    assert found == pytest.approx(math.fsum(expected) / len(expected), rel=TIGHT)


def test_turnover_is_the_mean_change_of_ranks() -> None:
    closes, signal = panel()
    signal = np.where(np.isnan(closes), np.nan, signal)
    places = np.full_like(signal, np.nan)
    for day in range(DAYS):
        own = ~np.isnan(signal[day])
        places[day, own] = stats.rankdata(signal[day, own]) / np.count_nonzero(own)
    changes: list[float] = []
    for name in range(NAMES):
        own = places[~np.isnan(closes[:, name]), name]
        changes += [abs(b - a) for a, b in itertools.pairwise(own) if not np.isnan(b - a)]
    found = described(across=True).turnover
    assert found == pytest.approx(math.fsum(changes) / len(changes), rel=TIGHT)


def test_ranks_are_scipys_and_a_constant_correlates_with_nothing() -> None:
    x = np.array([3.0, 1.0, 3.0, 2.0, 3.0, -1.0])
    assert ranks(x).tolist() == stats.rankdata(x).tolist()
    assert math.isnan(pearson(np.ones(5), np.arange(5.0)))
    assert math.isnan(pearson(x[:2], x[:2]))
    assert pearson(x, x) == pytest.approx(1.0, abs=1e-15)


def test_a_table_of_groups_has_the_figures_of_each_row() -> None:
    random = np.random.default_rng(3)
    x, y = random.integers(0, 9, (2, 40, 12)).astype(float)
    x[7] = 2.0
    assert np.array_equal(ranks(x), [stats.rankdata(row) for row in x])
    each = [float(pearson(one, other)) for one, other in zip(x, y, strict=True)]
    assert np.array_equal(pearson(x, y), each, equal_nan=True)
    assert np.isnan(each[7])


@pytest.mark.parametrize("value", [np.nan, 2.5, np.inf])
def test_a_signal_that_says_nothing_has_no_figures(value: float) -> None:
    cells, values = cells_of(*panel(), across=True)
    (found,) = study(cells, ["x"], iter([np.full_like(values, value)]))
    assert found.coverage == (1.0 if value == 2.5 else 0.0)
    for one in found.foretold:
        assert math.isnan(one.spearman)
        assert math.isnan(one.pearson_t)
    assert math.isnan(found.autocorrelation[0])
    assert math.isnan(found.skew)


def test_what_comes_later_changes_no_earlier_pair() -> None:
    """Forward returns look ahead by their bars and by no more."""
    closes, _ = panel()
    cells, _ = cells_of(closes, closes, across=True)
    cut, _ = cells_of(closes[:-10], closes[:-10], across=True)
    for bars in (1, 5):
        whole, part = cells.forward(bars), cut.forward(bars)
        early = whole[cells.time_ns < DAYS - 10]
        known = ~np.isnan(part)
        assert np.array_equal(early[known], part[known])
