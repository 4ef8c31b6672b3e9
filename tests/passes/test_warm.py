"""Tiles of bars in a straight line: the same words, whatever a lane begins with and sees."""

import itertools
import re

import numpy as np
import pytest

from quantdsl.check.panel_tiles import TILE, in_tiles, tiled
from quantdsl.check.panel_words import READ, at
from quantdsl.ir import ops
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import Assign, Binary, Elem, Field, If, Let, Select, Stmt, Unary, Var, f64, i64
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import nodes_in, statements
from quantdsl.passes.warm import is_line, split_warm

S, K = Var("s"), Var("k")
LEN = 5
BLOCK = 18
BESIDE = TILE - 1
"""Bars of a tile in a line beside one at which a block ends."""
BARS_MAX = 64
WORDS = ("seen", "mean", "place", "begun", "sum", "skipped")
FLOATS = ("mean", "begun", "sum")
STATE = ops.StructDecl("State", (
    *(ops.FieldDecl(name, ops.F64_T if name in FLOATS else ops.I64_T) for name in WORDS),
    ops.FieldDecl("span", ops.I64_T),
    ops.FieldDecl("kept", ops.ArrayType(ops.F64_T, BLOCK)),
))  # fmt: skip
PARAMS = (
    ops.ParamDecl("s", ops.StructType("State"), inout=True),
    ops.ParamDecl("own", ops.BufferType(ops.I64_T), inout=True),
    ops.ParamDecl("n", ops.I64_T),
)
SEEN, MEAN, PLACE, BEGUN, SUM, SKIPPED = (Var(f"{name}@s") for name in WORDS)
X, HERE = Var("x"), Var("here")
KEPT = Field(S, "kept")


def more(local: Var) -> Stmt:
    return Assign(local, Binary("iadd", local, i64(1)))


def average() -> list[Stmt]:
    """One that waits for LEN values, and leaves out those that are missing."""
    nearer = ops.Fma(f64(0.25), Binary("fsub", X, MEAN), MEAN)
    begins = Assign(MEAN, Binary("fadd", MEAN, Binary("fdiv", X, f64(float(LEN)))))
    return [
        If(Binary("fle", Unary("fabs", X), f64(1e100)), (
            more(SEEN),
            If(Binary("ile", SEEN, i64(LEN)), (begins,), (Assign(MEAN, nearer),)),
        )),
    ]  # fmt: skip


def blocks(*, end: Stmt | None = None) -> list[Stmt]:
    """A sum of what came since a block began, beside what was kept of the one before."""
    place = Binary("imin", Binary("imax", PLACE, i64(0)), i64(BLOCK - 1))
    loop = ops.For("j", i64(0), i64(BLOCK), (
        Assign(Elem(KEPT, Var("j")), Binary("fmul", Elem(KEPT, Var("j")), f64(0.5))),
    ))  # fmt: skip
    ends = (loop, Assign(BEGUN, f64(0.0)), end or Assign(PLACE, i64(0)))
    return [
        Let(HERE.name, ops.I64_T, place),
        Let("before", ops.F64_T, Elem(KEPT, HERE)),
        Assign(Elem(KEPT, HERE), X),
        Assign(BEGUN, Binary("fadd", BEGUN, X)),
        more(PLACE),
        If(Binary("ieq", PLACE, i64(BLOCK)), ends),
        Assign(SUM, Binary("fadd", BEGUN, Var("before"))),
    ]


def module(*body: Stmt) -> ops.Module:
    """A lane that tells average and sum of a column, from the bars on that are not skipped."""
    warm = Select(Binary("ige", SEEN, i64(LEN)), MEAN, f64(np.nan))
    both = Let("both", ops.F64_T, Binary("fadd", warm, SUM))
    told = (both, Assign(at(READ, 1), Unary("bits", Var(both.name))))
    stmts = [
        Let("at", ops.I64_T, K),
        Let(X.name, ops.F64_T, Unary("from_bits", tiled("x"))),
        *body,
        If(Binary("ige", K, SKIPPED), told),
    ]
    words = [Var(f"{name}@s") for name in WORDS]
    fields = [Field(S, name) for name in WORDS]
    types = [field.type for field in STATE.fields]
    lets = [
        Let(word.name, type_, field)
        for word, type_, field in zip(words, types, fields, strict=False)
    ]
    ends = [Assign(field, word) for word, field in zip(words, fields, strict=True)]
    whole = (*lets, *in_tiles({"x": 0}, lambda bar: bar, stmts), *ends)
    return ops.Module((STATE,), (), (ops.Func("lane", PARAMS, None, whole),), ("lane",))


def straight(made: ops.Module) -> int:
    """The bars that stand in a line."""
    names = [s.name for s in statements(made.funcs[0].body) if isinstance(s, Let)]
    return sum(name.startswith("bar") and name.endswith(".turn") for name in names)


def hold(old: ops.Module, made: ops.Module) -> None:
    """Both leave the same words, from states of any age and over any number of bars."""
    verify(made)
    random = np.random.default_rng(3)
    for n, seen, place, skipped in itertools.product(
        (0, 1, 3, 4, 7, 41), (0, LEN, LEN + 1), (0, 1, BLOCK - 5, BLOCK - 1), (0, 2, 9)
    ):
        column = random.normal(size=BARS_MAX)
        column[random.random(BARS_MAX) < 0.1] = np.nan
        state = np.zeros(len(WORDS) + 1 + BLOCK, np.int64)
        floats = state.view(np.float64)
        state[[0, 2, 5, 6]] = seen, place, skipped, BARS_MAX
        floats[[1, 3, 4]] = random.normal(size=3)
        floats[7:] = random.normal(size=BLOCK)
        left = []
        for one in (old, made):
            words, own = state.copy(), np.zeros(2 * BARS_MAX, np.int64)
            own[:BARS_MAX] = column.view(np.int64)
            Interpreter(one).call("lane", words, own, n)
            left.append((words.tobytes(), own.tobytes()))
        assert left[0] == left[1], (n, seen, place, skipped)


def test_an_average_stands_in_a_line_once_it_has_seen_enough() -> None:
    old = module(*average())
    made = split_warm(old, "lane")
    assert straight(made) == TILE
    hold(old, made)


def test_blocks_stand_in_a_line_where_none_ends() -> None:
    """And those beside one that ends; places in a block are known to lie in it."""
    old = module(*average(), *blocks())
    made = split_warm(old, "lane")
    assert straight(made) == TILE + BESIDE
    lets = [s for s in statements(made.funcs[0].body) if isinstance(s, Let)]
    places = [one.value for one in lets if re.fullmatch(rf"bar\d\.{HERE.name}", one.name)]
    assert places == [PLACE] * (TILE + BESIDE)
    hold(old, made)


def test_bars_that_are_not_told_need_not_be_warm() -> None:
    """What is told alone asks for a state that has seen enough."""
    made = split_warm(module(*blocks()), "lane")
    lines = [s for s in statements(made.funcs[0].body) if isinstance(s, If) and is_line(s.then)]
    asked = Binary("igt", SEEN, i64(LEN))
    conds = [list(nodes_in(line.cond)) for line in lines]
    assert [asked in cond for cond in conds] == [False, False]  # nothing counts what is seen
    made = split_warm(module(more(SEEN), *blocks()), "lane")
    lines = [s for s in statements(made.funcs[0].body) if isinstance(s, If) and is_line(s.then)]
    for line in lines:
        either = [n for n in nodes_in(line.cond) if isinstance(n, Binary) and n.y == asked]
        assert [(n.op, type(n.x)) for n in either] == [("or", Unary)]
    hold(module(more(SEEN), *blocks()), made)


def named(counter: Var) -> list[Stmt]:
    """A question about a local that is one that is a counter, as functions that are copied ask."""
    return [
        Let("once", ops.I64_T, counter),
        Let("twice", ops.I64_T, Var("once")),
        If(Binary("ile", Var("twice"), i64(LEN)), (Assign(MEAN, X),)),
    ]


COUNTING = {
    "begins elsewhere": (TILE + BESIDE, blocks(end=Assign(PLACE, i64(7)))),
    "counts twice": (0, [*blocks(), If(Binary("flt", X, f64(0.0)), (more(PLACE),))]),
    "a bound that grows": (
        TILE,
        [*average(), If(Binary("ile", SEEN, PLACE), (Assign(MEAN, X), more(PLACE)))],
    ),
    "begins anew": (
        TILE,
        [*average(), If(Binary("flt", X, f64(-1.0)), (Assign(SEEN, i64(0)),))],
    ),
    "a counter by other names": (TILE, [*average(), *named(SEEN)]),
    "bars by other names": (TILE, [*average(), *named(K)]),
}


@pytest.mark.parametrize("case", COUNTING)
def test_whatever_counts(case: str) -> None:
    """Counters that are none, or not all the way, or have other names."""
    bars, body = COUNTING[case]
    old = module(*body)
    made = split_warm(old, "lane")
    assert straight(made) == bars
    hold(old, made)


def test_what_loops_or_stores_under_a_condition_stays() -> None:
    loop = ops.For("j", i64(0), i64(BLOCK), (Assign(SUM, Binary("fadd", SUM, X)),))
    for stmt in (loop, If(Binary("flt", X, f64(0.0)), (Assign(Elem(KEPT, i64(0)), X),))):
        old = module(*average(), stmt)
        assert split_warm(old, "lane") == old


def test_what_is_told_is_stored_in_order() -> None:
    """A local behind a store may be of what that stored."""
    kept = [Elem(KEPT, i64(n)) for n in range(2)]
    told = (Assign(kept[0], X), Let("y", ops.F64_T, kept[0]), Assign(kept[1], Var("y")))
    old = module(*average(), If(Binary("ige", K, SKIPPED), told))
    hold(old, split_warm(old, "lane"))


def test_what_would_be_done_in_vain_stays() -> None:
    """Square roots in a row, where hardly any bar needs them."""
    deep: ops.Expr = X
    for _ in range(4):
        deep = Unary("sqrt", deep)
    old = module(If(Binary("flt", X, f64(-2.0)), (Assign(SUM, deep),)))
    assert split_warm(old, "lane") == old


def test_long_bars_stay() -> None:
    """A tile has four copies of a bar."""
    more_ = [Assign(SUM, Binary("fadd", Binary("fmul", SUM, X), MEAN)) for _ in range(600)]
    assert straight(split_warm(module(*average(), *more_[:100]), "lane")) == TILE
    old = module(*average(), *more_)
    assert split_warm(old, "lane") == old
