"""A loop that carries one number along its turns, as three launches that share its turns.

The sum, the least or the largest int so far: operations that come out the same however they are put
together; or the sum of floats, where @fast(order) lets it be another. So each thread folds some
turns in a row, the threads of a block find by shuffles what lies before each of them, and one block
does the same for all blocks. Then every thread knows what its first turn begins with, and makes its
turns as they are written.
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
TURNS = 8
"""Of a thread, in a row: a line of memory, so that none of it is read twice."""
NEUTRAL = {
    "iadd": ops.i64(0),
    "imin": ops.i64(2**63 - 1),
    "imax": ops.i64(-(2**63)),
    "fadd": ops.f64(-0.0),
}
ME, BLOCK = ops.Var("scan.me"), ops.Var("scan.block")


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
    return -(-turns // (THREADS * TURNS))


def launches(scan: Scan, turns: int, place: ops.Place, first: int, slot: int) -> Launches:
    """The launches of a scan of so many turns.

    `place` is scratch memory: a word a block from `first` on, and the last value at `slot`.
    """
    blocks = blocks_of(turns)
    mine = ops.Var("scan.mine")
    fold: list[ops.Stmt] = [
        ops.Assign(scan.carried, NEUTRAL[scan.op]),
        _turns(scan, turns, scan.folded),
        ops.Let(mine.name, scan.kind, scan.carried),
    ]
    found = Across(scan.op, mine)
    totals: list[ops.Stmt] = [*here(), *fold, *found.statements()]
    last = ops.Binary("ieq", ME, ops.i64(THREADS - 1))
    word = ops.Elem(place, ops.Binary("iadd", ops.i64(first), BLOCK))
    total = ops.as_word(_op(scan.op, found.before, mine), scan.kind)
    totals.append(ops.If(last, (ops.Assign(word, total),)))
    at_end = ops.Binary("ieq", ops.Var("scan.end"), ops.i64(turns))
    final = ops.Assign(ops.Elem(place, ops.i64(slot)), ops.as_word(scan.carried, scan.kind))
    body: list[ops.Stmt] = [
        *here(),
        *fold,
        *found.statements(),
        ops.Assign(scan.carried, _op(scan.op, ops.as_value(word, scan.kind), found.before)),
        _turns(scan, turns, scan.body),
        ops.Let("scan.end", ops.I64_T, _end(turns)),
        ops.If(ops.Binary("and", at_end, ops.Binary("ilt", _begin(), ops.i64(turns))), (final,)),
    ]
    return Launches(totals, list(_all_blocks(scan, blocks, place, first)), body)


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
    """Where this thread is."""
    return [
        ops.Let(ME.name, ops.I64_T, ops.Call(THREAD_NUMBER, ())),
        ops.Let(BLOCK.name, ops.I64_T, ops.Call(BLOCK_NUMBER, ())),
    ]


def _begin() -> ops.Expr:
    """This thread's first turn."""
    number = ops.Binary("iadd", ops.Binary("imul", BLOCK, ops.i64(THREADS)), ME)
    return ops.Binary("imul", number, ops.i64(TURNS))


def _end(turns: int) -> ops.Expr:
    """Behind this thread's last turn."""
    return ops.Binary("imin", ops.Binary("iadd", _begin(), ops.i64(TURNS)), ops.i64(turns))


def _turns(scan: Scan, turns: int, body: tuple[ops.Stmt, ...]) -> ops.For:
    here = ops.Let(scan.counter, ops.I64_T, ops.Binary("iadd", scan.lo, ops.Var("scan.turn")))
    return ops.For("scan.turn", _begin(), _end(turns), (here, *body))


def _op(op: str, x: ops.Expr, y: ops.Expr) -> ops.Expr:
    return ops.Binary(op, x, y)


class Across(NamedTuple):
    """What the threads of a block before this one have, put together, from what each has."""

    op: str
    mine: ops.Var

    @property
    def before(self) -> ops.Var:
        """The local that holds it."""
        return ops.Var("scan.before")

    def statements(self) -> Iterator[ops.Stmt]:
        """Shuffles in each warp, then the warps by shared memory; all threads come here."""
        neutral, kind = NEUTRAL[self.op], NEUTRAL[self.op].type
        lane, sum_ = ops.Var("scan.lane"), ops.Var("scan.sum")
        yield ops.Let(lane.name, ops.I64_T, ops.Binary("iand", ME, ops.i64(WARP - 1)))
        yield ops.Let(sum_.name, kind, self.mine)
        for level in range(WARP_LOG2):
            step = 1 << level
            other = ops.Var(f"scan.other.{level}")
            yield ops.Let(other.name, kind, _from(sum_, lane, step, kind))
            both = _op(self.op, other, sum_)
            within = ops.Binary("ige", lane, ops.i64(step))
            yield ops.Assign(sum_, ops.Select(within, both, sum_))
        warp = ops.Binary("lshr", ME, ops.i64(WARP_LOG2))
        last = ops.Binary("ieq", lane, ops.i64(WARP - 1))
        yield ops.Let("scan.left", kind, _from(sum_, lane, 1, kind))
        yield ops.If(last, (ops.Assign(ops.Elem(SHARED, warp), ops.as_word(sum_, kind)),))
        yield WAIT
        none = ops.Binary("ieq", lane, ops.i64(0))
        own = ops.Select(none, neutral, ops.Var("scan.left"))
        yield ops.Let(self.before.name, kind, own)
        for number in range(WARPS):
            earlier = ops.Binary("ilt", ops.i64(number), warp)
            left = ops.as_value(ops.Elem(SHARED, ops.i64(number)), kind)
            value = ops.Select(earlier, left, neutral)
            yield ops.Assign(self.before, _op(self.op, self.before, value))


def _from(value: ops.Expr, lane: ops.Expr, step: int, kind: ops.ScalarType) -> ops.Expr:
    """What the lane `step` below has; of the lowest ones, what nobody looks at."""
    below = ops.Binary("iand", ops.Binary("isub", lane, ops.i64(step)), ops.i64(WARP - 1))
    return ops.as_value(ops.Call(SHUFFLE_FROM, (ops.as_word(value, kind), below)), kind)

