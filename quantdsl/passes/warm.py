"""Bars of a GPU's lane in a straight line: a tile of them of which is known what would part them.

An indicator asks at each bar whether it has seen enough: a counter that only grows is compared with
what does not change. Once a counter is beyond all that it is compared with, the answers are known;
of what is only told they need not be where no bar of the tile is told. They are known too of what
is done where a block of bars ends, if none ends in a tile; beside one with which a block ends the
others are in a line that is shorter by it. A tile of which all is known at its beginning goes
through a body without these questions: small branches are choices of values, and bar follows bar.
While a result of one bar is waited for, what another one needs for itself is computed; a lane that
goes along time has little else to wait with.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Set
from itertools import takewhile

import msgspec

from quantdsl.ir import ops
from quantdsl.ir.show import show_node
from quantdsl.ir.walk import expressions, rebuild_body, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes.fold import Folder
from quantdsl.passes.scopes import assigned_names, declared_names, renamed
from quantdsl.passes.straight import all_of

Block = tuple[ops.Stmt, ...]

BEYOND = {"ige": True, "igt": True, "ine": True, "ile": False, "ilt": False, "ieq": False}
"""What a comparison says of a counter that is beyond the other number."""
BRANCH_MAX = 48
"""Operations that a bar may do in vain, where a branch becomes a choice."""
LINE_MAX = 4_000
"""Operations of a tile's bars in a line."""
TILE_MAX = 8
"""Bars of a tile."""
TILES_MIN = 4
"""Tiles in a block, where it is worth to have those of its end apart."""
LINE = re.compile(r"bar\d+\.turn$")
"""What the first local of a line is called."""
DEAR = {"fdiv": 24, "sqrt": 24, "idiv": 24, "imod": 24}
"""Operations that count as so many."""


def split_warm(module: ops.Module, entry: str) -> ops.Module:
    """The module whose entry goes through tiles of bars so, where that makes them straight."""
    funcs = tuple(_split(f) if f.name == entry else f for f in module.funcs)
    return msgspec.structs.replace(module, funcs=funcs)


def _split(func: ops.Func) -> ops.Func:
    outer = {stmt.name for stmt in func.body if isinstance(stmt, ops.Let)}

    def tiles(stmt: ops.Stmt) -> ops.Stmt:
        match stmt:
            case ops.For(body=(*before, ops.For(lo=ops.Const(bits=0)) as bars)):
                match bars.hi:
                    case ops.Binary("imin", rest, ops.Const(bits=size)) if size <= TILE_MAX:
                        firsts = {one.name for one in before if isinstance(one, ops.Let)}
                        body = (*before, *_Tiles(stmt, outer, firsts).bars(bars, rest, size))
                        return msgspec.structs.replace(stmt, body=body)
        return stmt

    return msgspec.structs.replace(func, body=rebuild_body(func.body, tiles))


class _Tiles:
    """A loop over tiles, and what is known of locals of `outer` while it runs.

    `firsts` are declared at the beginning of a tile.
    """

    def __init__(self, loop: ops.For, outer: Set[str], firsts: Set[str]) -> None:
        self.changed = assigned_names((loop,))
        self.firsts = firsts - self.changed
        self.steady = outer - self.changed
        assigns = [
            (stmt.place.name, _counts(stmt))
            for stmt in statements((loop,))
            if isinstance(stmt, ops.Assign) and isinstance(stmt.place, ops.Var)
        ]
        self.rising = {name for name, counts in assigns if counts} & outer
        """Those that grow by one, or begin anew."""
        self.counters = self.rising - {name for name, counts in assigns if not counts}
        """Those that only grow."""

    def bars(self, bars: ops.For, rest: ops.Expr, size: int) -> Block:
        """The bars of a tile: `rest`, or `size` where that is less. In a line where they can be."""
        asked = _Questions(self, bars, range(size))
        made = asked.tile(rest, (bars,))
        if made is None or not asked.blocks:
            return made or (bars,)
        *told, tile = made
        beside = self.beside(bars, rest, size)
        return (*told, msgspec.structs.replace(tile, otherwise=beside or (bars,)))

    def beside(self, bars: ops.For, rest: ops.Expr, size: int) -> Block | None:
        """The bars of a tile one by one, but for those beside one with which a block ends."""
        if any(isinstance(one, ops.Continue) for one in statements(bars.body)):
            return None  # it may be one of these turns, which count at their end
        turn = ops.Var(bars.name)

        def goes_on(count: int) -> ops.Stmt:
            return ops.Assign(turn, ops.Binary("iadd", turn, ops.i64(count)))

        end = ops.Binary("imin", rest, ops.i64(size))
        asked = _Questions(self, bars, range(size, 2 * size - 1), turn)
        made = asked.tile(ops.Binary("isub", end, turn), (*bars.body, goes_on(1)))
        if made is None:
            return None
        *told, tile = made
        assert isinstance(tile, ops.If)
        body = (*told, msgspec.structs.replace(tile, then=(*tile.then, goes_on(size - 1))))
        begin, more = ops.Let(turn.name, ops.I64_T, ops.i64(0)), ops.Binary("ilt", turn, end)
        return begin, ops.While(more, ops.i64(size), body)

    def stays(self, bound: ops.Expr) -> bool:
        """Whether it is the same in all tiles."""
        return isinstance(bound, ops.Const) or (
            isinstance(bound, ops.Var) and bound.name in self.steady
        )


class _Questions:
    """The questions that have one answer in some bars of a tile, which may then stand in a line.

    Names have the `numbers` of the bars. They begin at `turn` of the tile, or with it.
    """

    def __init__(
        self, tiles: _Tiles, bars: ops.For, numbers: range, turn: ops.Expr | None = None
    ) -> None:
        self.tiles, self.bars, self.numbers, self.turn = tiles, bars, numbers, turn
        self.size = len(numbers)
        self.needs: dict[ops.Expr, None] = {}
        """What must hold for the answers."""
        self.blocks: dict[str, int] = {}
        """Where the blocks end of which none ends in the line, by their counters."""
        self.told: dict[str, ops.Let] = {}
        """Whether the bars are told, if none or all of them are."""
        self.only: ops.Var | None = None
        """Which of those decides whether an answer matters."""
        # Locals that are a counter as it was at some moment of this bar, or that count bars -> what
        # is known of them at the line's beginning.
        self.of = {name: name for name in tiles.counters}
        for stmt in statements(bars.body):
            match stmt:
                case ops.Let(name, _, ops.Var(other)) if other in self.of:
                    if name not in tiles.changed:
                        self.of[name] = self.of[other]
                case ops.Let(name, _, ops.Binary("iadd", ops.Var(first), more)):
                    if more == ops.Var(bars.name) and first in tiles.firsts:
                        self.of[name] = first
        self.all = not any(map(self.tells, statements(bars.body)))
        """Whether all questions are asked: not where bars are told from one of them on. Lanes begin
        amid time there, and are cold in many of their tiles: what may be a choice is one."""

    def tile(self, rest: ops.Expr, otherwise: Block) -> Block | None:
        """The bars in a line where there are so many and their answers are known, else `otherwise`;
        None where they are not straight."""
        straight = tuple(_chosen(self.body(), self.bars.name, self.waits))
        if not all(isinstance(s, ops.Let | ops.Assign) or self.waits(s) for s in straight):
            return None
        if sum(map(_operations, expressions(straight))) * self.size > LINE_MAX:
            return None
        if not all(_counts_once(straight, name) for name in self.blocks):
            return None
        line = [stmt for n in self.numbers for stmt in self.bar(straight, n)]
        needs = (ops.Binary("ige", rest, ops.i64(self.size)), *self.needs)
        return (*self.told.values(), ops.If(all_of(needs), tuple(line), otherwise))

    def bar(self, body: Block, number: int) -> Block:
        """The bar of this number, with names of its own; the first tells its place in the tile."""
        name = self.bars.name
        names = {one: f"bar{number}.{one}" for one in (name, *declared_names(body))}
        which: ops.Expr = ops.i64(number - self.numbers.start)
        if self.turn is not None:
            which = ops.Binary("iadd", self.turn, which)
        return ops.Let(names[name], ops.I64_T, which), *renamed(body, names)

    def body(self) -> Block:
        """The bars' body with answers in place of questions."""
        if not self.all:
            self.ask_where_bars_part()
        body = rebuild_body(rebuild_body(self.bars.body, self.answered), self.settled)
        return Folder(assigned_names(self.bars.body)).body(body)

    def ask_where_bars_part(self) -> None:
        """Ask what is no choice."""
        self.all = True
        for stmt in statements(self.bars.body):
            if isinstance(stmt, ops.If) and not self.tells(stmt):
                made = _chosen((stmt,), self.bars.name, self.waits)
                if any(isinstance(one, ops.If) for one in made):
                    self.expr(stmt.cond)
        self.all = False

    def tells(self, stmt: ops.Stmt) -> bool:
        """Whether a branch stores something from some bar on, and does nothing else."""
        match stmt:
            case ops.If(ops.Binary("ige", ops.Var(name), bound)) if only_stores(stmt):
                return self.of.get(name) in self.tiles.firsts and self.tiles.stays(bound)
        return False

    def answered(self, stmt: ops.Stmt) -> ops.Stmt:
        match stmt:
            case ops.If(ops.Binary(_, ops.Var(name), bound)) if self.tells(stmt):
                told = self.only = self.all_or_none(self.of[name], bound)
                then = rebuild_body(stmt.then, self.answered)
                self.only = None
                return msgspec.structs.replace(stmt, cond=told, then=then)
        return rebuild_stmt(stmt, self.expr, self.answered)

    def all_or_none(self, counted: str, bound: ops.Expr) -> ops.Var:
        """Whether all bars come at `bound` or behind it, where not some do and others do not."""
        first: ops.Expr = ops.Var(counted)
        if self.turn is not None:
            first = ops.Binary("iadd", first, self.turn)
        name = f"{self.bars.name}.told{self.numbers.start}.{counted}.{show_node(bound)}"
        self.told[name] = ops.Let(name, ops.BOOL_T, ops.Binary("ige", first, bound))
        behind = ops.Binary("iadd", first, ops.i64(self.size))
        self.needs[ops.Binary("or", ops.Var(name), ops.Binary("ile", behind, bound))] = None
        return ops.Var(name)

    def waits(self, stmt: ops.Stmt) -> bool:
        """Whether it is a store that depends on that."""
        return isinstance(stmt, ops.If) and getattr(stmt.cond, "name", "") in self.told

    def expr(self, node: ops.Expr) -> ops.Expr:
        match node:
            case ops.Binary(op, ops.Var(name), bound) if op in BEYOND and name in self.of:
                beyond = ops.Binary("igt", ops.Var(self.of[name]), bound)
                if self.tiles.stays(bound) and self.asks(beyond):
                    return ops.boolean(BEYOND[op])
            case ops.Binary("ieq", ops.Var(name) as place, ops.Const(bits=end)):
                if name in self.tiles.rising and end >= TILES_MIN * self.size:
                    self.blocks[name] = end
                    self.needs[ops.Binary("ige", place, ops.i64(0))] = None
                    self.needs[ops.Binary("ilt", place, ops.i64(end - self.size))] = None
                    return ops.boolean(False)
        return rebuild_expr(node, self.expr)

    def asks(self, need: ops.Expr) -> bool:
        """Whether a question is asked, the answer to which is known where this holds."""
        if self.only is not None:
            need = ops.Binary("or", ops.Unary("not", self.only), need)
        elif not self.all and need not in self.needs:
            return False
        self.needs[need] = None
        return True

    def settled(self, stmt: ops.Stmt) -> ops.Stmt:
        """A statement with places in blocks as they are."""
        return rebuild_stmt(stmt, self.within, self.settled)

    def within(self, node: ops.Expr) -> ops.Expr:
        match node:
            case ops.Binary("imin", ops.Binary("imax", ops.Var(name), least), most):
                ends = self.blocks.get(name)
                if ends and (least, most) == (ops.i64(0), ops.i64(ends - 1)):
                    return ops.Var(name)
        return rebuild_expr(node, self.within)


def only_stores(stmt: ops.If) -> bool:
    """Whether a branch does nothing but store words in arrays; its locals may be made in vain."""
    lets = tuple(takewhile(lambda one: isinstance(one, ops.Let), stmt.then))
    stores = stmt.then[len(lets) :]
    words = (isinstance(s, ops.Assign) and isinstance(s.place, ops.Elem) for s in stores)
    return not stmt.otherwise and all(words) and _may_be_in_vain(lets)


def is_line(block: Block) -> bool:
    """Whether a block is bars of a tile in a line."""
    return bool(block) and LINE.match(getattr(block[0], "name", "")) is not None


def _counts(stmt: ops.Assign) -> bool:
    """Whether a local grows by one."""
    return stmt.value == ops.Binary("iadd", stmt.place, ops.i64(1))


def _counts_once(body: Block, name: str) -> bool:
    """Whether a local grows by one at a bar, or not at all."""
    own = [s for s in body if isinstance(s, ops.Assign) and s.place == ops.Var(name)]
    return not own or (len(own) == 1 and _counts(own[0]))


def _chosen(body: Block, name: str, stays: Callable[[ops.Stmt], bool]) -> Iterator[ops.Stmt]:
    """A block whose small branches are choices of values, but stores for which `stays` holds."""
    count = 0

    def block(inner: Iterable[ops.Stmt]) -> Iterator[ops.Stmt]:
        nonlocal count
        for stmt in inner:
            match stmt:
                case ops.If(then=then) if stays(stmt):
                    yield from (one for one in then if isinstance(one, ops.Let))
                    stores = tuple(one for one in then if isinstance(one, ops.Assign))
                    yield msgspec.structs.replace(stmt, then=stores)
                case ops.If(cond, then, otherwise, line):
                    sides = tuple(block(then)), tuple(block(otherwise))
                    if not all(map(_may_be_in_vain, sides)):
                        yield ops.If(cond, *sides, line)
                        continue
                    count += 1
                    which = ops.Let(f"{name}.choice.{count}", ops.BOOL_T, cond)
                    yield which
                    for side, holds in zip(sides, (True, False), strict=True):
                        yield from (_where(one, ops.Var(which.name), holds) for one in side)
                case ops.Let(value=None, type=str() as type_):
                    yield msgspec.structs.replace(stmt, value=ops.Const(type_, 0))
                case _:
                    yield stmt

    return block(body)


def _where(stmt: ops.Stmt, cond: ops.Var, holds: bool) -> ops.Stmt:
    """A statement of a branch: a local of outside keeps its value where that is not taken."""
    if not isinstance(stmt, ops.Assign):
        return stmt
    sides = (stmt.value, stmt.place) if holds else (stmt.place, stmt.value)
    return msgspec.structs.replace(stmt, value=ops.Select(cond, *sides))


def _may_be_in_vain(side: Block) -> bool:
    """Whether statements only make values of locals, and few of them."""
    nodes = list(expressions(side))
    return (
        all(
            isinstance(stmt, ops.Let)
            or (isinstance(stmt, ops.Assign) and isinstance(stmt.place, ops.Var))
            for stmt in side
        )
        and not any(isinstance(node, ops.Elem | ops.Call) for node in nodes)
        and sum(map(_operations, nodes)) <= BRANCH_MAX
    )


def _operations(node: ops.Expr) -> int:
    match node:
        case ops.Unary(op) | ops.Binary(op):
            return DEAR.get(op, 1)
    return int(isinstance(node, ops.Fma | ops.Select))
