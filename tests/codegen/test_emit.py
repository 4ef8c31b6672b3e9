import re

import pytest

from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import assemble, object_code, optimised
from quantdsl.codegen.target import Target, native
from quantdsl.codegen.text import entry_symbol
from quantdsl.errors import InternalError
from quantdsl.ir.ops import (
    ArrayType,
    Assign,
    Binary,
    Elem,
    Field,
    FieldDecl,
    For,
    Func,
    Let,
    Module,
    ParamDecl,
    Return,
    StructDecl,
    StructType,
    Var,
    i64,
)
from quantdsl.passes import run_passes
from tests.codegen.elf import undefined_symbols
from tests.codegen.programs import random_module
from tests.ir.samples import sample

HASWELL = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "")
NEOVERSE = Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")


def test_llvm_text_of_the_sample(snapshot):
    assert emit(sample(), HASWELL) == snapshot


def test_the_same_module_gives_the_same_text_and_code():
    first, second = (object_code(random_module(3, 5), native()) for _ in range(2))
    assert first == second


def test_no_name_of_a_program_stands_in_the_text():
    text = emit(sample(), HASWELL)
    names = set(re.findall(r"[a-zA-Z_]{4,}", text))
    assert not names & {"push", "point", "halve", "ring", "total", "points", "weights", "State"}


def test_no_instruction_allows_other_bits():
    text = emit(random_module(1, 20), HASWELL)
    flags = r"\b(fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|nuw|exact|disjoint|nneg)\b"
    assert not re.search(flags, text)
    # The one nsw is on a loop's own counter, which its bound keeps from wrapping.
    assert set(re.findall(r".*nsw.*", text)) == set(re.findall(r"  %n\d+ = add nsw .*", text))


@pytest.mark.parametrize("target", [HASWELL, NEOVERSE], ids=lambda target: target.cpu)
def test_the_code_calls_nothing_outside_of_itself(target):
    assert undefined_symbols(object_code(random_module(2, 30), target)) == []


def test_no_call_of_an_inline_function_remains():
    called = re.findall(r"call [a-z0-9]+ @(\w+)\(", optimised_text(sample()))
    assert set(called) <= {"f2"}, "only `halve` is not marked inline"


def test_a_store_to_a_ring_leaves_the_sum_in_a_register():
    state = StructType("S")
    fields = (FieldDecl("total", "f64"), FieldDecl("xs", ArrayType("f64", 8)))
    s, k, x = Var("s"), Var("k"), Var("x")
    body = (
        Assign(Elem(Field(s, "xs"), Binary("iand", k, i64(7))), x),
        Assign(Field(s, "total"), Binary("fadd", Field(s, "total"), x)),
    )
    params = (ParamDecl("s", state, inout=True), ParamDecl("x", "f64"), ParamDecl("n", "i64"))
    func = Func("f", params, None, (For("k", i64(0), Var("n"), body),))
    module = Module((StructDecl("S", fields),), (), (func,), ("f",))
    assert re.search(r"phi double", optimised_text(module))


def test_large_copies_and_zeros_are_loops_of_our_own():
    big = ArrayType("f64", 1000)
    func = Func("f", (ParamDecl("n", "i64"),), "f64", (
        Let("xs", big, None),
        Return(Elem(Var("xs"), Binary("imod", Var("n"), i64(1000)))),
    ))  # fmt: skip
    code = object_code(Module((), (), (func,), ("f",)), native())
    assert undefined_symbols(code) == []


@pytest.mark.parametrize("name", ["", "a b", 'x"', "café", "a.b"])
def test_an_entry_needs_a_plain_name(name):
    with pytest.raises(InternalError, match="cannot name an entry"):
        entry_symbol(name)


def test_text_that_llvm_refuses_is_our_own_fault():
    with pytest.raises(InternalError, match="LLVM refuses what we emitted"):
        assemble("define i64 @f() { ret double 0.0 }", native())


def optimised_text(module):
    return str(optimised(emit(run_passes(module), native()), native())[0])
