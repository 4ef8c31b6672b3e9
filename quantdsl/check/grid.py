"""`require` over the params' ranges: whether the defaults hold, and whether any point does."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from quantdsl.check.equations import STATE
from quantdsl.check.params import Param
from quantdsl.ir import ops
from quantdsl.ir.scalar import fdiv
from quantdsl.ir.walk import operands

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

POINTS_MAX = 200_000
"""Larger grids are not searched, so nothing is said about them."""

Word = Any
"""A number of one point, or an array of those of many: the operators are the same."""


def _quotient(x: Word, y: Word) -> Word:
    """As IEEE divides; Python's own numbers refuse a zero."""
    return fdiv(x, y) if isinstance(x, float) and isinstance(y, float) else x / y


BINARY: dict[str, Callable[[Word, Word], Word]] = {
    "iadd": operator.add,
    "isub": operator.sub,
    "imul": operator.mul,
    "fadd": operator.add,
    "fsub": operator.sub,
    "fmul": operator.mul,
    "fdiv": _quotient,
    "ilt": operator.lt,
    "ile": operator.le,
    "igt": operator.gt,
    "ige": operator.ge,
    "ieq": operator.eq,
    "ine": operator.ne,
    "flt": operator.lt,
    "fle": operator.le,
    "fgt": operator.gt,
    "fge": operator.ge,
    "feq": operator.eq,
    "fne": operator.ne,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
UNARY: dict[str, Callable[[Word], Word]] = {
    "not": lambda x: x ^ True,
    "ineg": operator.neg,
    "fneg": operator.neg,
    "i64_to_f64": lambda x: x * 1.0,
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
            if _holds(strategy, value.ir, {p.field: p.word(p.default) for p in used}):
                continue
            never = not _somewhere(strategy, value.ir, {p: points(p) for p in used})
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


def _somewhere(
    strategy: "Strategy", cond: ops.Expr, axes: Mapping[Param, Sequence[Fraction]]
) -> bool:
    """Whether a condition holds at a point of the grid, or there are too many points to look."""
    if math.prod(map(len, axes.values())) > POINTS_MAX:
        return True
    import numpy as np  # here, since defaults hold nearly always

    columns: dict[str, Word] = {}
    for number, (param, values) in enumerate(axes.items()):
        shape = [1] * len(axes)
        shape[number] = len(values)
        columns[param.field] = np.array([param.word(v) for v in values]).reshape(shape)
    with np.errstate(all="ignore"):
        return bool(np.any(_holds(strategy, cond, columns)))


def _holds(strategy: "Strategy", cond: ops.Expr, words: dict[str, Word]) -> Word:
    """Where the condition is true, of one point or, with an axis for each param, of a grid."""
    made = _made(strategy)

    def value(expr: ops.Expr) -> Word:
        if isinstance(expr, ops.Const):
            return expr.value
        if isinstance(expr, ops.Field) and expr.base == STATE:
            if expr.name not in words and expr.name in made:
                words[expr.name] = value(made[expr.name])
            if expr.name in words:
                return words[expr.name]
        if isinstance(expr, ops.Unary) and expr.op in UNARY:
            return UNARY[expr.op](value(expr.x))
        if isinstance(expr, ops.Binary) and expr.op in BINARY:
            return BINARY[expr.op](value(expr.x), value(expr.y))
        raise _Unsearchable

    return value(cond)
