"""The usual turn apart from all others: for targets where calls cost registers and branches time.

Most turns of a lane meet no order, fill or day's end. The entry's loop tries each turn as a usual
one, which makes no call and writes no memory; a turn that turns out to be another is given up, its
words as they were, and done by `slow`, the whole loop as a function of its own, on the state in
memory. The lanes of a warp so stay at one row, and what they read of it is read one turn ahead.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from quantdsl.ir.ops import (
    BOOL_T,
    I64_T,
    Assign,
    Binary,
    Break,
    Call,
    Const,
    Continue,
    Do,
    Elem,
    Expr,
    For,
    Func,
    If,
    Let,
    Module,
    ParamDecl,
    Return,
    Stmt,
    Unary,
    Var,
    While,
    boolean,
    i64,
)
from quantdsl.ir.walk import expressions, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.fold import fold_constants
from quantdsl.passes.places import nodes
from quantdsl.passes.rows import ROW_WORDS, ROWS
from quantdsl.passes.scopes import assigned_names

SLOW = "slow"
FROM, DONE = "from@", "done@"
FLAG_WORD = re.compile(r"flags\.(\d+)@")

DIVISIONS = frozenset({"fdiv", "idiv", "imod"})

Block = tuple[Stmt, ...]
Flag = tuple[int, int]
"""(number of the word of flags in a row, bit)."""


def run_usual(module: Module, entry: str) -> Module:
    """The module with usual turns apart.

    It comes as it is where it has no rows, or where no turn makes a call, or every turn makes one
    or writes memory.
    """
    sizes = dict(module.sizes)
    if ROW_WORDS not in sizes:
        return module
    func = next(func for func in module.funcs if func.name == entry)
    loops = [at for at, stmt in enumerate(func.body) if isinstance(stmt, For)]
    if len(loops) != 1:
        return module
    at = loops[0]
    loop, head, tail = func.body[at], func.body[:at], func.body[at + 1 :]
    assert isinstance(loop, For)
    if _leaves(loop.body) or not any(map(_calls, statements(loop.body))):
        return module
    maker = _Maker(func, head, loop, tail, sizes[ROW_WORDS])
    if any(map(_rare, maker.turn)):
        return module
    funcs: list[Func] = []
    for each in module.funcs:
        funcs += [maker.slow(), maker.entry()] if each is func else [each]
    entries = (*module.entries, SLOW)  # as one that is handed a buffer
    return fold_constants(msgspec.structs.replace(module, funcs=tuple(funcs), entries=entries))


class _Maker:
    """Writes the two functions of one entry: heads load words, turns run, tails store them."""

    def __init__(self, func: Func, head: Block, loop: For, tail: Block, width: int) -> None:
        self.func, self.head, self.loop, self.tail = func, head, loop, tail
        self.words = [let for let in head if isinstance(let, Let)]
        self.count = func.params[2]
        changed = assigned_names((loop,))
        self.changed = [let for let in self.words if let.name in changed]
        self.width = width
        self.usual = dict(_usual(loop.body))
        self.changing = frozenset(assigned_names((loop,)))
        self.turn = self.known(loop.body)
        """A turn with the usual flags."""
        read = (_row_word(node) for node in expressions(self.turn))
        words = {at for at in read if at is not None} | {word for word, _ in self.usual}
        self.read_words = sorted(words)
        changed = assigned_names(_given_up(self.turn, (Break(),), self.changing))
        self.changed = [let for let in self.words if let.name in changed]
        """What a usual turn changes; the memory of all else is up to date."""

    def stores(self, words: Iterable[Let]) -> Block:
        """What of the tail stores these words; the rest of it is of the last row."""
        held = {let.name for let in words}
        return tuple(
            stmt
            for stmt in self.tail
            if isinstance(stmt, Assign) and isinstance(stmt.value, Var) and stmt.value.name in held
        )

    def slow(self) -> Func:
        """The whole loop on the state in memory: slow(s, rows, from@, n, ...)."""
        state, rows, count, *rest = self.func.params
        loop = msgspec.structs.replace(self.loop, lo=Var(FROM))
        body = (*self.head, loop, *self.stores(self.words))
        params = (state, rows, ParamDecl(FROM, I64_T), count, *rest)
        return Func(SLOW, params, None, body, inline=False)

    def entry(self) -> Func:
        """Turns one after the other; a row is read while the turn before it is made."""
        state, rows, count, *rest = self.func.params
        row, following = Var(self.loop.name), Binary("iadd", Var(self.loop.name), i64(1))
        before = tuple(Assign(Var(let.name), Var(_old(let.name))) for let in self.changed)
        hot: Block = (
            If(Unary("not", self.is_usual()), (Break(),)),
            *(Let(_old(let.name), let.type, Var(let.name)) for let in self.changed),
            *_given_up(self.read(self.turn), (*before, Break()), self.changing),
            Assign(Var(DONE), boolean(True)),
        )
        others = (Var(param.name) for param in rest)
        args: tuple[Expr, ...] = (Var(state.name), Var(rows.name), row, following, *others)
        aside: Block = (
            *self.stores(self.changed),
            Do(Call(SLOW, args)),
            *(
                Assign(Var(let.name), let.value)
                for let in self.words
                if let.value is not None and let.name in self.changing
            ),
        )
        turn: Block = (
            *(Let(_here(k), I64_T, Var(_ahead(k))) for k in self.read_words),
            *(Assign(Var(_ahead(k)), self.word(following, k)) for k in self.read_words),
            Let(DONE, BOOL_T, boolean(False)),
            While(boolean(True), i64(1), hot),
            If(Unary("not", Var(DONE)), aside),
        )
        body = (
            *self.head,
            *(Let(_ahead(k), I64_T, self.word(i64(0), k)) for k in self.read_words),
            For(self.loop.name, i64(0), Var(count.name), turn, self.loop.line),
            *self.stores(self.changed),
            *(stmt for stmt in self.tail if stmt not in self.stores(self.words)),
        )
        return msgspec.structs.replace(self.func, body=body)

    def word(self, row: Expr, at: int) -> Expr:
        """A word of a row in memory."""
        return Elem(Var(ROWS), Binary("iadd", Binary("imul", row, i64(self.width)), i64(at)))

    def read(self, body: Block) -> Block:
        """A block that takes the words of its row from where they were read to."""

        def expr(node: Expr) -> Expr:
            at = _row_word(node)
            return rebuild_expr(node, expr) if at is None else Var(_here(at))

        def stmt(node: Stmt) -> Stmt:
            return rebuild_stmt(node, expr, stmt)

        return tuple(map(stmt, body))

    def is_usual(self) -> Expr:
        """Whether the flags of a row are the usual ones."""
        holds: Expr = boolean(True)
        for word in sorted({word for word, _ in self.usual}):
            bits = {bit: on for (at, bit), on in self.usual.items() if at == word}
            wanted = sum(bit for bit, on in bits.items() if on)
            flags = Binary("iand", Var(_here(word)), i64(sum(bits)))
            holds = Binary("and", holds, Binary("ieq", flags, i64(wanted)))
        return holds

    def known(self, body: Block) -> Block:
        """A block with what is usual put in; a branch that it decides gives its own statements."""

        def expr(node: Expr) -> Expr:
            flag = _flag(node)
            if flag is not None and flag in self.usual:
                return boolean(self.usual[flag])
            return rebuild_expr(node, expr)

        made: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, If):
                cond = expr(stmt.cond)
                if isinstance(cond, Const):
                    made += self.known(stmt.then if cond.bits else stmt.otherwise)
                    continue
                then, otherwise = self.known(stmt.then), self.known(stmt.otherwise)
                stmt = If(cond, then, otherwise, stmt.line)
            elif isinstance(stmt, For | While):
                stmt = msgspec.structs.replace(stmt, body=self.known(stmt.body))
            made.append(rebuild_stmt(stmt, expr, lambda inner: inner))
        return tuple(made)


def _given_up(body: Block, leave: Block, changing: frozenset[str]) -> Block:
    """A block that leaves the turn where it would make a call or write memory.

    So it does in a branch that divides where its other side does not: an average that warms up.
    """

    def left(block: Block, other: Block) -> Block:
        if any(map(_rare, block)) or (
            other and _divides(block, changing) and not _divides(other, changing)
        ):
            return leave
        return _given_up(block, leave, changing)

    return tuple(
        If(stmt.cond, left(stmt.then, stmt.otherwise), left(stmt.otherwise, stmt.then), stmt.line)
        if isinstance(stmt, If)
        else stmt
        for stmt in body
    )


def _usual(body: Block) -> Iterator[tuple[Flag, bool]]:
    """What each flag of a row is as a rule: it leads to the larger branch that makes no call."""
    on: Counter[Flag] = Counter()
    for stmt in statements(body):
        if isinstance(stmt, If):
            gain = _weight(stmt.then) - _weight(stmt.otherwise)
            for part, holds in _conjuncts(stmt.cond):
                if (flag := _flag(part)) is not None:
                    on[flag] += gain if holds else -gain
    for flag, gain in on.items():
        yield flag, gain > 0


def _weight(body: Block) -> int:
    if any(map(_calls, body)):
        return 0
    return sum(1 for _ in expressions(body))


def _conjuncts(cond: Expr) -> Iterator[tuple[Expr, bool]]:
    """(condition, what it is) for each condition that must be so for `cond` to hold."""
    if isinstance(cond, Binary) and cond.op == "and":
        yield from _conjuncts(cond.x)
        yield from _conjuncts(cond.y)
    elif isinstance(cond, Unary) and cond.op == "not":
        yield cond.x, False
    else:
        yield cond, True


def _flag(expr: Expr) -> Flag | None:
    """The flag that an expression tests: ine(iand(flags.<word>@, bit), 0)."""
    match expr:
        case Binary("ine", Binary("iand", Var(name), Const(_, bit)), Const(_, 0)):
            word = FLAG_WORD.fullmatch(name)
            return None if word is None else (int(word[1]), bit)
    return None


def _calls(stmt: Stmt) -> bool:
    """Whether a statement is a call; those inside its blocks do not count."""
    return isinstance(stmt, Do) or (isinstance(stmt, Let | Assign) and isinstance(stmt.value, Call))


def _rare(stmt: Stmt) -> bool:
    """Whether a statement, not counting its blocks, is a call or writes memory."""
    return _calls(stmt) or (isinstance(stmt, Assign) and not isinstance(stmt.place, Var))


def _divides(body: Block, changing: frozenset[str]) -> bool:
    """Whether a block divides by or into what changes from turn to turn."""
    return any(
        isinstance(node, Binary)
        and node.op in DIVISIONS
        and any(
            isinstance(part, Elem) or (isinstance(part, Var) and part.name in changing)
            for part in nodes(node)
        )
        for node in expressions(body)
    )


def _leaves(body: Block) -> bool:
    """Whether a turn may end before its end."""
    for stmt in body:
        if isinstance(stmt, Break | Continue | Return):
            return True
        if isinstance(stmt, If) and (_leaves(stmt.then) or _leaves(stmt.otherwise)):
            return True
    return False


def _row_word(expr: Expr) -> int | None:
    """Which word of its row an expression reads: rows[base@] or rows[iadd(base@, k)]."""
    match expr:
        case Elem(Var("rows"), Var("base@")):
            return 0
        case Elem(Var("rows"), Binary("iadd", Var("base@"), Const(_, at))):
            return at
    return None


def _here(word: int) -> str:
    return f"here.{word}@"


def _ahead(word: int) -> str:
    return f"ahead.{word}@"


def _old(name: str) -> str:
    return f"old.{name}"
