"""Events of a universe dealt into columns: a row of bars an instant, a place an instrument.

    deal(state, events, n, cells, seen, times, now, told) -> how many events were taken

Whole instants are taken while there is room. `times` are those of the rows, then when the days of
their sessions began, where that is asked for. `now` are the traits of each instrument and what its
prices are adjusted by, `told` words that both sides write: the rows that are filled, those of them
in which every instrument has a bar, and when the day of the session at hand began. The state is
what the core computes such a factor from, and where it stands in the core's own: each instrument's
last close, and what a tick of it is worth.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from quantdsl.check.market import ENGINE
from quantdsl.check.panel_step import band
from quantdsl.check.panel_words import CLOCK, FACTOR, INSTANTS_MAX, TRAIT, placed
from quantdsl.check.step import BAR_WORDS, OPENS, STATE_PARAM
from quantdsl.events.codes import Action
from quantdsl.events.layout import MORE, Kind, Trait
from quantdsl.ir import ops
from quantdsl.ir.link import Decl, link
from quantdsl.ir.own import WIDTH

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

ENTRY = "deal"
FILLED, COMPLETE, MIDNIGHT = range(3)
"""The words of `told`."""
EVENT = ops.StructType("Event")
FIELDS = ("ts_event", "ts_recv", "head", "a", "b", "c", "d", "e")
WORDS = ops.BufferType(ops.I64_T)
ROW, BARS, FRESH = ops.Var("row"), ops.Var("bars"), ops.Var("fresh")
KIND, SIDE, WHO, NOW = ops.Var("kind"), ops.Var("side"), ops.Var("inst"), ops.Var("now")
PARTS = {
    "engine.Engine": ("instruments", "market"),
    "engine.Instrument": ("money_per_tick_lot",),
    "engine.Market": ("close",),
}
"""What there is of the structs of the core."""


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
    def has_midnight(self) -> bool:
        """Whether somebody reads when the day of a session began."""
        return CLOCK["midnight"] in self.columns

    @property
    def traits(self) -> tuple[Trait, ...]:
        """The traits that have a column, in the order in which `now` holds them."""
        named = (name.removeprefix(TRAIT) for name in self.columns if name.startswith(TRAIT))
        return tuple(Trait(int(number)) for number in sorted(named, key=int))

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that repeat what was told last, in the order in which `now` holds them."""
        traits = (f"{TRAIT}{int(trait)}" for trait in self.traits)
        return (*traits, *((FACTOR,) if FACTOR in self.columns else ()))


def deal_module(strategy: "Strategy", table: Table) -> ops.Module:
    """The linked IR of `deal`."""
    written = ("cells", "seen", "times", "now", "told")
    params = (
        STATE_PARAM,
        ops.ParamDecl("events", ops.BufferType(EVENT)),
        ops.ParamDecl("n", ops.I64_T),
        *(ops.ParamDecl(name, WORDS, inout=True) for name in written),
    )
    taken = _Dealer(strategy, table)
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
    decls |= {one.name: one for one in _structs(strategy)}
    sizes = {"N_INSTRUMENTS": table.count}
    return link(lambda name: decls.get(name) or strategy.library.lookup(name), [ENTRY], sizes)


def _structs(strategy: "Strategy") -> Iterator[ops.StructDecl]:
    """The state, with the parts of the core that are needed of it."""
    yield ops.StructDecl("State", (ops.FieldDecl(ENGINE.name, ops.StructType("engine.Engine")),))
    for name, parts in PARTS.items():
        whole = strategy.library.lookup(name)
        assert isinstance(whole, ops.StructDecl)
        yield replace(whole, fields=tuple(one for one in whole.fields if one.name in parts))


class _Dealer:
    """What is done of each event: k is its number, `first` where its row begins in a column."""

    def __init__(self, strategy: "Strategy", table: Table) -> None:
        self.strategy, self.table = strategy, table

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
            ops.Let("side", ops.I64_T, _bits(head, 40, 0xFF)),
            ops.Let("inst", ops.I64_T, _bits(head, 0, 0xFFFFFFFF)),
            ops.If(is_bar, self.bar(), (*self.trait(), *self.adjust(), *self.session())),
            ops.If(ops.Unary("not", band(head, MORE << 48)), ends),
        )

    def row(self) -> tuple[ops.Stmt, ...]:
        """The row of an instant is complete: its time, what is kept, and where the next one is."""
        table = self.table
        stmts: list[ops.Stmt] = [ops.Assign(ops.Elem(ops.Var("times"), ROW), _word("ts_event"))]
        for slot, name in enumerate(table.kept):
            index = ops.Var(f"i.{slot}")
            copy = ops.Assign(self.cell(name, index), self.now(name, index))
            stmts.append(ops.For(index.name, ops.i64(0), ops.i64(table.count), (copy,)))
        if table.has_midnight:
            at = _plus(ROW, ops.i64(table.instants))
            stmts.append(ops.Assign(ops.Elem(ops.Var("times"), at), _told(MIDNIGHT)))
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
        close = ops.Assign(self.close(), _word(BAR_WORDS["close"]))
        return (
            *((close,) if FACTOR in self.table.columns else ()),
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
        told = ops.Binary("ieq", KIND, ops.i64(Kind.TRAIT))
        stmts: list[ops.Stmt] = []
        for trait in self.table.traits:
            this = ops.Binary("and", told, ops.Binary("ieq", SIDE, ops.i64(int(trait))))
            at = self.now(f"{TRAIT}{int(trait)}", WHO)
            stmts.append(ops.If(this, (ops.Assign(at, _word("a")),)))
        return tuple(stmts)

    def adjust(self) -> tuple[ops.Stmt, ...]:
        """A split or a dividend of an instrument into its factor, as the core takes it in."""
        if FACTOR not in self.table.columns:
            return ()
        strategy, adjust = self.strategy, self.strategy.adjust
        assert adjust is not None
        acts = ops.Binary("ieq", KIND, ops.i64(Kind.CORPORATE))
        splits = ops.Binary("ieq", SIDE, ops.i64(Action.SPLIT))
        num, den = (ops.Unary("i64_to_f64", _word(word)) for word in ("a", "b"))
        divided = ops.Call(
            strategy.core("account.divided"), (self.close(), ops.Binary("fdiv", num, den))
        )
        dividends = ops.i64(int(adjust[0] == "all"))
        args = (ENGINE, WHO, SIDE, _word("a"), _word("b"), dividends)
        factor = ops.Call(strategy.core("portfolio.factor"), args)
        at = self.now(FACTOR, WHO)
        so_far = ops.Binary("fmul", ops.Unary("from_bits", at), factor)
        return (
            ops.If(
                acts,
                (
                    ops.If(splits, (ops.Assign(self.close(), divided),)),
                    ops.Assign(at, ops.Unary("bits", so_far)),
                ),
            ),
        )

    def session(self) -> tuple[ops.Stmt, ...]:
        """When the day of a session began, from its open on."""
        if not self.table.has_midnight:
            return ()
        told = ops.Binary("ieq", KIND, ops.i64(Kind.SESSION))
        opens = ops.Binary("and", told, ops.Binary("ieq", SIDE, ops.i64(OPENS)))
        return (ops.If(opens, (ops.Assign(_told(MIDNIGHT), _word("a")),)),)

    def close(self) -> ops.Field:
        """The last close of the instrument at hand."""
        market = ops.Field(ENGINE, "market")
        return ops.Field(ops.Elem(market, WHO), "close")

    def now(self, name: str, index: ops.Expr) -> ops.Elem:
        """What was told last of an instrument."""
        first = self.table.kept.index(name) * self.table.lanes
        return ops.Elem(NOW, _plus(ops.i64(first), index))

    def cell(self, column: str, index: ops.Expr) -> ops.Elem:
        """The word of an instrument in this row of a column."""
        table = self.table
        base = table.columns[column] * table.instants * table.lanes
        beside = index if table.flat else placed(index)
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
