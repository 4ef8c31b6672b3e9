"""Which locals of a loop carry a value from one turn to the next."""

from collections.abc import Iterator, Set

from quantdsl.ir.ops import Assign, Binary, Expr, If, Stmt, Var
from quantdsl.ir.walk import nested, operands, roots
from quantdsl.passes.scopes import assigned_names, reads_of_names
from quantdsl.passes.straight import requirements

Block = tuple[Stmt, ...]
Guards = frozenset[Expr]
"""Conditions that all hold."""


def lasts_to_next(body: Block, names: Set[str]) -> frozenset[str]:
    """Those of `names` that a turn may read before it has given them a value itself.

    A value counts as given if what led to it is among what led to the read.
    """
    finder = _Finder(frozenset(names), assigned_names(body))
    finder.block(body, frozenset())
    return frozenset(finder.found)


class _Finder:
    def __init__(self, names: frozenset[str], assigned: frozenset[str]) -> None:
        self.names, self.assigned = names, assigned
        self.found: set[str] = set()
        self.ways = 0
        self.given: dict[str, list[Guards]] = {}
        """Under which conditions a name has been given a value so far."""

    def block(self, body: Block, guards: Guards) -> None:
        for stmt in body:
            if isinstance(stmt, If):
                self.read(stmt.cond, guards)
                self.branch(stmt, guards)
                continue
            for block in nested(stmt):  # a loop: nothing is known of the order in it
                self.found |= self.names & reads_of_names(block).keys()
            local = isinstance(stmt, Assign) and isinstance(stmt.place, Var)
            for root in (stmt.value,) if local and isinstance(stmt, Assign) else roots(stmt):
                self.read(root, guards)
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var):
                self.given.setdefault(stmt.place.name, []).append(guards)

    def branch(self, stmt: If, guards: Guards) -> None:
        """Both ways; what only one of them gives counts behind it where its condition is asked
        again, and its value is the same throughout a turn."""
        parts = frozenset(requirements(stmt.cond))
        lasting = frozenset(self.lasting(iter(parts)))
        then = guards | lasting if lasting == parts else guards | lasting | {self.way()}
        otherwise = guards | {self.way()}
        self.block(stmt.then, then)
        self.block(stmt.otherwise, otherwise)
        for given in self.given.values():
            if then in given and otherwise in given:
                given.append(guards)

    def way(self) -> Expr:
        """Stands for what holds in one block alone."""
        self.ways += 1
        return Var(f"way@{self.ways}")

    def read(self, expr: Expr, guards: Guards) -> None:
        """Note what an expression reads under some conditions."""
        if isinstance(expr, Var):
            if expr.name in self.names and not any(
                given <= guards for given in self.given.get(expr.name, ())
            ):
                self.found.add(expr.name)
        elif isinstance(expr, Binary) and expr.op == "and":
            parts = list(requirements(expr))
            for part in parts:  # where another part does not hold, this one does not matter
                others = frozenset(self.lasting(other for other in parts if other is not part))
                self.part(part, guards | others, guards)
        else:
            for operand in operands(expr):
                self.read(operand, guards)

    def part(self, part: Expr, guards: Guards, outer: Guards) -> None:
        steady = not (self.names & _names(part))
        for operand in operands(part) or (part,):
            self.read(operand, outer if steady else guards)

    def lasting(self, parts: Iterator[Expr]) -> Iterator[Expr]:
        """Conditions whose value is the same throughout a turn."""
        return (part for part in parts if not _names(part) & self.assigned)


def _names(expr: Expr) -> frozenset[str]:
    if isinstance(expr, Var):
        return frozenset((expr.name,))
    return frozenset(name for operand in operands(expr) for name in _names(operand))
