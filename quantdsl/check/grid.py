"""`require` over the params' ranges: whether the defaults hold, and whether any point does."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from quantdsl.check.equations import STATE
from quantdsl.check.literals import DURATION_NS, FRACTION
from quantdsl.check.params import Param
from quantdsl.ir import ops
from quantdsl.ir.walk import operands

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

POINTS_MAX = 200_000
"""Larger grids are not searched, so nothing is said about them."""

Column = npt.NDArray[np.generic]
BINARY = {
    "iadd": np.add,
    "isub": np.subtract,
    "imul": np.multiply,
    "fadd": np.add,
    "fsub": np.subtract,
    "fmul": np.multiply,
    "fdiv": np.divide,
    "ilt": np.less,
    "ile": np.less_equal,
    "igt": np.greater,
    "ige": np.greater_equal,
    "ieq": np.equal,
    "ine": np.not_equal,
    "flt": np.less,
    "fle": np.less_equal,
    "fgt": np.greater,
    "fge": np.greater_equal,
    "feq": np.equal,
    "fne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


class _Unsearchable(Exception):  # noqa: N818 - it is caught here, never shown
    """The condition is made of something that is known at run time only."""


def check(strategy: "Strategy") -> None:
    """Report requires that the defaults or all points break; the first that is to blame."""
    cx = strategy.cx
    for value, node in strategy.requires:
        fields = {param.field: param for param in strategy.params}
        used = [fields[name] for name in _names(strategy, value.ir) if name in fields]
        try:
            if _holds(strategy, value.ir, {param.field: [param.default] for param in used}):
                continue
            axes = {param.field: points(param) for param in used}
            never = _size(axes) <= POINTS_MAX and not _holds(strategy, value.ir, axes)
        except _Unsearchable:
            continue
        if never:
            cx.error(
                "QD0705",
                "no point of the ranges satisfies this",
                node.cond.span,
                help="widen a range, or mend the condition",
            )
        else:
            shown = ", ".join(f"{p.name} = {float(p.default):g}" for p in used)
            cx.warn(
                "QD0705",
                "the defaults do not satisfy this",
                node.cond.span,
                reason=f"with {shown} a run refuses to start",
                help="change a default, or mend the condition",
            )


class Steps(Sequence[Fraction]):
    """low, low + step and so on; a value is made when it is asked for."""

    def __init__(self, low: Fraction, step: Fraction, high: Fraction) -> None:
        self._low, self._step = low, step
        self._count = int((high - low) / step) + 1

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Fraction: ...
    @overload
    def __getitem__(self, at: slice) -> list[Fraction]: ...
    def __getitem__(self, at: int | slice) -> Fraction | list[Fraction]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(self._count))]
        if not -self._count <= at < self._count:
            raise IndexError(at)
        return self._low + self._step * (at % self._count)


def points(param: Param) -> Sequence[Fraction]:
    """Every value of the range; the default alone where there is no grid."""
    if param.low is None or param.high is None:
        return [param.default]
    if param.log_count:
        ratio = float(param.high / param.low) if param.low else 1.0
        last = max(param.log_count - 1, 1)
        # A value is named by its decimals; twelve of them hide how pow rounds on this machine.
        inner = (float(param.low) * ratio ** (i / last) for i in range(1, last))
        return [param.low, *(Fraction(f"{value:.12g}") for value in inner), param.high]
    step = param.step or (Fraction(1) if param.whole else (param.high - param.low) or Fraction(1))
    return Steps(param.low, step, param.high)


def _size(axes: dict[str, Sequence[Fraction]]) -> int:
    size = 1
    for values in axes.values():
        size *= len(values)
    return size


def _names(strategy: "Strategy", expr: ops.Expr) -> dict[str, None]:
    """The fields that an expression depends on, through what is computed at the start."""
    made = _made(strategy)
    names: dict[str, None] = {}
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ops.Field) and node.base == STATE:
            if node.name in names:
                continue
            names[node.name] = None
            waiting += [made[node.name]] if node.name in made else []
        waiting += operands(node)
    return names


def _made(strategy: "Strategy") -> dict[str, ops.Expr]:
    return {
        stmt.place.name: stmt.value
        for stmt in strategy.equations.at_start
        if isinstance(stmt, ops.Assign) and isinstance(stmt.place, ops.Field)
    }


def _holds(strategy: "Strategy", cond: ops.Expr, axes: dict[str, Sequence[Fraction]]) -> bool:
    """Whether the condition is true somewhere; each param varies along an axis of its own."""
    by_field = {param.field: param for param in strategy.params}
    columns: dict[str, Column] = {}
    for number, (name, values) in enumerate(axes.items()):
        shape = [1] * len(axes)
        shape[number] = len(values)
        columns[name] = _column(by_field[name], values).reshape(shape)
    made = _made(strategy)

    def value(expr: ops.Expr) -> Column:
        if isinstance(expr, ops.Const):
            return np.asarray(expr.value)
        if isinstance(expr, ops.Field) and expr.base == STATE:
            if expr.name not in columns and expr.name in made:
                columns[expr.name] = value(made[expr.name])
            if expr.name in columns:
                return columns[expr.name]
        if isinstance(expr, ops.Unary) and expr.op in ("not", "i64_to_f64", "ineg", "fneg"):
            x = value(expr.x)
            if expr.op == "not":
                return np.logical_not(x)
            return x.astype(np.float64) if expr.op == "i64_to_f64" else np.negative(x)
        if isinstance(expr, ops.Binary) and expr.op in BINARY:
            found: Column = BINARY[expr.op](value(expr.x), value(expr.y))
            return found
        raise _Unsearchable

    with np.errstate(all="ignore"):
        return bool(np.any(value(cond)))


def _column(param: Param, values: Sequence[Fraction]) -> Column:
    """The words of the state that these values become."""
    if param.kind == "duration":
        return np.array([int(v * DURATION_NS[param.unit]) for v in values], np.int64)
    if param.whole:
        return np.array([int(v) for v in values], np.int64)
    factor = FRACTION.get(param.unit, Fraction(1))
    return np.array([float(v * factor) for v in values], np.float64)
