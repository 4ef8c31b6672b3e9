"""What a branch of a kernel knows of the ints that its condition compares.

In `if i < x.len:` a thread has an element of its own where `i` is one: threads are made in whole
blocks, and elements are not. What is bounded so is a name that never changes.
"""

from collections.abc import Iterator

import msgspec

from quantdsl.check import sizes
from quantdsl.check.bindings import Local
from quantdsl.check.context import Context, Scope
from quantdsl.check.nodes import inside
from quantdsl.check.types import INT
from quantdsl.check.values import Value
from quantdsl.lang import ast

TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
PLAIN = (ast.Name, ast.Num, ast.Attr, ast.Binary)
"""What an end is made of: elaborated once more it does nothing."""


def narrow(cx: Context, cond: ast.Expr) -> None:
    """Let the names that a condition bounds be known to lie there, in the scope that is open."""
    for name, op, end in _bounds(cond):
        found = cx.scope.find(name.id)
        if not isinstance(found, Local) or found.value.writable or found.value.type != INT:
            continue
        if found.value.const is not None or not all(isinstance(p, PLAIN) for p in inside(end)):
            continue
        value = cx.expr(end)
        if value.bad or value.type != INT:
            continue
        known = msgspec.structs.replace(found.value)
        _bounded(known, op, value)
        outer = Scope(cx.scope.parent)
        outer.names[name.id] = Local(known, found.span, used=True)
        cx.scope.parent = outer


def _bounded(known: Value, op: str, end: Value) -> None:
    """Take the end of a comparison into what is known."""
    own = 0 if op in ("<=", ">=") else 1
    if op in ("<", "<=") and end.high is not None:
        most = sizes.sub(end.high, own)
        known.high = most if known.high is None else sizes.smaller(known.high, most)
    if op in (">", ">=") and end.low is not None:
        least = end.low + own
        known.low = least if known.low is None else max(known.low, least)


def _bounds(cond: ast.Expr) -> Iterator[tuple[ast.Name, str, ast.Expr]]:
    """Each name that must lie below or above something for a condition to hold."""
    if isinstance(cond, ast.Binary) and cond.op == "and":
        yield from _bounds(cond.left)
        yield from _bounds(cond.right)
    if not isinstance(cond, ast.Compare):
        return
    for x, op, y in zip(cond.operands, cond.ops, cond.operands[1:], strict=False):
        if op in TURNED and isinstance(x, ast.Name):
            yield x, op, y
        if op in TURNED and isinstance(y, ast.Name):
            yield y, TURNED[op], x
