"""Each scalar operation by itself, compiled, over the product of all edge values."""

import itertools

import numpy as np
import pytest
from msgspec.structs import replace

from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import Program, assemble, object_code
from quantdsl.codegen.target import FLOAT_INTRINSICS, native
from quantdsl.codegen.text import Text
from quantdsl.errors import InternalError
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import (
    BINARY,
    UNARY,
    Binary,
    Fma,
    Func,
    Module,
    ParamDecl,
    Return,
    Unary,
    Var,
    f64_to_bits,
    i64,
)
from tests.codegen.elf import undefined_symbols
from tests.codegen.programs import FLOATS, INTS

VALUES = {"f64": FLOATS, "i64": INTS, "bool": [False, True]}
x, y, z = map(Var, "xyz")


def function(name, operand, result, value, count):
    params = tuple(ParamDecl(n, operand) for n in "xyz"[:count])
    return Func(name, params, result, (Return(value),))


POWER = Unary("i64_to_f64", Binary("iand", x, Unary("ineg", x)))
EXPONENT = Binary("iand", Binary("lshr", Unary("bits", POWER), i64(52)), i64(2047))
LOWEST_BIT = Binary("isub", EXPONENT, i64(1023))
"""As std/book.qdsl finds it; a CPU has an instruction for it."""

OPERATIONS = [
    *((function(op, t.operand, t.result, Unary(op, x), 1)) for op, t in UNARY.items()),
    *((function(op, t.operand, t.result, Binary(op, x, y), 2)) for op, t in BINARY.items()),
    function("fma", "f64", "f64", Fma(x, y, z), 3),
    function("fma32", "f64", "f64", Fma(*(Unary("f32", one) for one in (x, y, z)), True), 3),
    function("lowest_bit", "i64", "i64", LOWEST_BIT, 1),
]


@pytest.fixture(scope="module")
def runners():
    # Names such as `and` cannot name an entry; a prefix makes them identifiers.
    funcs = tuple(Func("op_" + f.name, f.params, f.result, f.body) for f in OPERATIONS)
    module = Module((), (), funcs, tuple(func.name for func in funcs))
    return Interpreter(module), Program(object_code(module, native()), module, native())


@pytest.mark.parametrize("func", OPERATIONS, ids=lambda func: func.name)
def test_every_operation_on_every_edge(func, runners):
    interpreter, program = runners
    values = VALUES[func.params[0].type]
    for operands in itertools.product(values, repeat=len(func.params)):
        left = interpreter.call("op_" + func.name, *operands)
        right = program.call("op_" + func.name, *operands)
        assert type(left) is type(right)
        if isinstance(left, float):
            left, right = f64_to_bits(left), f64_to_bits(right)
        assert left == right, operands


@pytest.mark.parametrize("intrinsic", sorted(FLOAT_INTRINSICS))
def test_every_intrinsic_on_the_list_becomes_code_without_calls(intrinsic):
    count = 3 if ".fma." in intrinsic else 1
    types = ", ".join(["double"] * count)
    args = ", ".join(f"double %{i}" for i in range(count))
    text = (
        f"declare double @{intrinsic}({types})\n"
        f"define double @quantdsl_f({types}) {{\n"
        f"  %r = call double @{intrinsic}({args})\n  ret double %r\n}}\n"
    )
    params = tuple(ParamDecl(f"p{i}", "f64") for i in range(count))
    module = Module((), (), (Func("f", params, "f64", ()),), ("f",))
    code = assemble(text, native())
    assert undefined_symbols(code) == []
    assert np.isfinite(Program(code, module, native()).call("f", *[1.5] * count))


def test_an_intrinsic_off_the_list_is_never_emitted():
    with pytest.raises(InternalError, match=r"llvm\.exp\.f64 is not on the target's list"):
        Text(FLOAT_INTRINSICS).intrinsic("llvm.exp.f64", "0.0")


def test_the_lowest_bit_of_a_word_is_one_instruction():
    module = Module((), (), (OPERATIONS[-1],), ("lowest_bit",))
    assert "llvm.cttz" in emit(module, native())
    assert emit(module, replace(native(), intrinsics=FLOAT_INTRINSICS)).count("cttz") == 0
