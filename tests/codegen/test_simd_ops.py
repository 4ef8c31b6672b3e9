"""Each operation by itself on vectors, over all edge values: what the interpreter gives."""

import itertools
import math

import numpy as np
import pytest

from quantdsl.codegen.jit import Program, assemble, object_code
from quantdsl.codegen.lanes import InterpretedLanes
from quantdsl.codegen.simd_text import VectorText, declaration
from quantdsl.codegen.target import avx2, avx512, broad, lane_intrinsics, native, neon
from quantdsl.errors import InternalError
from quantdsl.ir.ops import (
    BINARY,
    BOOL_T,
    F64_T,
    I64_T,
    UNARY,
    Assign,
    Binary,
    BufferType,
    Const,
    Expr,
    Field,
    FieldDecl,
    Fma,
    Func,
    Module,
    ParamDecl,
    Return,
    Select,
    StructDecl,
    StructType,
    Unary,
    Var,
    f64_to_bits,
    i64,
)
from tests.codegen.elf import undefined_symbols
from tests.codegen.programs import FLOATS, INTS, NAN_BITS
from tests.codegen.simd_programs import TARGETS, kernel, whole_results

OPERANDS = {BOOL_T: "ab", I64_T: "ij", F64_T: "xy"}
CONSTANTS = [0, 1, -1, 2, 3, -7, 63, 64, 65, 10**9, -(2**63), 2**63 - 1]


def read(type_: str, number: int) -> Expr:
    return Field(Var("s"), OPERANDS[type_][number])


def operations() -> dict[str, tuple[str, Expr]]:
    """Name -> result type and expression on fields of the state."""
    found: dict[str, tuple[str, Expr]] = {}
    for name, op in UNARY.items():
        found[name] = (op.result, Unary(name, read(op.operand, 0)))
    for name, op in BINARY.items():
        x, y = (read(op.operand, number) for number in (0, 1))
        found[name] = (op.result, Binary(name, x, y))
    for name, value in itertools.product(("idiv", "imod", "shl", "lshr", "ashr"), CONSTANTS):
        found[f"{name} by {value}"] = (I64_T, Binary(name, read(I64_T, 0), i64(value)))
    for name in ("idiv", "imod", "ashr"):
        found[f"7 {name}"] = (I64_T, Binary(name, i64(7), read(I64_T, 1)))
    x, y = (read(F64_T, number) for number in (0, 1))
    found["fma"] = (F64_T, Fma(x, y, Field(Var("s"), "z")))
    singles = [Unary("f32", one) for one in (x, y, Field(Var("s"), "z"))]
    found["fma32"] = (F64_T, Fma(*singles, True))
    found["fma of one"] = (F64_T, Fma(x, Const(F64_T, f64_to_bits(3.0)), x))
    for type_, (first, second) in OPERANDS.items():
        chosen = Select(read(BOOL_T, 0), Field(Var("s"), first), Field(Var("s"), second))
        found[f"select {type_}"] = (type_, chosen)
    return found


OPERATIONS = operations()


def module() -> Module:
    """A lane does every operation once on its own operands."""
    fields = [FieldDecl(name, type_) for type_, names in OPERANDS.items() for name in names]
    fields += [FieldDecl("z", F64_T)]
    fields += [FieldDecl(f"r{k}", type_) for k, (type_, _) in enumerate(OPERATIONS.values())]
    state = ParamDecl("s", StructType("S"), inout=True)
    words = BufferType(I64_T)
    params = (state, ParamDecl("e", words), ParamDecl("n", I64_T), ParamDecl("c", words))
    body = tuple(
        Assign(Field(Var("s"), f"r{k}"), value) for k, (_, value) in enumerate(OPERATIONS.values())
    )
    funcs = (Func("init", (state,), None, ()), Func("lane", params, None, body))
    return Module((StructDecl("S", tuple(fields)),), (), funcs, ("init", "lane"))


def points() -> np.ndarray:
    """Operands of every lane: all pairs of floats, beside them all pairs of ints and bools."""
    floats = [f64_to_bits(value) for value in FLOATS] + NAN_BITS
    floats = [bits - (bits >> 63 << 64) for bits in floats]
    pairs = list(itertools.product(floats, floats))
    ints = list(itertools.product(INTS, INTS))
    rows = [
        (k & 1, k >> 1 & 1, *ints[k % len(ints)], *pair, floats[k * 7 % len(floats)])
        for k, pair in enumerate(pairs)
    ]
    return np.ascontiguousarray(np.array(rows, np.int64).T)


@pytest.fixture(scope="module")
def expected():
    return whole_results(InterpretedLanes(module()), module(), points())


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: f"{target.lanes}_lanes")
def found(request):
    return whole_results(kernel(module(), request.param), module(), points())


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_on_every_edge(name, expected, found):
    row = points().shape[0] + list(OPERATIONS).index(name)
    assert np.array_equal(found[row], expected[row])


END = 2.0**63
WHOLE = {
    "below 2^63": (math.nextafter(END, 0), 2**63 - 1024),
    "2^63": (END, 0),
    "above 2^63": (math.nextafter(END, math.inf), 0),
    "above -2^63": (math.nextafter(-END, 0), -(2**63) + 1024),
    "-2^63": (-END, 0),
    "below -2^63": (math.nextafter(-END, -math.inf), 0),
    "infinity": (math.inf, 0),
    "-infinity": (-math.inf, 0),
    "NaN": (math.nan, 0),
}
"""Floats at the ends of whole numbers, and what f64_to_i64 makes of them: so on every machine.

They are of an odd number: repeated as often as a vector has lanes, each comes to every place.
"""


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: f"{target.lanes}_lanes")
def vectors_whole(request):
    fields = (FieldDecl("x", F64_T), FieldDecl("r", I64_T))
    state, words = ParamDecl("s", StructType("S"), inout=True), BufferType(I64_T)
    params = (state, ParamDecl("e", words), ParamDecl("n", I64_T), ParamDecl("c", words))
    body = (Assign(Field(Var("s"), "r"), Unary("f64_to_i64", Field(Var("s"), "x"))),)
    funcs = (Func("init", (state,), None, ()), Func("lane", params, None, body))
    made = Module((StructDecl("S", fields),), (), funcs, ("init", "lane"))
    given = np.array([x for x, _ in WHOLE.values()] * request.param.lanes).view(np.int64)
    return whole_results(kernel(made, request.param), made, given[None])[1]


@pytest.fixture(scope="module")
def scalar_whole():
    body = (Return(Unary("f64_to_i64", Var("x"))),)
    made = Module((), (), (Func("f", (ParamDecl("x", F64_T),), I64_T, body),), ("f",))
    return Program(object_code(made, native()), made, native())


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_of_floats_at_their_ends_on_vectors(name, vectors_whole):
    found = vectors_whole[list(WHOLE).index(name) :: len(WHOLE)].tolist()
    assert set(found) == {WHOLE[name][1]}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_of_floats_at_their_ends_in_scalar_code(name, scalar_whole):
    x, expected = WHOLE[name]
    assert scalar_whole.call("f", x) == expected


@pytest.mark.parametrize(
    "target", [avx512(), avx2(), neon(), broad(avx512())], ids=lambda t: f"{t.lanes}_lanes"
)
def test_every_intrinsic_on_the_list_becomes_code_without_calls(target):
    for intrinsic in sorted(lane_intrinsics(target.lanes)):
        declared = declaration(intrinsic)
        _, result, rest = declared.split(" ", 1)[0], *declared[8:].split(" @", 1)
        types = rest[rest.index("(") + 1 : -1].split(", ")
        given = {"i1": "i1 true", "i32": "i32 1"}  # these must be constants
        args = ", ".join(given.get(t, f"{t} %{k}") for k, t in enumerate(types))
        value = "" if result == "void" else "%r = "
        code = assemble(
            f'target triple = "{target.triple}"\n{declared}\n'
            f"define {result} @f({', '.join(types)}) {{\n"
            f"  {value}call {result} @{intrinsic}({args})\n"
            f"  ret {result} {'%r' if value else ''}\n}}\n",
            target,
        )
        assert undefined_symbols(code) == [], intrinsic


def test_an_intrinsic_off_the_list_is_never_emitted():
    with pytest.raises(InternalError, match=r"llvm\.exp\.v8f64 is not on the target's list"):
        VectorText(avx512()).vector_float("llvm.exp.f64", "%x")
