"""A small program with one of everything: the text of it is held in golden files."""

from quantdsl.ir.link import link
from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    I64_T,
    ArrayType,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Continue,
    Do,
    Elem,
    Field,
    FieldDecl,
    Fma,
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
    While,
    f64,
    f64_to_bits,
    i64,
)

N = SizeName("N")
RING, POINT, STATE = StructType("Ring", (N,)), StructType("Point"), StructType("State")
state, ring = Var("s"), Var("r")

DECLS = [
    StructDecl("Ring", (FieldDecl("xs", ArrayType(F64_T, N)), FieldDecl("n", I64_T)), ("N",)),
    StructDecl("Point", (FieldDecl("x", F64_T), FieldDecl("up", BOOL_T))),
    StructDecl(
        "State",
        (
            FieldDecl("total", F64_T),
            FieldDecl("ring.1", StructType("Ring", (4,))),
            FieldDecl("points", ArrayType(POINT, SizeName("N_POINTS"))),
        ),
    ),
    TableDecl("weights", F64_T, tuple(map(f64_to_bits, (0.5, 0.25, float("nan"))))),
    Func(
        "push",
        (ParamDecl("r", RING, inout=True), ParamDecl("x", F64_T)),
        F64_T,
        (
            Let("i", I64_T, Binary("imod", Field(ring, "n"), SizeOf(N))),
            Let("old", F64_T, Elem(Field(ring, "xs"), Var("i"))),
            Assign(Elem(Field(ring, "xs"), Var("i")), Var("x")),
            Assign(Field(ring, "n"), Binary("iadd", Field(ring, "n"), i64(1))),
            Return(Var("old")),
        ),
        ("N",),
    ),
    Func(
        "point",
        (ParamDecl("x", F64_T),),
        POINT,
        (Return(StructOf(POINT, (Var("x"), Binary("fgt", Var("x"), f64(0.0))))),),
    ),
    Func("halve", (ParamDecl("s", STATE, inout=True),), None, (
        Assign(Field(state, "total"), Binary("fmul", Field(state, "total"), f64(0.5))),
    ), inline=False),
    Func(
        "run",
        (ParamDecl("s", STATE, inout=True), ParamDecl("xs", BufferType(F64_T)),
         ParamDecl("n", I64_T)),
        I64_T,
        (
            For("k", i64(0), Var("n"), (
                Let("x", F64_T, Elem(Var("xs"), Var("k"))),
                If(Unary("isnan", Var("x")), (Continue(),)),
                Let("old", F64_T, Call("push", (Field(state, "ring.1"), Var("x")), (4,))),
                Let("p", POINT, Call("point", (Var("x"),))),
                Assign(Elem(Field(state, "points"), Binary("iand", Var("k"), i64(1))), Var("p")),
                Assign(
                    Field(state, "total"),
                    Fma(Var("old"), Elem(Table("weights"), i64(1)), Field(state, "total")),
                ),
                While(Binary("fgt", Field(state, "total"), f64(1e6)), i64(3), (
                    Do(Call("halve", (state,))),
                    If(Field(Var("p"), "up"), (Break(),)),
                )),
            )),
            Return(Select(Field(Elem(Field(state, "points"), i64(0)), "up"), Var("n"), i64(-1))),
        ),
    ),
]  # fmt: skip


def sample() -> Module:
    """The program, linked."""
    return link({decl.name: decl for decl in DECLS}.get, ["run"], {"N_POINTS": 2})
