import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdsl.errors import InternalError
from quantdsl.ir import scalar
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import field
from quantdsl.ir.ops import (
    ArrayType,
    Assign,
    Binary,
    BufferType,
    Elem,
    Func,
    Let,
    Module,
    ParamDecl,
    Return,
    StructType,
    Unary,
    Var,
    f64_to_bits,
)
from tests.ir.samples import sample

INF, NAN = math.inf, math.nan
TINY = 5e-324
finite = st.floats(allow_nan=False, allow_infinity=False)


def unary(op, type_, result, x):
    func = Func("f", (ParamDecl("x", type_),), result, (Return(Unary(op, Var("x"))),))
    return Interpreter(Module((), (), (func,), ("f",))).call("f", x)


def binary(op, type_, result, x, y):
    params = (ParamDecl("x", type_), ParamDecl("y", type_))
    func = Func("f", params, result, (Return(Binary(op, Var("x"), Var("y"))),))
    return Interpreter(Module((), (), (func,), ("f",))).call("f", x, y)


def same(x, y):
    return f64_to_bits(x) == f64_to_bits(y)


@given(finite, finite, finite)
def test_fma_is_the_nearest_double_to_the_exact_value(x, y, z):
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    got = scalar.fma(x, y, z)
    if not math.isfinite(got):
        assert abs(exact) >= Fraction(2) ** 1024 - Fraction(2) ** 970
        return
    below, above = math.nextafter(got, -INF), math.nextafter(got, INF)
    error = abs(exact - Fraction(got))
    for other in (below, above):
        if math.isfinite(other):
            assert error <= abs(exact - Fraction(other))


@pytest.mark.parametrize(
    ("x", "y", "z", "expected"),
    [
        (0.1, 10.0, -1.0, 5.551115123125783e-17),
        (1e308, 10.0, -INF, -INF),
        (1e308, 10.0, -1e308, INF),
        (-1e308, 1e308, 0.0, -INF),
        (1e200, 1e200, NAN, NAN),
        (INF, 0.0, 1.0, NAN),
        (INF, 1.0, -INF, NAN),
        (INF, -2.0, 1.0, -INF),
        (0.0, -1.0, 0.0, 0.0),
        (0.0, -1.0, -0.0, -0.0),
        (-0.0, 1.0, -0.0, -0.0),
        (1.0, 1.0, -1.0, 0.0),
        (-1.0, 1.0, 1.0, 0.0),
        (TINY, 0.5, 0.0, 0.0),
        (-TINY, 0.5, 0.0, -0.0),
        (TINY, 0.5, TINY, 1e-323),
        (TINY, 0.25, TINY, TINY),
        (2.0**-537, 2.0**-537, 0.0, TINY),
        (2.0**-538, 2.0**-537, 0.0, 0.0),
    ],
)
def test_fma_at_the_edges(x, y, z, expected):
    assert same(scalar.fma(x, y, z), expected)


@pytest.mark.parametrize(
    ("op", "x", "expected"),
    [
        ("rint", 0.5, 0.0), ("rint", 1.5, 2.0), ("rint", 2.5, 2.0), ("rint", -0.5, -0.0),
        ("rint", 4503599627370495.5, 4503599627370496.0), ("floor", -0.5, -1.0),
        ("floor", -0.0, -0.0), ("ceil", -0.5, -0.0), ("trunc", -1.9, -1.0), ("trunc", -0.9, -0.0),
        ("sqrt", -0.0, -0.0), ("sqrt", -1.0, NAN), ("sqrt", INF, INF), ("fabs", -0.0, 0.0),
        ("fneg", 0.0, -0.0), ("floor", INF, INF), ("ceil", NAN, NAN),
    ],
)  # fmt: skip
def test_float_operations_at_the_edges(op, x, expected):
    assert same(unary(op, "f64", "f64", x), expected)


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        ("fdiv", 1.0, 0.0, INF), ("fdiv", -1.0, 0.0, -INF), ("fdiv", 1.0, -0.0, -INF),
        ("fdiv", 0.0, 0.0, NAN), ("fdiv", NAN, 0.0, NAN), ("fmin", 0.0, -0.0, -0.0),
        ("fmin", NAN, 1.0, 1.0), ("fmin", 1.0, NAN, NAN), ("fmax", -0.0, 0.0, 0.0),
        ("fmax", NAN, 1.0, 1.0), ("fmax", 1.0, NAN, NAN),
    ],
)  # fmt: skip
def test_division_minimum_and_maximum(op, x, y, expected):
    assert same(binary(op, "f64", "f64", x, y), expected)


LOW, HIGH = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("op", "x", "y", "expected"),
    [
        ("iadd", HIGH, 1, LOW), ("isub", LOW, 1, HIGH), ("imul", 2**62, 4, 0),
        ("idiv", -7, 2, -4), ("idiv", 7, -2, -4), ("idiv", 7, 0, 0), ("idiv", LOW, -1, LOW),
        ("imod", -7, 2, 1), ("imod", 7, -2, -1), ("imod", 7, 0, 0), ("imod", LOW, -1, 0),
        ("shl", 1, 63, LOW), ("shl", 1, 64, 1), ("shl", 1, -1, LOW), ("lshr", -1, 1, HIGH),
        ("lshr", -1, 64, -1), ("ashr", LOW, 63, -1), ("umulh", -1, -1, -2), ("umulh", LOW, 2, 1),
    ],
)  # fmt: skip
def test_integers_wrap_and_divide_downwards(op, x, y, expected):
    assert binary(op, "i64", "i64", x, y) == expected


@pytest.mark.parametrize(
    ("x", "expected"),
    [(NAN, 0), (INF, 0), (2.0**63, 0), (-(2.0**63), 0), (-1.9, -1), (9.2e18, 92 * 10**17)],
)
def test_conversion_truncates_and_gives_0_out_of_range(x, expected):
    assert unary("f64_to_i64", "f64", "i64", x) == expected


def test_bits_of_every_nan_are_the_same():
    odd = scalar.from_bits(-1)
    assert unary("bits", "f64", "i64", odd) == 0x7FF8000000000000
    assert unary("bits", "f64", "i64", -0.0) == LOW


def test_a_run_leaves_its_state_in_the_words():
    module = sample()
    words, xs = np.zeros(10, np.int64), np.array([1.0, math.nan, 2.0, 3.0, 4.0, 5.0, -6.0])
    assert Interpreter(module).call("run", words, xs.view(np.int64), len(xs)) == -1
    floats = words.view(np.float64)
    ring = field(module, "State", "ring.1.xs").offset_words
    assert floats[ring : ring + 4].tolist() == [5.0, -6.0, 3.0, 4.0]
    assert words[field(module, "State", "ring.1.n").offset_words] == 6
    assert floats[field(module, "State", "total").offset_words] == (1.0 + 2.0) * 0.25
    assert words[field(module, "State", "points[1].up").offset_words] == 1


def test_memory_keeps_values_between_calls():
    interpreter = Interpreter(sample())
    words = np.zeros(10, np.int64)
    memory = interpreter.memory(StructType("State"), words)
    xs = np.ones(1).view(np.int64)
    for _ in range(3):
        interpreter.call("run", memory, xs, 1)
    assert not words.any()
    memory.store()
    assert words[5] == 3
    memory.values[5] = 0  # what it was at first
    memory.store()
    assert words[5] == 0


def test_an_array_given_twice_is_one_object():
    pair = ArrayType("i64", 2)
    params = (ParamDecl("a", pair, inout=True), ParamDecl("b", pair))
    zero = Elem(Var("a"), Var("zero"))
    body = (
        Let("zero", "i64", None),
        Assign(zero, Elem(Var("b"), Unary("bool_to_i64", Binary("ieq", zero, Var("zero"))))),
        Return(Elem(Var("b"), Var("zero"))),
    )
    interpreter = Interpreter(Module((), (), (Func("f", params, "i64", body),), ("f",)))
    words = np.array([0, 7])
    assert interpreter.call("f", words, words) == 7
    assert words.tolist() == [7, 7]


@pytest.mark.parametrize("type_", [ArrayType("f64", 3), BufferType("f64")])
@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_out_of_range_is_an_internal_error(type_, index):
    params = (ParamDecl("xs", type_), ParamDecl("i", "i64"))
    func = Func("f", params, "f64", (Return(Elem(Var("xs"), Var("i"))),))
    interpreter = Interpreter(Module((), (), (func,), ("f",)))
    with pytest.raises(InternalError, match=f"f: index {index} outside 0..<3"):
        interpreter.call("f", np.zeros(3, np.int64), index)


def test_memory_of_the_wrong_shape_is_refused():
    with pytest.raises(InternalError, match=r"int64\[9\]"):
        Interpreter(sample()).call("run", np.zeros(9, np.int64), np.zeros(1, np.int64), 1)
