"""Which equations a sweep computes once for all points that agree on what they depend on.

A grid of 100 x 100 windows needs 200 averages, not 20,000. An equation that depends on some of the
swept params only can be evaluated once for each of their distinct values; a column of a table
holds its words, a row an event, and lanes load the word at hand. That pays where a load is cheaper
than the equation. What depends on no swept param is the same in all lanes: rows bring it
(passes/rows.py) but on a universe, where it is a column too, of one value for all points.

On a universe an equation of each instrument stands at the row of the event that brings the
instrument's bar, one of the whole at the last row of the instant.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from quantdsl.check.costs import Costs
from quantdsl.check.cross import Across, Gather
from quantdsl.check.equations import LOOP, Equation
from quantdsl.check.graph import Graph, Use, used, used_in
from quantdsl.check.panel_rare import rare, reads
from quantdsl.check.panel_step import of_each
from quantdsl.check.params import Param
from quantdsl.check.types import ir_type
from quantdsl.ir import ops
from quantdsl.ir.walk import statements
from quantdsl.limits import COLUMN_BYTES

if TYPE_CHECKING:
    from quantdsl.check.step import Assembly

LOAD_GPU, LOAD_CPU = 24, 48
"""Operations that a lane could do while it loads a word of a column. A core does those of eight
lanes at once, and gathers eight words one after the other."""
STORE = 24
WORD_BYTES = 8


class Hoisted(Struct, frozen=True):
    """An equation that lanes read from columns: one for each of `parts`, for each distinct value
    of the params that it depends on."""

    number: int
    params: tuple[str, ...]
    parts: tuple[str, ...]  # fields of a struct, or an empty string for a scalar


class Plan(Struct, frozen=True):
    """The hoisted equations of a sweep, in order of evaluation. Empty, nothing is hoisted."""

    hoisted: tuple[Hoisted, ...] = ()

    @property
    def words(self) -> tuple[tuple[Hoisted, str], ...]:
        """Each word that a lane reads, by its number: `column.<number>` says from which column."""
        return tuple((one, part) for one in self.hoisted for part in one.parts)

    @property
    def subsets(self) -> tuple[tuple[str, ...], ...]:
        """The sets of params whose distinct values have columns."""
        return tuple(dict.fromkeys(one.params for one in self.hoisted))


NO_COLUMNS = Plan()


class Choice(Struct, frozen=True):
    """What was decided of one equation, for `explain --stage plan`."""

    number: int
    params: tuple[str, ...]  # of the swept ones
    distinct: int
    cost: float  # operations of one evaluation, with all that is evaluated for it alone
    words: int
    column: bool
    why: str
    rare: bool = False  # needed only at the bars that a timer follows


class Live(Struct):
    """What lanes evaluate, from the last equation to the first."""

    uses: set[Use]
    evaluated: list[int]
    loaded: list[Hoisted]


def live(
    graph: Graph, roots: set[Use], hoist: Callable[[int, frozenset[str], set[Use]], Hoisted | None]
) -> Live:
    """The equations that `roots` need. `hoist` says which of them are loaded; those that only a
    loaded one needs are not evaluated at all."""
    found = Live(set(roots), [], [])
    for number in reversed(range(len(graph.all))):
        parts = graph.parts(number, found.uses)
        if not parts:
            continue
        one = hoist(number, parts, found.uses)
        if one is None:
            found.evaluated.append(number)
            found.uses |= graph.reads[number]
        else:
            found.loaded.append(one)
            found.uses |= used(*(need.count for _, need in graph.all[number].needs))
    return found


def roots(assembly: "Assembly", *, worker: bool = False) -> set[Use]:
    """What handlers, limits, invariants and signals name; a lane draws no plots, and with a
    `worker` the signals are not computed here."""
    strategy = assembly.strategy
    bodies = [func.body for func in strategy.funcs if func.name.startswith("handler.")]
    bodies += [loop.body for loop in assembly.own_loops]
    bodies += [strategy.risk.values, tuple(assembly.invariants)]
    bodies += [tuple(stmts) for _, stmts in assembly.signal_step.ask(worker=worker)]
    found = {use for body in bodies for use in used_in(body)}
    counts = [need.count for handler in strategy.handlers for need in handler.reads.values()]
    return found | used(*counts)


class Scope(Struct, frozen=True):
    """What a plan is for: how many distinct values each swept param has, how many points and
    events there are, and what a load costs."""

    swept: Mapping[str, int]
    points: int
    events: int
    load: float


def choose(
    assembly: "Assembly", module: ops.Module, scope: Scope, width: int
) -> tuple[Plan, list[Choice]]:
    """The plan for a sweep, and why, equation by equation in order of evaluation.

    `module` is that of a single run; `width` is how many instruments an equation of a panel has a
    value for.
    """
    chooser = _Chooser(assembly, module, scope, width)
    found = live(Graph(assembly.strategy), roots(assembly), chooser.hoist)
    hoisted = tuple(sorted(found.loaded, key=lambda one: one.number))
    seldom = rare(chooser.graph, found, *reads(assembly))
    choices = [replace(one, rare=one.number in seldom) for one in chooser.choices]
    return Plan(hoisted), sorted(choices, key=lambda choice: choice.number)


class _Chooser:
    def __init__(
        self, assembly: "Assembly", module: ops.Module, scope: Scope, width: int
    ) -> None:
        self.strategy, self.width = assembly.strategy, width
        self.graph = Graph(self.strategy)
        self.scope, self.swept, self.points = scope, scope.swept, max(scope.points, 1)
        self.choices: list[Choice] = []
        self.bytes_left = int(COLUMN_BYTES)
        costs = Costs(module, typical(self.strategy.params))
        self.costs = {name: costs.of(value) for name, value in _values(module)}
        self.panel = self.strategy.universe is not None

    def hoist(self, number: int, parts: frozenset[str], uses: set[Use]) -> Hoisted | None:
        """Decide about one equation that lanes need."""
        equation = self.graph.all[number]
        depends = self.graph.params(number)
        params = tuple(name for name in self.swept if name in depends)
        distinct = min(prod(self.swept[name] for name in params), self.points)
        words = () if _is_column(equation) else self._words(ir_type(equation.type), parts)
        alone = self._alone(number, uses)
        whole = self._alone(number, set())
        moved = len(words) * self._times(equation)
        once = (whole + STORE * moved) * distinct / self.points
        size = distinct * len(words) * self.scope.events * WORD_BYTES
        why = ""
        if not params and not self.panel:
            why = "once, for it is the same at every point"
        elif self.strategy.ticks:
            why = "in each lane: columns are made of bars"
        elif _is_column(equation):
            why = "in each lane: a step of a cross-section"
        elif not words:
            why = "in each lane: its value is no set of numbers"
        elif distinct == self.points:
            why = "in each lane: no two points share it"
        elif self.scope.load * moved + once >= alone:
            why = "in each lane: cheaper than a load"
        elif size > self.bytes_left:
            why = f"in each lane: its columns would take {size:,} bytes"
        self.choices.append(Choice(number, params, distinct, alone, len(words), not why, why))
        if why:
            return None
        self.bytes_left -= size
        return Hoisted(number, params, words)

    def _words(self, type_: ops.Type, parts: frozenset[str]) -> tuple[str, ...]:
        """The parts of a result that are read; none where one of them is no scalar."""
        if isinstance(type_, str):
            return ("",)
        if not isinstance(type_, ops.StructType):
            return ()
        decl = self.strategy.library.lookup(type_.name)
        assert isinstance(decl, ops.StructDecl)
        read = [field for field in decl.fields if field.name in parts or "" in parts]
        return tuple(f.name for f in read) if all(isinstance(f.type, str) for f in read) else ()

    def _alone(self, number: int, uses: set[Use]) -> float:
        """The cost of an equation and of all equations before it that nothing else has needed."""
        seen, waiting, total = {number}, [number], 0.0
        while waiting:
            at = waiting.pop()
            equation = self.graph.all[at]
            total += self.costs.get(equation.place.name, 0.0) * self._times(equation)
            fresh = {n for n in self.graph.inputs(at) if not self.graph.parts(n, uses)} - seen
            seen |= fresh
            waiting += fresh
        return total

    def _times(self, equation: Equation) -> int:
        """How often an equation is evaluated at one instant."""
        return self.width if of_each(equation) else 1


def _is_column(equation: Equation) -> bool:
    """Whether its value is a place for each instrument, as cross-sections take and leave them."""
    return isinstance(equation, Gather) or (isinstance(equation, Across) and equation.fills)


def _values(module: ops.Module) -> Iterator[tuple[str, ops.Expr]]:
    """Field and right side of every equation of a linked step and of the loops that it calls; of a
    cross-section the column that its call fills, which is its last argument."""
    funcs = (func for func in module.funcs if func.name == "step" or func.name.startswith(LOOP))
    for stmt in (stmt for func in funcs for stmt in statements(func.body)):
        if isinstance(stmt, ops.Do):
            filled = stmt.call.args[-1:]
            yield from ((place.name, stmt.call) for place in filled if isinstance(place, ops.Field))
        elif isinstance(stmt, ops.Assign):
            place = stmt.place.base if isinstance(stmt.place, ops.Elem) else stmt.place
            if isinstance(place, ops.Field):
                yield place.name, stmt.value


def typical(params: Sequence[Param]) -> dict[str, int | float]:
    """A number for each param's field: the middle of its range, in the unit it is written in."""
    found: dict[str, int | float] = {}
    for param in params:
        middle = (param.low + param.high) / 2 if param.low is not None and param.high else None
        number = param.default if middle is None else middle
        found[param.field] = int(number) if param.whole else float(number)
    return found
