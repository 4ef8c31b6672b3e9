"""A kernel of tensors as launches of grids: each parallel loop of its body is one, or two.

What stands between the loops are numbers, which every thread computes for itself. A loop that
reduces nothing is shared by the threads of a grid. One that reduces is a block for each piece, and
one more for their results (check/parallel.py says in which order). What a launch leaves for later
ones lies in words of scratch memory: the kernel's result first.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from quantdsl.errors import CoreAloneError
from quantdsl.ir import ops, tensors
from quantdsl.ir.strands import (
    BLANK,
    KEPT,
    LEVEL,
    PIECE,
    ROOTS,
    STRAND,
    STRANDS,
    STRANDS_LOG2,
    called,
)
from quantdsl.ir.threads import ATOMIC_CALLS
from quantdsl.ir.walk import ExprMap, base_name, expressions, rebuild_expr, rebuild_stmt, statements
from quantdsl.passes import ranks, scans, sorts
from quantdsl.passes.blocks import (
    BLOCK_NUMBER,
    THREAD_NUMBER,
    added,
    copied,
    scalar_of,
    size_of,
    with_shared,
)
from quantdsl.passes.nests import Loop, Product, affine, loop_of, numbers, product_of
from quantdsl.passes.packs import LINKS, Packs, packed
from quantdsl.passes.thread_grids import DONE, TICKET, blocks_of, grid_form, is_grid
from quantdsl.passes.touches import Told, Touches

THREADS = 256
"""Of a block: the strands of a piece, and as many turns of a loop that reduces nothing."""
GRID_MAX = 4_096
"""Blocks of such a loop; with more turns than they have threads, a thread makes several."""
SCRATCH = ops.Var("scratch")
SCRATCH_PARAM = ops.ParamDecl(SCRATCH.name, tensors.BUFFER, inout=True)
PACKED = ("rows", "columns", "tensor cores")
"""The launches of a product on tensor cores."""
RESULT = 0
"""The word of scratch memory that holds the kernel's result."""


class Stage(NamedTuple):
    """One launch: the code of a thread, or a product that has a schedule of its own."""

    what: str
    grid: int
    func: ops.Func | None = None
    product: Product | None = None
    shared_words: int | None = None
    """Of a function that has shared memory already; None: passes/blocks.py gives it some."""
    threads: int = THREADS
    """Of a block."""
    together: bool = False
    """Whether all blocks are there at once, since they wait for each other."""
    packs: Packs | None = None
    """Of a product on tensor cores: packing its rows, its columns, and the product itself."""
    told: Mapping[str, int] = MappingProxyType({})
    """Numbers that are this launch's own, by the names of their parameters."""


class Stages(NamedTuple):
    """The launches of a kernel, in order, and the words of scratch memory that they need."""

    stages: tuple[Stage, ...]
    scratch_words: int


class _Reduction(Struct):
    """The statements of a loop that reduces, in pieces."""

    roots: list[ops.Let] = field(default_factory=list)
    neutral: tuple[ops.Stmt, ...] = ()
    pieces: ops.For | None = None


def lowered(func: ops.Func, elements: Mapping[str, str]) -> ops.Func:
    """The kernel with its tensors as buffers that ir/tensors.py reads and writes.

    `elements` says what each tensor holds.
    """

    def expr(node: ops.Expr) -> ops.Expr:
        new = rebuild_expr(node, expr)
        if isinstance(new, ops.Elem) and base_name(new) in elements:
            return ops.Call(tensors.load(elements[base_name(new)]), (new.base, new.index))
        return new

    def stmt(inner: ops.Stmt) -> ops.Stmt:
        if isinstance(inner, ops.Assign) and base_name(inner.place) in elements:
            assert isinstance(inner.place, ops.Elem)
            name = tensors.store(elements[base_name(inner.place)])
            index, value = expr(inner.place.index), expr(inner.value)
            return ops.Do(ops.Call(name, (inner.place.base, index, value)), inner.line)
        if isinstance(inner, ops.Do) and copied(inner):
            array, index, tensor, at = inner.call.args
            assert isinstance(array, ops.Var)
            read = ops.Call(tensors.load(elements[base_name(tensor)]), (tensor, expr(at)))
            return ops.Assign(ops.Elem(array, expr(index)), read, inner.line)
        if isinstance(inner, ops.Do) and added(inner) in elements:
            name, scope = ATOMIC_CALLS[inner.call.func.partition("[")[0]]
            tensor, index, value = inner.call.args
            call = ops.Call(tensors.counted(name, scope), (tensor, expr(index), expr(value)))
            return ops.Do(call, inner.line)
        return rebuild_stmt(inner, expr, stmt)

    params = tuple(
        msgspec.structs.replace(param, type=tensors.BUFFER) if param.name in elements else param
        for param in func.params
    )
    return msgspec.structs.replace(func, params=params, body=tuple(map(stmt, func.body)))


class OnCore(NamedTuple):
    """A kernel as one core runs it, with scratch memory where it needs some, of so many words."""

    func: ops.Func
    scratch_words: int


def on_core(func: ops.Func, elements: Mapping[str, str]) -> OnCore:
    """The kernel with its sorts and counts of tensors by digits; all else stays as it is."""
    func, memories, words = ranks.ranked(func, elements, SCRATCH, RESULT + 1)
    made = [new for one in memories for new in sorts.in_turn(one, f"of.{one.sort.values}")]
    for stmt in func.body:
        sort = sorts.sort_of(stmt, func.params, elements)
        if sort is None:
            made.append(stmt)
            continue
        assert isinstance(stmt, ops.For)
        memory = sorts.Memory(sort, SCRATCH, words)
        made += sorts.in_turn(memory, stmt.name)
        words += memory.words
    params = func.params if words == RESULT + 1 else (*func.params, SCRATCH_PARAM)
    return OnCore(msgspec.structs.replace(func, params=params, body=tuple(made)), words)


def staged(
    func: ops.Func,
    elements: Mapping[str, str],
    threads: int,
    *,
    fast: str = "",
    watched: bool = False,
) -> Stages:
    """The launches of a linked kernel of tensors; `threads` are those of a block, if it says so.

    `fast` is what tensor cores may round the factors of products of f32 to, or ORDER. Raises
    CoreAloneError where its body is more than parallel loops and numbers.
    """
    stager = _Stager(func, elements, fast)
    return stager.of_threads(threads, watched=watched) if is_grid(func) else stager.run()


def grid_blocks(func: ops.Func) -> int:
    """How many blocks a linked kernel of threads over tensors launches."""
    blocks = _known(blocks_of(func), numbers(func.body))
    assert blocks is not None
    return blocks


class _Stager:
    def __init__(self, func: ops.Func, elements: Mapping[str, str], fast: str) -> None:
        self.func, self.elements, self.fast = func, elements, fast
        self.written = {param.name for param in func.params if param.inout}
        self.known = numbers(func.body)
        self.before: list[ops.Stmt] = []
        self.stages: list[Stage] = []
        self.words = RESULT + 1
        self.slots: dict[str, int] = {}  # where the results of reductions lie
        self.kinds: dict[str, ops.ScalarType] = {}

    def run(self) -> Stages:
        self.func, memories, self.words = ranks.ranked(
            self.func, self.elements, SCRATCH, RESULT + 1
        )
        for memory in memories:
            self.sort(memory)
        found = _Reduction()
        for stmt in self.func.body:
            loop, carried = loop_of(stmt), self.scan_of(stmt)
            turns = None if carried is None else self.turns_of(carried)
            if loop is not None:
                self.grid(loop)
            elif (sort := sorts.sort_of(stmt, self.func.params, self.elements)) is not None:
                memory = sorts.Memory(sort, SCRATCH, self.words)
                self.words += memory.words + sorts.grid_words(sort)
                self.sort(memory)
            elif carried is not None and turns is not None:
                self.scan(carried, turns)
            elif isinstance(stmt, ops.Let) and called(stmt.name, ROOTS):
                found.roots.append(stmt)
            elif isinstance(stmt, ops.For) and called(stmt.name, BLANK):
                found.neutral = stmt.body
            elif isinstance(stmt, ops.For) and called(stmt.name, PIECE):
                found.pieces = stmt
            elif isinstance(stmt, ops.For) and called(stmt.name, LEVEL):
                self.reduction(found, stmt)
                found = _Reduction()
            elif isinstance(stmt, ops.Return):
                self.result(stmt)
            else:
                self.number(stmt)
        return Stages(tuple(self.stages), self.words)

    def of_threads(self, threads: int, *, watched: bool) -> Stages:
        """One launch of a kernel that says what its threads do; before it, words that count."""
        blocks = grid_blocks(self.func)
        made = grid_form(self.func, threads, blocks, SCRATCH)
        body = list(made.body)
        if watched:
            body = list(Touches(self._told()).body(made.body))
        func = with_shared(self.entry(body))
        if made.in_turn or made.meets:
            self.words = DONE + 1
            zeros: list[ops.Stmt] = [
                ops.Assign(ops.Elem(SCRATCH, ops.i64(word)), ops.i64(0)) for word in (TICKET, DONE)
            ]
            self.stages.append(Stage("zeros", 1, self.entry([_first_thread(zeros)])))
        self.stages.append(
            Stage(
                "threads", blocks, func, None, made.shared_words, threads, together=made.meets
            )
        )
        return Stages(tuple(self.stages), self.words)

    def _told(self) -> dict[str, Told]:
        """The tensors, as the simulated device is told of them."""
        params = self.func.params
        sizes = [(p.name, p.type) for p in params if p.name in self.elements]
        return {
            name: Told(number, size_of(type_))
            for number, (name, type_) in enumerate(sizes)
            if isinstance(type_, ops.ArrayType)
        }

    # ---- the parts ----

    def number(self, stmt: ops.Stmt) -> None:
        """What every thread computes for itself."""
        parts = list(statements((stmt,)))
        odd = any(isinstance(part, ops.For | ops.While | ops.Return | ops.Do) for part in parts)
        assigned = {base_name(part.place) for part in parts if isinstance(part, ops.Assign)}
        read = {base_name(e) for e in expressions((stmt,)) if isinstance(e, ops.Elem)}
        writes, reads = assigned & set(self.elements), read & self.written
        array = isinstance(stmt, ops.Let) and not isinstance(stmt.type, str)
        if odd or writes or reads or array:
            line = getattr(stmt, "line", 0)
            raise CoreAloneError(
                f"kernel {self.func.name.partition('[')[0].rpartition('.')[2]}, line {line}: on a "
                "device a kernel of tensors is parallel loops, and numbers between them that no "
                "loop makes\nhelp: make a parallel loop of it, or run the kernel with device='cpu'"
            )
        self.before.append(stmt)

    def grid(self, loop: Loop) -> None:
        """A loop that reduces nothing."""
        product = product_of(loop, self.known)
        if product is not None and _stored_as(product, self.elements):
            self.product(product)
            return
        count = _known(loop.turns, self.known)
        inner = _flat(loop, self.known, set(self.elements)) if count else None
        turns, here = loop.turns, ops.Var("here")
        counters = [ops.Let(loop.counter, ops.I64_T, ops.Binary("iadd", loop.low, here))]
        body = loop.body
        if inner is not None and count is not None:
            (across,) = loop.body
            assert isinstance(across, ops.For)
            many = ops.i64(inner)
            down = ops.Binary("iadd", loop.low, ops.Binary("idiv", here, many))
            along = ops.Binary("iadd", across.lo, ops.Binary("imod", here, many))
            counters = [
                ops.Let(loop.counter, ops.I64_T, down),
                ops.Let(across.name, ops.I64_T, along),
            ]
            body, count, turns = across.body, count * inner, ops.i64(count * inner)
        blocks = GRID_MAX if count is None else min(-(-count // THREADS), GRID_MAX)
        if blocks > 0:
            self.stages.append(Stage("loop", blocks, self.entry(
                [*self.before, *_shared(turns, blocks, (*counters, *body))]
            )))  # fmt: skip

    def product(self, product: Product) -> None:
        """A matrix product, in order or as @fast lets it be."""
        if self.fast not in LINKS or not product.single:
            self.stages.append(Stage("product", 0, product=product))
            return
        packs = packed(product, self.fast, self.words)
        self.words = packs.b.first + packs.b.words
        self.stages += [Stage(what, 0, packs=packs) for what in PACKED]

    def scan_of(self, stmt: ops.Stmt) -> scans.Scan | None:
        """The scan that a loop is, whose turns threads may share."""
        return scans.scan_of(stmt, self.written, any_order=self.fast == tensors.ORDER)

    def turns_of(self, scan: scans.Scan) -> int | None:
        """How many turns a scan has, where sizes alone say so."""
        lo, hi = _known(scan.lo, self.known), _known(scan.hi, self.known)
        return None if lo is None or hi is None else max(hi - lo, 0)

    def scan(self, scan: scans.Scan, turns: int) -> None:
        """A loop that carries an int along: a grid for what blocks add up to, a block, a grid."""
        blocks = scans.blocks_of(turns)
        if not blocks:
            return
        slot, first = self.words, self.words + 1
        made = scans.launches(scan, turns, SCRATCH, first, slot)
        for what, grid, body in zip(
            ("totals", "across", "turns"), (blocks, 1, blocks), made, strict=True
        ):
            func = with_shared(self.entry([*self.before, *body]))
            self.stages.append(Stage(what, grid, func, shared_words=scans.SHARED_WORDS))
        last = ops.as_value(ops.Elem(SCRATCH, ops.i64(slot)), scan.kind)
        self.before.append(ops.Assign(scan.carried, last))
        self.words = first + scans.words_of(turns)

    def sort(self, memory: sorts.Memory) -> None:
        """A sort of a tensor: some grids for each digit."""
        for what, grid, words, body, told in sorts.launches(memory):
            func = with_shared(self.entry(body, told))
            self.stages.append(Stage(what, grid, func, shared_words=words, told=told))

    def reduction(self, found: _Reduction, tree: ops.For) -> None:
        """A loop that reduces: a block for each piece, then one for what they leave."""
        assert found.pieces is not None
        pieces = _known(found.pieces.hi, self.known)
        if pieces is None:
            raise CoreAloneError(
                f"kernel {self.func.name.partition('[')[0].rpartition('.')[2]}, line "
                f"{found.pieces.line}: on a device the number of turns that reduce follows from "
                "sizes\nhelp: make the parameter that it depends on a const int"
            )
        pieces = max(pieces, 0)
        count = len(found.roots)
        body, takes = found.pieces.body[:-count], found.pieces.body[-count:]
        leave: list[ops.Stmt] = []
        first = self.words + count
        for n, (let, take) in enumerate(zip(found.roots, takes, strict=True)):
            assert isinstance(let.type, ops.ArrayType)
            assert isinstance(take, ops.Assign)
            kind = scalar_of(let.type)
            self.slots[let.name], self.kinds[let.name] = self.words + n, kind
            at = ops.Binary("iadd", ops.i64(first + n * pieces), ops.Var(found.pieces.name))
            leave.append(ops.Assign(ops.Elem(SCRATCH, at), ops.as_word(_part(take), kind)))
        piece = ops.Let(found.pieces.name, ops.I64_T, ops.Call(BLOCK_NUMBER, ()))
        one = self.entry([*self.before, piece, *body, _first_thread(leave)])
        if pieces:
            self.stages.append(Stage("pieces", pieces, one))
        self.stages.append(Stage("roots", 1, self.entry(self.roots(found, takes, tree, pieces))))
        self.words = first + count * pieces

    def roots(
        self, found: _Reduction, takes: tuple[ops.Stmt, ...], tree: ops.For, pieces: int
    ) -> list[ops.Stmt]:
        """One block that reduces the results of the pieces, as though they were turns."""
        strand, turn, piece = f"{STRAND}.roots", "turn.roots", "piece.roots"
        first = self.words + len(takes)
        own: list[ops.Stmt] = []
        turns: list[ops.Stmt] = []
        kept: list[ops.Stmt] = []
        leave: list[ops.Stmt] = []
        names = {let.name: f"{KEPT}.{let.name}" for let in found.roots}
        made: list[ops.Stmt] = []
        for n, (let, neutral, take) in enumerate(
            zip(found.roots, found.neutral, takes, strict=True)
        ):
            assert isinstance(neutral, ops.Assign)
            assert isinstance(take, ops.Assign)
            kind = self.kinds[let.name]
            mine = ops.Var(f"own.{let.name}")
            at = ops.Binary("iadd", ops.i64(first + n * pieces), ops.Var(piece))
            part = ops.as_value(ops.Elem(SCRATCH, at), kind)
            value = _with({take.place: mine, _part(take): part})(take.value)
            made.append(ops.Let(names[let.name], let.type, None))
            own.append(ops.Let(mine.name, kind, neutral.value))
            turns.append(ops.Assign(mine, value))
            stored = ops.Elem(ops.Var(names[let.name]), ops.Var(strand))
            kept.append(ops.Assign(stored, mine))
            top = ops.Elem(ops.Var(names[let.name]), ops.i64(0))
            slot = ops.Elem(SCRATCH, ops.i64(self.slots[let.name]))
            leave.append(ops.Assign(slot, ops.as_word(top, kind)))
        ahead = ops.Binary("shl", ops.Var(turn), ops.i64(STRANDS_LOG2))
        here = ops.Let(piece, ops.I64_T, ops.Binary("iadd", ops.Var(strand), ahead))
        left = ops.Binary("isub", ops.i64(pieces + STRANDS - 1), ops.Var(strand))
        many = ops.Binary("ashr", left, ops.i64(STRANDS_LOG2))
        loop = ops.For(turn, ops.i64(0), many, (here, *turns))
        strands = ops.For(strand, ops.i64(0), ops.i64(STRANDS), (*own, loop, *kept))
        renamed = _with({ops.Var(old): ops.Var(new) for old, new in names.items()})
        return [*made, strands, _mapped(tree, renamed), _first_thread(leave)]

    def result(self, stmt: ops.Return) -> None:
        """What the kernel returns, computed from the results of its loops."""
        if stmt.value is None:
            return
        assert isinstance(self.func.result, str)
        word = ops.as_word(stmt.value, self.func.result)
        left = ops.Assign(ops.Elem(SCRATCH, ops.i64(RESULT)), word)
        self.stages.append(Stage("result", 1, self.entry([*self.before, _first_thread([left])])))

    def entry(self, body: list[ops.Stmt], told: Iterable[str] = ()) -> ops.Func:
        """A launch's code, which is `told` ints by name: what is behind a reduction reads its
        result from scratch memory.
        """
        roots: dict[ops.Expr, ops.Expr] = {
            ops.Elem(ops.Var(name), ops.i64(0)): ops.as_value(
                ops.Elem(SCRATCH, ops.i64(slot)), self.kinds[name]
            )
            for name, slot in self.slots.items()
        }
        read = _with(roots)
        made = tuple(_mapped(stmt, read) for stmt in body)
        own = (ops.ParamDecl(name, ops.I64_T) for name in told)
        whole = ops.Func("batch", (*self.func.params, *own, SCRATCH_PARAM), None, made)
        return lowered(whole, self.elements)


def _part(take: ops.Assign) -> ops.Expr:
    """What a piece adds to its strand: the root of its own tree."""
    return next(
        node
        for node in expressions((take,))
        if isinstance(node, ops.Elem) and called(base_name(node), KEPT)
    )


def _with(known: Mapping[ops.Expr, ops.Expr]) -> ExprMap:
    """Expressions with some of them replaced."""

    def expr(node: ops.Expr) -> ops.Expr:
        return known[node] if node in known else rebuild_expr(node, expr)

    return expr


def _mapped(stmt: ops.Stmt, expr: ExprMap) -> ops.Stmt:
    return rebuild_stmt(stmt, expr, lambda inner: _mapped(inner, expr))


def _first_thread(body: list[ops.Stmt]) -> ops.If:
    first = ops.Binary("ieq", ops.Call(THREAD_NUMBER, ()), ops.i64(0))
    return ops.If(first, tuple(body))


def _shared(
    turns: ops.Expr, blocks: int, body: tuple[ops.Stmt, ...]
) -> Iterator[ops.Stmt]:
    """Turns that the threads of a grid share: a thread's are as many apart as there are threads."""
    number = ops.Binary("imul", ops.Call(BLOCK_NUMBER, ()), ops.i64(THREADS))
    me, total = ops.Var("me"), ops.i64(THREADS * blocks)
    yield ops.Let(me.name, ops.I64_T, ops.Binary("iadd", number, ops.Call(THREAD_NUMBER, ())))
    up = ops.Binary("iadd", ops.Binary("isub", turns, me), ops.i64(THREADS * blocks - 1))
    ahead = ops.Binary("imul", ops.Var("round"), total)
    here = ops.Let("here", ops.I64_T, ops.Binary("iadd", me, ahead))
    yield ops.For("round", ops.i64(0), ops.Binary("idiv", up, total), (here, *body))


_EXACT = {"ashr": operator.rshift, "idiv": operator.floordiv, "imul": operator.mul}
"""Of numbers from 0 on, and by no zero."""


def _known(expr: ops.Expr, known: Mapping[str, dict[str, int]]) -> int | None:
    """A number that sizes alone decide."""
    if isinstance(expr, ops.Binary) and expr.op in _EXACT:
        x, y = _known(expr.x, known), _known(expr.y, known)
        return None if x is None or y is None else _EXACT[expr.op](x, y)
    value = affine(expr, known)
    return value.get("", 0) if value is not None and not set(value) - {""} else None


def _flat(loop: Loop, known: Mapping[str, dict[str, int]], names: set[str]) -> int | None:
    """The turns of the one loop inside, where a thread may have one turn of that: None if not.

    No two turns of it may come to one element that one of them writes.
    """
    across = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(across, ops.For):
        return None
    lo, hi = _known(across.lo, known), _known(across.hi, known)
    if lo is None or hi is None or hi <= lo:
        return None
    parts = list(statements(across.body))
    if any(isinstance(part, ops.Break | ops.Return) for part in parts):
        return None
    places = {part.place for part in parts if isinstance(part, ops.Assign)}
    places = {place for place in places if base_name(place) in names}
    counters = {loop.counter: {loop.counter: 1}, across.name: {across.name: 1}}
    for place in places:
        assert isinstance(place, ops.Elem)
        steps = affine(place.index, {**known, **counters})
        seen = {e for e in expressions(across.body) if isinstance(e, ops.Elem)}
        alone = {e for e in seen if base_name(e) == base_name(place)} <= {place}
        if steps is None or not alone or set(steps) - {loop.counter, across.name, ""}:
            return None
        down, along = abs(steps.get(loop.counter, 0)), abs(steps.get(across.name, 0))
        if not along or down < along * (hi - lo):
            return None
    return hi - lo


def _stored_as(product: Product, elements: Mapping[str, str]) -> bool:
    """Whether all three matrices lie in memory as the product computes them."""
    wanted = "f32" if product.single else "float"
    return {elements.get(one.name) for one in (product.a, product.b, product.c)} == {wanted}
