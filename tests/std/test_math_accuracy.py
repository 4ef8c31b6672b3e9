"""The mathematical functions keep their promised errors, against mpmath at 200 bits."""

import re

import numpy as np
import pytest

from tests.std.math_accuracy import PAGE, evaluate, worst_error
from tests.std.math_reference import (
    FAMILIES,
    FUNCTIONS,
    HAS_EXTENDED,
    Function,
    exact_ulp_error,
    points,
    ulp_errors,
)

MILLION = 1_000_000

# The floats up to 2^27 that lie nearest to a multiple of pi/2, by continued fractions; the first is
# 2^-60.5 from 29 pi/2. Their sines, cosines and tangents show an argument reduced too coarsely.
NEXT_TO_MULTIPLES = [
    "0x1.6c6cbc45dc8dep+5", "0x1.6c6cbc45dc8dep+6", "0x1.6c6cbc45dc8dep+9", "0x1.921fb54442d18p+0",
    "0x1.2d97c7f3321d2p+2", "0x1.635e3d74befcap+14", "0x1.bf9b3c6059d24p+17",
    "0x1.39c6fd67805a7p+18", "0x1.9eb7148f354d6p+20", "0x1.b951f1572eba5p+23",
    "0x1.b951f1572eba5p+26",
]  # fmt: skip

every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=[f.name for f in FUNCTIONS])
needs_extended = pytest.mark.skipif(
    not HAS_EXTENDED, reason="needs a C library with long doubles wider than doubles"
)


@every_function
def test_error_on_few_points_against_mpmath_alone(function: Function) -> None:
    families = [points(function, family, 50) for family in FAMILIES]
    arguments = [np.concatenate(columns) for columns in zip(*families, strict=True)]
    got = evaluate(function.name, *arguments)
    with np.errstate(all="ignore"):
        extended = function.extended(*(x.astype(np.longdouble) for x in arguments))
    for i, candidate in enumerate(ulp_errors(got, extended)):
        where = tuple(float(x[i]) for x in arguments)
        error = exact_ulp_error(function, where, float(got[i]))
        assert error <= function.limit_ulp, where
        if HAS_EXTENDED:  # else it is no reference
            assert candidate == pytest.approx(error, abs=0.01), where


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f.name in {"sin", "cos", "tan"}])
def test_error_next_to_multiples_of_half_pi(function: Function) -> None:
    angles = np.array([float.fromhex(text) for text in NEXT_TO_MULTIPLES])
    for x, got in zip(angles, evaluate(function.name, angles), strict=True):
        assert exact_ulp_error(function, (float(x),), float(got)) <= function.limit_ulp, x


@needs_extended
@every_function
def test_error_on_5_000_points_of_each_kind(function: Function) -> None:
    for family in FAMILIES:
        worst = worst_error(function, family, 5_000)
        assert worst.error_ulp <= function.limit_ulp, worst


@pytest.mark.slow
@needs_extended
@every_function
@pytest.mark.parametrize("family", FAMILIES)
def test_error_on_a_million_points(function: Function, family: str) -> None:
    worst = worst_error(function, family, MILLION)
    assert worst.error_ulp <= function.limit_ulp, worst


@every_function
def test_interpreter_and_machine_code_agree_to_the_bit(function: Function) -> None:
    for family in FAMILIES:
        arguments = points(function, family, 10, seed=3)
        native = evaluate(function.name, *arguments)
        interpreted = evaluate(function.name, *arguments, backend="interp")
        assert native.tobytes() == interpreted.tobytes()


@every_function
def test_page_shows_what_the_function_does(function: Function) -> None:
    found = re.search(
        rf"^\| `{function.name}` \| (\d) \| ([\d.]+) \| [^|]+ \| ([^|]+) \|$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert found, f"run python -m tests.std.math_accuracy: {PAGE.name} lacks {function.name}"
    assert int(found[1]) == function.limit_ulp
    where = tuple(map(float, found[3].split(", ")))
    (got,) = evaluate(function.name, *(np.array([x]) for x in where))
    error = exact_ulp_error(function, where, float(got))
    assert error == pytest.approx(float(found[2]), abs=5.1e-5)
