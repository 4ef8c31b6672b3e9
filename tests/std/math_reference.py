"""What the mathematical functions must return, and the points where it is hard.

Two references: mpmath at 200 bits decides, but takes microseconds a point. The extended doubles of
the C library (64 bits of mantissa or more, numpy's `longdouble`) are good to 0.001 units in the
last place of a double, so they find the worst candidates among millions, and mpmath then confirms
those. Where `longdouble` is no wider than a double, `HAS_EXTENDED` is false.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np
import numpy.typing as npt
from mpmath import mp, mpf

Floats = npt.NDArray[np.float64]
Extended = npt.NDArray[np.longdouble]

HAS_EXTENDED = bool(np.finfo(np.longdouble).nmant >= 63)
MP_BITS = 200
ANGLE_MAX = 2.0**27
FAMILIES = ("dense", "exponents", "powers of two", "multiples of pi/2", "near 1", "edges")


class Function(NamedTuple):
    """One function: its references, its domain and where it is hard.

    dense      interval of the points spread evenly
    exponents  binary exponents of the points spread over magnitudes
    edges      points next to which the result overflows, underflows or changes its formula
    domain     where there is a result; points beyond it are folded back into it
    """

    name: str
    limit_ulp: float
    exact: Callable[..., mpf]
    extended: Callable[..., Extended]
    dense: tuple[float, float]
    exponents: tuple[int, int]
    edges: tuple[float, ...]
    domain: tuple[float, float] = (-np.inf, np.inf)
    arguments: int = 1


@functools.cache
def _erfcx_table() -> tuple[Extended, float]:
    """Taylor coefficients of exp(x^2) erfc(x) about the middles of cells of 1/16 up to 28."""
    cell, terms = 1 / 16, 14
    rows = []
    for i in range(int(28 / cell)):
        x = (mpf(i) + 0.5) * cell
        row = [mp.exp(x * x) * mp.erfc(x)]
        row.append(2 * x * row[0] - 2 / mp.sqrt(mp.pi))
        for n in range(1, terms - 1):
            row.append((2 * x * row[n] + 2 * row[n - 1]) / (n + 1))
        rows.append([np.longdouble(float(c)) + np.longdouble(float(c - float(c))) for c in row])
    return np.array(rows, dtype=np.longdouble), cell


def extended_erfc(x: Extended) -> Extended:
    """erfc to 61 bits, from exp(x^2) erfc(x) by Taylor and exp(-x^2) with an exact square."""
    with mp.workprec(300):
        table, cell = _erfcx_table()
    a = np.minimum(np.abs(x), np.longdouble(27.99))
    index = (a / cell).astype(np.int64)
    h = a - (index + np.longdouble(0.5)) * cell
    scaled = table[index, -1]
    for n in range(table.shape[1] - 2, -1, -1):
        scaled = scaled * h + table[index, n]
    coarse = a.astype(np.float32).astype(np.longdouble)
    y = scaled * np.exp(-coarse * coarse) * np.exp(-(a - coarse) * (a + coarse))
    return np.where(x < 0, 2 - y, y)


def extended_erf(x: Extended) -> Extended:
    """erf to 61 bits: its series below 3/4, 1 - erfc above."""
    z = np.minimum(x * x, 1)
    total, term = np.ones_like(x), np.ones_like(x)
    for n in range(1, 28):
        term = term * -z / n
        total += term / (2 * n + 1)
    with mp.workprec(300):
        slope = 2 / mp.sqrt(mp.pi)
        factor = np.longdouble(float(slope)) + np.longdouble(float(slope - float(slope)))
    far = np.sign(x) * (1 - extended_erfc(np.abs(x)))
    return np.where(np.abs(x) < 0.75, x * total * factor, far)


def _bounded(f: Callable[[Extended], Extended]) -> Callable[[Extended], Extended]:
    return lambda x: np.where(np.abs(x) <= ANGLE_MAX, f(x), np.nan)


def _times(factor: Callable[[], mpf]) -> Callable[[Extended], Extended]:
    with mp.workprec(300):
        value = factor()
        wide = np.longdouble(float(value)) + np.longdouble(float(value - float(value)))
    return lambda x: x * wide


POSITIVE, UNIT = (0.0, np.inf), (-1.0, 1.0)
ANGLES = (-ANGLE_MAX, ANGLE_MAX)
TINY, HUGE = -1074, 1023
EXP_EDGES = (709.782712893384, -708.3964185322641, -745.1332191019412, 0.34657359027997264)
LOG_EDGES = (5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 2.0**0.5, 0.5**0.5)
ANGLE_EDGES = (ANGLE_MAX, -ANGLE_MAX, 0.7853981633974483, 2.3561944901923448)
UNIT_EDGES = (1.0, -1.0, 0.5, -0.5)
ALL_EDGES = (5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308)

FUNCTIONS = [
    Function("exp", 1, mpmath.exp, np.exp, (-745, 710), (-60, 9), EXP_EDGES),
    Function("exp2", 1, lambda x: mpf(2) ** x, np.exp2, (-1075, 1024), (-60, 9),
             (1024.0, -1022.0, -1074.0, 0.5)),
    Function("expm1", 1, mpmath.expm1, np.expm1, (-40, 710), (TINY, 9), (*EXP_EDGES, -37.0)),
    Function("log", 1, mpmath.log, np.log, (0, 100), (TINY, HUGE), LOG_EDGES, domain=POSITIVE),
    Function("log2", 1, lambda x: mpmath.log(x) / mpmath.log(2), np.log2, (0, 100),
             (TINY, HUGE), LOG_EDGES, domain=POSITIVE),
    Function("log10", 1, mpmath.log10, np.log10, (0, 100), (TINY, HUGE), LOG_EDGES,
             domain=POSITIVE),
    Function("log1p", 1, mpmath.log1p, np.log1p, (-1, 10), (TINY, HUGE),
             (*LOG_EDGES, -1.0, 2.0**0.5 - 1, 0.5**0.5 - 1), domain=(-1.0, np.inf)),
    Function("pow", 1, mpmath.power, np.power, (0, 10), (TINY, HUGE), LOG_EDGES,
             domain=POSITIVE, arguments=2),
    Function("cbrt", 1, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), np.cbrt, (-100, 100),
             (TINY, HUGE), ALL_EDGES),
    Function("hypot", 1, mpmath.hypot, np.hypot, (-100, 100), (TINY, HUGE), ALL_EDGES,
             arguments=2),
    Function("sin", 1, mpmath.sin, _bounded(np.sin), (-100, 100), (TINY, 26), ANGLE_EDGES,
             domain=ANGLES),
    Function("cos", 1, mpmath.cos, _bounded(np.cos), (-100, 100), (TINY, 26), ANGLE_EDGES,
             domain=ANGLES),
    Function("tan", 2, mpmath.tan, _bounded(np.tan), (-100, 100), (TINY, 26), ANGLE_EDGES,
             domain=ANGLES),
    Function("asin", 2, mpmath.asin, np.arcsin, (-1, 1), (TINY, -1), UNIT_EDGES, domain=UNIT),
    Function("acos", 2, mpmath.acos, np.arccos, (-1, 1), (TINY, -1), UNIT_EDGES, domain=UNIT),
    Function("atan", 2, mpmath.atan, np.arctan, (-10, 10), (TINY, HUGE),
             (*ALL_EDGES, 2.0**0.5 - 1, 1.0)),
    Function("atan2", 2, mpmath.atan2, np.arctan2, (-100, 100), (TINY, HUGE), ALL_EDGES,
             arguments=2),
    Function("sinh", 2, mpmath.sinh, np.sinh, (-710, 710), (TINY, 9),
             (710.4758600739439, -710.4758600739439, 1.0, 0.34657359027997264)),
    Function("cosh", 2, mpmath.cosh, np.cosh, (-710, 710), (-60, 9),
             (710.4758600739439, -710.4758600739439, 0.34657359027997264)),
    Function("tanh", 2, mpmath.tanh, np.tanh, (-20, 20), (TINY, 9), (22.0, 19.0, 0.17328679513)),
    Function("erf", 1, mpmath.erf, extended_erf, (-6, 6), (TINY, 5), (0.65, -0.65, 5.9, 6.5)),
    Function("erfc", 2, mpmath.erfc, extended_erfc, (-6, 27.3), (-60, 4),
             (26.5432, 27.2260, -0.65, 0.65)),
    Function("degrees", 1, lambda x: x * 180 / mp.pi, _times(lambda: 180 / mp.pi), (-10, 10),
             (TINY, HUGE), (*ALL_EDGES, 3.1375664143845866e306)),
    Function("radians", 1, lambda x: x * mp.pi / 180, _times(lambda: mp.pi / 180), (-720, 720),
             (TINY, HUGE), ALL_EDGES),
]


def points(function: Function, family: str, count: int, seed: int = 1) -> tuple[Floats, ...]:
    """`count` arguments of `function` of one of FAMILIES, the same for the same seed."""
    rng = np.random.default_rng([seed, FAMILIES.index(family), len(function.name)])
    x = _fold(_family(rng, function, family, count), *function.domain)
    if function.arguments == 1:
        return (x,)
    if function.name == "pow":
        return x, _power_exponents(rng, x, family)
    ratio = np.ldexp(rng.uniform(0.5, 1, count), rng.integers(-60, 60, count))
    with np.errstate(over="ignore", under="ignore"):
        second = np.clip(x * ratio, -1.7e308, 1.7e308)
    return x, np.where(rng.random(count) < 0.5, second, rng.permutation(x))


def _family(rng: np.random.Generator, function: Function, family: str, count: int) -> Floats:
    lo, hi = function.exponents
    signs = rng.choice([-1.0, 1.0], count)
    if family == "dense":
        return rng.uniform(*function.dense, count)
    if family == "exponents":
        return signs * np.ldexp(rng.uniform(1, 2, count), rng.integers(lo, hi + 1, count))
    if family == "powers of two":
        power = np.ldexp(1.0, rng.integers(max(lo, -1022), hi + 1, count))
        return signs * _beside(power, rng.integers(-1000, 1001, count))
    if family == "multiples of pi/2":
        k = np.floor(np.exp2(rng.uniform(0, min(max(hi, 8), 26), count)))
        near = (k.astype(np.longdouble) * (np.longdouble(2) * np.arctan(np.longdouble(1))))
        return signs * _beside(near.astype(np.float64), rng.integers(-3, 4, count))
    if family == "near 1":
        return 1 + signs * np.exp2(rng.uniform(-54, -0.01, count))
    edge = rng.choice(function.edges, count)
    with np.errstate(over="ignore", under="ignore"):
        near = edge * (1 + signs * np.exp2(rng.uniform(-54, -4, count)))
    return np.where(np.isfinite(near), near, edge)


def _fold(x: Floats, lo: float, hi: float) -> Floats:
    """`x` with what lies beyond lo..hi mirrored or halved, as often as needed, into it."""
    x = np.where(x < lo, np.abs(x), x)
    excess = np.ceil(np.log2(np.maximum(x, hi) / hi)) if np.isfinite(hi) else np.zeros(len(x))
    return np.ldexp(x, -excess.astype(np.int64))


def _beside(x: Floats, steps: npt.NDArray[np.int64]) -> Floats:
    """The doubles `steps` places above each positive normal x."""
    return (x.view(np.int64) + steps).view(np.float64)


def _power_exponents(rng: np.random.Generator, x: Floats, family: str) -> Floats:
    """Exponents y for which x^y spreads over the floats, or lies at the ends of their range."""
    target = rng.uniform(-745, 710, len(x))
    if family == "dense":
        return rng.uniform(-30, 30, len(x))
    if family == "edges":
        edge = rng.choice([709.782712893384, -708.3964185322641, -745.1332191019412], len(x))
        target = edge * (1 + rng.uniform(-1, 1, len(x)) * 2.0 ** -rng.uniform(4, 54, len(x)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        y = target / np.log(x)
    return np.where(np.isfinite(y), y, target)


def ulp_errors(got: Floats, want: Extended) -> Floats:
    """|got - want| in units in the last place of the double next to `want`.

    An overflow counts as the first number beyond the largest float. nan against nan is 0, against
    anything else infinite.
    """
    top = np.longdouble(2) ** 1024
    wide = np.clip(got.astype(np.longdouble), -top, top)
    want = np.clip(want, -top, top)
    _, exponent = np.frexp(np.abs(want))
    exponent = np.clip(exponent.astype(np.int64), -1021, 1024) - 53
    error = np.ldexp(np.abs(wide - want), -exponent).astype(np.float64)
    error[np.isnan(got) & np.isnan(want)] = 0
    return np.where(np.isnan(error), np.inf, error)


def exact_ulp_error(function: Function, arguments: tuple[float, ...], got: float) -> float:
    """The error of `got` in units in the last place, by mpmath at MP_BITS bits."""
    with mp.workprec(MP_BITS):
        want = function.exact(*(mpf(x) for x in arguments))
        missing = isinstance(want, mpmath.mpc) or mpmath.isnan(want)
        if missing or np.isnan(got):
            return 0.0 if missing and np.isnan(got) else np.inf
        top = mpf(2) ** 1024
        value = mpf(got) if np.isfinite(got) else mpmath.sign(got) * top
        want = max(min(want, top), -top)
        exponent = min(max(mp.frexp(want)[1], -1021), 1024) - 53
        return float(abs(value - want) / mpf(2) ** exponent)
