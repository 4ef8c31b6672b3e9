"""A function's body without Return, so that it can stand in its caller's.

A return in tail position only says what the result is; what follows an `if` that returned moves
into the other branch. Where that is not enough (in loops, or after an `if` of which some paths
return) a flag says that the function is done, and guards what follows.
"""

from typing import NamedTuple

from quantdsl.ir.ops import (
    BOOL_T,
    Assign,
    Break,
    Expr,
    For,
    Func,
    If,
    Let,
    Return,
    Stmt,
    Unary,
    Var,
    While,
    boolean,
)
from quantdsl.ir.walk import statements

RESULT, DONE = "result@", "done@"
"""Locals that no checker makes."""

Block = tuple[Stmt, ...]


class Returnless(NamedTuple):
    """A body that runs through, and what its call is then worth, None where it has no result."""

    body: Block
    value: Expr | None


def without_returns(func: Func) -> Returnless:
    """The same function, its result computed but not returned."""
    body = func.body
    if body and isinstance(body[-1], Return) and not _returns(body[:-1]):
        return Returnless(body[:-1], body[-1].value)
    if not _returns(body):
        return Returnless(body, None)
    lowered = _block(body)
    head: list[Stmt] = []
    if any(isinstance(s, Assign) and s.place == Var(DONE) for s in statements(lowered)):
        head.append(Let(DONE, BOOL_T, boolean(False)))
    if func.result is None:
        return Returnless((*head, *lowered), None)
    head.append(Let(RESULT, func.result, None))
    return Returnless((*head, *lowered), Var(RESULT))


def _returns(body: Block) -> bool:
    return any(isinstance(stmt, Return) for stmt in statements(body))


def _always(body: Block) -> bool:
    """Whether no path runs past the end of `body`."""
    return any(
        isinstance(stmt, Return)
        or (isinstance(stmt, If) and _always(stmt.then) and _always(stmt.otherwise))
        for stmt in body
    )


def _block(body: Block, *, told: bool = False) -> Block:
    """`body` outside of loops; `told` says that what follows it asks the flag."""
    for at, stmt in enumerate(body):
        if isinstance(stmt, Return):
            return (*body[:at], *_result(stmt), *([_done()] if told else []))
        if not _returns((stmt,)):
            continue
        before, rest = body[:at], body[at + 1 :]
        if isinstance(stmt, For | While):
            return (*before, _loop(stmt), *_guarded(rest, told=told))
        assert isinstance(stmt, If)
        then, otherwise = stmt.then, stmt.otherwise
        if rest and _always(then):
            otherwise, rest = (*otherwise, *rest), ()
        elif rest and _always(otherwise):
            then, rest = (*then, *rest), ()
        then, otherwise = (_block(side, told=told or bool(rest)) for side in (then, otherwise))
        return (*before, If(stmt.cond, then, otherwise, stmt.line), *_guarded(rest, told=told))
    return body


def _guarded(rest: Block, *, told: bool) -> Block:
    return (If(Unary("not", Var(DONE)), _block(rest, told=told)),) if rest else ()


def _loop(loop: For | While) -> Stmt:
    body = _turn(loop.body)
    if isinstance(loop, For):
        return For(loop.name, loop.lo, loop.hi, body, loop.line)
    return While(loop.cond, loop.max, body, loop.line)


def _turn(body: Block) -> Block:
    """`body` inside a loop, which a return leaves."""
    new: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Return):
            return (*new, *_result(stmt), _done(), Break())
        if not _returns((stmt,)):
            new.append(stmt)
        elif isinstance(stmt, If):
            new.append(If(stmt.cond, _turn(stmt.then), _turn(stmt.otherwise), stmt.line))
        else:
            assert isinstance(stmt, For | While)
            new += [_loop(stmt), If(Var(DONE), (Break(),))]
    return tuple(new)


def _result(stmt: Return) -> Block:
    return () if stmt.value is None else (Assign(Var(RESULT), stmt.value),)


def _done() -> Stmt:
    return Assign(Var(DONE), boolean(True))
