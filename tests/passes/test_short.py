"""Quotients and roots without a branch: the rounded ones of all numbers that fit."""

import numpy as np
import pytest

from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Assign, Binary, Call, Elem, For, Let, Unary, Var, i64
from quantdsl.passes.divide import fits
from quantdsl.passes.short import INVERSE, INVERSE_ROOT, QUOTIENT, ROOT, SHORT

K, OWN = Var("k"), Var("own")
RANDOM = np.random.default_rng(11)
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -2.2e-308, 1e-271, 1.7e308, -1e300, 1.0]
ONES = [2.0 - 2.0**-52, 1.0 + 2.0**-52, 1.0 - 2.0**-53]
BITS = 20
"""Of an approximation on a GPU."""


def rough(func: ops.Func) -> ops.Func:
    """An approximation with the upper bits alone, and a last one, as on a GPU."""
    (stmt,) = func.body
    assert isinstance(stmt, ops.Return)
    assert stmt.value is not None
    whole = Binary("iand", Unary("bits", stmt.value), i64(-1 << (52 - BITS)))
    near = Unary("from_bits", Binary("ior", whole, i64(1)))
    return ops.Func(func.name, func.params, func.result, (ops.Return(near),))


BOTH = Binary("and", fits(Var("x")), fits(Var("y")))


def module(value: ops.Expr, sure: ops.Expr, *, exact: bool) -> ops.Module:
    """own[3 k] and own[3 k + 1] -> what is found at 3 k + 2, and whether it is right at 3 k."""
    word = [Elem(OWN, Binary("iadd", Binary("imul", K, i64(3)), i64(at))) for at in range(3)]
    lets = (Let(name, ops.F64_T, Unary("from_bits", word[at])) for at, name in enumerate("xy"))
    body = (
        *lets,
        Let("q", ops.F64_T, value),
        Assign(word[2], Unary("bits", Var("q"))),
        Assign(word[0], Unary("bool_to_i64", sure)),
    )
    params = (ops.ParamDecl("own", ops.BufferType(ops.I64_T), True), ops.ParamDecl("n", ops.I64_T))
    lane = ops.Func("lane", params, None, (For("k", i64(0), Var("n"), body),))
    near = (INVERSE, INVERSE_ROOT)
    funcs = (rough(one) if one.name in near and not exact else one for one in SHORT)
    return ops.Module((), (), (*funcs, lane), ("lane",))


def found(made: ops.Module, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The results, and which of them are said to be right."""
    words = np.zeros((len(x), 3), np.float64)
    words[:, 0], words[:, 1] = x, y
    flat = words.reshape(-1).view(np.int64)
    Interpreter(made).call("lane", flat, len(x))
    return words[:, 2], flat[::3] == 1


def numbers(count: int) -> np.ndarray:
    """Of every size, of usual ones, whole ones, and at the edges."""
    plain = RANDOM.integers(-(2**63), 2**63, count).view(np.float64)
    usual = RANDOM.normal(0.0, 1.0, count) * 10.0 ** RANDOM.integers(-12, 12, count)
    edges = RANDOM.choice([*EDGES, *ONES], count)
    return RANDOM.permuted(np.concatenate([plain, usual, RANDOM.integers(1, 200, count), edges]))


@pytest.mark.parametrize("exact", [True, False], ids=["an exact start", "a rough start"])
def test_quotients(exact: bool) -> None:
    """Among them such that lie beside the middle of two floats."""
    x, y = numbers(1_500), numbers(1_500)
    with np.errstate(all="ignore"):
        near = x[:2_000] * y[:2_000]
        middle = near + (np.nextafter(x, np.inf)[:2_000] - x[:2_000]) / 2 * y[:2_000]
    x, y = np.concatenate([x, near, middle]), np.concatenate([y, y[:2_000], y[:2_000]])
    pair = (Var("x"), Var("y"))
    made = module(Call(QUOTIENT, pair), BOTH, exact=exact)
    result, sure = found(made, x, y)
    with np.errstate(all="ignore"):
        expected = x / y
    assert np.array_equal(result[sure], expected[sure], equal_nan=True)
    usual = (np.abs(x) > 1e-120) & (np.abs(x) < 1e120) & (np.abs(y) > 1e-120) & (np.abs(y) < 1e120)
    missing = np.isnan(x) | np.isnan(y)
    assert sure[usual | (np.isnan(x) & np.isnan(y))].all()
    assert not sure[~missing & (~np.isfinite(expected) | (expected == 0))].any()


@pytest.mark.parametrize("exact", [True, False], ids=["an exact start", "a rough start"])
def test_roots(exact: bool) -> None:
    x = numbers(2_000)
    made = module(Call(ROOT, (Var("x"),)), fits(Var("x")), exact=exact)
    squares = np.concatenate([x, x[np.abs(x) < 1e100] ** 2])
    result, sure = found(made, squares, squares)
    with np.errstate(all="ignore"):
        expected = np.sqrt(squares)
    assert np.array_equal(result[sure], expected[sure], equal_nan=True)
    assert sure[((squares > 1e-120) & (squares < 1e120)) | np.isnan(squares)].all()
    assert not sure[(expected == 0) | np.isinf(squares)].any()


def test_a_step_that_is_left_out_is_seen() -> None:
    """Without the correction some quotients are not the rounded ones."""
    x, y = Var("x"), Var("y")
    first = Binary("fmul", x, Call(INVERSE, (y,)))
    made = module(first, BOTH, exact=True)
    a, b = numbers(500), numbers(500)
    result, sure = found(made, a, b)
    with np.errstate(all="ignore"):
        assert not np.array_equal(result[sure], (a / b)[sure])
