"""Hold a linked module to the rules of ops.py.

`verify(module)` returns quietly or raises InternalError with function, node and rule. Tests run
it after the checker, after the linker and after every pass.
"""

from typing import NoReturn

from quantdsl.errors import InternalError
from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    BINARY,
    BOOL_T,
    F64_T,
    I64_T,
    UNARY,
    ArrayType,
    Assign,
    Binary,
    Break,
    BufferType,
    Call,
    Const,
    Continue,
    Do,
    Elem,
    Expr,
    Field,
    Fma,
    For,
    Func,
    If,
    Let,
    Module,
    Node,
    ParamDecl,
    Return,
    Select,
    Stmt,
    StructOf,
    StructType,
    Table,
    Type,
    Unary,
    Var,
    While,
)
from quantdsl.ir.show import show_node
from quantdsl.ir.walk import base_of, expressions

SCALARS = (BOOL_T, I64_T, F64_T)
_BITS_RANGE = {BOOL_T: (0, 1), I64_T: (-(2**63), 2**63 - 1), F64_T: (0, 2**64 - 1)}


def verify(module: Module) -> None:
    """Raise InternalError at the first rule that a linked module breaks."""
    scope = _Scope(module)
    for table in module.tables:
        for bits in table.bits:
            scope.check_bits(table.type, bits, table)
    for entry in module.entries:
        if entry not in scope.funcs:
            scope.fail(module, f"entry {entry!r} is not in the module")
    for func in module.funcs:
        _FuncVerifier(scope, func).run()
    scope.check_call_order()


class _Scope:
    """The names of a module; `where` is the function at hand."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.where = "module"
        self.funcs = {func.name: func for func in module.funcs}
        self.tables = {table.name: table for table in module.tables}
        self.structs = {struct.name: struct for struct in module.structs}
        self.layout = Layout(module.structs)
        total = len(self.funcs) + len(self.tables) + len(self.structs)
        if total != len(module.funcs) + len(module.tables) + len(module.structs):
            self.fail(module, "a name is declared twice")
        self.check_structs()

    def fail(self, node: Node, rule: str) -> NoReturn:
        text = show_node(node)
        text = text if len(text) <= 200 else text[:197] + "..."
        raise InternalError(f"QD9301 ir: {self.where}: `{text}`: {rule}")

    def check_structs(self) -> None:
        """Each struct holds only structs declared before it, which also rules out cycles."""
        known: set[str] = set()
        for struct in self.module.structs:
            names = [field.name for field in struct.fields]
            if len(set(names)) != len(names) or not names:
                self.fail(struct, "a struct has fields, and their names differ")
            for field in struct.fields:
                self.check_type(field.type, struct, known)
            known.add(struct.name)

    def check_type(self, type_: Type, node: Node, known: set[str] | None = None) -> None:
        if isinstance(type_, ArrayType):
            if not isinstance(type_.size, int) or type_.size < 1:
                self.fail(node, "an array size is a positive int once linked")
            if isinstance(type_.elem, ArrayType | BufferType):
                self.fail(node, "array elements are scalars or structs")
            self.check_type(type_.elem, node, known)
        elif isinstance(type_, StructType):
            names = self.structs if known is None else known
            if type_.sizes or type_.name not in names:
                self.fail(node, f"struct {type_.name!r} is not linked or not declared before")
        elif isinstance(type_, BufferType):
            self.fail(node, "a buffer is only ever a parameter of an entry function")
        elif type_ not in SCALARS:
            self.fail(node, f"{type_!r} is not a type")

    def check_bits(self, type_: str, bits: int, node: Node) -> None:
        low, high = _BITS_RANGE[type_]
        if not low <= bits <= high:
            self.fail(node, f"{bits} is not the bits of a {type_}")

    def check_call_order(self) -> None:
        """Functions come before their callers, so there is no cycle."""
        known: set[str] = set()
        for func in self.module.funcs:
            self.where = func.name
            for expr in expressions(func.body):
                if isinstance(expr, Call) and expr.func not in known:
                    self.fail(expr, "the callee must stand before the caller")
            known.add(func.name)


class _FuncVerifier:
    """Types, places and control flow of one function."""

    def __init__(self, scope: _Scope, func: Func) -> None:
        self.scope, self.func, self.fail = scope, func, scope.fail
        self.types: dict[str, Type] = {}
        self.readonly: set[str] = set()
        self.seen: set[str] = set()
        self.loops = 0
        scope.where = func.name

    def run(self) -> None:
        func = self.func
        if func.sizes:
            self.fail(func, "size parameters are gone once linked")
        for param in func.params:
            self.param(param)
        if func.result is not None:
            self.scope.check_type(func.result, func)
            if isinstance(func.result, ArrayType):
                self.fail(func, "a result is a scalar or a struct")
            if func.name in self.scope.module.entries and not isinstance(func.result, str):
                self.fail(func, "an entry function returns a scalar or nothing")
        self.block(func.body)
        if func.result is not None and not _returns(func.body):
            self.fail(func, "a path reaches the end without a Return")

    def param(self, param: ParamDecl) -> None:
        if isinstance(param.type, BufferType):
            if self.func.body and self.func.name not in self.scope.module.entries:
                self.fail(param, "only entries and functions without a body have buffer parameters")
            self.scope.check_type(param.type.elem, param)
        else:
            self.scope.check_type(param.type, param)
        if isinstance(param.type, str) and param.inout:
            self.fail(param, "a scalar is passed by value, never inout")
        self.declare(param.name, param.type, param)
        if not isinstance(param.type, str) and not param.inout:
            self.readonly.add(param.name)

    def declare(self, name: str, type_: Type, node: Node) -> None:
        if name in self.seen:
            self.fail(node, f"{name!r} is declared twice in this function")
        self.seen.add(name)
        self.types[name] = type_

    # ---- statements ---------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...]) -> None:
        """Names declared in a block end with it."""
        outer = dict(self.types)
        for stmt in body:
            self.stmt(stmt)
        self.types = outer

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let():
                self.let(stmt)
            case Assign():
                type_ = self.type(stmt.value, root=True)
                self.writable(stmt.place, stmt)
                if isinstance(type_, ArrayType) or self.type(stmt.place) != type_:
                    self.fail(stmt, "both sides are the same scalar or struct type")
            case Do():
                self.call(stmt.call, root=True)
            case If():
                self.expect(stmt.cond, BOOL_T)
                self.block(stmt.then)
                self.block(stmt.otherwise)
            case For():
                self.expect(stmt.lo, I64_T)
                self.expect(stmt.hi, I64_T)
                outer = dict(self.types)
                self.declare(stmt.name, I64_T, stmt)
                self.readonly.add(stmt.name)
                self.loop(stmt.body)
                self.types = outer
            case While():
                self.expect(stmt.cond, BOOL_T)
                self.expect(stmt.max, I64_T)
                self.loop(stmt.body)
            case Break() | Continue():
                if not self.loops:
                    self.fail(stmt, "outside of a loop")
            case Return():
                result = None if stmt.value is None else self.type(stmt.value, root=True)
                if result != self.func.result:
                    self.fail(stmt, f"the function returns {self.func.result}")

    def let(self, stmt: Let) -> None:
        self.scope.check_type(stmt.type, stmt)
        if stmt.value is not None and (
            isinstance(stmt.type, ArrayType) or self.type(stmt.value, root=True) != stmt.type
        ):
            self.fail(stmt, "the value has the declared type, and an array starts as zeros")
        self.declare(stmt.name, stmt.type, stmt)

    def loop(self, body: tuple[Stmt, ...]) -> None:
        self.loops += 1
        self.block(body)
        self.loops -= 1

    def writable(self, place: Expr, node: Node) -> None:
        base = base_of(place)
        if not isinstance(base, Var) or base.name in self.readonly:
            self.fail(node, "only a local or an inout parameter is written to")

    # ---- expressions --------------------------------------------------------------------

    def expect(self, expr: Expr, type_: Type) -> None:
        if self.type(expr) != type_:
            self.fail(expr, f"expected {type_}, is {self.type(expr)}")

    def type(self, expr: Expr, *, root: bool = False) -> Type:
        """The type; `root` says that a struct value or a call with effects may stand here."""
        match expr:
            case Const():
                self.scope.check_bits(expr.type, expr.bits, expr)
                return expr.type
            case Var() | Field() | Elem() | Table():
                return self.place(expr)
            case Unary():
                op = UNARY.get(expr.op) or self.fail(expr, "unknown operation")
                self.expect(expr.x, op.operand)
                return op.result
            case Binary():
                op = BINARY.get(expr.op) or self.fail(expr, "unknown operation")
                self.expect(expr.x, op.operand)
                self.expect(expr.y, op.operand)
                return op.result
            case Fma():
                for operand in (expr.x, expr.y, expr.z):
                    self.expect(operand, F64_T)
                return F64_T
            case Select():
                return self.select(expr)
            case Call():
                result = self.call(expr, root=root)
                return result or self.fail(expr, "a call without result has no value")
            case StructOf():
                return self.struct_of(expr, root=root)
        return self.fail(expr, "this node is gone once linked")

    def place(self, place: Expr) -> Type:
        match place:
            case Var():
                if place.name not in self.types:
                    self.fail(place, "no such name is in scope here")
                return self.types[place.name]
            case Field():
                base = self.place(place.base)
                if not isinstance(base, StructType):
                    return self.fail(place, f"{base} has no fields")
                slot = self.scope.layout.slots(base.name).get(place.name)
                return slot.type if slot else self.fail(place, "the struct has no such field")
            case Elem():
                return self.elem(place)
        return self.fail(place, "this is not a place")

    def elem(self, place: Elem) -> Type:
        self.expect(place.index, I64_T)
        if isinstance(place.base, Table):
            table = self.scope.tables.get(place.base.name)
            if table is None:
                return self.fail(place, "no such table")
            self.check_index(place, len(table.bits))
            return table.type
        base = self.place(place.base)
        if isinstance(base, ArrayType):
            assert isinstance(base.size, int)
            self.check_index(place, base.size)
            return base.elem
        return base.elem if isinstance(base, BufferType) else self.fail(place, "not an array")

    def check_index(self, place: Elem, size: int) -> None:
        if isinstance(place.index, Const) and not 0 <= place.index.bits < size:
            self.fail(place, f"the index lies outside 0..<{size}")

    def select(self, expr: Select) -> Type:
        self.expect(expr.cond, BOOL_T)
        type_ = self.type(expr.x)
        if not isinstance(type_, str):
            self.fail(expr, "a select chooses between scalars")
        self.expect(expr.y, type_)
        return type_

    def call(self, call: Call, *, root: bool) -> Type | None:
        func = self.scope.funcs.get(call.func)
        if func is None or call.sizes or len(func.params) != len(call.args):
            return self.fail(call, "no function of this name with that many parameters")
        if not root and (any(p.inout for p in func.params) or not isinstance(func.result, str)):
            self.fail(call, "a call with effects or a struct result stands at a statement's root")
        for param, arg in zip(func.params, call.args, strict=True):
            self.expect(arg, param.type)
            if param.inout:
                self.writable(arg, call)
        return func.result

    def struct_of(self, expr: StructOf, *, root: bool) -> Type:
        self.scope.check_type(expr.type, expr)
        if not root:
            self.fail(expr, "a struct value stands at a statement's root")
        slots = self.scope.layout.slots(expr.type.name)
        if len(slots) != len(expr.values):
            self.fail(expr, "one value for each field")
        for slot, value in zip(slots.values(), expr.values, strict=True):
            if not isinstance(slot.type, str):
                self.fail(expr, "the fields are all scalar")
            self.expect(value, slot.type)
        return expr.type


def _returns(body: tuple[Stmt, ...]) -> bool:
    """Whether no path runs past the end of `body`."""
    for stmt in body:
        if isinstance(stmt, Return):
            return True
        if isinstance(stmt, If) and _returns(stmt.then) and _returns(stmt.otherwise):
            return True
    return False
