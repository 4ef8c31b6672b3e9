"""Annotations: which there are, where each may stand, and which this version cannot verify yet.

An annotation is an assertion that the compiler verifies; one that it cannot verify is refused,
never ignored.
"""

from quantdsl.check.bindings import unknown
from quantdsl.check.context import Context
from quantdsl.lang import ast

AVAILABLE = {"warmup": (ast.Indicator,), "cost": (ast.Indicator, ast.Fn)}
LATER = (
    "critical_path",
    "no_allocation",
    "inline_always",
    "vectorizable",
    "latency",
    "cpu",
    "device",
    "workgroup",
    "shared",
    "async",
    "fast",
)

MEANING = ("async", "fast")
"""These are part of what a program means; the others only assert something of it."""

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
        for annotation in node.annotations:
            _one(cx, node, annotation)
    if isinstance(node, ast.Strategy):
        for item in node.items:
            check(cx, item)


def _one(cx: Context, node: ast.Node, annotation: ast.Annotation) -> None:
    name = annotation.name
    if name in LATER:
        if not isinstance(node, ast.Kernel):  # whose own error says that already
            cx.error(
                "QD0216",
                f"'@{name}' is not available yet",
                annotation.span,
                reason="an annotation is a promise that the compiler checks",
                help=None if name in MEANING else "delete the line; it changes no result",
            )
        return
    if name not in AVAILABLE:
        unknown(cx, name, annotation.span, [*AVAILABLE, *LATER], "among the annotations")
        return
    if not isinstance(node, AVAILABLE[name]):
        cx.error("QD0219", f"'@{name}' stands above an indicator", annotation.span)
    elif len(annotation.args) != 1 or annotation.args[0].name is not None:
        cx.error(
            "QD0219",
            f"'@{name}' takes one argument",
            annotation.span,
            help="@warmup(len)" if name == "warmup" else '@cost("O(1)")',
        )
    elif name == "cost" and not isinstance(annotation.args[0].value, ast.Str):
        cx.error("QD0219", "a cost is a text", annotation.args[0].span, help='@cost("O(1)")')
