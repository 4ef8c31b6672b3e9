"""What is known of a whole program is put in its place, and the program does what it did."""

import random

import msgspec
import numpy as np
import pytest

from quantdsl.check import compile_file
from quantdsl.ir.interp import Interpreter
from quantdsl.ir.layout import Layout
from quantdsl.ir.link import link
from quantdsl.ir.ops import (
    Assign,
    Binary,
    Call,
    Do,
    Field,
    Func,
    Given,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Select,
    StructType,
    Var,
    i64,
)
from quantdsl.ir.show import show_node
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import expressions
from quantdsl.passes import constants, known, possible
from quantdsl.passes.known import settle_known
from quantdsl.shipped import shipped
from tests.passes.known_programs import STRUCTS, S, few_values

GIVEN = ("w0", "ps")
"""What the host writes of the state of a random program."""
CALLS = 8
s, n = Var("s"), Var("n")
LINE, PAIR = (ParamDecl("n", "i64"),), StructType("P")
STATE = ParamDecl("s", S, inout=True)


def differs(seed: int) -> bool:
    """Whether a program does something else once settled, in calls on one memory."""
    module = msgspec.structs.replace(few_values(seed), given=Given(GIVEN, ("e0", "e1")))
    settled = settle_known(module)
    verify(settled)
    rng, layout = random.Random(seed), Layout(module.structs)
    left = np.zeros(layout.words(S), np.int64)
    right = left.copy()
    one, other = Interpreter(module), Interpreter(settled)
    for _ in range(CALLS):
        for path in GIVEN:
            at = layout.locate(S, path).offset_words
            left[at] = right[at] = rng.choice([0, 1, 2, 7])
        entry, number = rng.choice(module.entries), rng.choice([0, 1, 2, 7])
        if one.call(entry, left, number) != other.call(entry, right, number):
            return True
        if not np.array_equal(left, right):
            return True
    return False


@pytest.mark.parametrize("seed", range(0, 400, 40))
def test_a_settled_program_leaves_the_same_bits(seed):
    assert not any(map(differs, range(seed, seed + 40)))


def test_random_programs_hold_much_that_is_known():
    modules = [
        msgspec.structs.replace(few_values(seed), given=Given(GIVEN, ("e0", "e1")))
        for seed in range(40)
    ]
    assert sum(map(nodes, map(settle_known, modules))) < 0.7 * sum(map(nodes, modules))


def nodes(module: Module) -> int:
    return sum(1 for func in module.funcs for _ in expressions(func.body))


def test_what_a_strategy_never_asks_for_falls():
    """A rule that only buys and closes keeps neither cancels nor exits for profit."""
    module = compile_file(shipped("strategies/sma_cross.qdsl")).module()
    settled = settle_known(module)
    verify(settled)
    assert nodes(settled) < 0.87 * nodes(module)
    left = {func.name for func in settled.funcs}
    assert {"orders.tagged", "orders.replace"}.isdisjoint(left)
    resolve = next(func for func in settled.funcs if func.name == "orders.resolve")
    assert sum(isinstance(stmt, If) for stmt in resolve.body) == 1  # of five verbs


# ---- one rule each ---------------------------------------------------------------------------


def settled(*body, given=(), more=()):
    """The text of an entry after the pass."""
    entry = Func("f", (STATE, *LINE), "i64", (*body, Return(i64(0))))
    decls = {decl.name: decl for decl in (*STRUCTS, *more, entry)}
    module = msgspec.structs.replace(
        link(decls.get, ["f"], {}), given=None if given is None else Given(given, ("f",))
    )
    verify(module)
    found = settle_known(module)
    verify(found)
    return "\n".join(map(show_node, found.funcs[-1].body))


def word(name):
    return Field(s, name)


def test_a_word_that_nobody_writes_is_zero_unless_the_host_writes_it():
    copy = Assign(word("w1"), Binary("iadd", word("w0"), n))
    assert "w0" not in settled(copy)
    assert "w0" in settled(copy, given=("w0",))
    assert "w0" in settled(copy, given=None)


def test_a_module_without_an_entry_that_writes_knows_nothing_of_its_memory():
    module = msgspec.structs.replace(few_values(1), given=Given((), ("e0", "e1")))
    alone = msgspec.structs.replace(module, entries=("e1",))
    assert nodes(settle_known(module)) < nodes(settle_known(alone))


def test_a_branch_that_only_unreached_code_opens_stays_shut():
    """Each of two words is set only where the other is: from zeros nothing ever sets one."""
    opens = If(Binary("ieq", word("w0"), i64(1)), (Assign(word("w1"), i64(1)),))
    back = If(Binary("ieq", word("w1"), i64(1)), (Assign(word("w0"), i64(1)),))
    assert settled(opens, back) == "return 0"


def test_zero_is_not_stored_where_nothing_else_is_and_any_other_value_is():
    assert settled(Assign(word("w0"), i64(0))) == "return 0"
    assert "w0" in settled(Assign(word("w0"), i64(5)))
    assert "w0" in settled(Assign(word("w0"), i64(0)), given=("w0",))


def test_a_call_whose_value_is_known_still_does_what_it_does():
    five = Func("g", (STATE, *LINE), "i64", (Assign(word("w2"), n), Return(i64(5))))
    call = Call("g", (s, n))
    found = settled(Let("x", "i64", call), Assign(word("w1"), Var("x")), more=(five,))
    assert "g(" in found
    assert "= 5" in found


def test_a_side_that_is_never_chosen_is_not_looked_into():
    never = Func("g", (ParamDecl("p", PAIR), *LINE), "i64", (Return(Field(Var("p"), "a")),))
    choice = Select(Binary("ieq", word("w0"), i64(1)), Call("g", (word("p"), n)), n)
    found = settled(Assign(word("w1"), choice), more=(never,))
    assert "g(" not in found


def test_a_side_that_is_chosen_late_is_looked_into_even_if_the_value_can_be_anything():
    stores = Func("h", (STATE, *LINE), None, (Assign(word("w3"), n),))
    body = (Do(Call("h", (s, n))), Return(n))
    late = Func("g", (STATE, *LINE), "i64", body)
    reads = Func("k", (ParamDecl("p", PAIR), *LINE), "i64", (Return(n),))
    choice = Select(Binary("ieq", word("w2"), i64(1)), Call("k", (word("p"), i64(7))), i64(3))
    opened = Do(Call("g", (s, i64(1))))
    found = settled(
        Let("x", "i64", Call("k", (word("p"), i64(3)))),
        Assign(word("w0"), choice),
        Assign(word("w4"), Var("x")),
        opened,
        Assign(word("w2"), word("w3")),
        given=("w0",),
        more=(stores, late, reads),
    )
    assert "w4 = 3" not in found


def test_an_argument_by_reference_is_the_word_that_it_names():
    """What a callee stores through its own name is in the caller's word."""
    body = (Assign(Field(Var("p"), "a"), n),)
    store = Func("g", (ParamDecl("p", PAIR, inout=True), *LINE), None, body)
    use = Assign(word("w1"), Field(word("p"), "a"))
    assert "p.a" in settled(Do(Call("g", (word("p"), n))), use, more=(store,))
    assert "p.a" not in settled(use)


# ---- mutants ---------------------------------------------------------------------------------


def memory_is_never_zero(patch):
    patch.setattr(possible, "ZERO", frozenset())


def the_host_writes_nothing(patch):
    patch.setattr(possible, "spelled_path", lambda *_: ("w5",))


def the_other_way_is_never_taken(patch):
    decide = possible.Possible.decide

    def once(self, branch):
        if not branch.taken:
            decide(self, branch)
            branch.taken &= {max(branch.taken, default=0)}

    patch.setattr(possible.Possible, "decide", once)


def what_follows_a_branch_is_not_reached(patch):
    patch.setattr(known._Settler, "passed", lambda *_: False)


def values_are_looked_at_once(patch):
    patch.setattr(possible.Possible, "move", first_time(possible.Possible.move))


def first_time(move):
    def moved(self, flow):
        if not flow.read:
            move(self, flow)

    return moved


def an_array_has_one_name(patch):
    patch.setattr(possible.Possible, "share", lambda *_: None)


def made_structs_hold_nothing(patch):
    struct = possible.Possible.struct

    def skipped(self, expr, frame):
        if type(expr).__name__ != "StructOf":
            struct(self, expr, frame)

    patch.setattr(possible.Possible, "struct", skipped)


def results_are_forgotten(patch):
    patch.setitem(possible._STATEMENTS, Return, lambda *_: None)


def calls_do_nothing(patch):
    patch.setattr(known._Settler, "acts", lambda *_: False)


def unequal_is_equal(patch):
    patch.setattr(possible, "_EQUAL", {"ieq": 1, "ine": 0})


def any_value_differs(patch):
    patch.setattr(known._Settler, "differs", lambda *found: found[2].bits == 7)


def sums_are_one_more(patch):
    wrapped = constants.wrapped
    patch.setattr(constants, "wrapped", lambda type_, bits: wrapped(type_, bits) ^ (type_ == "i64"))


MUTANTS = [
    memory_is_never_zero, the_host_writes_nothing, the_other_way_is_never_taken,
    what_follows_a_branch_is_not_reached, values_are_looked_at_once, an_array_has_one_name,
    made_structs_hold_nothing, results_are_forgotten,
    calls_do_nothing, unequal_is_equal, any_value_differs, sums_are_one_more,
]  # fmt: skip


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda m: m.__name__.replace("_", " "))
def test_a_broken_pass_is_noticed(mutate, monkeypatch):
    mutate(monkeypatch)
    assert any(map(noticed, range(120)))


def noticed(seed: int) -> bool:
    """A difference, or a pass that trips over its own mistake."""
    try:
        return differs(seed)
    except Exception:
        return True
