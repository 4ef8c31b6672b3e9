"""The standard library and imported files: found by name, elaborated on first use, kept as IR."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quantdsl.check import arith, civil, naming, precompiled, rings, tensors, threads, ticks
from quantdsl.check.annotations import Mark
from quantdsl.check.arith import an
from quantdsl.check.bindings import (
    Binding,
    EnumBinding,
    Local,
    StructBinding,
    StructField,
    unknown,
)
from quantdsl.check.builtins import TABLE, Builtin
from quantdsl.check.calls import call
from quantdsl.check.context import Context, Scope
from quantdsl.check.functions import Builder, Declared, IndicatorBuilder, Routine, bar_struct
from quantdsl.check.hosted import HostIndicator, target_of
from quantdsl.check.kernels import KernelBuilder, KernelFacts
from quantdsl.check.literals import is_quantity
from quantdsl.check.modules import Module, Namespace
from quantdsl.check.signatures import resolve
from quantdsl.check.types import ERROR, FLOAT, INT, SCALAR, Type, ir_type, stored
from quantdsl.check.values import TIMELESS, Unit, Value, error_value
from quantdsl.errors import InternalError
from quantdsl.ir import ops
from quantdsl.lang import ast
from quantdsl.lang.ast import Span
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source

STD = Path(__file__).parent.parent / "std"
ALIASES = {"talib": "ta"}
"""Files std/KEY_*.qdsl add to the namespace KEY; these keys add to another."""

CORE = (
    *("engine", "orders", "matching", "account", "risk", "metrics", "venue", "quoting", "book"),
    "portfolio",
    "forming",
)


def _no_quantity(cx: Context, item: ast.Const) -> Value:
    """Report a const that is a number of shares."""
    text = cx.module.source.text[slice(*item.value.span)]
    return cx.error(
        "QD0210",
        "a const has no instrument whose lots it counts",
        item.value.span,
        help=f"write it in the strategy: let {item.name.id} = {text}, or as a param",
    )


class Unitless:
    """Units in a fn or indicator: only its parameters know the instrument they count."""

    def of(self, cx: Context, value: Value) -> Unit:
        """Report that a count has no meaning here."""
        cx.error(
            "QD0307",
            f"{an(value.type)} has no instrument here",
            value.span,
            help="pass it as a parameter",
        )
        return Unit(arith.ONE, arith.ONE)

    def default_qty(self, cx: Context, span: ast.Span) -> Type:
        """Report that a quantity has no instrument here."""
        return cx.error(
            "QD0307", "a quantity has no instrument here", span, help="pass it as a parameter"
        ).type

    def money(self, cx: Context) -> Unit:
        """Money as written: the account's unit is not known in a fn."""
        return Unit(arith.ONE, arith.ONE)

    def tick_lot(self, cx: Context, of: str, span: Span) -> ops.Expr:
        """Money of one lot moving one tick: not known in a fn."""
        cx.error(
            "QD0307",
            "price * qty needs an instrument",
            span,
            help="multiply floats: float(price) * float(qty)",
        )
        return ops.i64(0)


class GlobalScope(Scope):
    """Built-in functions, the namespaces of std, and the names of std/math."""

    def __init__(self, library: "Library") -> None:
        super().__init__()
        self.library = library
        self.names.update({name: Builtin(doc) for name, doc in TABLE.items()})
        self.names["inf"] = Local(Value(FLOAT, ops.f64(math.inf), series=TIMELESS, const=math.inf))
        for at, name in enumerate(civil.WEEKDAYS):
            day = Value(INT, ops.i64(at), low=at, high=at, series=TIMELESS, const=at)
            self.names[name] = Local(day)
        for name in MODULE_SIZES:
            size = ops.SizeName(name)
            least, most = (0, 1) if name in USES else (1, size)
            self.names[name] = Local(
                Value(INT, ops.SizeOf(size), low=least, high=most, series=TIMELESS)
            )
        for key, paths in library.files.items():
            for name in (key, *(path.stem for path in paths)):
                self.names[name] = _LazyNamespace(library, key)

    def find(self, name: str) -> Any | None:
        """As any scope; the mathematics is parsed only when one of its names is used."""
        found = super().find(name)
        if found is None and "math" in self.library.files:
            return self.library.namespace("math").names.get(name)
        return found


class _LazyNamespace(Namespace):
    """A std namespace, parsed when first looked into."""

    builtin = "namespace"

    def __init__(self, library: "Library", key: str) -> None:
        self.library = library
        self.name = key

    @property
    def scope(self) -> Scope:  # type: ignore[override]
        """The names of the files that form the namespace."""
        return self.library.namespace(self.name)


class Library:
    """Everything that a strategy can call, and the IR made of it so far."""

    def __init__(self, *, from_source: bool = False) -> None:
        self.files = _std_files()
        self.package = None if from_source else precompiled.package(_from_source)
        self.unitless = Unitless()
        self.funcs: dict[str, ops.Func] = {}
        self.structs: dict[str, ops.StructDecl] = {"Bar": bar_struct(), **ticks.structs()}
        self.tables: dict[str, ops.TableDecl] = {}
        self.constants: dict[str, Type] = {}  # those of the tables that lie in constant memory
        self.struct_bindings: dict[str, StructBinding] = {}
        self.enums: dict[str, EnumBinding] = {}
        self.kernels: dict[str, KernelFacts] = {}  # by the name of their function
        self.marked: dict[str, tuple[Module, tuple[Mark, ...]]] = {}  # likewise, of user files
        self.modules: list[Module] = []
        self._namespaces: dict[str, Scope] = {}
        self.globals = GlobalScope(self)

    # ---- what link() asks for ----

    def lookup(self, name: str) -> "ops.Func | ops.StructDecl | ops.TableDecl | None":
        """The IR declared under a name."""
        known = self.funcs.get(name) or self.structs.get(name) or self.tables.get(name)
        if known is None and self.package is not None:
            known = precompiled.unpack(self.package, name)
        return known

    def calls_kernel(self, value: ops.Expr) -> bool:
        """Whether the value of an equation is what a kernel returns: it keeps nothing, and takes
        long."""
        return isinstance(value, ops.Call) and value.func in self.kernels

    def define(self, func: ops.Func) -> None:
        """Keep an elaborated function."""
        self.funcs[func.name] = func

    def define_struct(self, decl: ops.StructDecl) -> None:
        """Keep a struct."""
        self.structs[decl.name] = decl

    # ---- modules ----

    def reasons(self) -> dict[int, str]:
        """Why orders are refused or end, in the words of std/risk.qdsl."""
        members = self.namespace("risk").names["Reason"].members()
        return {code: name.replace("_", " ") for code, name in enumerate(members)}

    def namespace(self, key: str) -> Scope:
        """The names of a std namespace."""
        if key not in self._namespaces:
            scope = self._namespaces[key] = Scope(self.globals)
            if self.package is not None:
                source = Source("", f"std/{key}", std=True)
                module = Module(key, source, ast.File((0, 0), ()), std=True)
                module.scope = scope
                scope.names = precompiled.Names(self, module, self.package.namespaces[key])
                return scope
            for path in self.files[key]:
                source = Source.read(path, std=True)
                parsed = parse(source)
                if parsed.diagnostics:
                    first = parsed.diagnostics[0]
                    line = source.position(first.span[0]).line
                    raise InternalError(f"{path.name}:{line}: {first.message}")
                module = Module(key, source, parsed.file, std=True)
                module.scope = scope
                self.declare(module)
        return self._namespaces[key]

    def declare(self, module: Module) -> None:
        """Enter the declarations of a file into its scope."""
        self.modules.append(module)
        cx = Context(self, module, module.scope, units=self.unitless)
        items = module.file.items
        for item in items:
            if isinstance(item, ast.Enum):
                naming.distinct(cx, item.members)
                key = f"{module.key}.{item.name.id}"
                enum = EnumBinding(key, tuple(member.id for member in item.members))
                self.enums[key] = enum
                self._enter(cx, item.name, enum)
            elif isinstance(item, ast.Fn | ast.Indicator | ast.Kernel):
                self._declare_callable(cx, item)
        for item in items:
            if isinstance(item, ast.Const):
                self._declare_const(cx, item)
        for item in items:
            if isinstance(item, ast.Struct):
                self._declare_struct(cx, item)

    def declare_item(self, cx: Context, scope: Scope, item: "ast.Const | ast.Fn") -> None:
        """A const or fn that stands inside a strategy."""
        inner = Context(self, cx.module, scope, units=self.unitless)
        if isinstance(item, ast.Const):
            self._declare_const(inner, item, scope)
        else:
            self._enter(inner, item.name, Declared(cx.module, [item]), scope)

    def _enter(
        self, cx: Context, name: ast.Ident, binding: Any, scope: Scope | None = None
    ) -> None:
        scope = scope or cx.module.scope
        own = name.id in scope.names
        if cx.module.std and own:
            raise InternalError(f"std declares {cx.module.key}.{name.id} twice")
        naming.enter(cx, scope.names, name, scope.find(name.id), binding)

    def _declare_callable(
        self, cx: Context, item: ast.Fn | ast.Indicator | ast.Kernel
    ) -> None:
        existing = cx.module.scope.names.get(item.name.id)
        if isinstance(existing, Declared) and cx.module.std:
            existing.nodes.append(item)
            return
        target = target_of(item) if isinstance(item, ast.Indicator) else None
        if target is not None and isinstance(item, ast.Indicator):
            self._enter(cx, item.name, HostIndicator(cx.module, item, target))
            return
        self._enter(cx, item.name, Declared(cx.module, [item]))

    def _declare_const(self, cx: Context, item: ast.Const, scope: Scope | None = None) -> None:
        if isinstance(item.value, ast.Array):
            kept = self._table(cx, item, item.value)
            self._enter(cx, item.name, Local(kept, item.name.span, used=True))
            return
        value = _no_quantity(cx, item) if is_quantity(item.value) else cx.expr(item.value)
        if not value.bad and value.const is None and not isinstance(value.ir, ops.Const):
            from quantdsl.check.consts import evaluate

            value = evaluate(cx, value)
        if item.type is not None and not value.bad:
            value = arith.coerce(cx, value, resolve(cx, item.type))
        self._enter(cx, item.name, Local(value, item.name.span, used=True), scope)

    def _table(self, cx: Context, item: ast.Const, array: ast.Array) -> Value:
        """The table that a const is; what is wrong with it is told here alone."""
        from quantdsl.check.consts import array_type, evaluate

        if not array.items:
            text = "a list holds one number at least"
            return cx.error("QD0603", text, array.span, help="write its numbers: [1.0, 2.0]")
        values = [evaluate(cx, cx.expr(entry)) for entry in array.items]
        if any(value.bad for value in values):
            return error_value(item.name.span)
        elem = INT if all(value.type == INT for value in values) else FLOAT
        type_ = Type("array", elem=elem, size=len(values))
        if item.type is not None:
            type_ = array_type(cx, item.type, len(values), list(self.constants.values()))
        if type_ == ERROR or type_.elem is None:
            return error_value(item.name.span)
        entries = [evaluate(cx, arith.coerce(cx, value, type_.elem)) for value in values]
        if any(value.bad for value in entries):
            return error_value(item.name.span)
        name = f"{cx.module.key}.{item.name.id}"
        bits = tuple(_const_bits(value) for value in entries)
        apart = type_.kind == "constant"
        self.tables[name] = ops.TableDecl(name, stored(type_.elem), bits, apart)
        if apart:
            self.constants[name] = type_
        return Value(type_, ops.Table(name), series=TIMELESS)

    def _declare_struct(self, cx: Context, item: ast.Struct) -> None:
        key = f"{cx.module.key}.{item.name.id}"
        binding = StructBinding(key, ())
        self._enter(cx, item.name, binding)
        naming.distinct(cx, tuple(f.name for f in item.fields))
        fields = tuple(StructField(f.name.id, resolve(cx, f.type)) for f in item.fields)
        binding.fields = fields
        self.struct_bindings[key] = binding
        self.structs[key] = ops.StructDecl(
            key, tuple(ops.FieldDecl(f.name, ir_type(f.type)) for f in fields if f.type != ERROR)
        )

    # ---- lookups of the elaborators ----

    def find_type(self, module: Module, name: str) -> Binding | None:
        """A struct or enum of another core file (std files name each other's types bare)."""
        if not module.std:
            return None
        for key in (*CORE, "book", "sums"):
            if key in self.files:
                found = self.namespace(key).names.get(name)
                if isinstance(found, EnumBinding | StructBinding):
                    return found
        return None

    def size_value(self, cx: Context, name: str) -> ops.Size | None:
        """A name as a size: a size parameter, an integer const, or a size of the module."""
        if name in cx.size_names:
            return ops.SizeName(name)
        found = cx.scope.find(name)
        if isinstance(found, Local) and isinstance(found.value.const, int):
            return found.value.const
        return ops.SizeName(name) if name in MODULE_SIZES else None

    def enum(self, key: str) -> EnumBinding:
        """An enum by its type's key."""
        return self.enums[key]

    def call(self, cx: Context, binding: Declared, node: ast.Call) -> Value:
        """A call of a fn or indicator."""
        return call(cx, binding, node)

    def call_named(
        self, cx: Context, key: str, name: str, values: tuple[Value, ...], span: ast.Span
    ) -> Value:
        """A call of a std function that the compiler itself asks for; values are plain."""
        binding = self.namespace(key).names[name]
        routine = self.routine(cx, binding, 0)
        ir = ops.Call(routine.ir_name, tuple(value.ir for value in values))
        return Value(routine.result, ir, span, series=arith.joined(values))

    def routine(self, cx: Context, binding: Declared, number: int) -> Routine:
        """The elaborated fn or indicator."""
        if number not in binding.routines:
            node = binding.nodes[number]
            if number in binding.busy:
                cx.error(
                    "QD0604",
                    f"{binding.name!r} calls itself",
                    node.name.span,
                    reason="every run has a bound that is known when compiling",
                    help="use a loop with a bound",
                )
                return Routine("", [], ERROR, (), impure=False)
            binding.busy.add(number)
            make = BUILDERS[type(node)]
            binding.routines[number] = make(cx, binding, number).run()
        return binding.routines[number]

    def field(self, cx: Context, value: Value, node: ast.Attr) -> Value:
        """A field of a struct value."""
        binding = self.struct_bindings[value.type.of]
        for entry in binding.fields:
            if entry.name == node.name:
                return Value(
                    entry.type,
                    ops.Field(value.place, node.name),
                    node.span,
                    series=value.series,
                    writable=value.writable,
                )
        known = [f.name for f in binding.fields]
        has = f"it has {', '.join(known)}"
        return unknown(cx, node.name, node.name_span, known, f"in {value.type}", has)

    def construct(self, cx: Context, binding: StructBinding, node: ast.Call) -> Value:
        """`Band(mid = m, ...)`: every field, by name."""
        given: dict[str, Value] = {}
        known = {f.name: f.type for f in binding.fields}
        for arg in node.args:
            if arg.name is None:
                return cx.error(
                    "QD0308",
                    f"{binding.type} takes its fields by name",
                    arg.span,
                    help=", ".join(f"{name} = ..." for name in known),
                )
            if arg.name not in known:
                place = (arg.span[0], arg.span[0] + len(arg.name))
                return unknown(cx, arg.name, place, list(known), f"in {binding.type}")
            given[arg.name] = arith.coerce(cx, cx.expr(arg.value), known[arg.name])
        missing = [name for name in known if name not in given]
        if missing:
            return cx.error("QD0308", f"{binding.type} also needs {', '.join(missing)}", node.span)
        values = [given[name] for name in known]
        if any(value.bad for value in values):
            return error_value(node.span)
        type_, series = ops.StructType(binding.type.of), arith.joined(values)
        strategy = cx.strategy
        if series is not None and strategy is not None and not strategy.acting:
            made = self.made_of(type_, values)  # statements of an equation stand nowhere
            value: Value = cx.home.keep(cx, Value(binding.type, made, node.span, series=series))
            return value
        name = cx.fresh("n")
        if all(value.type.kind in SCALAR for value in values):
            cx.emit(ops.Let(name, type_, ops.StructOf(type_, tuple(v.ir for v in values))))
        else:
            cx.emit(ops.Let(name, type_, None))
            for field_name, value in zip(known, values, strict=True):
                cx.emit(ops.Assign(ops.Field(ops.Var(name), field_name), value.ir))
        return Value(binding.type, ops.Var(name), node.span, series=series)

    def made_of(self, type_: ops.StructType, values: list[Value]) -> ops.Expr:
        """A struct of these fields in one expression; one that holds structs is made by a call."""
        given = tuple(value.ir for value in values)
        if all(value.type.kind in SCALAR for value in values):
            return ops.StructOf(type_, given)
        name = f"{type_.name}.of"
        if name not in self.funcs:
            decl, made = self.lookup(type_.name), ops.Var("made.1")
            assert isinstance(decl, ops.StructDecl)
            params = tuple(ops.ParamDecl(field.name, field.type) for field in decl.fields)
            body: list[ops.Stmt] = [ops.Let(made.name, type_, None)]
            body += [ops.Assign(ops.Field(made, p.name), ops.Var(p.name)) for p in params]
            self.define(ops.Func(name, params, type_, (*body, ops.Return(made))))
        return ops.Call(name, given)

    def of_kernels(self, name: str) -> bool:
        """Whether a name means something in kernels alone."""
        return name in threads.NAMES or (name in TABLE and TABLE[name].in_kernels)

    def tensor_read(self, cx: Context, value: Value, index: Value, node: ast.Index) -> Value:
        """An element of a tensor."""
        return tensors.element(cx, value, index, node)

    def tensor_member(self, cx: Context, value: Value, node: ast.Attr) -> Value:
        """A part of a tensor."""
        return tensors.member(cx, value, node)

    def ring_read(self, cx: Context, value: Value, index: Value, node: ast.Index) -> Value:
        """`ring[k]`."""
        return rings.read(cx, value, index, node)

    def ring_member(self, cx: Context, value: Value, node: ast.Attr) -> Value:
        """`ring.len`, `ring.full`."""
        return rings.member(cx, value, node)

    def ring_call(self, cx: Context, value: Value, node: ast.Call) -> Value:
        """`ring.push(x)`."""
        return rings.call(cx, value, node)

    def raise_std_errors(self) -> None:
        """An error in std is ours, not the user's."""
        for module in self.modules:
            errors = [d for d in module.report.diagnostics if d.severity == "error"]
            if module.std and errors:
                lines = [
                    f"{Path(module.source.path).name}:{module.source.position(d.span[0]).line}: "
                    f"{d.code} {d.message}"
                    for d in errors
                ]
                raise InternalError("the standard library does not compile:\n" + "\n".join(lines))


BUILDERS: dict[type, type[Builder]] = {
    ast.Fn: Builder,
    ast.Indicator: IndicatorBuilder,
    ast.Kernel: KernelBuilder,
}

USES = (
    "USES_TRAIL",
    "USES_NEWS",
    "USES_TIF",
    "USES_LIMIT",
    "USES_TRIGGER",
    "USES_EXITS",
    "USES_VALUE",
    "USES_LATE",
    "USES_LINK",
    "USES_TAG",
    "USES_PENDING",
    "USES_SHORT",
    "USES_CORPORATE",
    "USES_CLOCKS",
    "USES_PORTFOLIO",
    "USES_NET",
    "USES_PLANS",
    "USES_CLOSES",
    "USES_PACE",
    "USES_SIZES",
    "USES_LOSS",
    "USES_ACTIONS",
    "USES_THROTTLE",
    "USES_CHECK",
    "USES_TICKS",
    "USES_QUOTES",
    "USES_TRADES",
    "USES_BOOK",
    "USES_COMMAND",
    "USES_HOUSE",
    "USES_UNIVERSE",
    "USES_WORKER",
    "USES_INSIDE",
    "USES_OWN_FILL",
    "USES_INVERSE",
)
"""0 or 1: whether a run can reach a part of the core. What it cannot reach is not compiled."""

SINGLE_RUN = {
    "USES_RECORDS": 1,
    "USES_DIGEST": 0,
    "USES_KILL": 1,
    "N_BLOCKS": 1,
    "N_NEWS": 128,
    "FEW_ORDERS": 0,
}
"""Whether records are kept, whether they are mixed into a digest, whether there is a kill switch,
how many blocks of days keep return sums of their own, most news of an instant, and whether there is
only room for few orders: as one run with a report has them."""

NO_BOOK = {"N_LADDER": 1, "N_LADDER_WORDS": 1, "N_FAR": 1, "N_BOOK_ORDERS": 1}
"""Sizes of std/book.qdsl where no order book is kept."""


def book_sizes(ladder: int = 4096, far: int = 16_384, orders: int = 1) -> dict[str, int]:
    """Sizes of an order book: ticks a side in its ring, slots beyond, slots for orders (L3).

    Each is a power of two, `ladder` at least 256, `far` at least 64; anything else is ours.
    """
    for size, least in ((ladder, 256), (far, 64), (orders, 1)):
        if size < least or size & (size - 1):
            raise InternalError(f"a book of {ladder}, {far} and {orders}: powers of two are needed")
    words = ladder // 64
    return {"N_LADDER": ladder, "N_LADDER_WORDS": words, "N_FAR": far, "N_BOOK_ORDERS": orders}


def venue_sizes(sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of what only some runs have; 0 in others, whose state is spared the words. An
    instant has room for as many intents as there are orders, where it is not told otherwise."""
    ticks, book = sizes["USES_TICKS"], sizes["USES_BOOK"]
    intents = sizes.get("N_INTENTS", sizes["N_ORDERS"])
    return {
        "N_INTENTS": intents,
        "N_JOINT": intents * sizes["USES_NET"],
        "N_VENUES": ticks * sizes["N_INSTRUMENTS"],
        "N_RESTING": ticks * sizes["N_ORDERS"],
        "N_BOOKS": book * sizes["N_INSTRUMENTS"],
        "N_THROTTLE": 256 * sizes["USES_THROTTLE"],
        "N_HOUSE": sizes["USES_HOUSE"],
    }


MODULE_SIZES = frozenset(
    {
        *("N_INSTRUMENTS", "N_ORDERS", "N_INTENTS", "N_RECORDS", "N_THROTTLE", "N_JOINT"),
        *("N_VENUES", "N_RESTING", "N_BOOKS", "N_HOUSE"),
        *NO_BOOK,
        *SINGLE_RUN,
        *USES,
    }
)


def _from_source() -> Library:
    """A library that elaborates std itself."""
    return Library(from_source=True)


def _std_files() -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for path in sorted(STD.glob("*.qdsl")):
        key = path.stem.partition("_")[0]
        files.setdefault(ALIASES.get(key, key), []).append(path)
    return files


def _const_bits(value: Value) -> int:
    assert isinstance(value.ir, ops.Const)
    return value.ir.bits
