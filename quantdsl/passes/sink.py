"""Compute a value where it is used: what only a rare branch asks for, it computes itself.

A strategy names sizes and prices before it asks whether to order at all. LLVM moves such a value
into a branch when it has a single use; here it goes to every branch that reads it.
"""

import msgspec

from quantdsl.ir.ops import Assign, Call, For, Func, If, Let, Module, Stmt, Var, While
from quantdsl.ir.walk import nested, nodes_in, roots
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import PathSet
from quantdsl.passes.scopes import assigned_names, names_in, renamed

Block = tuple[Stmt, ...]


def sink_values(module: Module, entry: str) -> Module:
    """The module with the entry's values inside the branches that alone use them."""
    analysis = Analysis(module)
    funcs = tuple(_sunk(func, analysis) if func.name == entry else func for func in module.funcs)
    return msgspec.structs.replace(module, funcs=funcs)


def _sunk(func: Func, analysis: Analysis) -> Func:
    sinker = _Sinker(analysis, assigned_names(func.body))
    return msgspec.structs.replace(func, body=sinker.block(func.body))


class _Sinker:
    """Rewrites one function; `changing` are its locals with more than one value."""

    def __init__(self, analysis: Analysis, changing: frozenset[str]) -> None:
        self.analysis, self.changing = analysis, changing
        self.count = 0
        self._reads: dict[int, tuple[Stmt, frozenset[str]]] = {}
        self._writes: dict[int, tuple[Stmt, PathSet]] = {}

    def block(self, body: Block) -> Block:
        stmts = list(body)
        reads = [self.reads(stmt) for stmt in stmts]
        for at in range(len(stmts) - 1, -1, -1):
            let = stmts[at]
            if not isinstance(let, Let) or not self.movable(let):
                continue
            users = [k for k in range(at + 1, len(stmts)) if let.name in reads[k]]
            if len(users) != 1:
                continue
            user = stmts[users[0]]
            if not isinstance(user, If) or let.name in names_in(user.cond):
                continue
            if self.may_move(let, stmts[at + 1 : users[0]]):
                self.count += 1
                stmts[users[0]] = self.into(user, let, f"{let.name}.{self.count}")
                reads[users[0]] = self.reads(stmts[users[0]])
                del stmts[at], reads[at]
        return tuple(map(self.inside, stmts))

    def inside(self, stmt: Stmt) -> Stmt:
        match stmt:
            case If():
                then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)
                return If(stmt.cond, then, otherwise, stmt.line)
            case For() | While():
                return msgspec.structs.replace(stmt, body=self.block(stmt.body))
        return stmt

    def movable(self, let: Let) -> bool:
        return (
            isinstance(let.type, str)
            and let.value is not None
            and let.name not in self.changing
            and not any(isinstance(node, Call) for node in nodes_in(let.value))
        )

    def may_move(self, let: Let, past: list[Stmt]) -> bool:
        """Whether nothing that a value is made of changes on the way."""
        assert let.value is not None
        reads = self.analysis.expr(let.value).reads
        return not any(self.writes(stmt).meets(path) for stmt in past for path in reads)

    def into(self, user: If, let: Let, other_name: str) -> If:
        """The branches that use a value with the value in them; a name is declared once."""
        then, otherwise = user.then, user.otherwise
        if any(let.name in self.reads(stmt) for stmt in then):
            then = (let, *then)
            if any(let.name in self.reads(stmt) for stmt in otherwise):
                other = msgspec.structs.replace(let, name=other_name)
                otherwise = (other, *renamed(otherwise, {let.name: other.name}))
        else:
            otherwise = (let, *otherwise)
        return If(user.cond, then, otherwise, user.line)

    def reads(self, stmt: Stmt) -> frozenset[str]:
        """The names that a statement reads, or names in a place; found once for each."""
        if id(stmt) not in self._reads:
            exprs = roots(stmt)
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var):
                exprs = (stmt.value,)
            names = frozenset(name for expr in exprs for name in names_in(expr))
            names = names.union(*(self.reads(one) for block in nested(stmt) for one in block))
            self._reads[id(stmt)] = stmt, names  # with the statement, so that its id stays its own
        return self._reads[id(stmt)][1]

    def writes(self, stmt: Stmt) -> PathSet:
        """What a statement writes, nested ones included; found once for each."""
        if id(stmt) not in self._writes:
            own = PathSet(self.analysis.stmt(stmt).writes)
            for block in nested(stmt):
                for one in block:
                    own.update(self.writes(one))
            self._writes[id(stmt)] = stmt, own
        return self._writes[id(stmt)][1]
