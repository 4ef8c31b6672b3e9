"""The IR of a panel's stages: lanes that are instruments, and lanes that are instants.

Every kernel is `lane(state, own, n, made)`. A lane along time goes through n bars of one
instrument; a lane across looks at the instruments of one instant. `own` is the table of columns
between kernels, `made` that of the shown ones, each column `span` or `made_span` words from the
next; a lane sees them from its own words on (ir/own.py). A column between kernels holds the words
of eight instruments side by side, instant by instant, then those of the next eight: so lanes along
time read memory as it comes, and lanes across find eight words of theirs in a line. A shown column
is one of the table that people get: the words of all instruments side by side, then those of the
next instant. On a GPU all columns are flat like that, in rows of whole warps, and cross-sections
read what is shown, too.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quantdsl.check.cross import Across, Gather, Scatter, nothing, present
from quantdsl.check.equations import OF_THIS, STATE, Equation
from quantdsl.check.graph import Graph, Use, fields, kept, target, used, used_by, used_in
from quantdsl.check.panel_shared import Sharing, shown_again
from quantdsl.check.panel_stages import Stage
from quantdsl.check.panel_step import unit_paths
from quantdsl.check.panel_tiles import LONG_TILE, TILE, in_tiles, tiled
from quantdsl.check.panel_words import READ, SPAN, WRITTEN, at, flattened, placed
from quantdsl.check.signal_turn import Column, column_word
from quantdsl.check.step import BAR_WORDS, STATE_PARAM, all_of
from quantdsl.check.types import FLOAT, Type, stored
from quantdsl.check.values import PANEL_SHIFT, Warm
from quantdsl.ir import ops
from quantdsl.ir.own import MADE, OWN, ROW
from quantdsl.ir.walk import expressions

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Signals
    from quantdsl.ir.link import Decl

Needs = tuple[tuple[int, Warm], ...]
MADE_SPAN = ops.Field(STATE, "made_span")
BEFORE, LANE = ops.Field(STATE, "before"), ops.Field(STATE, "number")
SKIPPED = ops.Field(STATE, "skipped")
"""How many bars a lane only takes in: it begins amid time, with what its windows look at."""
AHEAD = ops.Field(STATE, "ahead")
"""How many instants further on its first bar is than where its words begin."""
COUNT = ops.Field(STATE, "count")
"""How many of the n bars of a lane along time are there."""
PLACED = (SKIPPED.name, AHEAD.name)
"""What places the lanes of a piece of time."""
TOLD = ops.Binary("ige", ops.Var("k"), SKIPPED)
"""Whether a bar is one that a lane of a piece of time tells."""
MONEY = "money_scale"
"""Money units of one of the currency: a word of the state as a run has it."""
TRAIT = "trait."
"""The beginning of the name of the column of a trait; its number follows."""
FACTOR = "factor"
"""The column of what prices are multiplied by where they are adjusted."""
INSTANTS = "instants"
"""The column of how many instants there have been, this one included."""
BUFFER = ops.BufferType(ops.I64_T)
PARAMS = (
    STATE_PARAM,
    ops.ParamDecl(OWN, BUFFER, inout=True),
    ops.ParamDecl("n", ops.I64_T),
    ops.ParamDecl(MADE, BUFFER, inout=True),
)
SORTS = {"xs.sort": "xs.sort_network", "xs.at_rank": "xs.at_rank_left"}
"""A lane across sorts without a branch that lanes part at, which leaves the values in order."""
SORTS_OF_BLOCK = {
    "xs.sort": "xs.sort_each",
    "xs.rank": "xs.rank_each",
    "xs.rank_by": "xs.rank_by_each",
}
"""A block of threads has loops whose turns do not need each other."""
SEEN = "seen"
"""The column of who has a bar, of flat columns."""
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


class Kernels(NamedTuple):
    """The kernels of a panel in order, and the numbers of the columns between them."""

    all: tuple[Kernel, ...]
    columns: Mapping[str, int]
    warm: int
    """After so many bars all that an instrument's equations need is there."""


def kernels(
    turn: "Signals",
    stages: Iterable[Stage],
    form: Form,
    columns: Mapping[str, int] | None = None,
) -> Kernels:
    """The kernels of the stages, the `usual` ones for after `warm` bars of each instrument.

    `columns` are those that are numbered already.
    """
    table = dict(columns or {})
    wanted: set[str] = set()
    found: list[Kernel] = []
    for stage in reversed(tuple(stages)):
        builder = (_Across if stage.across else _Along)(turn, stage, table, form)
        mine = wanted if stage.only is None else wanted & stage.only
        found.append(builder.kernel(frozenset(mine)))
        wanted |= set(found[-1].reads)
    needs = [*(one.needs for one in turn.strategy.equations.all), *(one.warm for one in turn.table)]
    most = [need.most for one in needs for _, need in one]
    known = [one for one in most if isinstance(one, int)]
    assert len(known) == len(most)  # what a strategy waits for is a number, other than in std
    warm = max(known, default=0)
    return Kernels(tuple(reversed(found)), table, warm)


class _Builder(ABC):
    """What both kinds of stages have in common."""

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
            decls=(state, lane, init, *replaced),
        )


class _Along(_Builder):
    """A stage along time."""

    @cached_property
    def sharing(self) -> Sharing:
        """Its equations that are told the same as others of it."""
        return Sharing(self.strategy.library.lookup, (self.all[n] for n in self.stage.equations))

    @property
    def cut(self) -> bool:
        """Whether lanes may begin amid time, with bars that they only take in. Where some lack bars
        it takes more of these, which pays where they cost nothing beside those that are told."""
        window = self.stage.window
        return window is not None and (not self.gaps or (window.heavy and window.anywhere))

    def kernel(self, wanted: frozenset[str]) -> Kernel:
        written = [name for name in self._names() if name in wanted - self.again.keys()]
        usual, self.usual = self.usual, False
        body = self._body(written)
        split = self.stage.window is not None
        named = fields(used_in(body)) | (set(PLACED) if split else set())  # of either kind
        if usual:
            self.usual, self.reads = True, {}
            body = self._body(written)
        elif self.gaps:
            body = [self._seen(body, written)]
        elif not self.flat:
            body = [ops.If(ops.Binary("ilt", ops.Var("k"), COUNT), tuple(body))]
        units = tuple(one for one in unit_paths(self.strategy) if one.partition(".")[0] in named)
        start = [
            ops.Assign(one.place, nothing(one.type))
            for one in self.all
            if one.place.base == OF_THIS
            and one.type.kind in ("float", "na")
            and one.place.name in named
        ]
        points = units if self.flat else (*units, "count")
        ends = (ops.Assign(one, ops.i64(0)) for one in (SKIPPED, AHEAD) if split)
        lane = (*self._loop(body), *ends)
        return self.built(lane, written, (), start, points=points, named=named)

    def _place(self, instant: ops.Expr, row: ops.SizeName) -> ops.Expr:
        """Where in a column an instant of the chunk is."""
        if self.stage.window is not None:
            instant = ops.Binary("iadd", instant, AHEAD)
        return ops.Binary("imul", instant, ops.SizeOf(row))

    def _loop(self, body: list[ops.Stmt]) -> list[ops.Stmt]:
        """What is done of each bar, over the bars of a chunk."""
        k, own = ops.Var("k"), ops.SizeName(ROW)
        places = {"at": self._place(k, own), "to": self._place(k, self.made_row)}
        first = [ops.Let(name, ops.I64_T, place) for name, place in places.items()]
        if self.flat:
            columns = {name: self.column(name) for name in self.reads}
            size = LONG_TILE if self.stage.window is None else TILE
            where = partial(self._place, row=own)
            return in_tiles(columns, where, (*first, *body), size)
        return [ops.For("k", ops.i64(0), ops.Var("n"), (*first, *body))]

    def _seen(self, body: list[ops.Stmt], written: list[str]) -> ops.If:
        """What is done of a bar that is there; cross-sections find nothing of one that is not."""
        seen = ops.Binary("ine", self._read(SEEN), ops.i64(0))
        columns = self.columns
        lacks = [
            ops.Assign(at(READ, self.column(name)), ops.as_word(nothing(type_), stored(type_)))
            for name in written
            if name in columns
            for type_ in (self.all[columns[name]].type,)
        ]
        again = {number for number in self.again.values() if number in self.stage.shown}
        word = ops.as_word(nothing(FLOAT), ops.F64_T)
        lacks += [ops.Assign(self._shown_at(number), word) for number in sorted(again)]
        return ops.If(seen, tuple(body), tuple(lacks))

    def _body(self, written: list[str]) -> list[ops.Stmt]:
        """What is done of each bar."""
        stores = [*self._stores(written)]
        parts = self.sharing.answers()
        parts += [stmt for n in self.stage.equations for stmt in self._evaluated(n)]
        uses = used_in([*parts, *stores])
        before = [*self._counters(uses), *self._loads(uses), *self._bars(uses)]
        if self.cut:
            stores = [ops.If(TOLD, tuple(stores))]
        return [*before, *parts, *stores]

    @property
    def columns(self) -> dict[str, int]:
        """The gathers of this stage by the name of their column."""
        return {self.all[n].place.name: n for n in self.own if isinstance(self.all[n], Gather)}

    def _names(self) -> Iterator[str]:
        for n in self.stage.equations:
            equation = self.all[n]
            if isinstance(equation, Gather):
                yield equation.place.name
            else:
                yield from (name for name, _, _ in self.types(equation.place, equation.type))

    def _evaluated(self, n: int) -> list[ops.Stmt]:
        """The statements of one equation of this stage."""
        equation = self.all[n]
        if isinstance(equation, Gather):
            return []
        if isinstance(equation, Scatter):
            ((source, _),) = used(equation.value)
            value = ops.as_value(self._read(source), stored(equation.type))
            return [ops.Assign(equation.place, value), *self._kept(equation)]
        stmts = [*self.sharing.assigned(equation), *self._kept(equation)]
        if self.cut and self.strategy.library.calls_kernel(equation.value):
            stmts = [ops.If(TOLD, tuple(stmts))]
        return self._guarded(equation, stmts)

    def _guarded(self, equation: Equation, stmts: list[ops.Stmt]) -> list[ops.Stmt]:
        """Statements that wait until all that an equation needs is there."""
        needs = self._needs(equation.needs)
        return [ops.If(all_of(needs), tuple(stmts))] if needs and stmts else stmts

    def _needs(self, needs: Needs) -> list[ops.Expr]:
        """The conditions under which it is, where that is not known."""
        conditions = self.assembly.needs(needs)  # the state has the same words in any case
        return [] if self.usual else conditions

    def _kept(self, equation: Equation) -> list[ops.Stmt]:
        """Its histories grow by its value."""
        return self.turn.strategy.equations.evaluate(equation)[1:]

    def _read(self, name: str) -> ops.Expr:
        number = self.read(name)
        return tiled(name) if self.flat else at(READ, number)

    def _loads(self, uses: set[Use]) -> list[ops.Stmt]:
        """What stages before this one, and the host, have for this bar."""
        stmts: list[ops.Stmt] = []
        universe = self.strategy.universe
        assert universe is not None
        names = fields(uses)
        for which, (place, _) in universe.traits.items():
            if place.name in names:
                stmts.append(ops.Assign(place, self._read(f"{TRAIT}{int(which)}")))
        factor = universe.factor
        if factor is not None and factor.name in names:
            stmts.append(ops.Assign(factor, ops.as_value(self._read(FACTOR), ops.F64_T)))
        for mask, counter in self.strategy.equations.masks.items():
            if not mask >> PANEL_SHIFT and counter.name in names:
                stmts.append(ops.Assign(counter, self._read(INSTANTS)))
        for n, equation in enumerate(self.all):
            if n in self.own or isinstance(equation, Gather):
                continue
            rings = self.graph.kept(equation.place.name, names)
            if equation.place.name not in names and not rings:
                continue
            if isinstance(equation, Across) and equation.fills:
                continue  # who reads it is a Scatter
            for name, place, type_ in self.types(equation.place, equation.type):
                stmts.append(ops.Assign(place, ops.as_value(self._read(name), type_)))
            history = self._kept(equation)
            scatters = isinstance(equation, Scatter)
            stmts += history if scatters else self._guarded(equation, history)
        (place,) = self.strategy.bars.values()
        read = {part for name, part in uses if name == place.name and part}
        read |= {
            part
            for call in self._calls()
            for number, arg in enumerate(call.args)
            if arg == place
            for part in self._parts(call.func, number)
        }
        read |= {
            source.name
            for source, _ in self.graph.kept(place.name, names)
            if isinstance(source, ops.Field)
        }
        for name in BAR_WORDS:
            if name in read:
                stmts.append(ops.Assign(ops.Field(place, name), self._read(f"bar.{name}")))
        return stmts

    def _calls(self) -> Iterator[ops.Call]:
        """The indicators of this stage."""
        for n in self.stage.equations:
            if isinstance(call := self.all[n].value, ops.Call):
                yield call

    def _parts(self, func: str, number: int) -> set[str]:
        """The fields of its parameter of this number that a function reads, or what it calls."""
        decl = self.strategy.library.lookup(func)
        assert isinstance(decl, ops.Func)
        own = ops.Var(decl.params[number].name)
        found: set[str] = set()
        for node in expressions(decl.body):
            if isinstance(node, ops.Field) and node.base == own:
                found.add(node.name)
            elif isinstance(node, ops.Call):
                for at_, arg in enumerate(node.args):
                    if arg == own:
                        found |= self._parts(node.func, at_)
        return found

    def _counters(self, uses: set[Use]) -> list[ops.Stmt]:
        names = fields(uses)
        return [
            ops.Assign(counter, ops.Binary("iadd", counter, ops.i64(1)))
            for mask, counter in self.strategy.equations.masks.items()
            if mask >> PANEL_SHIFT and counter.name in self._counted(names)
        ]

    def _counted(self, names: set[str]) -> set[str]:
        """What is counted: by a guard, or for the slots of a history."""
        rings = self.strategy.equations.rings.values()
        counters = {r.counter.name for r in rings if r.counter and r.place.name in names}
        return names | counters

    def _bars(self, uses: set[Use]) -> list[ops.Stmt]:
        """Histories of the bars themselves."""
        (place,) = self.strategy.bars.values()
        kept_ = self.graph.kept(place.name, fields(uses))
        return [stmt for source, ring in kept_ for stmt in ring.record(source)]

    def _stores(self, written: list[str]) -> Iterator[ops.Stmt]:
        for name in written:
            yield ops.Assign(at(READ, self.column(name)), self._value(name))
        for number, column in self.shown():
            if self.usual:
                column = replace(column, defined=ops.boolean(True))
            yield ops.Assign(self._shown_at(number), column_word(column))

    def _shown_at(self, number: int) -> ops.Elem:
        """The word of this bar of a column that is shown."""
        column_at = ops.Binary("imul", ops.i64(number), self.made_span)
        return ops.Elem(WRITTEN, ops.Binary("iadd", column_at, ops.Var("to")))

    def _value(self, name: str) -> ops.Expr:
        """The word of a column that a later stage reads."""
        columns = self.columns
        if name in columns:
            gather = self.all[columns[name]]
            assert isinstance(gather, Gather)
            conditions = [*gather.conditions, *self._needs(gather.needs)]
            conditions.append(present(gather.type, gather.value))
            value = ops.Select(all_of(conditions), gather.value, nothing(gather.type))
            return ops.as_word(value, stored(gather.type))
        equation = self.all[self.numbers[name.partition(".")[0]]]
        found = {n: (place, t) for n, place, t in self.types(equation.place, equation.type)}
        return ops.as_word(*found[name])


class _Across(_Builder):
    """A stage of cross-sections."""

    def __init__(self, turn: "Signals", stage: Stage, table: dict[str, int], form: Form) -> None:
        super().__init__(turn, stage, table, form)
        self.memory: dict[str, ops.Let] = {}
        """The lane's own arrays."""
        self.indices = 0

    def kernel(self, wanted: frozenset[str]) -> Kernel:
        found = [self.all[n] for n in self.stage.equations]
        calls = [one for one in found if isinstance(one, Across)]
        written = [one.place.name for one in calls if one.place.name in wanted]
        common = [one.place.name for one in calls if not one.fills]
        counters = [
            place
            for mask, place in self.strategy.equations.masks.items()
            if not mask >> PANEL_SHIFT
        ]
        count = ops.Binary("iadd", ops.Binary("iadd", BEFORE, LANE), ops.i64(1))
        work = [stmt for one in calls for stmt in self._batch(one, frozenset(written))]
        body = (
            ops.Let(WORK, ops.StructType("xs.Work"), None),
            *self.memory.values(),
            *(ops.Assign(place, count) for place in counters),
            *work,
        )
        alone = [n for n, one in self.shown() if self._source(one) in common]
        return self.built(
            body,
            written,
            () if self.flat else [name for name in written if name in common],
            points=("number",) if counters and not self.flat else (),
            shown_common=() if self.flat else alone,
            replaced=tuple(self._replaced(SORTS_OF_BLOCK if self.flat else SORTS)),
            named=("number", "before") if self.flat else (),
        )

    def _replaced(self, forms: Mapping[str, str]) -> Iterator[ops.Func]:
        """Functions under the names that they stand for."""
        for name, form in forms.items():
            found = self.strategy.library.lookup(self.strategy.core(form))
            assert isinstance(found, ops.Func)
            yield msgspec.structs.replace(found, name=name)

    def _array(self, name: str, type_: ops.ScalarType) -> ops.Var:
        """A column in the lane's own memory; those of one name serve one call after the other."""
        name = f"{name}.{type_}"
        self.memory[name] = ops.Let(name, ops.ArrayType(type_, N), None)
        return ops.Var(name)

    def _batch(self, equation: Across, written: frozenset[str]) -> list[ops.Stmt]:
        """One cross-section: its arguments in, the call, what is wanted of it out."""
        call = equation.value
        assert isinstance(call, ops.Call)
        stmts: list[ops.Stmt] = []
        args: list[ops.Expr] = []
        out = self._array("out", stored(equation.type)) if equation.fills else None
        for number, arg in enumerate(call.args):
            name = arg.name if isinstance(arg, ops.Field) else ""
            source = self.all[self.numbers[name]] if name in self.numbers else None
            if arg == self.strategy.scratch:
                args.append(ops.Var(WORK))
            elif arg == equation.place and out is not None:
                args.append(out)
            elif isinstance(source, Gather):
                array, index = self._array(f"in{number}", stored(source.type)), self._index()
                value = self._argument(source, index)
                stmts.append(each(index, ops.Assign(ops.Elem(array, index), value)))
                args.append(array)
            else:
                for use in sorted(fields(used(arg)) & set(self.numbers)):
                    stmts += self._earlier(use)
                args.append(arg)
        made = ops.Call(call.func, tuple(args), call.sizes)
        if out is None:
            stmts.append(ops.Assign(equation.place, made, equation.line))
        else:
            stmts.append(ops.Do(made, equation.line))
        return [*stmts, *self._stores(equation, out, written)]

    def _argument(self, source: Gather, index: ops.Var) -> ops.Expr:
        """What an instrument gives to a cross-section; what is shown may be infinite."""
        name, type_ = source.place.name, stored(source.type)
        if name not in self.again:
            return ops.as_value(self._slot(READ, self.read(name), index), type_)
        self.reads[name] = None
        shown = ops.as_value(self._slot(WRITTEN, self.again[name], index), type_)
        return ops.Select(present(source.type, shown), shown, nothing(source.type))

    def _earlier(self, name: str) -> list[ops.Stmt]:
        """A number for all that an earlier stage has found."""
        n = self.numbers[name]
        if n in self.own:
            return []
        one = self.all[n]
        first = self._slot(READ, self.read(name), ops.i64(0))
        return [ops.Assign(one.place, ops.as_value(first, stored(one.type)))]

    def _stores(
        self, equation: Across, out: ops.Var | None, written: frozenset[str]
    ) -> Iterator[ops.Stmt]:
        """What a cross-section has found, where it is shown and where a later stage reads it."""
        name, type_ = equation.place.name, stored(equation.type)
        if out is None:
            if name in written:
                yield self._one(READ, self.column(name), ops.as_word(equation.place, type_))
            for number, column in self.shown():
                if self._source(column) == name:
                    yield self._one(WRITTEN, number, column_word(column))
            return
        tables = [(WRITTEN, n) for n, one in self.shown() if self._source(one) == name]
        if name in written:
            tables.append((READ, self.column(name)))
        for table, number in tables:
            index = self._index()
            value = ops.as_word(ops.Elem(out, index), type_)
            yield each(index, ops.Assign(self._slot(table, number, index), value))

    def _one(self, table: ops.Var, column: int, word: ops.Expr) -> ops.Stmt:
        """One number for all at its place; of flat columns it is one for each."""
        if not self.flat:
            return ops.Assign(self._slot(table, column, ops.i64(0)), word)
        index = self._index()
        return each(index, ops.Assign(self._slot(table, column, index), word))

    def _slot(self, table: ops.Var, column: int, index: ops.Expr) -> ops.Elem:
        """The word of an instrument at a lane's instant."""
        span = self.made_span if table == WRITTEN else SPAN
        first = ops.Binary("imul", ops.i64(column), span)
        if not self.flat:
            beside = index if table == WRITTEN else placed(index)
            return ops.Elem(table, ops.Binary("iadd", first, beside))
        row = ops.Binary("imul", LANE, ops.SizeOf(ops.SizeName(ROW)))
        ahead = ops.Binary("iadd", first, row)
        return ops.Elem(table, ops.Binary("iadd", ahead, index))

    def _source(self, column: Column) -> str:
        """The cross-section that a column shows."""
        ((name, _),) = used(column.value)
        equation = self.all[self.numbers[name]]
        if isinstance(equation, Scatter):
            ((name, _),) = used(equation.value)
        return name

    def _index(self) -> ops.Var:
        """A name for the index of a loop."""
        self.indices += 1
        return ops.Var(f"at.{self.indices}")


WORK = "work"


def of_host(name: str) -> bool:
    """Whether the host fills a column."""
    return name.startswith(("bar.", TRAIT)) or name in (FACTOR, SEEN, INSTANTS)


def each(index: ops.Var, stmt: ops.Stmt) -> ops.Stmt:
    """Do a statement for each instrument."""
    return ops.For(index.name, ops.i64(0), ops.SizeOf(N), (stmt,))
