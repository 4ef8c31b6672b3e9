"""Rows that are asked for before they are loaded: the same words, and a question for each load."""

from quantdsl.ir import ops
from quantdsl.ir.ops import Call, Const, Do, Elem, Let, Var
from quantdsl.ir.own import EARLY, OWN, ROW
from quantdsl.ir.walk import statements
from quantdsl.passes.early import SOON, ask_early
from quantdsl.passes.warm import split_warm
from tests.passes.test_warm import average, hold, module

LANES = 1
"""Words of a row there."""


def test_each_load_asks_for_a_later_row() -> None:
    """Not what a lane keeps, nor what it writes; the words stay the same."""
    old = split_warm(module(*average()), "lane")
    wide = ops.Module(old.structs, old.tables, old.funcs, old.entries, sizes=((ROW, LANES),))
    made = ask_early(wide, "lane")
    (lane,) = (func for func in made.funcs if func.name == "lane")
    body = list(statements(lane.body))
    asked = [stmt.call for stmt in body if isinstance(stmt, Do)]
    loads = [
        stmt.value
        for stmt in body
        if isinstance(stmt, Let) and isinstance(stmt.value, Elem) and stmt.value.base == Var(OWN)
    ]
    later = Const(ops.I64_T, EARLY * LANES)
    calls = [Call(SOON, (Var(OWN), ops.Binary("iadd", one.index, later))) for one in loads]
    assert loads
    assert asked == calls
    hold(old, made)
