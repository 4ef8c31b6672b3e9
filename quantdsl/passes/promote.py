"""Keep the words of the state that an entry's loop uses in locals, which become registers.

A word that the entry names by a path without unknown indices is loaded when the entry begins and
stored when it ends. A call that stays sees the state itself: before it, what it may read or write
is stored if the entry ever changes it, and after it, what it may write is loaded again.
"""

from collections.abc import Iterable, Iterator

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    Assign,
    Call,
    Do,
    Expr,
    Func,
    If,
    Let,
    Module,
    Return,
    ScalarType,
    Stmt,
    Var,
)
from quantdsl.ir.walk import nested, rebuild_blocks, rebuild_expr, rebuild_stmt, roots, statements
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import (
    Path,
    PathSet,
    as_place,
    known,
    path_of,
    place_at,
    type_at,
)
from quantdsl.passes.scopes import word_name
from quantdsl.passes.uniform import Uniform

Words = dict[Path, ScalarType]


def promote_words(
    module: Module, entry: str, shared: Uniform | None = None, depth: int | None = None
) -> Module:
    """The module with the entry's words of the state in locals named by their path, `e.cash@s`.

    Calls of the entry stand at statement roots, as inline.py leaves them. Where registers are
    few, words that differ between lanes stay in memory if all that uses them lies inside more
    than `depth` branches on what is not `shared`.
    """
    analysis = Analysis(module)
    funcs = tuple(
        _Promoter(module, analysis, func, shared, depth).func() if func.name == entry else func
        for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=funcs)


class _Promoter:
    """Rewrites one entry, whose first parameter is the state."""

    def __init__(
        self,
        module: Module,
        analysis: Analysis,
        entry: Func,
        shared: Uniform | None,
        depth: int | None,
    ) -> None:
        self.layout = Layout(module.structs)
        self.analysis = analysis
        self.entry = entry
        self.state = entry.params[0]
        self.words = self.candidates()
        if shared is not None and depth is not None:
            near = PathSet(self.near(entry.body, shared, depth))
            self.words = {
                path: type_
                for path, type_ in self.words.items()
                if shared.place(place_at(path)) or near.meets(path)
            }
        self.changed = {
            path
            for stmt in statements(entry.body)
            if isinstance(stmt, Assign) and (path := path_of(stmt.place)) in self.words
        }
        self.count = 0

    def func(self) -> Func:
        head = [Let(word_name(path), type_, place_at(path)) for path, type_ in self.words.items()]
        body = [*head, *self.block(self.entry.body)]
        if not body or not isinstance(body[-1], Return):
            body += self.stores(self.words)
        return msgspec.structs.replace(self.entry, body=tuple(body))

    def candidates(self) -> Words:
        """The words that the entry names, but for those that it may reach by another path too."""
        words: Words = {}
        wide = PathSet()
        for path in self.own_paths():
            if path[0] != self.state.name:
                continue
            type_ = type_at(self.layout, self.state.type, path[1:])
            if known(path) and isinstance(type_, str):
                words[path] = type_
            else:
                wide.add(path)
        return {path: type_ for path, type_ in words.items() if not wide.meets(path)}

    def own_paths(self) -> Iterator[Path]:
        """What the entry reads and writes itself, in order."""
        for stmt in statements(self.entry.body):
            yield from self.named(stmt)

    def named(self, stmt: Stmt) -> Iterator[Path]:
        if isinstance(stmt, Assign):
            yield path_of(stmt.place) or ()
        for root in roots(stmt):
            yield from sorted(self.analysis.own_reads(root), key=str)  # a set has no order

    def near(self, body: tuple[Stmt, ...], shared: Uniform, depth: int) -> Iterator[Path]:
        """What is named inside no more than `depth` branches that lanes part at."""
        for stmt in body:
            yield from self.named(stmt)
            parts = isinstance(stmt, If) and not shared.expr(stmt.cond)
            for block in nested(stmt):
                # Beside a branch that calls, the other one is where most lanes go.
                away = parts and not any(_calls(other) for other in nested(stmt) if other != block)
                if depth >= away:
                    yield from self.near(block, shared, depth - away)

    def stores(self, paths: Iterable[Path]) -> list[Stmt]:
        return [
            Assign(place_at(path), Var(word_name(path))) for path in paths if path in self.changed
        ]

    # ---- statements ---------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        new: list[Stmt] = []
        for stmt in body:
            new += self.stmt(stmt)
        return tuple(new)

    def stmt(self, stmt: Stmt) -> list[Stmt]:
        match stmt:
            case Let(value=Call() as call) | Do(call=call):
                before, after = self.around(call)
                return [*before, rebuild_stmt(stmt, self.expr, _same), *after]
            case Assign(value=Call() as call):
                return self.assign_call(stmt, call)
            case Return(value=Call() as call):
                before, after = self.around(call)
                aside = self.aside(call)
                value = Var(aside.name)
                return [*before, aside, *after, *self.stores(self.words), Return(value)]
            case Return():
                return [*self.stores(self.words), rebuild_stmt(stmt, self.expr, _same)]
        return [rebuild_stmt(rebuild_blocks(stmt, self.block), self.expr, _same)]

    def assign_call(self, stmt: Assign, call: Call) -> list[Stmt]:
        """The call's own writes come before the assignment of its result."""
        before, after = self.around(call)
        if isinstance(stmt.place, Var):
            return [*before, rebuild_stmt(stmt, self.expr, _same), *after]
        aside = self.aside(call)
        place = as_place(self.expr(stmt.place))
        return [*before, aside, *after, Assign(place, Var(aside.name), stmt.line)]

    def aside(self, call: Call) -> Let:
        """The result of a call, kept until what the call wrote is loaded."""
        result = self.analysis.funcs[call.func].result
        value = self.expr(call)
        assert result is not None
        self.count += 1
        return Let(f"result.{self.count}", result, value)

    def around(self, call: Call) -> tuple[list[Stmt], list[Stmt]]:
        """What is stored before a call and loaded after it."""
        effects = self.analysis.call(call)
        writes, uses = PathSet(effects.writes), PathSet(effects.reads | effects.writes)
        written = filter(writes.meets, self.words)
        touched = filter(uses.meets, self.words)
        loads: list[Stmt] = [Assign(Var(word_name(path)), place_at(path)) for path in written]
        return self.stores(touched), loads

    def expr(self, expr: Expr) -> Expr:
        path = path_of(expr)
        if path is not None and path in self.words:
            return Var(word_name(path))
        return rebuild_expr(expr, self.expr)


def _calls(body: tuple[Stmt, ...]) -> bool:
    return any(isinstance(stmt, Do) for stmt in body)


def _same(stmt: Stmt) -> Stmt:
    return stmt
