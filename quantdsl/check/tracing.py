"""A strategy that tells what it does: every equation a plot, every branch a record.

The instrumented strategy makes the same decisions: it only writes more records.
"""

from typing import TYPE_CHECKING

import msgspec

from quantdsl.check import arith
from quantdsl.check.market import ENGINE
from quantdsl.check.plots import PlotSpec
from quantdsl.check.types import FLOAT
from quantdsl.check.values import Value
from quantdsl.events.codes import Kind
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy


def instrument(strategy: "Strategy") -> None:
    """Make every equation a plot and let every branch of a handler write a record."""
    strategy.plots = []
    for node in strategy.node.items:
        if isinstance(node, ast.Let):
            value = strategy.scope.names[node.name.id].series()
            shown = value.type.kind not in ("struct", "enum", "choice", "time")
            series = value.series
            if shown and series is not None and series.clocks and not series.panel:
                strategy.plots.append(PlotSpec(node.name.id, "", _number(strategy, value)))
    emit = strategy.core("engine.emit")
    strategy.funcs = [
        msgspec.structs.replace(func, body=_branches(func.body, emit))
        if func.name.startswith("handler.")
        else func
        for func in strategy.funcs
    ]


def _number(strategy: "Strategy", value: Value) -> Value:
    """The value as a float: true is 1."""
    if value.type.kind != "bool":
        return arith.as_float(strategy.cx, value)
    as_int = ops.Unary("bool_to_i64", value.ir)
    return Value(FLOAT, ops.Unary("i64_to_f64", as_int), series=value.series)


def _branches(body: tuple[ops.Stmt, ...], emit: str) -> tuple[ops.Stmt, ...]:
    changed: list[ops.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ops.If):
            then, other = _branches(stmt.then, emit), _branches(stmt.otherwise, emit)
            if stmt.line:
                then = (_record(emit, stmt.line, taken=True), *then)
                other = (_record(emit, stmt.line, taken=False), *other)
            changed.append(ops.If(stmt.cond, then, other, stmt.line))
        elif isinstance(stmt, ops.For | ops.While):
            changed.append(msgspec.structs.replace(stmt, body=_branches(stmt.body, emit)))
        else:
            changed.append(stmt)
    return tuple(changed)


def _record(emit: str, line: int, *, taken: bool) -> ops.Do:
    words: tuple[ops.Expr, ...] = (
        ENGINE,
        *(ops.i64(n) for n in (Kind.BRANCH, 0, 0, 0, line, int(taken), 0, 0, 0)),
    )
    return ops.Do(ops.Call(emit, words), line)
