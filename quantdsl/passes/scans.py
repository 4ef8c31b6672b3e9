"""A loop that carries one number along its turns, as three launches that share its turns.

The sum, the least or the largest int so far: operations that come out the same however they are put
together; or the sum of floats, where @fast(order) lets it be another. A warp has rows of turns, in
which its threads are neighbours, so that they read and write whole lines of memory. First each warp
folds its rows, and its block finds what lies before each of its warps; then one block does the same
for all blocks. Then every warp knows what its first row begins with: row by row its threads find by
shuffles what lies before each of them, and make their turns as they are written.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quantdsl.ir import ops
from quantdsl.ir.threads import WAIT
from quantdsl.ir.walk import base_name, expressions
from quantdsl.passes.blocks import (
    BLOCK_NUMBER,
    SHARED,
    SHUFFLE_FROM,
    THREAD_NUMBER,
    WARP,
    WARP_LOG2,
)

THREADS = 256
"""Of a block."""
WARPS = THREADS // WARP
ROWS_MIN = 8
"""Of a warp; more where there would be more than BLOCKS_MAX, which one block goes through."""
BLOCKS_MAX = 8_192
NEUTRAL = {
    "iadd": ops.i64(0),
    "imin": ops.i64(2**63 - 1),
    "imax": ops.i64(-(2**63)),
    "fadd": ops.f64(-0.0),
}
ME, BLOCK, LANE = ops.Var("scan.me"), ops.Var("scan.block"), ops.Var("scan.lane")


class Scan(NamedTuple):
    """A loop over `counter` in lo ..< hi; one assignment in `body` takes `part` into `carried`."""

    counter: str
    lo: ops.Expr
    hi: ops.Expr
    body: tuple[ops.Stmt, ...]
    carried: ops.Var
    op: str

    @property
    def kind(self) -> ops.ScalarType:
        """Of what it carries."""
        return NEUTRAL[self.op].type

    @property
    def folded(self) -> tuple[ops.Stmt, ...]:
        """A turn without what it writes to tensors."""
        kept = (ops.Let, ops.Assign)
        return tuple(
            stmt
            for stmt in self.body
            if isinstance(stmt, kept)
            and (not isinstance(stmt, ops.Assign) or stmt.place == self.carried)
        )


def scan_of(stmt: ops.Stmt, written: set[str], *, any_order: bool) -> Scan | None:
    """The scan that a loop is, or None; `written` are the tensors that the kernel writes.

    One whose result is another in another order is one only where `any_order` lets it be.
    """
    if not isinstance(stmt, ops.For):
        return None
    takes = [s for s in stmt.body if isinstance(s, ops.Assign) and isinstance(s.place, ops.Var)]
    if len(takes) != 1:
        return None
    (take,) = takes
    value, carried = take.value, take.place
    assert isinstance(carried, ops.Var)
    if not isinstance(value, ops.Binary) or value.op not in NEUTRAL:
        return None
    if value.op == "fadd" and not any_order:
        return None
    part = value.y if value.x == carried else value.x
    if carried not in (value.x, value.y) or carried in _all(part):
        return None
    places: list[ops.Expr] = []
    for one in stmt.body:
        if one is take:
            continue
        if isinstance(one, ops.Let) and isinstance(one.type, str) and one.value is not None:
            if carried in _all(one.value):
                return None
        elif isinstance(one, ops.Assign) and isinstance(one.place, ops.Elem):
            places.append(one.place)
        else:
            return None
    if any(place.index != ops.Var(stmt.name) for place in places if isinstance(place, ops.Elem)):
        return None  # only its own element is a turn's own, wherever that lies
    given = [s.value for s in stmt.body if isinstance(s, ops.Let | ops.Assign) and s.value]
    read = {base_name(e) for value in given for e in _all(value) if isinstance(e, ops.Elem)}
    if read & written:
        return None
    return Scan(stmt.name, stmt.lo, stmt.hi, stmt.body, carried, value.op)


def _all(expr: ops.Expr) -> set[ops.Expr]:
    return set(expressions((ops.Return(expr),)))


class Launches(NamedTuple):
    """Bodies of the three launches; the second is one block."""

    totals: list[ops.Stmt]
    across: list[ops.Stmt]
    turns: list[ops.Stmt]


SHARED_WORDS = WARPS


def blocks_of(turns: int) -> int:
    """The blocks that share so many turns."""
    return -(-turns // (THREADS * _rows_of(turns)))


def words_of(turns: int) -> int:
    """Words of scratch memory for so many turns: one a block, and one a warp behind them."""
    return blocks_of(turns) * (1 + WARPS)


def launches(scan: Scan, turns: int, place: ops.Place, first: int, slot: int) -> Launches:
    """The launches of a scan of so many turns.

    `place` is scratch memory: `words_of` it from `first` on, and the last value at `slot`.
    """
    made = _Rows(scan, turns, place, first)
    blocks = blocks_of(turns)
    return Launches(
        list(made.totals()), list(_all_blocks(scan, blocks, place, first)), list(made.all(slot))
    )


def _rows_of(turns: int) -> int:
    """Those of each warp."""
    rows = ROWS_MIN
    while rows * THREADS * BLOCKS_MAX < turns:
        rows *= 2
    return rows


class _Rows(NamedTuple):
    """The launches whose warps go through rows of turns."""

    scan: Scan
    turns: int
    place: ops.Place
    first: int

    @property
    def before_block(self) -> ops.Elem:
        """What a block leaves, and what then lies before it."""
        return ops.Elem(self.place, ops.Binary("iadd", ops.i64(self.first), BLOCK))

    @property
    def before_warp(self) -> ops.Elem:
        """What lies before a warp in its block."""
        behind = ops.i64(self.first + blocks_of(self.turns))
        return ops.Elem(self.place, ops.Binary("iadd", behind, _warp()))

    def totals(self) -> Iterator[ops.Stmt]:
        """What each block has, and what lies in it before each of its warps."""
        scan, mine = self.scan, ops.Var("scan.mine")
        found = Across(scan.op, mine)
        yield from here()
        yield ops.Assign(scan.carried, NEUTRAL[scan.op])
        yield self._each((self._inside(scan.folded),))
        yield ops.Let(mine.name, scan.kind, scan.carried)
        yield from found.statements()
        begins = ops.Binary("ieq", LANE, ops.i64(0))
        yield ops.If(begins, (ops.Assign(self.before_warp, ops.as_word(found.before, scan.kind)),))
        last = ops.Binary("ieq", ME, ops.i64(THREADS - 1))
        total = ops.as_word(ops.Binary(scan.op, found.before, mine), scan.kind)
        yield ops.If(last, (ops.Assign(self.before_block, total),))

    def all(self, slot: int) -> Iterator[ops.Stmt]:
        """Every turn as it is written; the last one leaves what is carried in the end."""
        scan, carry, mine = self.scan, ops.Var("scan.carry"), ops.Var("scan.mine")
        found = InWarp(scan.op, mine)
        words = (ops.as_value(word, scan.kind) for word in (self.before_block, self.before_warp))
        left = ops.Assign(ops.Elem(self.place, ops.i64(slot)), ops.as_word(scan.carried, scan.kind))
        at_end = ops.Binary("ieq", ops.Var("scan.turn"), ops.i64(self.turns - 1))
        of_row = _from(found.sum, ops.i64(WARP - 1), scan.kind)
        yield from here()
        yield ops.Let(carry.name, scan.kind, ops.Binary(scan.op, *words))
        yield self._each((
            ops.Assign(scan.carried, NEUTRAL[scan.op]),
            self._inside(scan.folded),
            ops.Let(mine.name, scan.kind, scan.carried),
            *found.statements(),
            ops.Assign(scan.carried, ops.Binary(scan.op, carry, found.before)),
            self._inside((*scan.body, ops.If(at_end, (left,)))),
            ops.Assign(carry, ops.Binary(scan.op, carry, of_row)),
        ))  # fmt: skip

    def _each(self, body: tuple[ops.Stmt, ...]) -> ops.For:
        """Each row of this warp; a thread has one turn of it, if there are so many."""
        rows = _rows_of(self.turns)
        first = ops.Binary("imul", _warp(), ops.i64(rows * WARP))
        row = ops.Binary("imul", ops.Var("scan.row"), ops.i64(WARP))
        turn = ops.Binary("iadd", ops.Binary("iadd", first, row), LANE)
        told = ops.Let("scan.turn", ops.I64_T, turn)
        return ops.For("scan.row", ops.i64(0), ops.i64(rows), (told, *body))

    def _inside(self, body: tuple[ops.Stmt, ...]) -> ops.If:
        turn, scan = ops.Var("scan.turn"), self.scan
        counter = ops.Let(scan.counter, ops.I64_T, ops.Binary("iadd", scan.lo, turn))
        return ops.If(ops.Binary("ilt", turn, ops.i64(self.turns)), (counter, *body))


def _all_blocks(scan: Scan, blocks: int, place: ops.Place, first: int) -> Iterator[ops.Stmt]:
    """One block: what lies before each block, what the loop begins with among it."""
    mine, carry, at = ops.Var("scan.mine"), ops.Var("scan.carry"), ops.Var("scan.at")
    word = ops.Elem(place, ops.Binary("iadd", ops.i64(first), at))
    inside = ops.Binary("ilt", at, ops.i64(blocks))
    found = Across(scan.op, mine)
    yield from here()
    yield ops.Let(carry.name, scan.kind, scan.carried)
    ahead = ops.Binary("imul", ops.Var("scan.round"), ops.i64(THREADS))
    all_of_them: ops.Expr = carry
    for warp in range(WARPS):
        of_warp = ops.as_value(ops.Elem(SHARED, ops.i64(warp)), scan.kind)
        all_of_them = _op(scan.op, all_of_them, of_warp)
    before = _op(scan.op, carry, found.before)
    body: list[ops.Stmt] = [
        ops.Let(at.name, ops.I64_T, ops.Binary("iadd", ME, ahead)),
        ops.Let(mine.name, scan.kind, NEUTRAL[scan.op]),
        ops.If(inside, (ops.Assign(mine, ops.as_value(word, scan.kind)),)),
        *found.statements(),
        ops.If(inside, (ops.Assign(word, ops.as_word(before, scan.kind)),)),
        ops.Assign(carry, all_of_them),
        WAIT,
    ]
    yield ops.For("scan.round", ops.i64(0), ops.i64(-(-blocks // THREADS)), tuple(body))


def here() -> list[ops.Stmt]:
    """Where this thread is: in its block, of the blocks, and in its warp."""
    return [
        ops.Let(ME.name, ops.I64_T, ops.Call(THREAD_NUMBER, ())),
        ops.Let(BLOCK.name, ops.I64_T, ops.Call(BLOCK_NUMBER, ())),
        ops.Let(LANE.name, ops.I64_T, ops.Binary("iand", ME, ops.i64(WARP - 1))),
    ]


def _warp() -> ops.Expr:
    """The number of this warp among those of all blocks."""
    in_block = ops.Binary("lshr", ME, ops.i64(WARP_LOG2))
    return ops.Binary("iadd", ops.Binary("imul", BLOCK, ops.i64(WARPS)), in_block)


def _op(op: str, x: ops.Expr, y: ops.Expr) -> ops.Expr:
    return ops.Binary(op, x, y)


class InWarp(NamedTuple):
    """What the threads of a warp before this one have, put together, from what each has."""

    op: str
    mine: ops.Var

    @property
    def kind(self) -> ops.ScalarType:
        """Of what they have."""
        return NEUTRAL[self.op].type

    @property
    def sum(self) -> ops.Var:
        """The local that holds what they and this one have."""
        return ops.Var("scan.sum")

    @property
    def before(self) -> ops.Var:
        """The local that holds it."""
        return ops.Var("scan.before")

    def statements(self) -> Iterator[ops.Stmt]:
        """Shuffles, behind `here`; all threads of the warp come to them."""
        yield ops.Let(self.sum.name, self.kind, self.mine)
        for level in range(WARP_LOG2):
            step = 1 << level
            other = ops.Var(f"scan.other.{level}")
            yield ops.Let(other.name, self.kind, self._below(step))
            within = ops.Binary("ige", LANE, ops.i64(step))
            both = _op(self.op, other, self.sum)
            yield ops.Assign(self.sum, ops.Select(within, both, self.sum))
        yield ops.Let("scan.left", self.kind, self._below(1))
        none = ops.Binary("ieq", LANE, ops.i64(0))
        own = ops.Select(none, NEUTRAL[self.op], ops.Var("scan.left"))
        yield ops.Let(self.before.name, self.kind, own)

    def _below(self, step: int) -> ops.Expr:
        """The sum of the thread `step` below; of the lowest ones, what nobody looks at."""
        below = ops.Binary("iand", _op("isub", LANE, ops.i64(step)), ops.i64(WARP - 1))
        return _from(self.sum, below, self.kind)


class Across(NamedTuple):
    """What the threads of a block before this one have, put together, from what each has."""

    op: str
    mine: ops.Var
    first: int = 0
    """Of WARPS words of shared memory."""

    @property
    def before(self) -> ops.Var:
        """The local that holds it."""
        return InWarp(self.op, self.mine).before

    def statements(self) -> Iterator[ops.Stmt]:
        """In each warp, then the warps by shared memory; behind `here`, where all threads come."""
        found = InWarp(self.op, self.mine)
        yield from found.statements()
        warp = ops.Binary("lshr", ME, ops.i64(WARP_LOG2))
        last = ops.Binary("ieq", LANE, ops.i64(WARP - 1))
        left = ops.as_word(found.sum, found.kind)
        own = ops.Elem(SHARED, _op("iadd", warp, ops.i64(self.first)))
        yield ops.If(last, (ops.Assign(own, left),))
        yield WAIT
        for number in range(WARPS):
            earlier = ops.Binary("ilt", ops.i64(number), warp)
            of_warp = ops.as_value(ops.Elem(SHARED, ops.i64(self.first + number)), found.kind)
            value = ops.Select(earlier, of_warp, NEUTRAL[self.op])
            yield ops.Assign(self.before, _op(self.op, self.before, value))


def _from(value: ops.Expr, lane: ops.Expr, kind: ops.ScalarType) -> ops.Expr:
    """What a lane of the warp has."""
    return ops.as_value(ops.Call(SHUFFLE_FROM, (ops.as_word(value, kind), lane)), kind)
