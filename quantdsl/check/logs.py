"""log, alert and mark: a message number and up to four values; the text is made outside.

The template is split at compile time: `"pnl {pnl}"` sends the number of the message and the
value of `pnl`. Nothing is formatted where the strategy runs.
"""

import re
from typing import TYPE_CHECKING

from quantdsl.check import arith
from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context
from quantdsl.check.market import ENGINE
from quantdsl.check.types import VOID
from quantdsl.check.values import Value
from quantdsl.events.messages import Message
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

HOLE = re.compile(r"\{([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\}")
OTHER = re.compile(r"\{[^{}]*\}?|\}")
"""Braces that are no hole."""
VALUES_MAX = 4
LOG_RECORD = 20


class LogFunction(Binding):
    """log("..."), alert("..."), mark("...")."""

    what = "an output function"
    builtin = "function"

    def __init__(self, strategy: "Strategy", kind: str) -> None:
        self.strategy = strategy
        self.kind = kind

    def call(self, cx: Context, node: ast.Call) -> Value:
        """Emit a record with the number of the message and its values."""
        spoken = bool(node.args) and isinstance(node.args[0].value, ast.Str)
        if self.kind == "log" and not spoken:
            logarithm = cx.library.globals.find("log")
            assert isinstance(logarithm, Binding)
            return logarithm.call(cx, node)
        if not spoken:
            return cx.error(
                "QD0308", f"{self.kind} takes a text", node.span, help=f'{self.kind}("pnl {{pnl}}")'
            )
        if len(node.args) > 1:
            return cx.error(
                "QD0308",
                f"{self.kind} takes one text",
                node.args[1].span,
                help=f'values stand in it: {self.kind}("pnl {{pnl}}")',
            )
        if self.strategy.critical:
            return cx.error(
                "QD0612",
                f"{self.kind} in a critical path",
                node.span,
                reason="a record is more than its budget of time allows",
                help="note it in a state, and write it in another handler",
            )
        assert isinstance(node.args[0].value, ast.Str)
        text = node.args[0].value.value
        names = HOLE.findall(text)
        other = OTHER.search(HOLE.sub("", text))
        if other is not None:
            return cx.error(
                "QD0308",
                f"'{other[0]}' in a text is no name of a value",
                node.args[0].span,
                reason="braces hold the name of what is written there, not more",
                help=f'name it before: let x = ..., then {self.kind}("... {{x}}")',
            )
        if len(names) > VALUES_MAX:
            return cx.error("QD0308", f"a message holds at most {VALUES_MAX} values", node.span)
        words: list[ops.Expr] = []
        kinds: list[str] = []
        for name in names:
            value = cx.expr(_named(node.args[0].span, name))
            if value.bad:
                return value
            word, kind = _word(cx, value)
            words.append(word)
            kinds.append(kind)
        message = Message(self.kind, HOLE.sub("{}", text), tuple(kinds))
        if message not in self.strategy.messages:
            self.strategy.messages.append(message)
        number = self.strategy.messages.index(message)
        padded = [*words, *[ops.i64(0)] * (VALUES_MAX - len(words))]
        emit = ops.Call(
            self.strategy.core("engine.emit"),
            (
                ENGINE,
                ops.i64(LOG_RECORD),
                ops.i64(0),
                ops.i64(0),
                ops.i64(0),
                ops.i64(number),
                *padded,
            ),
        )
        cx.emit(ops.Do(emit, cx.line(node)))
        return Value(VOID, ops.i64(0), node.span)


def _named(span: ast.Span, name: str) -> ast.Expr:
    """`pnl` or `order.reason` as an expression."""
    first, *rest = name.split(".")
    node: ast.Expr = ast.Name(span, first)
    for part in rest:
        node = ast.Attr(span, node, part, span)
    return node


def _word(cx: Context, value: Value) -> tuple[ops.Expr, str]:
    """A value as one 64-bit word, and how to read it back."""
    kind = value.type.kind
    if kind == "bool":
        return ops.Unary("bool_to_i64", value.ir), "bool"
    if kind in ("int", "time", "duration"):
        return value.ir, kind
    if kind == "enum":
        return value.ir, "word " + " ".join(cx.library.enum(value.type.of).members())
    if kind == "choice":
        return value.ir, "word " + " ".join(value.names)
    number = arith.as_float(cx, value)
    return ops.Unary("bits", number.ir), "float"
