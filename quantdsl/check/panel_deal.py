"""Events of a universe dealt into columns: a row of bars an instant, a place an instrument.

    deal(events, n, cells, seen, times, now, told) -> how many events were taken

Whole instants are taken while there is room. `told` are words that both sides write: the rows that
are filled, and those of them in which every instrument has a bar.
"""

from collections.abc import Mapping

from msgspec import Struct

from quantdsl.check.panel_kernels import INSTANTS_MAX, TRAIT, place
from quantdsl.check.step import BAR_WORDS, band
from quantdsl.events.layout import MORE, Kind, Trait
from quantdsl.ir import ops
from quantdsl.ir.link import Decl, link
from quantdsl.ir.own import WIDTH

ENTRY = "deal"
FILLED, COMPLETE = range(2)
"""The words of `told`."""
EVENT = ops.StructType("Event")
FIELDS = ("ts_event", "ts_recv", "head", "a", "b", "c", "d", "e")
WORDS = ops.BufferType(ops.I64_T)
ROW, BARS, FRESH = ops.Var("row"), ops.Var("bars"), ops.Var("fresh")
KIND, WHO, NOW = ops.Var("kind"), ops.Var("inst"), ops.Var("now")


class Table(Struct, frozen=True):
    """Numbers of the columns that events fill, instruments, words of a row, rows that have room,
    and whether columns are flat (panel_kernels.py)."""

    columns: Mapping[str, int]
    count: int
    lanes: int
    instants: int = INSTANTS_MAX
    flat: bool = False

    @property
    def step(self) -> int:
        """Words of a column from an instant to the next."""
        return self.lanes if self.flat else WIDTH

    @property
    def traits(self) -> tuple[Trait, ...]:
        """The traits that have a column, in the order in which `now` holds them."""
        named = (name.removeprefix(TRAIT) for name in self.columns if name.startswith(TRAIT))
        return tuple(Trait(int(number)) for number in sorted(named, key=int))


def deal_module(table: Table) -> ops.Module:
    """The linked IR of `deal`."""
    written = ("cells", "seen", "times", "now", "told")
    params = (
        ops.ParamDecl("events", ops.BufferType(EVENT)),
        ops.ParamDecl("n", ops.I64_T),
        *(ops.ParamDecl(name, WORDS, inout=True) for name in written),
    )
    taken = _Dealer(table)
    body: tuple[ops.Stmt, ...] = (
        ops.Let("row", ops.I64_T, _told(FILLED)),
        ops.Let("complete", ops.I64_T, _told(COMPLETE)),
        ops.Let("bars", ops.I64_T, ops.i64(0)),
        ops.Let("fresh", ops.BOOL_T, ops.boolean(True)),
        ops.Let("first", ops.I64_T, ops.Binary("imul", ROW, ops.i64(table.step))),
        ops.For("k", ops.i64(0), ops.Var("n"), taken.event()),
        *_end(ops.Var("n")),
    )
    func = ops.Func(ENTRY, params, ops.I64_T, body)
    event = ops.StructDecl(EVENT.name, tuple(ops.FieldDecl(name, ops.I64_T) for name in FIELDS))
    decls: dict[str, Decl] = {func.name: func, event.name: event}
    return link(decls.get, [ENTRY], {})


class _Dealer:
    """What is done of each event: k is its number, `first` where its row begins in a column."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def event(self) -> tuple[ops.Stmt, ...]:
        """All of it; a row is told at the end of an instant that has a bar."""
        head = _word("head")
        full = ops.Binary("ige", ROW, ops.i64(self.table.instants))
        is_bar = ops.Binary("ieq", KIND, ops.i64(Kind.BAR))
        begins = (
            ops.If(full, _end(ops.Var("k"))),
            ops.Assign(FRESH, ops.boolean(False)),
        )
        ends = (
            ops.Assign(FRESH, ops.boolean(True)),
            ops.If(ops.Binary("igt", BARS, ops.i64(0)), self.row()),
        )
        return (
            ops.If(FRESH, begins),
            ops.Let("kind", ops.I64_T, _bits(head, 32, 0xFF)),
            ops.Let("inst", ops.I64_T, _bits(head, 0, 0xFFFFFFFF)),
            ops.If(is_bar, self.bar(), self.trait()),
            ops.If(ops.Unary("not", band(head, MORE << 48)), ends),
        )

    def row(self) -> tuple[ops.Stmt, ...]:
        """The row of an instant is complete: its time and traits, and where the next one is."""
        table = self.table
        stmts: list[ops.Stmt] = [ops.Assign(ops.Elem(ops.Var("times"), ROW), _word("ts_event"))]
        for slot, trait in enumerate(table.traits):
            index = ops.Var(f"i.{slot}")
            value = ops.Elem(NOW, _plus(ops.i64(slot * table.lanes), index))
            copy = ops.Assign(self.cell(f"{TRAIT}{int(trait)}", index), value)
            stmts.append(ops.For(index.name, ops.i64(0), ops.i64(table.count), (copy,)))
        whole = ops.Unary("bool_to_i64", ops.Binary("ieq", BARS, ops.i64(table.count)))
        complete, first = ops.Var("complete"), ops.Var("first")
        return (
            *stmts,
            ops.Assign(complete, _plus(complete, whole)),
            ops.Assign(ROW, _plus(ROW, ops.i64(1))),
            ops.Assign(first, _plus(first, ops.i64(table.step))),
            ops.Assign(BARS, ops.i64(0)),
        )

    def bar(self) -> tuple[ops.Stmt, ...]:
        """Its words into their columns."""
        before = ops.Binary("imul", ROW, ops.i64(self.table.lanes))
        return (
            ops.Assign(ops.Elem(ops.Var("seen"), _plus(before, WHO)), ops.i64(1)),
            ops.Assign(BARS, _plus(BARS, ops.i64(1))),
            *(
                ops.Assign(self.cell(f"bar.{name}", WHO), _word(word))
                for name, word in BAR_WORDS.items()
                if f"bar.{name}" in self.table.columns
            ),
        )

    def trait(self) -> tuple[ops.Stmt, ...]:
        """What is told of an instrument, from now on."""
        side = _bits(_word("head"), 40, 0xFF)
        told = ops.Binary("ieq", KIND, ops.i64(Kind.TRAIT))
        stmts: list[ops.Stmt] = []
        for slot, trait in enumerate(self.table.traits):
            this = ops.Binary("and", told, ops.Binary("ieq", side, ops.i64(int(trait))))
            place_ = ops.Elem(NOW, _plus(ops.i64(slot * self.table.lanes), WHO))
            stmts.append(ops.If(this, (ops.Assign(place_, _word("a")),)))
        return tuple(stmts)

    def cell(self, column: str, index: ops.Expr) -> ops.Elem:
        """The word of an instrument in this row of a column."""
        table = self.table
        base = table.columns[column] * table.instants * table.lanes
        beside = index if table.flat else place(index)
        at = _plus(ops.i64(base), _plus(ops.Var("first"), beside))
        return ops.Elem(ops.Var("cells"), at)


def _end(taken: ops.Expr) -> tuple[ops.Stmt, ...]:
    return (
        ops.Assign(_told(FILLED), ROW),
        ops.Assign(_told(COMPLETE), ops.Var("complete")),
        ops.Return(taken),
    )


def _word(name: str) -> ops.Expr:
    return ops.Field(ops.Elem(ops.Var("events"), ops.Var("k")), name)


def _bits(word: ops.Expr, shift: int, mask: int) -> ops.Expr:
    return ops.Binary("iand", ops.Binary("lshr", word, ops.i64(shift)), ops.i64(mask))


def _told(word: int) -> ops.Elem:
    return ops.Elem(ops.Var("told"), ops.i64(word))


def _plus(x: ops.Expr, y: ops.Expr) -> ops.Expr:
    return ops.Binary("iadd", x, y)
