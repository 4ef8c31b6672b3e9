"""`@host("module:function")`: an indicator whose values Python computes, offline.

    @host("models:slope")
    indicator slope(src: series[float], n: const int) -> float?:
        "Slope of the last n values."

The function is called once for each instrument with the whole history of its arguments, before
the run; what it returns enters the run as a column, a value at each bar of the finest clock. Here
is what the checker knows of it: its arguments, equations like all others, and the word of the
state that events bring its values to. Nothing here imports or runs anything.
"""

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl import limits
from quantdsl.check import arith
from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context, LimitExceeded
from quantdsl.check.equations import PANEL, Equation
from quantdsl.check.graph import Use
from quantdsl.check.types import FLOAT
from quantdsl.check.values import PANEL_SHIFT, Series, Value, error_value
from quantdsl.events.codes import Kind
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.modules import Module
    from quantdsl.check.strategy import Strategy

NOTE = "host"
SHAPE = '@host("module:function")'
TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
TRAIT = 128
"""A host's values come as traits of the instrument, from this number on."""


class HostCall(Struct, frozen=True):
    """A call whose values Python computes: `raw` is the word of the state that they come to."""

    target: str
    text: str
    line: int
    series: tuple[Value, ...]
    constants: tuple[tuple[str, Value], ...]
    kinds: tuple[str, ...]
    """Of the constants, as they are declared: int, bool, float."""
    raw: ops.Field
    needs: Series


def target_of(node: ast.Indicator) -> str | None:
    """`module:function` of an indicator with the annotation; None where it has none."""
    for note in node.annotations:
        if note.name == NOTE and fits(note):
            text = note.args[0].value
            assert isinstance(text, ast.Str)
            return text.value
    return None


def fits(note: ast.Annotation) -> bool:
    """Whether the annotation has its form."""
    if len(note.args) != 1 or note.args[0].name is not None:
        return False
    text = note.args[0].value
    return isinstance(text, ast.Str) and TARGET.fullmatch(text.value) is not None


class HostIndicator(Binding):
    """A declared indicator of the host."""

    what = "an indicator"

    def __init__(self, module: "Module", node: ast.Indicator, target: str) -> None:
        self.module = module
        self.node = node
        self.target = target
        self.used = False

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The column of a call, the same for all that ask for it."""
        self.used = True
        strategy = cx.strategy
        if strategy is None or cx.home is not strategy.equations:
            return cx.error(
                "QD0305",
                "an indicator of the host is called by an equation of the strategy",
                node.span,
                help="write it as a 'let' at the level of the strategy",
            )
        if problem := unusable(strategy):
            return cx.error("QD0216", f"'@{NOTE}' is not available {problem}", node.span)
        given = self._matched(cx, node)
        if given is None or any(value.bad for _, value in given):
            return error_value(node.span)
        return self._column(cx, strategy, given, node)

    def _matched(self, cx: Context, node: ast.Call) -> list[tuple[ast.Param, Value]] | None:
        params = self.node.params
        shape = f"{self.node.name.id}({', '.join(p.name.id for p in params)})"
        given: dict[str, ast.Expr] = {p.name.id: p.default for p in params if p.default is not None}
        names = [p.name.id for p in params]
        for number, arg in enumerate(node.args):
            name = arg.name or (names[number] if number < len(names) else "")
            if name not in names:
                cx.error("QD0308", f"this is called as {shape}", arg.span)
                return None
            given[name] = arg.value
        lacking = [name for name in names if name not in given]
        if lacking:
            cx.error("QD0308", f"{self.node.name.id} needs {lacking[0]!r}", node.span, help=shape)
            return None
        return [(param, self._argument(cx, param, given[param.name.id])) for param in params]

    def _argument(self, cx: Context, param: ast.Param, node: ast.Expr) -> Value:
        value = cx.expr(node)
        if value.bad:
            return value
        series = param.type is not None and param.type.name == "series"
        if value.series is None or (not series and value.series.clocks):
            what = "a series" if series else "a constant or a param"
            return cx.error("QD0305", f"{param.name.id} is {what}", node.span)
        return arith.as_float(cx, value)

    def _column(
        self,
        cx: Context,
        strategy: "Strategy",
        given: list[tuple[ast.Param, Value]],
        node: ast.Call,
    ) -> Value:
        equations, hosts = strategy.equations, strategy.hosts
        series = [v for p, v in given if p.type is not None and p.type.name == "series"]
        joined = arith.joined(series)
        if joined is None or not joined.clocks:
            return cx.error("QD0311", "nothing here changes over time", node.span)
        key = (NOTE, self.target, *(value.ir for _, value in given))
        if key not in hosts:
            if len(hosts) >= limits.HOST_CALLS:
                raise LimitExceeded(limits.HOST_CALLS, "too many calls of the host", node.span)
            panel = strategy.universe is not None
            clocks = 1 << PANEL_SHIFT if panel else strategy.mask(0)
            joined = equations.settle(Series(clocks, joined.warm))
            constants = [(p, v) for p, v in given if v.series and not v.series.clocks]
            raw = equations.field("c", ops.F64_T, panel=panel)
            place = equations.field("v", ops.F64_T, panel=panel)
            hosts[key] = HostCall(
                self.target,
                cx.module.source.text[slice(*node.span)],
                cx.line(node),
                tuple(equations.keep(cx, value) for value in series),
                tuple((p.name.id, v) for p, v in constants),
                tuple(p.type.name if p.type is not None else "float" for p, _ in constants),
                raw,
                joined,
            )
            equations.all.append(
                Equation(place, FLOAT.missing(), raw, clocks, joined.warm, cx.line(node))
            )
            equations.across[key] = Value(FLOAT.missing(), place, node.span, series=joined)
        known = equations.across[key]
        return Value(known.type, known.ir, node.span, series=known.series)


def unusable(strategy: "Strategy") -> str:
    """Why a strategy cannot have a column of the host; empty where it can."""
    if len(strategy.instruments) > 1:
        return "with several named instruments yet"
    return "on ticks yet" if strategy.ticks else ""


def hold_offline(strategy: "Strategy") -> None:
    """Errors where Python would have to run on a critical path, or inside a test."""
    for test in strategy.tests if strategy.hosts else ():
        strategy.cx.error(
            "QD0216",
            "tests of a strategy with a '@host' indicator are not available yet",
            test.span,
        )
    for handler in strategy.handlers if strategy.hosts else ():
        if handler.promises.critical:
            strategy.cx.error(
                "QD0219",
                "a strategy with a '@host' indicator has no critical path",
                handler.promises.span,
                reason="its values are computed by Python, before the run",
            )


def ingest(
    strategy: "Strategy", kind: ops.Expr, inst: ops.Expr, side: ops.Expr, event: ops.Place,
    uses: set[Use],
) -> tuple[ops.Stmt, ...]:  # fmt: skip
    """Values of the host into the words that are used of them."""
    value = ops.Unary("from_bits", ops.Field(event, "a"))
    taken = []
    for number, call in enumerate(strategy.hosts.values()):
        if (call.raw.name, "") not in uses:
            continue
        place = call.raw
        if strategy.universe is not None:
            place = ops.Field(ops.Elem(PANEL, inst), call.raw.name)
        own = ops.Binary("ieq", side, ops.i64(TRAIT + number))
        taken.append(ops.If(own, (ops.Assign(place, value),)))
    told = ops.Binary("ieq", kind, ops.i64(Kind.TRAIT))
    return (ops.If(told, tuple(taken)),) if taken else ()
