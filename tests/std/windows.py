"""What the tests of window functions share: hostile series and oracles in exact arithmetic."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

LARGEST = 1e100
"""std counts what lies beyond as infinite (sums.LARGEST)."""

Oracle = Callable[..., float]


def walk(n: int, seed: int = 1, start: float = 100.0) -> np.ndarray:
    """A random walk of n floats with ties and flat stretches in it."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(0.0, 1.0, n)
    steps[rng.random(n) < 0.2] = 0.0
    values = np.round(start + np.cumsum(steps), 3)
    values[n // 2 : n // 2 + n // 8] = values[n // 2]
    return values


def spoiled(values: np.ndarray, seed: int = 2) -> np.ndarray:
    """The series with na, infinities and a number too large for sums strewn in."""
    rng = np.random.default_rng(seed)
    out = values.copy()
    bad = (np.nan, np.inf, -np.inf, 1e101, -1.7e308)
    for at in rng.choice(len(values) * 2 // 3, size=len(bad) * 2, replace=False):
        out[at] = bad[rng.integers(len(bad))]
    return out


def rolling(oracle: Oracle, length: int, *series: np.ndarray) -> np.ndarray:
    """`oracle` of each window of `length` (oldest first), na where one value is unusable."""
    out = np.full(len(series[0]), np.nan)
    for end in range(length, len(out) + 1):
        windows = [column[end - length : end] for column in series]
        if all(np.all(np.abs(window) <= LARGEST) for window in windows):
            out[end - 1] = oracle(*windows)
    return out


def exact(values: Sequence[float]) -> list[Fraction]:
    """The values as fractions."""
    return [Fraction(float(value)) for value in values]


def exact_products(x: Sequence[float], y: Sequence[float]) -> Fraction:
    """Sum of products of deviations from the means, without any rounding."""
    a, b = exact(x), exact(y)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    return sum(((p - mean_a) * (q - mean_b) for p, q in zip(a, b, strict=True)), Fraction(0))


def assert_close(got: np.ndarray, want: np.ndarray, rtol: float = 1e-12, atol: float = 0.0) -> None:
    """Equal to `rtol`, and na at the same places."""
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
