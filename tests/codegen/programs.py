"""Random IR programs and inputs for them: every construct, values at every edge.

A module holds helpers and many entry functions, so that one compile serves many programs. All
programs work on one struct `S`; indices are kept in range the way the checker proves them.
"""

import random
import struct
from collections.abc import Callable

import numpy as np

from quantdsl.ir.link import link
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
    FieldDecl,
    Fma,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Select,
    SizeName,
    SizeOf,
    Stmt,
    StructDecl,
    StructOf,
    StructType,
    Table,
    TableDecl,
    Type,
    Unary,
    Var,
    While,
    f64,
    f64_to_bits,
    i64,
)

BUFFER_WORDS = 16
FLOATS = [
    0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 1 / 3, 3.0, 1e16 + 2,
    2.0**52, 2.0**53 + 2, 2.0**62, 2.0**63, -(2.0**63), -(2.0**63) - 2048, 2.0**64, 1e308, -1e308,
    1e-308, 5e-324, -5e-324, 2.2250738585072014e-308, float("inf"), float("-inf"), float("nan"),
    4503599627370495.5,
]  # fmt: skip
NAN_BITS = [0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 5, (0xFFF0 << 48) + 1, 2**63 - 1]
INTS = [
    0, 1, -1, 2, 3, 5, 7, 63, 64, 65, -64, 255, 10**9, 2**31, 2**52, 2**53 + 1, 2**62, -(2**62),
    2**63 - 1, -(2**63), -(2**63) + 1,
]  # fmt: skip

N = SizeName("N")
S, P, BIG = StructType("S"), StructType("P"), StructType("Q", (20,))
STRUCTS = [
    StructDecl("P", (FieldDecl("a", F64_T), FieldDecl("n", I64_T), FieldDecl("b", BOOL_T))),
    StructDecl(
        "Q",
        (FieldDecl("xs", ArrayType(F64_T, N)), FieldDecl("k", I64_T), FieldDecl("p", P)),
        ("N",),
    ),
    StructDecl(
        "S",
        (
            *(FieldDecl(name, F64_T) for name in ("x", "y", "z")),
            *(FieldDecl(name, I64_T) for name in ("i", "j")),
            FieldDecl("c", BOOL_T),
            FieldDecl("xs", ArrayType(F64_T, 4)),
            FieldDecl("us", ArrayType(F64_T, 6)),
            FieldDecl("ns", ArrayType(I64_T, 8)),
            FieldDecl("bs", ArrayType(BOOL_T, 3)),
            FieldDecl("ps", ArrayType(P, 3)),
            FieldDecl("small", StructType("Q", (2,))),
            FieldDecl("big", BIG),
            FieldDecl("bigs", ArrayType(BIG, 2)),
        ),
    ),
]
TABLES = [
    TableDecl("t.f", F64_T, tuple(map(f64_to_bits, FLOATS))),
    TableDecl("t.i", I64_T, tuple(INTS)),
    TableDecl("t.b", BOOL_T, (1, 0, 1)),
]
SCALARS = (BOOL_T, I64_T, F64_T)


def random_float(rng: random.Random) -> float:
    """An edge, an ordinary value with a full mantissa, or any bit pattern."""
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(FLOATS)
    if kind < 0.9:
        return rng.uniform(-100, 100)
    return float(struct.unpack("<d", rng.randbytes(8))[0])


def random_float_bits(rng: random.Random) -> int:
    """As an i64; a NaN has any of its bits, which no program may see."""
    bits = rng.choice(NAN_BITS) if rng.random() < 0.05 else f64_to_bits(random_float(rng))
    return bits - (bits >> 63 << 64)


def random_int(rng: random.Random) -> int:
    """An edge, a small value, or any i64."""
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(INTS)
    return rng.randrange(-20, 21) if kind < 0.8 else rng.randrange(-(2**63), 2**63)


def random_module(seed: int, programs: int) -> Module:
    """A linked module with `programs` entry functions p0, p1, ..."""
    rng = random.Random(seed)
    helpers = [ProgramWriter(rng, []).scalar_helper(f"h{k}", rng.choice(SCALARS)) for k in range(3)]
    helpers += [ProgramWriter(rng, helpers[:3]).struct_helper(f"h{k}") for k in (3, 4)]
    helpers += [ProgramWriter(rng, helpers[:5]).inout_helper(f"h{k}") for k in (5, 6)]
    helpers += [ProgramWriter(rng, helpers[:5]).array_helper(f"h{k}") for k in (7, 8)]
    entries = [ProgramWriter(rng, helpers).entry(f"p{k}") for k in range(programs)]
    decls = {decl.name: decl for decl in (*STRUCTS, *TABLES, *helpers, *entries)}
    return link(decls.get, [entry.name for entry in entries], {})


def random_words(rng: random.Random, kinds: list[str]) -> np.ndarray:
    """Memory with a random scalar in each word."""
    make: dict[str, Callable[[], int]] = {
        BOOL_T: lambda: rng.randrange(2),
        I64_T: lambda: random_int(rng),
        F64_T: lambda: random_float_bits(rng),
    }
    return np.array([make[kind]() for kind in kinds], np.int64)


class ProgramWriter:
    """Writes one function; `names` are the scalars and aggregates in scope."""

    def __init__(self, rng: random.Random, helpers: list[Func]) -> None:
        self.rng = rng
        self.helpers = helpers
        self.names: dict[str, Type] = {}
        self.fixed: set[str] = set()
        self.count = 0
        self.result: Type | None = None
        self.loops = 0

    # ---- functions ----------------------------------------------------------------------

    def entry(self, name: str) -> Func:
        params = (
            ParamDecl("s", S, inout=True),
            ParamDecl("w", BufferType(F64_T), inout=True),
            ParamDecl("x", F64_T),
            ParamDecl("n", I64_T),
            ParamDecl("c", BOOL_T),
        )
        return self.function(name, params, self.rng.choice([None, *SCALARS]), size=12)

    def scalar_helper(self, name: str, result: Type) -> Func:
        params = (ParamDecl("p", P), ParamDecl("x", F64_T), ParamDecl("n", I64_T))
        return self.function(name, params, result, size=3)

    def struct_helper(self, name: str) -> Func:
        params = (ParamDecl("p", P), ParamDecl("q", P), ParamDecl("x", F64_T))
        return self.function(name, params, P, size=3)

    def inout_helper(self, name: str) -> Func:
        """Its two parameters may be one object."""
        params = (ParamDecl("p", P, inout=True), ParamDecl("q", P, inout=True))
        return self.function(name, params, self.rng.choice([None, F64_T, P]), size=4)

    def array_helper(self, name: str) -> Func:
        """Generic in the size of an array and of a struct."""
        params = (
            ParamDecl("xs", ArrayType(F64_T, N), inout=True),
            ParamDecl("q", StructType("Q", (N,)), inout=True),
        )
        func = self.function(name, params, F64_T, size=3)
        at = Binary("imod", Field(Var("q"), "k"), SizeOf(N))
        element = Elem(Field(Var("q"), "xs"), at)
        body = (
            Let("before", F64_T, element),
            Assign(Elem(Var("xs"), at), f64(random_float(self.rng))),
            # Differs from `before` where `xs` is the array of `q` itself.
            Assign(element, Binary("fsub", Var("before"), element)),
            *func.body,
        )
        return Func(name, params, F64_T, body, ("N",))

    def function(
        self, name: str, params: tuple[ParamDecl, ...], result: Type | None, size: int
    ) -> Func:
        self.result = result
        for param in params:
            self.names[param.name] = param.type
            if not param.inout:
                self.fixed.add(param.name)
        scope = dict(self.names)
        body = self.block(size)
        self.names = {**scope, **self.names}
        if result is not None:
            body = (*body, Return(self.root_value(result)))
        self.names = scope
        return Func(name, params, result, body, inline=self.rng.random() < 0.7)

    # ---- statements ---------------------------------------------------------------------

    def block(self, size: int) -> tuple[Stmt, ...]:
        return tuple(self.stmt(size) for _ in range(self.rng.randrange(1, size + 1)))

    def scoped(self, size: int) -> tuple[Stmt, ...]:
        outer = dict(self.names)
        body = self.block(size)
        self.names = outer
        return body

    def stmt(self, size: int) -> Stmt:
        kind = self.rng.random()
        if kind < 0.25:
            return self.let()
        if kind < 0.6 or size < 2:
            return self.assign()
        if kind < 0.72 and any(self.effects(func) for func in self.helpers):
            return self.do()
        if kind < 0.84:
            otherwise = self.scoped(size // 2) if self.rng.random() < 0.5 else ()
            return If(self.expr(BOOL_T, 3), self.scoped(size // 2), otherwise)
        if self.loops and kind < 0.92:
            leave = self.rng.choice([Break(), Continue()])
            return If(self.expr(BOOL_T, 2), (leave,))
        if kind < 0.96 and self.loops < 2:
            return self.loop(size // 3 or 1)
        return If(self.expr(BOOL_T, 3), (Return(self.root_value(self.result)),))

    def root_value(self, type_: Type | None) -> Expr | None:
        if type_ is None:
            return None
        return self.expr(type_, 3) if isinstance(type_, str) else self.struct_value(type_)

    def fresh(self) -> str:
        self.count += 1
        return f"v.{self.count}"

    def let(self) -> Stmt:
        name, kind = self.fresh(), self.rng.random()
        type_: Type = self.rng.choice(SCALARS)
        value: Expr | None = None
        if kind < 0.7:
            value = self.expr(type_, 3)
        elif kind < 0.8:
            type_ = self.rng.choice([ArrayType(F64_T, 4), ArrayType(I64_T, 8), P, type_])
        else:
            type_ = P
            value = self.struct_value(P)
        self.names[name] = type_
        return Let(name, type_, value)

    def assign(self) -> Stmt:
        if self.rng.random() < 0.15:
            type_ = self.rng.choice([P, P, BIG])
            if targets := self.places(type_, writable=True):
                return Assign(self.rng.choice(targets), self.struct_value(type_))
        type_ = self.rng.choice(SCALARS)
        targets = self.places(type_, writable=True)
        if not targets:
            return self.let()
        return Assign(self.rng.choice(targets), self.expr(type_, 3))

    def do(self) -> Stmt:
        func = self.rng.choice([func for func in self.helpers if self.effects(func)])
        call = self.call(func)
        if call is None:
            return self.assign()
        if func.result is None or self.rng.random() < 0.3:
            return Do(call)
        if func.result == P and "s" in self.names and self.rng.random() < 0.7:
            # The index reads what the call writes: the place is looked up after the call.
            at = Binary("imod", Field(call.args[0], "n"), i64(3))
            return Assign(Elem(Field(Var("s"), "ps"), at), call)
        name = self.fresh()
        self.names[name] = func.result
        return Let(name, func.result, call)

    def loop(self, size: int) -> Stmt:
        outer = dict(self.names)
        self.loops += 1
        if self.rng.random() < 0.7:
            name = self.fresh()
            lo, hi = self.rng.choice([i64(0), i64(-2), self.small()]), self.small()
            self.names[name] = I64_T
            self.fixed.add(name)
            stmt: Stmt = For(name, lo, hi, self.block(size))
        else:
            stmt = While(self.expr(BOOL_T, 2), self.small(), self.block(size))
        self.loops -= 1
        self.names = outer
        return stmt

    def small(self) -> Expr:
        return Binary("imod", self.expr(I64_T, 1), i64(5))

    # ---- expressions --------------------------------------------------------------------

    def effects(self, func: Func) -> bool:
        return any(param.inout for param in func.params)

    def struct_value(self, type_: Type) -> Expr:
        choices: list[Callable[[], Expr | None]] = []
        if self.places(type_):
            choices.append(lambda: self.rng.choice(self.places(type_)))
        if type_ == P:
            fields = (F64_T, I64_T, BOOL_T)
            choices.append(lambda: StructOf(P, tuple(self.expr(field, 2) for field in fields)))
            makers = [func for func in self.helpers if func.result == P]
            if makers:
                choices.append(lambda: self.call(self.rng.choice(makers)))
        value = self.rng.choice(choices)()
        return self.struct_value(type_) if value is None else value

    def expr(self, type_: Type, depth: int) -> Expr:
        kind = self.rng.random()
        if depth == 0 or kind < 0.15:
            return self.leaf(type_)
        if kind < 0.25:
            x, y = self.expr(type_, depth - 1), self.expr(type_, depth - 1)
            return Select(self.expr(BOOL_T, depth - 1), x, y)
        if kind < 0.35 and type_ == F64_T:
            x, y, z = (self.expr(F64_T, depth - 1) for _ in range(3))
            return Fma(x, y, z)
        if kind < 0.5 and type_ == F64_T:
            return self.tempting()
        if kind < 0.4:
            pure = [f for f in self.helpers if f.result == type_ and not self.effects(f)]
            call = self.call(self.rng.choice(pure)) if pure else None
            if call is not None:
                return call
        if kind < 0.6:
            op = self.rng.choice([name for name, op in UNARY.items() if op.result == type_])
            return Unary(op, self.expr(UNARY[op].operand, depth - 1))
        op = self.rng.choice([name for name, op in BINARY.items() if op.result == type_])
        operand = BINARY[op].operand
        return Binary(op, self.expr(operand, depth - 1), self.expr(operand, depth - 1))

    def tempting(self) -> Expr:
        """Float arithmetic that a careless compiler rewrites to something else."""
        x, y, z = (self.leaf(F64_T) for _ in range(3))
        return self.rng.choice(
            [
                Binary("fadd", Binary("fmul", x, y), z),
                Binary("fsub", z, Binary("fmul", x, y)),
                Binary("fadd", Binary("fadd", x, y), z),
                Binary("fmul", Binary("fmul", x, y), z),
                Binary("fadd", x, f64(0.0)),
                Binary("fmul", x, f64(0.0)),
                Binary("fsub", x, x),
                Binary("fdiv", x, f64(3.0)),
                Binary("fmin", x, Unary("fneg", x)),
                Unary("fneg", Binary("fsub", x, y)),
            ]
        )

    def leaf(self, type_: Type) -> Expr:
        places = self.places(type_)
        if places and self.rng.random() < 0.7:
            return self.rng.choice(places)
        if self.rng.random() < 0.15:
            name, count = {F64_T: ("t.f", len(FLOATS)), I64_T: ("t.i", len(INTS))}.get(
                type_, ("t.b", 3)
            )
            return Elem(Table(name), self.index(count))
        if type_ == F64_T:
            return f64(random_float(self.rng))
        return i64(random_int(self.rng)) if type_ == I64_T else Const(BOOL_T, self.rng.randrange(2))

    def index(self, count: int) -> Expr:
        kind = self.rng.random()
        if kind < 0.4:
            return i64(self.rng.randrange(count))
        integers: list[Expr] = [Var(n) for n, t in self.names.items() if t == I64_T]
        integers += [Field(Var(n), "n") for n, t in self.names.items() if t == P]
        integers += [Field(Var("s"), "i")] * ("s" in self.names)
        value = self.rng.choice(integers or [i64(random_int(self.rng))])
        if kind < 0.7 and not count & (count - 1):
            return Binary("iand", value, i64(count - 1))
        return Binary("imod", value, i64(count))

    def places(self, type_: Type, *, writable: bool = False) -> list[Expr]:
        """Some places of this type that are in scope."""
        found: list[Expr] = []
        for name, whole in self.names.items():
            if writable and name in self.fixed:
                continue
            self.inside(Var(name), whole, type_, found)
        return found

    def inside(self, place: Expr, whole: Type, type_: Type, found: list[Expr]) -> None:
        if whole == type_:
            found.append(place)
        elif isinstance(whole, BufferType):
            if whole.elem == type_:
                found.append(Elem(place, self.index(BUFFER_WORDS)))
        elif isinstance(whole, ArrayType) and isinstance(whole.size, int):
            self.inside(Elem(place, self.index(whole.size)), whole.elem, type_, found)
        elif isinstance(whole, StructType):
            for field in next(decl for decl in STRUCTS if decl.name == whole.name).fields:
                bound = bind(field.type, whole.sizes)
                self.inside(Field(place, field.name), bound, type_, found)

    def call(self, func: Func) -> Expr | None:
        """A call with arguments in scope, or None where there are none."""
        size = self.rng.choice([2, 20])
        args: list[Expr] = []
        for param in func.params:
            type_ = bind(param.type, (size,)) if func.sizes else param.type
            if isinstance(type_, str):
                args.append(self.expr(type_, 1))
                continue
            if type_ == ArrayType(F64_T, size):  # the field of another Q or of the same
                wholes = self.places(StructType("Q", (size,)), writable=param.inout)
                places: list[Expr] = [Field(whole, "xs") for whole in wholes]
            else:
                places = self.places(type_, writable=param.inout)
            if not places:
                return None
            args.append(self.rng.choice(places))
        return Call(func.name, tuple(args), (size,) if func.sizes else ())


def bind(type_: Type, sizes: tuple[int, ...]) -> Type:
    """A type with N bound to the first of `sizes`."""
    if isinstance(type_, ArrayType) and type_.size == N:
        return ArrayType(type_.elem, sizes[0])
    if isinstance(type_, StructType) and N in type_.sizes:
        return StructType(type_.name, sizes)
    return type_
