"""Division by a reciprocal: the bits of division, whatever is divided by what."""

import numpy as np
import pytest

from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Assign, Binary, Elem, Expr, Field, For, Let, Stmt, Unary, Var, f64, i64
from quantdsl.ir.walk import expressions, statements
from quantdsl.passes.divide import divide_by_reciprocals

S, K, OWN, STEADY = Var("s"), Var("k"), Var("own"), Var("d@s")
STATE = ops.StructDecl("State", (ops.FieldDecl("d", ops.F64_T),))
PARAMS = (
    ops.ParamDecl("s", ops.StructType("State"), inout=True),
    ops.ParamDecl("own", ops.BufferType(ops.I64_T), inout=True),
    ops.ParamDecl("n", ops.I64_T),
)
RANDOM = np.random.default_rng(5)
LEFT_OUT = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -2.2e-308, 1e-200, 1.7e308, -1e200]


def module(divisor: Expr, *more: ops.Stmt) -> ops.Module:
    """Each word of a column over a divisor."""
    word = Elem(OWN, K)
    quotient = Unary("bits", Binary("fdiv", Unary("from_bits", word), divisor))
    loop = For("k", i64(0), Var("n"), (Assign(word, quotient), *more))
    body = (Let(STEADY.name, ops.F64_T, Field(S, "d")), loop)
    return ops.Module((STATE,), (), (ops.Func("lane", PARAMS, None, body),), ("lane",))


def dividends(divisor: float) -> np.ndarray:
    """Of every size, and such that quotients lie near the middle between two floats."""
    plain = RANDOM.integers(-(2**63), 2**63, 2_000).view(np.float64)
    usual = RANDOM.normal(0.0, 1.0, 2_000) * 10.0 ** RANDOM.integers(-12, 12, 2_000)
    with np.errstate(all="ignore"):
        near = usual * divisor
        middle = near + (np.nextafter(usual, np.inf) - usual) / 2.0 * divisor
    beside = [np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    return np.concatenate([LEFT_OUT, plain, usual, near, middle, *beside])


@pytest.mark.parametrize("divisor", [
    20.0, 19.0, 60.0, 3.0, -7.0, 0.1, 100.0, 1.0 + 2.0**-52, 2.0 - 2.0**-52, 1e6,
    *LEFT_OUT, 3e-121, 2.6e120,
])  # fmt: skip
def test_the_bits_of_division(divisor: float) -> None:
    values = dividends(divisor)
    with np.errstate(all="ignore"):
        expected = values / divisor
    for by in (STEADY, ops.f64(divisor)):
        made = divide_by_reciprocals(module(by), "lane")
        found = values.view(np.int64).copy()
        Interpreter(made).call("lane", np.array([divisor]).view(np.int64), found, len(found))
        missing = np.isnan(expected)
        assert np.array_equal(np.isnan(found.view(np.float64)), missing)
        same = found == expected.view(np.int64)
        assert (same | missing).all(), values[~(same | missing)][:3]


def test_what_changes_is_divided_by() -> None:
    """A divisor that a turn changes, or that is none of the state's words."""
    changes = module(STEADY, Assign(STEADY, Unary("i64_to_f64", K)))
    assert divide_by_reciprocals(changes, "lane") == changes
    turns = module(Unary("i64_to_f64", K))
    assert divide_by_reciprocals(turns, "lane") == turns


TICK = [Var("b.tick_num@s"), Var("b.tick_den@s")]
BAR = ops.StructDecl(
    "Bar", tuple(ops.FieldDecl(name, ops.F64_T, unit=True) for name in ("tick_num", "tick_den"))
)


def counted() -> ops.Module:
    """Each word of a column as a count of ticks."""
    state = ops.StructDecl("State", (ops.FieldDecl("b", ops.StructType("Bar")),))
    units = [
        Let(one.name, ops.F64_T, Field(Field(S, "b"), field.name))
        for one, field in zip(TICK, BAR.fields, strict=True)
    ]
    word = Elem(OWN, K)
    scaled = Binary("fmul", Unary("i64_to_f64", word), TICK[0])
    price = Assign(word, Unary("bits", Binary("fdiv", scaled, TICK[1])))
    body: tuple[Stmt, ...] = (*units, For("k", i64(0), Var("n"), (price,)))
    return ops.Module((BAR, state), (), (ops.Func("lane", PARAMS, None, body),), ("lane",))


@pytest.mark.parametrize("tick", [
    (1, 1), (1, 100), (3, 7), (25, 10**6), (1, 2**53 - 1), (2**53 - 1, 1), (2**53 - 1, 2**53 - 3),
])  # fmt: skip
def test_counts_are_divided_without_a_question(tick: tuple[int, int]) -> None:
    """Units are whole numbers above 0, so quotients are 0 or of usual size."""
    counts = np.concatenate([
        [0, 1, -1, 2**53, -(2**53) - 1, 2**63 - 1, -(2**63)],
        RANDOM.integers(-(2**63), 2**63, 2_000), RANDOM.integers(-(10**7), 10**7, 2_000),
    ]).astype(np.int64)  # fmt: skip
    made = divide_by_reciprocals(counted(), "lane")
    assert not any(isinstance(stmt, ops.If) for stmt in statements(made.funcs[0].body))
    units, found = np.array(tick, np.float64), counts.copy()
    Interpreter(made).call("lane", units.view(np.int64), found, len(found))
    expected = counts.astype(np.float64) * units[0] / units[1]
    assert np.array_equal(found, expected.view(np.int64))


def test_a_quotient_is_found_once_while_it_stays() -> None:
    """Three times the same, the last time of something else."""
    x = Var("x")
    third = Binary("fdiv", x, f64(3.0))
    own = [Assign(Elem(OWN, Binary("iadd", K, i64(n))), Unary("bits", third)) for n in range(3)]
    change = Assign(x, Binary("fadd", x, f64(1.0)))
    begin = Let("x", ops.F64_T, Unary("i64_to_f64", K))
    loop = For("k", i64(0), Var("n"), (begin, own[0], own[1], change, own[2]))
    old = ops.Module((STATE,), (), (ops.Func("lane", PARAMS, None, (loop,)),), ("lane",))
    made = divide_by_reciprocals(old, "lane")
    lets = [s.name for s in statements(made.funcs[0].body) if isinstance(s, Let)]
    assert [n for n in lets if n.startswith("quotient.") and n.count(".") == 1] == [
        "quotient.1", "quotient.2",
    ]  # fmt: skip
    left = []
    for one in (old, made):
        words = np.zeros(12, np.int64)
        Interpreter(one).call("lane", np.zeros(1, np.int64), words, 10)
        left.append(words.tobytes())
    assert left[0] == left[1]


def test_one_reciprocal_a_divisor() -> None:
    """It is found before the loop."""
    again = Assign(Elem(OWN, i64(0)), Unary("bits", Binary("fdiv", ops.f64(2.0), STEADY)))
    word = Binary("fdiv", Unary("from_bits", Elem(OWN, K)), STEADY)
    made = divide_by_reciprocals(module(STEADY, again, Assign(Elem(OWN, K), Unary("bits", word))),
                                 "lane")  # fmt: skip
    first, reciprocal, loop = made.funcs[0].body
    assert isinstance(reciprocal, Let)
    assert reciprocal.value == Binary("fdiv", ops.f64(1.0), STEADY)
    inverses = [one for one in expressions((loop,)) if one == reciprocal.value]
    assert (first, inverses) == (module(STEADY).funcs[0].body[0], [])
