"""The IR of a stage of cross-sections: a lane is an instant."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from quantdsl.check.cross import Across, Gather, Scatter, nothing, present
from quantdsl.check.graph import fields, used
from quantdsl.check.panel_builder import BEFORE, LANE, Builder, Form, Kernel, N
from quantdsl.check.panel_stages import Stage
from quantdsl.check.panel_words import READ, SPAN, WRITTEN, placed
from quantdsl.check.signal_turn import Column, column_word
from quantdsl.check.types import stored
from quantdsl.check.values import PANEL_SHIFT
from quantdsl.ir import ops
from quantdsl.ir.own import ROW

if TYPE_CHECKING:
    from quantdsl.check.signal_turn import Signals

WORK = "work"
SORTS = {"xs.sort": "xs.sort_network", "xs.at_rank": "xs.at_rank_left"}
"""A lane across sorts without a branch that lanes part at, which leaves the values in order."""
SORTS_OF_BLOCK = {
    "xs.sort": "xs.sort_each",
    "xs.rank": "xs.rank_each",
    "xs.rank_by": "xs.rank_by_each",
}
"""A block of threads has loops whose turns do not need each other."""


class AcrossBuilder(Builder):
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
        return [
            ops.Assign(place, ops.as_value(self._slot(READ, self.read(part), ops.i64(0)), type_))
            for part, place, type_ in self.types(self.all[n].place, self.all[n].type)
        ]

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


def each(index: ops.Var, stmt: ops.Stmt) -> ops.Stmt:
    """Do a statement for each instrument."""
    return ops.For(index.name, ops.i64(0), ops.SizeOf(N), (stmt,))
