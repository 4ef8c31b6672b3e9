"""The usual turn apart from all others: for targets where calls cost registers and branches time.

Most turns of a lane meet no order, fill or day's end. `usual` makes such turns one after the
other, without a call and without writing memory, and stops before the first that is another;
`slow` makes that one, on the state in memory. What the usual turn reads of a row is what `tile`
wrote for a stretch of rows: the words and the sums of words that all lanes read alike, side by
side. So the lanes of a warp go each at their own pace through a tile, and wait for each other only
where one needs `slow`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Set

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    I64_T,
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
from quantdsl.passes.lasting import lasts_to_next
from quantdsl.passes.places import PathSet, nodes, spelled_path
from quantdsl.passes.rows import BASE, OUT, ROW, ROW_WORDS, ROWS
from quantdsl.passes.scopes import assigned_names, promoted, reads_of_names
from quantdsl.passes.tile import SPOT, TILE, TILE_TYPE, always_read, tile_word, word_of_tile
from quantdsl.passes.turn import Turn, now

SLOW, USUAL, LAST = "slow", "usual", "last"
"""The functions: any turns on the state in memory; usual ones; what the end of a run stores."""
TILE_WORDS = "TILE_WORDS"
"""The module's size that says how many words of a tile a row has."""
FROM, TO, FIRST, REACHED = "from@", "to@", "first@", "reached@"
FLAG_WORD = re.compile(r"flags\.(\d+)@")

DIVISIONS = frozenset({"fdiv", "idiv", "imod"})

Block = tuple[Stmt, ...]
Flag = tuple[int, int]
"""(number of the word of flags in a row, bit)."""


def run_usual(module: Module, entry: str, results: Set[str]) -> Module:
    """The module with the functions of usual turns beside the entry, which stays as it is.

    Of the state, `results` and what later turns read is kept. A turn reads what the next one needs:
    a tile has room for one row more than there are turns.

    It comes as it is where it has no rows, or where no turn makes a call, or every turn makes one
    or writes memory.

        tile(rows, row, inout out, at)                       what `usual` reads of a row
        usual(inout s, tile, first, from, to, ...)     -> the row it stopped before, or `to`
        slow(inout s, rows, from, to, ...)
        last(inout s, rows, n)                               after all turns

    `first` is the row that the tile begins with.
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
    layout, state = Layout(module.structs), func.params[0]
    wanted = PathSet((state.name, *spelled_path(layout, state.type, path)) for path in results)
    asked = {name for name, path in promoted(func).items() if wanted.meets(path)}
    maker = _Maker(func, head, loop, tail, sizes[ROW_WORDS], asked)
    if any(map(_rare, maker.known)):
        return module
    usual = maker.usual()
    new = (maker.tile(), maker.slow(), usual, maker.last())
    funcs: list[Func] = []
    for each in module.funcs:
        funcs += [*new, each] if each is func else [each]
    # What is handed a buffer is an entry.
    entries = (*module.entries, *(each.name for each in new))
    sizes[TILE_WORDS] = maker.turn.tile.words()
    return fold_constants(
        msgspec.structs.replace(
            module, funcs=tuple(funcs), entries=entries, sizes=tuple(sorted(sizes.items()))
        )
    )


class _Maker:
    """Writes the functions of one entry: heads load words, turns run, tails store them."""

    def __init__(
        self, func: Func, head: Block, loop: For, tail: Block, width: int, asked: Set[str]
    ) -> None:
        self.func, self.loop, self.tail, self.width = func, loop, tail, width
        self.words = [let for let in head if isinstance(let, Let)]
        self.head = head
        flags = dict(_usual(loop.body))
        self.known = _known(loop.body, flags)
        """A turn with the usual flags."""
        changing = assigned_names((loop,))
        given_up = _given_up(self.known, changing)
        changed = assigned_names(given_up)
        lasting = lasts_to_next(loop.body, changed) | asked
        self.changed = [let for let in self.words if let.name in changed & lasting]
        """What a usual turn changes."""
        self.passing = [let for let in self.words if let.name in changed - lasting]
        """What each turn makes anew before it reads it: nobody asks for what it was."""
        types = {let.name: let.type for let in (*self.changed, *self.passing)}
        self.turn = Turn(_tested(given_up, flags), types, {let.name for let in self.passing})

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

    def last(self) -> Func:
        """What is stored once at the end."""
        stored = self.stores(self.words)
        body = tuple(stmt for stmt in self.tail if stmt not in stored)
        return Func(LAST, self.func.params[:3], None, body)

    def tile(self) -> Func:
        """Writes what usual turns read of one row."""
        params = (
            ParamDecl(ROWS, BufferType(I64_T)),
            ParamDecl(ROW, I64_T),
            ParamDecl(OUT, TILE_TYPE, inout=True),
            ParamDecl(SPOT, I64_T),
        )
        base = Let(BASE, I64_T, Binary("imul", Var(ROW), i64(self.width)))
        return Func(TILE, params, None, (base, *self.turn.tile.writes()))

    def usual(self) -> Func:
        """Usual turns until one is another; words that turns leave equal are held as one."""
        state, _, _, *rest = self.func.params
        same, held = self.turn.same, Var(self.loop.name)
        names = reads_of_names((*map(Return, self.turn.never), *self.turn.body))
        kept = {let.name for let in self.changed}
        head = [let for let in self.words if names[let.name] or let.name in kept]
        carried = [let for let in self.changed if let.name not in same]
        words = self.turn.tile.words()
        spot = Binary("imul", Binary("isub", held, Var(FIRST)), i64(words))
        start = Binary("imul", Binary("isub", Var(FROM), Var(FIRST)), i64(words))
        following = Binary(
            "imul", Binary("isub", Binary("iadd", held, i64(1)), Var(FIRST)), i64(words)
        )
        always = always_read(self.turn.body)
        made = _here(self.turn.body, frozenset(always))
        turn: Block = (
            *(
                Let(now(let.name), let.type, Var(same.get(let.name, let.name)))
                for let in self.changed
            ),
            *(Let(now(let.name), let.type, None) for let in self.passing),
            *(Let(_at("here", k), I64_T, Var(_at("ahead", k))) for k in always),
            *(Assign(Var(_at("ahead", k)), tile_word(following, k)) for k in always),
            *_put(made, SPOT, spot),
            *(Assign(Var(let.name), Var(now(let.name))) for let in carried),
            Assign(Var(REACHED), Binary("iadd", held, i64(1))),
        )
        stores = tuple(
            msgspec.structs.replace(stmt, value=Var(same.get(stmt.value.name, stmt.value.name)))
            for stmt in self.stores(self.changed)
            if isinstance(stmt, Assign) and isinstance(stmt.value, Var)
        )
        able: Block = (
            *(Let(_at("ahead", k), I64_T, tile_word(start, k)) for k in always),
            For(self.loop.name, Var(FROM), Var(TO), turn, self.loop.line),
            If(Binary("igt", Var(REACHED), Var(FROM)), stores),
        )
        for cond in self.turn.never:
            able = (If(Unary("not", cond), able),)
        body = (*head, Let(REACHED, I64_T, Var(FROM)), *able, Return(Var(REACHED)))
        params = (
            state,
            ParamDecl(TILE, TILE_TYPE),
            ParamDecl(FIRST, I64_T),
            ParamDecl(FROM, I64_T),
            ParamDecl(TO, I64_T),
            *rest,
        )
        return Func(USUAL, params, I64_T, body)


def _at(when: str, word: int) -> str:
    return f"{when}.{word}@"


def _here(body: Block, words: frozenset[int]) -> Block:
    """A block that takes some words of its row from locals."""

    def expr(node: Expr) -> Expr:
        at = word_of_tile(node)
        return Var(_at("here", at)) if at is not None and at in words else rebuild_expr(node, expr)

    def stmt(one: Stmt) -> Stmt:
        return rebuild_stmt(one, expr, stmt)

    return tuple(map(stmt, body))


def _put(body: Block, name: str, value: Expr) -> Block:
    """A block with a value in place of a local."""

    def expr(node: Expr) -> Expr:
        return value if node == Var(name) else rebuild_expr(node, expr)

    def stmt(one: Stmt) -> Stmt:
        return rebuild_stmt(one, expr, stmt)

    return tuple(map(stmt, body))


def _tested(body: Block, usual: dict[Flag, bool]) -> Block:
    """A turn that breaks where its row's flags are not the usual ones."""
    body = tuple(stmt for stmt in body if not (isinstance(stmt, Let) and stmt.name == BASE))
    rest = (k for k, stmt in enumerate(body) if not isinstance(stmt, Let))
    at = next(rest, len(body))
    return (*body[:at], If(Unary("not", _is_usual(usual)), (Break(),)), *body[at:])


def _is_usual(usual: dict[Flag, bool]) -> Expr:
    """Whether the flags of a row are the usual ones."""
    holds: Expr = boolean(True)
    for word in sorted({word for word, _ in usual}):
        bits = {bit: on for (at, bit), on in usual.items() if at == word}
        wanted = sum(bit for bit, on in bits.items() if on)
        flags = Binary("iand", Var(f"flags.{word}@"), i64(sum(bits)))
        test = Binary("ieq", flags, i64(wanted))
        holds = test if isinstance(holds, Const) else Binary("and", holds, test)
    return holds


def _known(body: Block, usual: dict[Flag, bool]) -> Block:
    """A block with what is usual put in; a branch that it decides gives its own statements."""

    def expr(node: Expr) -> Expr:
        flag = _flag(node)
        if flag is not None and flag in usual:
            return boolean(usual[flag])
        return rebuild_expr(node, expr)

    made: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, If):
            cond = expr(stmt.cond)
            if isinstance(cond, Const):
                made += _known(stmt.then if cond.bits else stmt.otherwise, usual)
                continue
            stmt = If(cond, _known(stmt.then, usual), _known(stmt.otherwise, usual), stmt.line)
        elif isinstance(stmt, For | While):
            stmt = msgspec.structs.replace(stmt, body=_known(stmt.body, usual))
        made.append(rebuild_stmt(stmt, expr, lambda inner: inner))
    return tuple(made)


def _given_up(body: Block, changing: frozenset[str]) -> Block:
    """A block that breaks where it would make a call or write memory.

    So it does in a branch that divides where its other side does not: an average that warms up.
    """

    def left(block: Block, other: Block) -> Block:
        if any(map(_rare, block)) or (
            other and _divides(block, changing) and not _divides(other, changing)
        ):
            return (Break(),)
        return _given_up(block, changing)

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
    if isinstance(stmt, For | While):
        return any(map(_rare, statements(stmt.body)))
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
