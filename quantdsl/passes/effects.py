"""What statements and functions read and write, as paths (places.py).

An aggregate argument may name the same object as another, so what a function does is told as
paths of each parameter alone; the caller maps them to its own places, and there two paths of one
object are seen to overlap.
"""

import functools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quantdsl.ir.ops import Assign, Call, Const, Elem, Expr, Field, Func, Module, Stmt, Var
from quantdsl.ir.walk import operands, roots, statements
from quantdsl.passes.places import Path, indices, is_table, path_of

FUNCS_MAX = 1_024
"""Functions of this process whose effects stay known."""


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
            found = self._whole(_direct(_Itself(func)))
            self._known[name] = Effects(
                frozenset(path for path in found.reads if path[0] in params),
                frozenset(path for path in found.writes if path[0] in params),
            )
        return self._known[name]

    def body(self, body: tuple[Stmt, ...]) -> Effects:
        """What statements do, nested ones included."""
        found = _Direct()
        for stmt in statements(body):
            found.stmt(stmt)
        return self._whole(found)

    def stmt(self, stmt: Stmt) -> Effects:
        """What the expressions that stand directly in a statement do."""
        found = _Direct()
        found.stmt(stmt)
        return self._whole(found)

    def expr(self, expr: Expr) -> Effects:
        """What an expression does."""
        found = _Direct()
        found.expr(expr)
        return self._whole(found)

    def _whole(self, found: "_Direct") -> Effects:
        """With what is called, and what is handed to it as values."""
        reads, writes = set(found.reads), set(found.writes)
        for call in found.calls:
            called = self.call(call)
            reads |= called.reads
            writes |= called.writes
            for scalar in self._scalars(call):
                inner = self.expr(scalar)
                reads |= inner.reads
                writes |= inner.writes
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


class _Direct:
    """What statements and expressions do themselves, and the calls that do the rest."""

    def __init__(self) -> None:
        self.reads: set[Path] = set()
        self.writes: set[Path] = set()
        self.calls: list[Call] = []

    def stmt(self, stmt: Stmt) -> None:
        if type(stmt) is Assign:
            self.writes.add(path_of(stmt.place) or ())
            self.expr(stmt.value)
            for index in indices(stmt.place):
                self.expr(index)
            return
        for expr in roots(stmt):
            self.expr(expr)

    def expr(self, expr: Expr) -> None:
        kind = type(expr)
        if kind is Const:
            return
        if type(expr) is Call:
            self.calls.append(expr)
        elif (kind is Var or kind is Field or kind is Elem) and not is_table(expr):
            self.reads.add(path_of(expr) or ())
            for index in indices(expr):
                self.expr(index)
        else:
            for operand in operands(expr):
                self.expr(operand)


class _Itself:
    """A function by its identity: passes leave most of them as they are."""

    def __init__(self, func: Func) -> None:
        self.func = func

    def __hash__(self) -> int:
        return id(self.func)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.func is other.func


@functools.lru_cache(FUNCS_MAX)
def _direct(itself: _Itself) -> _Direct:
    """What a function does itself; one is asked about by one pass after the other."""
    found = _Direct()
    for stmt in statements(itself.func.body):
        found.stmt(stmt)
    return found
