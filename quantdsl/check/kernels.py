"""kernel: a function of windows, elaborated like a fn, whose loops may be parallel.

It is pure: it reads windows and scalars, writes to its own locals, and returns a value. A call is
an equation of the strategy, so it is evaluated once a tick, from the tick on which its windows are
full. Its kind is recognised here, and what annotations say of it is checked.
"""

from dataclasses import dataclass

from quantdsl.check.arith import an
from quantdsl.check.context import Context
from quantdsl.check.functions import Builder, Declared, Routine
from quantdsl.check.nodes import inside
from quantdsl.check.signatures import Parameter
from quantdsl.check.types import BOOL, F32, FLOAT, INT
from quantdsl.ir.strands import STRANDS
from quantdsl.lang import ast

WARP = 32
KINDS = ("elementwise", "reduce", "scan", "general")
"""elementwise: no loop over the window; reduce: one or more parallel loops that reduce, and no
other loop over the window; scan: one that goes along the window in order; general: all else."""
DEVICES = ("auto", "cpu", "gpu")


@dataclass(frozen=True)
class KernelFacts:
    """What is known of a kernel before it runs; `windows` are the lengths of its windows."""

    name: str
    kind: str
    windows: tuple[int, ...]
    node: ast.Kernel

    @property
    def parallel(self) -> int:
        """Its parallel loops."""
        return sum(isinstance(n, ast.For) and n.parallel for n in inside(self.node.body))

    @property
    def threads(self) -> int:
        """Of a block that runs it: those of @workgroup, or one for each strand."""
        said = [note.args[0].value for note in self.node.annotations if note.name == "workgroup"]
        return int(said[0].text) if said and isinstance(said[0], ast.Num) else STRANDS

    def __str__(self) -> str:
        lengths = " and ".join(f"{length:,}" for length in self.windows)
        loops = self.parallel
        strands = f"{loops} parallel loop{'s' * (loops > 1)} of {STRANDS} strands"
        return f"{self.kind}, over {lengths} values" + (f", {strands}" if loops else "")


class KernelBuilder(Builder):
    """Elaborates one kernel."""

    def __init__(self, cx: Context, binding: Declared, number: int) -> None:
        super().__init__(cx, binding, number)
        self.cx.kernel = True

    def signature(self) -> list[Parameter]:
        """As of a fn; what is no window is a number or a truth value."""
        params = super().signature()
        for param in params:
            plain = param.type.kind in ("window", "error") or param.type in (FLOAT, F32, INT, BOOL)
            if not plain:
                self.cx.error(
                    "QD0202",
                    f"a kernel takes windows, numbers and bools, {param.name!r} is "
                    f"{an(param.type)}",
                    param.node.span,
                )
        if not params or all(param.type.kind not in ("window", "error") for param in params):
            self.cx.error(
                "QD0905",
                "a kernel takes a window",
                self.node.name.span,
                reason="it runs over the last values of a series",
                help="give it one: r: window[float, 256]. Without, it is a fn",
            )
        return params

    def run(self) -> Routine:
        """Elaborate, and hold its annotations to be true."""
        routine = super().run()
        assert isinstance(self.node, ast.Kernel)
        kind = kind_of(self.node)
        _verify(self.cx, self.node, kind)
        windows = [param.type.size for param in routine.params if param.type.kind == "window"]
        lengths = tuple(size for size in windows if isinstance(size, int))
        made = KernelFacts(self.node.name.id, kind, lengths, self.node)
        self.cx.library.kernels[self.ir_name] = made
        return routine


def kind_of(node: ast.Kernel) -> str:
    """The kind of a kernel: one of KINDS."""
    windows = {p.name.id for p in node.params if p.type is not None and p.type.name == "window"}
    loops = [part for part in inside(node.body) if isinstance(part, ast.For | ast.While)]
    over = [loop for loop in loops if _reads(loop, windows)]
    if not over:
        return "elementwise"
    nested = {id(part) for loop in over for part in inside(loop.body)}
    outer = [loop for loop in over if id(loop) not in nested]
    if all(isinstance(loop, ast.For) and loop.parallel and loop.reduce for loop in outer):
        return "reduce"
    carried = all(not (isinstance(loop, ast.For) and loop.parallel) for loop in outer)
    return "scan" if carried and len(outer) == 1 else "general"


def _reads(loop: ast.For | ast.While, windows: set[str]) -> bool:
    """Whether a loop reads a window."""
    return any(
        isinstance(part, ast.Index)
        and isinstance(part.value, ast.Name)
        and part.value.id in windows
        for part in inside(loop.body)
    )


def _verify(cx: Context, node: ast.Kernel, kind: str) -> None:
    """Report each annotation that is not true."""
    for note in node.annotations:
        if note.name == "kernel":
            said = _word(note)
            if said not in KINDS:
                _shape(cx, note, f"@kernel({kind})")
            elif said != kind:
                cx.error(
                    "QD0906",
                    f"this kernel is no {said}",
                    note.span,
                    reason=f"its kind is {kind}",
                    help=f"write @kernel({kind})",
                    edit=(note.span, f"@kernel({kind})"),
                )
        elif note.name == "device":
            said = _word(note)
            if said not in DEVICES:
                _shape(cx, note, "@device(auto)")
            elif said == "gpu":
                cx.error(
                    "QD0906",
                    "this kernel does not run on a GPU by itself",
                    note.span,
                    reason="it runs where the strategy runs, with the same bits anywhere",
                    help="write @device(auto), or delete the line",
                )
        elif note.name == "workgroup":
            _workgroup(cx, note)


def _workgroup(cx: Context, note: ast.Annotation) -> None:
    """`@workgroup(n)`: so many threads share the strands."""
    number = note.args[0].value if len(note.args) == 1 and note.args[0].name is None else None
    if not isinstance(number, ast.Num) or number.unit or not number.text.isdigit():
        _shape(cx, note, "@workgroup(256)")
        return
    threads = int(number.text)
    if threads % WARP or not 0 < threads <= STRANDS:
        cx.error(
            "QD0906",
            f"a workgroup of {threads} threads cannot share {STRANDS} strands",
            note.span,
            reason=f"a warp has {WARP} threads, and a parallel loop has {STRANDS} strands",
            help=f"write a multiple of {WARP}, at most {STRANDS}",
        )


def _word(note: ast.Annotation) -> str:
    """The one word between the brackets, or an empty string."""
    value = note.args[0].value if len(note.args) == 1 and note.args[0].name is None else None
    return value.id if isinstance(value, ast.Name) else ""


def _shape(cx: Context, note: ast.Annotation, shape: str) -> None:
    cx.error("QD0219", f"this is no '@{note.name}'", note.span, help=f"write {shape}")
