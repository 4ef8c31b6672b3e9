"""Kernels against numpy, and against exact arithmetic: products, scans, ranks and counts."""

from fractions import Fraction

import numpy as np
import pytest

from quantdsl.backtest.drawn import drawn_works
from quantdsl.devices.batches import on_core
from quantdsl.ir.scalar import fma
from tests.backtest.test_lane_entry import checked_text

INSTRUMENTS = 200
STRATEGY = """
strategy Truth:
    bars 5m
    plot(k({of}))
    on bar:
        flatten()
    risk:
        max_order = 1 share
    backtest:
        fees = 1bps
"""


def results(kernel, of="close / close[1]", windows=None):
    """What a kernel leaves of each window, and the windows, newest value first."""
    text = f"language 1\n{kernel}{STRATEGY.format(of=of)}"
    ((_, work),) = drawn_works(checked_text(text), INSTRUMENTS)
    ring, at = work.arrays["r"], work.arrays["r.at"]
    if windows is not None:
        ring[:] = windows(ring.shape)
    length = ring.shape[1]
    order = (at[:, None] - np.arange(length)) % length  # as docs/kernels.md says: r[0] is now
    whole = of.startswith("sign")
    values = np.take_along_axis(ring if whole else ring.view(np.float64), order, axis=1)
    return on_core(work).view(np.float64), values


PRODUCT = """
kernel k(r: window[float, 64]) -> float:
    var a: tensor[float, 4, 8] = 0
    var c: tensor[float, 4, 4] = 0
    parallel for i in 0..<4:
        for j in 0..<8:
            a[i, j] = r[i * 8 + j]
    parallel for i in 0..<4:
        for j in 0..<4:
            for m in 0..<8:
                c[i, j] = fma(a[i, m], r[32 + m * 4 + j], c[i, j])
    return c[{row}, {column}]
"""


@pytest.mark.parametrize(("row", "column"), [(0, 0), (1, 3), (3, 2)])
def test_a_matrix_product_is_that_of_numpy_and_its_chain_exactly(row, column):
    found, values = results(PRODUCT.format(row=row, column=column))
    a, b = values[:, :32].reshape(-1, 4, 8), values[:, 32:].reshape(-1, 8, 4)
    np.testing.assert_allclose(found, (a @ b)[:, row, column], rtol=1e-12)
    for which in range(INSTRUMENTS):
        chain = 0.0
        for m in range(8):
            chain = fma(a[which, row, m], b[which, m, column], chain)
        assert found[which] == chain


SCAN = """
@kernel(scan)
kernel k(r: window[float, 32]) -> float:
    var s = 0.0
    for i in 0..<r.len:
        s = 0.5 * s + r[r.len - 1 - i]
    return s
"""


def decayed(values):
    total = Fraction(0)
    for value in values[::-1].tolist():
        total = total / 2 + Fraction(value)
    return total


def test_a_scan_of_short_fractions_is_exact():
    def short(shape):
        whole = np.random.default_rng(3).integers(-1000, 1000, shape)
        return (whole / 64.0).view(np.int64)

    found, values = results(SCAN, windows=short)
    assert [Fraction(x) for x in found.tolist()] == [decayed(row) for row in values]


def test_a_scan_of_any_numbers_is_as_near_as_its_roundings():
    found, values = results(SCAN)
    for x, row in zip(found.tolist(), values, strict=True):
        # One rounding a step, each halved by every later one: less than two of the largest.
        assert abs(Fraction(x) - decayed(row)) <= 2 * Fraction(4, 2**53)


RANK = """
kernel k(r: window[float, 32]) -> float:
    var below: array[int, 32] = 0
    parallel for i in 0..<r.len:
        for j in 0..<r.len:
            if r[j] < r[i]:
                below[i] += 1
    return float(below[5])
"""
COUNT = """
kernel k(r: window[int, 64]) -> float:
    var bins: array[int, 8] = 0
    parallel for i in 0..<r.len:
        atomic_add(bins[clamp(r[i] + 3, 0, 7)], 1)
    return float(bins[2])
"""


def test_ranks_and_counts_are_those_of_numpy():
    found, values = results(RANK)
    assert found.tolist() == np.argsort(np.argsort(values, axis=1), axis=1)[:, 5].tolist()
    found, values = results(COUNT, "sign(close - open)")
    assert found.tolist() == (values == -1).sum(axis=1).tolist()
