"""Indicators of a stage that stand on the same one, such as a deviation and a z-score on moments.

`ts.std(x, 20)` does nothing but ask a `sums.moments(x, 20)` of its own and compute from the answer.
Who asks the same at the same bars is told the same, so one of them serves all.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from quantdsl.check.calls import bind_size
from quantdsl.check.cross import Across, Gather, Scatter
from quantdsl.check.equations import Equation, of_one
from quantdsl.ir import ops
from quantdsl.ir.walk import expressions, rebuild_expr

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Column

SELF = ops.Var("self")
STEP = ops.Field(SELF, "step")
Lookup = Callable[[str], object]


class Thin(NamedTuple):
    """An equation whose indicator asks another one, once, and computes from its answer."""

    answer: ops.Let
    """The call."""
    values: tuple[ops.Let, ...]
    result: ops.Expr
    """The equation's value."""
    same: tuple[object, ...]
    """Equal for those who are told the same."""


class Sharing:
    """Who of some equations is told the same as another one of them."""

    def __init__(self, lookup: Lookup, equations: Iterable[Equation]) -> None:
        found = {one.place.name: thin(lookup, one) for one in equations}
        asking = {name: one for name, one in found.items() if one is not None}
        told = Counter(one.same for one in asking.values())
        self.told = {name: one for name, one in asking.items() if told[one.same] > 1}
        self._firsts: dict[tuple[object, ...], str] = {}
        for name, one in self.told.items():
            self._firsts.setdefault(one.same, name)

    def first(self, name: str) -> str:
        """The place of the first one that is told the same as that of this place."""
        return self._firsts[self.told[name].same] if name in self.told else name

    def answers(self) -> list[ops.Stmt]:
        """The locals that hold what is told more than one."""
        return [stmt for name in self._firsts.values() for stmt in self.answer(name)]

    def answer(self, name: str) -> list[ops.Stmt]:
        """The local of one who is told the same as others, if it is their first one."""
        if self.first(name) != name:
            return []
        return [ops.Let(f"told.{name}", self.told[name].answer.type, None)]

    def assigned(self, equation: Equation) -> list[ops.Stmt]:
        """An equation's value, from the answer that the first one had where it is the same."""
        name = equation.place.name
        if name not in self.told:
            return [ops.Assign(equation.place, equation.value, equation.line)]
        one, first = self.told[name], self.first(name)
        told, answer = ops.Var(f"told.{first}"), ops.Var(one.answer.name)
        stmts: list[ops.Stmt] = [ops.Let(answer.name, one.answer.type, told)]
        if first == name:
            stmts = [one.answer, ops.Assign(told, answer)]
        return [*stmts, *one.values, ops.Assign(equation.place, one.result, equation.line)]


def thin(lookup: Lookup, equation: Equation) -> Thin | None:
    """What an equation asks, if that is all that it does."""
    outer = equation.value
    func = lookup(outer.func) if isinstance(outer, ops.Call) else None
    if not isinstance(outer, ops.Call) or not isinstance(func, ops.Func):
        return None
    match [stmt for stmt in func.body if not _counts(stmt)]:
        case [ops.Let(value=ops.Call(_, (own, *args))) as asks, *between, ops.Return(result)]:
            lets = [one for one in between if isinstance(one, ops.Let) and one.value is not None]
        case _:
            return None
    if not isinstance(own, ops.Field) or own.base != SELF or result is None:
        return None
    rest: tuple[ops.Stmt, ...] = (*lets, *(ops.Return(one) for one in (*args, result)))
    plain = not any(node == SELF or isinstance(node, ops.Call) for node in expressions(rest))
    if not plain or len(lets) < len(between):
        return None
    put = _Put(equation.place.name, func, outer)
    answer = put.let(asks)
    assert isinstance(answer.value, ops.Call)
    same = answer.value.func, answer.value.args[1:], answer.value.sizes, equation.needs
    return Thin(answer, tuple(map(put.let, lets)), put.expr(result), same)


def _counts(stmt: ops.Stmt) -> bool:
    """Whether a statement only counts steps; nobody asks how many there were."""
    match stmt:
        case ops.Let("step", _, value):
            return value == STEP
        case ops.Assign(place):
            return place == STEP
    return False


class _Put:
    """A function's statements in terms of one call of it, its locals with names of their own."""

    def __init__(self, name: str, func: ops.Func, call: ops.Call) -> None:
        self.name = name
        names = (param.name for param in func.params)
        self.args = dict(zip(names, call.args, strict=True))
        self.sizes = dict(zip(func.sizes, call.sizes, strict=True))

    def let(self, let: ops.Let) -> ops.Let:
        assert let.value is not None
        return ops.Let(f"{self.name}.{let.name}", let.type, self.expr(let.value), let.line)

    def expr(self, expr: ops.Expr) -> ops.Expr:
        match expr:
            case ops.Var(name):
                return self.args.get(name, ops.Var(f"{self.name}.{name}"))
            case ops.SizeOf(size):
                return ops.SizeOf(bind_size(size, self.sizes))
        made = rebuild_expr(expr, self.expr)
        if isinstance(made, ops.Call):
            sizes = tuple(bind_size(size, self.sizes) for size in made.sizes)
            return ops.Call(made.func, made.args, sizes)
        return made


def shown_again(
    table: "Iterable[Column]", equations: Sequence[Equation]
) -> Iterator[tuple[str, int]]:
    """The gathers that need no column of their own, with the number of a shown one in the `table`.

    That has the same words, but for infinite values, which its reader takes for missing; whoever
    has no bar is missing in it. So it is one that lanes along time tell.
    """
    across = {one.place for one in equations if isinstance(one, Across | Scatter)}
    floats = [
        (n, one)
        for n, one in enumerate(table)
        if one.kind == "float" and of_one(one.value) and one.value not in across
    ]
    shown = {(one.value, one.warm): n for n, one in floats}
    for one in equations:
        if isinstance(one, Gather) and one.type.kind == "float" and not one.conditions:
            number = shown.get((one.value, one.needs))
            if number is not None:
                yield one.place.name, number
