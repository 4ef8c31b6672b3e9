"""Rings and blocks that turn with the loop: the same values; what else uses one keeps it as is."""

import numpy as np
import pytest

from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Assign, Binary, Elem, Expr, Field, For, If, Let, Stmt, Var, i64
from quantdsl.passes.rings import turn_rings

S, K, STEP, BEFORE = Var("s"), Var("k"), Var("step@s"), Var("before")
PAST, MADE, COUNTER = Field(S, "past"), Var("made"), Field(S, "step")
SLOTS, TURNS = 8, 21
ONE = Binary("iadd", STEP, i64(1))


def slot(at: Expr) -> Expr:
    return Binary("iand", at, i64(SLOTS - 1))


def module(*more: Stmt) -> ops.Module:
    """Keeps each turn's number and tells those of five turns before, and of the same turn."""
    return lane(ringed(*more), SLOTS)


def ringed(*more: Stmt) -> tuple[Stmt, ...]:
    """A turn of a loop over a ring."""
    told = Binary("iadd", Elem(PAST, slot(Binary("isub", BEFORE, i64(5)))),
                  Elem(PAST, slot(Binary("isub", STEP, i64(1)))))  # fmt: skip
    return (
        Let(BEFORE.name, ops.I64_T, STEP),
        Assign(STEP, ONE),
        Assign(Elem(PAST, slot(BEFORE)), Binary("imul", K, i64(3))),
        Assign(Elem(MADE, K), told),
        *more,
    )


def lane(body: tuple[Stmt, ...], slots: int) -> ops.Module:
    """A loop of such turns, over so many places."""
    past = ops.FieldDecl("past", ops.ArrayType(ops.I64_T, slots))
    fields = (ops.FieldDecl("step", ops.I64_T), past)
    params = (
        ops.ParamDecl("s", ops.StructType("State"), inout=True),
        ops.ParamDecl("n", ops.I64_T),
        ops.ParamDecl("made", ops.BufferType(ops.I64_T), inout=True),
    )
    func = ops.Func("lane", params, None, (
        Let(STEP.name, ops.I64_T, COUNTER),
        For("k", i64(0), Var("n"), body),
        Assign(COUNTER, STEP),
    ))  # fmt: skip
    return ops.Module((ops.StructDecl("State", fields),), (), (func,), ("lane",))


def left(made: ops.Module, begun: int, slots: int = SLOTS) -> list[int]:
    """The state and what is told, of a ring that has turned `begun` times."""
    state, told = np.array([begun, *range(100, 100 + slots)]), np.zeros(TURNS, np.int64)
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


def blocks(slots: int, *more: Stmt) -> ops.Module:
    """Tells what stood at each turn's place; a full block begins anew, each place with the sum of
    those behind it."""
    here, last, over = Elem(PAST, Var("here")), Var("last"), Var("over")
    there = Elem(PAST, Binary("isub", i64(slots - 1), over))
    summed = (
        Let("old", ops.I64_T, there),
        Assign(there, last),
        Assign(last, Binary("iadd", last, Var("old"))),
    )
    full = (
        Assign(STEP, i64(0)),
        Let(last.name, ops.I64_T, i64(0)),
        For(over.name, i64(0), i64(slots), summed),
    )
    held = Binary("imin", Binary("imax", STEP, i64(0)), i64(slots - 1))
    body = (
        Let("here", ops.I64_T, held),
        Assign(Elem(MADE, K), here),
        Assign(here, Binary("imul", K, i64(3))),
        Assign(STEP, ONE),
        If(Binary("ieq", STEP, i64(slots)), full),
        *more,
    )
    return lane(body, slots)


@pytest.mark.parametrize("slots", [1, 2, 5, 8])
@pytest.mark.parametrize("begun", [0, 1, 4])
def test_blocks_have_the_same_values(slots: int, begun: int) -> None:
    plain = blocks(slots)
    made = turn_rings(plain, "lane")
    assert len(made.funcs[0].body) > len(plain.funcs[0].body)
    assert left(made, begun % slots, slots) == left(plain, begun % slots, slots)


@pytest.mark.parametrize(
    "use", [Assign(STEP, i64(2)), Assign(Elem(MADE, K), Elem(PAST, i64(2)))],
    ids=["another beginning", "a place of its own"],
)  # fmt: skip
def test_other_blocks_stay(use: Stmt) -> None:
    assert turn_rings(blocks(5, use), "lane") == blocks(5, use)
