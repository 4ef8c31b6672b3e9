"""A value at prices: it moves with the price of each row, by as much as is held.

What an account is worth is such a value. Where turns only compare it, with what lasts, it need not
be computed row by row: it is least and greatest where the price is.
"""

from collections.abc import Callable, Set
from typing import NamedTuple, TypeGuard

from quantdsl.ir.ops import Assign, Binary, Const, Expr, If, Let, Select, Stmt, Var, i64
from quantdsl.ir.walk import operands, rebuild_expr, rebuild_stmt
from quantdsl.passes.losses import EXACT
from quantdsl.passes.scopes import assigned_names, reads_of_names
from quantdsl.passes.straight import alternatives, is_rare, often, only_breaks

Block = tuple[Stmt, ...]
OF_FLOATS = {"ilt": "flt", "ile": "fle", "igt": "fgt", "ige": "fge"}
"""How whole numbers compare -> how floats do."""


class Mark(NamedTuple):
    """A value at prices that come from rows: value + lots * (price - the price before)."""

    value: str
    before: str
    lots: Var
    price: Expr


class Sunk(NamedTuple):
    """A word that most strides only lower to the least value at prices, or raise to the most."""

    word: str
    op: str
    """imin or imax."""
    other: Expr
    """What it must not be equal to: it is beyond it before the stride, and stays so."""


def marked(
    body: Block, uniform: Callable[[Expr], bool], steady: Callable[[Expr], bool]
) -> tuple[Mark | None, Block]:
    """A value at prices that a turn computes, if it only compares it, and the turn without."""
    moves = {
        stmt.name: stmt.value
        for stmt in body
        if isinstance(stmt, Let) and isinstance(stmt.value, Binary) and stmt.value.op == "isub"
    }
    for stmt in body:
        match stmt:
            case Assign(
                Var(value), Binary("iadd", Var(old), Binary("imul", Var() as lots, Var(x)))
            ):
                move = moves.get(x)
                if move is None or value != old or not steady(lots) or not uniform(move.x):
                    continue
                if not isinstance(move.y, Var):
                    continue
                mark = Mark(value, move.y.name, lots, move.x)
                rest = _without(body, mark, x, uniform)
                if rest is not None:
                    return mark, rest
    return None, body


def _without(body: Block, mark: Mark, move: str, uniform: Callable[[Expr], bool]) -> Block | None:
    """A turn without what computes a mark; None if it is used for more than comparisons."""
    value = Var(mark.value)
    held = Binary("ine", mark.lots, i64(0))
    before = Assign(Var(mark.before), Select(held, mark.price, Var(mark.before)))
    after = Assign(value, Binary("iadd", value, Binary("imul", mark.lots, Var(move))))
    alias = {stmt.name for stmt in body if isinstance(stmt, Let) and stmt.value == value}
    firm = assigned_names(often(body))

    def expr(node: Expr) -> Expr:
        if isinstance(node, Var) and node.name in alias:
            return value
        return rebuild_expr(node, expr)

    def inner(one: Stmt) -> Stmt:
        return rebuild_stmt(one, expr, inner)

    made: list[Stmt] = []
    left = [before, after]
    for stmt in body:
        if isinstance(stmt, Let) and stmt.name in {*alias, move}:
            continue
        if left and _same(stmt, left[0]):
            left.pop(0)
            continue
        if isinstance(stmt, If) and (only_breaks(stmt) or is_rare(stmt)) and not left:
            cond = expr(stmt.cond)
            if all(_compares(part, mark.value, firm, uniform) for part in alternatives(cond)):
                made.append(If(cond, tuple(map(inner, stmt.then)), (), stmt.line))
                continue
        if {mark.value, mark.before, move, *alias} & _named(stmt):
            return None
        made.append(stmt)
    return None if left else tuple(made)


def sinks(stmt: If, value: str, firm: Set[str]) -> Sunk | None:
    """The word that a rare branch only lowers to a value, as long as it is another's no more."""
    match stmt:
        case If(
            _,
            (
                If(
                    Binary("ilt" | "igt" as op, Var(less), Var(word)),
                    (If(Binary("ieq", Var(same), Var(other)), _, ()), Assign(Var(put), Var(by))),
                    _,
                ),
            ),
        ) if less == by == value and word == same == put and other not in firm:
            return Sunk(word, "imin" if op == "ilt" else "imax", Var(other))
    return None


def _same(stmt: Stmt, other: Assign) -> bool:
    return isinstance(stmt, Assign) and stmt.place == other.place and stmt.value == other.value


def _named(stmt: Stmt) -> Set[str]:
    return {*reads_of_names((stmt,)), *assigned_names((stmt,))}


def _compares(cond: Expr, name: str, firm: Set[str], uniform: Callable[[Expr], bool]) -> bool:
    """Whether a condition compares a local with what lasts, or is of other things.

    That is a number, a word, or what one is less another or a number of a row. The last is another
    in each row: strides ask only whether a local is less than the greatest of it.
    """
    if not isinstance(cond, Binary) or cond.op not in OF_FLOATS or cond.x != Var(name):
        return name not in reads_of_names((If(cond, ()),))
    fallen = isinstance(cond.y, Binary) and cond.y.op == "isub"
    first, *rest = operands(cond.y) if fallen else (cond.y,)
    if any(map(uniform, rest)) and cond.op not in ("ilt", "ile"):
        return False
    words = (first, *(one for one in rest if not uniform(one)))
    return is_number(cond.y) or all(
        isinstance(one, Var) and one.name not in {*firm, name} for one in words
    )


def is_number(limit: Expr) -> TypeGuard[Const]:
    """Whether it is a number that is exact as a float."""
    return isinstance(limit, Const) and -EXACT <= limit.bits <= EXACT
