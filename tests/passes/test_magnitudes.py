"""How large numbers of a line can be at most: no number is larger, and none is missing."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Binary, Expr, Fma, Return, Select, Unary, Var, f64
from quantdsl.passes.magnitudes import COUNT, MOST, UNIT, Magnitudes

COUNTED, UNIT_OF = Var("n"), Var("unit")
PARAMS = (ops.ParamDecl("n", ops.I64_T), ops.ParamDecl("unit", ops.F64_T))
USUAL = (Unary("i64_to_f64", COUNTED), UNIT_OF, f64(0.1), f64(-7.0), f64(1.0), f64(0.0))
LEAVES = (*USUAL, f64(1e300), f64(1e-300), f64(5e-324), f64(math.inf), f64(math.nan))
EXTREMES = (-(2**63), 2**63 - 1, -1, 0, 1, 10**6)
UNITS = (1.0, 100.0, 2.0**UNIT - 1)


def tree(random: np.random.Generator, depth: int, leaves: Sequence[Expr]) -> Expr:
    """Some number that is formed of counts, units and literals."""
    if not depth:
        return leaves[random.integers(len(leaves))]
    x, y, z = (tree(random, depth - 1, leaves) for _ in range(3))
    made: list[Expr] = [
        Binary("fadd", x, y), Binary("fsub", x, y), Binary("fmul", x, y), Binary("fmax", x, y),
        Binary("fmin", x, y), Fma(x, y, z), Unary("fneg", x), Unary("fabs", x),
        Select(Binary("flt", x, y), y, z),
    ]  # fmt: skip
    return made[random.integers(len(made))]


def value(expr: Expr, counted: int, unit: float) -> float:
    func = ops.Func("value", PARAMS, ops.F64_T, (Return(expr),))
    found = Interpreter(ops.Module((), (), (func,), ("value",))).call("value", counted, unit)
    assert isinstance(found, float)
    return found


@pytest.mark.parametrize("leaves", [USUAL, LEAVES], ids=["usual numbers", "any numbers"])
def test_no_number_is_larger(leaves: Sequence[Expr]) -> None:
    """Nor missing; also where what it is formed of would overflow on the way."""
    random = np.random.default_rng(5)
    sizes = Magnitudes({UNIT_OF.name: UNIT})
    known = reached = 0
    for _ in range(400):
        expr = tree(random, int(random.integers(1, 4)), leaves)
        most = sizes.most(expr)
        if most is None:
            assert sizes.answer(Unary("isnan", expr)) is None
            continue
        found = [value(expr, n, unit) for n in EXTREMES for unit in UNITS]
        assert all(abs(one) <= 2.0**most for one in found), expr
        known += 1
        reached += max(map(abs, found)) > 2.0 ** (most - 3)
    assert known > reached > 40  # they say something


@pytest.mark.parametrize(("x", "y", "most"), [
    (LEAVES[0], LEAVES[0], COUNT),
    (LEAVES[0], f64(3.0), COUNT + 400),
    (Var("a"), LEAVES[0], None),
    (LEAVES[0], Var("a"), None),
])  # fmt: skip
def test_quotients_of_numbers_that_fit(x: Expr, y: Expr, most: int | None) -> None:
    """A whole number that fits is not 0; of others all is known that is asked of them."""
    assert Magnitudes({}).quotient(x, y) == most


def test_what_rounds_to_single_may_be_infinite() -> None:
    counted = LEAVES[0]
    assert Magnitudes({}).most(Fma(counted, counted, counted, single=True)) is None
    assert Magnitudes({}).most(Fma(counted, counted, counted)) == 2 * COUNT + 1


def test_questions_that_have_one_answer() -> None:
    sizes = Magnitudes({})
    sizes.assign("price", 228)
    sizes.assign("ratio", None)
    price, ratio, largest = Unary("fabs", Var("price")), Unary("fabs", Var("ratio")), f64(1e100)
    assert sizes.answer(Binary("fle", price, largest)) is True
    assert sizes.answer(Binary("flt", largest, price)) is False
    assert sizes.answer(Binary("flt", price, f64(math.inf))) is True
    assert sizes.answer(Unary("isnan", Var("price"))) is False
    for asked in (
        Binary("fle", price, f64(1e60)),
        Binary("fle", ratio, largest),
        Unary("isnan", Var("ratio")),
        Binary("fle", largest, price),
        Binary("flt", Var("price"), largest),
    ):
        assert sizes.answer(asked) is None
    sizes.assign("price", MOST + 1)
    assert sizes.answer(Unary("isnan", Var("price"))) is None
