"""Loops: their range, their bound, and the proof that rests on it."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from quantdsl import limits
from quantdsl.check import naming, sizes
from quantdsl.check.bindings import Local
from quantdsl.check.changes import changed, mentions
from quantdsl.check.context import Context, executes
from quantdsl.check.expr import truth
from quantdsl.check.stmts import body
from quantdsl.check.types import INT
from quantdsl.check.values import Value
from quantdsl.ir import ops
from quantdsl.lang import ast


class Turns(Struct, frozen=True):
    """The range of a loop: from `low` up to but not `top`; `last` bounds the counter."""

    low: Value
    top: ops.Expr
    last: ops.Size
    most: ops.Size


def turns_of(cx: Context, node: ast.For) -> Turns | None:
    """The range that a loop runs over, or None where an error is reported."""
    if not isinstance(node.over, ast.Range):
        cx.error("QD0602", "a loop runs over a range: 'for i in 0..<n'", node.over.span)
        return None
    low, high = cx.expr(node.over.low), cx.expr(node.over.high)
    if low.bad or high.bad:
        return None
    if low.type != INT or high.type != INT:
        cx.error("QD0301", "the ends of a range are ints", node.over.span)
        return None
    if high.high is None:
        cx.error(
            "QD0602",
            "this loop has no bound that is known when compiling",
            node.over.high.span,
            help="write min(n, 100), or loop to a const or param",
        )
        return None
    top = high.ir if not node.over.inclusive else ops.Binary("iadd", high.ir, ops.i64(1))
    last = high.high if node.over.inclusive else sizes.sub(high.high, 1)
    if isinstance(low.const, int) and isinstance(high.const, int):
        cx.counted[node.span] = max(high.const + node.over.inclusive - low.const, 0)
    return Turns(low, top, last, high.high)


@contextmanager
def turning(cx: Context, node: ast.For, turns: Turns, name: str) -> Iterator[list[ops.Stmt]]:
    """The block of a turn, in which the counter is the variable `name`."""
    counter = ops.Var(name)
    value = Value(INT, counter, node.name.span, turns.low.low, turns.last)
    cx.ranges.counters[counter] = (turns.low.ir, ops.Binary("isub", turns.top, ops.i64(1)))
    cx.ranges.open.append(counter)
    with cx.nested(loop=True) as block, limited(cx, turns.most, node.over):
        cx.facts = frozenset()
        local = Local(value, node.name.span, used=True)
        naming.enter(cx, cx.scope.names, node.name, cx.scope.find(node.name.id), local)
        yield block
    cx.ranges.open.pop()
    _require_steady(cx, counter, block, node)


def serial(cx: Context, node: ast.For) -> None:
    """`for i in a..b`: one turn after the other."""
    turns = turns_of(cx, node)
    if turns is None:
        return
    name = cx.fresh("i")
    with turning(cx, node, turns, name) as block:
        body(cx, node.body)
    cx.emit(ops.For(name, turns.low.ir, turns.top, tuple(block), cx.line(node)))


def _require_steady(cx: Context, counter: ops.Var, block: list[ops.Stmt], node: ast.For) -> None:
    """A proof from the ends of a range holds only while the body changes nothing in them."""
    ends = cx.ranges.counters[counter]
    if counter in cx.ranges.relied_on and any(mentions(end, changed(block)) for end in ends):
        cx.error(
            "QD0602",
            "the loop changes what its own range was made of, and an index relies on it",
            node.over.span,
            help="name the end before the loop: let n = ...",
        )


@contextmanager
def limited(cx: Context, most: ops.Size, node: ast.Expr) -> Iterator[None]:
    """A loop of at most so many turns, inside those that are open."""
    outer = cx.turns
    cx.turns *= max(most, 1) if isinstance(most, int) else 1
    if cx.turns > limits.TURNS and outer <= limits.TURNS:
        cx.error(
            "QD0611",
            "these loops may turn too often",
            node.span,
            reason=f"the limit is {limits.TURNS}; here it may be {cx.turns:,}",
        )
    yield
    cx.turns = outer


@executes(ast.While)
def _while(cx: Context, node: ast.While) -> None:
    most = cx.expr(node.max)
    if most.bad:
        return
    if most.high is None:
        cx.error(
            "QD0602", "the largest number of turns must be known when compiling", node.max.span
        )
        return
    with cx.nested(loop=True) as block, limited(cx, most.high, node.max):
        cx.facts = frozenset()
        cond = truth(cx, cx.expr(node.cond))
        # What the condition had to compute first must be computed again before each turn.
        prelude = list(block)
        if prelude:
            block.append(ops.If(ops.Unary("not", cond.ir), (ops.Break(),)))
        body(cx, node.body)
    test = ops.boolean(True) if prelude else cond.ir
    cx.emit(ops.While(test, most.ir, tuple(block), cx.line(node)))
