"""A sort of a tensor by the digits of its words, from the lowest on: a schedule for the grids of a
GPU and one for a core.

Which values come first is said by check/sorting.py, as a network that every target could run; the
order is total, so what comes out does not depend on how it is sorted. Here each value is a word
whose unsigned order is that of the values, and each pass puts the words into the order of eight of
its bits and keeps the order of equal ones. On a grid a block counts the digits of its tile; then
what lies before each tile is added up, in groups of tiles and across the groups; and then a block
knows where its words go: its warps take rows of 32 words one after the other, and the threads of a
row find out who of them has the same digit.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quantdsl.ir import ops
from quantdsl.ir.strands import SORT, called
from quantdsl.ir.threads import WAIT, WARP_BARRIER
from quantdsl.ir.walk import base_name, statements
from quantdsl.passes.blocks import MATCH_DIGIT, ONES, SHARED, WARP, size_of
from quantdsl.passes.scans import BLOCK, ME, THREADS, WARPS, Across, here

DIGIT_BITS = 8
DIGITS = 1 << DIGIT_BITS
"""As many as a block has threads, so that each has one."""
assert DIGITS == THREADS
WORD_BITS = 64
F32_FROM = 24
"""Below this bit the words of binary32 values differ with the sign alone."""
ROUNDS = 16
"""Words of a thread."""
TILE = THREADS * ROUNDS
SIGN, REST = ops.i64(-(2**63)), ops.i64(2**63 - 1)
LANE, WARP_NUMBER, AT, WORD, DIGIT, NEXT = (
    ops.Var(f"sort.{name}") for name in ("lane", "warp", "at", "word", "digit", "next")
)
ALIKE, LOWER, FIRST = (ops.Var(f"sort.{name}") for name in ("alike", "lower", "first"))
"""Of a row: threads with this one's digit, those of them before it, and whether it is the first."""
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
    def blocks(self) -> int:
        """Those that share the values."""
        return -(-self.size // TILE)

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


def _let(place: ops.Var, value: ops.Expr) -> ops.Let:
    return ops.Let(place.name, ops.I64_T, value)


def _folded(bits: ops.Expr) -> ops.Expr:
    """Bits of a float as an int in the order of floats, and back: below 0 the rest turns over."""
    return _op("ixor", bits, _op("iand", _op("ashr", bits, 63), REST))


class Memory(NamedTuple):
    """Where words lie while they are sorted, from `first` of scratch memory on."""

    sort: Sort
    scratch: ops.Var
    first: int

    def part(self, turn: int, which: int, at: ops.Expr) -> ops.Elem:
        """What pass `turn` leaves at a place: a word, or the place that goes with it."""
        count = self.sort.size
        start = self.first + (2 * which + turn % 2) * count
        return ops.Elem(self.scratch, _op("iadd", ops.i64(start), at))

    @property
    def words(self) -> int:
        """Of scratch memory."""
        return 2 * len(self.sort.tensors) * self.sort.size

    def word(self, turn: int, at: ops.Expr) -> ops.Expr:
        """The word that pass `turn` finds at a place."""
        if turn:
            return self.part(turn - 1, 0, at)
        value = ops.Elem(ops.Var(self.sort.values), at)
        bits = value if self.sort.element == "int" else _folded(ops.Unary("bits", value))
        return _op("ixor", bits, SIGN)

    def place(self, turn: int, at: ops.Expr) -> ops.Expr:
        """The place that goes with it; check/sorting.py has numbered them."""
        return self.part(turn - 1, 1, at) if turn else ops.Elem(ops.Var(self.sort.places), at)

    def _value(self, word: ops.Expr) -> ops.Expr:
        bits = _op("ixor", word, SIGN)
        return bits if self.sort.element == "int" else ops.Unary("from_bits", _folded(bits))

    def in_order(self, at: ops.Expr) -> ops.Expr:
        """The value at a place, in order, of a tensor that stays as it is."""
        return self._value(self.part(len(self.sort.shifts) - 1, 0, at))

    def put(self, turn: int, at: ops.Expr, word: ops.Expr, source: ops.Expr) -> Iterator[ops.Stmt]:
        """Pass `turn` leaves a word, which it found at `source`, at a place."""
        last = turn == len(self.sort.shifts) - 1 and not self.sort.apart
        to: ops.Elem = self.part(turn, 0, at)
        value = word
        if last:
            to, value = ops.Elem(ops.Var(self.sort.values), at), self._value(word)
        yield ops.Assign(to, value)
        if self.sort.places:
            beside = ops.Elem(ops.Var(self.sort.places), at) if last else self.part(turn, 1, at)
            yield ops.Assign(beside, self.place(turn, source))


def _before(many: ops.Var, count: ops.Elem) -> tuple[ops.Stmt, ...]:
    """What lies before takes the place of a count, which it takes in."""
    taken = ops.Assign(NEXT, _op("iadd", NEXT, many))
    return (_let(many, count), ops.Assign(count, NEXT), taken)


def _digit(word: ops.Expr, shift: int) -> ops.Expr:
    return _op("iand", _op("lshr", word, shift), DIGITS - 1)


# ---- on a core ---------------------------------------------------------------------------------


def in_turn(memory: Memory, name: str) -> Iterator[ops.Stmt]:
    """The statements of one core; `name` is that of the loop that they stand for."""
    counts, at = ops.Var(f"counts.{name}"), ops.Var(f"at.{name}")
    before, digit = ops.Var(f"before.{name}"), ops.Var(f"digit.{name}")
    size = memory.sort.size
    yield ops.Let(counts.name, ops.ArrayType(ops.I64_T, DIGITS), None)
    yield _let(before, ops.i64(0))
    for turn, shift in enumerate(memory.sort.shifts):
        word = ops.Var(f"word.{turn}.{name}")
        slot, sum_ = ops.Elem(counts, digit), ops.Var(f"sum.{turn}.{name}")
        found = (_let(word, memory.word(turn, at)), _let(digit, _digit(word, shift)))
        every = ops.i64(0), ops.i64(DIGITS)
        yield ops.For(at.name, *every, (ops.Assign(ops.Elem(counts, at), ops.i64(0)),))
        more = ops.Assign(slot, _op("iadd", slot, 1))
        yield ops.For(at.name, ops.i64(0), ops.i64(size), (*found, more))
        yield ops.Assign(before, ops.i64(0))
        own = ops.Elem(counts, at)
        along = (_let(sum_, _op("iadd", before, own)), ops.Assign(own, before))
        yield ops.For(at.name, *every, (*along, ops.Assign(before, sum_)))
        put = memory.put(turn, slot, word, at)
        yield ops.For(at.name, ops.i64(0), ops.i64(size), (*found, *put, more))


# ---- on a grid ---------------------------------------------------------------------------------


ROWS = [ops.Elem(SHARED, _op("iadd", ME, DIGITS * warp)) for warp in range(WARPS)]
"""The count of each warp for the digit that is this thread's."""
OWN_ROW = _op("imul", WARP_NUMBER, DIGITS)


class Launch(NamedTuple):
    """What a thread does in one launch of so many blocks."""

    what: str
    blocks: int
    body: list[ops.Stmt]


SHARED_WORDS = WARPS * DIGITS


def grid_words(sort: Sort) -> int:
    """Words that count, in scratch memory behind those of `Memory`."""
    return DIGITS * (sort.blocks + sort.groups)


def launches(memory: Memory) -> Iterator[Launch]:
    """The launches of a sort, in order."""
    for turn, shift in enumerate(memory.sort.shifts):
        made = _Pass(memory, turn, shift)
        yield Launch("digits", memory.sort.blocks, list(made.digits()))
        yield Launch("along", memory.sort.groups, list(made.along()))
        yield Launch("across", 1, list(made.across()))
        yield Launch("sorted", memory.sort.blocks, list(made.scatter()))


class _Pass(NamedTuple):
    """The launches of one digit."""

    memory: Memory
    turn: int
    shift: int

    def counted(self, tile: ops.Expr, digit: ops.Expr) -> ops.Elem:
        """How many words of a tile have a digit, and then how many of its group before it."""
        memory = self.memory
        at = _op("iadd", _op("imul", tile, DIGITS), digit)
        return ops.Elem(memory.scratch, _op("iadd", at, memory.first + memory.words))

    def grouped(self, group: ops.Expr, digit: ops.Expr) -> ops.Elem:
        """The same of a group of tiles; its place is behind those of all tiles."""
        return self.counted(_op("iadd", group, self.memory.sort.blocks), digit)

    def _rows(self, body: tuple[ops.Stmt, ...]) -> ops.For:
        """The rows of this warp: `body` for each, where AT is this thread's word."""
        first = _op("iadd", _op("imul", BLOCK, TILE), _op("imul", WARP_NUMBER, WARP * ROUNDS))
        row = _op("imul", ops.Var("sort.row"), WARP)
        at = _let(AT, _op("iadd", _op("iadd", first, row), LANE))
        return ops.For("sort.row", ops.i64(0), ops.i64(ROUNDS), (at, *body))

    def _found(self) -> tuple[ops.Stmt, ...]:
        """The word of this thread, and its digit; behind the last one a word of no account."""
        inside = _op("ilt", AT, self.memory.sort.size)
        read = ops.Assign(WORD, self.memory.word(self.turn, AT))
        digit = _let(DIGIT, _digit(WORD, self.shift))
        return (_let(WORD, ops.i64(0)), ops.If(inside, (read,)), digit)

    def _counting(self, counts: ops.Expr) -> ops.For:
        """Count the digits of this warp's words from a word of shared memory on."""
        slot = ops.Elem(SHARED, _op("iadd", counts, DIGIT))
        more = ops.Assign(slot, _op("iadd", slot, ALIKE))
        return self._rows((*self._found(), *self._met(), ops.If(FIRST, (more,)), _WARPS_MEET))

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
        yield _let(LANE, _op("iand", ME, WARP - 1))
        yield _let(WARP_NUMBER, _op("lshr", ME, 5))

    def _counts(self) -> Iterator[ops.Stmt]:
        """How many words of its own each warp has of each digit: a row of shared memory a warp."""
        yield from self._thread()
        yield from (ops.Assign(row, ops.i64(0)) for row in ROWS)
        yield WAIT
        yield self._counting(OWN_ROW)
        yield WAIT

    def digits(self) -> Iterator[ops.Stmt]:
        """How many words of a tile have each digit."""
        yield from self._counts()
        total: ops.Expr = ROWS[0]
        for row in ROWS[1:]:
            total = _op("iadd", total, row)
        yield ops.Assign(self.counted(BLOCK, ME), total)

    def along(self) -> Iterator[ops.Stmt]:
        """A group of tiles, a digit a thread: how many lie in the tiles of it before each one."""
        sort, many, tile = self.memory.sort, ops.Var("sort.many"), ops.Var("sort.tile")
        yield from here()
        first = _op("imul", BLOCK, sort.group)
        last = _op("imin", _op("iadd", first, sort.group), sort.blocks)
        yield _let(NEXT, ops.i64(0))
        yield ops.For(tile.name, first, last, _before(many, self.counted(tile, ME)))
        yield ops.Assign(self.grouped(BLOCK, ME), NEXT)

    def across(self) -> Iterator[ops.Stmt]:
        """One block, a digit a thread: where the words of each group of tiles begin."""
        mine, many, group = ops.Var("sort.mine"), ops.Var("sort.many"), ops.Var("sort.group")
        found, groups = Across("iadd", mine), ops.i64(self.memory.sort.groups)
        own = self.grouped(group, ME)
        yield from here()
        yield _let(mine, ops.i64(0))
        more = ops.Assign(mine, _op("iadd", mine, own))
        yield ops.For(group.name, ops.i64(0), groups, (more,))
        yield from found.statements()
        yield _let(NEXT, found.before)
        yield ops.For(group.name, ops.i64(0), groups, _before(many, own))

    def scatter(self) -> Iterator[ops.Stmt]:
        """Each word to its place, equal digits in the order of their places so far."""
        yield from self._counts()
        group = _op("idiv", BLOCK, self.memory.sort.group)
        yield _let(NEXT, _op("iadd", self.grouped(group, ME), self.counted(BLOCK, ME)))
        for warp, row in enumerate(ROWS):  # of this thread's digit: where each warp begins
            yield from _before(ops.Var(f"sort.many.{warp}"), row)
        yield WAIT
        yield self._rows((*self._found(), *self._met(), *self._placed()))

    def _placed(self) -> Iterator[ops.Stmt]:
        """A row of a warp: behind what it has placed of each digit so far."""
        to, next_ = ops.Var("sort.to"), ops.Elem(SHARED, _op("iadd", OWN_ROW, DIGIT))
        yield _let(to, next_)
        yield _WARPS_MEET
        yield ops.If(FIRST, (ops.Assign(next_, _op("iadd", to, ALIKE)),))
        yield _WARPS_MEET
        inside = _op("ilt", AT, self.memory.sort.size)
        put = self.memory.put(self.turn, _op("iadd", to, LOWER), WORD, AT)
        yield ops.If(inside, tuple(put))
