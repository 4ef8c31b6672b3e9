"""Drop what an entry computes for nobody: a sweep that does not ask for a figure does not pay it.

A word of the state is wanted if it is a result of the run, if a call reads it, or if the entry
reads it for something that is wanted; a word that only its own next value is made of is not.
"""

from collections.abc import Set

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    Assign,
    Break,
    Continue,
    Do,
    For,
    Func,
    If,
    Let,
    Module,
    Return,
    Stmt,
    While,
)
from quantdsl.ir.walk import nested
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import Path, PathSet, spelled_path

Block = tuple[Stmt, ...]


def drop_dead(module: Module, entry: str, results: Set[str]) -> Module:
    """The module without the entry's statements that neither `results` nor others depend on."""
    analysis = Analysis(module)
    funcs = tuple(
        _Dropper(module, analysis, func, results).func() if func.name == entry else func
        for func in module.funcs
    )
    return msgspec.structs.replace(module, funcs=funcs)


class _Dropper:
    """Finds what is wanted of one entry, whose first parameter is the state."""

    def __init__(self, module: Module, analysis: Analysis, entry: Func, results: Set[str]) -> None:
        self.analysis = analysis
        self.entry = entry
        self.params = {param.name for param in entry.params}
        self.state = entry.params[0].name
        self.wanted = PathSet()
        """Whole locals, and paths of parameters."""
        layout, state = Layout(module.structs), entry.params[0]
        for result in results:
            self.wanted.add((state.name, *spelled_path(layout, state.type, result)))
        self.alive: set[int] = set()
        """Statements, by identity."""

    def func(self) -> Func:
        found = -1
        while found != len(self.alive):
            found = len(self.alive)
            self.mark(self.entry.body)
        return msgspec.structs.replace(self.entry, body=self.block(self.entry.body))

    def mark(self, body: Block) -> bool:
        """Note what is alive in a block, and all that it reads; whether anything is."""
        some = False
        for stmt in reversed(body):
            inner = [self.mark(block) for block in nested(stmt)]
            if id(stmt) not in self.alive and (any(inner) or self.lives(stmt)):
                self.alive.add(id(stmt))
                effects = self.analysis.stmt(stmt)
                for path in effects.reads:
                    self.wanted.add(self.unit(path))
            some = some or id(stmt) in self.alive
        return some

    def lives(self, stmt: Stmt) -> bool:
        match stmt:
            case Return() | Break() | Continue() | Do():
                return True
            case Let():
                return self.wanted.meets((stmt.name,)) or bool(self.analysis.stmt(stmt).writes)
            case Assign():
                writes = self.analysis.stmt(stmt).writes
                return len(writes) > 1 or any(map(self.wants, writes))
        return False

    def unit(self, path: Path) -> Path:
        """A path of a parameter, a local as a whole."""
        return path if path[0] in self.params else path[:1]

    def wants(self, path: Path) -> bool:
        """Whether somebody reads what is written there."""
        if path[0] in self.params and path[0] != self.state:
            return True  # memory of the host
        return self.wanted.meets(self.unit(path))

    def block(self, body: Block) -> Block:
        """What is left of a block."""
        return tuple(self.inner(stmt) for stmt in body if id(stmt) in self.alive)

    def inner(self, stmt: Stmt) -> Stmt:
        match stmt:
            case If():
                then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)
                return If(stmt.cond, then, otherwise, stmt.line)
            case For() | While():
                return msgspec.structs.replace(stmt, body=self.block(stmt.body))
        return stmt
