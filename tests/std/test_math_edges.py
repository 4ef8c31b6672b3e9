"""Special cases of the mathematical functions: C99 Annex F, and results that must be exact."""

import math

import numpy as np
import pytest

from tests.std.math_accuracy import evaluate

INF, NA, PI = math.inf, math.nan, math.pi
MAX, MIN_NORMAL, MIN = 1.7976931348623157e308, 2.2250738585072014e-308, 5e-324

ODD_KEEPS_ZERO_AND_INFINITY = [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NA, NA)]

ONE_ARGUMENT: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NA, NA), (710, INF), (-746, 0),
            (1e308, INF), (-1e308, 0), (MIN, 1)],
    "exp2": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NA, NA), (1024, INF), (-1076, 0),
             (-1074, MIN), (1023, 2.0**1023), (1e308, INF)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (NA, NA), (MIN, MIN),
              (-MIN, -MIN), (710, INF), (-50, -1), (-1e308, -1)],
    "log": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (-1, NA), (-INF, NA), (INF, INF), (NA, NA),
            (-MIN, NA)],
    "log2": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (-1, NA), (INF, INF), (NA, NA), (MIN, -1074)],
    "log10": [(0.0, -INF), (-0.0, -INF), (1, 0.0), (-1, NA), (INF, INF), (NA, NA)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (-1.5, NA), (-INF, NA), (INF, INF), (NA, NA),
              (MIN, MIN), (-MIN, -MIN)],
    "cbrt": [*ODD_KEEPS_ZERO_AND_INFINITY, (27, 3), (-8, -2)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NA), (-INF, NA), (NA, NA), (MIN, MIN),
            (134217728.5, NA), (-1e300, NA)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NA), (-INF, NA), (NA, NA), (134217728.5, NA)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NA), (-INF, NA), (NA, NA), (-MIN, -MIN),
            (134217728.5, NA)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.0000000000000002, NA), (-2, NA), (INF, NA), (NA, NA),
             (1, PI / 2), (-1, -PI / 2), (MIN, MIN)],
    "acos": [(1, 0.0), (0.0, PI / 2), (-1, PI), (1.0000000000000002, NA), (-INF, NA), (NA, NA)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (NA, NA), (MIN, MIN),
             (MAX, PI / 2), (1, PI / 4)],
    "sinh": [*ODD_KEEPS_ZERO_AND_INFINITY, (711, INF), (-711, -INF), (MIN, MIN), (-MAX, -INF)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (NA, NA), (711, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NA, NA), (MIN, MIN), (20, 1)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (NA, NA), (6, 1)],
    "erfc": [(0.0, 1), (-0.0, 1), (INF, 0.0), (-INF, 2), (NA, NA), (28, 0.0), (-28, 2)],
    "round": [*ODD_KEEPS_ZERO_AND_INFINITY, (0.5, 1), (-0.5, -1), (2.5, 3), (-2.5, -3),
              (0.49999999999999994, 0.0), (-0.25, -0.0), (4503599627370497.5, 4503599627370498),
              (9007199254740993, 9007199254740993), (MAX, MAX)],
    "degrees": [*ODD_KEEPS_ZERO_AND_INFINITY, (PI, 180), (MAX, INF)],
    "radians": [*ODD_KEEPS_ZERO_AND_INFINITY, (180, PI)],
}

POW: list[tuple[float, float, float]] = [
    (0.0, -3, INF), (-0.0, -3, -INF), (0.0, -2, INF), (-0.0, -2, INF), (-0.0, -2.5, INF),
    (0.0, -INF, INF), (-0.0, -INF, INF),
    (0.0, 3, 0.0), (-0.0, 3, -0.0), (0.0, 2, 0.0), (-0.0, 2, 0.0), (-0.0, 0.5, 0.0),
    (0.0, INF, 0.0), (-0.0, INF, 0.0),
    (-1, INF, 1), (-1, -INF, 1), (1, INF, 1), (1, -7.5, 1), (1, NA, 1),
    (0.0, 0.0, 1), (-0.0, -0.0, 1), (NA, 0.0, 1), (INF, 0.0, 1), (-INF, -0.0, 1),
    (-2, 0.5, NA), (-1, 0.5, NA), (-MIN, 1.5, NA), (NA, 1, NA), (2, NA, NA), (NA, NA, NA),
    (0.5, -INF, INF), (-0.5, -INF, INF), (2, -INF, 0.0), (-2, -INF, 0.0),
    (0.5, INF, 0.0), (-0.5, INF, 0.0), (2, INF, INF), (-2, INF, INF),
    (-INF, -3, -0.0), (-INF, -2, 0.0), (-INF, -0.5, 0.0), (-INF, 3, -INF), (-INF, 2, INF),
    (-INF, 0.5, INF), (-INF, INF, INF), (-INF, -INF, 0.0),
    (INF, -2, 0.0), (INF, 2, INF), (INF, -0.5, 0.0), (INF, INF, INF), (INF, -INF, 0.0),
    (-2, 3, -8), (-2, 2, 4), (-2, -1, -0.5), (2, -1074, MIN), (2, 1024, INF), (-2, 1025, -INF),
    (2, -1076, 0.0), (-2, -1077, -0.0), (10, 22, 1e22), (-3, 9007199254740992, INF),
    (0.9999999999999999, 1e300, 0.0), (1.0000000000000002, 1e300, INF), (MIN, 1, MIN),
    (MAX, 1, MAX), (-MAX, 1, -MAX),
]

ATAN2: list[tuple[float, float, float]] = [
    (0.0, -0.0, PI), (-0.0, -0.0, -PI), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0),
    (0.0, -1, PI), (-0.0, -1, -PI), (0.0, 1, 0.0), (-0.0, 1, -0.0),
    (-1, 0.0, -PI / 2), (-1, -0.0, -PI / 2), (1, 0.0, PI / 2), (1, -0.0, PI / 2),
    (1, -INF, PI), (-1, -INF, -PI), (1, INF, 0.0), (-1, INF, -0.0),
    (INF, 1, PI / 2), (-INF, 1, -PI / 2), (INF, -1, PI / 2), (-INF, -1, -PI / 2),
    (INF, -INF, 3 * PI / 4), (-INF, -INF, -3 * PI / 4), (INF, INF, PI / 4), (-INF, INF, -PI / 4),
    (NA, 1, NA), (1, NA, NA), (NA, INF, NA), (INF, NA, NA), (NA, 0.0, NA), (0.0, NA, NA),
    (MIN, MAX, 0.0), (MAX, MIN, PI / 2), (MIN, MIN, PI / 4), (MAX, MAX, PI / 4), (MIN, 1, MIN),
    (MIN, -MAX, PI),
]

HYPOT: list[tuple[float, float, float]] = [
    (INF, NA, INF), (NA, -INF, INF), (-INF, 0.0, INF), (1, NA, NA), (NA, NA, NA),
    (0.0, 0.0, 0.0), (-0.0, -0.0, 0.0), (-0.0, -3, 3), (3, 4, 5), (MIN, 0.0, MIN),
    (3 * MIN, 4 * MIN, 5 * MIN), (MAX, MAX, INF), (MAX, 1, MAX), (3e300, -4e300, 5e300),
]

TWO_ARGUMENTS = {"pow": POW, "atan2": ATAN2, "hypot": HYPOT}


def same_bits(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Equal with the sign of zeros; nan is one value."""
    both_na = np.isnan(got) & np.isnan(want)
    return both_na | (got.view(np.int64) == want.view(np.int64))


@pytest.mark.parametrize("backend", ["native", "interp"])
@pytest.mark.parametrize("name", [*ONE_ARGUMENT, *TWO_ARGUMENTS])
def test_special_cases_of_annex_f(name: str, backend: str) -> None:
    rows = np.array(ONE_ARGUMENT.get(name) or TWO_ARGUMENTS[name], dtype=np.float64)
    *arguments, want = (np.ascontiguousarray(column) for column in rows.T)
    got = evaluate(name, *arguments, backend=backend)
    wrong = ~same_bits(got, want)
    assert not wrong.any(), list(zip(rows[wrong].tolist(), got[wrong], strict=True))


WHOLE = np.arange(-1074.0, 1024.0)
SMALL = np.arange(-300.0, 301.0)

EXACT = {
    "exp2": ((WHOLE,), np.ldexp(1.0, WHOLE.astype(np.int64))),
    "log2": ((np.ldexp(1.0, WHOLE.astype(np.int64)),), WHOLE),
    "log10": ((np.array([10.0**k for k in range(23)]),), np.arange(23.0)),
    "cbrt": ((SMALL**3,), SMALL),
    "hypot": ((3 * SMALL, 4 * SMALL), 5 * np.abs(SMALL)),
    "pow": ((SMALL, np.full(601, 3.0)), SMALL**3),
    "copysign": ((SMALL, -SMALL), -SMALL),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_results(name: str) -> None:
    arguments, want = EXACT[name]
    got = evaluate(name, *arguments)
    assert np.array_equal(got, want), got[got != want][:5]
