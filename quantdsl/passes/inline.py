"""Put the functions that every bar passes through into the lane entry itself.

LLVM could inline them too, but only here is it known that the places of the state then have one
name each, which is what cold regions, promotion and lanes of a vector need. Cold functions stay
calls unless they are tiny, and so does a large one that is called from many places.
"""

from collections import Counter
from collections.abc import Callable

import msgspec

from quantdsl.ir.ops import (
    I64_T,
    Assign,
    Break,
    Call,
    Const,
    Do,
    Elem,
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
    Table,
    Unary,
    Var,
    While,
    boolean,
)
from quantdsl.ir.walk import expressions, rebuild_expr
from quantdsl.passes.places import as_place
from quantdsl.passes.returns import Returnless, without_returns
from quantdsl.passes.scopes import assigned_names, declared_names

COPIED_NODES = 6000
"""A function whose copies in the entry would hold more expressions than this stays a call."""
LEAF_NODES = 60
"""A cold function that calls nothing and is no larger is worth less than the call of it."""

Names = dict[str, Expr]
"""What the names of one function stand for in the entry."""
Sink = Callable[[Expr], list[Stmt]]
"""The statements that take a value at their root."""


def inline_hot(module: Module, entry: str) -> Module:
    """The module with the entry's hot callees in its own body; calls left are statement roots."""
    inliner = _Inliner(module, copied(module, entry))
    funcs = tuple(inliner.entry(f) if f.name == entry else f for f in module.funcs)
    return msgspec.structs.replace(module, funcs=funcs)


def with_callees(module: Module, entry: str) -> Func | None:
    """An entry with all that it calls in its own body; None where that would be too large."""
    warm = tuple(msgspec.structs.replace(func, cold=False) for func in module.funcs)
    module = msgspec.structs.replace(module, funcs=warm)
    func = next(func for func in module.funcs if func.name == entry)
    inliner = _Inliner(module, copied(module, entry))
    numbers = (name.rpartition("@")[2] for name in declared_names(func.body))
    inliner.count = max((int(number) for number in numbers if number.isdecimal()), default=0)
    made = inliner.entry(func)
    return None if any(isinstance(node, Call) for node in expressions(made.body)) else made


def copied(module: Module, entry: str) -> frozenset[str]:
    """The functions that the entry's body takes in."""
    copies: Counter[str] = Counter({entry: 1})
    chosen: set[str] = set()
    for func in reversed(module.funcs):  # callers stand after their callees
        if not copies[func.name]:
            continue
        nodes = list(expressions(func.body))
        if func.name != entry:
            leaf = not any(isinstance(node, Call) for node in nodes)
            if func.cold and not (leaf and len(nodes) <= LEAF_NODES):
                continue
            if copies[func.name] > 1 and copies[func.name] * len(nodes) > COPIED_NODES:
                continue
            chosen.add(func.name)
        for node in nodes:
            if isinstance(node, Call):
                copies[node.func] += copies[func.name]
    return frozenset(chosen)


class _Inliner:
    """Rewrites the entry; a call's statements come before the one that it stood in."""

    def __init__(self, module: Module, chosen: frozenset[str]) -> None:
        self.funcs = {func.name: func for func in module.funcs}
        self.chosen = chosen
        self.returnless: dict[str, Returnless] = {}
        self.assigned: dict[str, frozenset[str]] = {}
        self.changing: set[str] = set()
        """Names in the entry that are given a value more than once."""
        self.count = 0

    def entry(self, func: Func) -> Func:
        names: Names = {}
        for param in func.params:
            names[param.name] = Var(param.name)
        self.changing |= assigned_names(func.body)
        body = self.block(func.body, names, lambda name: name)
        return msgspec.structs.replace(func, body=body)

    # ---- statements ---------------------------------------------------------------------

    def block(
        self, body: tuple[Stmt, ...], names: Names, fresh: Callable[[str], str]
    ) -> tuple[Stmt, ...]:
        new: list[Stmt] = []
        for stmt in body:
            new += self.stmt(stmt, names, fresh)
        return tuple(new)

    def stmt(self, stmt: Stmt, names: Names, fresh: Callable[[str], str]) -> list[Stmt]:
        pre: list[Stmt] = []
        match stmt:
            case Let():
                name = fresh(stmt.name)
                if stmt.value is None:
                    pre = [Let(name, stmt.type, None, stmt.line)]
                else:
                    pre = self.root(
                        stmt.value, names, lambda e: [Let(name, stmt.type, e, stmt.line)]
                    )
                names[stmt.name] = Var(name)
                return pre
            case Assign():
                return self.root(stmt.value, names, lambda e: self.store(stmt, e, names))
            case Do():
                return self.root(stmt.call, names, lambda e: _effect(e, stmt.line))
            case Return():
                if stmt.value is None:
                    return [stmt]
                return self.root(stmt.value, names, lambda e: [Return(e)])
            case If():
                cond = self.expr(stmt.cond, names, pre)
                then = self.block(stmt.then, names, fresh)
                otherwise = self.block(stmt.otherwise, names, fresh)
                return [*pre, If(cond, then, otherwise, stmt.line)]
            case For():
                lo, hi = (self.expr(bound, names, pre) for bound in (stmt.lo, stmt.hi))
                name = fresh(stmt.name)
                names[stmt.name] = Var(name)
                body = self.block(stmt.body, names, fresh)
                return [*pre, For(name, lo, hi, body, stmt.line)]
            case While():
                return self.while_loop(stmt, names, fresh)
        return [stmt]

    def while_loop(self, stmt: While, names: Names, fresh: Callable[[str], str]) -> list[Stmt]:
        """A condition that takes statements of its own is tested at the head of the body."""
        pre: list[Stmt] = []
        head: list[Stmt] = []
        turns = self.expr(stmt.max, names, pre)
        cond = self.expr(stmt.cond, names, head)
        body = self.block(stmt.body, names, fresh)
        if head:
            body = (*head, If(Unary("not", cond), (Break(),)), *body)
            cond = boolean(True)
        return [*pre, While(cond, turns, body, stmt.line)]

    def store(self, stmt: Assign, value: Expr, names: Names) -> list[Stmt]:
        """The indices of a place are computed after the value, which a call may be."""
        pre: list[Stmt] = []
        place = as_place(self.expr(stmt.place, names, pre))
        if pre and isinstance(value, Call):
            func = self.funcs[value.func]
            assert func.result is not None
            aside = self.name("value")
            pre = [Let(aside, func.result, value, stmt.line), *pre]
            value = Var(aside)
        return [*pre, Assign(place, value, stmt.line)]

    def root(self, value: Expr, names: Names, sink: Sink) -> list[Stmt]:
        """A value at the root of a statement, which `sink` makes."""
        if isinstance(value, Call) and value.func in self.chosen:
            stmts, inner, result = self.enter(value, names)
            if result is None:
                return stmts
            return [*stmts, *self.root(result, inner, sink)]
        pre: list[Stmt] = []
        new = rebuild_expr(value, lambda e: self.expr(e, names, pre))
        return [*pre, *sink(names.get(new.name, new) if isinstance(new, Var) else new)]

    # ---- expressions --------------------------------------------------------------------

    def expr(self, expr: Expr, names: Names, pre: list[Stmt]) -> Expr:
        """The expression in the entry's names; what must be done before goes to `pre`."""
        if isinstance(expr, Var):
            return names.get(expr.name, expr)
        if not isinstance(expr, Call):
            return rebuild_expr(expr, lambda e: self.expr(e, names, pre))
        if expr.func in self.chosen:
            stmts, inner, result = self.enter(expr, names)
            pre += stmts
            assert result is not None
            return self.expr(result, inner, pre)
        call = rebuild_expr(expr, lambda e: self.expr(e, names, pre))
        type_ = self.funcs[expr.func].result
        assert type_ is not None
        name = self.name("value")
        pre.append(Let(name, type_, call))
        return Var(name)

    def enter(self, call: Call, names: Names) -> tuple[list[Stmt], Names, Expr | None]:
        """A call's statements, and its result in the callee's names."""
        func = self.funcs[call.func]
        if func.name not in self.returnless:
            self.returnless[func.name] = without_returns(func)
            self.assigned[func.name] = assigned_names(self.returnless[func.name].body)
        body, value = self.returnless[func.name]
        pre: list[Stmt] = []
        inner: Names = {}
        assigned = self.assigned[func.name]
        for param, arg in zip(func.params, call.args, strict=True):
            inner[param.name] = self.argument(param, self.expr(arg, names, pre), assigned, pre)

        def fresh(name: str) -> str:
            new = self.name(name)
            if name in assigned:
                self.changing.add(new)
            return new

        stmts = [*pre, *self.block(body, inner, fresh)]
        return stmts, inner, value

    def argument(
        self, param: ParamDecl, arg: Expr, assigned: frozenset[str], pre: list[Stmt]
    ) -> Expr:
        """What a parameter stands for: a place, whose indices stay what they are now, or a value"""
        if not isinstance(param.type, str):
            return self.settled(arg, pre)
        if param.name not in assigned and self.lasts(arg):
            return arg
        name = self.name(param.name)
        if param.name in assigned:
            self.changing.add(name)
        pre.append(Let(name, param.type, arg))
        return Var(name)

    def settled(self, place: Expr, pre: list[Stmt]) -> Expr:
        if isinstance(place, Field):
            base = self.settled(place.base, pre)
            return place if base is place.base else msgspec.structs.replace(place, base=base)
        if not isinstance(place, Elem) or isinstance(place.base, Table):
            return place
        base, index = self.settled(place.base, pre), place.index
        if not self.lasts(index):
            name = self.name("at")
            pre.append(Let(name, I64_T, index))
            index = Var(name)
        return Elem(as_place(base), index)

    def lasts(self, expr: Expr) -> bool:
        """Whether the value of an expression can never change."""
        if isinstance(expr, Var):
            return expr.name not in self.changing
        return isinstance(expr, Const)

    def name(self, name: str) -> str:
        self.count += 1
        return f"{name.partition('@')[0]}@{self.count}"


def _effect(value: Expr, line: int) -> list[Stmt]:
    return [Do(value, line)] if isinstance(value, Call) else []
