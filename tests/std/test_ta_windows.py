"""ta.*: window functions against exact or brute-force oracles, with na and infinity strewn in."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.std.harness import Ticks, run
from tests.std.windows import Oracle, assert_close, exact, exact_products, rolling, spoiled, walk

N = 400
LENGTHS = [1, 2, 7, 20]


def weighted(x: np.ndarray) -> float:
    """Mean with weights 1, 2, ..., len, rounded once."""
    n = len(x)
    top = sum((i * v for i, v in enumerate(exact(x), start=1)), Fraction(0))
    return float(top / Fraction(n * (n + 1), 2))


def gravity(x: np.ndarray) -> float:
    """Centre of gravity, newest first, rounded once."""
    ages = sum((i * v for i, v in enumerate(exact(x[::-1]), start=1)), Fraction(0))
    return -float(ages / sum(exact(x)))


def mean_deviation(x: np.ndarray) -> float:
    """Mean absolute deviation, rounded once."""
    centre = sum(exact(x)) / len(x)
    return float(sum(abs(v - centre) for v in exact(x)) / len(x))


def deviation_index(x: np.ndarray) -> float:
    """CCI; na where all values are equal."""
    centre, away = sum(exact(x)) / len(x), mean_deviation(x)
    return float(exact(x)[-1] - centre) / (0.015 * away) if away else math.nan


def line_end(offset: int) -> Oracle:
    """The least-squares line `offset` steps before the newest value."""
    def oracle(x: np.ndarray) -> float:
        n = len(x)
        values = exact(x)
        weights = [Fraction(2 * i - n + 1, 2) for i in range(n)]
        top = sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0))
        slope = top / (Fraction(n * (n * n - 1), 12) or 1)
        return float(sum(values) / n + slope * (Fraction(n - 1, 2) - offset))
    return oracle


def gaussian(offset: float, sigma: float) -> Oracle:
    """ALMA."""
    def oracle(x: np.ndarray) -> float:
        n = len(x)
        places = np.arange(n) - offset * (n - 1)
        weights = np.exp(-(places**2) / (2 * (n / sigma) ** 2))
        return float(math.fsum(weights * x) / math.fsum(weights))
    return oracle


def most_frequent(x: np.ndarray) -> float:
    """The smallest of the most frequent values."""
    values, counts = np.unique(x, return_counts=True)
    return float(values[np.argmax(counts)])


def average_ranks(x: np.ndarray) -> np.ndarray:
    """Rank of each value, equals sharing their mean rank."""
    return np.array([np.sum(x < v) + (np.sum(x == v) - 1) / 2 for v in x])


def rank_correlation(x: np.ndarray) -> float:
    """Spearman's correlation with time in percent; na where all values are equal."""
    ranks, time = average_ranks(x), np.arange(len(x))
    own = exact_products(ranks, ranks)
    if own == 0:
        return math.nan
    shared = float(own) * float(exact_products(time, time))
    return 100 * float(exact_products(ranks, time)) / math.sqrt(shared)


def interpolated(percentage: float) -> Oracle:
    """Hyndman and Fan's type 5 quantile."""
    return lambda x: float(np.quantile(x, percentage / 100, method="hazen"))


def nearest_rank(percentage: float) -> Oracle:
    """The smallest value that `percentage` percent do not exceed."""
    return lambda x: float(np.sort(x)[max(math.ceil(percentage * len(x) / 100), 1) - 1])


def oldest_age(best: Oracle) -> Oracle:
    """Minus the age of the oldest of the best values."""
    return lambda x: -float(len(x) - 1 - np.flatnonzero(x == best(x))[0])


ORACLES: dict[str, Oracle] = {
    "wma": weighted,
    "cog": gravity,
    "dev": mean_deviation,
    "variance": lambda x: float(exact_products(x, x) / len(x)),
    "stdev": lambda x: math.sqrt(exact_products(x, x) / len(x)),
    "highest": np.max,
    "lowest": np.min,
    "highestbars": oldest_age(np.max),
    "lowestbars": oldest_age(np.min),
    "range": np.ptp,
    "median": np.median,
    "mode": most_frequent,
    "rci": rank_correlation,
    "alma": gaussian(0.85, 6.0),
    "linreg": line_end(0),
    "cci": deviation_index,
}
OVERLOADED = {"wma": 1, "sma": 1}
ROUNDING = {"dev": 1e-13, "rci": 1e-13, "alma": 1e-13, "cci": 1e-9}
NEAR_ZERO = {"rci": 1e-12, "cci": 1e-10}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("length", LENGTHS)
def test_matches_oracle(name: str, length: int) -> None:
    x = spoiled(np.round(walk(N), 1))
    found = run(f"ta.{name}", overload=OVERLOADED.get(name, 0), src=x, len=length)
    assert_close(found, rolling(ORACLES[name], length, x), ROUNDING.get(name, 2e-14),
                 NEAR_ZERO.get(name, 0.0))


@pytest.mark.parametrize("length", LENGTHS)
def test_averages_of_prices_are_exact_sums(length: int) -> None:
    counts = np.rint(walk(N) * 100).astype(np.int64)
    prices = [Fraction(int(c), 100) for c in counts]
    for name, oracle in (("sma", lambda w: sum(w) / len(w)), ("wma", None)):
        found = run(f"ta.{name}", src=Ticks(counts), len=length)
        assert np.isnan(found[: length - 1]).all()
        for i in range(length - 1, N):
            window = prices[i - length + 1 : i + 1]
            weights = range(1, length + 1)
            want = oracle(window) if oracle else (
                sum(w * p for w, p in zip(weights, window, strict=True)) / sum(weights))
            assert abs(Fraction(found[i]) - want) <= want * Fraction(4, 2**53)


def test_the_mean_of_sizes_is_an_exact_sum() -> None:
    lots = np.random.default_rng(3).integers(0, 10**12, N)
    found = run("ta.sma", overload=2, src=Ticks(lots, 1.0, 1e8), len=7)
    want = [float(Fraction(int(lots[i - 6 : i + 1].sum()), 7 * 10**8)) for i in range(6, N)]
    assert_close(found[6:], np.array(want), 0)


@pytest.mark.parametrize("length", [2, 7, 20])
@pytest.mark.parametrize("percentage", [0.0, 1.0, 50.0, 90.0, 100.0])
def test_percentiles(length: int, percentage: float) -> None:
    x = spoiled(np.round(walk(N), 1))
    given = {"src": x, "len": length, "percentage": percentage}
    assert_close(run("ta.percentile_linear_interpolation", **given),
                 rolling(interpolated(percentage), length, x), 1e-14)
    assert_close(run("ta.percentile_nearest_rank", **given),
                 rolling(nearest_rank(percentage), length, x), 0)


@pytest.mark.parametrize("length", [1, 5, 20])
def test_percentrank_counts_the_values_before(length: int) -> None:
    x = spoiled(np.round(walk(N), 1))
    oracle = rolling(lambda w: 100 * float(np.sum(w[:-1] <= w[-1])) / length, length + 1, x)
    assert_close(run("ta.percentrank", src=x, len=length), oracle, 1e-15)


@pytest.mark.parametrize("offset", [1, 5])
def test_linreg_before_its_end(offset: int) -> None:
    x = walk(N)
    assert_close(run("ta.linreg", src=x, len=14, offset=offset), rolling(line_end(offset), 14, x),
                 1e-14)


def test_alma_parameters() -> None:
    x = walk(N)
    assert_close(run("ta.alma", src=x, len=9, offset=0.3, sigma=2.5),
                 rolling(gaussian(0.3, 2.5), 9, x), 1e-13)


def test_sample_variance() -> None:
    x = spoiled(walk(N))
    oracle = rolling(lambda w: float(exact_products(w, w) / (len(w) - 1)), 9, x)
    assert_close(run("ta.variance", src=x, len=9, biased=False), oracle, 1e-14)
    assert_close(run("ta.stdev", src=x, len=9, biased=False), np.sqrt(oracle), 1e-14)


@pytest.mark.parametrize("length", [2, 7, 20])
def test_correlation(length: int) -> None:
    x, y = spoiled(walk(N, seed=3)), spoiled(walk(N, seed=4), seed=5)

    def oracle(a: np.ndarray, b: np.ndarray) -> float:
        spread = exact_products(a, a) * exact_products(b, b)
        return float(exact_products(a, b)) / math.sqrt(spread) if spread else math.nan

    found = run("ta.correlation", x=x, y=y, len=length)
    assert_close(found, rolling(oracle, length, x, y), 1e-13, 1e-15)
    assert np.nanmax(np.abs(found)) <= 1.0


def test_a_line_correlates_with_itself_exactly_one() -> None:
    x = walk(N)
    found = run("ta.correlation", x=x, y=-3 * x, len=10)
    assert np.nanmin(found) >= -1.0
    np.testing.assert_allclose(found[~np.isnan(found)], -1.0, rtol=1e-15)


@pytest.mark.parametrize("name", ["bb", "bbw"])
def test_bands_of_a_flat_window_are_its_mean(name: str) -> None:
    x = np.concatenate([walk(50), np.full(30, 71.3)])
    found = run(f"ta.{name}", src=x, len=20)
    if name == "bbw":
        assert (found[-11:] == 0).all()
    else:
        assert all((found[field][-11:] == 71.3).all() for field in ("middle", "upper", "lower"))
