"""The names of a function: which are declared, assigned and read where."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from quantdsl.ir.ops import I64_T, Assign, Expr, For, Func, Let, Stmt, Type, Var
from quantdsl.ir.walk import (
    nodes_in,
    rebuild_body,
    rebuild_expr,
    rebuild_stmt,
    roots,
    statements,
)
from quantdsl.passes.places import Path, path_of, spelled

Block = tuple[Stmt, ...]


def local_types(func: Func) -> dict[str, Type]:
    """Name -> type of every parameter and local."""
    types = {param.name: param.type for param in func.params}
    for stmt in statements(func.body):
        if isinstance(stmt, Let):
            types[stmt.name] = stmt.type
        elif isinstance(stmt, For):
            types[stmt.name] = I64_T
    return types


def declared_names(body: Block) -> frozenset[str]:
    """The locals that a body declares."""
    return frozenset([s.name for s in statements(body) if type(s) is Let or type(s) is For])


def assigned_names(body: Block) -> frozenset[str]:
    """The locals that a body gives another value, as a whole."""
    return frozenset(
        [s.place.name for s in statements(body) if type(s) is Assign and type(s.place) is Var]
    )


def names_in(expr: Expr) -> frozenset[str]:
    """The names that an expression reads."""
    return frozenset([node.name for node in nodes_in(expr) if type(node) is Var])


def reads_of_names(body: Block) -> Counter[str]:
    """How often each name is read, or named in a place."""
    counts: Counter[str] = Counter()
    for stmt in statements(body):
        exprs = roots(stmt)
        if isinstance(stmt, Assign) and isinstance(stmt.place, Var):
            exprs = (stmt.value,)
        counts.update([one.name for expr in exprs for one in nodes_in(expr) if type(one) is Var])
    return counts


def placed(node: Expr, name: str, value: Expr) -> Expr:
    """An expression with a value in place of a local."""
    if node == Var(name):
        return value
    return rebuild_expr(node, lambda inner: placed(inner, name, value))


def renamed(body: Block, names: Mapping[str, str]) -> Block:
    """A body with other names for some locals, where they are declared and where they are used."""

    def expr(node: Expr) -> Expr:
        if isinstance(node, Var):
            return Var(names[node.name]) if node.name in names else node
        return rebuild_expr(node, expr)

    def stmt(inner: Stmt) -> Stmt:
        new = rebuild_stmt(inner, expr, stmt)
        if isinstance(new, Let | For) and new.name in names:
            return msgspec.structs.replace(new, name=names[new.name])
        return new

    return rebuild_body(body, stmt)


def word_name(path: Path) -> str:
    """The local that holds a word of the state while an entry runs (promote.py)."""
    return f"{spelled(path)}@{path[0]}"


def promoted(entry: Func) -> dict[str, Path]:
    """The locals of an entry that hold words of the state, and the words' paths."""
    found: dict[str, Path] = {}
    for stmt in entry.body:
        path = path_of(stmt.value) if isinstance(stmt, Let) and stmt.value else None
        if path is None or not isinstance(stmt, Let) or stmt.name != word_name(path):
            break
        found[stmt.name] = path
    return found
