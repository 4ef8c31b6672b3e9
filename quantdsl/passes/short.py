"""Quotients and roots in a straight line.

A GPU has instructions for neither. Its assembler starts from an approximation that the GPU does
have, brings it nearer, and asks whether the numbers are ones for which that is enough; else it
branches to a longer way, and bar cannot overlap with bar. These are its steps without the branch: a
result is the rounded one for numbers that fit (divide.py), and anything for others. A test compares
the assembler's machine code with that of ours.

`INVERSE` and `INVERSE_ROOT` are as near as a target has them at once (codegen/short.py), and
quotients and roots are the same for all of them. `WORD` is that of a number that is not missing,
so that nobody asks whether it is.
"""

from collections.abc import Sequence

from quantdsl.ir import ops
from quantdsl.ir.ops import Binary, Call, Expr, Fma, Let, Unary, Var, f64

INVERSE, INVERSE_ROOT = "short.inverse", "short.inverse_root"
QUOTIENT, ROOT = "short.quotient", "short.root"
WORD = "short.word"
X, Y, ONE = Var("x"), Var("y"), f64(1.0)


def _func(name: str, params: Sequence[Var], steps: dict[str, Expr], result: Expr) -> ops.Func:
    decls = tuple(ops.ParamDecl(one.name, ops.F64_T) for one in params)
    lets = (Let(name, ops.F64_T, value) for name, value in steps.items())
    return ops.Func(name, decls, ops.F64_T, (*lets, ops.Return(result)))


def _quotient() -> ops.Func:
    below = Unary("fneg", Y)
    names = ("near", "far", "nearer", "inverse", "first", "rest")
    near, far, nearer, inverse, first, rest = map(Var, names)
    steps: dict[str, Expr] = {
        near.name: Call(INVERSE, (Y,)),
        far.name: Fma(below, near, ONE),
        nearer.name: Fma(near, Fma(far, far, far), near),
        inverse.name: Fma(nearer, Fma(below, nearer, ONE), nearer),
        first.name: Binary("fmul", X, inverse),
        rest.name: Fma(below, first, X),
    }
    return _func(QUOTIENT, (X, Y), steps, Fma(inverse, rest, first))


def _root() -> ops.Func:
    near, far, inverse, first, rest = map(Var, ("near", "far", "inverse", "first", "rest"))
    steps: dict[str, Expr] = {
        near.name: Call(INVERSE_ROOT, (X,)),
        far.name: Fma(X, Unary("fneg", Binary("fmul", near, near)), ONE),
        inverse.name: Fma(Fma(far, f64(0.375), f64(0.5)), Binary("fmul", near, far), near),
        first.name: Binary("fmul", X, inverse),
        rest.name: Fma(first, Unary("fneg", first), X),
    }
    return _func(ROOT, (X,), steps, Fma(rest, Binary("fmul", inverse, f64(0.5)), first))


SHORT = (
    _func(INVERSE, (X,), {}, Binary("fdiv", ONE, X)),
    _func(INVERSE_ROOT, (X,), {}, Binary("fdiv", ONE, Unary("sqrt", X))),
    ops.Func(
        WORD, (ops.ParamDecl(X.name, ops.F64_T),), ops.I64_T, (ops.Return(Unary("bits", X)),)
    ),
    _quotient(),
    _root(),
)
