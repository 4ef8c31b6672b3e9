"""What lanes have in common as it was at any moment: made once for all lanes, read when needed.

An order book is the same whatever a lane orders, so the rows' maker (rows.py) builds it alone. What
lanes share of it stands in their rows. A lane that asks for more, the lots ahead of its order, asks
what a word was at that moment: the maker notes each change of a word, and the moment is how many
changes there were before. The host sorts the changes by word (codegen/rows.py), so that a word's
value is found by halving. Functions that lanes call on such memory exist once more for them: with a
place's address for the place, and the moment.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Set

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    I64_T,
    ArrayType,
    Assign,
    Binary,
    Break,
    Call,
    Const,
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
    Return,
    Stmt,
    StructDecl,
    StructType,
    Type,
    Unary,
    Var,
    While,
    as_value,
    as_word,
    boolean,
    i64,
)
from quantdsl.ir.walk import nodes, rebuild_blocks, rebuild_expr, rebuild_stmt
from quantdsl.passes.common import COMMON, COMMON_TYPE
from quantdsl.passes.effects import Analysis
from quantdsl.passes.places import inside, leaves, path_of, type_at
from quantdsl.passes.scopes import local_types
from quantdsl.passes.uniform import START

ROWS_START = "init_rows"
"""What prepares the state that rows are made on; START a lane's, without what is common."""
COUNT, ROOM, LOG = (Field(Var(COMMON), name) for name in ("count@", "room@", "log@"))
"""How many words have changed, how many changes there is room for, and which they were."""
CHANGE, WORD, PAST_TYPE = StructType("Change@"), StructType("Word@"), StructType("Past@")
CHANGES_MAX = 1 << 31
MOMENT, NOTE, ASK = "moment@", "note@", "past@"

Block = tuple[Stmt, ...]


def past_name(name: str) -> str:
    """The name of a function as lanes call it."""
    return f"{name}@past"


def address(name: str) -> str:
    """The parameter that says where what another one names lies in what lanes have in common."""
    return f"at@{name}"


def takes_past(func: Func) -> bool:
    """Whether a function is given what lanes have in common as it was."""
    return any(param.type == PAST_TYPE for param in func.params)


def with_changes(module: Module) -> Module:
    """The module whose common memory has room, at its end, for its own changes."""
    count = FieldDecl(COUNT.name, I64_T), FieldDecl(ROOM.name, I64_T)
    log = FieldDecl(LOG.name, ArrayType(CHANGE, CHANGES_MAX))
    at = next(k for k, one in enumerate(module.structs) if one.name == COMMON_TYPE.name)
    own = module.structs[at]
    change = StructDecl(CHANGE.name, (FieldDecl("at", I64_T), FieldDecl("value", I64_T)))
    word = StructDecl(WORD.name, (FieldDecl("value", I64_T), FieldDecl("start", I64_T)))
    words = Layout(module.structs).words(COMMON_TYPE)
    held = StructDecl(
        PAST_TYPE.name,
        (
            FieldDecl("words", ArrayType(WORD, words + 1)),
            FieldDecl("changes", ArrayType(CHANGE, CHANGES_MAX)),
        ),
    )
    grown = msgspec.structs.replace(own, fields=(*own.fields, *count, log))
    structs = (*module.structs[:at], change, word, held, grown, *module.structs[at + 1 :])
    return msgspec.structs.replace(module, structs=structs)


def with_past(module: Module, rows: Func, lane: Func) -> Module | None:
    """The module with `rows`, which notes what it changes, and with `lane`, which asks for it.

    None where lanes use what is common otherwise than through a call that only reads it. `lane`
    stands for the function of its name; what it calls by `past_name` is made here.
    """
    maker = _Maker(module)
    return None if maker.mixes() else maker.module(rows, lane)


class _Maker:
    """Writes the functions of both sides."""

    def __init__(self, module: Module) -> None:
        self.whole = module
        self.layout = Layout(module.structs)
        self.analysis = Analysis(module)
        self.held = _held(module)
        self.writers = {
            name
            for name, held in self.held.items()
            if any(path[0] in held for path in self.analysis.func(name).writes)
        }

    def mixes(self) -> bool:
        """Whether a function is given what lanes have in common here, and other memory there."""
        funcs = self.analysis.funcs
        return any(
            param.name in self.held[node.func] and (path_of(arg) or ("",))[0] not in held
            for name, held in self.held.items()
            for node in nodes(funcs[name].body)
            if isinstance(node, Call)
            for param, arg in zip(funcs[node.func].params, node.args, strict=True)
        )

    def module(self, rows: Func, lane: Func) -> Module | None:
        named = {(path_of(node) or ("",))[0] for node in nodes(lane.body) if _inside(node)}
        begun = self.asking({past_name(START)})
        asked = self.asking(_called(lane.body))
        late = any(one.leaves_out for one in asked.values())
        early = any(one.asks for one in begun.values())
        if COMMON in named or late or early:
            return None
        own = {name: one.made for name, one in (begun | asked).items()}
        funcs: list[Func] = [_note(), ask_func()]
        for func in self.whole.funcs:
            if func.name == lane.name:
                params = tuple(
                    ParamDecl(COMMON, PAST_TYPE) if param.name == COMMON else param
                    for param in lane.params
                )
                taking = msgspec.structs.replace(lane, params=params)
                funcs += [_Noting(self, rows, {COMMON}).func(), taking]
                continue
            notes = func.name in self.writers
            new = _Noting(self, func, self.held[func.name]).func() if notes else func
            if func.name == START:
                new = msgspec.structs.replace(new, name=ROWS_START)
            funcs += [new, own[func.name]] if func.name in own else [new]
        entries = (*self.whole.entries, ROWS_START, rows.name)
        return msgspec.structs.replace(self.whole, funcs=tuple(funcs), entries=entries)

    def asking(self, names: set[str]) -> "dict[str, _Asking]":
        """The functions of these names in the form of lanes, and what they call in it."""
        found: dict[str, _Asking] = {}
        for func in reversed(self.whole.funcs):  # callers stand after their callees
            if past_name(func.name) in names:
                found[func.name] = _Asking(self, func, self.held[func.name])
                names = names | _called(found[func.name].made.body)
        return found


def _inside(node: Expr) -> bool:
    """Whether an expression is a part of something."""
    return isinstance(node, Field | Elem)


def _called(body: Block) -> set[str]:
    return {node.func for node in nodes(body) if isinstance(node, Call)}


def _held(module: Module) -> dict[str, set[str]]:
    """The parameters of each function that are given memory of what lanes have in common."""
    funcs = {func.name: func for func in module.funcs}
    held: dict[str, set[str]] = {
        func.name: {param.name for param in func.params if param.name == COMMON}
        for func in module.funcs
    }
    for func in reversed(module.funcs):  # callers stand after their callees
        for node in nodes(func.body):
            if isinstance(node, Call):
                for param, arg in zip(funcs[node.func].params, node.args, strict=True):
                    root = (path_of(arg) or ("",))[0]
                    if root in held[func.name] and not isinstance(param.type, str):
                        held[node.func].add(param.name)
    return held


class _Writer(ABC):
    """Rewrites one function, of whose parameters `held` are memory that lanes have in common."""

    def __init__(self, maker: _Maker, func: Func, held: Set[str]) -> None:
        self.maker, self.decl, self.held = maker, func, held
        self.layout = maker.layout
        self.types: dict[str, Type] = {**local_types(func)}
        self.numbers = itertools.count()

    def of_common(self, expr: Expr) -> bool:
        return (path_of(expr) or ("",))[0] in self.held

    def type_of(self, place: Expr) -> Type:
        path = path_of(place) or ()
        return type_at(self.layout, self.types[str(path[0])], path[1:])

    def address(self, place: Expr) -> Expr:
        """Where a place lies in what lanes have in common."""
        if isinstance(place, Var):
            return i64(0) if place.name == COMMON else Var(address(place.name))
        assert isinstance(place, Field | Elem)
        base, owner = self.address(place.base), self.type_of(place.base)
        if isinstance(place, Field):
            assert isinstance(owner, StructType)
            return _sum(base, i64(self.layout.slots(owner.name)[place.name].offset_words))
        assert isinstance(owner, ArrayType)
        step = self.layout.words(owner.elem)
        return _sum(base, _times(place.index, step))

    def block(self, body: Block) -> Block:
        return tuple(itertools.chain.from_iterable(map(self.stmt, body)))

    @abstractmethod
    def stmt(self, stmt: Stmt) -> Iterator[Stmt]:
        """The statements that stand for one."""

    def inner(self, stmt: Stmt) -> Stmt:
        """A statement with its blocks rewritten."""
        return rebuild_blocks(stmt, self.block)

    def name(self) -> str:
        return f"word.{next(self.numbers)}@"


class _Noting(_Writer):
    """A function that notes each word that it changes."""

    def func(self) -> Func:
        params = (*self.decl.params, *(ParamDecl(name, I64_T) for name in self.addresses()))
        if COMMON not in self.held:
            params += (ParamDecl(COMMON, COMMON_TYPE, inout=True),)
        return msgspec.structs.replace(self.decl, params=params, body=self.block(self.decl.body))

    def addresses(self) -> list[str]:
        return [address(p.name) for p in self.decl.params if p.name in self.held - {COMMON}]

    def stmt(self, stmt: Stmt) -> Iterator[Stmt]:
        stmt = rebuild_stmt(self.inner(stmt), self.expr, lambda one: one)
        if not isinstance(stmt, Assign) or not self.of_common(stmt.place):
            yield stmt
            return
        type_, name = self.type_of(stmt.place), self.name()
        yield Let(name, type_, stmt.value, stmt.line)
        for path, leaf in leaves(self.layout, type_):
            place, value = inside(stmt.place, path), inside(Var(name), path)
            words = (self.address(place), as_word(place, leaf), as_word(value, leaf))
            yield Do(Call(NOTE, (Var(COMMON), *words)))
        yield Assign(stmt.place, Var(name), stmt.line)

    def expr(self, expr: Expr) -> Expr:
        if not isinstance(expr, Call) or expr.func not in self.maker.writers:
            return expr
        callee = self.maker.analysis.funcs[expr.func]
        held = self.maker.held[expr.func]
        given = zip(callee.params, expr.args, strict=True)
        more = tuple(self.address(a) for p, a in given if p.name in held - {COMMON})
        more += () if COMMON in held else (Var(COMMON),)
        return Call(expr.func, (*expr.args, *more))


class _Asking(_Writer):
    """A function as lanes call it: it asks for words at a moment, and leaves out what it writes."""

    def __init__(self, maker: _Maker, func: Func, held: Set[str]) -> None:
        super().__init__(maker, func, held)
        self.asks = self.leaves_out = False
        self.made = self.func()

    def func(self) -> Func:
        params = tuple(map(self.param, self.decl.params))
        if COMMON not in self.held:
            params += (ParamDecl(COMMON, PAST_TYPE),)
        starts = self.decl.name == START
        params += () if starts else (ParamDecl(MOMENT, I64_T),)
        body = self.block(self.decl.body)
        name = START if starts else past_name(self.decl.name)
        return msgspec.structs.replace(self.decl, name=name, params=params, body=body, wide=False)

    def param(self, param: ParamDecl) -> ParamDecl:
        if param.name == COMMON:
            return ParamDecl(COMMON, PAST_TYPE)
        return ParamDecl(address(param.name), I64_T) if param.name in self.held else param

    def stmt(self, stmt: Stmt) -> Iterator[Stmt]:
        if self.only_writes(stmt):
            self.leaves_out = True
            return
        made: list[Stmt] = []
        if isinstance(stmt, While):
            cond = self.expr(stmt.cond, made)
            if made:
                head = (*made, If(Unary("not", cond), (Break(),)))
                made = []
                yield While(
                    boolean(True), self.expr(stmt.max, made), (*head, *self.block(stmt.body))
                )
                return
        if isinstance(stmt, Let | Assign) and stmt.value is not None and self.copies(stmt.value):
            yield from self.copied(stmt)
            return
        new = rebuild_stmt(self.inner(stmt), lambda one: self.expr(one, made), lambda one: one)
        yield from (*made, new)

    def only_writes(self, stmt: Stmt) -> bool:
        """Whether a statement changes what lanes have in common, and nothing else."""
        if isinstance(stmt, If | For | While):
            return False
        written = self.maker.analysis.stmt(stmt).writes
        return bool(written) and all(path[0] in self.held for path in written)

    def copies(self, value: Expr) -> bool:
        return self.of_common(value) and isinstance(self.type_of(value), StructType)

    def copied(self, stmt: Let | Assign) -> Iterator[Stmt]:
        """A struct, word by word."""
        assert stmt.value is not None
        place = Var(stmt.name) if isinstance(stmt, Let) else stmt.place
        if isinstance(stmt, Let):
            yield Let(stmt.name, stmt.type, None, stmt.line)
        for path, _ in leaves(self.layout, self.type_of(stmt.value)):
            made: list[Stmt] = []
            value = self.expr(inside(stmt.value, path), made)
            yield from (*made, Assign(inside(place, path), value))

    def expr(self, expr: Expr, made: list[Stmt]) -> Expr:
        """An expression; what it asks for is known before."""
        if isinstance(expr, Call):
            return self.call(expr, made)
        if self.of_common(expr):
            type_ = self.type_of(expr)
            assert isinstance(type_, str)
            self.asks = True
            at = self.expr(self.address(expr), made)
            name = self.name()
            made.append(Let(name, I64_T, Call(ASK, (Var(COMMON), at, Var(MOMENT)))))
            return as_value(Var(name), type_)
        return rebuild_expr(expr, lambda one: self.expr(one, made))

    def call(self, call: Call, made: list[Stmt]) -> Expr:
        held = self.maker.held[call.func]
        params = self.maker.analysis.funcs[call.func].params
        args: list[Expr] = []
        for param, arg in zip(params, call.args, strict=True):
            if param.name in held - {COMMON}:
                arg = self.address(arg)
            args.append(arg if param.name == COMMON else self.expr(arg, made))
        if not held:
            return Call(call.func, tuple(args))
        args += () if COMMON in held else (Var(COMMON),)
        moment = i64(0) if self.decl.name == START else Var(MOMENT)
        return Call(past_name(call.func), (*args, moment))


def _note() -> Func:
    """note@(inout common@, at, was, is): a word that changes is one change more."""
    at, was, now = map(Var, ("at", "was", "now"))
    entry = Elem(LOG, COUNT)
    kept = (Assign(Field(entry, "at"), at), Assign(Field(entry, "value"), now))
    changed: Block = (
        If(Binary("ilt", COUNT, ROOM), kept),
        Assign(COUNT, _sum(COUNT, i64(1))),
    )
    params = tuple(ParamDecl(name, I64_T) for name in ("at", "was", "now"))
    body = (If(Binary("ine", was, now), changed),)
    return Func(NOTE, (ParamDecl(COMMON, COMMON_TYPE, inout=True), *params), None, body)


def ask_func() -> Func:
    """past@(common@, at, moment@) -> what a word was after the first `moment@` changes of all."""
    at, lo, hi, middle, first = map(Var, ("at", "lo", "hi", "middle", "first"))
    held = Var(COMMON)
    words, changes = Field(held, "words"), Field(held, "changes")
    earlier = Binary("ilt", Field(Elem(changes, middle), "at"), Var(MOMENT))
    body: Block = (
        Let(first.name, I64_T, Field(Elem(words, at), "start")),
        Let(lo.name, I64_T, first),
        Let(hi.name, I64_T, Field(Elem(words, _sum(at, i64(1))), "start")),
        While(
            Binary("ilt", lo, hi),
            i64(64),
            (
                Let(middle.name, I64_T, Binary("lshr", _sum(lo, hi), i64(1))),
                If(
                    earlier,
                    (Assign(lo, _sum(middle, i64(1))),),
                    (Assign(hi, middle),),
                ),
            ),
        ),
        If(Binary("ieq", lo, first), (Return(Field(Elem(words, at), "value")),)),
        Return(Field(Elem(changes, Binary("isub", lo, i64(1))), "value")),
    )
    params = (ParamDecl(COMMON, PAST_TYPE), ParamDecl("at", I64_T), ParamDecl(MOMENT, I64_T))
    return Func(ASK, params, I64_T, body, inline=False)


def _sum(x: Expr, y: Expr) -> Expr:
    if isinstance(x, Const) and isinstance(y, Const):
        return i64(x.bits + y.bits)
    return x if y == i64(0) else y if x == i64(0) else Binary("iadd", x, y)


def _times(x: Expr, number: int) -> Expr:
    if isinstance(x, Const):
        return i64(x.bits * number)
    return x if number == 1 else Binary("imul", x, i64(number))
