"""The flags of a row (rows.py), and what they are as a rule.

A row holds the conditions that all lanes share as bits. Most turns are bars in the middle of a
day, whose flags are all the same: code for them needs no test of any.
"""

import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from quantdsl.ir.ops import (
    Assign,
    Binary,
    Break,
    Call,
    Const,
    Continue,
    Do,
    Expr,
    For,
    If,
    Let,
    Return,
    Stmt,
    Unary,
    Var,
    While,
    boolean,
    i64,
)
from quantdsl.ir.walk import expressions, rebuild_expr, rebuild_stmt, statements

FLAG_WORD = re.compile(r"flags\.(\d+)@")

Block = tuple[Stmt, ...]
Flag = tuple[int, int]
"""(number of the word of flags in a row, bit)."""


def usual_flags(body: Block) -> Iterator[tuple[Flag, bool]]:
    """What each flag of a row is as a rule: it leads to the larger branch that makes no call."""
    on: Counter[Flag] = Counter()
    for stmt in statements(body):
        if isinstance(stmt, If):
            gain = weight(stmt.then) - weight(stmt.otherwise)
            for part, holds in conjuncts(stmt.cond):
                if (flag := flag_of(part)) is not None:
                    on[flag] += gain if holds else -gain
    for flag, gain in on.items():
        yield flag, gain > 0


def flag_of(expr: Expr) -> Flag | None:
    """The flag that an expression tests: ine(iand(flags.<word>@, bit), 0)."""
    match expr:
        case Binary("ine", Binary("iand", Var(name), Const(_, bit)), Const(_, 0)):
            word = FLAG_WORD.fullmatch(name)
            return None if word is None else (int(word[1]), bit)
    return None


def with_flags(body: Block, flags: dict[Flag, bool]) -> Block:
    """A block with the values of flags put in; a branch they decide gives its own statements."""

    def expr(node: Expr) -> Expr:
        flag = flag_of(node)
        if flag is not None and flag in flags:
            return boolean(flags[flag])
        return rebuild_expr(node, expr)

    made: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, If):
            cond = expr(stmt.cond)
            if isinstance(cond, Const):
                made += with_flags(stmt.then if cond.bits else stmt.otherwise, flags)
                continue
            then, otherwise = with_flags(stmt.then, flags), with_flags(stmt.otherwise, flags)
            stmt = If(cond, then, otherwise, stmt.line)
        elif isinstance(stmt, For | While):
            stmt = msgspec.structs.replace(stmt, body=with_flags(stmt.body, flags))
        made.append(rebuild_stmt(stmt, expr, lambda inner: inner))
    return tuple(made)


def flags_hold(flags: dict[Flag, bool]) -> Expr:
    """Whether the flags of a row have these values."""
    holds: Expr = boolean(True)
    for word in sorted({word for word, _ in flags}):
        bits = {bit: on for (at, bit), on in flags.items() if at == word}
        wanted = sum(bit for bit, on in bits.items() if on)
        masked = Binary("iand", Var(f"flags.{word}@"), i64(sum(bits)))
        same = Binary("ieq", masked, i64(wanted))
        holds = same if isinstance(holds, Const) else Binary("and", holds, same)
    return holds


def weight(body: Block) -> int:
    """How much a block does in a usual turn: nothing if it calls."""
    if any(map(calls, body)):
        return 0
    return sum(1 for _ in expressions(body))


def conjuncts(cond: Expr) -> Iterator[tuple[Expr, bool]]:
    """(condition, what it is) for each condition that must be so for `cond` to hold."""
    if isinstance(cond, Binary) and cond.op == "and":
        yield from conjuncts(cond.x)
        yield from conjuncts(cond.y)
    elif isinstance(cond, Unary) and cond.op == "not":
        yield cond.x, False
    else:
        yield cond, True


def calls(stmt: Stmt) -> bool:
    """Whether a statement is a call; those inside its blocks do not count."""
    return isinstance(stmt, Do) or (isinstance(stmt, Let | Assign) and isinstance(stmt.value, Call))


def ends_early(body: Block) -> bool:
    """Whether a turn may end before its end."""
    for stmt in body:
        if isinstance(stmt, Break | Continue | Return):
            return True
        if isinstance(stmt, If) and (ends_early(stmt.then) or ends_early(stmt.otherwise)):
            return True
    return False
