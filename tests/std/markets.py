"""Bars for tests: a random walk with sound ranges."""

import numpy as np

from tests.std.harness import Bars
from tests.std.windows import walk


def market(n: int, seed: int = 11, quiet: float = 0.0) -> Bars:
    """`n` bars in cents; a share `quiet` of them without range, as many without volume."""
    rng = np.random.default_rng(seed)
    close = np.rint(walk(n, seed) * 100).astype(np.int64)
    open_ = np.concatenate([close[:1], close[:-1]])
    wide = rng.random(n) >= quiet
    high = np.maximum(open_, close) + wide * rng.integers(0, 50, n)
    low = np.minimum(open_, close) - wide * rng.integers(1, 50, n)
    volume = rng.integers(1, 10_000, n) * (rng.random(n) >= quiet)
    return Bars(open_, high, low, close, volume)
