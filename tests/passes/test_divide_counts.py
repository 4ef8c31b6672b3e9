"""Counts over literals by one product and one correction: the bits of division."""

from fractions import Fraction

import numpy as np
import pytest

from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import (
    F64_T,
    I64_T,
    Assign,
    Binary,
    Call,
    Elem,
    Expr,
    Func,
    Let,
    Module,
    ParamDecl,
    Return,
    Unary,
    Var,
    f64,
)
from quantdsl.ir.walk import expressions
from quantdsl.passes.divide_counts import divide_counts

N, X = Var("n"), Var("x")
COUNT = Unary("i64_to_f64", N)
RANDOM = np.random.default_rng(8)
SHORT = [1e6, 1e8, 10.0, 3.0, -100.0, 15_625.0, 2.5, 1 + 2.0**-20, float(2**32 - 1), 2.0**40 * 3]


def module(*body: object) -> Module:
    return Module((), (), (Func("f", (ParamDecl("n", I64_T),), F64_T, body),), ("f",))  # type: ignore[arg-type]


def over(divisor: float) -> Module:
    return module(Let("x", F64_T, COUNT), Return(Binary("fdiv", X, f64(divisor))))


def divisions(made: Module) -> int:
    return sum(
        isinstance(expr, Binary) and expr.op == "fdiv" for expr in expressions(made.funcs[0].body)
    )


def counts(divisor: float) -> list[int]:
    """Of every size, and such that quotients lie as near a middle between floats as can be."""
    found = [0, 1, -1, 2**53, -(2**53), 2**63 - 1, -(2**63), *range(2, 40)]
    found += (RANDOM.integers(-(2**63), 2**63, 3_000) >> RANDOM.integers(0, 62, 3_000)).tolist()
    shifts = RANDOM.integers(0, 11, 4_000).tolist()
    found += [n << k if k % 2 else -n << k for n, k in zip(worst(divisor), shifts, strict=False)]
    return found


def odd_part(divisor: float) -> int:
    top, _ = abs(divisor).as_integer_ratio()
    return top // (top & -top)


def worst(divisor: float) -> list[int]:
    """Counts a of 53 bits with a * 2^j = n * m +- 1: m of 54 bits, odd, is a middle of floats.

    n is the odd part of the divisor, so a / n is 1 / (2 n) units off the middle m / 2^j.
    """
    n, found = odd_part(divisor), []
    for j in range(n.bit_length(), n.bit_length() + 4):
        for off in (1, -1):
            low = off * pow(n, -1, 2**j) % 2**j
            for high in RANDOM.integers(2**53, 2**54, 400).tolist():
                a, rest = divmod(n * ((high >> j << j) + low) - off, 2**j)
                assert rest == 0
                found += [a] * (a < 2**53)
    return found


def units_off_a_middle(x: Fraction) -> Fraction:
    """How far x > 0 is from the nearest middle between two floats, in units of the last place."""
    while x >= 2**53:
        x /= 2
    while x < 2**52:
        x *= 2
    return abs(x % 1 - Fraction(1, 2))


@pytest.mark.parametrize("divisor", SHORT)
def test_quotients_are_as_near_a_middle_as_can_be(divisor):
    least = Fraction(1, 2 * odd_part(divisor))
    found = worst(divisor)
    assert len(found) > 1_000
    assert {units_off_a_middle(n / abs(Fraction(divisor))) for n in found} == {least}


@pytest.mark.parametrize("divisor", SHORT)
def test_the_bits_of_division(divisor):
    made = divide_counts(over(divisor))
    assert divisions(made) == 0
    program = Interpreter(made)
    for n in counts(divisor):
        assert program.call("f", n).hex() == (float(n) / divisor).hex(), n


def test_a_literal_of_many_bits_or_of_one_stays_a_divisor():
    for divisor in (0.1, 1 / 3, 2.0**32 + 1, 8.0, 0.25, 0.0, float("inf"), 3 * 2.0**500):
        assert divisions(divide_counts(over(divisor))) == 1


@pytest.mark.parametrize(
    "dividend", [Var("y"), Unary("fabs", COUNT), Binary("fmul", COUNT, f64(0.5))]
)
def test_what_is_no_count_is_divided(dividend: Expr):
    made = module(
        Let("y", F64_T, COUNT), Assign(Var("y"), f64(1e-310)),
        Return(Binary("fdiv", dividend, f64(10.0))),
    )  # fmt: skip
    assert divide_counts(made) == made


def test_a_place_is_read_behind_the_call_that_is_assigned_to_it():
    """What the index divides may be what the call changes."""
    index = Unary("f64_to_i64", Binary("fdiv", COUNT, f64(10.0)))
    made = module(Assign(Elem(Var("x"), index), Call("g", (N,))), Return(f64(0.0)))
    assert divide_counts(made) == made
