"""Loops of one turn as straight code, and none that does nothing."""

import msgspec
import pytest

from quantdsl.ir.ops import (
    I64_T,
    Assign,
    Binary,
    Break,
    Continue,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Stmt,
    Var,
    While,
    boolean,
    i64,
)
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import rebuild_stmt, statements
from quantdsl.passes.once import unroll_once
from tests.codegen.programs import random_module
from tests.passes.test_passes import outcomes

N, SUM, K = Var("n"), Var("sum"), Var("k")
LESS = Binary("ilt", N, i64(3))


def turn(*body: Stmt, hi: int = 1) -> Module:
    """A loop of one turn over a sum."""
    loop = For("k", i64(0), i64(hi), body)
    whole = (Let("sum", I64_T, i64(0)), loop, Return(SUM))
    return Module((), (), (Func("f", (ParamDecl("n", I64_T),), I64_T, whole),), ("f",))


def add(what: Var) -> Stmt:
    return Assign(SUM, Binary("iadd", SUM, what))


def body_of(module: Module) -> tuple[Stmt, ...]:
    """What stands between the sum and its return."""
    return unroll_once(module).funcs[0].body[1:-1]


def test_a_turn_has_its_number():
    assert body_of(turn(add(K))) == (Assign(SUM, Binary("iadd", SUM, i64(0))),)


def test_what_follows_a_way_out_is_its_other_way():
    assert body_of(turn(If(LESS, (Break(),)), add(N))) == (If(LESS, (), (add(N),)),)
    ended = If(LESS, (add(N), Continue()), (add(K),))
    assert body_of(turn(ended, add(N))) == (
        If(LESS, (add(N),), (Assign(SUM, Binary("iadd", SUM, i64(0))), add(N))),
    )


def test_a_loop_that_would_be_copied_in_part_stays():
    inner = If(LESS, (Break(),))
    both = turn(If(boolean(True), (inner, add(N)), (inner,)), add(N))
    assert unroll_once(both) == both


def test_loops_of_more_turns_stay_and_those_of_nothing_go():
    assert unroll_once(turn(add(N), hi=2)) == turn(add(N), hi=2)
    idle = turn(If(LESS, (Break(),)), Let("x", I64_T, Binary("iadd", N, K)), hi=8)
    assert body_of(idle) == ()


@pytest.mark.parametrize("seed", [201, 202, 203, 204])
def test_random_programs_mean_the_same(seed):
    def once(stmt: Stmt) -> Stmt:
        stmt = rebuild_stmt(stmt, lambda expr: expr, once)
        return msgspec.structs.replace(stmt, hi=i64(1), lo=i64(0)) if is_for(stmt) else stmt

    module = random_module(seed, 20)
    funcs = tuple(
        msgspec.structs.replace(func, body=tuple(map(once, func.body))) for func in module.funcs
    )
    module = msgspec.structs.replace(module, funcs=funcs)
    made = unroll_once(module)
    verify(made)
    assert loops(made) < loops(module) / 2
    assert outcomes(made, seed) == outcomes(module, seed)


def is_for(stmt: Stmt) -> bool:
    return isinstance(stmt, For)


def loops(module: Module) -> int:
    """Loops over numbers, those in which others stand included."""
    inside = (stmt for func in module.funcs for stmt in statements(func.body))
    return sum(isinstance(stmt, For | While) and is_for(stmt) for stmt in inside)
