"""Annotations: which there are, and where each may stand.

An annotation is an assertion that the compiler verifies; one that it cannot verify is refused,
never ignored.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from msgspec import Struct

from quantdsl.check import hosted, placing, signals
from quantdsl.check.bindings import unknown
from quantdsl.check.context import Context
from quantdsl.check.literals import DURATION_NS
from quantdsl.lang import ast

HANDLERS = (ast.On, ast.Every, ast.At)
ROUTINES = (*HANDLERS, ast.Fn, ast.Indicator)
AVAILABLE = {
    "warmup": (ast.Indicator,),
    "cost": (ast.Indicator, ast.Fn),
    "critical_path": HANDLERS,
    "no_allocation": ROUTINES,
    "inline_always": ROUTINES,
    "vectorizable": ROUTINES,
    "latency": HANDLERS,
    "cpu": HANDLERS,
    signals.NOTE: (ast.Let,),
    hosted.NOTE: (ast.Indicator,),
    placing.NOTE: (ast.Kernel, ast.Let),
    "workgroup": (ast.Kernel,),
    "grid": (ast.Kernel,),
    "shared": (ast.Kernel,),
    "unroll": (ast.Kernel,),
    "lanes": (ast.Kernel,),
    "kernel": (ast.Kernel,),
    "fast": (ast.Kernel,),
}
WHERE: dict[tuple[type, ...], str] = {
    HANDLERS: "a handler",
    ROUTINES: "a handler, a fn or an indicator",
    (ast.Kernel,): "a kernel",
    (ast.Let,): "an equation of the strategy",
    (ast.Kernel, ast.Let): "a kernel or an equation of the strategy",
}
SHAPES = {
    "warmup": "@warmup(len)",
    "cost": '@cost("O(1)")',
    "latency": "@latency(p99 = 1us)",
    "cpu": "@cpu(3)",
    signals.NOTE: signals.SHAPE,
    hosted.NOTE: hosted.SHAPE,
    placing.NOTE: "@device(auto), @device(cpu) or @device(cuda)",
}
FORMS = {signals.NOTE: signals.fits, hosted.NOTE: hosted.fits, placing.NOTE: placing.fits}
PROVEN = ("critical_path", "no_allocation", "inline_always", "vectorizable")
"""What is said of machine code, and held against it; these have no argument."""

Annotated = (
    ast.Let
    | ast.State
    | ast.Fn
    | ast.Indicator
    | ast.Kernel
    | ast.ParamDecl
    | ast.On
    | ast.Every
    | ast.At
    | ast.Action
    | ast.Strategy
)


def check(cx: Context, node: ast.Node) -> None:
    """Report each annotation of `node` that cannot be verified there, and of what it holds."""
    if isinstance(node, Annotated):
        names: set[str] = set()
        for annotation in node.annotations:
            _one(cx, node, annotation)
            if annotation.name in names:
                cx.error("QD0219", f"'@{annotation.name}' stands above it twice", annotation.span)
            names.add(annotation.name)
    if isinstance(node, ast.Strategy):
        for item in node.items:
            check(cx, item)


class Mark(Struct, frozen=True):
    """An annotation that machine code is held against, and the inner loops of what it marks."""

    name: str
    span: ast.Span
    loops: tuple[ast.Span, ...]


class Promises(Struct, frozen=True):
    """What is promised of a handler; `span` is that of the annotation that makes it critical."""

    critical: bool = False
    span: ast.Span = (0, 0)
    p99_ns: int = 0  # 0: nothing is said of its latency
    cpu: int | None = None
    marks: tuple[Mark, ...] = ()


def marks(
    node: ast.On | ast.Every | ast.At | ast.Fn | ast.Indicator | ast.Kernel,
) -> tuple[Mark, ...]:
    """What is said of the machine code of a handler or function."""
    loops = tuple(_inner_loops(node.body)) if isinstance(node.body, ast.Suite) else ()
    said = (note for note in node.annotations if note.name in PROVEN and not note.args)
    return tuple(Mark(note.name, note.span, loops) for note in said)


def _inner_loops(suite: ast.Suite) -> Iterator[ast.Span]:
    """The loops that hold no other, in the order of the text."""
    for stmt in suite.body:
        inner = [span for block in ast.suites(stmt) for span in _inner_loops(block)]
        loop = isinstance(stmt, ast.For | ast.While)
        yield from [stmt.span] if loop and not inner else inner


def promises(node: ast.On | ast.Every | ast.At) -> Promises:
    """The promises of well-formed annotations; others are reported already."""
    made: dict[str, Any] = {"marks": marks(node)}
    for note in node.annotations:
        if note.name not in ("critical_path", "latency", "cpu") or not _fits(note):
            continue
        if note.name == "critical_path":
            made |= {"critical": True, "span": note.span}
            continue
        number = note.args[0].value
        assert isinstance(number, ast.Num)
        unit = DURATION_NS[number.unit] if number.unit else 1
        made["p99_ns" if number.unit else "cpu"] = int(Fraction(number.text) * unit)
    return Promises(**made)


def _fits(note: ast.Annotation) -> bool:
    """Whether the annotation of a handler has its form."""
    if note.name in PROVEN:
        return not note.args
    if len(note.args) != 1 or not isinstance(note.args[0].value, ast.Num):
        return False
    name, number = note.args[0].name, note.args[0].value
    if note.name == "latency":
        return name == "p99" and number.unit in DURATION_NS and Fraction(number.text) > 0
    return name is None and not number.unit and number.text.isdigit()


def _one(cx: Context, node: ast.Node, annotation: ast.Annotation) -> None:
    name = annotation.name
    if name not in AVAILABLE:
        unknown(cx, name, annotation.span, [*AVAILABLE], "among the annotations")
        return
    if not isinstance(node, AVAILABLE[name]):
        where = WHERE.get(AVAILABLE[name], "an indicator")
        cx.error("QD0219", f"'@{name}' stands above {where}", annotation.span)
    elif name in FORMS or name in PROVEN or AVAILABLE[name] == HANDLERS:
        fits = FORMS.get(name, _fits)
        if not fits(annotation):
            cx.error(
                "QD0219",
                f"this is no '@{name}'",
                annotation.span,
                help=f"write {SHAPES.get(name, f'@{name}')}",
            )
    elif isinstance(node, ast.Kernel):
        return  # check/kernels.py holds what is said of a kernel to be true
    elif len(annotation.args) != 1 or annotation.args[0].name is not None:
        cx.error(
            "QD0219",
            f"'@{name}' takes one argument",
            annotation.span,
            help=SHAPES[name],
        )
    elif name == "cost" and not isinstance(annotation.args[0].value, ast.Str):
        cx.error("QD0219", "a cost is a text", annotation.args[0].span, help='@cost("O(1)")')
