"""The usual turn apart from all others: for targets where calls cost registers and branches time.

Most turns of a lane meet no order, fill or day's end. `usual` makes such turns one after the
other, without a call and without writing memory, and stops before the first that is another;
`slow` makes that one, on the state in memory. What the usual turn reads of a row is what `image`
wrote: the words and the sums of words that all lanes read alike, side by side. So the lanes of a
warp go each at their own pace through a stretch of rows, and wait for each other only where one
needs `slow`.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial

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
    Select,
    Stmt,
    Unary,
    Var,
    While,
    boolean,
    i64,
)
from quantdsl.ir.walk import expressions, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.breaks import given_up, rare
from quantdsl.passes.flags import Flag, calls, ends_early, flags_hold, usual_flags, with_flags
from quantdsl.passes.fold import folded_func
from quantdsl.passes.group import COUNT, NUMBER, Group
from quantdsl.passes.held import HELD, HELD_TYPE, HELD_WORDS, with_held
from quantdsl.passes.idle import Idle
from quantdsl.passes.lasting import lasts_to_next
from quantdsl.passes.places import PathSet, path_of, spelled_path
from quantdsl.passes.rows import BASE, OUT, ROW, ROW_WORDS, ROWS
from quantdsl.passes.scopes import (
    assigned_names,
    declared_names,
    placed,
    promoted,
    reads_of_names,
    renamed,
)
from quantdsl.passes.sink import sink_values
from quantdsl.passes.straight import all_of, either
from quantdsl.passes.stride import GROUP, LONG_STRIDE_BITS, RUN, STEP, STOPS, Stride
from quantdsl.passes.tile import SPOT, TILE, TILE_TYPE, always_read, tile_word, word_of_tile
from quantdsl.passes.turn import Turn, now

SLOW, USUAL, IDLE, LAST = "slow", "usual", "idle", "last"
"""The functions: any turns on the state in memory; usual ones; those on rows on which nobody can
trade; what the end of a run stores."""
IMAGE, GATHER, HOLD = "image", "gather", "hold"
"""What usual turns read of a row; what strides of them read; what turns take as it is made once."""
IMAGE_WORDS, GROUP_WORDS = "IMAGE_WORDS", "GROUP_WORDS"
"""The module's sizes that say how many words single turns read of a row, and strides of a group."""
FROM, TO, FIRST, REACHED = "from@", "to@", "first@", "reached@"
PASS, BEGAN, HALT, GROUPS = "pass@", "began@", "halt@", "groups@"
STRODE, STOPPED, END, AGAIN = "strode@", "stopped@", "end@", "again@"
USUAL_ROW = "usual@"
OF = ("group", "row")
"""What a word that is loaded a row ahead is of: a stride's group, or the row of a tile."""
TO_GROUPS = TILE, Var(GROUPS)
"""What strides read of a tile is in the groups."""

Block = tuple[Stmt, ...]


def run_usual(module: Module, entry: str, results: Set[str]) -> Module:
    """The module with the functions of usual turns beside the entry, which stays as it is.

    Of the state, `results` and what later turns read is kept. A turn reads what the next one needs:
    one row more than there are turns.

    It comes as it is where it has no rows, or where no turn makes a call, or every turn makes one
    or writes memory. GROUP_WORDS is a size of it, and `gather` a function, where there are strides
    of turns (stride.py).

        image(rows, row, inout out, at)                     what `usual` reads of a row
        gather(rows, row, n, inout out, at)                 and of whole strides, a group for each
        hold(inout s, inout held)                           before all turns, if there is any
        usual(inout s, tile, groups, first, from, to, ...)  -> the row it stopped before, or `to`
        slow(inout s, rows, from, to, end, ...)  -> the row it stopped before: `to` or one behind
        idle(inout s, rows, from, to, ...)       -> the row it stopped before, or `to`
        last(inout s, rows, n)                              after all turns

    What `hold` makes (held.py) comes as the last argument of all turns.

    `first` is the row whose image `tile` begins with, and `groups` begins with that of its stride.
    """
    (func,) = (func for func in module.funcs if func.name == entry)
    holding, held = with_held(func)
    others = tuple(holding if each is func else each for each in module.funcs)
    of_held = msgspec.structs.replace(module, funcs=others)
    maker = usual_turns(of_held, entry, results, LONG_STRIDE_BITS)
    if maker is None:
        return module
    sizes = dict(module.sizes)
    usual = maker.usual()
    gather = () if maker.group is None else (maker.gather(maker.group),)
    hold = (maker.hold(held),) if held else ()
    turns = (maker.image(), *gather, *hold, maker.slow(), maker.idle(), usual, maker.last())
    new = tuple(map(folded_func, turns))
    funcs: list[Func] = []
    for each in module.funcs:
        funcs += [*new, each] if each is func else [each]
    # What is handed a buffer is an entry.
    entries = (*module.entries, *(each.name for each in new))
    sizes[IMAGE_WORDS], sizes[HELD_WORDS] = maker.turn.tile.words(), len(held)
    if maker.group is not None:
        sizes[GROUP_WORDS] = maker.group.words
    made = msgspec.structs.replace(
        module, funcs=tuple(funcs), entries=entries, sizes=tuple(sorted(sizes.items()))
    )
    return sink_values(made, SLOW)


def usual_turns(
    module: Module, entry: str, results: Set[str] | None, stride_bits: int
) -> "UsualTurns | None":
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
        layout = Layout(module.structs)
        spelled = (spelled_path(layout, state.type, path) for path in results)
        wanted = PathSet((state.name, *path) for path in spelled)
        words = {name: path for name, path in words.items() if wanted.meets(path)}
    turns = UsualTurns(func, head, loop, tail, sizes[ROW_WORDS], words.keys(), stride_bits)
    return None if any(map(rare, turns.known)) else turns


class UsualTurns:
    """Writes the functions of one entry: heads load words, turns run, tails store them."""

    def __init__(
        self,
        func: Func,
        head: Block,
        loop: For,
        tail: Block,
        width: int,
        asked: Set[str],
        stride_bits: int,
    ) -> None:
        self.func, self.loop, self.tail, self.width = func, loop, tail, width
        self.words = [let for let in head if isinstance(let, Let)]
        self.head = head
        self.flags = flags = dict(usual_flags(loop.body))
        """The usual flags of a row."""
        self.known = with_flags(loop.body, flags)
        """A turn with the usual flags."""
        changing = assigned_names((loop,))
        usual = given_up(self.known, changing)
        changed = assigned_names(usual)
        lasting = lasts_to_next(loop.body, changed) | asked
        self.changed = [let for let in self.words if let.name in changed & lasting]
        """What a usual turn changes."""
        self.passing = [let for let in self.words if let.name in changed - lasting]
        """What each turn makes anew before it reads it: nobody asks for what it was."""
        types = {let.name: let.type for let in (*self.changed, *self.passing)}
        passing = {let.name for let in self.passing}
        self.turn = Turn(_tested(usual, flags), types, passing, stride_bits)
        stride = self.turn.stride
        self.group = None if stride is None else Group(stride)

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
            goes_on = either((goes_on, *map(_plainly, never)))
        end: Block = (Assign(Var(REACHED), reached), If(Unary("not", goes_on), (Break(),)))
        loop = msgspec.structs.replace(self.loop, lo=Var(FROM), body=(*self.parted(), *end))
        places = {let.name: let.value for let in self.words if let.value and path_of(let.value)}
        head = tuple(s for s in self.head if not (isinstance(s, Let) and s.name in places))
        start = Let(REACHED, I64_T, Var(FROM))
        body = in_memory((*head, start, loop, Return(Var(REACHED))), places)
        params = (state, rows, ParamDecl(FROM, I64_T), ParamDecl(TO, I64_T), count, *rest)
        return Func(SLOW, params, I64_T, body, inline=False)

    def idle(self) -> Func:
        """Turns on rows on which nobody can act: idle(s, rows, from@, to@, ...)."""
        state, rows, _, *rest = self.func.params
        turns = Idle(self.loop, self.words, self.flags)
        body: Block = (
            *turns.head(),
            Let(REACHED, I64_T, Var(FROM)),
            For(self.loop.name, Var(FROM), Var(TO), (*turns.turn(), self.done()), self.loop.line),
            *self.stores(turns.changed),
            Return(Var(REACHED)),
        )
        params = (state, rows, ParamDecl(FROM, I64_T), ParamDecl(TO, I64_T), *rest)
        return Func(IDLE, params, I64_T, body)

    def done(self) -> Stmt:
        """Notes that the turn of a row was made."""
        return Assign(Var(REACHED), _plus(Var(self.loop.name), 1))

    def parted(self) -> Block:
        """Any turn, with what it does on a usual row by itself, as far as that makes no call.

        Such a row is asked once for all of its flags. Calls stay where they are, for their code is
        copied to each place; so a turn with an order shares it with one on an unusual row.
        """
        usual = Var(USUAL_ROW)
        made: list[Stmt] = []
        for stmt in self.loop.body:
            left = with_flags((stmt,), self.flags)
            left = renamed(left, {name: f"usual.{name}" for name in declared_names(left)})
            if not isinstance(stmt, If) or left == (stmt,) or any(map(calls, statements(left))):
                made.append(stmt)
            elif made and isinstance(last := made[-1], If) and last.cond == usual:
                made[-1] = If(usual, (*last.then, *left), (*last.otherwise, stmt), last.line)
            else:
                made.append(If(usual, left, (stmt,)))
        flags = next(k for k, stmt in enumerate(made) if not isinstance(stmt, Let))
        made.insert(flags, Let(USUAL_ROW, BOOL_T, flags_hold(self.flags)))
        return tuple(made)

    def hold(self, held: Iterable[Expr]) -> Func:
        """Writes what turns would make anew of words that they never change."""
        puts = (Assign(Elem(Var(HELD), i64(k)), value) for k, value in enumerate(held))
        places = {let.name: let.value for let in self.words if let.value}
        params = (self.func.params[0], ParamDecl(HELD, HELD_TYPE, inout=True))
        return Func(HOLD, params, None, in_memory(tuple(puts), places))

    def last(self) -> Func:
        """What is stored once at the end."""
        stored = self.stores(self.words)
        body = tuple(stmt for stmt in self.tail if stmt not in stored)
        return Func(LAST, self.func.params[:3], None, body)

    def image(self) -> Func:
        """Writes what usual turns read of one row."""
        params = (
            ParamDecl(ROWS, BufferType(I64_T)),
            ParamDecl(ROW, I64_T),
            ParamDecl(OUT, TILE_TYPE, inout=True),
            ParamDecl(SPOT, I64_T),
        )
        base = Let(BASE, I64_T, Binary("imul", Var(ROW), i64(self.width)))
        return Func(IMAGE, params, None, (base, *self.turn.tile.writes()))

    def gather(self, group: Group) -> Func:
        """Writes what whole strides of usual turns read."""
        params = (
            ParamDecl(ROWS, BufferType(I64_T)),
            ParamDecl(FROM, I64_T),
            ParamDecl(COUNT, I64_T),
            ParamDecl(OUT, TILE_TYPE, inout=True),
            ParamDecl(BEGAN, I64_T),
        )
        return Func(GATHER, params, None, group.fill(self.width, Var(FROM), Var(BEGAN)))

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
            conds = map(Return, (*stride.tests, *stride.ready))
            asked = (*conds, *stride.before, *done, *stride.turn, *stride.finish(None, {}))
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
        if self.turn.never:  # asked at once: their words come from memory side by side
            able = (If(Unary("not", either(self.turn.never)), able),)
        body = (*head, Let(REACHED, I64_T, Var(FROM)), *able, Return(Var(REACHED)))
        params = (
            state,
            ParamDecl(TILE, TILE_TYPE),
            ParamDecl(GROUPS, TILE_TYPE),
            ParamDecl(FIRST, I64_T),
            ParamDecl(FROM, I64_T),
            ParamDecl(TO, I64_T),
            *rest,
        )
        return Func(USUAL, params, I64_T, body)

    def spot(self, row: Expr) -> Expr:
        """Where the tile holds the image of a row."""
        words = self.turn.tile.words()
        return Binary("imul", Binary("isub", row, Var(FIRST)), i64(words))

    def turns(self) -> Block:
        """Usual turns from REACHED on: by strides, and one by one to the end of one that fails."""
        if self.group is None:
            return (Let(HALT, I64_T, Var(TO)), *self.single())
        inside = Binary("isub", Var(REACHED), Var(FIRST))
        length = self.group.stride.rows
        next_stride = Binary("iand", _plus(inside, length), i64(-length))
        halt = Binary("imin", Var(TO), Binary("iadd", Var(FIRST), next_stride))
        short, end = Binary("ilt", Var(REACHED), Var(HALT)), Binary("ige", Var(REACHED), Var(TO))
        stops = If(Binary("or", short, end), (Break(),))
        one: Block = (
            *self.strides(self.group),
            If(end, (Break(),)),
            Let(HALT, I64_T, halt),
            *self.single(),
            stops,
        )
        return (For(PASS, Var(FROM), Var(TO), one, self.loop.line),)

    def strides(self, group: Group) -> Block:
        """As many strides as there are without a row that stops them, and turns up to such a row.

        Where turns do not begin with a stride, or one of it stops, they are made one by one: what
        the stride was asked holds for each of its turns.
        """
        stride, price = group.stride, self.turn.price
        row = self.spot(_plus(Var(REACHED), -1))
        price = None if price is None else placed(price, SPOT, row)
        finish = stride.finish(price, self.turn.same)
        last = Binary("lshr", Binary("isub", Var(TO), Var(FIRST)), i64(stride.bits))
        able: Block = (
            Let(END, I64_T, last),
            For(AGAIN, Var(REACHED), Var(TO), (*self.whole(group), *self.part(group))),
        )
        if finish:
            able = (*able, If(Binary("igt", Var(REACHED), Var(BEGAN)), finish))
        return (
            Let(BEGAN, I64_T, Var(REACHED)),
            *stride.before,
            *((If(all_of(stride.ready), able),) if stride.ready else able),
        )

    def whole(self, group: Group) -> Block:
        """Strides from REACHED on, if one begins there, up to one that is stopped."""
        stride, inside = group.stride, Binary("isub", Var(REACHED), Var(FIRST))
        begins = Binary("ieq", Binary("iand", inside, i64(stride.rows - 1)), i64(0))
        start = Select(begins, Binary("lshr", inside, i64(stride.bits)), Var(END))
        first = Binary("iadd", Var(FIRST), Binary("shl", Var(NUMBER), i64(stride.bits)))
        stopped = (If(Var(STOPS), (Break(),)),) if stride.early else ()
        one: Block = (
            *self.asks(group),
            *stopped,
            *stride.begins(self.turn.same),
            *self.begun(stride, RUN),
            *_put(stride.copies(group.turn, group.spot, lambda k: _plus(first, k)), *TO_GROUPS),
            If(stride.stopped(), (Break(),)),
            *_put(tuple(stride.after), *TO_GROUPS),
            *self.ended(stride, RUN),
            Assign(Var(REACHED), _plus(Var(REACHED), stride.rows)),
        )
        return (For(NUMBER, start, Var(END), one, self.loop.line),)

    def part(self, group: Group) -> Block:
        """The rest of the stride that REACHED lies in, row by row up to one that stops it."""
        inside, bits = Binary("isub", Var(REACHED), Var(FIRST)), i64(group.stride.bits)
        end = Binary("iadd", Var(FIRST), Binary("shl", _plus(Var(NUMBER), 1), bits))
        body: Block = (
            Let(NUMBER, I64_T, Binary("lshr", inside, bits)),
            If(Binary("ige", Var(NUMBER), Var(END)), (Break(),)),
            *self.asks(group),
            If(Var(STOPS), (Break(),)),
            *(
                Let(_at(f"ahead.{of}", k), I64_T, word(Var(REACHED)))
                for k, of, word in self.ahead(group)
            ),
            For(STRODE, Var(REACHED), end, self.step(group), self.loop.line),
            *group.stride.behind,
            If(Binary("ilt", Var(REACHED), end), (Break(),)),
        )
        return renamed(body, {name: f"{name}.part" for name in declared_names(body)})

    def asks(self, group: Group) -> Block:
        """Notes whether the words of stride NUMBER stop it."""
        begin = Binary("imul", Var(NUMBER), i64(group.words))
        return (
            Let(GROUP, I64_T, _plus(begin, group.own)),
            *_put((Let(STOPS, BOOL_T, either(group.stride.tests)),), *TO_GROUPS),
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

    def ahead(self, group: Group) -> list[tuple[int, str, Callable[[Expr], Expr]]]:
        """The words that a turn of a stride by itself reads, in the group and in the tile, loaded a
        row ahead: which one, what its locals are called, and where a row has it.
        """
        begin = Binary("iadd", Var(FIRST), Binary("shl", Var(NUMBER), i64(group.stride.bits)))

        def in_group(at: int, row: Expr) -> Expr:
            spot = group.spot(Binary("isub", row, begin))
            return Elem(Var(GROUPS), Binary("iadd", spot, i64(at)))

        def in_tile(at: int, row: Expr) -> Expr:
            return tile_word(self.spot(row), at)

        of_group = ((k, "group", partial(in_group, k)) for k in _read(group.turn))
        of_tile = ((k, "row", partial(in_tile, k)) for k in _read(self.turn.by_row))
        return [*of_group, *of_tile]

    def step(self, group: Group) -> Block:
        """One turn of a stride by itself, that of row STRODE; it breaks where it may be unusual."""
        stride, row = group.stride, Var(STRODE)
        ahead = self.ahead(group)
        here = {of: {k: _at(f"here.{of}", k) for k, one, _ in ahead if one == of} for of in OF}
        made = _here(group.turn, here["group"])
        turn = tuple(stride.copy(made, STEP, ".step", Var(SPOT), row))
        return (
            *(Let(here[of][k], I64_T, Var(_at(f"ahead.{of}", k))) for k, of, _ in ahead),
            *(Assign(Var(_at(f"ahead.{of}", k)), word(_plus(row, 1))) for k, of, word in ahead),
            Let(STOPPED, BOOL_T, boolean(False)),
            *stride.begins(self.turn.same),
            *self.begun(stride, STEP),
            *_put((*turn, If(stride.stopped(), (Break(),))), STOPS, Var(STOPPED)),
            *_here(self.turn.by_row, here["row"]),
            *self.ended(stride, STEP),
            Assign(Var(REACHED), _plus(row, 1)),
        )

    def single(self) -> Block:
        """Turns one by one, from REACHED to HALT."""
        same, held = self.turn.same, Var(self.loop.name)
        carried = [let for let in self.changed if let.name not in same]
        always = always_read(self.turn.body)
        made = _here(self.turn.body, {k: _at("here", k) for k in always})
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
            self.done(),
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


def _plainly(cond: Expr) -> Expr:
    """A condition, where words are compared by their bits with floats that are compared as such.

    It may hold of two that are not numbers where the other does not, and the other way of zeros.
    """
    match cond:
        case Binary("ine", Unary("bits", x), Unary("bits", y)):
            return Binary("fne", x, y)
    return cond


def _read(body: Block) -> list[int]:
    """The words of its row that a turn reads anywhere."""
    read = map(word_of_tile, expressions(body))
    return sorted({at for at in read if at is not None})


def _at(when: str, word: int) -> str:
    return f"{when}.{word}@"


def _here(body: Block, names: Mapping[int, str]) -> Block:
    """A block that takes some words of its row from locals of these names."""

    def expr(node: Expr) -> Expr:
        at = word_of_tile(node)
        return Var(names[at]) if at is not None and at in names else rebuild_expr(node, expr)

    def stmt(one: Stmt) -> Stmt:
        return rebuild_stmt(one, expr, stmt)

    return tuple(map(stmt, body))


def _plus(value: Expr, number: int) -> Expr:
    return Binary("iadd", value, i64(number)) if number else value


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
