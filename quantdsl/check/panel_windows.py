"""How far back the equations of a part along time look, where that is no more than a window.

Then lanes may begin amid time, a window before the first bar that they are to tell, and find the
same to the bit. A float recurrence, such as an average that decays, goes on from the first bar.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from math import lcm
from typing import TYPE_CHECKING

from quantdsl.check.calls import bind_size
from quantdsl.check.cross import Across, Gather, Scatter
from quantdsl.check.equations import Equation
from quantdsl.check.graph import Graph, fields, used
from quantdsl.check.market import ENGINE
from quantdsl.check.panel_step import of_each
from quantdsl.ir import ops
from quantdsl.ir.own import Window
from quantdsl.ir.walk import expressions, rebuild_expr, statements

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Signals
    from quantdsl.check.values import Warm

BLOCKWISE = {"sums.total": 1, "sums.moments": 2, "sums.joint": 5}
"""They sum up blocks of `len` values anew, of which a window is the end of one and the begin of the
next: all that is known before the block before is gone. They keep so many arrays of `len`."""


def window(
    turn: "Signals", graph: Graph, numbers: Iterable[int], shown: Iterable[int]
) -> Window | None:
    """What the equations of these numbers look at, for these columns; None for recurrences."""
    numbers = list(numbers)
    equations = [graph.all[n] for n in numbers]
    lens = [list(_lens(turn, graph, n)) for n in numbers]
    sizes = [[one for one in of_one if one is not None] for of_one in lens]
    long = {n for n in numbers if turn.strategy.library.calls_kernel(graph.all[n].value)}
    # Kernels answer of bars that are told alone, so nobody may keep what is made of an answer.
    kept = (n for n in numbers if graph.all[n].place.name in graph.histories)
    if sizes != lens or any(long & {n, *_behind(graph, n)} for n in kept):
        return None
    longest = max(map(sum, sizes), default=0)  # what looks at blocks may be summed up in blocks
    first = _most(need for one in equations if not isinstance(one, Gather) for need in one.needs)
    gathered = _most(need for one in equations if isinstance(one, Gather) for need in one.needs)
    told = _most(need for n in shown for need in turn.table[n].warm)
    lead = max(first + longest, gathered, told)
    return Window(lead, lcm(*chain(*sizes)), heavy=bool(long))


def kept_words(turn: "Signals", graph: Graph, numbers: Iterable[int]) -> int:
    """The words of the arrays that equations of windows keep of each instrument."""
    calls = [call for n in numbers if isinstance(call := graph.all[n].value, ops.Call)]
    found = [one for call in calls for one in _blocks(turn, call.func, call.sizes)]
    return sum(arrays * (size or 0) for arrays, size in found)


def _most(needs: "Iterable[tuple[int, Warm]]") -> int:
    most = [need.most for _, need in needs]
    known = [one for one in most if isinstance(one, int)]
    assert len(known) == len(most)  # as in panel_kernels.kernels
    return max(known, default=0)


def _lens(turn: "Signals", graph: Graph, number: int) -> Iterator[int | None]:
    """The blocks of one equation; None where it looks back without end, or nobody knows."""
    equation = graph.all[number]
    if isinstance(equation, Gather):
        return
    if isinstance(equation, Scatter) or any(n >= number for n in graph.inputs(number)):
        yield None
        return
    value, own = equation.value, set[str]()
    if turn.strategy.library.calls_kernel(value):
        own = _rings(graph) | {param.field for param in turn.strategy.params}
    elif isinstance(value, ops.Call) and keeps(turn, equation):
        own = fields(used(value.args[0]))
        plain = not any(keeps(turn, graph.all[n]) for n in _behind(graph, number))
        blocks = [size for _, size in _blocks(turn, value.func, value.sizes)]
        yield from (plain and blocks) or [None]
    names = fields(used(_without_histories(graph, value))) - own
    known = {graph.all[n].place.name for n in graph.inputs(number)} | {ENGINE.name}
    if not names <= known | {place.name for place in turn.strategy.bars.values()}:
        yield None


def _behind(graph: Graph, number: int) -> set[int]:
    """The equations that one is computed from; those of the universe as a whole do not ask how
    cross-sections have found what they are given."""
    whole = not of_each(graph.all[number])
    found: set[int] = set()
    waiting = list(graph.inputs(number))
    while waiting:
        one = waiting.pop()
        if one not in found and not (whole and isinstance(graph.all[one], Across)):
            found.add(one)
            waiting += graph.inputs(one)
    return found


def _without_histories(graph: Graph, value: ops.Expr) -> ops.Expr:
    """A value with a number for each that it looks back at: where that is kept changes nothing."""
    slots = {
        ring.place: fields(used(ring.counter)) if ring.counter else set()
        for kept in graph.histories.values()
        for _, ring in kept
    }

    def expr(node: ops.Expr) -> ops.Expr:
        if isinstance(node, ops.Elem) and node.base in slots:
            index = fields(used(node.index))
            return ops.i64(0) if index <= slots[node.base] else node
        return rebuild_expr(node, expr)

    return expr(value)


def _rings(graph: Graph) -> set[str]:
    """The fields of all histories, and of what counts their ticks."""
    rings = (ring for kept in graph.histories.values() for _, ring in kept)
    return {name for one in rings for name in fields(used(one.place, one.counter or one.place))}


def keeps(turn: "Signals", equation: Equation) -> bool:
    """Whether it is an indicator, which keeps something from bar to bar, a cross-section, or a
    kernel: all but what is computed anew by a few operations."""
    value, library = equation.value, turn.strategy.library
    if not isinstance(value, ops.Call):
        return False
    if isinstance(equation, Across | Gather) or library.calls_kernel(value):
        return True
    func = library.lookup(value.func)
    assert isinstance(func, ops.Func)
    return any(param.inout for param in func.params)


def _blocks(
    turn: "Signals", name: str, sizes: tuple[ops.Size, ...]
) -> Iterator[tuple[int, int | None]]:
    """The arrays of blocks that a function keeps and their length; None where it keeps anything
    else."""
    if name in BLOCKWISE:
        yield from ((BLOCKWISE[name], one if isinstance(one, int) else None) for one in sizes)
        return
    func = turn.strategy.library.lookup(name)
    assert isinstance(func, ops.Func)
    if not any(param.inout for param in func.params):
        return
    steps = {ops.Field(ops.Var("self"), "step")}
    assigned = {stmt.place for stmt in statements(func.body) if isinstance(stmt, ops.Assign)}
    nodes = list(expressions(func.body))
    if not assigned <= steps or any(node == ops.Var("step") for node in nodes):
        yield 0, None
    bound = dict(zip(func.sizes, sizes, strict=True))
    for node in nodes:
        if isinstance(node, ops.Call):
            yield from _blocks(turn, node.func, tuple(bind_size(one, bound) for one in node.sizes))
