"""Memory that all lanes have in common, taken out of the state of each.

What a market is does not depend on what a lane's orders do: all lanes see one order book. The
fields that `Module.given.common` names lie at the end of the state. Here they become a struct of
their own, which the entries take as their last parameter and hand on to whom it concerns. So a
lane is as large as what is its own, and what lanes run side by side build the book once.
"""

import itertools
from collections.abc import Iterator

import msgspec

from quantdsl.errors import InternalError
from quantdsl.ir.layout import Layout, Leaf
from quantdsl.ir.ops import (
    Assign,
    Call,
    Expr,
    Field,
    Func,
    Module,
    ParamDecl,
    Stmt,
    StructDecl,
    StructType,
    Type,
    Var,
)
from quantdsl.ir.walk import expressions, rebuild_body, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.places import path_of, spelled_path, type_at

COMMON = "common@"
"""The parameter that holds it."""
COMMON_TYPE = StructType("Common")


def common_words(module: Module, state: Type) -> int:
    """How many words at the end of a state all lanes have in common, as `given.common` names."""
    layout = Layout(module.structs)
    paths = () if module.given is None else module.given.common
    assert isinstance(state, StructType)
    return sum(layout.locate(state, path).words for path in paths)


def own_leaves(module: Module, state: Type) -> Iterator[Leaf]:
    """The leaves of a state but for what all lanes have in common, which is large."""
    layout = Layout(module.structs)
    own = layout.words(state) - common_words(module, state)
    return itertools.takewhile(lambda leaf: leaf.offset_words < own, layout.leaves(state))


def hold_common(module: Module, entry: str) -> Module:
    """The module whose entries take what lanes have in common as a struct of its own.

    It comes as it is where there is no such thing. Offsets of all other words stay as they are.
    """
    paths = () if module.given is None else module.given.common
    if not paths:
        return module
    state = next(func for func in module.funcs if func.name == entry).params[0].type
    mover = _Mover(module, state)
    funcs = tuple(map(mover.func, module.funcs))
    structs = tuple(
        msgspec.structs.replace(one, fields=tuple(f for f in one.fields if f not in mover.fields))
        if one.name == mover.owner.name
        else one
        for one in module.structs
    )
    at = next(k for k, one in enumerate(structs) if one.name == mover.owner.name)
    structs = (*structs[:at], StructDecl(COMMON_TYPE.name, mover.fields), *structs[at:])
    return msgspec.structs.replace(module, funcs=funcs, structs=structs)


def takes_common(func: Func) -> bool:
    """Whether a function is given what lanes have in common."""
    return any(param.name == COMMON for param in func.params)


class _Mover:
    """Rewrites functions, callees before their callers."""

    def __init__(self, module: Module, state: Type) -> None:
        assert module.given is not None
        self.layout, self.state, self.entries = Layout(module.structs), state, module.entries
        steps = [spelled_path(self.layout, state, path) for path in module.given.common]
        (place,) = {step[:-1] for step in steps}
        owner = type_at(self.layout, state, place)
        assert isinstance(owner, StructType)
        self.owner = owner
        self.names = {str(step[-1]) for step in steps}
        declared = next(one for one in module.structs if one.name == owner.name).fields
        self.fields = tuple(one for one in declared if one.name in self.names)
        self.funcs: dict[str, Func] = {}
        words = self.layout.words(state)
        last = [self.layout.locate(state, path) for path in module.given.common]
        if min(slot.offset_words for slot in last) + sum(s.words for s in last) != words:
            raise InternalError("QD9512 passes: what lanes have in common is not the state's end")

    def func(self, func: Func) -> Func:
        types = {param.name: param.type for param in func.params}

        def expr(node: Expr) -> Expr:
            if isinstance(node, Field) and node.name in self.names:
                path = path_of(node.base) or ()
                if path and path[0] in types and self.owns(types, node.base):
                    return Field(Var(COMMON), node.name)
            new = rebuild_expr(node, expr)
            if isinstance(new, Call) and takes_common(self.funcs[new.func]):
                return Call(new.func, (*new.args, Var(COMMON)), new.sizes)
            return new

        def stmt(node: Stmt) -> Stmt:
            return rebuild_stmt(node, expr, stmt)

        body = rebuild_body(func.body, stmt)
        named = any(node == Var(COMMON) for node in expressions(body))
        entry = func.name in self.entries and any(p.type == self.state for p in func.params)
        new = msgspec.structs.replace(func, body=body)
        if named or entry:
            writes = entry or self.writes(body)
            params = (*func.params, ParamDecl(COMMON, COMMON_TYPE, inout=writes))
            # A lane's own code runs once a lane, what writes here once for all of them: no
            # function does both, so those that would are copied into the entry's loop.
            kept = func.cold and not (writes and self.mixed(func))
            new = msgspec.structs.replace(new, params=params, cold=kept)
        self.funcs[func.name] = new
        return new

    def owns(self, types: dict[str, Type], place: Expr) -> bool:
        """Whether a place is of the struct that the fields are taken from."""
        path = path_of(place) or ()
        return type_at(self.layout, types[str(path[0])], path[1:]) == self.owner

    def mixed(self, func: Func) -> bool:
        """Whether a function is given memory of a lane."""
        return any(param.type in (self.state, self.owner) for param in func.params)

    def writes(self, body: tuple[Stmt, ...]) -> bool:
        """Whether statements write what lanes have in common."""
        for one in statements(body):
            if isinstance(one, Assign) and (path_of(one.place) or ("",))[0] == COMMON:
                return True
        for node in expressions(body):
            if isinstance(node, Call):
                for param, arg in zip(self.funcs[node.func].params, node.args, strict=True):
                    if param.inout and (path_of(arg) or ("",))[0] == COMMON:
                        return True
        return False
