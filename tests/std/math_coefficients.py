"""Derives every constant and polynomial of std/{explog,trig,gauss}.qdsl, and writes them there.

    python -m tests.std.math_coefficients            compare the files with a fresh derivation
    python -m tests.std.math_coefficients --write    replace the blocks in the files

Each polynomial interpolates its function at the Chebyshev nodes of the interval, which is within
a small factor of the best approximation and, unlike an exchange iteration, has one solution. All
is computed with 300 bits, so the doubles depend neither on the machine nor on mpmath's version.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from mpmath import mp, mpf

STD = Path(__file__).parents[2] / "quantdsl" / "std"
BEGIN = "# Derived by tests/std/math_coefficients.py; do not edit between here and the next rule."
END = "# " + "-" * 96
BITS = 300

Real = mpf


def interpolate(f: Callable[[Real], Real], lo: Real, hi: Real, count: int) -> list[Real]:
    """The `count` coefficients, constant term first, of the Chebyshev interpolant of f."""
    mid, half = (mpf(lo) + hi) / 2, (mpf(hi) - lo) / 2
    nodes = [mid + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    powers = mp.matrix([[x**j for j in range(count)] for x in nodes])
    return list(mp.lu_solve(powers, mp.matrix([f(x) for x in nodes])))


def taylor_tail(term: Callable[[int], Real]) -> Callable[[Real], Real]:
    """The function sum(term(n) * x^n), summed until the terms vanish in the working precision."""

    def f(x: Real) -> Real:
        total, power, n = mpf(0), mpf(1), 0
        while n < 8 or abs(power) > mpf(2) ** -mp.prec:
            total += term(n) * power
            power *= x
            n += 1
        return total

    return f


def pair(value: Real, bits: int = 53) -> tuple[float, float]:
    """`value` as a sum hi + lo; hi has at most `bits` significant bits."""
    with mp.workprec(bits):
        hi = +value
    return float(hi), float(value - hi)


def towards_zero(value: Real) -> tuple[float, float]:
    """`value` > 0 as hi + lo with lo >= 0."""
    hi = float(value)
    if mpf(hi) > value:
        hi = float(mpf(hi) - mpf(2) ** (mp.frexp(value)[1] - 53))
    return hi, float(value - mpf(hi))


Constants = dict[str, float | list[float]]


def split(name: str, value: Real, bits: int = 53) -> Constants:
    hi, lo = pair(value, bits)
    return {f"{name}_HI": hi, f"{name}_LO": lo}


def polynomial(name: str, coefficients: list[Real], exact: int = 0) -> Constants:
    """The table `name`; of the first `exact` coefficients the low halves too, as `name`_LO."""
    out: Constants = {name: [float(c) for c in coefficients]}
    if exact:
        out[f"{name}_LO"] = [pair(c)[1] for c in coefficients[:exact]]
    return out


def exp_constants() -> Constants:
    ln2, r_max = mp.log(2), mp.log(2) / 2
    s2_max = (2 * (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2
    exp_tail = taylor_tail(lambda n: 1 / mp.factorial(n + 3))
    # log((2 + s) / (2 - s)) = s + s^3 * LOG(s^2)
    log_tail = taylor_tail(lambda n: 1 / (mpf(2 * n + 3) * mpf(4) ** (n + 1)))
    sinh_tail = taylor_tail(lambda n: 1 / mp.factorial(2 * n + 3))
    return {
        "LOG2_E": float(1 / ln2),
        **split("LN2", ln2),
        # 42 bits: a product with any exponent of a double is exact.
        **split("LN2_SHORT", ln2, 42),
        **split("LOG10_2_SHORT", mp.log(2, 10), 42),
        **split("INV_LN2", 1 / ln2),
        **split("INV_LN10", 1 / mp.log(10)),
        **polynomial("EXP", interpolate(exp_tail, -r_max, r_max, 10)),
        **polynomial("LOG", interpolate(log_tail, mpf(0), s2_max, 9), exact=2),
        **polynomial("SINH", interpolate(sinh_tail, mpf(0), mpf(1), 8)),
    }


def trig_constants() -> Constants:
    half_pi = mp.pi / 2
    first = float(half_pi)
    second, third = pair(half_pi - first)
    z_max = (mp.pi / 4) ** 2
    sin_tail = taylor_tail(lambda n: (-1) ** (n + 1) / mp.factorial(2 * n + 3))
    cos_tail = taylor_tail(lambda n: mpf(-1) ** n / mp.factorial(2 * n + 4))
    atan_tail = taylor_tail(lambda n: mpf(-1) ** (n + 1) / (2 * n + 3))
    asin_tail = taylor_tail(
        lambda n: mp.binomial(2 * n + 2, n + 1) / mpf(4) ** (n + 1) / (2 * n + 3)
    )
    degree_hi, degree_lo = towards_zero(180 / mp.pi)
    radian_hi, radian_lo = towards_zero(mp.pi / 180)
    return {
        "TWO_OVER_PI": float(2 / mp.pi),
        "HALF_PI_1": first,
        "HALF_PI_2": second,
        "HALF_PI_3": third,
        **split("QUARTER_PI", mp.pi / 4),
        **split("PI", mp.pi),
        **polynomial("SIN", interpolate(sin_tail, mpf(0), z_max, 7)),
        **polynomial("COS", interpolate(cos_tail, mpf(0), z_max, 6)),
        **polynomial("ATAN", interpolate(atan_tail, mpf(0), (mp.sqrt(2) - 1) ** 2, 12)),
        **polynomial("ASIN", interpolate(asin_tail, mpf(0), mpf(1) / 4, 14)),
        "DEGREE_HI": degree_hi,
        "DEGREE_LO": degree_lo,
        "RADIAN_HI": radian_hi,
        "RADIAN_LO": radian_lo,
    }


def erf_constants() -> Constants:
    slope, near = 2 / mp.sqrt(mp.pi), mpf("0.65")

    def erfc_scaled(t: Real) -> Real:
        """(1 + 2x) exp(x^2) erfc(x) at t = (x - 4) / (x + 4)."""
        x = 4 * (1 + t) / (1 - t)
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)

    erf_tail = taylor_tail(
        lambda n: slope * (-1) ** (n + 1) / (mp.factorial(n + 1) * (2 * n + 3))
    )
    return {
        **split("SLOPE", slope),
        **polynomial("ERF", interpolate(erf_tail, mpf(0), mpf("0.4225"), 10)),
        **polynomial("ERFC", interpolate(erfc_scaled, (near - 4) / (near + 4), mpf(24) / 32, 22)),
    }


def cbrt_constants() -> Constants:
    """A first guess of m^(-1/3) for m of [0.7, 5.66)."""
    guess = interpolate(lambda m: mp.cbrt(1 / m), mpf("0.7"), mpf("5.66"), 7)
    return polynomial("CBRT", guess)


DERIVATIONS: dict[str, Callable[[], Constants]] = {
    "explog.qdsl": lambda: {**exp_constants(), **cbrt_constants()},
    "trig.qdsl": trig_constants,
    "gauss.qdsl": erf_constants,
}


def render(constants: Constants) -> str:
    """The block of QuantDSL text; `repr` of a double reads back as the same double."""
    lines = [BEGIN]
    for name, value in constants.items():
        if isinstance(value, float):
            lines.append(f"const {name} = {value!r}")
            continue
        lines.append(f"const {name} = [")
        lines.append(",\n".join(f"    {v!r}" for v in value))
        lines.append("]")
    return "\n".join([*lines, END]) + "\n"


def derived_text(name: str) -> tuple[str, str]:
    """The text of the std file `name` as it is, and with its block derived anew."""
    text = (STD / name).read_text(encoding="utf-8")
    start, stop = text.index(BEGIN), text.index(END + "\n") + len(END) + 1
    with mp.workprec(BITS):
        block = render(DERIVATIONS[name]())
    return text, text[:start] + block + text[stop:]


def main(arguments: list[str]) -> int:
    stale = 0
    for name in DERIVATIONS:
        old, new = derived_text(name)
        if old != new and "--write" in arguments:
            (STD / name).write_text(new, encoding="utf-8")
        elif old != new:
            stale += 1
            sys.stderr.write(f"{name}: the constants differ from their derivation\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
