"""The words of a kernel of threads: numbers, shared memory, barriers, warps and atomics.

Such a kernel says what each thread of a block does, and `@workgroup(x, y, z)` how many there are. A
call of it is one block. Its body is elaborated as one thread runs it; check/phases.py makes loops
over the threads of that.
"""

from collections.abc import Callable

from msgspec import Struct, field

from quantdsl.check import arith, naming, single
from quantdsl.check.arith import an, coerce
from quantdsl.check.bindings import Binding, Local
from quantdsl.check.context import Context, any_bad
from quantdsl.check.phases import ID, Mark, root_of, waiting
from quantdsl.check.types import BOOL, F32, FLOAT, INT, VOID, Type, ir_type, stored
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.ir import threads as form
from quantdsl.ir.strands import called
from quantdsl.lang import ast

AXES = ("x", "y", "z")
LATER = {
    "named_barrier": "barrier() waits for the whole block, warp_barrier() for the warp",
    "grid_barrier": "a call of a kernel is one block, for which barrier() waits",
    "async_copy": "copy by an assignment, and wait by barrier()",
    "wait_copies": "copy by an assignment, and wait by barrier()",
    "mma": "a matrix product is c[i, j] = fma(a[i, k], b[k, j], c[i, j]) in three loops",
}
"""Words that are not built -> what is there instead."""
WIDTHS = (2, 4, 8, 16, 32)


class Threads(Struct):
    """What a kernel says of its threads; `used` is the first word that only threads have."""

    dims: tuple[int, int, int]
    said: bool  # whether @workgroup says so
    marks: list[Mark] = field(default_factory=list)
    used: ast.Node | None = None

    @property
    def count(self) -> int:
        """Threads of a block."""
        x, y, z = self.dims
        return x * y * z

    def use(self, node: ast.Node) -> None:
        """Note that this is a kernel of threads."""
        if self.used is None:
            self.used = node

    def wait(self, node: ast.Call) -> int:
        """A mark for a place where threads wait."""
        assert isinstance(node.func, ast.Name)
        self.use(node)
        self.marks.append(Mark(node.span, node.func.id))
        return len(self.marks) - 1


def _number(value: ops.Expr, node: ast.Node, most: int) -> Value:
    return Value(INT, value, node.span, low=0, high=most)


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
        if self.name != "thread":
            known = {"block": 0, "grid": 1}.get(self.name, dims[axis])
            return Value(INT, ops.i64(known), node.span, low=known, high=known, const=known)
        below = dims[0] if axis else 1
        below *= dims[1] if axis == 2 else 1
        number: ops.Expr = ID
        if below > 1:
            number = ops.Binary("idiv", number, ops.i64(below))
        if axis < 2 and cx.threads.count > below * dims[axis]:
            number = ops.Binary("imod", number, ops.i64(dims[axis]))
        return _number(ops.i64(0) if dims[axis] == 1 else number, node, dims[axis] - 1)


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
            return _number(ops.Binary("iand", ID, ops.i64(form.WARP - 1)), node, form.WARP - 1)
        warps = cx.threads.count // form.WARP
        return _number(ops.Binary("lshr", ID, ops.i64(5)), node, max(warps - 1, 0))


Maker = Callable[["Word", Context, ast.Call], Value]


class Word(Binding):
    """A function of a kernel of threads."""

    what = "a function"
    builtin = "free"

    def __init__(self, name: str, shape: str, make: Maker) -> None:
        self.name, self.shape, self.make = name, shape, make

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The value of a call."""
        return self.make(self, cx, node)

    def args(self, cx: Context, node: ast.Call, few: int, many: int) -> list[ast.Expr] | None:
        """The arguments, by position; None where their number is wrong."""
        given = [arg.value for arg in node.args if arg.name is None]
        if len(given) != len(node.args) or not few <= len(given) <= many:
            cx.error("QD0308", f"this is no '{self.name}'", node.span, help=f"write {self.shape}")
            return None
        return given


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


def _nothing(node: ast.Call) -> Value:
    return Value(VOID, ops.i64(0), node.span)


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
    kind = form.BARRIER if word.name == "barrier" else form.WARP_BARRIER
    cx.emit(ops.Do(waiting(kind, cx.threads.wait(node)), cx.line(node)))
    return _nothing(node)


def _fence(word: Word, cx: Context, node: ast.Call) -> Value:
    args = word.args(cx, node, 1, 1)
    scope = args[0].id if args and isinstance(args[0], ast.Name) else ""
    if args is not None and scope not in form.FENCES:
        cx.error("QD0308", "this is no 'fence'", node.span, help=f"write {word.shape}")
    if scope not in form.FENCES:
        return error_value(node.span)
    cx.threads.use(node)
    cx.emit(ops.Do(ops.Call(form.FENCES[scope], ()), cx.line(node)))
    return _nothing(node)


# ---- the warp ----------------------------------------------------------------------------------


def as_word(value: Value) -> ops.Expr:
    """A scalar as the 64 bits that go from thread to thread."""
    kind = stored(value.type)
    if kind == ops.I64_T:
        return value.ir
    return ops.Unary("bits" if kind == ops.F64_T else "bool_to_i64", value.ir)


def of_word(word: ops.Expr, type_: Type) -> ops.Expr:
    """The scalar of 64 bits."""
    kind = stored(type_)
    if kind == ops.F64_T:
        return ops.Unary("from_bits", word)
    return word if kind == ops.I64_T else ops.Binary("ine", word, ops.i64(0))


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
    return Value(value.type, of_word(taken, value.type), node.span)


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
        return _number(bits, node, ALL.bits)
    if value.type != BOOL:
        text = f"a vote is true or false, this is {an(value.type)}"
        return cx.error("QD0301", text, args[0].span)
    bits = _exchanged(cx, node, form.BALLOT, as_word(value))
    if word.name == "ballot":
        return _number(bits, node, ALL.bits)
    some = ops.Binary("ine", bits, ops.i64(0))
    made = some if word.name == "vote_any" else ops.Binary("ieq", bits, ALL)
    return Value(BOOL, made, node.span)


# ---- atomics -----------------------------------------------------------------------------------


def _atomic(word: Word, cx: Context, node: ast.Call) -> Value:
    """`atomic_add(s[i], x)`; with the older value, or of floats, in the order of the threads."""
    args = _scoped(word, cx, node)
    if args is None:
        return error_value(node.span)
    if cx.parallel is not None:
        cx.parallel.counts(cx, args[0], word.name.removeprefix("atomic_"))
    place, values = cx.expr(args[0]), [cx.expr(arg) for arg in args[1:]]
    if place.bad or any_bad(values):
        return error_value(node.span)
    array = place.ir.base if isinstance(place.ir, ops.Elem) else None
    if not isinstance(array, ops.Var) or not isinstance(place.ir, ops.Elem) or not place.writable:
        return cx.error(
            "QD0910",
            "an atomic is done to an element of an array",
            args[0].span,
            help=f"write {word.shape}",
        )
    values = [coerce(cx, value, place.type) for value in values]
    if any_bad(values):
        return error_value(node.span)
    name = word.name.removeprefix("atomic_")
    shares = called(array.name, form.SHARED)
    unseen = name in form.ATOMICS and place.type == INT and cx.unused is node
    if unseen and (shares or cx.parallel is not None):
        size = _size_of(cx, args[0])
        call = ops.Call(form.atomic(name), (array, place.ir.index, values[0].ir), (size,))
        cx.emit(ops.Do(call, cx.line(node)))
        return _nothing(node)
    return _in_order(word, cx, node, place, values)


def _size_of(cx: Context, node: ast.Expr) -> ops.Size:
    """How many elements the array of `s[i]` has."""
    assert isinstance(node, ast.Index)
    return cx.expr(node.value).type.size


def _scoped(word: Word, cx: Context, node: ast.Call) -> list[ast.Expr] | None:
    """The arguments less the scope, which can only be the block; None where they do not fit."""
    few = 3 if word.name == "atomic_compare_swap" else 2
    given = [arg.value for arg in node.args if arg.name is None]
    named = [arg for arg in node.args if arg.name is not None]
    for arg in named:
        scope = arg.value.id if isinstance(arg.value, ast.Name) else ""
        if arg.name == "scope" and scope in ("device", "system"):
            cx.error(
                "QD0216",
                f"an atomic of the whole {scope} is not available yet",
                arg.span,
                reason="a kernel writes to the memory of its own block alone",
                help="leave it away, or write scope = block",
            )
            return None
        if arg.name != "scope" or scope != "block":
            given = []
    if len(given) != few:
        cx.error("QD0308", f"this is no '{word.name}'", node.span, help=f"write {word.shape}")
        return None
    return given


def _in_order(word: Word, cx: Context, node: ast.Call, place: Value, values: list[Value]) -> Value:
    """An atomic whose result depends on the order: that of the threads' numbers."""
    if cx.parallel is not None:
        return cx.error(
            "QD0910",
            "the result of this depends on the order of the turns",
            node.span,
            reason="they run in any order; sums of ints and the like come out the same in each",
            help="leave its value unused, or reduce: 'parallel for ... reduce(x: +)'",
        )
    old = cx.fresh("x")
    before = Value(place.type, ops.Var(old), node.span)
    name = word.name.removeprefix("atomic_")
    made = _combined(cx, name, place, values, node)
    if made.bad:
        return made
    if called(root_of(place.ir), form.SHARED):
        call = waiting(name, cx.threads.wait(node), place.ir, made.ir)
        cx.emit(ops.Let(old, ir_type(place.type), call, cx.line(node)))
        return before
    cx.emit(ops.Let(old, ir_type(place.type), place.ir, cx.line(node)))
    cx.emit(ops.Assign(place.place, made.ir, cx.line(node)))
    return before


def _combined(cx: Context, name: str, old: Value, values: list[Value], node: ast.Call) -> Value:
    """What an atomic puts where `old` was."""
    value = values[0]
    whole = old.type == INT
    if name in ("and", "or", "xor", "inc", "dec") and not whole:
        return cx.error("QD0301", f"atomic_{name} needs ints, not {old.type}", node.span)
    if name not in ("exchange", "compare_swap") and old.type == BOOL:
        return cx.error("QD0301", f"atomic_{name} needs numbers, not {old.type}", node.span)
    if name == "exchange":
        return value
    if name == "compare_swap":
        same = arith.compare(cx, "==", old, value, node.span)
        return same if same.bad else arith.select(cx, same, values[1], old, node.span)
    zero, one = ops.i64(0), ops.i64(1)
    if name == "inc":  # from the limit on it begins again at 0
        over = ops.Binary("ige", old.ir, value.ir)
        return Value(INT, ops.Select(over, zero, ops.Binary("iadd", old.ir, one)))
    if name == "dec":  # from 0, and from above the limit, it begins again at the limit
        low, high = ops.Binary("ile", old.ir, zero), ops.Binary("igt", old.ir, value.ir)
        less = ops.Binary("isub", old.ir, one)
        return Value(INT, ops.Select(ops.Binary("or", low, high), value.ir, less))
    if whole:
        return Value(INT, ops.Binary(form.ATOMICS[name], old.ir, value.ir))
    made = Value(FLOAT, ops.Binary("f" + form.ATOMICS[name][1:], old.ir, value.ir))
    return single.rounded(made) if old.type == F32 else made


_ATOMICS = (*form.ATOMICS, "exchange", "inc", "dec")
_WORDS: tuple[Word, ...] = (
    Word("barrier", "barrier()", _barrier),
    Word("warp_barrier", "warp_barrier()", _barrier),
    Word("fence", "fence(block), or thread, device, system", _fence),
    Word("shuffle", "shuffle(x, lane)", _shuffle),
    *(Word(f"shuffle_{way}", f"shuffle_{way}(x, 1)", _shuffle) for way in ("up", "down", "xor")),
    *(Word(name, f"{name}(x > 0)", _vote) for name in ("vote_any", "vote_all", "ballot")),
    Word("match_any", "match_any(x)", _vote),
    *(Word(f"atomic_{name}", f"atomic_{name}(s[i], x)", _atomic) for name in _ATOMICS),
    Word("atomic_compare_swap", "atomic_compare_swap(s[i], expected, x)", _atomic),
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
