"""`sort(a)` and `sort(a, places)` in a kernel: a network of comparisons, the same on every target.

The order is that of the bits of numbers: -0.0 before 0.0, and NaN behind all. With `places`, an
array of ints of the same size, each value's number before the sort is left there, and equal values
keep their order; so what comes out does not depend on how it is sorted.

The network is bitonic, and each of its comparisons puts the smaller one first, so it needs no
padding: in each step a parallel loop compares pairs that have nothing in common.
"""

from quantdsl.check import sizes, tensors
from quantdsl.check.arith import an
from quantdsl.check.builtins import builtin
from quantdsl.check.context import Context
from quantdsl.check.parallel import Turns, strands
from quantdsl.check.thread_base import nothing
from quantdsl.check.types import F32, FLOAT, INT, ir_type
from quantdsl.check.values import Value, error_value
from quantdsl.ir import ops
from quantdsl.ir.strands import SORT
from quantdsl.lang import ast

_MANTISSA_BITS, _BIAS = 52, 1023


@builtin(
    "sort(a, places = none)",
    "Sorts an array of numbers, NaN last; places: the number of each before. In a kernel.",
    "sort(sorted)",
    in_kernels=True,
)
def _sort(cx: Context, node: ast.Call, given: list[Value]) -> Value:
    if cx.parallel is not None:
        return cx.error(
            "QD0903", "a sort stands in no turn of a parallel loop", node.span,
            reason="it is made of parallel loops itself",
        )  # fmt: skip
    cx.threads.sorts = node
    for arg, value, elems in zip(node.args, given, ((FLOAT, F32, INT), (INT,)), strict=False):
        if tensors.only_read(cx, arg.value, arg.span):
            return error_value(node.span)
        one = value.type.kind == "array" or (
            value.type.kind == "tensor" and len(value.type.dims) == 1
        )
        fits = one and value.type.elem in elems and value.writable
        twice = value is not given[0] and value.ir == given[0].ir
        if not fits or twice or value.type.size != given[0].type.size:
            what = "ints of its own, as many as there are values" if len(elems) == 1 else "numbers"
            return cx.error(
                "QD0301",
                f"a sort takes an array of {what}, this is {an(value.type)}",
                value.span,
                help="write sort(a), or sort(a, places), of arrays of one dimension that can be "
                "written to",
            )
    _emit(cx, given, cx.line(node))
    return nothing(node)


def _emit(cx: Context, given: list[Value], line: int) -> None:
    size = given[0].type.size
    count, half = ops.SizeOf(size), ops.Binary("ashr", ops.SizeOf(sizes.pow2(size)), ops.i64(1))
    if len(given) > 1:
        at = cx.fresh("i")
        numbered = ops.Assign(ops.Elem(given[1].place, ops.Var(at)), ops.Var(at), line)
        _parallel(cx, at, count, (numbered,), line)
    level, step = cx.fresh(SORT), cx.fresh("step")
    outer, cx.block = cx.block, []
    shift, reach, at = cx.fresh("shift"), cx.fresh("reach"), cx.fresh("i")
    cx.emit(ops.Let(shift, ops.I64_T, ops.Binary("isub", ops.Var(level), ops.Var(step)), line))
    cx.emit(ops.Let(reach, ops.I64_T, ops.Binary("shl", ops.i64(1), ops.Var(shift)), line))
    pair = _Pair(cx, given, count, line)
    block = pair.compared(ops.Var(at), ops.Var(step), ops.Var(shift), ops.Var(reach))
    _parallel(cx, at, half, block, line)
    inner, cx.block = cx.block, outer
    steps = ops.Binary("iadd", ops.Var(level), ops.i64(1))
    across = ops.For(step, ops.i64(0), steps, tuple(inner), line)
    # The logarithm of a power of two is the exponent of the float that it is.
    bits = ops.Unary("bits", ops.Unary("i64_to_f64", ops.SizeOf(sizes.pow2(size))))
    levels = ops.Binary("isub", ops.Binary("lshr", bits, ops.i64(_MANTISSA_BITS)), ops.i64(_BIAS))
    cx.emit(ops.For(level, ops.i64(0), levels, (across,), line))


def _parallel(
    cx: Context, at: str, turns: ops.Expr, block: tuple[ops.Stmt, ...], line: int
) -> None:
    """A parallel loop of so many turns, from 0 on."""
    low, number = cx.fresh("low"), cx.fresh("turns")
    cx.emit(ops.Let(low, ops.I64_T, ops.i64(0), line))
    cx.emit(ops.Let(number, ops.I64_T, turns, line))
    strands(cx, Turns(at, low, number, block, line), [])


class _Pair:
    """What a turn does: two places, and what lies there in order."""

    def __init__(self, cx: Context, given: list[Value], count: ops.Expr, line: int) -> None:
        self.cx, self.given, self.count, self.line = cx, given, count, line

    def compared(
        self, turn: ops.Expr, step: ops.Expr, shift: ops.Expr, reach: ops.Expr
    ) -> tuple[ops.Stmt, ...]:
        """The statements of a turn; in the first step of a level the pairs are mirrored."""
        made: list[ops.Stmt] = []

        def let(stem: str, value: ops.Expr, type_: ops.ScalarType = ops.I64_T) -> ops.Var:
            name = self.cx.fresh(stem)
            made.append(ops.Let(name, type_, value, self.line))
            return ops.Var(name)

        one = ops.i64(1)
        j = let("i", ops.Binary("iand", turn, ops.Binary("isub", reach, one)))
        above = ops.Binary("iadd", shift, one)
        base = let("i", ops.Binary("shl", ops.Binary("lshr", turn, shift), above))
        low = let("i", ops.Binary("iadd", base, j))
        mirrored = ops.Binary("isub", ops.Binary("isub", ops.Binary("shl", reach, one), one), j)
        far = ops.Select(
            ops.Binary("ieq", step, ops.i64(0)), mirrored, ops.Binary("iadd", reach, j)
        )
        high = let("i", ops.Binary("iadd", base, far))
        outer, made = made, []
        words, swaps = [], list[ops.Stmt]()
        for value in self.given:
            assert value.type.elem is not None
            kind = ir_type(value.type.elem)
            assert isinstance(kind, str)
            first, second = ops.Elem(value.place, low), ops.Elem(value.place, high)
            x, y = let("x", first, kind), let("x", second, kind)
            swaps += [ops.Assign(first, y, self.line), ops.Assign(second, x, self.line)]
            words.append((let("x", _key(x, kind)), let("x", _key(y, kind))))
        wrong: ops.Expr = ops.boolean(False)
        for x, y in reversed(words):
            later = ops.Binary("and", ops.Binary("ieq", x, y), wrong)
            wrong = ops.Binary("or", ops.Binary("igt", x, y), later)
        made.append(ops.If(wrong, tuple(swaps), (), self.line))
        within = ops.Binary("ilt", high, self.count)
        return (*outer, ops.If(within, tuple(made), (), self.line))


def _key(value: ops.Expr, kind: ops.ScalarType) -> ops.Expr:
    """An int that is in the order of the values: of a float below 0, the larger bits come first."""
    if kind == ops.I64_T:
        return value
    bits = ops.Unary("bits", value)
    sign = ops.Binary("ashr", bits, ops.i64(63))
    return ops.Binary("ixor", bits, ops.Binary("iand", sign, ops.i64(2**63 - 1)))
