"""ts.*: every window function against an exact or brute-force oracle, na and infinity included."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.std.harness import Ticks, run
from tests.std.windows import (
    Oracle,
    assert_close,
    exact,
    exact_products,
    rolling,
    spoiled,
    walk,
)

LEN = 20
N = 400


def variance(x: np.ndarray) -> float:
    """Sample variance, rounded once."""
    return float(exact_products(x, x) / (len(x) - 1))


def spread_of(x: np.ndarray) -> float:
    """Sample standard deviation."""
    return math.sqrt(variance(x))


def zscore(x: np.ndarray) -> float:
    """The newest value in standard deviations from the mean; na where all are equal."""
    if variance(x) == 0.0:
        return math.nan
    above = Fraction(float(x[-1])) - sum(exact(x)) / len(x)
    return float(above) / spread_of(x)


def standardised(x: np.ndarray) -> np.ndarray:
    """Deviations from the mean over the sample standard deviation."""
    mean = sum(exact(x)) / len(x)
    with np.errstate(invalid="ignore"):
        return np.array([float(value - mean) for value in exact(x)]) / spread_of(x)


def skew(x: np.ndarray) -> float:
    """Sample skewness G1."""
    n = len(x)
    return n / ((n - 1) * (n - 2)) * math.fsum(standardised(x) ** 3)


def kurt(x: np.ndarray) -> float:
    """Sample excess kurtosis G2."""
    n = len(x)
    tails = n * (n + 1) / ((n - 1) * (n - 2) * (n - 3)) * math.fsum(standardised(x) ** 4)
    return tails - 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))


def rank(x: np.ndarray) -> float:
    """Average rank of the newest value as a fraction."""
    return float((np.sum(x < x[-1]) + (np.sum(x == x[-1]) + 1) / 2) / len(x))


ONE_SERIES: dict[str, Oracle] = {
    "sum": math.fsum,
    "mean": lambda x: float(sum(exact(x)) / len(x)),
    "variance": variance,
    "std": spread_of,
    "zscore": zscore,
    "min": min,
    "max": max,
    "argmin": lambda x: int(np.argmin(x[::-1])),
    "argmax": lambda x: int(np.argmax(x[::-1])),
    "median": lambda x: float(np.median(x)),
    "rank": rank,
}


@pytest.mark.parametrize("name", ONE_SERIES)
@pytest.mark.parametrize("length", [2, 7, LEN])
def test_matches_oracle(name: str, length: int) -> None:
    x = spoiled(walk(N))
    # A z-score inherits the last bit of the mean, which weighs more the smaller the spread.
    rtol = 1e-10 if name == "zscore" else 1e-12
    assert_close(run(f"ts.{name}", src=x, len=length), rolling(ONE_SERIES[name], length, x), rtol)


@pytest.mark.parametrize(("name", "oracle"), [("skew", skew), ("kurt", kurt)])
def test_higher_moments_match_oracle(name: str, oracle: Oracle) -> None:
    x = spoiled(walk(N))
    assert_close(run(f"ts.{name}", src=x, len=LEN), rolling(oracle, LEN, x), 1e-11, 1e-11)


@pytest.mark.parametrize(("name", "shortest"), [("skew", 3), ("kurt", 4)])
def test_higher_moments_need_enough_values(name: str, shortest: int) -> None:
    x = walk(60)
    assert np.isnan(run(f"ts.{name}", src=x, len=shortest - 1)).all()
    assert not np.isnan(run(f"ts.{name}", src=x, len=shortest)).all()


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("overload", [1, 2])  # of prices and of sizes
def test_sums_of_counts_are_exact(name: str, overload: int) -> None:
    ticks = np.rint(walk(N) * 100).astype(np.int64)
    want = rolling(lambda x: float(sum(exact(x)) / (100 if name == "sum" else 100 * LEN)), LEN,
                   ticks.astype(float))
    got = run(f"ts.{name}", overload=overload, src=Ticks(ticks), len=LEN)
    assert_close(got, want, rtol=3e-16)


def test_changes() -> None:
    x = walk(N)
    assert_close(run("ts.delta", src=x, len=5)[5:], x[5:] - x[:-5])
    assert_close(run("ts.pct_change", src=x)[1:], (x[1:] - x[:-1]) / x[:-1])
    assert np.isnan(run("ts.delta", src=x, len=5)[:5]).all()


# ---- two series ------------------------------------------------------------------------------


def pair() -> tuple[np.ndarray, np.ndarray]:
    """Two related walks, both with unusable values."""
    x = walk(N, 3)
    return spoiled(x, 4), spoiled(0.7 * x + walk(N, 5, start=3.0), 6)


def slope(y: np.ndarray, x: np.ndarray) -> float:
    """Least-squares slope, rounded once; na where x does not vary."""
    below = exact_products(x, x)
    return float(exact_products(x, y) / below) if below else math.nan


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation; na where one does not vary."""
    below = exact_products(x, x) * exact_products(y, y)
    return math.copysign(
        math.sqrt(exact_products(x, y) ** 2 / below), exact_products(x, y)
    ) if below else math.nan


def test_covariance_correlation_beta() -> None:
    x, y = pair()
    covariance = rolling(lambda a, b: float(exact_products(a, b) / (LEN - 1)), LEN, x, y)
    assert_close(run("ts.cov", x=x, y=y, len=LEN), covariance)
    assert_close(run("ts.corr", x=x, y=y, len=LEN), rolling(correlation, LEN, x, y))
    assert_close(run("ts.beta", y=y, x=x, len=LEN), rolling(slope, LEN, y, x))


def test_ols() -> None:
    x, y = pair()
    got = run("ts.ols", y=y, x=x, len=LEN)
    steepness = rolling(slope, LEN, y, x)

    def intercept(a: np.ndarray, b: np.ndarray) -> float:
        below = exact_products(b, b)
        if not below:
            return math.nan
        return float(sum(exact(a)) / LEN - exact_products(a, b) / below * (sum(exact(b)) / LEN))

    assert_close(got["slope"], steepness)
    assert_close(got["intercept"], rolling(intercept, LEN, y, x), 1e-11)
    assert_close(got["r2"], rolling(correlation, LEN, x, y) ** 2)
    with np.errstate(invalid="ignore"):
        residual = y - got["intercept"] - steepness * x
    assert_close(got["residual"], residual, 1e-9, 1e-11)


def test_correlation_is_bounded_and_na_without_movement() -> None:
    x = np.cumsum(np.full(60, 0.1))
    got = run("ts.corr", x=x, y=3 * x + 1, len=5)
    assert np.nanmax(got) <= 1.0
    assert np.isnan(run("ts.corr", x=x, y=np.ones(60), len=5)).all()
    assert np.isnan(run("ts.beta", y=x, x=np.ones(60), len=5)).all()


def test_autocorr() -> None:
    x = spoiled(walk(N))
    late = x.copy()
    late[3:], late[:3] = x[:-3], np.nan
    assert_close(run("ts.autocorr", src=x, lag=3, len=LEN), rolling(correlation, LEN, x, late))


# ---- mean reversion --------------------------------------------------------------------------


def half_life(change: np.ndarray, before: np.ndarray) -> float:
    """Of a window of changes and the values before them; na where it does not revert."""
    steepness = slope(change, before)
    return -math.log(2) / steepness if steepness < 0 else math.nan


def test_half_life() -> None:
    x = spoiled(walk(N))
    before = np.concatenate([[np.nan], x[:-1]])
    with np.errstate(invalid="ignore"):
        want = rolling(half_life, LEN, x - before, before)
    assert np.isnan(want).sum() > np.isnan(rolling(min, LEN + 1, x)).sum()
    assert_close(run("ts.half_life", spread=x, len=LEN), want)


def test_half_life_of_a_known_process() -> None:
    rng = np.random.default_rng(7)
    x = np.zeros(200_000)
    for i, shock in enumerate(rng.normal(size=len(x) - 1)):
        x[i + 1] = 0.95 * x[i] + shock
    got = run("ts.half_life", spread=x, len=len(x) - 1)[-1]
    assert got == pytest.approx(math.log(2) / 0.05, rel=0.05)


def hurst(x: np.ndarray) -> float:
    """Half the slope of the structure function in log-log."""
    lags = [1 << j for j in range(30) if 4 << j <= len(x)]
    with np.errstate(divide="ignore"):
        heights = np.log2([np.mean((x[lag:] - x[:-lag]) ** 2) for lag in lags])
    if not np.isfinite(heights).all():
        return math.nan
    return float(np.polyfit(np.arange(len(lags)), heights, 1)[0] / 2)


@pytest.mark.parametrize("length", [8, 50, 64])
def test_hurst(length: int) -> None:
    x = spoiled(walk(N))
    assert_close(run("ts.hurst", src=x, len=length), rolling(hurst, length, x), 1e-9, 1e-9)


def test_hurst_of_known_processes() -> None:
    rng = np.random.default_rng(8)
    noise = rng.normal(size=20_000)
    assert run("ts.hurst", src=np.cumsum(noise), len=4096)[-1] == pytest.approx(0.5, abs=0.1)
    assert run("ts.hurst", src=noise, len=4096)[-1] == pytest.approx(0.0, abs=0.02)
    assert run("ts.hurst", src=np.arange(20_000.0), len=4096)[-1] == pytest.approx(1.0)
    assert np.isnan(run("ts.hurst", src=noise, len=7)).all()


# ---- exponentially weighted ------------------------------------------------------------------


def weighted(x: np.ndarray, y: np.ndarray, halflife: float) -> tuple[np.ndarray, ...]:
    """Means, unbiased covariances of all pairs so far; steps with an unusable value are na."""
    mean, xy, xx, yy = (np.full(len(x), np.nan) for _ in range(4))
    good = (np.abs(x) <= 1e100) & (np.abs(y) <= 1e100)
    for end in np.flatnonzero(good):
        a, b = x[: end + 1][good[: end + 1]], y[: end + 1][good[: end + 1]]
        w = 0.5 ** (np.arange(len(a))[::-1] / halflife)
        mean[end] = np.sum(w * a) / w.sum()
        da, db = a - mean[end], b - np.sum(w * b) / w.sum()
        freedom = w.sum() - np.sum(w * w) / w.sum()
        if len(a) > 1:
            xy[end], xx[end], yy[end] = (np.sum(w * p) / freedom
                                         for p in (da * db, da * da, db * db))
    return mean, xy, xx, yy


def test_exponentially_weighted() -> None:
    x, y = pair()
    mean, _, xx, _ = weighted(x, x, 6.5)
    assert_close(run("ts.ewm_mean", src=x, halflife=6.5), mean)
    assert_close(run("ts.ewm_var", src=x, halflife=6.5), xx, 1e-10)
    assert_close(run("ts.ewm_std", src=x, halflife=6.5), np.sqrt(xx), 1e-10)
    _, xy, xx, yy = weighted(x, y, 6.5)
    assert_close(run("ts.ewm_corr", x=x, y=y, halflife=6.5), xy / np.sqrt(xx * yy), 1e-10)


# ---- filters ---------------------------------------------------------------------------------


def test_kalman() -> None:
    x = spoiled(walk(N))
    level, spread, want, wide = math.nan, 0.0, [], []
    for value in x:
        known = abs(value) <= 1e100
        if known and math.isnan(level):
            level, spread = value, 0.5
        elif known:
            gain = (spread + 0.1) / (spread + 0.1 + 0.5)
            level, spread = level + gain * (value - level), gain * 0.5
        want.append(level if known else math.nan)
        wide.append(spread if known else math.nan)
    got = run("ts.kalman", src=x, drift_var=0.1, noise_var=0.5)
    assert_close(got["level"], np.array(want))
    assert_close(got["variance"], np.array(wide))
    certain = run("ts.kalman", src=x, drift_var=0.0, noise_var=0.0)["level"]
    assert set(certain[~np.isnan(certain)]) == {x[0]}


# ---- long runs -------------------------------------------------------------------------------


def hostile(kind: str, n: int) -> np.ndarray:
    """A long series that makes plain sliding sums drift."""
    rng = np.random.default_rng(9)
    if kind == "prices":
        return np.round(50_000 + np.cumsum(rng.normal(0, 5, n)), 2)
    if kind == "returns":
        return rng.normal(0, 1e-4, n)
    volumes = np.round(rng.exponential(1e3, n), 3)
    volumes[rng.random(n) < 1e-4] = 1e9
    return volumes


@pytest.mark.parametrize("kind", ["prices", "returns", "volumes"])
def test_a_million_steps_lose_nothing(kind: str) -> None:
    x = hostile(kind, 1_000_000)
    y = np.roll(x, 3) + hostile("returns", len(x))
    at = [*np.random.default_rng(10).integers(1000, len(x), 12).tolist(), len(x) - 1]
    got = run("ts.std", src=x, len=100), run("ts.beta", y=y, x=x, len=100)
    for end in at:
        window, other = x[end - 99 : end + 1], y[end - 99 : end + 1]
        assert got[0][end] == pytest.approx(spread_of(window), rel=1e-12)
        assert got[1][end] == pytest.approx(slope(other, window), rel=1e-12)
