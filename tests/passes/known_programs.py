"""Random programs of few values: what they ever store, compare and pass is worth knowing."""

import random

from quantdsl.ir.link import link
from quantdsl.ir.ops import (
    ArrayType,
    Assign,
    Binary,
    Break,
    Call,
    Do,
    Elem,
    Expr,
    Field,
    FieldDecl,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Place,
    Return,
    Select,
    Stmt,
    StructDecl,
    StructOf,
    StructType,
    Unary,
    Var,
    While,
    f64,
    i64,
)

PAIR, S = StructType("P"), StructType("S")
WORDS = tuple(f"w{k}" for k in range(6))
STRUCTS = (
    StructDecl("P", (FieldDecl("a", "i64"), FieldDecl("b", "i64"), FieldDecl("x", "f64"))),
    StructDecl("S", (
        *(FieldDecl(name, "i64") for name in WORDS),
        FieldDecl("on", "bool"),
        FieldDecl("p", PAIR),
        FieldDecl("ps", ArrayType(PAIR, 2)),
        FieldDecl("row", ArrayType("i64", 3)),
        FieldDecl("line", ArrayType("i64", 3)),
    )),
)  # fmt: skip


class Writer:
    """Writes one function; `helpers` may be called."""

    def __init__(self, rng: random.Random, helpers: list[Func], base: Place, of: StructType):
        self.rng, self.helpers, self.base, self.of = rng, helpers, base, of
        self.locals = ["n"]
        self.changing: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"l{self.count}"

    def pair(self) -> Place:
        if self.of == PAIR:
            return self.base
        index = self.rng.choice([i64(0), i64(1), Binary("iand", self.whole(0), i64(1))])
        return self.rng.choice([Field(self.base, "p"), Elem(Field(self.base, "ps"), index)])

    def word(self) -> Place:
        if self.of == PAIR or self.rng.random() < 0.4:
            return Field(self.pair(), self.rng.choice("ab"))
        if self.rng.random() < 0.2:
            index = self.rng.choice([i64(self.rng.randrange(3)), i64(0)])
            return Elem(Field(self.base, self.rng.choice(("row", "line"))), index)
        return Field(self.base, self.rng.choice(WORDS))

    def whole(self, depth: int = 2) -> Expr:
        roll = self.rng.random()
        if roll < 0.3 or depth <= 0:
            return i64(self.rng.choice([0, 0, 1, 2, 7]))
        if roll < 0.6:
            return self.word()
        if roll < 0.7:
            return Var(self.rng.choice(self.locals))
        if roll < 0.8:
            return Select(self.truth(depth - 1), self.whole(depth - 1), self.whole(depth - 1))
        pure = [h for h in self.helpers if h.result == "i64" and not h.params[0].inout]
        if roll < 0.9 and pure:
            return self.call(self.rng.choice(pure), depth - 1)
        op = self.rng.choice(("iadd", "imul", "imin", "imax", "iand"))
        return Binary(op, self.whole(depth - 1), self.whole(depth - 1))

    def truth(self, depth: int = 2) -> Expr:
        roll = self.rng.random()
        if roll < 0.1 and self.of == S:
            return Field(self.base, "on")
        if roll < 0.2 and depth > 0:
            op = self.rng.choice(("and", "or"))
            return Binary(op, self.truth(depth - 1), self.truth(depth - 1))
        if roll < 0.3:
            return Binary("feq", Field(self.pair(), "x"), f64(self.rng.choice([0.0, 1.5])))
        if roll < 0.4 and depth > 0:
            return Unary("not", self.truth(depth - 1))
        op = self.rng.choice(("ieq", "ieq", "ine", "ilt", "ige"))
        return Binary(op, self.whole(depth - 1), i64(self.rng.choice([0, 1, 2, 7])))

    def call(self, helper: Func, depth: int = 1) -> Call:
        args: list[Expr] = [self.base if helper.params[0].type == S else self.pair()]
        for param in helper.params[1:]:
            if param.type == "i64":
                args.append(self.whole(depth))
            else:
                args.append(Field(self.base, self.rng.choice(("row", "line"))))
        return Call(helper.name, tuple(args))

    def block(self, size: int, depth: int = 2, *, loop: bool = False) -> tuple[Stmt, ...]:
        known, open_ = len(self.locals), len(self.changing)
        body = [self.stmt(depth, loop=loop) for _ in range(self.rng.randint(1, size))]
        del self.locals[known:], self.changing[open_:]
        return tuple(body)

    def stmt(self, depth: int, *, loop: bool) -> Stmt:
        roll = self.rng.random()
        usable = [h for h in self.helpers if self.of == S or h.params[0].type == PAIR]
        if roll < 0.25 and depth:
            body = self.block(3, depth - 1, loop=loop)
            other = self.block(2, depth - 1, loop=loop) if self.rng.random() < 0.5 else ()
            if self.rng.random() < 0.15:
                body = (*body, Break() if loop else Return(i64(self.rng.choice([0, 3]))))
            return If(self.truth(), body, other)
        if roll < 0.3 and depth:
            name = self.name()
            self.locals.append(name)
            inner = self.block(3, depth - 1, loop=True)
            self.locals.remove(name)
            return For(name, i64(self.rng.choice([0, 1])), i64(self.rng.choice([0, 1, 3])), inner)
        if roll < 0.33 and depth:
            return While(self.truth(), i64(3), self.block(3, depth - 1, loop=True))
        if roll < 0.45:
            name, value = self.name(), self.whole()
            if usable and self.rng.random() < 0.4:
                value = self.call(self.rng.choice(usable))
            self.locals.append(name)
            self.changing.append(name)
            return Let(name, "i64", value)
        if roll < 0.6 and usable:
            return Do(self.call(self.rng.choice(usable)))
        if roll < 0.65 and self.changing:
            return Assign(Var(self.rng.choice(self.changing)), self.whole())
        if roll < 0.75:
            values = (self.whole(1), self.whole(1), f64(self.rng.choice([0.0, 0.0, 1.5])))
            value = self.pair() if self.rng.random() < 0.3 else StructOf(PAIR, values)
            return Assign(self.pair(), value)
        if roll < 0.8 and self.of == S:
            return Assign(Field(self.base, "on"), self.truth(1))
        return Assign(self.word(), self.whole(1))


def few_values(seed: int) -> Module:
    """Two entries over a state, and helpers that they call."""
    rng = random.Random(seed)
    helpers: list[Func] = []
    array = ParamDecl("r", ArrayType("i64", 3), inout=True)
    moved = (Assign(Elem(Var("r"), i64(1)), Var("n")), Return(Elem(Var("r"), i64(2))))
    whole = ParamDecl("n", "i64")
    for number in range(6):
        of, inout = rng.choice([(S, True), (PAIR, True), (PAIR, False)])
        writer = Writer(rng, helpers, Var("q"), of)
        body = writer.block(5) if inout else ()
        params = (ParamDecl("q", of, inout=inout), whole)
        func = Func(f"h{number}", params, "i64", (*body, Return(writer.whole())))
        if rng.random() < 0.2:
            params = (ParamDecl("q", S, inout=True), whole, array)
            func = Func(f"h{number}", params, "i64", moved)
        helpers = [*helpers, func]
    entries = []
    for number in range(2):
        writer = Writer(rng, helpers, Var("s"), S)
        params = (ParamDecl("s", S, inout=True), whole)
        body = (*writer.block(8), Return(writer.whole()))
        entries.append(Func(f"e{number}", params, "i64", body))
    decls = {decl.name: decl for decl in (*STRUCTS, *helpers, *entries)}
    return link(decls.get, [func.name for func in entries], {})
