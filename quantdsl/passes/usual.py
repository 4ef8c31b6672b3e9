"""The usual turn apart from all others: for targets where calls cost registers and branches time.

Most turns of a lane meet no order, fill or day's end. `usual` makes such turns one after the
other, without a call and without writing memory, and stops before the first that is another;
`slow` makes that one, on the state in memory. What the usual turn reads of a row is what `tile`
wrote for a stretch of rows: the words and the sums of words that all lanes read alike, side by
side. So the lanes of a warp go each at their own pace through a tile, and wait for each other only
where one needs `slow`.
"""

import functools
from collections.abc import Iterable, Set

import msgspec

from quantdsl.ir.layout import Layout
from quantdsl.ir.ops import (
    BOOL_T,
    I64_T,
    Assign,
    Binary,
    Break,
    BufferType,
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
from quantdsl.passes.flags import Flag, calls, ends_early, flags_hold, usual_flags, with_flags
from quantdsl.passes.fold import fold_constants
from quantdsl.passes.lasting import lasts_to_next
from quantdsl.passes.places import PathSet, nodes, path_of, spelled_path
from quantdsl.passes.rows import BASE, OUT, ROW, ROW_WORDS, ROWS
from quantdsl.passes.scopes import assigned_names, promoted, reads_of_names
from quantdsl.passes.straight import either
from quantdsl.passes.stride import GROUP, RUN, STEP, STOPS, STRIDE, STRIDE_BITS, Stride
from quantdsl.passes.tile import SPOT, TILE, TILE_TYPE, always_read, tile_word, word_of_tile
from quantdsl.passes.turn import Turn, now

SLOW, USUAL, LAST, GATHER = "slow", "usual", "last", "gather"
"""The functions: any turns on the state in memory; usual ones; what the end of a run stores; what
the tile holds of strides."""
TILE_WORDS, STRIDE_WORDS = "TILE_WORDS", "STRIDE_WORDS"
"""The module's sizes that say how many words of a tile a row has, and a stride of rows besides."""
FROM, TO, FIRST, REACHED = "from@", "to@", "first@", "reached@"
PASS, BEGAN, HALT, NUMBER, STRIDES = "pass@", "began@", "halt@", "number@", "strides@"
STRODE, STOPPED = "strode@", "stopped@"

DIVISIONS = frozenset({"fdiv", "idiv", "imod"})

Block = tuple[Stmt, ...]


def run_usual(module: Module, entry: str, results: Set[str]) -> Module:
    """The module with the functions of usual turns beside the entry, which stays as it is.

    Of the state, `results` and what later turns read is kept. A turn reads what the next one needs:
    a tile has room for one row more than there are turns.

    It comes as it is where it has no rows, or where no turn makes a call, or every turn makes one
    or writes memory. STRIDE_WORDS is a size of it, and `gather` a function, where there are strides
    of turns (stride.py).

        tile(rows, row, inout out, at)                       what `usual` reads of a row
        gather(inout tile, began, number, strides)           and of stride `number` of the tile
        usual(inout s, tile, strides, first, from, to, ...)  -> the row it stopped before, or `to`
        slow(inout s, rows, from, to, end, ...)  -> the row it stopped before: `to` or one behind
        last(inout s, rows, n)                               after all turns

    `first` is the row that the tile begins with, at the word `began`, `strides` where words of
    strides do.
    """
    maker = usual_turns(module, entry, results)
    if maker is None:
        return module
    func, sizes = maker.func, dict(module.sizes)
    usual = maker.usual()
    gather = () if maker.turn.stride is None else (maker.gather(maker.turn.stride),)
    new = (maker.tile(), *gather, maker.slow(), usual, maker.last())
    funcs: list[Func] = []
    for each in module.funcs:
        funcs += [*new, each] if each is func else [each]
    # What is handed a buffer is an entry.
    entries = (*module.entries, *(each.name for each in new))
    sizes[TILE_WORDS] = maker.turn.tile.words()
    if maker.turn.stride is not None:
        sizes[STRIDE_WORDS] = len(maker.turn.stride.held)
    return fold_constants(
        msgspec.structs.replace(
            module, funcs=tuple(funcs), entries=entries, sizes=tuple(sorted(sizes.items()))
        )
    )


def usual_turns(module: Module, entry: str, results: Set[str] | None) -> "UsualTurns | None":
    """The usual turns of an entry over rows; None where it has no rows, or they would be no use.

    They leave what later turns read and `results`, or all words where those are None.
    """
    sizes = dict(module.sizes)
    if ROW_WORDS not in sizes:
        return None
    func = next(func for func in module.funcs if func.name == entry)
    loops = [at for at, stmt in enumerate(func.body) if isinstance(stmt, For)]
    if len(loops) != 1:
        return None
    at = loops[0]
    loop, head, tail = func.body[at], func.body[:at], func.body[at + 1 :]
    assert isinstance(loop, For)
    if ends_early(loop.body) or not any(map(calls, statements(loop.body))):
        return None
    words, state = promoted(func), func.params[0]
    if results is not None:
        spelled = (spelled_path(Layout(module.structs), state.type, path) for path in results)
        wanted = PathSet((state.name, *path) for path in spelled)
        words = {name: path for name, path in words.items() if wanted.meets(path)}
    turns = UsualTurns(func, head, loop, tail, sizes[ROW_WORDS], words.keys())
    return None if any(map(_rare, turns.known)) else turns


class UsualTurns:
    """Writes the functions of one entry: heads load words, turns run, tails store them."""

    def __init__(
        self, func: Func, head: Block, loop: For, tail: Block, width: int, asked: Set[str]
    ) -> None:
        self.func, self.loop, self.tail, self.width = func, loop, tail, width
        self.words = [let for let in head if isinstance(let, Let)]
        self.head = head
        flags = dict(usual_flags(loop.body))
        self.known = with_flags(loop.body, flags)
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
        """The whole loop on the state in memory: slow(s, rows, from@, to@, n, ...).

        Such turns come one at a time, so what one does not need is neither loaded nor stored. With
        strides they go on beyond `to` as long as it is certain that the next turn is no usual one.
        """
        state, rows, count, *rest = self.func.params
        reached = _plus(Var(self.loop.name), 1)
        goes_on: Expr = Binary("ilt", reached, Var(TO))
        if self.turn.stride is not None:
            # What no turn changes need not be asked after each: `usual` sees it at once.
            changing = assigned_names((self.loop,))
            never = (c for c in self.turn.never if changing & reads_of_names((Return(c),)).keys())
            goes_on = either((goes_on, *never))
        end: Block = (Assign(Var(REACHED), reached), If(Unary("not", goes_on), (Break(),)))
        loop = msgspec.structs.replace(self.loop, lo=Var(FROM), body=(*self.loop.body, *end))
        places = {let.name: let.value for let in self.words if let.value and path_of(let.value)}
        head = tuple(s for s in self.head if not (isinstance(s, Let) and s.name in places))
        start = Let(REACHED, I64_T, Var(FROM))
        body = in_memory((*head, start, loop, Return(Var(REACHED))), places)
        params = (state, rows, ParamDecl(FROM, I64_T), ParamDecl(TO, I64_T), count, *rest)
        return Func(SLOW, params, I64_T, body, inline=False)

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

    def gather(self, stride: Stride) -> Func:
        """Writes what a stride of usual turns reads of its rows together."""
        words, held = self.turn.tile.words(), stride.held
        read = self.turn.gathered
        first = Binary("iadd", Var(BEGAN), Binary("imul", Var(FROM), i64(words)))
        spot = Binary("iadd", first, Binary("imul", Var(ROW), i64(words)))
        put = Binary("iadd", Var(STRIDES), Binary("imul", Var(NUMBER), i64(len(held))))
        body: Block = (
            Let(FROM, I64_T, Binary("imul", Var(NUMBER), i64(STRIDE))),
            *(
                Let(_at("most", k), I64_T, _placed(read[key], SPOT, first))
                for key, k in held.items()
            ),
            For(
                ROW,
                i64(1),
                i64(STRIDE),
                tuple(
                    Assign(
                        Var(_at("most", k)),
                        Binary(key.op, Var(_at("most", k)), _placed(read[key], SPOT, spot)),
                    )
                    for key, k in held.items()
                ),
            ),
            *(
                Assign(
                    Elem(Var(TILE), Binary("iadd", put, i64(k))),
                    bits_of(Var(_at("most", k))) if key.real else Var(_at("most", k)),
                )
                for key, k in held.items()
            ),
        )
        params = (
            ParamDecl(TILE, TILE_TYPE, inout=True),
            ParamDecl(BEGAN, I64_T),
            ParamDecl(NUMBER, I64_T),
            ParamDecl(STRIDES, I64_T),
        )
        return Func(GATHER, params, None, body)

    def usual(self) -> Func:
        """Usual turns until one is another; words that turns leave equal are held as one.

        They are made in strides where a stride begins and has no row that stops it.
        """
        state, _, _, *rest = self.func.params
        same = self.turn.same
        stride = self.turn.stride
        names = reads_of_names((*map(Return, self.turn.never), *self.turn.body))
        if stride is not None:
            done = (*stride.after, *self.turn.by_row)
            asked = (*map(Return, stride.tests), *stride.before, *done, *self.turn.strode)
            changed = stride.changed()
            read = reads_of_names(asked)
            names.update({name: read[name] for name in read if name not in changed})
        kept = {let.name for let in self.changed}
        head = [let for let in self.words if names[let.name] or let.name in kept]
        stores = tuple(
            msgspec.structs.replace(stmt, value=Var(same.get(stmt.value.name, stmt.value.name)))
            for stmt in self.stores(self.changed)
            if isinstance(stmt, Assign) and isinstance(stmt.value, Var)
        )
        able: Block = (*self.turns(), If(Binary("igt", Var(REACHED), Var(FROM)), stores))
        for cond in self.turn.never:
            able = (If(Unary("not", cond), able),)
        body = (*head, Let(REACHED, I64_T, Var(FROM)), *able, Return(Var(REACHED)))
        params = (
            state,
            ParamDecl(TILE, TILE_TYPE),
            ParamDecl(STRIDES, I64_T),
            ParamDecl(FIRST, I64_T),
            ParamDecl(FROM, I64_T),
            ParamDecl(TO, I64_T),
            *rest,
        )
        return Func(USUAL, params, I64_T, body)

    def spot(self, row: Expr) -> Expr:
        """Where the tile holds a row."""
        words = self.turn.tile.words()
        return Binary("imul", Binary("isub", row, Var(FIRST)), i64(words))

    def turns(self) -> Block:
        """Usual turns from REACHED on: by strides, and one by one to the end of one that fails."""
        stride = self.turn.stride
        if stride is None:
            return (Let(HALT, I64_T, Var(TO)), *self.single())
        inside = Binary("isub", Var(REACHED), Var(FIRST))
        next_stride = Binary("iand", _plus(inside, STRIDE), i64(-STRIDE))
        halt = Binary("imin", Var(TO), Binary("iadd", Var(FIRST), next_stride))
        short, end = Binary("ilt", Var(REACHED), Var(HALT)), Binary("ige", Var(REACHED), Var(TO))
        stops = If(Binary("or", short, end), (Break(),))
        one: Block = (*self.strides(stride), Let(HALT, I64_T, halt), *self.single(), stops)
        return (For(PASS, Var(FROM), Var(TO), one, self.loop.line),)

    def strides(self, stride: Stride) -> Block:
        """As many strides as there are without a row that stops them, and turns up to such a row.

        Where turns do not begin with a stride, or one of it stops, they are made one by one: what
        the stride was asked holds for each of its turns.
        """
        inside = Binary("isub", Var(REACHED), Var(FIRST))
        last = Binary("lshr", Binary("isub", Var(TO), Var(FIRST)), i64(STRIDE_BITS))
        group = Binary("imul", Var(NUMBER), i64(len(stride.held)))
        words = self.turn.tile.words()
        begin = Binary("iadd", Var(FIRST), Binary("shl", Var(NUMBER), i64(STRIDE_BITS)))
        end = _plus(begin, STRIDE)
        turns = stride.copies(
            self.turn.strode, lambda k: _plus(Var(SPOT), k * words), lambda k: _plus(begin, k)
        )
        together: Block = (
            Let(SPOT, I64_T, Binary("imul", Var(NUMBER), i64(STRIDE * words))),
            *self.begun(stride, RUN),
            *turns,
            If(
                Unary("not", Var(STOPS)),
                (*stride.after, *self.ended(stride, RUN), Assign(Var(REACHED), end)),
            ),
        )
        one: Block = (
            Let(GROUP, I64_T, Binary("iadd", Var(STRIDES), group)),
            Let(STOPS, BOOL_T, either(stride.tests)),
            If(Var(STOPS), (Break(),)),  # what such a row holds is not to be computed with
            If(Binary("ieq", Var(REACHED), begin), together),
            For(STRODE, Var(REACHED), end, self.step(stride), self.loop.line),
            If(Binary("ilt", Var(REACHED), end), (Break(),)),
        )
        price = self.turn.price
        row = self.spot(_plus(Var(REACHED), -1))
        finish = stride.finish(_placed(price, SPOT, row)) if price is not None else ()
        strides = For(NUMBER, Binary("lshr", inside, i64(STRIDE_BITS)), last, one)
        done = If(Binary("igt", Var(REACHED), Var(BEGAN)), finish)
        able: Block = (strides, done) if finish else (strides,)
        return (
            Let(BEGAN, I64_T, Var(REACHED)),
            *stride.before,
            *((If(_all_of(stride.ready), able),) if stride.ready else able),
        )

    def begun(self, stride: Stride, way: str) -> Block:
        """The copies of words that turns of a stride are made on."""
        same, passing = self.turn.same, {let.name for let in self.passing}
        return tuple(
            Let(
                way + let.name,
                let.type,
                None if let.name in passing else Var(same.get(let.name, let.name)),
            )
            for let in (*self.changed, *self.passing)
            if let.name in stride.changed()
        )

    def ended(self, stride: Stride, way: str) -> Block:
        """What such turns leave."""
        return tuple(
            Assign(Var(let.name), Var(way + let.name))
            for let in self.changed
            if let.name in stride.changed() and let.name not in self.turn.same
        )

    def step(self, stride: Stride) -> Block:
        """One turn of a stride by itself, that of row STRODE; it breaks where it may be unusual."""
        row = Var(STRODE)
        return (
            Let(STOPPED, BOOL_T, boolean(False)),
            *self.begun(stride, STEP),
            *_put(
                tuple(stride.copy(self.turn.strode, STEP, ".step", self.spot(row), row)),
                STOPS,
                Var(STOPPED),
            ),
            If(Var(STOPPED), (Break(),)),
            *_put(self.turn.by_row, SPOT, self.spot(row)),
            *self.ended(stride, STEP),
            Assign(Var(REACHED), _plus(row, 1)),
        )

    def single(self) -> Block:
        """Turns one by one, from REACHED to HALT."""
        same, held = self.turn.same, Var(self.loop.name)
        carried = [let for let in self.changed if let.name not in same]
        always = always_read(self.turn.body)
        made = _here(self.turn.body, frozenset(always))
        turn: Block = (
            *(
                Let(now(let.name), let.type, Var(same.get(let.name, let.name)))
                for let in self.changed
            ),
            *(Let(now(let.name), let.type, None) for let in self.passing),
            *(Let(_at("here", k), I64_T, Var(_at("ahead", k))) for k in always),
            *(
                Assign(Var(_at("ahead", k)), tile_word(self.spot(_plus(held, 1)), k))
                for k in always
            ),
            *_put(made, SPOT, self.spot(held)),
            *(Assign(Var(let.name), Var(now(let.name))) for let in carried),
            Assign(Var(REACHED), _plus(held, 1)),
        )
        return (
            *(Let(_at("ahead", k), I64_T, tile_word(self.spot(Var(REACHED)), k)) for k in always),
            For(self.loop.name, Var(REACHED), Var(HALT), turn, self.loop.line),
        )


def in_memory(body: Block, places: dict[str, Expr]) -> Block:
    """A block on the words of the state themselves in place of the locals that hold them."""

    def expr(node: Expr) -> Expr:
        if isinstance(node, Var):
            return places.get(node.name, node)
        return rebuild_expr(node, expr)

    def stmt(one: Stmt) -> Block:
        if isinstance(one, If):
            then, otherwise = block(one.then), block(one.otherwise)
            return (If(expr(one.cond), then, otherwise, one.line),)
        if isinstance(one, For | While):
            one = msgspec.structs.replace(one, body=block(one.body))
        new = rebuild_stmt(one, expr, lambda inner: inner)
        same = isinstance(new, Assign) and new.place == new.value
        return () if same else (new,)

    def block(stmts: Block) -> Block:
        return tuple(made for one in stmts for made in stmt(one))

    return block(body)


def bits_of(value: Expr) -> Expr:
    return Unary("bits", Unary("i64_to_f64", value))


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


def _all_of(conds: Iterable[Expr]) -> Expr:
    first, *rest = conds
    return functools.reduce(lambda x, y: Binary("and", x, y), rest, first)


def _plus(value: Expr, number: int) -> Expr:
    return Binary("iadd", value, i64(number)) if number else value


def _placed(node: Expr, name: str, value: Expr) -> Expr:
    """An expression with a value in place of a local."""
    if node == Var(name):
        return value
    return rebuild_expr(node, lambda inner: _placed(inner, name, value))


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
    return (*body[:at], If(Unary("not", flags_hold(usual)), (Break(),)), *body[at:])


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


def _rare(stmt: Stmt) -> bool:
    """Whether a statement, not counting its blocks, is a call or writes memory."""
    if isinstance(stmt, For | While):
        return any(map(_rare, statements(stmt.body)))
    return calls(stmt) or (isinstance(stmt, Assign) and not isinstance(stmt.place, Var))


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
