"""Events of a message in groups leave what they leave one by one."""

import numpy as np
import pytest

from quantdsl.ir.interp import Interpreter
from quantdsl.ir.ops import (
    I64_T,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Continue,
    Do,
    Elem,
    Expr,
    Field,
    FieldDecl,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Select,
    Stmt,
    StructDecl,
    StructType,
    Var,
    While,
    i64,
)
from quantdsl.ir.verify import verify
from quantdsl.ir.walk import statements
from quantdsl.passes import messages
from quantdsl.passes.messages import MESSAGE_WORDS, MESSAGES, pass_messages
from quantdsl.passes.rows import BASE, ROW, ROW_WORDS, ROWS

WIDTH = 4
MORE, WRITES_A, WRITES_B, LEVEL, BUYS, COUNTS, OWN = 1, 2, 4, 8, 16, 32, 64
FIELDS = ("a", "b", "limit", "buys", "sells", "sum")
"""Words of a lane: two that events write, three that it asks events with, and what befell it."""
STATE = StructType("State")


def flag(bit: int) -> Expr:
    return Binary("ine", Binary("iand", Var("flags.0@"), i64(bit)), i64(0))


def sum_of(*parts: Expr) -> Expr:
    first, *rest = parts
    for part in rest:
        first = Binary("iadd", first, part)
    return first


def field(name: str) -> Field:
    return Field(Var("s"), name)


def times(name: str, number: int) -> Expr:
    return Binary("imul", field(name), i64(number))


def touched() -> Func:
    """What an event of concern does: it tells of all words, and changes what is asked."""
    x = Var("x")
    told = sum_of(times("sum", 33), times("a", 5), times("b", 3), x)
    turned = Binary("ixor", times("buys", 2), Binary("lshr", field("sum"), i64(60)))
    body = (
        Assign(field("sum"), told),
        Assign(field("limit"), sum_of(field("limit"), Binary("iand", x, i64(3)), i64(-1))),
        Assign(field("buys"), turned),
        Assign(field("sells"), Binary("iand", sum_of(field("sells"), x), i64(255))),
    )
    return Func("touched", (ParamDecl("s", STATE, inout=True), ParamDecl("x", I64_T)), None, body)


def counted() -> Func:
    """What another one does: it tells of itself, of no word that events write, and changes none."""
    told = sum_of(times("sum", 17), Var("x"))
    params = (ParamDecl("s", STATE, inout=True), ParamDecl("x", I64_T))
    return Func("counted", params, None, (Assign(field("sum"), told),))


def concerned() -> tuple[Stmt, ...]:
    stores = tuple(Assign(field(name), Var(f"{name}@s")) for name in FIELDS)
    loads = tuple(Assign(Var(f"{name}@s"), field(name)) for name in FIELDS)
    return (*stores, Do(Call("touched", (Var("s"), Var("row.1@")))), *loads)


def whole() -> Module:
    words = BufferType(I64_T)
    read = [
        Let(name, I64_T, Elem(Var(ROWS), Binary("iadd", Var(BASE), i64(k))))
        for k, name in enumerate(("flags.0@", "row.1@", "row.2@", "row.3@"))
    ]
    marks = Select(flag(BUYS), Var("buys@s"), Var("sells@s"))
    on = Binary("ine", Binary("iand", Binary("lshr", Var("x@"), Var("row.3@")), i64(1)), i64(0))
    turn: tuple[Stmt, ...] = (
        Let(BASE, I64_T, Binary("imul", Var(ROW), i64(WIDTH))),
        *read,
        If(
            flag(WRITES_A),
            (
                If(Binary("igt", Var("row.1@"), Var("limit@s")), concerned()),
                Assign(Var("a@s"), Var("row.2@")),
            ),
        ),
        If(flag(WRITES_B), (Assign(Var("b@s"), Var("row.1@")),)),
        If(flag(LEVEL), (Let("x@", I64_T, marks), If(on, concerned()))),
        If(
            flag(COUNTS),
            (
                If(
                    Binary("ilt", Var("row.2@"), Var("limit@s")),
                    (
                        Assign(field("sum"), Var("sum@s")),
                        Do(Call("counted", (Var("s"), Var("row.3@")))),
                        Assign(Var("sum@s"), field("sum")),
                    ),
                ),
            ),
        ),
        If(
            flag(OWN),
            (
                Let("own@", I64_T, i64(0)),
                Assign(Var("own@"), Var("row.2@")),
                Assign(Var("sum@s"), sum_of(Binary("imul", Var("sum@s"), i64(13)), Var("own@"))),
            ),
        ),
        If(flag(MORE), (Continue(),)),
        Assign(
            Var("sum@s"),
            sum_of(Binary("imul", Var("sum@s"), i64(31)), Var("a@s"), Var("b@s"), Var("row.2@")),
        ),
    )
    body = (
        *(Let(f"{name}@s", I64_T, field(name)) for name in FIELDS),
        For(ROW, i64(0), Var("n"), turn),
        *(Assign(field(name), Var(f"{name}@s")) for name in FIELDS),
    )
    params = (ParamDecl("s", STATE, inout=True), ParamDecl(ROWS, words), ParamDecl("n", I64_T))
    funcs = (touched(), counted(), Func("lane", params, None, body))
    state = StructDecl("State", tuple(FieldDecl(name, I64_T) for name in FIELDS))
    sizes = ((ROW_WORDS, WIDTH),)
    return Module((state,), (), funcs, ("lane",), sizes)


def rows_of(rng: np.random.Generator, n: int, *, alike: bool) -> np.ndarray:
    """Events of messages of 1 to 30; where they are `alike` all of one write the same words."""
    made: list[list[int]] = []
    while len(made) < n:
        size = int(rng.choice([1, 2, 7, 8, 9, 30]))
        kind = int(rng.choice([WRITES_A, WRITES_A | WRITES_B]))
        for left in reversed(range(size)):
            flags = kind if alike else int(rng.choice([0, WRITES_A, WRITES_B]))
            flags |= LEVEL * int(rng.random() < 0.7) | BUYS * int(rng.random() < 0.5)
            flags |= COUNTS * int(rng.random() < 0.2) | OWN * int(rng.random() < 0.1)
            row = [flags | MORE * (left > 0), *map(int, rng.integers(0, 60, 3))]
            made.append(row)
    return np.array(made[:n], np.int64)


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("group", [1, 3, 16])
@pytest.mark.parametrize("seed", range(5))
def test_groups_leave_what_events_leave(seed: int, group: int, alike: bool, monkeypatch) -> None:
    monkeypatch.setattr(messages, "GROUP", group)
    rng = np.random.default_rng(seed)
    plain = whole()
    verify(plain)
    grouped = pass_messages(plain, "lane")
    verify(grouped)
    words = dict(grouped.sizes)[MESSAGE_WORDS]
    one, other = (np.array([0, 0, 55, 0b1011, 0b100, 1], np.int64) for _ in range(2))
    for n in (0, 1, 40, 133):  # the last message of a piece may go on in the next one
        rows = rows_of(rng, n, alike=alike).reshape(-1)
        Interpreter(plain).call("lane", one, rows, n)
        behind = np.zeros(n * words, np.int64)
        runs = Interpreter(grouped)
        runs.call(MESSAGES, rows, n, behind)
        runs.call("lane", other, np.concatenate((rows, np.zeros(WIDTH, np.int64), behind)), n)
        assert np.array_equal(one, other)


def test_every_turn_of_a_lane_is_a_group() -> None:
    """One that took a turn more would leave the others of its warp for good."""
    lane = next(func for func in pass_messages(whole(), "lane").funcs if func.name == "lane")
    (messages_,) = (stmt for stmt in lane.body if isinstance(stmt, While))
    (groups,) = (stmt for stmt in messages_.body if isinstance(stmt, While))
    steps = [
        stmt
        for stmt in statements(lane.body)
        if isinstance(stmt, Assign) and stmt.place == Var(messages.GROUP_AT)
    ]
    assert len(steps) == 1
    apart = tuple(stmt for stmt in groups.body if not isinstance(stmt, While))
    assert steps[0] in apart
    assert not any(isinstance(one, Break | Continue) for one in statements(apart))


def test_an_entry_whose_turns_do_not_end_early_stays() -> None:
    plain = whole()
    lane = plain.funcs[-1]
    loop = next(stmt for stmt in lane.body if isinstance(stmt, For))
    body = tuple(stmt for stmt in loop.body if stmt != If(flag(MORE), (Continue(),)))
    long = For(loop.name, loop.lo, loop.hi, body)
    other = Func(
        lane.name, lane.params, None, tuple(long if one is loop else one for one in lane.body)
    )
    module = Module(plain.structs, (), (*plain.funcs[:-1], other), plain.entries, plain.sizes)
    assert pass_messages(module, "lane") is module
