"""What a statement may change, and so what is no longer known once it has run."""

from collections.abc import Iterable

from quantdsl.ir import ops
from quantdsl.ir.walk import nodes_in, statements


def changed(block: Iterable[ops.Stmt]) -> frozenset[ops.Expr]:
    """The places that the statements, nested ones included, may assign to."""
    return frozenset(
        _whole(stmt.place) for stmt in statements(tuple(block)) if isinstance(stmt, ops.Assign)
    )


def mentions(expr: ops.Expr, places: frozenset[ops.Expr]) -> bool:
    """True when the expression reads one of the places."""
    return any(part in places for part in nodes_in(expr))


def _whole(place: ops.Expr) -> ops.Expr:
    """The place; of an element its array, for an index may name any of them."""
    whole = place
    while isinstance(place, ops.Field | ops.Elem):
        if isinstance(place, ops.Elem):
            whole = place.base
        place = place.base
    return whole
