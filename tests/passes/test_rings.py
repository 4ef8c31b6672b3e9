"""Rings that turn with the loop: the same values, and what else uses a ring keeps it as it was."""

import numpy as np
import pytest

from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Assign, Binary, Elem, Expr, Field, For, Let, Stmt, Var, i64
from quantdsl.passes.rings import turn_rings

S, K, STEP, BEFORE = Var("s"), Var("k"), Var("step@s"), Var("before")
PAST, MADE, COUNTER = Field(S, "past"), Var("made"), Field(S, "step")
SLOTS, TURNS = 8, 21
ONE = Binary("iadd", STEP, i64(1))


def slot(at: Expr) -> Expr:
    return Binary("iand", at, i64(SLOTS - 1))


def module(*more: Stmt) -> ops.Module:
    """Keeps each turn's number and tells those of five turns before, and of the same turn."""
    told = Binary("iadd", Elem(PAST, slot(Binary("isub", BEFORE, i64(5)))),
                  Elem(PAST, slot(Binary("isub", STEP, i64(1)))))  # fmt: skip
    body: tuple[Stmt, ...] = (
        Let(BEFORE.name, ops.I64_T, STEP),
        Assign(STEP, ONE),
        Assign(Elem(PAST, slot(BEFORE)), Binary("imul", K, i64(3))),
        Assign(Elem(MADE, K), told),
        *more,
    )
    fields = (ops.FieldDecl("step", ops.I64_T), ops.FieldDecl("past", ops.ArrayType(ops.I64_T, 8)))
    params = (
        ops.ParamDecl("s", ops.StructType("State"), inout=True),
        ops.ParamDecl("n", ops.I64_T),
        ops.ParamDecl("made", ops.BufferType(ops.I64_T), inout=True),
    )
    lane = ops.Func("lane", params, None, (
        Let(STEP.name, ops.I64_T, COUNTER),
        For("k", i64(0), Var("n"), body),
        Assign(COUNTER, STEP),
    ))  # fmt: skip
    return ops.Module((ops.StructDecl("State", fields),), (), (lane,), ("lane",))


def left(made: ops.Module, begun: int) -> list[int]:
    """The state and what is told, of a ring that has turned `begun` times."""
    state, told = np.array([begun, *range(100, 100 + SLOTS)]), np.zeros(TURNS, np.int64)
    Interpreter(made).call("lane", state, TURNS, told)
    return [*state.tolist(), *told.tolist()]


@pytest.mark.parametrize("begun", [0, 3, 8, 1_000])
def test_the_same_values(begun: int) -> None:
    made = turn_rings(module(), "lane")
    assert len(made.funcs[0].body) > len(module().funcs[0].body)
    assert left(made, begun) == left(module(), begun)


@pytest.mark.parametrize(
    "use",
    [
        Assign(Elem(MADE, K), Elem(PAST, i64(2))),
        Assign(STEP, ONE),
        Assign(Elem(MADE, K), Elem(PAST, slot(K))),
    ],
    ids=["a place of its own", "a second step", "another index"],
)
def test_others_stay(use: Stmt) -> None:
    assert turn_rings(module(use), "lane") == module(use)
