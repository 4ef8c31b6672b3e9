"""Lanes that write what they have in common wait for each other before each such write.

On a GPU the lanes of a warp have one order book and run the same code on it: each of them writes
the same word (passes/uniform.py proves that they agree). One that runs ahead must not write what
another has yet to read, so all meet in front of each write: what it writes, and where, is computed
before, and after it a lane sees at least what it wrote itself. Nothing else has to wait.
"""

import itertools
from collections.abc import Iterator, Set

import msgspec

from quantdsl.errors import InternalError
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    I64_T,
    Assign,
    Call,
    Const,
    Do,
    Elem,
    Expr,
    Func,
    Let,
    Module,
    Stmt,
    Type,
    Var,
)
from quantdsl.ir.walk import nodes, rebuild_blocks, rebuild_expr
from quantdsl.passes.common import COMMON, takes_common
from quantdsl.passes.past import takes_past
from quantdsl.passes.places import as_place, path_of, type_at
from quantdsl.passes.scopes import local_types
from quantdsl.passes.uniform import uniform

MEET = "meet@"
"""The function that waits: it does nothing by itself, a target says how lanes wait."""


def meet_to_write(module: Module, entry: str, varying: Set[str]) -> Module:
    """The module whose lanes meet before each write to what they have in common.

    It comes as it is where they have nothing in common. `varying` as `uniform` takes it.
    """
    lane = next(func for func in module.funcs if func.name == entry)
    if not takes_common(lane) or takes_past(lane):
        return module
    if not uniform(module, entry, varying).expr(Var(COMMON)):
        raise InternalError("QD9518 passes: lanes do not agree on what they have in common")
    layout, held = Layout(module.structs), _held(module)
    funcs = [_Waiter(layout, func, held[func.name]).func() for func in module.funcs]
    return msgspec.structs.replace(module, funcs=(Func(MEET, (), None, (), inline=True), *funcs))


def _held(module: Module) -> dict[str, set[str]]:
    """The parameters of each function that are given memory of what lanes have in common."""
    funcs = {func.name: func for func in module.funcs}
    held = {func.name: {COMMON} if takes_common(func) else set() for func in module.funcs}
    own: set[tuple[str, str]] = set()
    for func in reversed(module.funcs):  # callers stand after their callees
        for node in nodes(func.body):
            if not isinstance(node, Call):
                continue
            for param, arg in zip(funcs[node.func].params, node.args, strict=True):
                root = (path_of(arg) or ("",))[0]
                if root in held[func.name]:
                    held[node.func].add(param.name)
                elif not isinstance(param.type, str) and param.inout:
                    own.add((node.func, param.name))
    if any(name in held[func] for func, name in own):
        raise InternalError("QD9519 passes: a function writes what lanes share and what they own")
    return held


class _Waiter:
    """Rewrites one function, of whose parameters `held` are memory that lanes have in common."""

    def __init__(self, layout: Layout, func: Func, held: Set[str]) -> None:
        self.layout, self.decl, self.held = layout, func, held
        self.types: dict[str, Type] = {**local_types(func)}
        self.numbers = itertools.count()

    def func(self) -> Func:
        if not self.held:
            return self.decl
        return msgspec.structs.replace(self.decl, body=self.block(self.decl.body))

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(itertools.chain.from_iterable(map(self.stmt, body)))

    def stmt(self, stmt: Stmt) -> Iterator[Stmt]:
        path = path_of(stmt.place) if isinstance(stmt, Assign) else None
        if path is None or path[0] not in self.held:
            yield rebuild_blocks(stmt, self.block)
            return
        assert isinstance(stmt, Assign)
        made: list[Stmt] = []

        def settled(place: Expr) -> Expr:
            if not isinstance(place, Elem) or isinstance(place.index, Const):
                return rebuild_expr(place, settled)
            return Elem(as_place(settled(place.base)), self.aside(place.index, I64_T, made))

        place = as_place(settled(stmt.place))
        type_ = type_at(self.layout, self.types[str(path[0])], path[1:])
        value = self.aside(stmt.value, type_, made)
        yield from (*made, Do(Call(MEET, ())), Assign(place, value, stmt.line))

    def aside(self, value: Expr, type_: Type, made: list[Stmt]) -> Expr:
        """A value in a local of its own."""
        name = f"{MEET}{next(self.numbers)}"
        made.append(Let(name, type_, value))
        return Var(name)
