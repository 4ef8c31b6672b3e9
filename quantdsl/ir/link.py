"""Make one self-contained module of what the entry functions reach.

Declarations come through a lookup, so that a library is read only where it is used. Sizes become
integers: a function or struct with size parameters is copied once for each distinct binding and
gets a name of its own (`ring_push[20]`). The call graph must have no cycle. A branch that sizes
decide is settled here, so that what only the other side reaches is never read.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

from quantdsl.errors import InternalError
from quantdsl.ir import ops
from quantdsl.ir.ops import (
    ArrayType,
    Binary,
    BufferType,
    Call,
    Const,
    Expr,
    FieldDecl,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Size,
    SizeName,
    SizeOf,
    Stmt,
    StructDecl,
    StructOf,
    StructType,
    Table,
    TableDecl,
    Type,
    Var,
    While,
    i64,
)
from quantdsl.ir.walk import ENDS, nodes, rebuild_expr, rebuild_stmt

Decl = Func | StructDecl | TableDecl
D = TypeVar("D", Func, StructDecl, TableDecl)
Lookup = Callable[[str], Decl | None]
"""Name -> declaration, None where there is no such name. Names are unique over all kinds."""


def alone(lookup: Lookup, name: str, sizes: Mapping[str, int]) -> Module:
    """The module of one function, whose own sizes are bound as those of the module are."""
    own = lookup(name)
    assert isinstance(own, Func)
    sized = msgspec.structs.replace(own, sizes=())
    return link(lambda wanted: sized if wanted == name else lookup(wanted), [name], sizes)


def link(lookup: Lookup, entries: Iterable[str], sizes: Mapping[str, int]) -> Module:
    """The module of everything `entries` reach; `sizes` binds the module-wide sizes.

    Structs come before those that hold them and functions before their callers, so the order is
    the same for the same program. Raises InternalError on a cycle or an unknown name.
    """
    linker = _Linker(lookup, dict(sizes))
    names = tuple(linker.func(name, ()) for name in entries)
    return Module(
        tuple(linker.structs.values()),
        tuple(linker.tables.values()),
        tuple(linker.funcs.values()),
        names,
        tuple(sorted(sizes.items())),
    )


def reached(module: Module, entries: tuple[str, ...]) -> Module:
    """What entries of a linked module reach, in the order in which it stands there."""
    funcs, tables = set(entries), set[str]()
    for func in reversed(module.funcs):  # callers stand behind what they call
        if func.name in funcs:
            for node in nodes(func.body):
                if type(node) is Call:
                    funcs.add(node.func)
                elif type(node) is Table:
                    tables.add(node.name)
    return Module(
        module.structs,
        tuple(table for table in module.tables if table.name in tables),
        tuple(func for func in module.funcs if func.name in funcs),
        entries,
        module.sizes,
    )


class _Linker:
    """Collects instances; dictionaries keep the order in which they were finished."""

    def __init__(self, lookup: Lookup, sizes: dict[str, int]) -> None:
        self.lookup = lookup
        self.sizes = sizes
        self.structs: dict[str, StructDecl] = {}
        self.tables: dict[str, TableDecl] = {}
        self.funcs: dict[str, Func] = {}
        self.open: list[str] = []

    def func(self, name: str, sizes: tuple[int, ...]) -> str:
        """Link this instance of a function; its name in the module."""
        instance = instance_name(name, sizes)
        if instance not in self.funcs:
            decl = self.declaration(name, Func)
            with _Opened(self.open, instance):
                self.funcs[instance] = _Instance(self, decl, instance, sizes).func(decl)
        return instance

    def struct(self, name: str, sizes: tuple[int, ...]) -> str:
        """Link this instance of a struct; its name in the module."""
        instance = instance_name(name, sizes)
        if instance not in self.structs:
            decl = self.declaration(name, StructDecl)
            with _Opened(self.open, instance):
                scope = _Instance(self, decl, instance, sizes)
                fields = tuple(
                    FieldDecl(f.name, scope.type(f.type), f.unit)
                    for f in decl.fields
                    if not scope.empty(f.type)
                )
                self.structs[instance] = StructDecl(instance, fields)
        return instance

    def table(self, name: str) -> None:
        if name not in self.tables:
            self.tables[name] = self.declaration(name, TableDecl)

    def declaration(self, name: str, kind: type[D]) -> D:
        decl = self.lookup(name)
        if not isinstance(decl, kind):
            found = "nothing" if decl is None else type(decl).__name__
            raise InternalError(f"QD9201 link: {name!r} should be a {kind.__name__}, is {found}")
        return decl


class _Opened:
    """Notes what is being linked, so that a cycle is seen when it closes."""

    def __init__(self, open_names: list[str], name: str) -> None:
        self.open_names, self.name = open_names, name

    def __enter__(self) -> None:
        if self.name in self.open_names:
            cycle = " -> ".join([*self.open_names[self.open_names.index(self.name) :], self.name])
            raise InternalError(f"QD9202 link: {cycle} is a cycle; recursion has no place here")
        self.open_names.append(self.name)

    def __exit__(self, *exc: object) -> None:
        self.open_names.pop()


class _Instance:
    """One function or struct with its sizes bound; rewrites its types and bodies."""

    def __init__(
        self, linker: _Linker, decl: Func | StructDecl, instance: str, sizes: tuple[int, ...]
    ) -> None:
        if len(decl.sizes) != len(sizes):
            raise InternalError(f"QD9203 link: {decl.name!r} takes sizes {decl.sizes}, got {sizes}")
        self.linker = linker
        self.name = instance
        self.bound = {**linker.sizes, **dict(zip(decl.sizes, sizes, strict=True))}

    def func(self, decl: Func) -> Func:
        params = tuple(ParamDecl(p.name, self.type(p.type), p.inout) for p in decl.params)
        result = None if decl.result is None else self.type(decl.result)
        body = self.body(decl.body)
        return Func(self.name, params, result, body, (), decl.inline, decl.cold, decl.wide)

    def size(self, size: Size) -> int:
        if isinstance(size, int):
            return size
        if isinstance(size, SizeName):
            if size.name not in self.bound:
                raise InternalError(f"QD9204 link: {self.name}: no size named {size.name!r}")
            return self.bound[size.name]
        return combine_sizes(size.op, self.size(size.left), self.size(size.right))

    def type(self, type_: Type) -> Type:
        if isinstance(type_, str):
            return type_
        if isinstance(type_, ArrayType):
            return ArrayType(self.type(type_.elem), self.size(type_.size))
        if isinstance(type_, BufferType):
            return BufferType(self.type(type_.elem))
        return self.struct_type(type_)

    def empty(self, type_: Type) -> bool:
        """Whether a field is left out: an array of no elements has no words."""
        return isinstance(type_, ArrayType) and self.size(type_.size) == 0

    def struct_type(self, type_: StructType) -> StructType:
        sizes = tuple(map(self.size, type_.sizes))
        name = self.linker.struct(type_.name, sizes)
        return type_ if not sizes else StructType(name)

    def expr(self, expr: Expr) -> Expr:
        kind = type(expr)  # runs once for each node of a program: most are leaves or operations
        if kind is Var or kind is Const:
            return expr
        if kind in _OPERATIONS:
            return rebuild_expr(expr, self.expr)
        if type(expr) is SizeOf:
            return i64(self.size(expr.size))
        if type(expr) is Table:
            self.linker.table(expr.name)
            return expr
        new = rebuild_expr(expr, self.expr)
        if isinstance(new, Call):
            name = self.linker.func(new.func, tuple(map(self.size, new.sizes)))
            return new if not new.sizes else Call(name, new.args)
        if isinstance(new, StructOf):
            type_ = self.struct_type(new.type)
            return new if type_ is new.type else StructOf(type_, new.values)
        return new

    def body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The statements that are left of a block."""
        new: list[Stmt] = []
        for stmt in body:
            new += self.stmt(stmt)
            if new and type(new[-1]) in ENDS:
                break
        return tuple(new)

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """What stands for a statement: a decided branch gives its own, names stay unique."""
        if type(stmt) is If:
            cond = self.expr(stmt.cond)
            known = decided(cond)
            if known is None:
                return (If(cond, self.body(stmt.then), self.body(stmt.otherwise), stmt.line),)
            return self.body(stmt.then if known else stmt.otherwise)
        if type(stmt) is For or type(stmt) is While:
            stmt = msgspec.structs.replace(stmt, body=self.body(stmt.body))
        new = rebuild_stmt(stmt, self.expr, lambda inner: inner)
        if type(new) is Let and not isinstance(new.type, str):
            return (msgspec.structs.replace(new, type=self.type(new.type)),)
        return (new,)


_OPERATIONS = frozenset({ops.Field, ops.Elem, ops.Unary, ops.Binary, ops.Fma, ops.Select})
_COMPARE = {
    "ieq": operator.eq,
    "ine": operator.ne,
    "ilt": operator.lt,
    "ile": operator.le,
    "igt": operator.gt,
    "ige": operator.ge,
}


def decided(cond: Expr) -> bool | None:
    """The truth of a linked condition where sizes alone settle it, else None."""
    if isinstance(cond, Const):
        return bool(cond.bits)
    if not isinstance(cond, Binary):
        return None
    if cond.op in ("and", "or"):
        x, y = decided(cond.x), decided(cond.y)
        settles = cond.op == "or"
        if settles in (x, y):
            return settles
        return None if None in (x, y) else not settles
    if cond.op in _COMPARE and isinstance(cond.x, Const) and isinstance(cond.y, Const):
        return bool(_COMPARE[cond.op](cond.x.bits, cond.y.bits))
    return None


def instance_name(name: str, sizes: tuple[int, ...]) -> str:
    """The name of an instance: `name` itself where there is nothing to bind."""
    return f"{name}[{','.join(map(str, sizes))}]" if sizes else name


def combine_sizes(op: str, left: int, right: int) -> int:
    """The value of a SizeOp."""
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "max":
            return max(left, right)
        case "pow2":
            return 1 << max(0, left - 1).bit_length()
    raise InternalError(f"QD9205 link: unknown size operation {op!r}")
