"""kernel: a function of windows, elaborated like a fn, whose loops may be parallel.

It is pure: it reads windows and scalars, writes to its own locals, and returns a value. A call is
an equation of the strategy, so it is evaluated once a tick, from the tick on which its windows are
full. Its kind is recognised here, and what annotations say of it is checked.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from quantdsl import limits
from quantdsl.check import launches, threads
from quantdsl.check.arith import an
from quantdsl.check.calls import bind_size
from quantdsl.check.context import Context, Scope
from quantdsl.check.functions import Builder, Declared, Routine
from quantdsl.check.grid_phases import gridded
from quantdsl.check.kinds import KINDS, kind_of, loads
from quantdsl.check.nodes import inside
from quantdsl.check.phases import phased
from quantdsl.check.signatures import Parameter
from quantdsl.check.thread_base import Threads
from quantdsl.check.types import BOOL, F32, FLOAT, INT, Type
from quantdsl.ir import ops
from quantdsl.ir import threads as form
from quantdsl.ir.strands import STRANDS
from quantdsl.ir.tensors import ORDER, ROUNDED
from quantdsl.ir.walk import statements
from quantdsl.lang import ast
from quantdsl.lang.diagnostics import Label
from quantdsl.lang.spelling import nearest

THREADS_MAX = 1_024
"""Of a block, on every GPU."""
VIEWS = frozenset({"window", "tensor", "error"})


class KernelFacts(Struct, frozen=True):
    """What is known of a kernel before it runs; `windows` are the lengths of its windows."""

    name: str
    kind: str
    windows: tuple[int, ...]
    node: ast.Kernel
    arrays: dict[str, tuple[str, Type]]
    """Its arrays and tensors: the name in IR -> the name and type in the source."""
    params: tuple[Parameter, ...]
    result: Type
    loads: tuple[tuple[int, str, str], ...]
    """Reads of windows in its parallel loops: line, text, and how a warp's threads meet there."""

    @property
    def parallel(self) -> int:
        """Its parallel loops."""
        return sum(isinstance(n, ast.For) and n.parallel for n in inside(self.node.body))

    def fits(self, cx: Context, sizes: Mapping[str, ops.Size], span: ast.Span) -> bool:
        """Whether its memory is within the limits where `sizes` are those of a call, or none.

        Reports what is not; what no call decides, where there are none.
        """
        always, here = self._beyond({}), self._beyond(sizes)
        if here is not None and (always is None or not sizes):
            kind, total, most = here
            threads = self.threads if self.kind == "threads" else 1
            each = f" of its {threads} threads" if kind == "own" and threads > 1 else ""
            cx.error(
                "QD0908",
                f"the {kind} memory{each} of {self.name!r} is {total:,} bytes"
                + (" here" if sizes else ""),
                span,
                reason=f"at most {most:,} fit: {most.why}",
                help="make its arrays smaller, and go over the data in parts",
            )
        return here is None

    def _beyond(self, sizes: Mapping[str, ops.Size]) -> tuple[str, int, limits.Limit] | None:
        """The memory that is larger than its limit as far as these sizes say, and that."""
        threads = self.threads if self.kind == "threads" else 1
        total = {"shared": 0, "own": 0}
        for _, type_ in self.arrays.values():
            size = bind_size(type_.size, dict(sizes))
            if isinstance(size, int):
                whole = type_.kind == "shared"
                total["shared" if whole else "own"] += 8 * size * (1 if whole else threads)
        if self.tensors:
            total["own"] = 0  # a call says its sizes, and where it runs what there is
        most = {"shared": limits.SHARED_BYTES, "own": limits.KERNEL_BYTES}
        return next(((k, total[k], most[k]) for k in total if total[k] > most[k]), None)

    @property
    def tensors(self) -> tuple[Parameter, ...]:
        """What lies in memory of its caller; a kernel that takes some is in no strategy."""
        return tuple(param for param in self.params if param.type.kind == "tensor")

    @property
    def threads(self) -> int:
        """Of a block that runs it: those of @workgroup, or one for each strand."""
        return math.prod(launches.dims_of(self.node.annotations) or (STRANDS,))

    @property
    def fast(self) -> str:
        """What @fast lets be another than in order: one of ROUNDED, or ORDER; else empty."""
        return next((_word(note) for note in self.node.annotations if note.name == "fast"), "")

    def __str__(self) -> str:
        if self.tensors:
            over = " and ".join(str(one.type) for one in self.tensors)
            block = f", blocks of {self.threads} threads" if self.kind == "threads" else ""
            fast = f", factors rounded to {self.fast} on tensor cores" if self.fast else ""
            if self.fast == ORDER:
                fast = ", summed up in any order on a device"
            return f"{self.kind}, over {over}{block}{fast}"
        lengths = " and ".join(f"{length:,}" for length in self.windows)
        if self.kind == "threads":
            return f"{self.kind}, over {lengths} values, {self.threads} threads"
        loops = self.parallel
        strands = f"{loops} parallel loop{'s' * (loops > 1)} of {STRANDS} strands"
        return f"{self.kind}, over {lengths} values" + (f", {strands}" if loops else "")


class KernelBuilder(Builder):
    """Elaborates one kernel."""

    def __init__(self, cx: Context, binding: Declared, number: int) -> None:
        super().__init__(cx, binding, number)
        self.cx.kernel = True
        self.cx.scope.parent = Scope(self.module.scope)
        self.cx.scope.parent.names.update(threads.NAMES)
        dims = launches.dims_of(self.node.annotations)
        # What is no block is reported with the annotation; nothing here grows with its number.
        known = dims if dims is not None and 0 < math.prod(dims) <= THREADS_MAX else (STRANDS, 1, 1)
        self.cx.threads = Threads(known, dims is not None)

    def signature(self) -> list[Parameter]:
        """As of a fn; what is no window and no tensor is a number or a truth value."""
        params = super().signature()
        for param in params:
            if param.type.kind not in VIEWS and param.type not in (FLOAT, F32, INT, BOOL):
                self.cx.error(
                    "QD0202",
                    "a kernel takes windows or tensors, numbers and bools, "
                    f"{param.name!r} is {an(param.type)}",
                    param.node.span,
                )
        kinds = {param.type.kind for param in params}
        if not kinds & VIEWS:
            self.cx.error(
                "QD0905",
                "a kernel takes a window, or a tensor",
                self.node.name.span,
                reason="it runs over the last values of a series, or over a caller's memory",
                help="give it one: r: window[float, 256]. Without, it is a fn",
            )
        if {"window", "tensor"} <= kinds:
            self.cx.error(
                "QD0905",
                "a kernel takes windows or tensors, not both",
                self.node.name.span,
                reason="windows are a strategy's, tensors those of who calls it from Python",
            )
        self.cx.pieces = "tensor" in kinds
        assert isinstance(self.node, ast.Kernel)
        if self.cx.pieces:
            self.cx.threads.grid = launches.grid_of(self.cx, self.node)
        return params

    def finish(self, routine: Routine, decls: list[ops.ParamDecl]) -> None:
        """A kernel of threads becomes loops over them."""
        made = self.cx.threads
        for func in form.FUNCTIONS:
            self.cx.library.define(func)
        if made.used is not None:
            self._require_threads(made)
            body = tuple(self.cx.block)
            block = phased(self.cx, body, made.count, made.marks, made.returns)
            if made.grid and block:
                self._require_no_result(body)
                block = gridded(self.cx, block, made)
            self.cx.block = list(block)
        super().finish(routine, decls)

    def _require_no_result(self, body: tuple[ops.Stmt, ...]) -> None:
        """What many blocks leave is in memory: none of them returns."""
        for stmt in statements(body):
            if isinstance(stmt, ops.Return):
                self.cx.error(
                    "QD0909",
                    "a kernel of threads over tensors does not return",
                    self.cx.threads.returns[id(stmt)],
                    reason="it runs as a grid of blocks, which has no one result",
                    help="write a result to an element of an inout tensor, and a branch around "
                    "what is left out",
                )

    def _require_threads(self, made: Threads) -> None:
        """A kernel of threads says how many there are, and nothing else makes threads of it."""
        if not made.said:
            self.cx.error(
                "QD0909",
                "a kernel of threads says how many there are",
                made.used.span if made.used is not None else self.node.name.span,
                reason="what a thread does follows from its number",
                help="write @workgroup(256) above the kernel",
            )
        if made.sorts is not None:
            self.cx.error(
                "QD0909",
                "a kernel of threads sorts by its threads",
                made.sorts.span,
                reason="'sort' is made of parallel loops, which it has none of",
                help="sort in a kernel of parallel loops",
            )
        for part in inside(self.node.body):
            if isinstance(part, ast.For) and part.parallel:
                self.cx.error(
                    "QD0909",
                    "a kernel of threads has no parallel loop",
                    part.name.span,
                    reason="its threads share the work by their numbers",
                    help="write 'for', or leave the threads to the parallel loop",
                )

    def run(self) -> Routine:
        """Elaborate, and hold its annotations to be true."""
        routine = super().run()
        assert isinstance(self.node, ast.Kernel)
        kind = "threads" if self.cx.threads.used is not None else kind_of(self.node)
        _verify(self.cx, self.node, kind)
        tensors = {str(one.type.elem) for one in routine.params if one.type.kind == "tensor"}
        _require_fast(self.cx, self.node, kind, tensors)
        source = self.module.source
        made = self.cx.threads
        met = tuple(
            (source.position(load.span[0]).line, source.text[slice(*load.span)], str(load))
            for load in loads(self.node, made.dims[0] if made.used is not None else None)
        )
        windows = [param.type.size for param in routine.params if param.type.kind == "window"]
        lengths = tuple(size for size in windows if isinstance(size, int))
        facts = KernelFacts(
            self.node.name.id,
            kind,
            lengths,
            self.node,
            self.cx.arrays,
            tuple(routine.params),
            routine.result,
            met,
        )
        self.cx.library.kernels[self.ir_name] = facts
        facts.fits(self.cx, {}, self.node.name.span)
        return routine


def _verify(cx: Context, node: ast.Kernel, kind: str) -> None:
    """Report each annotation that is not true."""
    for note in node.annotations:
        if note.name == "kernel":
            said = _word(note)
            if said not in KINDS:
                near = nearest(said.lower(), KINDS)
                cx.error(
                    "QD0219",
                    "this is no '@kernel'",
                    note.span,
                    reason=f"the kinds are {', '.join(KINDS)}; this one is {kind}",
                    help=f"did you mean @kernel({near})?" if near else f"write @kernel({kind})",
                    edit=(note.span, f"@kernel({near or kind})"),
                )
            elif said != kind:
                cx.error(
                    "QD0906",
                    f"this kernel is no {said}",
                    note.span,
                    reason=f"its kind is {kind}",
                    help=f"write @kernel({kind})",
                    edit=(note.span, f"@kernel({kind})"),
                )
        elif note.name == "workgroup":
            _workgroup(cx, note, alone=kind != "threads")
        elif note.name == "grid" and not (kind == "threads" and cx.pieces):
            cx.error(
                "QD0906",
                "this kernel does not say what each block does",
                note.span,
                reason="a kernel of threads over tensors has a grid, any other call is a block",
                help="delete the line",
            )
        elif note.name == "shared":
            _shared(cx, note)
        elif note.name == "unroll":
            _counted(cx, note, _innermost(node), "innermost loop")
        elif note.name == "lanes":
            made = [n for n in inside(node.body) if isinstance(n, ast.For) and n.parallel]
            _counted(cx, note, made, "parallel loop")


def _require_fast(cx: Context, node: ast.Kernel, kind: str, tensors: set[str]) -> None:
    """`@fast(bf16)`: of products of f32 alone, `@fast(order)`: of scans of tensors alone."""
    for note in node.annotations:
        if note.name != "fast":
            continue
        said = _word(note)
        if said not in (*ROUNDED, ORDER):
            shapes = ", ".join(f"@fast({name})" for name in ROUNDED)
            _shape(cx, note, f"{shapes} or @fast({ORDER})")
        elif said == ORDER and not (kind == "scan" and tensors):
            reason = "@fast(order) lets the sums of a scan of tensors be put together in any order"
            cx.error("QD0906", "this kernel is no scan of tensors", note.span,
                     reason=reason, help="delete the line")  # fmt: skip
        elif said in ROUNDED and not (kind == "matmul" and tensors == {"f32"}):
            reason = "tensor cores may round the factors of a matrix product of tensors"
            cx.error("QD0906", "this kernel is no product of f32", note.span,
                     reason=reason, help="delete the line")  # fmt: skip


def _workgroup(cx: Context, note: ast.Annotation, *, alone: bool) -> None:
    """`@workgroup(n)`: so many threads share the strands; `@workgroup(x, y, z)`: so many are."""
    dims = launches.dims_of((note,))
    if dims is None or (alone and len(note.args) > 1):
        _shape(cx, note, "@workgroup(256)")
        return
    x, y, z = dims
    count, most = x * y * z, STRANDS if alone else THREADS_MAX
    if count % form.WARP or not 0 < count <= most:
        what = f"share {STRANDS} strands" if alone else "be a block"
        cx.error(
            "QD0906",
            f"a workgroup of {count:,} threads cannot {what}",
            note.span,
            reason=f"a warp has {form.WARP} threads, and a "
            + (f"parallel loop has {STRANDS} strands" if alone else f"block at most {THREADS_MAX}"),
            help=f"write a multiple of {form.WARP}, at most {most}",
        )


def _shared(cx: Context, note: ast.Annotation) -> None:
    """`@shared(bytes)`: what a block's threads declare to share takes no more."""
    most = _number(note)
    if not most:
        _shape(cx, note, "@shared(4_096), with a number of bytes")
        return
    declared = [(name, type_) for name, type_ in cx.arrays.values() if type_.kind == "shared"]
    total = sum(8 * type_.size for _, type_ in declared if isinstance(type_.size, int))
    open_ = next((name for name, type_ in declared if not isinstance(type_.size, int)), None)
    if declared and open_ is None and total <= most:
        return
    told = f"this kernel shares {total:,} bytes" if declared else "this kernel declares none"
    cx.error(
        "QD0906",
        told if open_ is None else f"the size of {open_!r} is that of a call",
        note.span,
        reason=f"a block is said to share memory of at most {most:,} bytes",
        help="delete the line" if open_ or not declared else f"write @shared({total})",
    )


def _innermost(node: ast.Kernel) -> list[ast.For | ast.While]:
    """The loops of a kernel that hold no other."""
    loops = [part for part in inside(node.body) if isinstance(part, ast.For | ast.While)]
    return [
        loop
        for loop in loops
        if not any(isinstance(part, ast.For | ast.While) for part in inside(loop.body))
    ]


def _counted(
    cx: Context, note: ast.Annotation, loops: Sequence[ast.For | ast.While], what: str
) -> None:
    """`@unroll(n)`, `@lanes(n)`: each loop has turns for n at a time, and none is left over."""
    number = _number(note)
    if number is None or number < 2 or STRANDS % number:
        _shape(cx, note, f"@{note.name}(4), with a power of two up to {STRANDS}")
        return
    if not loops:
        cx.error("QD0906", f"this kernel has no {what}", note.span, help="delete the line")
    for loop in loops:
        turns = cx.counted.get(loop.span)
        if turns is None or turns % number:
            found = "not known when compiling" if turns is None else f"{turns:,}"
            at = loop.over.span if isinstance(loop, ast.For) else loop.cond.span
            cx.error(
                "QD0906",
                f"this {what} does not go {number} turns at a time",
                note.span,
                labels=(Label(at, f"the number of its turns is {found}"),),
                help="give it constant ends, so many apart, or delete the line",
            )


def _number(note: ast.Annotation) -> int | None:
    """The one whole number between the brackets."""
    return launches.whole(note.args[0]) if len(note.args) == 1 else None


def _word(note: ast.Annotation) -> str:
    """The one word between the brackets, or an empty string."""
    value = note.args[0].value if len(note.args) == 1 and note.args[0].name is None else None
    return value.id if isinstance(value, ast.Name) else ""


def _shape(cx: Context, note: ast.Annotation, shape: str) -> None:
    cx.error("QD0219", f"this is no '@{note.name}'", note.span, help=f"write {shape}")
