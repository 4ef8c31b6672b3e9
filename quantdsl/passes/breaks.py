"""Turns of one kind: they break, before they do anything, where they would be of another."""

from quantdsl.ir.ops import Assign, Binary, Break, Elem, For, If, Stmt, Var, While
from quantdsl.ir.walk import expressions, nodes_in, statements
from quantdsl.passes.flags import calls

DIVISIONS = frozenset({"fdiv", "idiv", "imod"})

Block = tuple[Stmt, ...]


def given_up(body: Block, changing: frozenset[str]) -> Block:
    """A block that breaks where it would make a call or write memory.

    So it does in a branch that divides by or into what is `changing`, where its other side does
    not: an average that warms up.
    """

    def warms(block: Block, other: Block) -> bool:
        return bool(other) and _divides(block, changing) and not _divides(other, changing)

    def left(block: Block, other: Block) -> Block:
        if any(map(rare, block)) or warms(block, other):
            return (Break(),)
        return given_up(block, changing)

    return tuple(
        If(stmt.cond, left(stmt.then, stmt.otherwise), left(stmt.otherwise, stmt.then), stmt.line)
        if isinstance(stmt, If)
        else stmt
        for stmt in body
    )


def rare(stmt: Stmt) -> bool:
    """Whether a statement, not counting its blocks, is a call or writes memory."""
    if isinstance(stmt, For | While):
        return any(map(rare, statements(stmt.body)))
    return calls(stmt) or (isinstance(stmt, Assign) and not isinstance(stmt.place, Var))


def _divides(body: Block, changing: frozenset[str]) -> bool:
    """Whether a block divides by or into what changes from turn to turn."""
    return any(
        isinstance(node, Binary)
        and node.op in DIVISIONS
        and any(
            isinstance(part, Elem) or (isinstance(part, Var) and part.name in changing)
            for part in nodes_in(node)
        )
        for node in expressions(body)
    )
