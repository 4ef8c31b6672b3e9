"""What one evaluation of an equation costs, in operations, for choosing what a sweep hoists and
where a stage of signals runs.

The unit is one addition. What only params decide costs nothing, since it is computed once; of two
branches the cheaper one counts, since the dearer one is mostly that of warming up.
"""

from collections.abc import Mapping, Sequence

from quantdsl.check.equations import STATE
from quantdsl.ir import ops, scalar
from quantdsl.ir.walk import nodes_in, operands

HEAVY = {"fdiv": 6, "sqrt": 6, "idiv": 20, "imod": 20, "umulh": 2}
"""Operations that take longer than an addition."""
MEMORY = 8
"""A word of a lane's own window, read or written: no two lanes share its cache line."""
TURNS = 8
"""Turns of a loop whose bounds are not known."""
SAMPLED = 1_024
"""At how many values of a counter at most a loop inside is looked at."""

Number = int | float | None
Names = dict[str, Number | range]
"""Of a counter all that it will be, where that is known."""


class Costs:
    """The costs of what a linked module holds; `typical` gives params' fields a value, `memory` is
    what a word of a lane's own window costs."""

    def __init__(
        self, module: ops.Module, typical: Mapping[str, Number], memory: float = MEMORY
    ) -> None:
        self._memory = memory
        self._funcs = {func.name: func for func in module.funcs}
        self._typical = typical
        self._known: dict[tuple[str, tuple[Number, ...]], float] = {}

    def of(self, expr: ops.Expr) -> float:
        """The cost of evaluating an expression of the step."""
        return self._expr(expr, {})[0]

    def once(self, func: str, given: Mapping[str, Number]) -> float:
        """The cost of a call of a function, some of whose parameters are known."""
        return self._body(self._funcs[func].body, dict(given))

    def _expr(self, expr: ops.Expr, names: Names) -> tuple[float, Number]:
        """Cost, and the value where only params and constants decide it."""
        match expr:
            case ops.Const():
                return 0, expr.value
            case ops.Var():
                known = names.get(expr.name)
                return 0, None if isinstance(known, range) else known
            case ops.Field() if expr.base == STATE:
                return 0, self._typical.get(expr.name)
            case ops.Call():
                return self._call(expr, names)
            case ops.Elem() if not isinstance(expr.index, ops.Const):
                parts = (self._expr(part, names)[0] for part in (expr.base, expr.index))
                return self._memory + sum(parts), None
        found = [self._expr(operand, names) for operand in operands(expr)]
        cost = sum(one for one, _ in found)
        numbers = [number for _, number in found if number is not None]
        if not isinstance(expr, ops.Unary | ops.Binary | ops.Fma | ops.Select):
            return cost, None
        if len(numbers) == len(found):
            return 0, _value(expr, numbers)
        return cost + (1 if isinstance(expr, ops.Fma | ops.Select) else HEAVY.get(expr.op, 1)), None

    def _call(self, call: ops.Call, names: Names) -> tuple[float, Number]:
        found = [self._expr(arg, names) for arg in call.args]
        func = self._funcs[call.func]
        given = tuple(number for _, number in found)
        key = (call.func, given)
        if key not in self._known:
            known: Names = {param.name: n for param, n in zip(func.params, given, strict=True)}
            self._known[key] = self._body(func.body, known)
        return self._known[key] + sum(cost for cost, _ in found), None

    def _body(self, body: Sequence[ops.Stmt], names: Names) -> float:
        return sum(self._stmt(stmt, names) for stmt in body)

    def _stmt(self, stmt: ops.Stmt, names: Names) -> float:
        match stmt:
            case ops.Let():
                if stmt.value is None:
                    return 0
                cost, names[stmt.name] = self._expr(stmt.value, names)
                return cost
            case ops.Assign():
                if isinstance(stmt.place, ops.Var):
                    names.pop(stmt.place.name, None)
                return self._expr(stmt.value, names)[0] + self._expr(stmt.place, names)[0]
            case ops.Do():
                return self._expr(stmt.call, names)[0]
            case ops.Return():
                return 0 if stmt.value is None else self._expr(stmt.value, names)[0]
            case ops.If():
                cost, truth = self._expr(stmt.cond, names)
                then, other = self._body(stmt.then, names), self._body(stmt.otherwise, names)
                return cost + (min(then, other) if truth is None else then if truth else other)
            case ops.For():
                low, high = self._expr(stmt.lo, names)[1], self._expr(stmt.hi, names)[1]
                if low is None or high is None:
                    turns = self._mean_turns(stmt, names)
                else:
                    turns = max(high - low, 0)
                    names[stmt.name] = low if turns == 1 else range(int(low), int(high))
                return turns * (1 + self._body(stmt.body, names))
            case ops.While():
                most = self._expr(stmt.max, names)[1]
                turns = TURNS if most is None else min(most, TURNS)
                return turns * (self._expr(stmt.cond, names)[0] + self._body(stmt.body, names))
        return 0

    def _mean_turns(self, stmt: ops.For, names: Names) -> float:
        """Of a loop whose bounds go by the counter of another one, as those of a strand do."""
        bounds = [*nodes_in(stmt.lo), *nodes_in(stmt.hi)]
        outer = {
            v.name: span
            for v in bounds
            if isinstance(v, ops.Var) and isinstance(span := names.get(v.name), range)
        }
        if len(outer) != 1:
            return TURNS
        ((name, span),) = outer.items()
        span, total = span[:: len(span) // SAMPLED + 1], 0.0
        for number in span:
            names[name] = number
            low, high = self._expr(stmt.lo, names)[1], self._expr(stmt.hi, names)[1]
            total += TURNS if low is None or high is None else max(high - low, 0)
        names[name] = outer[name]
        return total / max(len(span), 1)


def _value(expr: ops.Expr, numbers: list[int | float]) -> Number:
    """The value of an operation on known numbers, as the interpreter has it."""
    thunks = [lambda _, number=number: number for number in numbers]
    result: Number
    match expr:
        case ops.Unary():
            result = scalar.UNARY[expr.op](*thunks)([])
        case ops.Binary():
            result = scalar.BINARY[expr.op](*thunks)([])
        case ops.Select():
            result = numbers[1] if numbers[0] else numbers[2]
        case _:
            fused = scalar.fma32 if isinstance(expr, ops.Fma) and expr.single else scalar.fma
            result = fused(*map(float, numbers))
    return result
