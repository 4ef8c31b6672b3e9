"""Which equations of a universe's lanes only a timer reads, and when one is about to.

`rebalance` at the end of a month reads weights that are made anew with every bar, and all but those
before the last bar of a month are never looked at. What has no memory of its own and is read by
nothing but timers need not be evaluated at other bars. Events say which they are: a lane looks
ahead to the next timer or bar, whichever comes first.

The value of an instrument that has no bar now is that of its own last bar, so an equation that a
timer reads of each instrument must follow all of its bars; a cross-section is made anew for all.
"""

from typing import TYPE_CHECKING

from quantdsl.check.cross import Across, Gather, Scatter
from quantdsl.check.equations import OF_THIS, STATE, Equation
from quantdsl.check.graph import Graph, fields, used, used_in
from quantdsl.events.codes import Kind
from quantdsl.ir import ops
from quantdsl.ir.walk import nodes

if TYPE_CHECKING:
    from quantdsl.check.columns import Live
    from quantdsl.check.step import Assembly

ASKED = ops.Var("asked")
"""Whether a timer fires now, or before the next bar."""
TIMED = ("timer", "flat_by")
"""Events of handlers that timers bring."""


def rare(graph: Graph, found: "Live", often: set[str], timed: set[str]) -> frozenset[int]:
    """The numbers of the equations that are needed only where a timer asks.

    `often` are fields that are read at other moments too, `timed` those that timers read by
    themselves. There is none where a bar of another clock would not renew them.
    """
    strategy, often = graph.strategy, set(often)
    if strategy.universe is None or strategy.width != 1:
        return frozenset()
    kept = fields(found.uses)
    loaded = {one.number for one in found.loaded}
    numbers: set[int] = set()
    for number in sorted([*found.evaluated, *loaded], reverse=True):
        equation = graph.all[number]
        name = equation.place.name
        alone = name not in often and not graph.kept(name, kept)
        if alone and _renewed(equation, read=name in timed):
            numbers.add(number)
        elif number in loaded:
            often |= fields(used(*(need.count for _, need in equation.needs)))
        else:
            often |= fields(graph.reads[number])
    return frozenset(numbers)


def asked() -> list[ops.Stmt]:
    """Sets ASKED; where the events at hand end first, it may be."""
    head = ops.Field(ops.Elem(ops.Var("events"), ops.Var("ahead")), "head")
    kind = ops.Binary("iand", ops.Binary("lshr", head, ops.i64(32)), ops.i64(255))
    bar, timer = (ops.Binary("ieq", kind, ops.i64(one)) for one in (Kind.BAR, Kind.TIMER))
    fires = ops.Binary("ine", ops.Field(STATE, "timers"), ops.i64(0))
    after = ops.Binary("iadd", ops.Var("k"), ops.i64(1))
    turn = (
        ops.If(timer, (ops.Break(),)),
        ops.If(bar, (ops.Assign(ASKED, fires), ops.Break())),
    )
    return [
        ops.Let(ASKED.name, ops.BOOL_T, ops.boolean(True)),
        ops.For("ahead", after, ops.Var("n"), turn),
    ]


def reads(assembly: "Assembly") -> tuple[set[str], set[str]]:
    """The fields that something else than a timer's handler reads, and those that these do."""
    strategy = assembly.strategy
    own = {func.name: func for func in (*strategy.funcs, *assembly.own_loops)}

    def reached(names: set[str]) -> set[str]:
        waiting, seen = list(names), set(names)
        while waiting:
            calls = [one for one in nodes(own[waiting.pop()].body) if isinstance(one, ops.Call)]
            fresh = {one.func for one in calls if one.func in own} - seen
            seen |= fresh
            waiting += fresh
        return seen

    by_timers = reached({one.func for one in strategy.handlers if one.event in TIMED})
    others = reached({one.func for one in strategy.handlers if one.event not in TIMED})
    risk = strategy.risk
    elsewhere = (own.keys() - by_timers) | others
    bodies: list[tuple[ops.Stmt, ...]] = [own[name].body for name in elsewhere]
    bodies += [risk.values, tuple(assembly.invariants)]
    bodies += [tuple(stmts) for _, stmts in assembly.signal_step.ask(worker=False)]
    often = fields(use for body in bodies for use in used_in(body))
    counts = [need.count for one in strategy.handlers for need in one.reads.values()]
    often |= fields(used(*counts))
    return often, fields(use for name in by_timers for use in used_in(own[name].body))


def _renewed(equation: Equation, *, read: bool) -> bool:
    """Whether an evaluation needs none before it, and is as of now for every instrument; `read` by
    timers themselves."""
    if isinstance(equation, Across | Gather | Scatter):
        return True
    made = nodes((ops.Assign(equation.place, equation.value),))
    if any(isinstance(one, ops.Call) for one in made):
        return False  # an indicator keeps a state
    return equation.place.base != OF_THIS or not read
