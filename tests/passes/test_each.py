"""What threads of a block may share of the loops of a function."""

import pytest

from quantdsl.errors import InternalError
from quantdsl.ir import ops
from quantdsl.passes.each import together

COLUMN = ops.ArrayType(ops.F64_T, 20)
X, AT = ops.Var("x"), ops.Var("at")


def module(index: ops.Expr, source: ops.Expr) -> ops.Module:
    """A loop over 20 elements that stores at `index` what stands at `source`."""
    stmt = ops.Assign(ops.Elem(X, index), ops.Elem(X, source))
    loop = ops.For("at", ops.i64(0), ops.i64(20), (stmt,))
    func = ops.Func("lane", (ops.ParamDecl("x", COLUMN, inout=True),), None, (loop,))
    return ops.Module((), (), (func,), ("lane",))


def plus(x: ops.Expr, y: ops.Expr) -> ops.Expr:
    return ops.Binary("iadd", x, y)


def test_turns_that_do_not_need_each_other_are_dealt_out() -> None:
    made = together(module(AT, AT), "lane", 8)
    lane = next(func for func in made.funcs if func.name == "lane")
    _, before, loop, after = lane.body
    assert before == after
    assert isinstance(loop, ops.For)
    assert loop.hi == ops.i64(3)


@pytest.mark.parametrize(
    ("index", "source"),
    [(AT, plus(AT, ops.i64(1))), (ops.i64(0), AT), (plus(AT, AT), AT)],
    ids=["reads what another turn writes", "one place", "no place of its own"],
)
def test_others_are_refused(index: ops.Expr, source: ops.Expr) -> None:
    with pytest.raises(InternalError, match="turns need each other"):
        together(module(index, source), "lane", 8)
