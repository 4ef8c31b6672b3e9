"""Drop what a whole program writes and nobody reads: fields that no result is made of.

A field is one cell in all structs of its kind, as in possible.py, and so is a scalar local or
parameter. A cell is needed if the host reads it as a result, if a condition, an index or a result
of a function is made of it, or if a needed one is. What is stored in any other is dropped, a call
gives a parameter that is not needed a 0, and a struct is copied by the fields that are needed. A
call that only changes structs in fields that are not needed is dropped, though other structs of
their kind are: a sum that nobody asks for beside one that is a result.
"""

from collections.abc import Iterator, Mapping, Set

import msgspec

from quantdsl.ir.layout import Layout, of_scalars
from quantdsl.ir.ops import (
    F64_T,
    ArrayType,
    Assign,
    BufferType,
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
    Stmt,
    StructOf,
    StructType,
    Table,
    Type,
    Var,
    While,
)
from quantdsl.ir.walk import expressions, operands, rebuild_expr, rebuild_stmt, roots, statements
from quantdsl.passes.places import (
    PLACES,
    Cell,
    Path,
    as_place,
    field_at,
    indices,
    inside,
    leaves,
    spelled_path,
    type_at,
)
from quantdsl.passes.scopes import local_types

Block = tuple[Stmt, ...]

COPIED_FIELDS = 24
"""A struct of which more words are needed is copied as a whole."""


def drop_unread(module: Module, entry: str, results: Set[str]) -> Module:
    """The module without stores to fields that neither `results` nor anything else is made of.

    `results` are paths in the first parameter of the entry; of it the host reads nothing else.
    """
    layout = Layout(module.structs)
    state = next(func for func in module.funcs if func.name == entry).params[0].type
    needed: set[Cell] = set()
    for path in results:
        steps = spelled_path(layout, state, path)
        below = leaves(layout, type_at(layout, state, steps), steps)
        for leaf, _ in below:
            ends = (end for end, step in enumerate(leaf, 1) if isinstance(step, str))
            needed.update(field_at(layout, state, leaf[:end]) for end in ends)
    funcs = {func.name: func for func in module.funcs}
    readers = [_Reader(layout, local_types(func), func, funcs) for func in module.funcs]
    found = -1
    while found != len(needed):
        found = len(needed)
        for reader in readers:
            reader.mark(needed)
    return msgspec.structs.replace(module, funcs=tuple(reader.left(needed) for reader in readers))


class _Reader:
    """What one function reads, and what is left of it."""

    def __init__(
        self, layout: Layout, types: dict[str, Type], func: Func, funcs: Mapping[str, Func]
    ) -> None:
        self.layout, self.types, self.func, self.funcs = layout, types, func, funcs
        self.needed: Set[Cell] = frozenset()
        self.backwards = [*statements(func.body)][::-1]
        """A local is read after it is made, so what it is made of is found in one go."""

    # ---- what is read -------------------------------------------------------------------

    def mark(self, needed: set[Cell]) -> None:
        """Add what the function needs, as far as what it makes is needed."""
        for stmt in self.backwards:
            if isinstance(stmt, Assign):
                needed.update(self.assigned(stmt, needed))
            elif not self.idle(stmt, needed):
                for root in roots(stmt):
                    needed.update(self.reads(root, needed))

    def idle(self, stmt: Stmt, needed: Set[Cell]) -> bool:
        """Whether a statement only makes a local, or changes structs, that nobody needs."""
        if isinstance(stmt, Do):
            func = self.funcs[stmt.call.func]
            given = zip(func.params, stmt.call.args, strict=True)
            changed = [set(self.around(arg)) for param, arg in given if param.inout]
            lives = not func.body or any(not one or one <= needed for one in changed)
            return bool(changed) and not lives
        if not isinstance(stmt, Let) or isinstance(stmt.value, Call):
            return False
        return isinstance(stmt.type, str) and local(self.func, stmt.name) not in needed

    def assigned(self, stmt: Assign, needed: Set[Cell]) -> Iterator[Cell]:
        for index in indices(stmt.place):
            yield from self.reads(index, needed)
        cell = self.cell(stmt.place)
        acts = any(isinstance(node, Call) for node in expressions((stmt,)))
        if cell is None or cell in needed or acts:
            yield from self.reads(stmt.value, needed)

    def reads(self, expr: Expr, needed: Set[Cell]) -> Iterator[Cell]:
        """The fields that an expression needs when its value is needed."""
        if type(expr) in PLACES:
            for index in indices(expr):
                yield from self.reads(index, needed)
            yield from self.around(expr)
            if isinstance(expr, Var) and isinstance(self.type(expr), str):
                yield local(self.func, expr.name)
        elif isinstance(expr, Const):
            pass
        elif isinstance(expr, StructOf):
            for name, value in zip(self.layout.slots(expr.type.name), expr.values, strict=True):
                if (expr.type.name, name) in needed:
                    yield from self.reads(value, needed)
        elif isinstance(expr, Call):
            for arg in self.taken(expr, needed):
                yield from self.reads(arg, needed)
        else:
            for operand in operands(expr):
                yield from self.reads(operand, needed)

    def taken(self, call: Call, needed: Set[Cell]) -> Iterator[Expr]:
        """The arguments of a call that its function needs."""
        func = self.funcs[call.func]
        for param, arg in zip(func.params, call.args, strict=True):
            # What has no body here has one elsewhere.
            whole = not isinstance(param.type, str) or not func.body
            if whole or local(func, param.name) in needed:
                yield arg

    def around(self, place: Expr) -> Iterator[Cell]:
        """The fields that a place lies in, one inside the other, itself the first."""
        while type(place) is Field or type(place) is Elem:
            if type(place) is Field:
                owner = self.type(place.base)
                assert isinstance(owner, StructType)
                yield owner.name, place.name
            place = place.base

    def cell(self, place: Expr) -> Cell | None:
        """The field that a scalar, or an array of scalars, lies in; or the local that it is."""
        if isinstance(place, Var):
            return local(self.func, place.name) if isinstance(self.type(place), str) else None
        while isinstance(place, Elem):
            place = place.base
        if not isinstance(place, Field):
            return None
        owner = self.type(place.base)
        assert isinstance(owner, StructType)
        return (owner.name, place.name) if of_scalars(self.type(place)) else None

    def type(self, place: Expr) -> Type:
        if isinstance(place, Var):
            return self.types[place.name]
        if isinstance(place, Table):
            return ArrayType(F64_T, 0)
        assert isinstance(place, Field | Elem)
        base = self.type(place.base)
        if isinstance(place, Field):
            return type_at(self.layout, base, (place.name,))
        assert isinstance(base, ArrayType | BufferType)
        return base.elem

    # ---- what is left -------------------------------------------------------------------

    def left(self, needed: Set[Cell]) -> Func:
        """The function without what nobody needs."""
        self.needed = needed
        return msgspec.structs.replace(self.func, body=self.block(self.func.body))

    def block(self, body: Block) -> Block:
        return tuple(new for stmt in body for new in self.stmt(stmt))

    def stmt(self, stmt: Stmt) -> Block:
        if isinstance(stmt, Assign):
            return self.assign(stmt)
        if self.idle(stmt, self.needed):
            return ()
        if isinstance(stmt, If):
            then, otherwise = self.block(stmt.then), self.block(stmt.otherwise)
            return (If(self.expr(stmt.cond), then, otherwise, stmt.line),)
        if isinstance(stmt, For | While):
            stmt = msgspec.structs.replace(stmt, body=self.block(stmt.body))
        return (rebuild_stmt(stmt, self.expr, lambda inner: inner),)

    def assign(self, stmt: Assign) -> Block:
        cell = self.cell(stmt.place)
        if cell is not None and cell not in self.needed:
            return (Do(self.call(stmt.value), stmt.line),) if isinstance(stmt.value, Call) else ()
        type_ = self.type(stmt.place)
        if isinstance(type_, StructType) and isinstance(stmt.value, Field | Elem | Var):
            return self.copy(stmt, type_)
        return (Assign(stmt.place, self.expr(stmt.value), stmt.line),)

    def copy(self, stmt: Assign, type_: StructType) -> Block:
        """A struct is copied by the fields that are needed, if those are few."""
        paths = [path for path, _ in leaves(self.layout, type_)]
        wanted = [path for path in paths if self.wants(type_, path)]
        if len(wanted) == len(paths) or len(wanted) > COPIED_FIELDS:
            return (stmt,)
        return tuple(
            Assign(inside(stmt.place, path), inside(as_place(stmt.value), path), stmt.line)
            for path in wanted
        )

    def wants(self, type_: Type, path: Path) -> bool:
        """Whether the field that a path ends in is needed."""
        return field_at(self.layout, type_, path) in self.needed

    def expr(self, expr: Expr) -> Expr:
        """An expression in which nothing is made of what nobody needs."""
        if isinstance(expr, Call):
            return self.call(expr)
        if not isinstance(expr, StructOf):
            return rebuild_expr(expr, self.expr)
        slots = self.layout.slots(expr.type.name).items()
        values = tuple(
            self.field(expr.type, name, slot.type, value)
            for (name, slot), value in zip(slots, expr.values, strict=True)
        )
        return StructOf(expr.type, values)

    def call(self, call: Call) -> Call:
        """A call with the arguments that its function needs."""
        taken = {id(arg) for arg in self.taken(call, self.needed)}
        args = tuple(
            Const(param.type, 0)
            if isinstance(param.type, str) and id(arg) not in taken
            else self.expr(arg)
            for param, arg in zip(self.funcs[call.func].params, call.args, strict=True)
        )
        return Call(call.func, args, call.sizes)

    def field(self, struct: StructType, name: str, type_: Type, value: Expr) -> Expr:
        """What a struct is made with in one field."""
        if (struct.name, name) in self.needed or not isinstance(type_, str):
            return self.expr(value)
        return self.expr(value) if isinstance(value, Call) else Const(type_, 0)


def local(func: Func, name: str) -> Cell:
    """The cell of a scalar local or parameter."""
    return f"{func.name}()", name
