"""Each pass over lanes on programs small enough to read."""

import numpy as np
import pytest

from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import (
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
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    StructDecl,
    StructType,
    Unary,
    Var,
    boolean,
    i64,
)
from quantdsl.ir.show import show_node
from quantdsl.ir.verify import verify
from quantdsl.passes.cold import outline_cold
from quantdsl.passes.dead import drop_dead
from quantdsl.passes.inline import inline_hot
from quantdsl.passes.promote import promote_words
from quantdsl.passes.returns import without_returns
from quantdsl.passes.rows import ROW_WORDS, split_rows
from quantdsl.passes.sink import sink_values
from quantdsl.passes.split import split_structs
from quantdsl.passes.uniform import uniform

STATE, PAIR = StructType("S"), StructType("P")
STRUCTS = (
    StructDecl("P", (FieldDecl("a", "i64"), FieldDecl("b", "i64"))),
    StructDecl(
        "S",
        (
            *(FieldDecl(name, "i64") for name in ("x", "y", "p1", "t")),
            FieldDecl("xs", ArrayType("i64", 4)),
            FieldDecl("u", PAIR),
            FieldDecl("ps", ArrayType(PAIR, 4)),
        ),
    ),
)
s, k, n = Var("s"), Var("k"), Var("n")
INOUT = ParamDecl("s", STATE, inout=True)


def field(name):
    return Field(s, name)


def add(place, value):
    return Assign(place, Binary("iadd", place, value))


def event(k_=k):
    return Elem(Var("events"), k_)


def lane(*body, funcs=()):
    """A module with one loop over events, each an i64."""
    params = (
        INOUT,
        ParamDecl("events", BufferType("i64")),
        ParamDecl("n", "i64"),
    )
    loop = For("k", i64(0), n, body)
    module = Module(STRUCTS, (), (*funcs, Func("lane", params, None, (loop,))), ("lane",))
    verify(module)
    return module


def body_of(module, name="lane"):
    verify(module)
    return next(show_node(func) for func in module.funcs if func.name == name)


def left(module, events=(3, -1, 4, 1, -5, 9), words=(1, 2, 3, 4)):
    """The state after some events."""
    state = np.array([*words, *range(14)], np.int64)
    Interpreter(module).call("lane", state, np.array(events, np.int64), len(events))
    return state.tolist()


def cold(name, *body, params=(), result=None):
    return Func(name, (INOUT, *params), result, body, cold=True)


# ---- inline and returns ---------------------------------------------------------------------


def search(*, inner_loop):
    """Returns from inside loops, and before the end of a branch."""
    found = If(Binary("ieq", Elem(field("xs"), Var("i")), Var("v")), (Return(Var("i")),))
    body = (For("j", i64(0), i64(2), (found, add(field("y"), i64(1)))),) if inner_loop else (found,)
    return Func(
        "search",
        (INOUT, ParamDecl("v", "i64")),
        "i64",
        (
            If(Binary("ilt", Var("v"), i64(0)), (add(field("t"), i64(1)), Return(i64(-1)))),
            For("i", i64(0), i64(4), (*body, add(field("y"), i64(10)))),
            add(field("y"), i64(100)),
            Return(i64(-2)),
        ),
    )


@pytest.mark.parametrize("inner_loop", [False, True])
def test_a_body_without_returns_does_the_same(inner_loop):
    func = search(inner_loop=inner_loop)
    lowered, value = without_returns(func)
    assert "return" not in "".join(map(show_node, lowered))
    assert value == Var("result@")
    call = Let("r", "i64", Call("search", (s, event())))
    module = lane(call, add(field("x"), Var("r")), funcs=(func,))
    inlined = inline_hot(module, "lane")
    assert "search" not in body_of(inlined)
    assert left(inlined) == left(module)


def test_a_place_is_chosen_when_the_call_begins():
    """The callee changes the index that its argument was chosen by."""
    callee = Func(
        "f",
        (INOUT, ParamDecl("e", PAIR, inout=True), ParamDecl("v", "i64")),
        None,
        (Assign(field("x"), Var("v")), Assign(Field(Var("e"), "a"), Var("v"))),
    )
    at = Binary("iand", field("x"), i64(3))
    module = lane(Do(Call("f", (s, Elem(field("ps"), at), event()))), funcs=(callee,))
    inlined = inline_hot(module, "lane")
    assert "at@" in body_of(inlined)
    assert left(inlined) == left(module)


# ---- split, cold, sink ----------------------------------------------------------------------


def test_a_local_struct_becomes_scalars_unless_a_call_has_it():
    taker = Func("take", (ParamDecl("e", PAIR),), "i64", (Return(Field(Var("e"), "b")),))
    make = Let("q", PAIR, field("u"))
    change = add(Field(Var("q"), "a"), event())
    back = Assign(field("u"), Var("q"))
    assert "q.a" in body_of(split_structs(lane(make, change, back), "lane"))
    given = Let("r", "i64", Call("take", (Var("q"),)))
    module = lane(make, change, given, back, funcs=(taker,))
    split = split_structs(module, "lane")
    assert "let q: P" in body_of(split)
    assert left(split) == left(module)


ASKED = Binary("igt", event(), i64(2))
RARE = cold("rare", add(field("x"), Var("v")), params=(ParamDecl("v", "i64"),))


def test_a_branch_that_is_certain_to_call_cold_code_moves_out():
    late = Let("twice", "i64", Binary("imul", event(), i64(2)))
    branch = If(ASKED, (late, Do(Call("rare", (s, Var("twice"))))))
    module = lane(branch, funcs=(RARE,))
    made = outline_cold(module, "lane")
    assert "do cold.0(s, events[k])" in body_of(made)
    assert "imul" in body_of(made, "cold.0")
    assert left(made) == left(module)


def test_a_branch_that_may_call_cold_code_stays():
    inner = If(Binary("igt", field("x"), i64(5)), (Do(Call("rare", (s, i64(1)))),))
    module = lane(If(ASKED, (add(field("y"), i64(1)), inner)), funcs=(RARE,))
    assert outline_cold(module, "lane") == module


@pytest.mark.parametrize("results", [1, 2])
def test_a_cold_branch_gives_back_one_value_but_not_two(results):
    names = [f"r{number}" for number in range(results)]
    call = Do(Call("rare", (s, i64(1))))
    module = lane(
        *(Let(name, "i64", i64(0)) for name in names),
        If(ASKED, (call, *(Assign(Var(name), event()) for name in names))),
        *(add(field("y"), Var(name)) for name in names),
        funcs=(RARE,),
    )
    made = outline_cold(module, "lane")
    assert ("r0 = cold.0(" in body_of(made)) == (results == 1)
    assert left(made) == left(module)


def test_neighbours_on_one_condition_are_one_branch():
    call = Do(Call("rare", (s, i64(1))))
    module = lane(If(ASKED, (add(field("y"), event()),)), If(ASKED, (call,)), funcs=(RARE,))
    made = outline_cold(module, "lane")
    assert body_of(made).count("if ") == 1
    assert "iadd(s.y, " in body_of(made, "cold.0")
    assert left(made) == left(module)
    asked = Binary("igt", field("y"), i64(2))
    module = lane(If(asked, (add(field("y"), event()),)), If(asked, (call,)), funcs=(RARE,))
    assert outline_cold(module, "lane") == module


def test_a_value_sinks_to_the_branches_that_use_it_but_not_past_what_changes_it():
    value = Let("v", "i64", Binary("imul", field("x"), i64(3)))
    used = (add(field("y"), Var("v")),)
    chain = If(ASKED, used, (If(Binary("ilt", event(), i64(0)), used),))
    module = lane(value, chain)
    text = body_of(sink_values(module, "lane")).splitlines()
    assert [line.strip() for line in text[2:4]] == ["if igt(events[k], 2)", text[3].strip()]
    assert text[3].strip().startswith("let v")
    assert left(sink_values(module, "lane")) == left(module)
    moved = lane(value, add(field("x"), i64(1)), chain)
    assert sink_values(moved, "lane") == moved


# ---- promote and dead -----------------------------------------------------------------------


def test_a_call_sees_what_was_changed_and_its_changes_are_seen():
    """It is given one object twice."""
    callee = Func(
        "both",
        (ParamDecl("a", PAIR, inout=True), ParamDecl("b", PAIR, inout=True)),
        None,
        (add(Field(Var("a"), "a"), i64(1)), add(Field(Var("b"), "b"), Field(Var("a"), "a"))),
        inline=False,
    )
    u_a, u_b = Field(field("u"), "a"), Field(field("u"), "b")
    module = lane(
        add(u_a, event()),
        Do(Call("both", (field("u"), field("u")))),
        add(field("x"), u_b),
        funcs=(callee,),
    )
    made = promote_words(module, "lane")
    text = body_of(made)
    assert "s.u.a = u.a@s" in text
    assert "u.b@s = s.u.b" in text
    assert left(made) == left(module)


def test_a_word_that_an_index_may_reach_stays_in_memory():
    at = Elem(field("xs"), Binary("iand", event(), i64(3)))
    module = lane(add(at, i64(1)), add(Elem(field("xs"), i64(2)), i64(5)), add(field("x"), i64(1)))
    made = promote_words(module, "lane")
    assert "xs[2]@s" not in body_of(made)
    assert "x@s" in body_of(made)
    assert left(made) == left(module)


def test_what_only_its_own_next_value_is_made_of_is_dropped():
    module = promote_words(lane(add(field("x"), event()), add(field("y"), field("t"))), "lane")
    dropped = body_of(drop_dead(module, "lane", frozenset({"x"})))
    assert "x@s" in dropped
    assert "y@s" not in dropped
    assert "t@s" not in dropped
    assert "y@s" in body_of(drop_dead(module, "lane", frozenset({"x", "y"})))


def test_what_a_call_reads_is_kept():
    reads = cold("reads", add(field("x"), field("y")))
    module = lane(add(field("y"), event()), Do(Call("reads", (s,))), funcs=(reads,))
    kept = drop_dead(promote_words(module, "lane"), "lane", frozenset({"x"}))
    assert "s.y = y@s" in body_of(kept)


# ---- uniform and rows -----------------------------------------------------------------------

DIFFERS = Binary("igt", event(), field("p1"))


@pytest.mark.parametrize(
    ("body", "same"),
    [
        ((add(field("x"), event()),), True),
        ((add(field("x"), field("p1")),), False),
        ((If(DIFFERS, (add(field("x"), i64(1)),)),), False),
        ((If(DIFFERS, (add(field("y"), i64(1)),)), add(field("x"), i64(1))), True),
        ((If(DIFFERS, (Continue(),)), add(field("x"), i64(1))), False),
        ((If(ASKED, (Continue(),)), add(field("x"), i64(1))), True),
        ((If(DIFFERS, (Break(),)), add(field("x"), i64(1))), False),
        ((Assign(Elem(field("xs"), i64(1)), field("p1")),
          add(field("x"), Elem(field("xs"), i64(0)))), True),
        ((Assign(Elem(field("xs"), Binary("iand", field("p1"), i64(3))), event()),
          add(field("x"), Elem(field("xs"), i64(0)))), False),
    ],
)  # fmt: skip
def test_a_word_is_shared_until_something_that_differs_reaches_it(body, same):
    module = lane(*body)
    assert uniform(module, "lane", frozenset({"p1"})).place(field("x")) == same
    promoted = promote_words(module, "lane")
    assert ("x@s" in uniform(promoted, "lane", frozenset({"p1"})).locals) == same


@pytest.mark.parametrize("differs", [False, True])
def test_a_call_is_followed_where_all_lanes_come_by(differs):
    steps = cold("steps", add(field("x"), i64(1)), add(field("y"), field("p1")))
    module = lane(If(DIFFERS if differs else ASKED, (Do(Call("steps", (s,))),)), funcs=(steps,))
    shared = uniform(module, "lane", frozenset({"p1"}))
    assert shared.place(field("x")) != differs
    assert not shared.place(field("y"))


def rows_left(module, split, events, p1):
    """The results of lanes over events, and over rows that a lane with another p1 made."""
    width = dict(split.sizes)[ROW_WORDS]
    words = np.array(events, np.int64)
    out = np.full((len(events) + 1) * width, 77, np.int64)
    maker, state = (np.array([1, 2, value, 4, *range(14)], np.int64) for value in (p1 + 1, p1))
    runner = Interpreter(split)
    count = runner.call("rows", maker, words, len(events), out)
    runner.call("lane", state, out, count)
    return count, state.tolist(), left(module, events, (1, 2, p1, 4))


EVENTS = (3, -1, 4, 1, -5, 9, 2, 6)


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ((If(ASKED, (Continue(),)), add(field("x"), field("p1")), add(field("y"), event())), 4),
        ((add(field("t"), event()), If(Binary("igt", field("t"), field("p1")),
                                       (add(field("x"), field("t")),))), 8),
        ((If(ASKED, (add(field("x"), Binary("imul", event(), field("p1"))),),
             (add(field("y"), event()),)),), 8),
        ((For("j", i64(0), i64(3), (add(field("t"), Var("j")),
                                    add(field("x"), Binary("imul", field("t"), field("p1"))))),
          add(field("y"), field("t"))), 8),
        ((If(ASKED, (add(field("t"), event()),), (add(field("x"), field("t")),
                                                  add(field("x"), field("p1")))),
          add(field("y"), Binary("imul", field("t"), field("p1")))), 8),
        ((Let("c", "bool", Unary("not", ASKED)), If(Var("c"), (Break(),)),
          add(field("x"), field("p1"))), 2),
        ((Let("go", "bool", boolean(True)), If(Binary("ieq", event(), field("p1")),
                                              (Assign(Var("go"), boolean(False)),)),
          If(Var("go"), (add(field("x"), event()),))), 8),
    ],
)  # fmt: skip
def test_lanes_over_rows_do_what_they_did_over_events(body, rows):
    kept = frozenset({"x", "y", "t", "xs", "u"})
    module = lane(*body)
    split = split_rows(promote_words(module, "lane"), "lane", kept, frozenset({"p1"}))
    verify(split)
    dropped = drop_dead(drop_dead(split, "rows", frozenset()), "lane", kept)
    for p1 in (-1, 0, 3):
        for made in (split, dropped):
            count, found, expected = rows_left(module, made, EVENTS, p1)
            assert count == rows
            assert found == expected


def test_an_entry_that_is_more_than_a_loop_is_not_split():
    module = lane(add(field("x"), event()))
    func = module.funcs[-1]
    more = Func(func.name, func.params, None, (*func.body, add(field("y"), i64(1))))
    module = Module(module.structs, (), (more,), ("lane",))
    assert split_rows(module, "lane", frozenset({"x"}), frozenset({"p1"})) is module
