"""Quotients that a lane's turns would make anew of words that they never change: made once a lane.

A division takes a GPU as long as ten other operations, and nothing that stands between two turns
that are not usual lets it keep one in a register.
"""

from collections.abc import Iterator, Sequence, Set

import msgspec

from quantdsl.ir.ops import (
    F64_T,
    Assign,
    Binary,
    BufferType,
    Const,
    Elem,
    Expr,
    Field,
    Fma,
    For,
    Func,
    Let,
    Module,
    ParamDecl,
    Select,
    Stmt,
    Unary,
    Var,
    i64,
)
from quantdsl.ir.walk import nodes_in, operands, rebuild_body, rebuild_expr, rebuild_stmt
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import PathSet, known, path_of
from quantdsl.passes.scopes import assigned_names, promoted

HELD = "held@"
"""The param that holds them."""
HELD_WORDS = "HELD_WORDS"
"""The module's size that says how many there are."""
HELD_TYPE = BufferType(F64_T)


def with_held(entry: Func) -> tuple[Func, tuple[Expr, ...]]:
    """The entry with such quotients, or what is made of them, read from HELD; and what they are.

    It is one loop behind words that are held in locals. Where it has none it comes as it is.
    """
    at = next((at for at, stmt in enumerate(entry.body) if isinstance(stmt, For)), None)
    if at is None:
        return entry, ()
    loop = entry.body[at]
    holder = _Holder(promoted(entry).keys(), assigned_names((loop,)))
    (loop,) = rebuild_body((loop,), holder.stmt)
    if not holder.found:
        return entry, ()
    body = (*entry.body[:at], *holder.lets(), loop, *entry.body[at + 1 :])
    params = (*entry.params, ParamDecl(HELD, HELD_TYPE))
    return msgspec.structs.replace(entry, params=params, body=body), tuple(holder.found)


def hold_quotients(module: Module, names: Sequence[str], hold: str) -> Module:
    """The module whose turns, functions that call nothing, read from HELD such quotients too.

    `hold` is what writes HELD before the first turn; it is made where nothing was held.
    """
    funcs, sizes = {func.name: func for func in module.funcs}, dict(module.sizes)
    state, analysis = funcs[names[0]].params[0], Analysis(module)
    changed = PathSet(path for name in names for path in analysis.func(name).writes)
    found: dict[Expr, Elem] = {}

    def lasts(expr: Expr) -> bool:
        if isinstance(expr, Const | Unary | Binary | Select | Fma):
            return all(map(lasts, operands(expr)))
        path = path_of(expr)
        if path is None or path[0] != state.name or not known(path):
            return False
        return not changed.meets(path)

    def expr(node: Expr) -> Expr:
        if isinstance(node, Binary) and node.op == "fdiv" and lasts(node) and _names(node):
            return found.setdefault(node, Elem(Var(HELD), i64(sizes[HELD_WORDS] + len(found))))
        return rebuild_expr(node, expr)

    def stmt(one: Stmt) -> Stmt:
        return rebuild_stmt(one, expr, stmt)

    for name in names:
        body = tuple(map(stmt, funcs[name].body))
        funcs[name] = msgspec.structs.replace(funcs[name], body=body)
    if not found:
        return module
    puts = tuple(Assign(place, value) for value, place in found.items())
    if hold not in funcs:
        for name in names:
            params = (*funcs[name].params, ParamDecl(HELD, HELD_TYPE))
            funcs[name] = msgspec.structs.replace(funcs[name], params=params)
        held = ParamDecl(HELD, HELD_TYPE, inout=True)
        funcs[hold] = Func(hold, (ParamDecl(state.name, state.type), held), None, ())
    holding = funcs[hold]
    funcs[hold] = msgspec.structs.replace(holding, body=(*holding.body, *puts))
    sizes[HELD_WORDS] += len(found)
    return msgspec.structs.replace(
        module,
        funcs=tuple(funcs.values()),
        entries=tuple(dict.fromkeys((*module.entries, hold))),
        sizes=tuple(sorted(sizes.items())),
    )


def _names(expr: Expr) -> bool:
    """Whether an expression is made of any place: one of literals alone is a literal to LLVM."""
    return any(isinstance(node, Field | Elem | Var) for node in nodes_in(expr))


class _Holder:
    """Rewrites a loop over `words`, of which it changes those that are `assigned`."""

    def __init__(self, words: Set[str], assigned: Set[str]) -> None:
        self.assigned = assigned
        self.lasting: dict[str, Expr] = {name: Var(name) for name in words - assigned}
        """What never changes, made of words."""
        self.found: dict[Expr, str] = {}
        """What is held, and by which local."""

    def lets(self) -> Iterator[Stmt]:
        for number, name in enumerate(self.found.values()):
            yield Let(name, F64_T, Elem(Var(HELD), i64(number)))

    def stmt(self, stmt: Stmt) -> Stmt:
        new = rebuild_stmt(stmt, self.expr, self.stmt)
        if isinstance(stmt, Let) and stmt.value is not None and stmt.name not in self.assigned:
            value = self.lasts(stmt.value)
            if value is not None:
                self.lasting[stmt.name] = value
        return new

    def expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Binary) and expr.op == "fdiv":
            value = self.lasts(expr)
            if value is not None and _names(value):
                return Var(self.found.setdefault(value, f"held.{len(self.found)}@"))
        return rebuild_expr(expr, self.expr)

    def lasts(self, expr: Expr) -> Expr | None:
        """A value that no turn changes, made of words; None: it is no such thing."""
        if isinstance(expr, Var):
            return self.lasting.get(expr.name)
        if not isinstance(expr, Const | Unary | Binary | Select | Fma):
            return None
        parts = {id(operand): self.lasts(operand) for operand in operands(expr)}
        if None in parts.values():
            return None
        return rebuild_expr(expr, lambda operand: parts[id(operand)] or operand)
