"""What kind of kernel this is, read off its loops; and how a warp's threads meet in each load."""

from collections.abc import Iterator

from msgspec import Struct

from quantdsl.check.nodes import inside
from quantdsl.ir.threads import WARP
from quantdsl.lang import ast

KINDS = (
    "elementwise", "reduce", "scan", "matmul", "rank", "histogram", "sort", "threads", "general",
)  # fmt: skip
"""elementwise: no loop over the window, of tensors none but parallel ones; reduce: one or more
parallel loops that reduce, and no other loop over the window; scan: one that goes along the window
in order; matmul: sums of products of two operands, by fma along one counter; rank: counts of what
is smaller; histogram: counts at elements that the data choose; sort: puts an array in order;
threads: says what each thread does; general: all else."""


def kind_of(node: ast.Kernel) -> str:
    """The kind of a kernel that is none of threads: one of KINDS."""
    calls = (part.func for part in inside(node.body) if isinstance(part, ast.Call))
    if any(isinstance(func, ast.Name) and func.id == "sort" for func in calls):
        return "sort"
    nests = list(_nests(node.body, ()))
    for kind, has in (("matmul", _product), ("rank", _ranks), ("histogram", _counts)):
        if any(has(stmt, loops) for stmt, loops in nests):
            return kind
    tensors = _named(node, "tensor")
    views = windows_of(node) | tensors
    loops = [part for part in inside(node.body) if isinstance(part, ast.For | ast.While)]
    over = [loop for loop in loops if _reads(loop, views)]
    if not over:
        return "elementwise"
    nested = {id(part) for loop in over for part in inside(loop.body)}
    outer = [loop for loop in over if id(loop) not in nested]
    if all(isinstance(loop, ast.For) and loop.parallel and loop.reduce for loop in outer):
        return "reduce"
    if tensors and all(isinstance(loop, ast.For) and loop.parallel for loop in outer):
        reduces = any(isinstance(loop, ast.For) and loop.reduce for loop in outer)
        return "general" if reduces else "elementwise"
    carried = all(not (isinstance(loop, ast.For) and loop.parallel) for loop in outer)
    return "scan" if carried and len(outer) == 1 else "general"


def windows_of(node: ast.Kernel) -> set[str]:
    """The names of a kernel's windows."""
    return _named(node, "window")


def _named(node: ast.Kernel, kind: str) -> set[str]:
    return {p.name.id for p in node.params if p.type is not None and p.type.name == kind}


def _reads(loop: ast.For | ast.While, views: set[str]) -> bool:
    """Whether a loop reads one of those."""
    return any(
        isinstance(part, ast.Index)
        and isinstance(part.value, ast.Name)
        and part.value.id in views
        for part in inside(loop.body)
    )


Nest = tuple[ast.For, ...]
"""The loops around a statement, outermost first."""


def _nests(suite: ast.Suite | ast.Expr, loops: Nest) -> Iterator[tuple[ast.Stmt, Nest]]:
    """Every statement with the counted loops around it."""
    if not isinstance(suite, ast.Suite):
        return
    for stmt in suite.body:
        yield stmt, loops
        if isinstance(stmt, ast.For):
            yield from _nests(stmt.body, (*loops, stmt))
        elif isinstance(stmt, ast.While):
            yield from _nests(stmt.body, loops)
        elif isinstance(stmt, ast.If):
            for _, branch in stmt.branches:
                yield from _nests(branch, loops)
            if stmt.otherwise is not None:
                yield from _nests(stmt.otherwise, loops)


def _names(node: ast.Node) -> set[str]:
    return {part.id for part in inside(node) if isinstance(part, ast.Name)}


def _product(stmt: ast.Stmt, loops: Nest) -> bool:
    """`c = fma(x, y, c)` along the counter of one of three loops, x of another one, y of the third.

    The order is fixed by that: one chain of fused multiply-adds along the first of those counters.
    """
    if not isinstance(stmt, ast.Assign) or stmt.op != "=" or len(loops) < 3:
        return False
    args = _called(stmt.value, "fma")
    if len(args) != 3:
        return False
    x, y, added = args
    if not _alike(added, stmt.target):
        return False
    left, right = _names(x), _names(y)
    along = [loop.name.id for loop in loops[1:] if loop.name.id in left & right]
    counters = {loop.name.id for loop in loops}
    return bool(along) and bool(counters & left - right) and bool(counters & right - left)


def _ranks(stmt: ast.Stmt, loops: Nest) -> bool:
    """`if r[k] < r[i]: n += 1` in a loop inside another: one operand of each counter."""
    if not isinstance(stmt, ast.If) or len(loops) < 2 or stmt.otherwise is not None:
        return False
    ((cond, branch),) = stmt.branches[:1]
    if not isinstance(cond, ast.Compare) or len(cond.operands) != 2 or len(branch.body) != 1:
        return False
    (only,) = branch.body
    if not isinstance(only, ast.Assign) or not _one_more(only):
        return False
    x, y = cond.operands
    alike = isinstance(x, ast.Index) and isinstance(y, ast.Index) and _alike(x.value, y.value)
    counters = {loop.name.id for loop in loops}
    return alike and bool((_names(x) ^ _names(y)) & counters)


def _counts(stmt: ast.Stmt, loops: Nest) -> bool:
    """`h[bin] += 1`, or an atomic addition to it, at an element that no counter names."""
    place: ast.Expr | None = None
    if isinstance(stmt, ast.Assign) and _one_more(stmt):
        place = stmt.target
    elif isinstance(stmt, ast.ExprStmt) and (args := _called(stmt.value, "atomic_add")):
        place = args[0]
    if not loops or not isinstance(place, ast.Index):
        return False
    return not _names(place.index) <= {loop.name.id for loop in loops}


def _called(node: ast.Expr, name: str) -> list[ast.Expr]:
    """The arguments of a call of a function, or none where it is no such call."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return []
    return [arg.value for arg in node.args] if node.func.id == name else []


def _one_more(stmt: ast.Assign) -> bool:
    return stmt.op == "+=" and isinstance(stmt.value, ast.Num) and stmt.value.text in ("1", "1.0")


def _alike(x: object, y: object) -> bool:
    """Whether two trees say the same, wherever they stand."""
    if isinstance(x, ast.Node) and isinstance(y, ast.Node):
        fields = [name for name in x.__struct_fields__ if "span" not in name]
        same = type(x) is type(y)
        return same and all(_alike(getattr(x, name), getattr(y, name)) for name in fields)
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(map(_alike, x, y))
    return x == y


# ---- loads -------------------------------------------------------------------------------------


THREAD = "thread.x"
"""Rises by 1 from thread to thread of a warp, where a row has a warp's worth of them."""
THREAD_NAMES = frozenset({"thread", "lane", "warp"})


LINE_BYTES = 128
ELEMENT_BYTES = {"f32": 4, "bool": 1}
"""Of a tensor; all else is of 8 bytes, and all that a window holds."""


class Load(Struct, frozen=True):
    """An access to a window or a tensor in a parallel loop, or by threads; neighbouring turns are
    of one warp.

    `step` is how far the next turn or thread reads, None: that is not known.
    """

    span: ast.Span
    step: int | None
    bytes: int
    """Of an element."""

    def __str__(self) -> str:
        if self.step is None:
            return "not known: up to 32 lines of memory a warp"
        if self.step == 0:
            return "broadcast: one word a warp"
        if abs(self.step) == 1:
            return f"coalesced: {WARP * self.bytes} bytes in a row a warp"
        apart = abs(self.step)
        times = min(apart, LINE_BYTES // self.bytes)
        return f"words {apart} apart: {times} times the lines of a row"


def loads(node: ast.Kernel, across: int | None) -> list[Load]:
    """How the threads of a warp meet in each access to a window or a tensor.

    `across` is the number of threads along x of a kernel of threads, and None of any other one,
    whose parallel loops are looked at. A product of matrices reads tiles, whatever its loops say.
    """
    found = list[Load]()
    sizes = dict.fromkeys(windows_of(node), 8)
    if kind_of(node) != "matmul":
        sizes |= _tensor_bytes(node)
    made: list[tuple[ast.Suite | ast.Expr, dict[str, int]]] = [
        (loop.body, _shared_turns(loop, _named(node, "tensor")))
        for loop in inside(node.body)
        if isinstance(loop, ast.For) and loop.parallel
    ]
    if across is not None:
        made = [(node.body, {} if across % WARP else {THREAD: 1})]
    for body, counter in made:
        own = {p.name.id for p in inside(body) if isinstance(p, ast.Let | ast.Var)}
        known = {p.name.id: 0 for p in inside(body) if isinstance(p, ast.For)} | counter
        for part in inside(body):
            if isinstance(part, ast.Let) and (step := _step(part.value, known, own)) is not None:
                known[part.name.id] = step
            if (
                isinstance(part, ast.Index)
                and isinstance(part.value, ast.Name)
                and part.value.id in sizes
            ):
                steps = [_step(index, known, own) for index in (part.index, *part.more)]
                step = None if any(steps[:-1]) or None in steps[:-1] else steps[-1]
                found.append(Load(part.span, step, sizes[part.value.id]))
    return found


def _tensor_bytes(node: ast.Kernel) -> dict[str, int]:
    """The tensors of a kernel, and how many bytes an element of each takes."""
    types = {p.name.id: p.type for p in node.params if p.type is not None}
    tensors = {name: type_.args for name, type_ in types.items() if type_.name == "tensor"}
    elems = {name: args[0] for name, args in tensors.items() if args}
    named = {name: elem.name for name, elem in elems.items() if isinstance(elem, ast.Type)}
    return {name: ELEMENT_BYTES.get(elem, 8) for name, elem in named.items()}


def _shared_turns(loop: ast.For, tensors: set[str]) -> dict[str, int]:
    """How counters go from thread to thread. Where a loop is all that a turn has, and each turn of
    it writes to elements of tensors of its own, threads have those (`passes/grids.py`)."""
    only = loop.body.body[0] if len(loop.body.body) == 1 else None
    if tensors and not loop.reduce and isinstance(only, ast.For):
        parts = list(inside(only.body))
        written = [part.target for part in parts if isinstance(part, ast.Assign)]
        places = [one for one in written if isinstance(one, ast.Index) and _names(one) & tensors]
        own = all(only.name.id in _names(place) for place in places)
        if own and not any(isinstance(part, ast.Break | ast.Return) for part in parts):
            return {loop.name.id: 0, only.name.id: 1}
    return {loop.name.id: 1}


def _step(node: ast.Expr, known: dict[str, int], own: set[str]) -> int | None:
    """By how much a value rises with the turn; None where it is not known."""
    if isinstance(node, ast.Num):
        return 0
    if isinstance(node, ast.Name):
        if node.id in THREAD_NAMES:
            return known.get(THREAD) if node.id == "lane" else None
        return known.get(node.id, None if node.id in own else 0)
    if isinstance(node, ast.Attr) and isinstance(node.value, ast.Name):
        of_thread = node.value.id == "thread"
        return (known.get(THREAD) if node.name == "x" else None) if of_thread else 0
    if isinstance(node, ast.Binary) and node.op == "mod":
        return _step(node.left, known, own)  # but where it begins again
    held = _called(node, "min") or _called(node, "max") or _called(node, "clamp")
    if held:
        steps = [_step(arg, known, own) for arg in held]
        return steps[0] if steps[1:].count(0) == len(steps) - 1 else None
    if isinstance(node, ast.Binary) and node.op in ("+", "-", "*"):
        x, y = _step(node.left, known, own), _step(node.right, known, own)
        if x is None or y is None:
            return None
        if node.op != "*":
            return x + y if node.op == "+" else x - y
        if x == y == 0:
            return 0
        factor, times = (node.left, y) if x == 0 else (node.right, x)
        whole = isinstance(factor, ast.Num) and factor.text.isdigit()
        return times * int(factor.text) if whole and isinstance(factor, ast.Num) else None
    return 0 if not (_names(node) & (set(known) | own | THREAD_NAMES)) else None
