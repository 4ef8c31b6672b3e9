"""What stops a stride holds wherever it stops one of its turns."""

import itertools

import pytest

from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    I64_T,
    Assign,
    Binary,
    Break,
    Elem,
    If,
    Let,
    Unary,
    Var,
    i64,
)
from quantdsl.ir.show import show_node
from quantdsl.passes.changes import Kept, in_last_row, loosened
from quantdsl.passes.group import Group
from quantdsl.passes.rows import BASE, ROWS
from quantdsl.passes.straight import either, plain
from quantdsl.passes.stride import STRIDE_BITS, Stride, Sunk, sinks
from quantdsl.passes.turn import Turn

X, Y, U, V = map(Var, "xyuv")
ABOVE, BELOW = Binary("fgt", X, Y), Binary("flt", X, Y)
CROSSES = Binary("and", ABOVE, Binary("fle", U, V))
FALLS = Binary("and", BELOW, Binary("fge", U, V))
LAST = {"u": "x", "v": "y"}


def as_asked(cond, beside):
    return cond


def test_a_cross_is_asked_as_a_change():
    either = Binary("or", CROSSES, Binary("and", Unary("not", CROSSES), FALLS))
    made = show_node(loosened(either, LAST, as_asked))
    assert made == "or(xor(fgt(x, y), fgt(u, v)), xor(flt(x, y), flt(u, v)))"


def test_what_is_asked_beside_a_cross_is_told():
    asked, told = Var("asked"), []
    either = Binary("and", asked, Binary("or", CROSSES, FALLS))
    loosened(either, LAST, lambda cond, beside: told.append((cond.op, beside)) or cond)
    assert told == [("fgt", (asked,)), ("flt", (asked,))]


@pytest.mark.parametrize("words", range(1, 8))
def test_a_group_has_room_for_the_row_read_ahead_of_its_last_one(words):
    """Rows of which each has more words than the stride has of its own."""
    read = (Elem(Var(ROWS), Binary("iadd", Var(BASE), i64(k))) for k in range(words))
    body = tuple(Let(f"x{k}", I64_T, word) for k, word in enumerate(read))
    stride = Stride(body, bool, bool, bits=2)
    group = Group(stride)
    assert not stride.held
    assert group.words >= 4 * words + words


@pytest.mark.parametrize("last", [{}, {"u": "y", "v": "x"}, {"u": "x", "v": "x"}])
def test_what_was_something_else_in_the_last_row_stays(last):
    assert loosened(CROSSES, last, as_asked) == CROSSES


def test_a_loosened_condition_holds_where_the_given_one_does():
    """For every order of four numbers."""
    holds = {
        "fgt": lambda x, y: x > y, "flt": lambda x, y: x < y, "fle": lambda x, y: x <= y,
        "fge": lambda x, y: x >= y, "and": lambda x, y: x and y, "or": lambda x, y: x or y,
        "xor": lambda x, y: x != y,
    }  # fmt: skip

    def value(expr, known):
        match expr:
            case Var(name):
                return known[name]
            case Unary("not", x):
                return not value(x, known)
        return holds[expr.op](value(expr.x, known), value(expr.y, known))

    either = Binary("or", CROSSES, Binary("and", Unary("not", CROSSES), FALLS))
    loose, held = loosened(either, LAST, as_asked), 0
    for numbers in itertools.product(range(4), repeat=4):
        known = dict(zip("xyuv", numbers, strict=True))
        if value(either, known):
            held += 1
            assert value(loose, known)
    assert held > 50


def test_what_a_local_was_in_the_last_row():
    body = (Assign(U, Var("kept")), Assign(Var("kept"), X), Assign(V, X))
    assert in_last_row(body) == {"u": Kept("kept", "x")}


def test_truth_in_locals_is_asked_where_it_decides():
    asked, known = Var("asked"), Binary("ilt", X, Y)
    body = (
        Let("asked", BOOL_T, Binary("igt", X, Y)),
        Assign(asked, Binary("or", asked, known)),
        If(asked, (Break(),)),
        Assign(X, Y),
    )
    (branch, last) = plain(body)
    assert show_node(branch.cond) == "or(igt(x, y), ilt(x, y))"
    assert last == body[-1]


def test_truth_of_what_changes_since_stays_in_a_local():
    body = (Let("asked", BOOL_T, Binary("igt", X, Y)), Assign(X, Y), If(Var("asked"), (Break(),)))
    assert plain(body) == body


def lowering(other="peak"):
    value, word = Var("value"), Var("trough")
    new = If(Binary("ieq", word, Var(other)), (Assign(Var("since"), X),))
    down = If(Binary("ilt", value, word), (new, Assign(word, value)), (Assign(Var(other), value),))
    return If(Binary("or", Binary("ilt", value, word), Binary("ige", value, Y)), (down,))


def test_a_word_that_is_only_lowered_is_found():
    assert sinks(lowering(), "value", set()) == Sunk("trough", "imin", Var("peak"))
    assert sinks(lowering(), "value", {"peak"}) is None
    assert sinks(lowering(), "x", set()) is None


def word(number):
    return Elem(Var(ROWS), Binary("iadd", Var(BASE), i64(number)))


def test_a_level_that_rows_raise_is_asked_where_the_stride_takes_it():
    by = Binary("isub", word(2), Var("trail"))
    level = Binary("imax", Var("level"), by)
    body = (
        If(Binary("ile", word(1), level), (Break(),)),
        Assign(Var("level"), Binary("imax", Var("level"), by)),
    )
    stride = Turn(body, {"level": "i64"}, set(), STRIDE_BITS).stride
    assert stride is not None
    assert stride.turn == ()
    beyond, touched = map(show_node, stride.tests)
    assert touched == (
        "ile(tile[iadd(group@, 0)], imax(imax(level, isub(tile[iadd(group@, 1)], trail)), "
        "isub(tile[iadd(group@, 1)], trail)))"
    )
    assert beyond == "ine(tile[iadd(group@, 2)], 0)"
    assert [(held.op, held.expr) for held in stride.held][:2] == [
        ("imin", word(1)),
        ("imax", word(2)),
    ]
    (after,) = stride.after
    assert show_node(after.value) == "imax(level, isub(tile[iadd(group@, 1)], trail))"
    assert stride.by_row == [body[1]]


def crossings(*asked):
    """A turn that is not usual where one of these has become so."""
    ways = {
        "above": Binary("and", Binary("fgt", X, Y), Binary("fle", U, V)),
        "below": Binary("and", Binary("flt", X, Y), Binary("fge", U, V)),
    }
    kept, other = Var("kept"), Var("other")
    body = (
        Assign(U, kept),
        Assign(V, other),
        Let("x", F64_T, Binary("fadd", kept, Unary("from_bits", word(1)))),
        Let("y", F64_T, Binary("fadd", other, Unary("from_bits", word(2)))),
        If(either(ways[way] for way in asked), (Break(),)),
        Assign(kept, X),
        Assign(other, Y),
    )
    words = dict.fromkeys(("kept", "other", "u", "v"), F64_T)
    return Turn(body, words, {"u", "v"}, STRIDE_BITS).stride


def test_a_crossing_either_way_is_asked_by_how_all_rows_compare():
    stride = crossings("above", "below")
    noted = [show_node(stmt.value) for stmt in stride.turn[4:6]]
    assert noted == [
        "and(always.begun.0@, fgt(x, y))",
        "and(always.begun.1@, flt(x, y))",
    ]
    assert show_node(stride.stopped()) == (
        "or(stops@, not(or(and(begun.0@, always.begun.0@), and(begun.1@, always.begun.1@))))"
    )


@pytest.mark.parametrize("again", ["above", "below"])
def test_a_crossing_that_is_asked_twice_is_asked_once(again):
    assert crossings("above", "below", again).turn == crossings("above", "below").turn
