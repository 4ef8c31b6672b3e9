"""Straight tiles that are tried: the same words, whether a tile is kept or made bar by bar."""

import msgspec
import pytest

from quantdsl.check.panel_tiles import TILE, tiled
from quantdsl.check.panel_words import READ, at
from quantdsl.ir import ops
from quantdsl.ir.ops import Assign, Binary, Call, Elem, Field, If, Let, Stmt, Unary, Var, f64, i64
from quantdsl.ir.walk import expressions, rebuild_body, rebuild_stmt, statements
from quantdsl.passes.divide import divide_by_reciprocals
from quantdsl.passes.short import QUOTIENT, ROOT, WORD
from quantdsl.passes.tried import ASKED, DONE, try_straight
from quantdsl.passes.warm import split_warm
from tests.passes.test_warm import (
    BEGUN,
    BLOCK,
    KEPT,
    MEAN,
    PLACE,
    STATE,
    SUM,
    X,
    average,
    blocks,
    hold,
    module,
)


def tried(old: ops.Module) -> ops.Module:
    """A module as a GPU has it."""
    return try_straight(divide_by_reciprocals(split_warm(old, "lane"), "lane"), "lane")


def is_tried(made: ops.Module) -> bool:
    lane = next(func for func in made.funcs if func.name == "lane")
    names = [one.name for one in statements(lane.body) if isinstance(one, Let)]
    return any(name.endswith(f".{DONE}") for name in names)


def ratio() -> list[Stmt]:
    """Quotients and a root of what a lane has; the root is 0 now and then."""
    root = Unary("sqrt", Binary("fmax", MEAN, f64(0.0)))
    return [
        Assign(SUM, Binary("fdiv", Binary("fadd", SUM, f64(1.0)), f64(3.0))),
        Assign(SUM, Binary("fmin", Binary("fadd", SUM, Binary("fdiv", X, root)), f64(9.0))),
    ]


def test_what_was_not_right_is_made_bar_by_bar() -> None:
    """Columns have missing values, and means are below 0, so that roots are 0."""
    old = module(*average(), *ratio())
    made = tried(old)
    assert is_tried(made)
    lane = next(func for func in made.funcs if func.name == "lane")
    called = [one.func for one in expressions(lane.body) if isinstance(one, Call)]
    assert {QUOTIENT, ROOT} <= set(called)
    hold(old, made)


def test_stores_wait_for_the_end_of_the_tile() -> None:
    old = module(*average(), *blocks(), *ratio())
    made = tried(old)
    assert is_tried(made)
    hold(old, made)


def ring(behind: int, places: int = 16) -> list[Stmt]:
    """What was kept some bars ago, in a ring: an element a bar."""
    at = Binary("iand", PLACE, i64(places - 1))
    ago = Binary("iand", Binary("isub", PLACE, i64(behind)), i64(places - 1))
    return [
        Assign(Elem(KEPT, at), X),
        Assign(SUM, Binary("fdiv", Elem(KEPT, ago), f64(7.0))),
        Assign(PLACE, Binary("iadd", PLACE, i64(1))),
    ]


@pytest.mark.parametrize(("behind", "waits"), [(0, False), (2, False), (5, True), (16, False)])
def test_a_word_that_waits_is_not_read(behind: int, waits: bool) -> None:
    """Of a ring that is read where this tile has stored nothing is tried; another is not."""
    old = module(*ring(behind))
    made = tried(old)
    assert is_tried(made) == waits
    hold(old, made)


def unknown() -> list[Stmt]:
    """A place that nobody knows."""
    place = Binary("imin", Binary("imax", Unary("f64_to_i64", X), i64(0)), i64(BLOCK - 1))
    return [
        Let("somewhere", ops.I64_T, place),
        Assign(Elem(KEPT, Var("somewhere")), X),
        Assign(SUM, Binary("fdiv", Elem(KEPT, i64(1)), f64(7.0))),
    ]


def test_what_cannot_wait_is_left() -> None:
    inner = If(Binary("flt", X, f64(0.0)), (Assign(Elem(KEPT, i64(0)), X),))
    for body in (unknown(), [*ratio(), inner]):
        old = module(*average(), *body)
        made = tried(old)
        assert not is_tried(made)
        hold(old, made)


@pytest.mark.parametrize("writes", [True, False])
def test_what_calls_is_left(writes: bool) -> None:
    """A function would change what stays, or read what waits."""
    first = Elem(Field(Var("t"), "kept"), i64(0))
    more = Assign(first, Binary("fadd", first, f64(1.0)))
    params = (ops.ParamDecl("t", ops.StructType("State"), inout=writes),)
    body = (*[more] * writes, ops.Return(first))
    func = ops.Func("asked", params, ops.F64_T, body, inline=False)
    kept = Assign(Elem(KEPT, i64(0)), X)
    asks = Let("answer", ops.F64_T, Call(func.name, (Var("s"),)))
    sums = Assign(SUM, Binary("fadd", SUM, Var("answer")))
    old = module(*average(), *[kept] * (not writes), asks, sums, *ratio())
    old = msgspec.structs.replace(old, funcs=(func, *old.funcs))
    made = tried(old)
    assert not is_tried(made)
    hold(old, made)


ROW = ops.StructDecl("Row", (ops.FieldDecl("words", ops.ArrayType(ops.F64_T, BLOCK)),))


def in_rows(*body: Stmt) -> ops.Module:
    """A module whose lane keeps rows of words, of which there is one; `which` tells it."""
    rows = ops.FieldDecl("kept", ops.ArrayType(ops.StructType(ROW.name), 1))
    fields = (rows if one.name == rows.name else one for one in STATE.fields)
    which = Let("which", ops.I64_T, Binary("iand", PLACE, i64(0)))
    old = module(which, *body, *ratio())
    state = msgspec.structs.replace(STATE, fields=tuple(fields))
    return msgspec.structs.replace(old, structs=(ROW, state))


def test_an_array_may_be_named_in_two_ways() -> None:
    """A word that waits is that of a row that nobody knows."""
    known, some = (Elem(Field(Elem(KEPT, at), "words"), i64(0)) for at in (i64(0), Var("which")))
    old = in_rows(Assign(known, X), Assign(SUM, some))
    made = tried(old)
    assert not is_tried(made)
    hold(old, made)


def test_whole_rows_do_not_wait() -> None:
    old = in_rows(Assign(Elem(KEPT, Var("which")), Elem(KEPT, i64(0))))
    made = tried(old)
    assert not is_tried(made)
    hold(old, made)


def test_without_a_question_there_is_nothing_to_try() -> None:
    old = module(Assign(SUM, Binary("fadd", SUM, X)))
    assert tried(old) == split_warm(old, "lane")


def test_the_doubles_are_kept_from_the_lane() -> None:
    """A tile that is not kept has changed nothing: a mutant that commits at once is seen."""
    old = module(*average(), *ratio())
    made = tried(old)
    lane = next(func for func in made.funcs if func.name == "lane")
    broken = ops.Func("lane", lane.params, None, _always(lane.body))
    funcs = tuple(broken if func.name == "lane" else func for func in made.funcs)
    with pytest.raises(AssertionError):
        hold(old, ops.Module(made.structs, made.tables, funcs, made.entries))


def _always(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """With all that is tried kept, right or not."""

    def stmt(one: Stmt) -> Stmt:
        if isinstance(one, If) and isinstance(one.cond, Var) and "sure" in one.cond.name:
            return If(ops.boolean(True), one.then)
        return rebuild_stmt(one, lambda expr: expr, stmt)

    return rebuild_body(body, stmt)


def average_of(x: ops.Expr) -> list[Stmt]:
    """An average of the last numbers, and a part of it that is told."""
    more = Binary("fmul", Binary("fsub", x, MEAN), Binary("fdiv", f64(2.0), f64(13.0)))
    part = Binary("fdiv", MEAN, f64(3.0))
    told = Assign(at(READ, 1), Unary("bits", part))
    return [Assign(MEAN, Binary("fadd", MEAN, more)), told]


@pytest.mark.parametrize("scale", [1.0, 1e95, 1e200], ids=["small", "large", "huge"])
def test_what_lanes_keep_is_asked_once_how_large_it_is(scale: float) -> None:
    """Then nothing that is told may be missing; where it is too large bars are made one by one."""
    level = Binary("fmul", Unary("i64_to_f64", tiled("x")), f64(scale / 2.0**62))
    old = module(*average_of(level))
    made = tried(old)
    assert is_tried(made)
    lane = next(func for func in made.funcs if func.name == "lane")
    known = [one for one in expressions(lane.body) if isinstance(one, Call) and one.func == WORD]
    assert len(known) == TILE
    hold(old, made)


def test_what_may_stay_missing_is_not_asked() -> None:
    """A number that a bar may leave as it is could be missing for good, and no tile be kept."""
    level = Unary("i64_to_f64", tiled("x"))
    stays = Assign(BEGUN, ops.Select(Binary("flt", level, f64(0.0)), level, BEGUN))
    for first, asked in ((stays, {MEAN.name}), (Assign(BEGUN, MEAN), {MEAN.name})):
        made = tried(module(first, *average_of(level)))
        lane = next(func for func in made.funcs if func.name == "lane")
        names = {
            node.x.x.name.removeprefix("tried.bar0.")
            for node in expressions(lane.body)
            if isinstance(node, Binary) and node.y == f64(2.0**ASKED)
        }
        assert names == asked
