"""The words of a kernel of threads: numbers, shared memory, barriers, warps; see also atomics.py.

Such a kernel says what each thread of a block does, and `@workgroup(x, y, z)` how many there are. A
call of it is one block, and of a kernel of tensors as many as `@grid` says. Its body is elaborated
as one thread runs it; check/phases.py makes loops over the threads of that.
"""

from quantdsl.check import atomics, naming, sizes
from quantdsl.check.arith import an, coerce
from quantdsl.check.bindings import Binding, Local
from quantdsl.check.context import Context, any_bad
from quantdsl.check.thread_base import AXES, Word, nothing, number
from quantdsl.check.types import BOOL, F32, FLOAT, INT, Type, ir_type, stored
from quantdsl.check.values import Value, error_value
from quantdsl.check.waits import BLOCK, ID, Mark, waiting
from quantdsl.ir import ops
from quantdsl.ir import threads as form
from quantdsl.ir.strands import called
from quantdsl.ir.walk import base_name
from quantdsl.lang import ast

LATER = {
    "mma": "a matrix product is c[i, j] = fma(a[i, k], b[k, j], c[i, j]) in three loops; above "
    "a kernel of that, @fast(bf16) lets it run on tensor cores",
}
"""Words that are not built -> what is there instead."""
NUMBERS = range(1, 16)
"""Of barriers, on every GPU; 0 is that of the whole block."""
WIDTHS = (2, 4, 8, 16, 32)


class Axes(Binding):
    """`thread`, `block`, `block_size`, `grid`: a number along x, y and z."""

    what = "three numbers"
    has_members = True
    builtin = "free"

    def __init__(self, name: str) -> None:
        self.name = name

    def members(self) -> list[str]:
        """The axes."""
        return list(AXES)

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """Only one of them is a number."""
        return cx.error("QD0203", f"this is {self.what}", node.span, help=f"write {self.name}.x")

    def attr(self, cx: Context, node: ast.Attr) -> Value:
        """`thread.x`."""
        if node.name not in AXES:
            return super().attr(cx, node)
        cx.threads.use(node)
        axis, dims = AXES.index(node.name), cx.threads.dims
        if self.name in ("block", "grid") and cx.threads.grid:
            return _of_grid(cx, node, self.name, axis)
        if self.name != "thread":
            known = {"block": 0, "grid": 1}.get(self.name, dims[axis])
            return Value(INT, ops.i64(known), node.span, low=known, high=known, const=known)
        below = dims[0] if axis else 1
        below *= dims[1] if axis == 2 else 1
        which: ops.Expr = ID
        if below > 1:
            which = ops.Binary("idiv", which, ops.i64(below))
        if axis < 2 and cx.threads.count > below * dims[axis]:
            which = ops.Binary("imod", which, ops.i64(dims[axis]))
        return number(ops.i64(0) if dims[axis] == 1 else which, node, dims[axis] - 1)


def _of_grid(cx: Context, node: ast.Attr, name: str, axis: int) -> Value:
    """`block.x` and `grid.x`, where a launch has several blocks; x goes fastest."""
    grid = cx.threads.grid
    own = grid[axis]
    if name == "grid":
        return Value(INT, own.ir, node.span, own.low, own.high, const=own.const)
    if own.const == 1:
        return Value(INT, ops.i64(0), node.span, low=0, high=0, const=0)
    at: ops.Expr = BLOCK
    for before in grid[:axis]:
        if before.const != 1:
            at = ops.Binary("idiv", at, before.ir)
    if any(after.const != 1 for after in grid[axis + 1 :]):
        at = ops.Binary("imod", at, own.ir)
    assert own.high is not None
    return number(at, node, sizes.sub(own.high, 1))


class Place(Binding):
    """`lane` and `warp`: where in the block a thread is."""

    what = "a number"
    builtin = "free"

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """The number."""
        cx.threads.use(node)
        if self.name == "lane":
            return number(ops.Binary("iand", ID, ops.i64(form.WARP - 1)), node, form.WARP - 1)
        warps = cx.threads.count // form.WARP
        return number(ops.Binary("lshr", ID, ops.i64(5)), node, max(warps - 1, 0))


class Later(Binding):
    """A word that is not there yet."""

    what = "not available yet"
    builtin = "free"

    def __init__(self, name: str) -> None:
        self.name = name

    def _refused(self, cx: Context, span: ast.Span) -> Value:
        return cx.error(
            "QD0216",
            f"{self.name!r} is not available yet",
            span,
            help=LATER[self.name],
        )

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """Refused."""
        return self._refused(cx, node.span)

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Refused."""
        return self._refused(cx, node.span)


def _outside_turns(cx: Context, node: ast.Call) -> bool:
    """Whether this stands in no turn of a parallel loop, whose turns wait for nobody."""
    if cx.parallel is None:
        return True
    cx.error(
        "QD0909",
        "the turns of a parallel loop do not wait for each other",
        node.span,
        help="write a kernel of threads, which has no parallel loop",
    )
    return False


def _barrier(word: Word, cx: Context, node: ast.Call) -> Value:
    if word.args(cx, node, 0, 0) is None or not _outside_turns(cx, node):
        return error_value(node.span)
    cx.emit(ops.Do(waiting(form.BARRIER, cx.threads.wait(node)), cx.line(node)))
    return nothing(node)


def _warp_barrier(word: Word, cx: Context, node: ast.Call) -> Value:
    args = word.args(cx, node, 0, 1)
    if args is None or not _outside_turns(cx, node):
        return error_value(node.span)
    mask = cx.expr(args[0]) if args else Value(INT, ops.i64(form.LANES), const=form.LANES)
    if mask.bad:
        return mask
    if not isinstance(mask.const, int) or not 0 < mask.const <= form.LANES:
        return cx.error(
            "QD0308",
            f"a mask is a constant of 1 to {form.LANES:,}, a bit for each lane that comes",
            args[0].span,
            help=f"write {word.shape}",
        )
    wait = waiting(form.WARP_BARRIER, cx.threads.wait(node), ops.i64(mask.const))
    cx.emit(ops.Do(wait, cx.line(node)))
    return nothing(node)


def _named_barrier(word: Word, cx: Context, node: ast.Call) -> Value:
    args = word.args(cx, node, 2, 2)
    if args is None or not _outside_turns(cx, node):
        return error_value(node.span)
    number, threads = (cx.expr(arg) for arg in args)
    if any_bad((number, threads)):
        return error_value(node.span)
    few, many = number.const, threads.const
    whole = isinstance(few, int) and isinstance(many, int) and many % form.WARP == 0
    if not whole or few not in NUMBERS or many not in range(1, cx.threads.count + 1):
        return cx.error(
            "QD0308",
            f"a number is {NUMBERS.start} to {NUMBERS.stop - 1}, and whole warps of the block come",
            node.span,
            help=f"write {word.shape}",
        )
    wait = waiting(form.NAMED_BARRIER, cx.threads.wait(node), number.ir, threads.ir)
    cx.emit(ops.Do(wait, cx.line(node)))
    return nothing(node)


def _grid_barrier(word: Word, cx: Context, node: ast.Call) -> Value:
    if word.args(cx, node, 0, 0) is None or not _outside_turns(cx, node):
        return error_value(node.span)
    if not cx.threads.grid:
        return cx.error(
            "QD0909",
            "a call of this kernel is one block",
            node.span,
            reason="only a kernel over tensors has a grid of blocks",
            help="barrier() waits for all threads there are",
        )
    cx.emit(ops.Do(waiting(form.GRID_BARRIER, cx.threads.wait(node)), cx.line(node)))
    return nothing(node)


def _async_copy(word: Word, cx: Context, node: ast.Call) -> Value:
    args = word.args(cx, node, 2, 2)
    if args is None or not _outside_turns(cx, node):
        return error_value(node.span)
    to, source = cx.expr(args[0]), cx.expr(args[1])
    if any_bad((to, source)):
        return error_value(node.span)
    place, read = to.ir, source.ir
    whole = isinstance(place, ops.Elem) and isinstance(read, ops.Elem)
    ends = called(base_name(place), form.SHARED) and cx.pieces and called(base_name(read), "p")
    if not whole or not ends:
        return cx.error(
            "QD0910",
            "a copy goes from an element of a tensor to one of shared memory",
            node.span,
            help=f"write {word.shape}",
        )
    if to.type != source.type or to.type not in (FLOAT, INT):
        return cx.error(
            "QD0301",
            f"a copy moves a float or an int, not {an(source.type)} to {an(to.type)}",
            node.span,
            reason="it moves the 8 bytes of an element as they are",
            help="copy by an assignment",
        )
    assert isinstance(place, ops.Elem)
    assert isinstance(read, ops.Elem)
    cx.threads.use(node)
    arrays = [cx.expr(arg.value).type.size for arg in args if isinstance(arg, ast.Index)]
    given = (place.base, place.index, read.base, read.index)
    copy = ops.Call(form.COPIES[stored(to.type)], given, tuple(arrays))
    cx.emit(ops.Do(copy, cx.line(node)))
    return nothing(node)


def _wait_copies(word: Word, cx: Context, node: ast.Call) -> Value:
    if word.args(cx, node, 0, 0) is None or not _outside_turns(cx, node):
        return error_value(node.span)
    cx.threads.use(node)
    cx.emit(ops.Do(ops.Call(form.COPIED, ()), cx.line(node)))
    return nothing(node)


def _fence(word: Word, cx: Context, node: ast.Call) -> Value:
    args = word.args(cx, node, 1, 1)
    scope = args[0].id if args and isinstance(args[0], ast.Name) else ""
    if args is not None and scope not in form.FENCES:
        cx.error("QD0308", "this is no 'fence'", node.span, help=f"write {word.shape}")
    if scope not in form.FENCES:
        return error_value(node.span)
    cx.threads.use(node)
    cx.emit(ops.Do(ops.Call(form.FENCES[scope], ()), cx.line(node)))
    return nothing(node)


# ---- the warp ----------------------------------------------------------------------------------


def as_word(value: Value) -> ops.Expr:
    """A scalar as the 64 bits that go from thread to thread."""
    return ops.as_word(value.ir, stored(value.type))


def _given(cx: Context, node: ast.Expr) -> Value:
    """What a thread shows the others: a number or a truth value."""
    value = cx.expr(node)
    if not value.bad and value.type.plain() not in (INT, FLOAT, F32, BOOL):
        return cx.error("QD0301", f"threads exchange numbers, this is {an(value.type)}", node.span)
    return value


def _exchanged(
    cx: Context, node: ast.Call, kind: str, word: ops.Expr, *more: ops.Expr
) -> ops.Var:
    """What the warp makes of a word of each thread."""
    name = cx.fresh("x")
    call = waiting(kind, cx.threads.wait(node), word, *more)
    cx.emit(ops.Let(name, ops.I64_T, call, cx.line(node)))
    return ops.Var(name)


def _shuffle(word: Word, cx: Context, node: ast.Call) -> Value:
    args = word.args(cx, node, 2, 3)
    if args is None or not _outside_turns(cx, node):
        return error_value(node.span)
    value, by = _given(cx, args[0]), cx.expr(args[1])
    width = cx.expr(args[2]) if len(args) > 2 else Value(INT, ops.i64(32), const=32)
    if any_bad((value, by, width)):
        return error_value(node.span)
    if by.type != INT or width.const not in WIDTHS:
        text = "a thread is an int, a width is 2, 4, 8, 16 or 32"
        return cx.error("QD0308", text, node.span, help=f"write {word.shape}")
    lane = ops.Binary("iand", ID, ops.i64(form.WARP - 1))
    at = _from(word.name, lane, by.ir, int(width.const))
    taken = _exchanged(cx, node, form.SHUFFLE, as_word(value), at)
    return Value(value.type, ops.as_value(taken, stored(value.type)), node.span)


def _from(name: str, lane: ops.Expr, by: ops.Expr, width: int) -> ops.Expr:
    """The lane that a thread takes the value of; its own where that lies in no group of it."""
    within = ops.i64(width - 1)
    first = ops.Binary("iand", lane, ops.i64(-width))
    if name == "shuffle":
        return ops.Binary("ior", first, ops.Binary("iand", by, within))
    if name == "shuffle_xor":
        other: ops.Expr = ops.Binary("ixor", lane, by)
    else:
        other = ops.Binary("isub" if name == "shuffle_up" else "iadd", lane, by)
    inside = ops.Binary("ieq", ops.Binary("iand", other, ops.i64(-width)), first)
    return ops.Select(inside, other, lane)


ALL = ops.i64(2**form.WARP - 1)


def _vote(word: Word, cx: Context, node: ast.Call) -> Value:
    args = word.args(cx, node, 1, 1)
    if args is None or not _outside_turns(cx, node):
        return error_value(node.span)
    value = _given(cx, args[0])
    if value.bad:
        return value
    if word.name == "match_any":
        bits = _exchanged(cx, node, form.MATCH, as_word(value))
        return number(bits, node, ALL.bits)
    if value.type != BOOL:
        text = f"a vote is true or false, this is {an(value.type)}"
        return cx.error("QD0301", text, args[0].span)
    bits = _exchanged(cx, node, form.BALLOT, as_word(value))
    if word.name == "ballot":
        return number(bits, node, ALL.bits)
    some = ops.Binary("ine", bits, ops.i64(0))
    made = some if word.name == "vote_any" else ops.Binary("ieq", bits, ALL)
    return Value(BOOL, made, node.span)


_WORDS: tuple[Word, ...] = (
    Word("barrier", "barrier()", _barrier),
    Word("warp_barrier", "warp_barrier(), or warp_barrier(255) for lanes 0 to 7", _warp_barrier),
    Word("named_barrier", "named_barrier(1, 64), for 64 threads", _named_barrier),
    Word("grid_barrier", "grid_barrier()", _grid_barrier),
    Word("async_copy", "async_copy(s[i], x[j])", _async_copy),
    Word("wait_copies", "wait_copies()", _wait_copies),
    Word("fence", "fence(block), or thread, device, system", _fence),
    Word("shuffle", "shuffle(x, lane)", _shuffle),
    *(Word(f"shuffle_{way}", f"shuffle_{way}(x, 1)", _shuffle) for way in ("up", "down", "xor")),
    *(Word(name, f"{name}(x > 0)", _vote) for name in ("vote_any", "vote_all", "ballot")),
    Word("match_any", "match_any(x)", _vote),
    *atomics.WORDS,
)
NAMES: dict[str, Binding] = {
    **{name: Axes(name) for name in ("thread", "block", "block_size", "grid")},
    **{name: Place(name) for name in ("lane", "warp")},
    **{word.name: word for word in _WORDS},
    **{name: Later(name) for name in LATER},
}
"""What the names of threads mean, in a kernel."""


def shared(cx: Context, node: ast.Let | ast.Var, type_: Type, value: Value) -> None:
    """`var s: shared[float, 256] = 0`: memory of the block, which its threads fill together."""
    assert type_.elem is not None
    value = coerce(cx, value, type_.elem)
    name = cx.fresh(form.SHARED)
    whole = Local(Value(type_, ops.Var(name), node.span, writable=True), node.name.span)
    if value.bad:
        whole = Local(value, node.name.span, used=True)
    naming.enter(cx, cx.scope.names, node.name, cx.scope.find(node.name.id), whole)
    if value.bad:
        return
    cx.threads.use(node)
    cx.arrays[name] = node.name.id, type_
    line = cx.line(node)
    cx.emit(ops.Let(name, ops.ArrayType(ir_type(type_.elem), type_.size), None, line))
    cx.threads.marks.append(Mark(node.name.span, "shared memory"))
    mark = len(cx.threads.marks) - 1
    cx.emit(ops.Do(waiting(form.BARRIER, mark), line))  # who reads an older one, is done
    turn, at = cx.fresh("i"), cx.fresh("i")
    count = ops.i64(cx.threads.count)
    rest = ops.Binary("iadd", ops.SizeOf(type_.size), ops.Binary("isub", ops.i64(-1), ID))
    turns = ops.Binary("idiv", ops.Binary("iadd", rest, count), count)
    own = ops.Binary("iadd", ID, ops.Binary("imul", ops.Var(turn), count))
    fill = (
        ops.Let(at, ops.I64_T, own, line),
        ops.Assign(ops.Elem(ops.Var(name), ops.Var(at)), value.ir, line),
    )
    cx.emit(ops.For(turn, ops.i64(0), turns, fill, line))
    cx.emit(ops.Do(waiting(form.BARRIER, mark), line))
