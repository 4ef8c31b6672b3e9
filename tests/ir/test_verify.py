import msgspec
import pytest

from quantdsl.errors import InternalError
from quantdsl.ir.ops import (
    ArrayType,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Const,
    Do,
    Elem,
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
    SizeName,
    SizeOf,
    StructDecl,
    StructOf,
    StructType,
    Table,
    TableDecl,
    Unary,
    Var,
    boolean,
    f64,
    i64,
)
from quantdsl.ir.verify import verify
from tests.ir.samples import sample

P = StructType("P")
STRUCTS = (
    StructDecl("P", (FieldDecl("a", "f64"), FieldDecl("n", "i64"))),
    StructDecl("W", (FieldDecl("p", P), FieldDecl("xs", ArrayType("f64", 3)))),
)
W = StructType("W")
TABLES = (TableDecl("t", "i64", (1, 2)),)
PARAMS = (ParamDecl("w", W, inout=True), ParamDecl("r", W), ParamDecl("n", "i64"))
TOUCH = Func("touch", (ParamDecl("p", P, inout=True),), "f64", (Return(f64(1.0)),))
w, r, n = Var("w"), Var("r"), Var("n")


def module(*body, result=None, params=PARAMS, structs=STRUCTS, funcs=(TOUCH,)):
    func = Func("f", params, result, tuple(body))
    return Module(structs, TABLES, (*funcs, func), ("f",))


def test_the_sample_is_right():
    verify(sample())
    verify(module())


BODIES = {
    "expected f64": [Let("x", "f64", Binary("fadd", f64(1.0), i64(1)))],
    "unknown operation": [Let("x", "f64", Unary("sin", f64(1.0)))],
    "no such name": [Let("x", "i64", Var("y"))],
    "declared twice": [Let("n", "i64", i64(1))],
    "no such field": [Let("x", "i64", Field(w, "q"))],
    "has no fields": [Let("x", "i64", Field(n, "q"))],
    "not an array": [Let("x", "i64", Elem(n, i64(0)))],
    "outside 0..<3": [Let("x", "f64", Elem(Field(w, "xs"), i64(3)))],
    "outside 0..<2": [Let("x", "i64", Elem(Table("t"), i64(2)))],
    "no such table": [Let("x", "i64", Elem(Table("u"), i64(0)))],
    "only a local or an inout parameter": [Assign(Field(Field(r, "p"), "n"), i64(1))],
    "same scalar or struct type": [Assign(Field(w, "p"), r)],
    "the value has the declared type": [Let("x", "f64", i64(1))],
    "an array starts as zeros": [Let("x", ArrayType("f64", 3), Field(w, "xs"))],
    "stands at a statement's root": [
        Let("x", "f64", Unary("fneg", Call("touch", (Field(w, "p"),))))
    ],
    "a struct value stands at": [
        Let("x", "f64", Unary("fneg", StructOf(P, (f64(1.0), i64(1)))))
    ],
    "one value for each field": [Let("x", P, StructOf(P, (f64(1.0),)))],
    "the fields are all scalar": [Let("x", W, StructOf(W, (i64(1), i64(1))))],
    "that many parameters": [Do(Call("touch", ()))],
    "outside of a loop": [Break()],
    "the function returns None": [Return(i64(1))],
    "is not the bits of a i64": [Let("x", "i64", i64(2**63))],
    "is not the bits of a bool": [Let("x", "bool", Const("bool", 2))],
    "chooses between scalars": [Let("x", P, Select(boolean(True), Field(w, "p"), Field(w, "p")))],
    "gone once linked": [Let("x", "i64", SizeOf(3))],
    "positive int once linked": [Let("x", ArrayType("f64", SizeName("N")), None)],
    "scalars or structs": [Let("x", ArrayType(ArrayType("f64", 2), 2), None)],
    "only ever a parameter": [Let("x", BufferType("f64"), None)],
    "not linked or not declared": [Let("x", StructType("Q"), None)],
}  # fmt: skip


@pytest.mark.parametrize("rule", BODIES)
def test_each_broken_rule_is_named(rule):
    with pytest.raises(InternalError, match="QD9301 ir: f: ") as raised:
        verify(module(*BODIES[rule]))
    assert rule in str(raised.value)


def test_names_end_with_their_block_and_loop_variables_are_readonly():
    inner = If(boolean(True), (Let("x", "i64", i64(1)),))
    with pytest.raises(InternalError, match="no such name"):
        verify(module(inner, Let("y", "i64", Var("x"))))
    with pytest.raises(InternalError, match="only a local"):
        verify(module(For("k", i64(0), n, (Assign(Var("k"), i64(1)),))))


def test_every_path_returns():
    half = If(boolean(True), (Return(i64(1)),))
    with pytest.raises(InternalError, match="reaches the end"):
        verify(module(half, result="i64"))
    whole = If(boolean(True), (Return(i64(1)),), (Return(i64(2)),))
    verify(module(whole, result="i64"))


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (module(params=(ParamDecl("x", "f64", inout=True),)), "by value, never inout"),
        (module(funcs=(TOUCH, TOUCH)), "declared twice"),
        (module(structs=STRUCTS[::-1]), "not declared before"),
        (module(structs=(StructDecl("P", ()),)), "a struct has fields"),
        (module(Return(Field(w, "p")), result=P), "entry function returns a scalar"),
        (msgspec.structs.replace(module(), entries=("g",)), "entry 'g' is not"),
        (module(funcs=(msgspec.structs.replace(TOUCH, sizes=("N",)),)), "size parameters"),
        (
            module(funcs=(Func("g", (ParamDecl("b", BufferType("f64")),), None, (Return(None),)),)),
            "only entries and functions without a body have buffer",
        ),
        (module(funcs=(Func("g", (), None, (Do(Call("f", (w, w, n))),)),)), "no such name"),
    ],
)
def test_declarations_are_held_to_their_rules(wrong, rule):
    with pytest.raises(InternalError, match=rule):
        verify(wrong)


def test_what_a_target_has_may_take_a_buffer():
    verify(module(funcs=(Func("g", (ParamDecl("b", BufferType("f64")),), None, ()),)))


def test_a_callee_after_its_caller_is_refused():
    first = Func("g", (), None, (Do(Call("f", ())),))
    with pytest.raises(InternalError, match="the callee must stand before"):
        verify(Module((), (), (first, Func("f", (), None, ())), ("g",)))
