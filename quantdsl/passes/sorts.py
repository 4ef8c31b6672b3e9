"""A sort of a tensor by the digits of its words, from the lowest on: a schedule for the grids of a
GPU and one for a core.

Which values come first is said by check/sorting.py, as a network that every target could run; the
order is total, so what comes out does not depend on how it is sorted. Here each value is a word
whose unsigned order is that of the values, and each pass puts the words into the order of eight of
its bits and keeps the order of equal ones. On a grid a block counts the digits of its tile: its
warps take rows of 32 words one after the other, and the threads of a row find out who of them has
the same digit. Then what lies before each tile is added up, in groups of tiles and across the
groups; and then a block knows where its words go. It puts them in order in shared memory first, so
that neighbours there go to neighbouring places.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from quantdsl.ir import ops
from quantdsl.ir.strands import SORT, called
from quantdsl.ir.threads import WAIT, WARP_BARRIER
from quantdsl.ir.walk import base_name, statements
from quantdsl.passes.blocks import MATCH_DIGIT, ONES, SHARED, WARP, size_of
from quantdsl.passes.scans import BLOCK, LANE, ME, THREADS, WARPS, Across, here

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
"""As many as a block has threads, so that each has one."""
assert DIGITS == THREADS
WORD_BITS = 64
F32_FROM = 24
"""Below this bit the words of binary32 values differ with the sign alone."""
ROUNDS = 16
"""Words of a thread, with the places that go with them."""
LOADS = 8
"""Counts that a thread waits for at once."""
COUNT_BITS = 16
"""Of what a warp has of a digit, where several of them are one word."""
SIGN, REST = ops.i64(-(2**63)), ops.i64(2**63 - 1)
WARP_NUMBER, AT, WORD, AHEAD, DIGIT, NEXT = (
    ops.Var(f"sort.{name}") for name in ("warp", "at", "word", "ahead", "digit", "next")
)
ALIKE, LOWER, FIRST = (ops.Var(f"sort.{name}") for name in ("alike", "lower", "first"))
"""Of a row: threads with this one's digit, those of them before it, and whether it is the first."""
HERE = ops.Var("sort.here")
"""A place in a tile that is in order."""
_WARPS_MEET = ops.Do(ops.Call(WARP_BARRIER, ()))


class Sort(NamedTuple):
    """Puts the `size` values of a tensor into order, in place; `places` go with them."""

    values: str
    element: str
    """What the tensor holds: float, f32 or int."""
    places: str
    """A tensor of ints, or an empty string."""
    size: int
    apart: bool = False
    """Whether the tensor stays as it is, and its words are left in scratch memory."""

    @property
    def shifts(self) -> range:
        """Where the digit of each pass begins."""
        return range(F32_FROM if self.element == "f32" else 0, WORD_BITS, DIGIT_BITS)

    @property
    def rounds(self) -> int:
        """Words of a thread."""
        return ROUNDS // len(self.tensors)

    @property
    def tile(self) -> int:
        """Words of a block."""
        return THREADS * self.rounds

    @property
    def blocks(self) -> int:
        """Those that share the values."""
        return -(-self.size // self.tile)

    @property
    def group(self) -> int:
        """Tiles that one block looks at when it adds up what they have of each digit."""
        return max(math.isqrt(self.blocks), 1)

    @property
    def groups(self) -> int:
        """Of tiles."""
        return -(-self.blocks // self.group)

    @property
    def tensors(self) -> tuple[str, ...]:
        """What goes from place to place."""
        return (self.values, self.places) if self.places else (self.values,)


def sort_of(
    stmt: ops.Stmt, params: tuple[ops.ParamDecl, ...], elements: Mapping[str, str]
) -> Sort | None:
    """The sort of a tensor that a statement is, or None."""
    if not isinstance(stmt, ops.For) or not called(stmt.name, SORT):
        return None
    moved = (one.place for one in statements(stmt.body) if isinstance(one, ops.Assign))
    values, *places = dict.fromkeys(map(base_name, moved))
    if values not in elements:
        return None
    (type_,) = (param.type for param in params if param.name == values)
    assert isinstance(type_, ops.ArrayType)
    return Sort(values, elements[values], places[0] if places else "", size_of(type_))


def _op(name: str, x: ops.Expr, y: ops.Expr | int) -> ops.Binary:
    return ops.Binary(name, x, ops.i64(y) if isinstance(y, int) else y)


def _sum(parts: Sequence[ops.Expr]) -> ops.Expr:
    return functools.reduce(lambda x, y: _op("iadd", x, y), parts)


def _let(place: ops.Var, value: ops.Expr) -> ops.Let:
    return ops.Let(place.name, ops.I64_T, value)


def _folded(bits: ops.Expr) -> ops.Expr:
    """Bits of a float as an int in the order of floats, and back: below 0 the rest turns over."""
    return _op("ixor", bits, _op("iand", _op("ashr", bits, 63), REST))


class Way(NamedTuple):
    """Where a pass finds words and leaves them, and where the digit begins that it looks at.

    The first one finds values, the last one leaves them, all others find and leave words.
    """

    opens: bool
    closes: bool
    source: ops.Expr
    target: ops.Expr
    """Words of scratch memory before them."""
    shift: ops.Expr


class Memory(NamedTuple):
    """Where words lie while they are sorted, from `first` of scratch memory on."""

    sort: Sort
    scratch: ops.Var
    first: int

    def numbers(self, turn: int) -> tuple[int, int, int]:
        """What `Way` of a pass has as expressions."""
        here, there = (self.first + (n % 2) * self.sort.size for n in (turn + 1, turn))
        return here, there, self.sort.shifts[turn]

    def way(self, turn: int, numbers: Iterable[ops.Expr]) -> Way:
        """A pass, whose numbers stand there, or are told where it is launched."""
        last = turn == len(self.sort.shifts) - 1
        return Way(turn == 0, last and not self.sort.apart, *numbers)

    @property
    def words(self) -> int:
        """Of scratch memory."""
        return 2 * len(self.sort.tensors) * self.sort.size

    def word(self, way: Way, at: ops.Expr) -> ops.Expr:
        """The word that a pass finds at a place."""
        if not way.opens:
            return self._part(way.source, 0, at)
        value = ops.Elem(ops.Var(self.sort.values), at)
        bits = value if self.sort.element == "int" else _folded(ops.Unary("bits", value))
        return _op("ixor", bits, SIGN)

    def place(self, way: Way, at: ops.Expr) -> ops.Expr:
        """The place that goes with it; check/sorting.py has numbered them."""
        there = ops.Elem(ops.Var(self.sort.places), at)
        return there if way.opens else self._part(way.source, 1, at)

    def in_order(self, at: ops.Expr) -> ops.Expr:
        """The value at a place, in order, of a tensor that stays as it is."""
        _, target, _ = self.numbers(len(self.sort.shifts) - 1)
        return self._value(self._part(ops.i64(target), 0, at))

    def put(self, way: Way, at: ops.Expr, word: ops.Expr, place: ops.Expr) -> Iterator[ops.Stmt]:
        """A pass leaves a word, and the place that goes with it, at a place."""
        if way.closes:
            yield ops.Assign(ops.Elem(ops.Var(self.sort.values), at), self._value(word))
        else:
            yield ops.Assign(self._part(way.target, 0, at), word)
        if self.sort.places:
            there = ops.Elem(ops.Var(self.sort.places), at)
            yield ops.Assign(there if way.closes else self._part(way.target, 1, at), place)

    def _part(self, start: ops.Expr, which: int, at: ops.Expr) -> ops.Elem:
        """A word, or the place that goes with it."""
        begin = _op("iadd", start, 2 * which * self.sort.size)
        return ops.Elem(self.scratch, _op("iadd", begin, at))

    def _value(self, word: ops.Expr) -> ops.Expr:
        bits = _op("ixor", word, SIGN)
        return bits if self.sort.element == "int" else ops.Unary("from_bits", _folded(bits))


def _digit(word: ops.Expr, way: Way) -> ops.Expr:
    return _op("iand", _op("lshr", word, way.shift), DIGITS - 1)


# ---- on a core ---------------------------------------------------------------------------------


def in_turn(memory: Memory, name: str) -> Iterator[ops.Stmt]:
    """The statements of one core; `name` is that of the loop that they stand for."""
    counts, at = ops.Var(f"counts.{name}"), ops.Var(f"at.{name}")
    before, digit = ops.Var(f"before.{name}"), ops.Var(f"digit.{name}")
    size = memory.sort.size
    yield ops.Let(counts.name, ops.ArrayType(ops.I64_T, DIGITS), None)
    yield _let(before, ops.i64(0))
    for turn in range(len(memory.sort.shifts)):
        way = memory.way(turn, map(ops.i64, memory.numbers(turn)))
        word = ops.Var(f"word.{turn}.{name}")
        slot, sum_ = ops.Elem(counts, digit), ops.Var(f"sum.{turn}.{name}")
        found = (_let(word, memory.word(way, at)), _let(digit, _digit(word, way)))
        every = ops.i64(0), ops.i64(DIGITS)
        yield ops.For(at.name, *every, (ops.Assign(ops.Elem(counts, at), ops.i64(0)),))
        more = ops.Assign(slot, _op("iadd", slot, 1))
        yield ops.For(at.name, ops.i64(0), ops.i64(size), (*found, more))
        yield ops.Assign(before, ops.i64(0))
        own = ops.Elem(counts, at)
        along = (_let(sum_, _op("iadd", before, own)), ops.Assign(own, before))
        yield ops.For(at.name, *every, (*along, ops.Assign(before, sum_)))
        put = memory.put(way, slot, word, memory.place(way, at))
        yield ops.For(at.name, ops.i64(0), ops.i64(size), (*found, *put, more))


# ---- on a grid ---------------------------------------------------------------------------------


ROWS = [ops.Elem(SHARED, _op("iadd", ME, DIGITS * warp)) for warp in range(WARPS)]
"""The count of each warp for the digit that is this thread's."""
OWN_ROW = _op("imul", WARP_NUMBER, DIGITS)


class Launch(NamedTuple):
    """What a thread does in one launch of so many blocks."""

    what: str
    blocks: int
    shared_words: int
    body: list[ops.Stmt]
    told: Mapping[str, int] = MappingProxyType({})
    """Numbers by the names of further parameters, so that passes that are alike are one code."""


TOLD = tuple(f"sort.{name}" for name in ("source", "target", "shift"))
"""The numbers of a pass."""
GROUPS = "sort.groups"
"""Told, since the assembler takes half a second for a loop whose turns it knows."""
TILE_AT = WARPS * DIGITS
"""Where a tile lies in shared memory, behind the counts of its warps."""
COUNTS = WORD_BITS // COUNT_BITS
"""Of a word."""
OF_WARPS = WARPS // COUNTS
"""Words that hold what all warps have of a digit."""


def grid_words(sort: Sort) -> int:
    """Words that count, in scratch memory behind those of `Memory`."""
    return DIGITS * (sort.blocks + sort.groups + sort.blocks * OF_WARPS)


def launches(memory: Memory) -> Iterator[Launch]:
    """The launches of a sort, in order."""
    sort = memory.sort
    for turn in range(len(sort.shifts)):
        made = _Pass(memory, memory.way(turn, map(ops.Var, TOLD)))
        told = dict(zip(TOLD, memory.numbers(turn), strict=True))
        yield Launch("digits", sort.blocks, TILE_AT, list(made.digits()), told)
        yield Launch("along", sort.groups, 0, list(made.along()))
        yield Launch("across", 1, WARPS, list(made.across()), {GROUPS: sort.groups})
        tile = TILE_AT + THREADS * ROUNDS
        yield Launch("sorted", sort.blocks, tile, list(made.scatter()), told)


def _each(
    first: ops.Expr,
    last: ops.Expr,
    count: Callable[[ops.Expr], ops.Elem],
    taken: Callable[[ops.Elem, ops.Expr], Iterable[ops.Stmt]],
) -> ops.For:
    """Take the counts of `first` up to `last`: some loads go at once, which wait for no store.

    Behind the last one are counts of 0.
    """
    loads: list[ops.Stmt] = []
    takes: list[ops.Stmt] = []
    begin = _op("iadd", first, _op("imul", ops.Var("sort.some"), LOADS))
    for ahead in range(LOADS):
        at, many = (ops.Var(f"sort.{name}.{ahead}") for name in ("of", "many"))
        inside = _op("ilt", at, last)
        there = count(_op("imin", at, _op("isub", last, 1)))
        loads += [
            _let(at, _op("iadd", begin, ahead)),
            _let(many, ops.Select(inside, there, ops.i64(0))),
        ]
        takes.append(ops.If(inside, tuple(taken(count(at), many))))
    turns = _op("idiv", _op("iadd", _op("isub", last, first), LOADS - 1), LOADS)
    return ops.For("sort.some", ops.i64(0), turns, (*loads, *takes))


def _before(count: ops.Elem, many: ops.Expr) -> tuple[ops.Stmt, ...]:
    """What lies before takes the place of a count, which it takes in."""
    return ops.Assign(count, NEXT), ops.Assign(NEXT, _op("iadd", NEXT, many))


class _Pass(NamedTuple):
    """The launches of one digit."""

    memory: Memory
    way: Way

    def counted(self, tile: ops.Expr, digit: ops.Expr) -> ops.Elem:
        """How many words of a tile have a digit, and then how many of its group before it."""
        memory = self.memory
        at = _op("iadd", _op("imul", tile, DIGITS), digit)
        return ops.Elem(memory.scratch, _op("iadd", at, memory.first + memory.words))

    def grouped(self, group: ops.Expr, digit: ops.Expr) -> ops.Elem:
        """The same of a group of tiles; its place is behind those of all tiles."""
        return self.counted(_op("iadd", group, self.memory.sort.blocks), digit)

    def of_warps(self, number: int) -> ops.Elem:
        """What some warps of a tile have of this thread's digit; behind those of all groups."""
        sort = self.memory.sort
        tiles = _op("imul", ops.i64(sort.blocks), number)
        return self.grouped(_op("iadd", _op("iadd", tiles, BLOCK), sort.groups), ME)

    def _rows(self, body: Iterable[ops.Stmt]) -> Iterator[ops.Stmt]:
        """The rows of this warp: `body` for each, where AT is the place of this thread's WORD and
        DIGIT is its digit. The word of the next row is on its way meanwhile.
        """
        sort, row = self.memory.sort, ops.Var("sort.row")
        own = _op("imul", WARP_NUMBER, WARP * sort.rounds)
        first = _op("iadd", _op("iadd", _op("imul", BLOCK, sort.tile), own), LANE)
        at = _let(AT, _op("iadd", first, _op("imul", row, WARP)))
        more = _op("ilt", _op("iadd", row, 1), sort.rounds)
        found = _let(WORD, AHEAD), _let(DIGIT, _digit(WORD, self.way))
        following = ops.If(more, self._ahead(_op("iadd", AT, WARP)))
        yield _let(AHEAD, ops.i64(0))
        yield from self._ahead(first)
        rounds = ops.i64(sort.rounds)
        yield ops.For(row.name, ops.i64(0), rounds, (at, *found, following, *body))

    def _ahead(self, at: ops.Expr) -> tuple[ops.Stmt, ...]:
        """The word there; behind the last one a word of no account."""
        inside = _op("ilt", at, self.memory.sort.size)
        return (ops.If(inside, (ops.Assign(AHEAD, self.memory.word(self.way, at)),)),)

    def _met(self) -> Iterator[ops.Stmt]:
        """How many of a row have this thread's digit, and how many of them come before it."""
        bits, inside = ops.Var("sort.bits"), _op("ilt", AT, self.memory.sort.size)
        apart = ops.Select(inside, DIGIT, ops.i64(DIGITS))  # behind the last word
        yield _let(bits, ops.Call(MATCH_DIGIT, (apart,)))
        below = _op("isub", _op("shl", ops.i64(1), LANE), 1)
        yield _let(LOWER, ops.Call(ONES, (_op("iand", bits, below),)))
        yield _let(ALIKE, ops.Call(ONES, (bits,)))
        first = _op("and", inside, _op("ieq", LOWER, 0))
        yield ops.Let(FIRST.name, ops.BOOL_T, first)

    def _thread(self) -> Iterator[ops.Stmt]:
        yield from here()
        yield _let(WARP_NUMBER, _op("lshr", ME, 5))

    def digits(self) -> Iterator[ops.Stmt]:
        """How many words of a tile have each digit, and how many of each of its warps have."""
        slot = ops.Elem(SHARED, _op("iadd", OWN_ROW, DIGIT))
        more = ops.Assign(slot, _op("iadd", slot, ALIKE))
        yield from self._thread()
        yield from (ops.Assign(row, ops.i64(0)) for row in ROWS)
        yield WAIT
        yield from self._rows((*self._met(), ops.If(FIRST, (more,)), _WARPS_MEET))
        yield WAIT
        yield ops.Assign(self.counted(BLOCK, ME), _sum(ROWS))
        for number in range(OF_WARPS):
            some = ROWS[number * COUNTS : (number + 1) * COUNTS]
            parts = [_op("shl", row, COUNT_BITS * at) for at, row in enumerate(some)]
            yield ops.Assign(self.of_warps(number), _sum(parts))

    def along(self) -> Iterator[ops.Stmt]:
        """A group of tiles, a digit a thread: how many lie in the tiles of it before each one."""
        sort = self.memory.sort
        first = _op("imul", BLOCK, sort.group)
        last = _op("imin", _op("iadd", first, sort.group), sort.blocks)
        yield from here()
        yield _let(NEXT, ops.i64(0))
        yield _each(first, last, lambda tile: self.counted(tile, ME), _before)
        yield ops.Assign(self.grouped(BLOCK, ME), NEXT)

    def across(self) -> Iterator[ops.Stmt]:
        """One block, a digit a thread: where the words of each group of tiles begin."""
        mine = ops.Var("sort.mine")
        found = Across("iadd", mine)
        every = ops.i64(0), ops.Var(GROUPS), lambda group: self.grouped(group, ME)
        yield from here()
        yield _let(mine, ops.i64(0))
        yield _each(*every, lambda _, many: (ops.Assign(mine, _op("iadd", mine, many)),))
        yield from found.statements()
        yield _let(NEXT, found.before)
        yield _each(*every, _before)

    def scatter(self) -> Iterator[ops.Stmt]:
        """Each word to its place, equal digits in the order of their places so far."""
        sort, mine = self.memory.sort, ops.Var("sort.mine")
        found = Across("iadd", mine, TILE_AT)
        counts = [ops.Var(f"sort.many.{warp}") for warp in range(WARPS)]
        group = _op("idiv", BLOCK, sort.group)
        yield from self._thread()
        for warp, count in enumerate(counts):
            bits = _op("lshr", self.of_warps(warp // COUNTS), warp % COUNTS * COUNT_BITS)
            yield _let(count, _op("iand", bits, (1 << COUNT_BITS) - 1))
        yield _let(mine, _sum(counts))
        yield from found.statements()
        yield _let(NEXT, found.before)
        for row, count in zip(ROWS, counts, strict=True):  # where each warp begins
            yield ops.Assign(row, NEXT)
            yield ops.Assign(NEXT, _op("iadd", NEXT, count))
        yield WAIT
        yield from self._rows((*self._met(), *self._ordered()))
        yield WAIT
        begin = _op("iadd", self.grouped(group, ME), self.counted(BLOCK, ME))
        yield ops.Assign(ops.Elem(SHARED, ME), _op("isub", begin, found.before))
        yield WAIT
        at = _let(HERE, _op("iadd", _op("imul", ops.Var("sort.row"), THREADS), ME))
        yield ops.For("sort.row", ops.i64(0), ops.i64(sort.rounds), (at, *self._placed()))

    def _ordered(self) -> Iterator[ops.Stmt]:
        """A row of a warp into the tile: behind what it has put there of each digit so far."""
        to, next_ = ops.Var("sort.to"), ops.Elem(SHARED, _op("iadd", OWN_ROW, DIGIT))
        yield _let(to, next_)
        yield _WARPS_MEET
        yield ops.If(FIRST, (ops.Assign(next_, _op("iadd", to, ALIKE)),))
        yield _WARPS_MEET
        own = _op("iadd", to, LOWER)
        kept = [ops.Assign(self._tile(0, own), WORD)]
        if self.memory.sort.places:
            kept.append(ops.Assign(self._tile(1, own), self.memory.place(self.way, AT)))
        yield ops.If(_op("ilt", AT, self.memory.sort.size), tuple(kept))

    def _tile(self, which: int, at: ops.Expr) -> ops.Elem:
        """A word of the tile in order, or the place that goes with it."""
        return ops.Elem(SHARED, _op("iadd", at, TILE_AT + which * self.memory.sort.tile))

    def _placed(self) -> Iterator[ops.Stmt]:
        """A word of the tile in order to its place, which its digit says."""
        sort = self.memory.sort
        behind = _op("iadd", _op("imul", BLOCK, sort.tile), HERE)
        to = _op("iadd", ops.Elem(SHARED, DIGIT), HERE)
        put = self.memory.put(self.way, to, WORD, self._tile(1, HERE))
        found = _let(WORD, self._tile(0, HERE)), _let(DIGIT, _digit(WORD, self.way))
        yield ops.If(_op("ilt", behind, sort.size), (*found, *put))
