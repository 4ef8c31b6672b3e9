"""Loops in wide registers: which can be, the bits of the scalar form, the proof on machine code."""

import random

import msgspec
import numpy as np
import pytest

from quantdsl.check.library import Library
from quantdsl.codegen import wide
from quantdsl.codegen.emit import emit
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.proof import prove
from quantdsl.codegen.target import native
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    I64_T,
    ArrayType,
    Assign,
    Binary,
    Break,
    Const,
    Elem,
    Expr,
    Field,
    FieldDecl,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Select,
    StructDecl,
    StructType,
    Unary,
    Var,
    While,
    f64,
    i64,
)
from quantdsl.ir.verify import verify
from tests.codegen.programs import random_float_bits, random_int

pytestmark = pytest.mark.skipif(
    not native().triple.startswith("x86_64"), reason="one lane has wide registers on x86-64 only"
)

COUNT = 37
SUMS = {"iadd": I64_T, "isub": I64_T, "ixor": I64_T, "imin": I64_T, "imax": I64_T, "iand": I64_T,
        "ior": I64_T, "and": BOOL_T, "or": BOOL_T, "xor": BOOL_T}  # fmt: skip
S, TURN, K = Var("s"), Var("i"), Var("k")
STRUCTS = (
    StructDecl("Cell", (FieldDecl("key", I64_T), FieldDecl("weight", F64_T))),
    StructDecl("S", (
        FieldDecl("ints", ArrayType(I64_T, COUNT)), FieldDecl("floats", ArrayType(F64_T, COUNT)),
        FieldDecl("truths", ArrayType(BOOL_T, COUNT)),
        FieldDecl("cells", ArrayType(StructType("Cell"), COUNT)),
    )),
)  # fmt: skip
PARAMS = (
    ParamDecl("s", StructType("S")), ParamDecl("lo", I64_T), ParamDecl("hi", I64_T),
    ParamDecl("k", I64_T),
)  # fmt: skip


def summed(op: str, value: Expr, *before: Let, start: Expr | None = None) -> Func:
    """A loop over `value`, which may read `before`."""
    type_ = SUMS[op]
    sum_ = Var("sum")
    loop = For("i", Var("lo"), Var("hi"), (*before, Assign(sum_, Binary(op, sum_, value))))
    begun = Let("sum", type_, start or (Const(BOOL_T, 0) if type_ == BOOL_T else i64(5)))
    return Func("f", PARAMS, type_, (begun, loop, Return(sum_)), wide=True)


def module(func: Func) -> Module:
    made = Module(STRUCTS, (), (func,), (func.name,))
    verify(made)
    return made


class Loops:
    """Random values of a turn."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lets: list[Let] = []

    def func(self) -> Func:
        op = self.rng.choice(list(SUMS))
        for number in range(self.rng.randrange(3)):
            type_ = self.rng.choice([I64_T, F64_T, BOOL_T])
            self.lets.append(Let(f"x{number}", type_, self.value(type_, 2)))
        return summed(op, self.value(SUMS[op], 3), *self.lets, start=None)

    def value(self, type_: str, depth: int) -> Expr:
        leaves = [Var(let.name) for let in self.lets if let.type == type_]
        leaves += {
            I64_T: [TURN, K, i64(random_int(self.rng)), self.at("ints"), self.cell("key")],
            F64_T: [f64(1.5), self.at("floats"), self.cell("weight")],
            BOOL_T: [self.at("truths")],
        }[type_]
        if depth == 0 or self.rng.random() < 0.2:
            return self.rng.choice(leaves)
        a = self.value(type_, depth - 1)
        b = self.value(type_, depth - 1)
        ways = {
            I64_T: ["iadd", "isub", "imul", "imin", "imax", "iand", "ixor", "shl", "ashr", "umulh"],
            F64_T: ["fadd", "fsub", "fmul", "fdiv", "fmin", "fmax"],
            BOOL_T: ["and", "or", "xor"],
        }[type_]
        other = {
            I64_T: [Unary("f64_to_i64", self.value(F64_T, 0)), Unary("bits", self.value(F64_T, 0)),
                    Unary("bool_to_i64", self.value(BOOL_T, 0)), Unary("ineg", a)],
            F64_T: [Unary("i64_to_f64", self.value(I64_T, 0)), Unary("floor", a)],
            BOOL_T: [Binary("ilt", self.value(I64_T, 0), self.value(I64_T, 0)),
                     Binary("fle", self.value(F64_T, 0), self.value(F64_T, 0)), Unary("not", a)],
        }[type_]  # fmt: skip
        pick = self.rng.random()
        if pick < 0.2:
            return Select(self.value(BOOL_T, depth - 1), a, b)
        return Binary(self.rng.choice(ways), a, b) if pick < 0.6 else self.rng.choice(other)

    def index(self) -> Expr:
        """In range for every turn from 0 to COUNT - 4, or folded into it."""
        return self.rng.choice([
            TURN, Binary("iadd", TURN, i64(2)), Binary("imod", Binary("iadd", K, TURN), i64(COUNT)),
            Binary("isub", i64(COUNT - 1), TURN),
        ])  # fmt: skip

    def at(self, name: str) -> Expr:
        index = self.index()
        return Elem(Field(S, name), TURN if _divides(index) else index)

    def cell(self, name: str) -> Expr:
        index = self.index()
        return Field(Elem(Field(S, "cells"), TURN if _divides(index) else index), name)


def _divides(index: Expr) -> bool:
    return isinstance(index, Binary) and index.op == "imod"


def memory(seed: int) -> np.ndarray:
    rng = random.Random(seed)
    ints = [random_int(rng) for _ in range(COUNT)]
    floats = [random_float_bits(rng) for _ in range(COUNT)]
    truths = [rng.randrange(2) for _ in range(COUNT)]
    cells = [word for _ in range(COUNT) for word in (random_int(rng), random_float_bits(rng))]
    return np.array([*ints, *floats, *truths, *cells], np.int64)


@pytest.mark.parametrize("seed", range(60))
def test_bits_are_those_of_the_interpreter(seed):
    """For every number of turns, from none on, that fill a register or do not."""
    func = Loops(seed).func()
    [loop] = wide.loops(func)
    assert wide.obstacle(loop) == ""
    made = module(func)
    text = emit(made, native())
    assert "<4 x i64>" in text
    compiled, plain = Program(object_code(made, native()), made, native()), Interpreter(made)
    words = memory(seed)
    for lo, hi, k in [(0, 0, 3), (3, 1, 0), (0, 1, 9), (1, 5, 1), (0, 8, 2), (2, 34, 7)]:
        args = (words, lo, hi, k)
        assert compiled.call("f", *args) == plain.call("f", *args), (lo, hi, k)


def test_the_loop_is_in_wide_registers_on_the_object():
    func = summed("iadd", Binary("imul", Elem(Field(S, "ints"), TURN), K))
    [loop] = prove(object_code(module(func), native()), "f").loops
    assert loop.width_bytes == 32
    plain = msgspec.structs.replace(func, wide=False)
    [loop] = prove(object_code(module(plain), native()), "f").loops
    assert loop.width_bytes == 8


SUM = Assign(Var("sum"), Binary("iadd", Var("sum"), TURN))
INTS = Field(S, "ints")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ((If(Binary("ilt", TURN, K), (SUM,), ()),), "may go another way"),
        ((SUM, Break()), "may go another way"),
        ((Assign(Elem(INTS, TURN), i64(1)),), "writes to memory"),
        ((Assign(Var("sum"), Binary("imul", Var("sum"), TURN)),), "depends on"),
        ((Assign(Var("g"), Binary("fadd", Var("g"), f64(1.0))),), "depends on"),
        ((SUM, Let("x", I64_T, Var("sum"))), "the one before"),
        ((SUM, SUM), "the one before"),
        ((Assign(Var("sum"), Binary("isub", TURN, Var("sum"))),), "depends on"),
        ((Let("x", I64_T, Binary("idiv", TURN, K)), SUM), "it divides"),
        ((Let("x", StructType("Cell"), None), SUM), "a struct"),
    ],
    ids="branch break store product float read twice reversed division struct".split(),
)
def test_what_keeps_a_loop_out_of_wide_registers(body, why):
    assert why in wide.obstacle(For("i", i64(0), K, body))


def test_a_loop_without_a_count_is_not_wide():
    assert "before it begins" in wide.obstacle(While(Const(BOOL_T, 1), i64(4), ()))


def test_a_loop_that_cannot_be_wide_is_as_ever():
    """Two sums, one of floats: the annotation is refused, the code is right all the same."""
    sum_, rest = Var("sum"), Var("rest")
    loop = For("i", Var("lo"), Var("hi"), (
        Assign(sum_, Binary("iadd", sum_, Elem(INTS, TURN))),
        Assign(rest, Binary("fadd", rest, Elem(Field(S, "floats"), TURN))),
    ))  # fmt: skip
    both = Binary("ixor", sum_, Unary("bits", rest))
    func = Func("f", PARAMS, I64_T, (
        Let("sum", I64_T, i64(0)), Let("rest", F64_T, f64(0.0)), loop, Return(both)), wide=True)
    made = module(func)
    compiled = Program(object_code(made, native()), made, native())
    args = (memory(1), 0, 30, 0)
    assert compiled.call("f", *args) == Interpreter(made).call("f", *args)


def test_every_function_of_std_that_says_so_is_wide():
    """And there are some: the sums of the book's ladder."""
    library = Library()
    assert library.package is not None
    found = [
        func
        for encoded in library.package.funcs.values()
        if (func := msgspec.msgpack.decode(encoded, type=Func)).wide
    ]
    assert {func.name for func in found} >= {"book.weigh", "book.lots_in"}
    for func in found:
        assert [wide.obstacle(loop) for loop in wide.loops(func)] == [""], func.name
