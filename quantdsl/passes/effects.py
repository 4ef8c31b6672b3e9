"""What statements and functions read and write, as paths (places.py).

An aggregate argument may name the same object as another, so what a function does is told as
paths of each parameter alone; the caller maps them to its own places, and there two paths of one
object are seen to overlap.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quantdsl.ir.ops import Assign, Call, Elem, Expr, Field, Module, Stmt, Var
from quantdsl.ir.walk import operands, roots, statements
from quantdsl.passes.places import Path, indices, is_table, path_of


class Effects(NamedTuple):
    """Paths that begin with a parameter or local; one that ends early stands for all inside."""

    reads: frozenset[Path]
    writes: frozenset[Path]


class Analysis:
    """The effects of a module's functions, and of statements that call them."""

    def __init__(self, module: Module) -> None:
        self.funcs = {func.name: func for func in module.funcs}
        self._known: dict[str, Effects] = {}

    def func(self, name: str) -> Effects:
        """What a function does to what it is given."""
        if name not in self._known:
            func = self.funcs[name]
            params = {param.name for param in func.params if not isinstance(param.type, str)}
            found = self.body(func.body)
            self._known[name] = Effects(
                frozenset(path for path in found.reads if path[0] in params),
                frozenset(path for path in found.writes if path[0] in params),
            )
        return self._known[name]

    def body(self, body: tuple[Stmt, ...]) -> Effects:
        """What statements do, nested ones included."""
        reads: set[Path] = set()
        writes: set[Path] = set()
        for stmt in statements(body):
            self._stmt(stmt, reads, writes)
        return Effects(frozenset(reads), frozenset(writes))

    def stmt(self, stmt: Stmt) -> Effects:
        """What the expressions that stand directly in a statement do."""
        reads: set[Path] = set()
        writes: set[Path] = set()
        self._stmt(stmt, reads, writes)
        return Effects(frozenset(reads), frozenset(writes))

    def expr(self, expr: Expr) -> Effects:
        """What an expression does."""
        reads: set[Path] = set()
        writes: set[Path] = set()
        self._expr(expr, reads, writes)
        return Effects(frozenset(reads), frozenset(writes))

    def call(self, call: Call) -> Effects:
        """What a call does to the places that it is given, its scalar arguments left out."""
        given = {
            param.name: path_of(arg) or ()
            for param, arg in zip(self.funcs[call.func].params, call.args, strict=True)
            if not isinstance(param.type, str)
        }

        def mapped(paths: Iterable[Path]) -> frozenset[Path]:
            return frozenset((*given[str(path[0])], *path[1:]) for path in paths)

        known = self.func(call.func)
        return Effects(mapped(known.reads), mapped(known.writes))

    def own_reads(self, expr: Expr) -> frozenset[Path]:
        """What an expression reads itself, the places that it hands to a call left out."""
        if not isinstance(expr, Call):
            return self.expr(expr).reads
        reads: set[Path] = set()
        for scalar in self._scalars(expr):
            reads |= self.own_reads(scalar)
        return frozenset(reads)

    def _scalars(self, call: Call) -> Iterator[Expr]:
        """The values that the caller computes for a call."""
        for param, arg in zip(self.funcs[call.func].params, call.args, strict=True):
            if isinstance(param.type, str):
                yield arg
            else:
                yield from indices(arg)

    def _stmt(self, stmt: Stmt, reads: set[Path], writes: set[Path]) -> None:
        if isinstance(stmt, Assign):
            writes.add(path_of(stmt.place) or ())
            self._expr(stmt.value, reads, writes)
            for index in indices(stmt.place):
                self._expr(index, reads, writes)
            return
        for expr in roots(stmt):
            self._expr(expr, reads, writes)

    def _expr(self, expr: Expr, reads: set[Path], writes: set[Path]) -> None:
        if isinstance(expr, Call):
            called = self.call(expr)
            reads |= called.reads
            writes |= called.writes
            for scalar in self._scalars(expr):
                self._expr(scalar, reads, writes)
        elif isinstance(expr, Var | Field | Elem) and not is_table(expr):
            reads.add(path_of(expr) or ())
            for index in indices(expr):
                self._expr(index, reads, writes)
        else:
            for operand in operands(expr):
                self._expr(operand, reads, writes)
