"""What the code of any of a panel's stages has: its columns, the state of a lane, its declarations.

Each kind of stage has a builder of its own: panel_along.py, panel_across.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from quantdsl.check.equations import STATE
from quantdsl.check.graph import Graph, fields, kept, target, used_by, used_in
from quantdsl.check.panel_shared import shown_again
from quantdsl.check.panel_stages import Stage
from quantdsl.check.panel_words import CLOCK, SPAN, flattened
from quantdsl.check.signal_turn import Column
from quantdsl.check.step import STATE_PARAM
from quantdsl.check.types import Type, stored
from quantdsl.ir import ops
from quantdsl.ir.own import MADE, OWN, ROW

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Signals
    from quantdsl.ir.link import Decl

MADE_SPAN = ops.Field(STATE, "made_span")
SKIPPED = ops.Field(STATE, "skipped")
"""How many bars a lane only takes in: it begins amid time, with what its windows look at."""
AHEAD = ops.Field(STATE, "ahead")
"""How many instants further on its first bar is than where its words begin."""
PLACED = (SKIPPED.name, AHEAD.name)
"""What places the lanes of a piece of time."""
BEFORE, LANE = ops.Field(STATE, "before"), ops.Field(STATE, "number")
COUNT = ops.Field(STATE, "count")
"""How many of the n bars of a lane along time are there."""
MONEY = "money_scale"
"""Money units of one of the currency: a word of the state as a run has it."""
ENGINE_TYPE = "engine.Engine"
BUFFER = ops.BufferType(ops.I64_T)
PARAMS = (
    STATE_PARAM,
    ops.ParamDecl(OWN, BUFFER, inout=True),
    ops.ParamDecl("n", ops.I64_T),
    ops.ParamDecl(MADE, BUFFER, inout=True),
)
CLOCKED = ops.StructDecl(ENGINE_TYPE, tuple(ops.FieldDecl(name, ops.I64_T) for name in CLOCK))
"""What lanes have of the engine."""
N = ops.SizeName("N_INSTRUMENTS")


class Form(NamedTuple):
    """Which of the kernels of a stage is meant; a state of any of them fits the others."""

    usual: bool = False
    """For blocks in which every lane has every bar, and had enough of them before."""
    flat: bool = False
    """For flat columns, which stand by instant always."""
    gaps: bool = False
    """Of flat columns: some lanes lack some bars, as the column SEEN tells."""


class Kernel(Struct, frozen=True):
    """What a stage reads and writes, by the names of columns, and the declarations of its code."""

    stage: Stage
    reads: tuple[str, ...]
    """Those that are shown as well are not among Kernels.columns."""
    writes: tuple[str, ...]
    common: frozenset[str]
    """Those of `writes` that hold one word an instant."""
    varying: frozenset[str]
    """The words of a lane's state that are its own."""
    shown_common: tuple[int, ...]
    """The numbers of shown columns that hold one word an instant."""
    host: tuple[str, ...]
    """Paths of the state that the host writes: params, units, sizes."""
    points: tuple[str, ...]
    """Those of them that differ between lanes."""
    decls: "tuple[Decl, ...]"


class Builder(ABC):
    """What all kinds of stages have in common."""

    def __init__(self, turn: "Signals", stage: Stage, table: dict[str, int], form: Form) -> None:
        self.turn, self.stage, self.table = turn, stage, table
        self.flat, self.gaps, self.usual = form.flat, form.gaps, form.usual
        self.strategy, self.assembly = turn.strategy, turn.assembly
        self.graph = Graph(turn.strategy)
        self.all = self.graph.all
        self.numbers = {one.place.name: n for n, one in enumerate(self.all)}
        self.own = set(stage.equations)
        self.reads: dict[str, None] = {}
        """By name, in order."""
        self.again = dict(shown_again(turn.table, self.all)) if self.flat else {}
        """Gathers that need no column, with the number of the shown one that has their words."""
        self.made_span = SPAN if self.flat else MADE_SPAN
        self.made_row = ops.SizeName(ROW) if self.flat else N

    @abstractmethod
    def kernel(self, wanted: frozenset[str]) -> Kernel:
        """The kernel, which writes the columns that later stages want of it."""

    def shown(self) -> list[tuple[int, Column]]:
        return [(n, self.turn.table[n]) for n in self.stage.shown]

    def column(self, name: str) -> int:
        """The number of a column."""
        return self.table.setdefault(name, len(self.table))

    def read(self, name: str) -> int:
        """The number of a column that this stage reads."""
        self.reads[name] = None
        return self.column(name)

    def types(
        self, place: ops.Field, type_: Type
    ) -> Iterator[tuple[str, ops.Field, ops.ScalarType]]:
        """The words of a value: name of its column, place, type."""
        if type_.kind != "struct":
            yield place.name, place, stored(type_)
            return
        decl = self.strategy.library.lookup(type_.of)
        assert isinstance(decl, ops.StructDecl)
        for part in decl.fields:
            assert isinstance(part.type, str)
            yield f"{place.name}.{part.name}", ops.Field(place, part.name), part.type

    def state(self, funcs: Iterable[ops.Func], extra: Iterable[str]) -> ops.StructDecl:
        """The fields that functions name, and those of the host in any case."""
        named = {*extra, *fields(used_by(funcs))}
        equations = self.strategy.equations
        own = ("span", "made_span", "before", "number", "count", *PLACED)
        every = (
            *(ops.FieldDecl(name, ops.I64_T) for name in own),
            ops.FieldDecl("e", ops.StructType(ENGINE_TYPE)),
            ops.FieldDecl(MONEY, ops.F64_T),
            *equations.fields,
            *equations.panel,
        )
        return ops.StructDecl("State", tuple(one for one in every if one.name in named))

    def init(self, named: set[str], more: Iterable[ops.Stmt]) -> ops.Func:
        """What params alone decide, and what values are before the first bar."""
        body = [s for s in self.assembly.prepared() if target(s) not in ("", "e")]
        return ops.Func("init", (STATE_PARAM,), None, (*kept(body, set(named)), *more))

    def built(
        self,
        body: tuple[ops.Stmt, ...],
        writes: Iterable[str],
        common: Iterable[str],
        start: Iterable[ops.Stmt] = (),
        *,
        points: tuple[str, ...] = (),
        shown_common: Iterable[int] = (),
        replaced: "tuple[Decl, ...]" = (),
        named: Iterable[str] = (),
    ) -> Kernel:
        """The kernel of a lane's body; its state has what is `named` in any case."""
        lane = ops.Func("lane", PARAMS, None, flattened(body))
        uses = {*fields(used_in(lane.body)), *named}
        start = flattened(tuple(start))
        init = self.init(uses | fields(used_in(start)), start)
        sized = () if self.flat else ("made_span", "count")
        always = (*named, "span", *sized, *(p.field for p in self.strategy.params))
        state = self.state((lane, init), always)
        has = {one.name for one in state.fields}
        sizes = ("span", "made_span", "before", "number", "count", *PLACED, MONEY)
        params = tuple(p.field for p in self.strategy.params)
        panel = {one.name for one in self.strategy.equations.panel}
        panel |= {"number", "count", *PLACED}
        return Kernel(
            stage=self.stage,
            reads=tuple(self.reads),
            writes=tuple(writes),
            common=frozenset(common),
            varying=frozenset(panel & has),
            shown_common=tuple(shown_common),
            host=(*(n for n in sizes if n in has and n not in points), *params, *points),
            points=points,
            decls=(state, lane, init, *replaced, *([CLOCKED] if "e" in has else [])),
        )
