"""Split the structs that an entry keeps in locals into one scalar local for each word.

Lanes of a vector hold scalars side by side, not structs. A struct that is handed to a call stays
what it is, and so does one that is reached by an unknown index. Structs that are copied are
copied word by word, so that each word of the state has its own assignment.
"""

from collections.abc import Iterator

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    I64_T,
    Assign,
    Call,
    Const,
    Elem,
    Expr,
    Field,
    Func,
    Let,
    Module,
    Place,
    ScalarType,
    Stmt,
    StructOf,
    StructType,
    Type,
    Var,
)
from quantdsl.ir.walk import (
    nodes_in,
    rebuild_blocks,
    rebuild_expr,
    rebuild_stmt,
    roots,
    statements,
)
from quantdsl.passes.places import (
    Path,
    as_place,
    inside,
    known,
    leaves,
    path_of,
    spelled,
    type_at,
)
from quantdsl.passes.scopes import local_types

SPLIT_WORDS = 32
"""A larger struct stays in memory."""


def split_structs(module: Module, entry: str) -> Module:
    """The module with the entry's local structs as scalars."""
    funcs = tuple(
        _Splitter(module, func).func() if func.name == entry else func for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=funcs)


class _Splitter:
    """Rewrites one entry; `split` are the locals that it takes apart."""

    def __init__(self, module: Module, entry: Func) -> None:
        self.layout = Layout(module.structs)
        self.entry = entry
        self.types = local_types(entry)
        locals_ = {stmt.name for stmt in statements(entry.body) if isinstance(stmt, Let)}
        self.split = {name for name in locals_ if self.small(self.types[name])}
        self.split -= set(self.whole())

    def func(self) -> Func:
        return msgspec.structs.replace(self.entry, body=self.block(self.entry.body))

    def type(self, place: Expr) -> Type:
        path = path_of(place) or ()
        return type_at(self.layout, self.types[str(path[0])], path[1:])

    def small(self, type_: Type) -> bool:
        return isinstance(type_, StructType) and self.layout.words(type_) <= SPLIT_WORDS

    def whole(self) -> Iterator[str]:
        """Locals that must stay in memory: a call has them, or an unknown index."""
        for stmt in statements(self.entry.body):
            exprs = roots(stmt)
            if isinstance(stmt, Assign) and isinstance(stmt.value, Call):
                yield from _root(stmt.place)
            if isinstance(stmt, Let) and isinstance(stmt.value, Call):
                yield stmt.name
            for root in exprs:
                for node in nodes_in(root):
                    if isinstance(node, Call):
                        for arg in node.args:
                            yield from _root(arg)
                    elif (path := path_of(node)) is not None and not known(path):
                        yield str(path[0])

    # ---- statements ---------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        new: list[Stmt] = []
        for stmt in body:
            new += self.stmt(stmt)
        return tuple(new)

    def stmt(self, stmt: Stmt) -> list[Stmt]:
        if isinstance(stmt, Let) and stmt.name in self.split:
            return self.let(stmt)
        if (
            isinstance(stmt, Let)
            and stmt.value is not None
            and self.small(stmt.type)
            and _root(stmt.value) & self.split
        ):
            copied = Assign(Var(stmt.name), stmt.value, stmt.line)
            return [msgspec.structs.replace(stmt, value=None), *self.copy(copied)]
        called = isinstance(stmt, Assign) and isinstance(stmt.value, Call)
        if isinstance(stmt, Assign) and not called and self.small(self.type(stmt.place)):
            return self.copy(stmt)
        return [rebuild_stmt(rebuild_blocks(stmt, self.block), self.expr, lambda s: s)]

    def let(self, stmt: Let) -> list[Stmt]:
        """A local for each word."""
        found = list(leaves(self.layout, stmt.type))
        values: list[Expr | None] = [None] * len(found)
        if stmt.value is not None:
            values = [*self.words(stmt.value, found)]
        return [
            Let(_name((stmt.name, *path)), type_, value, stmt.line)
            for (path, type_), value in zip(found, values, strict=True)
        ]

    def copy(self, stmt: Assign) -> list[Stmt]:
        """Word by word, after all that the words or their places depend on."""
        new: list[Stmt] = []
        type_ = self.type(stmt.place)
        found = list(leaves(self.layout, type_))
        if isinstance(stmt.value, StructOf):
            values = self.words(stmt.value, found)
            values = [
                value if isinstance(value, Const) else self.aside(value, leaf, new)
                for value, (_, leaf) in zip(values, found, strict=True)
            ]
        else:
            values = self.words(self.settled(stmt.value, new), found)
        place = self.settled(stmt.place, new)
        new += (
            Assign(as_place(self.expr(inside(place, path))), value, stmt.line)
            for (path, _), value in zip(found, values, strict=True)
        )
        return new

    def words(self, value: Expr, found: list[tuple[Path, ScalarType]]) -> list[Expr]:
        """The words of a struct value."""
        if isinstance(value, StructOf):
            return [self.expr(word) for word in value.values]
        return [self.expr(inside(value, path)) for path, _ in found]

    def settled(self, place: Expr, new: list[Stmt]) -> Place:
        """A place whose indices stay what they are now."""
        if isinstance(place, Field):
            return Field(self.settled(place.base, new), place.name)
        if not isinstance(place, Elem):
            return as_place(place)
        index = place.index
        if not isinstance(index, Const):
            index = self.aside(self.expr(index), I64_T, new)
        return Elem(self.settled(place.base, new), index)

    def aside(self, value: Expr, type_: ScalarType, new: list[Stmt]) -> Expr:
        name = f"word@{len(self.types)}"
        self.types[name] = type_
        new.append(Let(name, type_, value))
        return Var(name)

    def expr(self, expr: Expr) -> Expr:
        path = path_of(expr)
        if path is not None and path[0] in self.split:
            return Var(_name(path))
        return rebuild_expr(expr, self.expr)


def _name(path: Path) -> str:
    return f"{path[0]}.{spelled(path)}"


def _root(place: Expr) -> frozenset[str]:
    path = path_of(place)
    return frozenset() if path is None else frozenset({str(path[0])})
