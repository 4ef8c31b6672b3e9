"""What the equations of a strategy are computed from: fields of the state, and so params.

A use is a pair: a field of the state, and the part of it where it is a struct (`v5`, `hist`), or
an empty string where the whole of it is used.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from quantdsl.check.equations import PANEL, STATE, Ring
from quantdsl.ir import ops
from quantdsl.ir.walk import operands, roots, statements

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

Use = tuple[str, str]


def used(*exprs: ops.Expr) -> set[Use]:
    """The parts of the state that expressions name."""
    found: set[Use] = set()
    waiting = list(exprs)
    while waiting:
        expr = waiting.pop()
        names: list[str] = []
        while isinstance(expr, ops.Field):
            names.append(expr.name)
            expr = expr.base
        if isinstance(expr, ops.Elem) and expr.base == PANEL and names:
            found.add((names[-1], names[-2] if len(names) > 1 else ""))
            waiting.append(expr.index)
        elif expr == STATE and names:
            found.add((names[-1], names[-2] if len(names) > 1 else ""))
        else:
            waiting += operands(expr)
    return found


def used_in(body: Iterable[ops.Stmt]) -> set[Use]:
    """The parts of the state that statements name, those that they write included."""
    return {use for stmt in statements(tuple(body)) for use in used(*roots(stmt))}


def used_by(funcs: Iterable[ops.Func]) -> set[Use]:
    """The parts of the state that functions name."""
    return {use for func in funcs for use in used_in(func.body)}


def fields(uses: Iterable[Use]) -> set[str]:
    """The fields alone."""
    return {name for name, _ in uses}


def target(stmt: ops.Stmt) -> str:
    """The field that an assignment writes to; empty for what else there is."""
    if not isinstance(stmt, ops.Assign):
        return ""
    place: ops.Expr = stmt.place
    name = ""
    while isinstance(place, ops.Field | ops.Elem):
        name = place.name if isinstance(place, ops.Field) else name
        place = place.base
    return name if place == STATE else ""


def kept(stmts: Iterable[ops.Stmt], live: set[str]) -> list[ops.Stmt]:
    """Without the assignments to fields that nothing after them reads; `live` grows."""
    left: list[ops.Stmt] = []
    for stmt in reversed(list(stmts)):
        name = target(stmt)
        if not name or name in live:
            live |= fields(used_in([stmt]))
            left.append(stmt)
    return left[::-1]


class Graph:
    """The equations of an elaborated strategy by number, and what each depends on."""

    def __init__(self, strategy: "Strategy") -> None:
        equations = strategy.equations
        self.strategy = strategy
        self.all = equations.all
        self._params = {param.field: param.name for param in strategy.params}
        self._made: dict[str, set[Use]] = {}
        for stmt in equations.at_start:
            if isinstance(stmt, ops.Assign):
                self._made.setdefault(target(stmt), set()).update(used(stmt.value))
        self._number = {equation.place.name: n for n, equation in enumerate(self.all)}
        self.histories: dict[str, list[tuple[ops.Expr, Ring]]] = {}  # by field, what of it is kept
        self._ring_of: dict[str, str] = {}
        for (source, _), ring in equations.rings.items():
            ((name, _part),) = used(source)
            self._ring_of[ring.place.name] = name
            self.histories.setdefault(name, []).append((source, ring))
        self.reads = [
            used(
                equation.value,
                *(need.count for _, need in equation.needs),
                *getattr(equation, "conditions", ()),  # of a cross-section: who takes part
            )
            - {(equation.place.name, "")}  # a cross-section names the column that it fills
            for equation in self.all
        ]
        self._known: dict[str, frozenset[str]] = {}

    def params(self, number: int) -> frozenset[str]:
        """The params that an equation depends on, through all that it is computed from."""
        return frozenset().union(*map(self._of, fields(self.reads[number])))

    def inputs(self, number: int) -> list[int]:
        """The equations whose values, or histories, an equation reads."""
        names = {self._ring_of.get(name, name) for name in fields(self.reads[number])}
        return sorted(self._number[name] for name in names if name in self._number)

    def _of(self, name: str) -> frozenset[str]:
        if name in self._params:
            return frozenset({self._params[name]})
        if name not in self._known:
            source = self._ring_of.get(name, name)
            if source in self._number:
                self._known[name] = self.params(self._number[source])
            else:
                made = fields(self._made.get(source, ()))
                self._known[name] = frozenset().union(*map(self._of, made))
        return self._known[name]

    def parts(self, number: int, live: set[Use]) -> frozenset[str]:
        """Which parts of the equation's value are read, by itself or as a history."""
        place = self.all[number].place.name
        found = {part for name, part in live if name == place}
        for source, _ in self.kept(place, fields(live)):
            found |= {part for _, part in used(source)}
        return frozenset(found)

    def kept(self, place: str, live: set[str]) -> list[tuple[ops.Expr, Ring]]:
        """The histories of a field that are looked back at, each with what it is of."""
        return [kept for kept in self.histories.get(place, ()) if kept[1].place.name in live]
