"""Make functions of the rarely run parts of an entry, so that its loop holds what every bar does.

Lanes that run side by side pay for each branch that one of them takes, and a vector cannot run an
order's way through the gate. A branch that is certain to call cold code is as rare as that code,
so the whole branch moves out: what builds an order is cold with the order. A condition that
merely has cold code somewhere inside stays.
"""

import itertools

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    Assign,
    Break,
    BufferType,
    Call,
    Continue,
    Do,
    Expr,
    Field,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Stmt,
    Type,
    Var,
    While,
)
from quantdsl.ir.walk import (
    expressions,
    nested,
    nodes_in,
    rebuild_body,
    rebuild_expr,
    rebuild_stmt,
)
from quantdsl.passes.common import COMMON
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import PathSet, indices, path_of, type_at
from quantdsl.passes.scopes import assigned_names, declared_names, local_types, reads_of_names

Block = tuple[Stmt, ...]


def outline_cold(module: Module, entry: str) -> Module:
    """The module with the cold branches of the entry as functions `cold.<k>` of their own."""
    funcs: list[Func] = []
    for func in module.funcs:
        if func.name == entry:
            outliner = _Outliner(module, func)
            body = outliner.block(func.body)
            funcs += [*outliner.made, msgspec.structs.replace(func, body=body)]
        else:
            funcs.append(func)
    return msgspec.structs.replace(module, funcs=tuple(funcs))


class _Outliner:
    """Rewrites one entry, whose first parameter is the state."""

    def __init__(self, module: Module, entry: Func) -> None:
        self.layout = Layout(module.structs)
        self.analysis = Analysis(module)
        self.cold = {func.name for func in module.funcs if func.cold}
        self.names = {func.name for func in module.funcs}
        self.state = entry.params[0]
        self.types = local_types(entry)
        self.buffers = {
            param.name: param.type
            for param in entry.params
            if isinstance(param.type, BufferType) and not param.inout
        }
        self.common = {param.name for param in entry.params if param.name == COMMON}
        self.reads = reads_of_names(entry.body)
        self.made: list[Func] = []

    def block(self, body: Block) -> Block:
        return rebuild_body(self.joined(body), self.stmt)

    def joined(self, body: Block) -> Block:
        """Neighbours on one condition as one branch, which may then be certain."""
        new: list[Stmt] = []
        for stmt in body:
            last = new[-1] if new else None
            if isinstance(stmt, If) and isinstance(last, If) and self.same(last, stmt):
                otherwise = (*last.otherwise, *stmt.otherwise)
                new[-1] = If(stmt.cond, (*last.then, *stmt.then), otherwise, last.line)
            else:
                new.append(stmt)
        return tuple(new) if len(new) < len(body) else body

    def same(self, first: If, second: If) -> bool:
        """Whether the second branch is taken just when the first was."""
        if first.cond != second.cond:
            return False
        writes = PathSet(self.analysis.body((*first.then, *first.otherwise)).writes)
        return not any(map(writes.meets, self.analysis.expr(first.cond).reads))

    def stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For | While):
            return msgspec.structs.replace(stmt, body=self.block(stmt.body))
        if not isinstance(stmt, If):
            return stmt
        then, otherwise = map(self.branch, (stmt.then, stmt.otherwise))
        return msgspec.structs.replace(stmt, then=then, otherwise=otherwise)

    def branch(self, body: Block) -> Block:
        """A branch, or the call that stands for it."""
        alone = len(body) == 1 and isinstance(_root(body[0]), Call)
        made = None if alone or not self.certain(body) else self.function(body)
        return self.block(body) if made is None else (made,)

    def certain(self, body: Block) -> bool:
        """Whether every path through a block calls cold code."""
        for stmt in body:
            call = _root(stmt)
            if isinstance(call, Call) and call.func in self.cold:
                return True
            if isinstance(stmt, If) and self.certain(stmt.then) and self.certain(stmt.otherwise):
                return True
        return False

    def shares(self, body: Block) -> bool:
        """Whether a block writes what all lanes have in common."""
        return any(path[0] in self.common for path in self.analysis.body(body).writes)

    def function(self, body: Block) -> Stmt | None:
        """The call of a new function that does what a block does; None where none can."""
        inner = declared_names(body)
        changed, reads = assigned_names(body), reads_of_names(body)
        results = [name for name in sorted(changed - inner) if self.reads[name] > reads[name]]
        if len(results) > 1 or _leaves(body):
            return None
        buffers = _Buffers(self.layout, self.buffers, inner | changed)
        new = rebuild_body(body, buffers.stmt)
        names = sorted(
            {expr.name for expr in expressions(new) if isinstance(expr, Var)}
            - inner
            - buffers.params.keys()
            - {self.state.name}
        )
        held = [name for name in names if name in self.common]
        names = [name for name in names if name not in self.common]
        given = {name: self.types[name] for name in names}
        if not all(isinstance(type_, str) for type_ in given.values()) or self.shares(body):
            return None
        given |= buffers.types
        params = (self.state, *itertools.starmap(ParamDecl, given.items()))
        params += tuple(ParamDecl(name, self.types[name]) for name in held)
        args = (Var(self.state.name), *map(Var, names), *buffers.params.values())
        args += tuple(map(Var, held))
        if results:
            new = (*new, Return(Var(results[0])))
        func = Func(
            self.name(), params, self.types[results[0]] if results else None, new, inline=False
        )
        self.made.append(func)
        call = Call(func.name, args)
        return Assign(Var(results[0]), call) if results else Do(call)

    def name(self) -> str:
        return next(
            name
            for number in itertools.count(len(self.made))
            if (name := f"cold.{number}") not in self.names
        )


class _Buffers:
    """Takes what a block reads of buffers as parameters: only an entry may hold a buffer."""

    def __init__(
        self, layout: Layout, buffers: dict[str, BufferType], changing: frozenset[str]
    ) -> None:
        self.layout, self.buffers, self.changing = layout, buffers, changing
        self.params: dict[str, Expr] = {}
        self.types: dict[str, Type] = {}

    def stmt(self, stmt: Stmt) -> Stmt:
        return rebuild_stmt(stmt, self.expr, self.stmt)

    def expr(self, expr: Expr) -> Expr:
        path = path_of(expr)
        if path is None or path[0] not in self.buffers or not self.lasts(expr):
            return rebuild_expr(expr, self.expr)
        type_ = type_at(self.layout, self.buffers[str(path[0])], path[1:])
        if not isinstance(type_, str):
            return expr
        for name, known in self.params.items():
            if known == expr:
                return Var(name)
        name = f"read@{len(self.params)}"
        self.params[name], self.types[name] = expr, type_
        return Var(name)

    def lasts(self, place: Expr) -> bool:
        """Whether the block cannot change which word a place is."""
        return not any(
            isinstance(node, Field | Call) or (isinstance(node, Var) and node.name in self.changing)
            for index in indices(place)
            for node in nodes_in(index)
        )


def _root(stmt: Stmt) -> Expr | None:
    if isinstance(stmt, Do):
        return stmt.call
    return stmt.value if isinstance(stmt, Let | Assign) else None


def _leaves(body: Block, loops: int = 0) -> bool:
    """Whether a block returns, or breaks a loop that it stands in."""
    for stmt in body:
        inner = loops + isinstance(stmt, For | While)
        if isinstance(stmt, Return) or (isinstance(stmt, Break | Continue) and not loops):
            return True
        if any(_leaves(block, inner) for block in nested(stmt)):
            return True
    return False
