"""sums.*: exact oracles, hostile values, and what ten million steps leave of the accuracy."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.std.harness import Ticks, run
from tests.std.windows import assert_close, exact, exact_products, rolling, spoiled, walk

N = 400
LENGTHS = [1, 2, 7, 20]


def slope(x: np.ndarray) -> float:
    """Least-squares slope per step, rounded once."""
    n = len(x)
    weights = [Fraction(2 * i - n + 1, 2) for i in range(n)]
    top = sum((w * v for w, v in zip(weights, exact(x), strict=True)), Fraction(0))
    return float(top / (Fraction(n * (n * n - 1), 12) or 1))


def mean(x: np.ndarray) -> float:
    """Arithmetic mean, rounded once."""
    return float(sum(exact(x)) / len(x))


@pytest.mark.parametrize("length", LENGTHS)
def test_total(length: int) -> None:
    x = spoiled(walk(N) - 100.0)
    assert_close(run("sums.total", src=x, len=length), rolling(math.fsum, length, x), rtol=1e-15)


@pytest.mark.parametrize("length", LENGTHS)
def test_weighted(length: int) -> None:
    x = spoiled(walk(N) - 100.0)
    oracle = rolling(lambda w: math.fsum(w * np.arange(1, length + 1)), length, x)
    assert_close(run("sums.weighted", src=x, len=length), oracle, rtol=1e-14, atol=1e-13)


@pytest.mark.parametrize("length", LENGTHS)
def test_moments(length: int) -> None:
    x = spoiled(walk(N))
    found = run("sums.moments", src=x, len=length)
    assert_close(found["mean"], rolling(mean, length, x), rtol=1e-15)
    squares = rolling(lambda w: float(exact_products(w, w)), length, x)
    assert_close(found["squares"], squares, rtol=1e-14)


@pytest.mark.parametrize("length", LENGTHS)
def test_line(length: int) -> None:
    x = spoiled(walk(N))
    found = run("sums.line", src=x, len=length)
    assert_close(found["mean"], rolling(mean, length, x), rtol=1e-15)
    assert_close(found["slope"], rolling(slope, length, x), rtol=1e-14)


@pytest.mark.parametrize("length", LENGTHS)
def test_joint(length: int) -> None:
    x, y = spoiled(walk(N, seed=3)), spoiled(walk(N, seed=4), seed=5)
    found = run("sums.joint", x=x, y=y, len=length)
    oracles = {"mean_x": lambda a, _: mean(a), "mean_y": lambda _, b: mean(b),
               "xx": lambda a, _: float(exact_products(a, a)),
               "yy": lambda _, b: float(exact_products(b, b)),
               "xy": lambda a, b: float(exact_products(a, b))}
    for name, oracle in oracles.items():
        assert_close(found[name], rolling(oracle, length, x, y), rtol=1e-13)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("tie", [0, 1])
def test_extremes(length: int, tie: int) -> None:
    x = spoiled(np.round(walk(N)))
    pick = (min, max)[tie]

    def age(window: np.ndarray, best: float) -> int:
        return pick(len(window) - 1 - at for at in np.flatnonzero(window == best))

    for name, extreme in (("highest", np.max), ("lowest", np.min)):
        found = run(f"sums.{name}", src=x, len=length, tie=tie)
        value = rolling(lambda w, extreme=extreme: float(extreme(w)), length, x)
        ages = rolling(lambda w, extreme=extreme: age(w, extreme(w)), length, x)
        assert_close(found["value"], value, rtol=0)
        np.testing.assert_array_equal(found["age"], np.nan_to_num(ages))


@pytest.mark.parametrize("length", LENGTHS)
def test_ordered(length: int) -> None:
    x = spoiled(np.round(walk(N), 1))
    rank = length // 3
    found = run("sums.ordered", src=x, len=length, rank=rank)
    assert_close(found["at"], rolling(lambda w: np.sort(w)[rank], length, x), rtol=0)
    above = min(rank + 1, length - 1)
    assert_close(found["next"], rolling(lambda w: np.sort(w)[above], length, x), rtol=0)


def test_tick_total_is_exact_beyond_float() -> None:
    counts = np.array([2**53 - 1, 2**53 - 3, 5, 2**52 + 1] * 5)
    found = run("sums.tick_total", src=Ticks(counts), len=3)
    exact_sums = [sum(int(c) for c in counts[max(0, i - 2) : i + 1]) for i in range(len(counts))]
    assert found.tolist() == exact_sums


def test_equal_values_have_no_spread_however_far_from_the_origin() -> None:
    x = np.concatenate([[1e9, 3.7, 0.1], np.full(30, 0.1), [0.2], np.full(30, 1 / 3)])
    found = run("sums.moments", src=x, len=10)["squares"]
    flat = [len(set(x[i - 9 : i + 1])) == 1 for i in range(9, len(x))]
    assert (found[9:][flat] == 0).all()
    assert (found[9:][np.logical_not(flat)] > 0).all()


@pytest.mark.parametrize("length", LENGTHS)
def test_moments_have_the_bits_of_their_two_blocks(length: int) -> None:
    """Wherever the first of whole blocks is counted from: so parts of a history may be computed
    each by itself."""
    x = spoiled(walk(N))
    whole, blocks = run("sums.moments", src=x, len=length), N // 3 // length
    part = run("sums.moments", src=x[blocks * length :], len=length)
    for name, found in whole.items():
        there = found[(blocks + 1) * length :]
        np.testing.assert_array_equal(part[name][length:], there)


def test_a_window_of_zeros_sums_to_zero() -> None:
    x = np.concatenate([[0.1, 1e16, 0.3, 7.7], np.zeros(8)])
    assert (run("sums.total", src=x, len=4)[-4:] == 0.0).all()


SERIES = ["prices", "returns", "volumes"]


def long_series(kind: str, n: int) -> np.ndarray:
    """Prices in cents, mean-zero returns, or volumes with spikes of 1e9."""
    rng = np.random.default_rng(7)
    if kind == "prices":
        return np.round(100.0 * np.exp(np.cumsum(rng.normal(0, 1e-4, n))), 2)
    if kind == "returns":
        return rng.normal(0, 1e-2, n)
    spikes = rng.random(n) < 1e-3
    return np.where(spikes, rng.uniform(1e9, 2e9, n), rng.uniform(0.1, 1e3, n))


def samples(n: int, length: int) -> np.ndarray:
    """Places to look at: all along, and densely at the end."""
    return np.unique(np.concatenate([np.arange(length, n, max(n // 2_000, 1)),
                                     np.arange(n - 1_000, n)]))


STEPS = 10_000_000


@pytest.mark.parametrize("kind", SERIES)
@pytest.mark.parametrize("length", [20, 500])
def test_total_stays_accurate_over_ten_million_steps(kind: str, length: int) -> None:
    x = long_series(kind, STEPS)
    found = run("sums.total", src=x, len=length)
    at = samples(STEPS, length)
    want = np.array([math.fsum(x[i - length + 1 : i + 1]) for i in at])
    assert np.max(np.abs(found[at] - want) / np.abs(want)) < 1e-12


@pytest.mark.parametrize("kind", SERIES)
def test_moments_stay_accurate_over_ten_million_steps(kind: str) -> None:
    x = long_series(kind, STEPS)
    found = run("sums.moments", src=x, len=20)
    for i in samples(STEPS, 20)[-200:]:
        window = x[i - 19 : i + 1]
        squares = exact_products(window, window)
        assert abs(Fraction(float(found["squares"][i])) - squares) <= squares * Fraction(1, 10**12)
        centre = sum(exact(window)) / 20
        assert abs(Fraction(float(found["mean"][i])) - centre) <= abs(centre) * Fraction(1, 10**12)


@pytest.mark.parametrize("kind", SERIES)
def test_line_and_joint_stay_accurate_over_ten_million_steps(kind: str) -> None:
    x, y = long_series(kind, STEPS), long_series("returns", STEPS)
    fits = run("sums.line", src=x, len=20)["slope"]
    products = run("sums.joint", x=x, y=y, len=20)["xy"]
    for i in samples(STEPS, 20)[-100:]:
        a, b = x[i - 19 : i + 1], y[i - 19 : i + 1]
        # Both may be near zero by cancellation: what counts is the size of what was added.
        np.testing.assert_allclose(fits[i], slope(a), rtol=1e-12, atol=1e-16 * np.abs(a).max())
        size = math.sqrt(exact_products(a, a) * exact_products(b, b))
        np.testing.assert_allclose(products[i], float(exact_products(a, b)), rtol=1e-12,
                                   atol=1e-14 * size)
