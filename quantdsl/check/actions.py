"""Calls of an action: its body stands in place of the call, its parameters as locals."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from quantdsl.check import arith
from quantdsl.check.bindings import Local
from quantdsl.check.context import Context, Scope
from quantdsl.check.signatures import parameters
from quantdsl.check.stmts import body
from quantdsl.check.types import VOID, ir_type
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.ir.walk import statements
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import ActionBinding, Strategy


def inline(strategy: "Strategy", cx: Context, action: "ActionBinding", node: ast.Call) -> Value:
    """Emit the body; a return inside leaves the action, not the handler."""
    cx.spend(node.span)
    declared = parameters(cx, action.node.params)
    values = _arguments(cx, action, node)
    if values is None:
        return error_value(node.span)
    scope, outer_expected, outer_loops = cx.scope, cx.expected, cx.loops
    cx.scope = Scope(strategy.scope)
    # The body is one turn of a loop, so that `return` can become `break`: control stays structured.
    outer_facts = cx.facts
    block, cx.block = cx.block, []
    for param, value in zip(declared, values, strict=True):
        value = arith.coerce(cx, value, param.type)
        if value.bad:
            cx.scope, cx.block = scope, block
            return value
        name = cx.fresh("a")
        cx.emit(ops.Let(name, ir_type(value.type), value.ir))
        kept = Value(
            value.type, ops.Var(name), value.span, unit=value.unit, percent=value.percent
        )
        cx.scope.names[param.name] = Local(kept, used=True)
    action.busy = True
    cx.expected, cx.loops = VOID, 0
    body(cx, action.node.body)
    action.busy = False
    inner, cx.block = cx.block, block
    cx.scope, cx.expected, cx.loops = scope, outer_expected, outer_loops
    if _returns(inner):
        left = ops.Var(cx.fresh("left"))
        turn = (ops.Let(left.name, ops.BOOL_T, ops.boolean(False)), *_leaving(inner, left))
        cx.facts = outer_facts
        cx.emit(ops.For(cx.fresh("once"), ops.i64(0), ops.i64(1), turn))
    else:
        cx.block.extend(inner)
    return Value(VOID, ops.i64(0), node.span)


def alone(strategy: "Strategy", cx: Context, action: "ActionBinding") -> None:
    """Elaborate the body for its errors only; the parameters stand for anything."""
    cx.scope = Scope(strategy.scope)
    for param in parameters(cx, action.node.params):
        value = Value(param.type, ops.Var(param.name), param.node.span)
        if param.type.kind in ("price", "qty", "money"):
            value.unit = cx.units.of(cx, value)
        cx.scope.names[param.name] = Local(value, used=True)
    action.busy, cx.expected = True, VOID
    body(cx, action.node.body)
    action.busy = False


def _arguments(cx: Context, action: "ActionBinding", node: ast.Call) -> list[Value] | None:
    """One value per parameter, positional or by name."""
    names = [param.name.id for param in action.node.params]
    given: dict[str, Value] = {}
    for position, arg in enumerate(node.args):
        name = arg.name or (names[position] if position < len(names) else "")
        if name not in names or name in given:
            cx.error("QD0308", f"{action.node.name.id} takes ({', '.join(names)})", arg.span)
            return None
        given[name] = cx.expr(arg.value)
    for param in action.node.params:
        if param.name.id not in given and param.default is not None:
            given[param.name.id] = cx.expr(param.default)
    missing = [name for name in names if name not in given]
    if missing:
        cx.error("QD0308", f"{action.node.name.id} also needs {', '.join(missing)}", node.span)
        return None
    return None if any(value.bad for value in given.values()) else [given[n] for n in names]


def _returns(block: Iterable[ops.Stmt]) -> bool:
    return any(isinstance(stmt, ops.Return) for stmt in statements(tuple(block)))


def _leaving(block: Iterable[ops.Stmt], left: ops.Var) -> list[ops.Stmt]:
    """The block with every return as a break of the enclosing single-turn loop.

    A return in a loop of the body's own leaves that loop first: `left` says to go on leaving.
    """
    made: list[ops.Stmt] = []
    for stmt in block:
        if isinstance(stmt, ops.Return):
            made += [ops.Assign(left, ops.boolean(True)), ops.Break()]
        elif isinstance(stmt, ops.If | ops.For | ops.While) and _returns((stmt,)):
            made.append(_with_blocks(stmt, left))
            if not isinstance(stmt, ops.If):
                made.append(ops.If(left, (ops.Break(),)))
        else:
            made.append(stmt)
    return made


def _with_blocks(stmt: ops.If | ops.For | ops.While, left: ops.Var) -> ops.Stmt:
    if isinstance(stmt, ops.If):
        then, otherwise = _leaving(stmt.then, left), _leaving(stmt.otherwise, left)
        return ops.If(stmt.cond, tuple(then), tuple(otherwise), stmt.line)
    return msgspec.structs.replace(stmt, body=tuple(_leaving(stmt.body, left)))
