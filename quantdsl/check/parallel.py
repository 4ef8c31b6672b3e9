"""`parallel for ... reduce(...)`: turns in any order, one result.

A loop has STRANDS strands. Strand j makes the turns j, j + STRANDS, j + 2 * STRANDS, ... one after
the other and reduces them into an accumulator of its own, which starts at the operation's neutral
value; then the accumulators are combined in a tree: the first half takes the second half, and again
until one is left, which the variable takes in at the end. So the order of the operations follows
from the number of turns alone, and every target has the same bits: one lane makes the strands one
after the other, a block of a GPU one strand a thread.

A kernel of tensors may have more turns than one block should make. There the turns that reduce are
cut into pieces of PIECE_TURNS; each is reduced like a loop of its own, and the results of the
pieces are reduced once more in the same way, as though they were turns.
"""

import math
from typing import NamedTuple

from msgspec import Struct, field

from quantdsl.check.arith import an, coerce
from quantdsl.check.bindings import Binding, Local
from quantdsl.check.context import Context, Scope, executes
from quantdsl.check.loops import serial, turning, turns_of
from quantdsl.check.nodes import inside
from quantdsl.check.stmts import body
from quantdsl.check.types import BOOL, F32, FLOAT, INT, Type, ir_type
from quantdsl.check.values import Value
from quantdsl.ir import ops
from quantdsl.ir.strands import (
    BLANK,
    HALF,
    KEPT,
    LEVEL,
    PIECE,
    PIECE_LOG2,
    PIECE_TURNS,
    ROOTS,
    STRAND,
    STRANDS,
    STRANDS_LOG2,
)
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
NEUTRAL: dict[tuple[str, str], ops.Const] = {
    ("+", "float"): ops.f64(-0.0),  # x + -0.0 is x, also of x = -0.0
    ("*", "float"): ops.f64(1.0),
    ("min", "float"): ops.f64(math.inf),
    ("max", "float"): ops.f64(-math.inf),
    ("+", "int"): ops.i64(0),
    ("*", "int"): ops.i64(1),
    ("min", "int"): ops.i64(INT_MAX),
    ("max", "int"): ops.i64(INT_MIN),
    ("and", "bool"): ops.boolean(True),
    ("or", "bool"): ops.boolean(False),
}
"""What changes nothing: with it each operation is exactly the other value. (`min` and `max` skip a
NaN: it is never smaller or larger than what is there.)"""
OPERATIONS = {"+": "add", "*": "mul", "min": "min", "max": "max"}
FORMS = {
    "+": "{0} += x",
    "*": "{0} *= x",
    "min": "{0} = min({0}, x)",
    "max": "{0} = max({0}, x)",
    "and": "{0} = {0} and x",
    "or": "{0} = {0} or x",
}


class Reduced(Binding):
    """A variable that a parallel loop reduces: in a turn it can be added to, not read."""

    what = "being reduced"

    def __init__(self, name: str, op: str, value: Value, own: ops.Var, span: ast.Span) -> None:
        self.name, self.op, self.type, self.own, self.span = name, op, value.type, own, span
        self.whole = value.place

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """No turn knows what the others have made of it."""
        return cx.error(
            "QD0903",
            f"{self.name!r} is being reduced here and has no value yet",
            node.span,
            reason="the turns of a parallel loop run in any order",
            help="read it behind the loop",
        )

    @property
    def ir_op(self) -> str:
        """The operation in IR."""
        if self.type == BOOL:
            return self.op
        return ("i" if self.type == INT else "f") + OPERATIONS[self.op]

    def combined(self, x: ops.Expr, y: ops.Expr) -> ops.Expr:
        """x and y in one; of `min` and `max`, y where x is no number."""
        made: ops.Expr = ops.Binary(self.ir_op, x, y)
        return ops.Unary("f32", made) if self.type == F32 else made


    def taken(self, whole: ops.Expr, part: ops.Expr) -> ops.Expr:
        """The whole with a part taken in: one that is no number is left out."""
        x, y = (part, whole) if self.op in ("min", "max") else (whole, part)
        return self.combined(x, y)


class Parallel(Struct):
    """The parallel loop whose turn is being elaborated."""

    node: ast.For
    loops: int
    outer: Scope | None
    written: dict[str, ast.Span] = field(default_factory=dict)  # arrays of which each turn has one
    counted: dict[str, tuple[str, ast.Span]] = field(default_factory=dict)  # arrays of atomics
    places: set[int] = field(default_factory=set)  # the names of those arrays, in the atomics

    def assign(self, cx: Context, node: ast.Assign) -> bool:
        """Whether the assignment is dealt with here: it reduces, or reaches beyond its turn."""
        root = node.target
        while isinstance(root, ast.Attr | ast.Index):
            root = root.value
        if not isinstance(root, ast.Name):
            return False
        found = cx.scope.find(root.id)
        if isinstance(found, Reduced):
            self._reduce(cx, node, found)
            return True
        if found is None or (self.outer is not None and self.outer.find(root.id) is not found):
            return False
        if self._own_element(node.target):
            self.written[root.id] = node.span
            return False
        declared = (Label(found.span, "declared here"),) if isinstance(found, Local) else ()
        cx.error(
            "QD0903",
            f"{root.id!r} is shared by all turns of the parallel loop",
            node.target.span,
            labels=declared,
            reason="the turns run in any order, so the last one to write would be any of them",
            help=self._instead(node.target, found, root.id),
        )
        return True

    def _instead(self, target: ast.Expr, found: Binding | Local, name: str) -> str:
        """What to write in place of an assignment that reaches beyond its turn."""
        if isinstance(target, ast.Name):
            return f"reduce it: 'parallel for ... reduce({name}: +)', or declare it in the loop"
        if isinstance(target, ast.Attr):
            return "declare it in the loop"
        more = ", ..." if isinstance(target, ast.Index) and target.more else ""
        own = f"a turn's own element is {name}[{self.node.name.id}{more}]; "
        if isinstance(found, Local) and found.value.type.elem == INT:
            return f"{own}to any one it adds by atomic_add({name}[...], x)"
        return f"{own}what turns make together is reduced to a 'var', and stored behind the loop"

    def _own_element(self, target: ast.Expr) -> bool:
        """`a[i] = x` with i the loop's counter: no other turn has this element."""
        return (
            isinstance(target, ast.Index)
            and isinstance(target.value, ast.Name)
            and isinstance(target.index, ast.Name)
            and target.index.id == self.node.name.id
        )

    def counts(self, cx: Context, place: ast.Expr, op: str) -> None:
        """An atomic adds to a place, or the like: no turn may look at that array otherwise."""
        if not isinstance(place, ast.Index) or not isinstance(place.value, ast.Name):
            return
        array, family = place.value, "add" if op == "sub" else op
        known, where = self.counted.setdefault(array.id, (family, place.span))
        self.places.add(id(array))
        if known != family:
            cx.error(
                "QD0910",
                f"{array.id!r} depends on the order of the turns: another atomic writes to it too",
                place.span,
                labels=(Label(where, f"atomic_{known} here"),),
                reason="sums alone come out the same in each order, sums and bits do not",
                help="give each an array of its own",
            )

    def leave(self, cx: Context, node: ast.Break | ast.Return, word: str) -> bool:
        """Whether `break` or `return` may stand here; reports where a turn would end others."""
        if word == "break" and cx.loops > self.loops + 1:
            return True
        cx.error(
            "QD0903",
            f"'{word}' would end the other turns of the parallel loop",
            node.span,
            reason="they run in any order",
            help="'continue' ends this turn alone" if word == "break" else "return behind the loop",
        )
        return False

    def _reduce(self, cx: Context, node: ast.Assign, found: Reduced) -> None:
        """The turn's part of a reduction, into the strand's accumulator."""
        part = _part(node, found)
        if part is None:
            cx.error(
                "QD0904",
                f"{found.name!r} is reduced by '{found.op}', this does something else with it",
                node.span,
                help=f"write {FORMS[found.op].format(found.name)}",
            )
            return
        value = coerce(cx, cx.expr(part), found.type)
        if value.bad:
            return
        cx.emit(ops.Assign(found.own, found.taken(found.own, value.ir), cx.line(node)))

    def require_own(self, cx: Context) -> None:
        """Report reading an element that another turn writes."""
        hidden = any(
            isinstance(part, ast.Let | ast.Var | ast.For) and part.name.id == self.node.name.id
            for part in inside(self.node.body)
        )  # a[i] with another i may be any element
        own = {
            id(part.value)
            for part in inside(self.node.body)
            if isinstance(part, ast.Index) and self._own_element(part) and not hidden
        }
        refused = {
            id(part.target.value)
            for part in inside(self.node.body)
            if isinstance(part, ast.Assign)
            and isinstance(part.target, ast.Index)
            and not self._own_element(part.target)
        }  # by assign
        for part in inside(self.node.body):
            if not isinstance(part, ast.Name) or id(part) in self.places | refused:
                continue
            if part.id in self.counted or (part.id in self.written and id(part) not in own):
                _, counted = self.counted.get(part.id, ("", None))
                where = counted or self.written[part.id]
                cx.error(
                    "QD0903",
                    f"this may read what another turn writes to {part.id!r}",
                    part.span,
                    labels=(Label(where, "written here"),),
                    reason="the turns of a parallel loop run in any order",
                    help="read it in a second loop, behind this one",
                )


def _part(node: ast.Assign, found: Reduced) -> ast.Expr | None:
    """What is reduced: `x` of `sum += x`, of `low = min(low, x)` and of `any = any or x`."""
    if not isinstance(node.target, ast.Name):
        return None
    if found.op in "+*":
        return node.value if node.op == f"{found.op}=" else None
    if node.op != "=":
        return None
    pair: tuple[ast.Expr, ...] = ()
    value = node.value
    if isinstance(value, ast.Binary) and value.op == found.op:
        pair = (value.left, value.right)
    elif (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id == found.op
    ):
        pair = tuple(arg.value for arg in value.args if arg.name is None)
    if len(pair) != 2:
        return None
    own = [isinstance(side, ast.Name) and side.id == found.name for side in pair]
    return pair[own.index(False)] if own.count(True) == 1 else None


@executes(ast.For)
def _for(cx: Context, node: ast.For) -> None:
    if not node.parallel and not node.reduce:
        whole = isinstance(node.over, ast.Name) and node.over.id == "universe"
        if whole and cx.strategy is not None and cx.strategy.universe is not None:
            cx.strategy.over_all(cx, node)
        else:
            serial(cx, node)
        return
    if not cx.kernel:
        cx.error("QD0902", "a parallel loop stands in a kernel", node.span)
        return
    if not node.parallel:
        cx.error(
            "QD0904",
            "only a parallel loop reduces",
            node.span,
            help="write 'parallel for', or leave 'reduce' away: turns in order may add to anything",
        )
        return
    if cx.parallel is not None:
        cx.error("QD0902", "a parallel loop stands in no other", node.span, help="write 'for'")
        return
    turns = turns_of(cx, node)
    reduced = _reductions(cx, node)
    if turns is None or reduced is None:
        return
    low, count = cx.fresh("low"), cx.fresh("turns")
    line = cx.line(node)
    cx.emit(ops.Let(low, ops.I64_T, turns.low.ir, line))
    cx.emit(ops.Let(count, ops.I64_T, ops.Binary("isub", turns.top, ops.Var(low)), line))
    at = cx.fresh("i")
    outer = cx.parallel
    cx.parallel = Parallel(node, cx.loops, cx.scope)
    with turning(cx, node, turns, at) as block:
        for one in reduced:
            cx.scope.names[one.name] = one
        body(cx, node.body)
    cx.parallel.require_own(cx)
    cx.parallel = outer
    if reduced and cx.pieces:
        _in_pieces(cx, Turns(at, low, count, tuple(block), line), reduced)
        return
    kept = strands(cx, Turns(at, low, count, tuple(block), line), reduced)
    if reduced:
        _tree(cx, kept, reduced, line)
        _into_variables(cx, kept, reduced, line)


class Turns(NamedTuple):
    """The turns `block` of a loop, whose counter is `at`, from `low` on: names of locals."""

    at: str
    low: str
    number: str
    block: tuple[ops.Stmt, ...]
    line: int


def strands(cx: Context, turns: Turns, reduced: list[Reduced]) -> list[str]:
    """Emit the strands; the arrays that they leave their results in."""
    line, low, at = turns.line, turns.low, turns.at
    kept = [cx.fresh(KEPT) for _ in reduced]
    for name, one in zip(kept, reduced, strict=True):
        cx.emit(ops.Let(name, ops.ArrayType(ir_type(one.type), STRANDS), None, line))
    strand, turn = cx.fresh(STRAND), cx.fresh("turn")
    made = ops.Binary("iadd", ops.Var(strand), _times_strands(ops.Var(turn)))
    here = ops.Let(at, ops.I64_T, ops.Binary("iadd", ops.Var(low), made))
    many = _turns_of_strand(turns.number, strand)
    inner = ops.For(turn, ops.i64(0), many, (here, *turns.block), line)
    own: list[ops.Stmt] = [
        ops.Let(one.own.name, ir_type(one.type), NEUTRAL[one.op, one.type.kind]) for one in reduced
    ]
    stored: list[ops.Stmt] = [
        ops.Assign(ops.Elem(ops.Var(name), ops.Var(strand)), one.own)
        for name, one in zip(kept, reduced, strict=True)
    ]
    cx.emit(ops.For(strand, ops.i64(0), ops.i64(STRANDS), (*own, inner, *stored), line))
    return kept


def _in_pieces(cx: Context, turns: Turns, reduced: list[Reduced]) -> None:
    """Each piece by itself, its results into the strand of its number, and the tree over those."""
    line, piece, blank = turns.line, cx.fresh(PIECE), cx.fresh(BLANK)
    roots = [cx.fresh(ROOTS) for _ in reduced]
    for name, one in zip(roots, reduced, strict=True):
        cx.emit(ops.Let(name, ops.ArrayType(ir_type(one.type), STRANDS), None, line))
    neutral = [
        ops.Assign(ops.Elem(ops.Var(name), ops.Var(blank)), NEUTRAL[one.op, one.type.kind])
        for name, one in zip(roots, reduced, strict=True)
    ]
    cx.emit(ops.For(blank, ops.i64(0), ops.i64(STRANDS), tuple(neutral), line))
    outer, cx.block = cx.block, []
    low, count = cx.fresh("low"), cx.fresh("turns")
    ahead = ops.Binary("shl", ops.Var(piece), ops.i64(PIECE_LOG2))
    left = ops.Binary("isub", ops.Var(turns.number), ahead)
    cx.emit(ops.Let(low, ops.I64_T, ops.Binary("iadd", ops.Var(turns.low), ahead), line))
    least = ops.Binary("imin", left, ops.i64(PIECE_TURNS))
    cx.emit(ops.Let(count, ops.I64_T, least, line))
    kept = strands(cx, Turns(turns.at, low, count, turns.block, line), reduced)
    _tree(cx, kept, reduced, line)
    which = ops.Binary("iand", ops.Var(piece), ops.i64(STRANDS - 1))
    for name, root, one in zip(kept, roots, reduced, strict=True):
        place = ops.Elem(ops.Var(root), which)
        cx.emit(ops.Assign(place, one.taken(place, ops.Elem(ops.Var(name), ops.i64(0))), line))
    inner, cx.block = cx.block, outer
    up = ops.Binary("iadd", ops.Var(turns.number), ops.i64(PIECE_TURNS - 1))
    many = ops.Binary("ashr", up, ops.i64(PIECE_LOG2))
    cx.emit(ops.For(piece, ops.i64(0), many, tuple(inner), line))
    _tree(cx, roots, reduced, line)
    _into_variables(cx, roots, reduced, line)


def _times_strands(x: ops.Expr) -> ops.Expr:
    return ops.Binary("shl", x, ops.i64(STRANDS_LOG2))


def _turns_of_strand(count: str, strand: str) -> ops.Expr:
    """How many turns a strand makes: those of its number and each STRANDS later ones."""
    left = ops.Binary("isub", ops.Var(count), ops.Var(strand))
    rest = ops.Binary("iadd", left, ops.i64(STRANDS - 1))
    return ops.Binary("ashr", rest, ops.i64(STRANDS_LOG2))


def _tree(cx: Context, kept: list[str], reduced: list[Reduced], line: int) -> None:
    """The tree over the accumulators, whose root is the first of them."""
    level, strand = cx.fresh(LEVEL), cx.fresh(HALF)
    half = ops.Binary("lshr", ops.i64(STRANDS // 2), ops.Var(level))
    first, second = ops.Var(strand), ops.Binary("iadd", ops.Var(strand), half)
    taken = tuple(
        ops.Assign(
            ops.Elem(ops.Var(name), first),
            one.combined(ops.Elem(ops.Var(name), first), ops.Elem(ops.Var(name), second)),
        )
        for name, one in zip(kept, reduced, strict=True)
    )
    across = ops.For(strand, ops.i64(0), half, taken, line)
    cx.emit(ops.For(level, ops.i64(0), ops.i64(STRANDS_LOG2), (across,), line))


def _into_variables(cx: Context, kept: list[str], reduced: list[Reduced], line: int) -> None:
    """The roots of the trees into the variables."""
    for name, one in zip(kept, reduced, strict=True):
        root = ops.Elem(ops.Var(name), ops.i64(0))
        cx.emit(ops.Assign(one.whole, one.taken(one.whole, root), line))


def _reductions(cx: Context, node: ast.For) -> list[Reduced] | None:
    """The variables that a loop reduces, or None where an error is reported."""
    found: list[Reduced] = []
    for name, op in node.reduce:
        local = cx.scope.find(name)
        if not isinstance(local, Local):
            cx.error(
                "QD0201",
                f"there is no variable {name!r} to reduce",
                node.over.span,
                help=f"declare it before the loop: var {name} = 0.0",
            )
            return None
        value = local.value
        if value.bad:
            return None
        if any(one.name == name for one in found):
            cx.error("QD0904", f"{name!r} is reduced twice", node.over.span, help="name it once")
            return None
        if not value.writable or not isinstance(value.ir, ops.Var):
            cx.error(
                "QD0904",
                f"{name!r} cannot be reduced: it is no 'var' of the kernel",
                node.over.span,
                labels=(Label(local.span, "declared here"),),
            )
            return None
        if (op, value.type.kind) not in NEUTRAL or value.type.plain() not in KINDS:
            cx.error(
                "QD0904",
                f"'{op}' does not reduce {an(value.type)}",
                node.over.span,
                labels=(Label(local.span, f"{name!r} is declared here"),),
                help="+ * min max of numbers, 'and' and 'or' of truth values",
            )
            return None
        local.used = True
        own = ops.Var(cx.fresh("own"))
        found.append(Reduced(name, op, value, own, local.span))
    return found


KINDS: tuple[Type, ...] = (FLOAT, F32, INT, BOOL)
