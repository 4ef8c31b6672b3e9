"""Cross-sections: `xs.rank(x)` as a batch step over all instruments of the universe at once.

Three kinds of equations stand for one call: a gather writes an argument of each instrument that
takes part into a column, na for the others; the batch runs the function of std/xs.qdsl on whole
columns; a scatter gives each instrument its value. What std declares as `array[float, ...]` is a
panel here, as `array[int, ...]` a group, and as `float` the same number for all.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec import field

from quantdsl import limits
from quantdsl.check import arith
from quantdsl.check.arith import an
from quantdsl.check.bindings import Binding
from quantdsl.check.context import Context, LimitExceeded
from quantdsl.check.equations import THIS, Equation
from quantdsl.check.functions import Declared, Routine
from quantdsl.check.shares import GROSS_NET, both_sides, share, told_of_all, told_of_factor, within
from quantdsl.check.signatures import Parameter
from quantdsl.check.types import BOOL, FLOAT, INT, Type, ir_type
from quantdsl.check.universe import takes_part
from quantdsl.check.values import PANEL_SHIFT, Series, Value, error_value
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

WORK, OUT, BY = "w", "out", "by"
"""Parameters of std that the compiler fills in, and the argument that picks the grouped form."""
SHARES = ("share", "p", "top", "bottom")
"""Parameters of std that are a share of those present."""
HALF = 0.5
"""Two tails of half each are all."""
N = ops.SizeName("N_INSTRUMENTS")
NOBODY = ops.i64(-1)


class Gather(Equation):
    """`place[this] = value`, or what stands for missing, for each instrument."""

    conditions: list[ops.Expr] = field(default_factory=list)


class Across(Equation):
    """The call of the batch: its result goes to `place`, or `place` is the column it `fills`."""

    fills: bool = False


class Scatter(Equation):
    """`place = value` of each instrument, whether or not it has a bar."""


class CrossNamespace(Binding):
    """`xs`: the functions of std/xs.qdsl as a strategy calls them."""

    what = "the namespace 'xs'"
    has_members = True
    builtin = "namespace"

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy

    def member(self, name: str) -> "CrossFunction | None":
        """A function that a strategy may call: it has an example."""
        return CrossFunction(self.strategy, name) if name in self.members() else None

    def members(self) -> list[str]:
        """All of them."""
        found = self.strategy.library.namespace("xs").names
        return [name for name, one in found.items() if isinstance(one, Declared)]


class CrossFunction(Binding):
    """One function across instruments."""

    what = "a function across instruments"

    def __init__(self, strategy: "Strategy", name: str) -> None:
        self.strategy = strategy
        self.name = name

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The value of this instrument, or the one of all where the function returns one."""
        named = {arg.name for arg in node.args}
        grouped = f"{self.name}_{BY}"
        known = self.strategy.library.namespace("xs").names
        name = grouped if BY in named and grouped in known else self.name
        routine = self.strategy.library.routine(cx, known[name], 0)
        values = _matched(self.strategy, cx, self.name, routine, node)
        if values is None or any(value.bad for value in values.values()):
            return error_value(node.span)
        return _Call(self.strategy, cx, routine, node).made(values)


def _public(routine: Routine) -> list[Parameter]:
    return [param for param in routine.params if param.name not in (WORK, OUT)]


def _shown(param: Parameter) -> str:
    return BY if param.name == "group" else param.name


def _matched(
    strategy: "Strategy", cx: Context, name: str, routine: Routine, node: ast.Call
) -> dict[str, Value] | None:
    """The value of each parameter of the routine; None where the call does not fit."""
    params = _public(routine)
    places = [param for param in params if _shown(param) != BY]
    shape = f"xs.{name}({', '.join(map(_shown, params))})"
    found: dict[str, Value] = {}
    for number, arg in enumerate(node.args):
        by_name = {_shown(param): param for param in params}
        if arg.name is None and number < len(places):
            param = places[number]
        elif arg.name in by_name:
            param = by_name[arg.name]
        else:
            what = f"no argument {arg.name!r}" if arg.name else _at_most(len(places), by_name)
            way = f"{shape}{_of_groups(strategy)}" if arg.name == BY else shape
            cx.error("QD0308", f"xs.{name} takes {what}", arg.span, help=way)
            return None
        given = _argument(cx, name, param, arg)
        if param.name in SHARES:
            given = within(cx, strategy, given, arg, HALF if name == "winsorize" else 1.0)
            if param.name != "p":  # where 1 is the largest value
                told_of_all(cx, arg)
        if param.name in GROSS_NET:
            told_of_factor(cx, arg.value)
        found[param.name] = given
    for param in params:
        if param.name not in found:
            value = _default(cx, param, name, node, shape)
            if value is None:
                return None
            found[param.name] = value
    return found if both_sides(cx, strategy, found, node) else None


def _of_groups(strategy: "Strategy") -> str:
    """What there is within groups, for who asks it of another function."""
    names = strategy.library.namespace("xs").names
    able = ", ".join(f"xs.{name}" for name in names if f"{name}_{BY}" in names)
    return (
        f"; within groups there are {able}, such as xs.rank(x, by = sector) <= 20%, the lowest "
        "fifth of each"
    )


def _at_most(places: int, names: Collection[str]) -> str:
    """How many arguments without a name there may be, which `by` may make fewer."""
    noun = "argument" if places == 1 else "arguments"
    return f"{places} {noun} at most{' beside by' if BY in names else ''}"


def _argument(cx: Context, name: str, param: Parameter, arg: ast.Arg) -> Value:
    value = cx.expr(arg.value)
    if value.bad:
        return value
    if value.series is None:
        return cx.error(
            "QD0305",
            "a cross-section is made of market data and params alone",
            arg.span,
            help="write it as an equation: a 'let' at the level of the strategy",
        )
    if param.type.kind != "array":
        if value.series.panel:
            return cx.error("QD0301", "one number for all is needed here", arg.span)
        return share(cx, value, arg, "a share of all is a number, such as 20%")
    if param.type.elem == INT:
        if value.type.kind not in ("group", "int", "enum") or not value.series.panel:
            return cx.error(
                "QD0301",
                f"a group of each instrument is needed here, this is {an(value.type)}",
                arg.span,
                help="such as by = sector",
            )
        return value
    if value.type.kind == "bool":
        if name == "count":
            cx.warn(
                "QD0308",
                "xs.count counts who has a value, and false is one",
                arg.span,
                help="xs.sum counts of whom it is true",
            )
        ir = ops.Select(value.ir, ops.f64(1.0), ops.f64(0.0))
        return Value(FLOAT, ir, value.span, series=value.series)
    return arith.as_float(cx, value)


def _default(
    cx: Context, param: Parameter, name: str, node: ast.Call, shape: str
) -> Value | None:
    if param.node.default is not None:
        return arith.as_float(cx, cx.expr(param.node.default))
    if param.name == "scale":
        return Value(FLOAT, ops.f64(1.0), node.span, series=Series())
    cx.error("QD0308", f"xs.{name} needs {_shown(param)!r}", node.span, help=shape)
    return None


class _Call:
    """One call being turned into equations."""

    def __init__(self, strategy: "Strategy", cx: Context, routine: Routine, node: ast.Call) -> None:
        self.strategy = strategy
        self.equations = strategy.equations
        self.cx = cx
        self.routine = routine
        self.node = node
        self.line = cx.line(node)

    def made(self, values: dict[str, Value]) -> Value:
        """The result, computed once for all that ask for it."""
        who = takes_part(self.strategy, self.cx)
        series = arith.joined(list(values.values()))
        assert series is not None
        if not series.panel:
            return self.cx.error(
                "QD0311", "nothing here differs between the instruments", self.node.span
            )
        if self.strategy.ticks.ticks_of(series.clocks >> PANEL_SHIFT | series.clocks):
            return self.cx.error(
                "QD0311",
                "a tick is of one instrument, so there is nothing to compare it with",
                self.node.span,
                help="compare bars that are built of ticks: bars 1m, and xs of what they give",
            )
        key = ("across", self.routine.ir_name, tuple(v.ir for v in values.values()), tuple(who))
        if key not in self.equations.across:
            columns = {name: self._given(name, value, who) for name, value in values.items()}
            self.equations.across[key] = self._batch(columns, series)
        known = self.equations.across[key]
        return Value(known.type, known.ir, self.node.span, series=known.series)

    def _given(self, name: str, value: Value, who: list[ops.Expr]) -> ops.Expr:
        """A column of what each instrument has, or the number itself."""
        param = next(p for p in self.routine.params if p.name == name)
        if param.type.kind != "array":
            return value.ir
        assert value.series is not None
        assert param.type.elem is not None
        key = ("column", value.ir, tuple(who))
        if key not in self.equations.columns:
            column = self._column(param.type.elem)
            series = value.series
            clocks = series.clocks if series.panel else 1 << PANEL_SHIFT
            elem = param.type.elem
            self._add(Gather(column, elem, value.ir, clocks, series.warm, self.line, who))
            self.equations.columns[key] = column
        return self.equations.columns[key]

    def _column(self, elem: Type) -> ops.Field:
        return self.equations.field("x", ops.ArrayType(ir_type(elem), N))

    def _batch(self, columns: dict[str, ops.Expr], series: Series) -> Value:
        equations, routine = self.equations, self.routine
        out = next((p for p in routine.params if p.name == OUT), None)
        column = self._column(out.type.elem) if out is not None and out.type.elem else None
        fixed = {WORK: self.strategy.work(), OUT: column}
        args = tuple(columns.get(p.name) or fixed[p.name] for p in routine.params)
        call = ops.Call(routine.ir_name, tuple(arg for arg in args if arg is not None))
        universe = series.clocks >> PANEL_SHIFT
        warm = tuple((bit % PANEL_SHIFT, need) for bit, need in series.warm)
        if column is None:
            place = equations.field("v", ir_type(routine.result))
            self._add(Across(place, routine.result, call, universe, warm, self.line))
            return Value(routine.result, place, series=Series(universe, warm))
        assert out is not None
        assert out.type.elem is not None
        type_ = out.type.elem
        self._add(Across(column, type_, call, universe, warm, self.line, fills=True))
        place = equations.field("v", ir_type(type_), panel=True)
        value = ops.Elem(column, THIS)
        self._add(Scatter(place, type_, value, series.clocks, warm, self.line))
        return Value(type_, place, series=series)

    def _add(self, equation: Equation) -> None:
        if len(self.equations.all) >= limits.SERIES:
            span = self.node.span
            raise LimitExceeded(limits.SERIES, "this strategy has too many series", span)
        self.equations.all.append(equation)


def nothing(type_: Type) -> ops.Expr:
    """What stands in a column for who is missing."""
    return NOBODY if type_ == INT else arith.NAN


def missing(type_: Type) -> ops.Expr:
    """What a cross-section gives who is missing in it."""
    return ops.boolean(False) if type_ == BOOL else nothing(type_)


def present(type_: Type, value: ops.Expr) -> ops.Expr:
    """Whether a value counts: it is finite."""
    if type_ == INT:
        return ops.boolean(True)
    return ops.Binary("flt", ops.Unary("fabs", value), ops.f64(float("inf")))


