"""`book`: what a strategy reads of an order book, at each message or where a handler asks."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from quantdsl.check import arith
from quantdsl.check.arith import an
from quantdsl.check.bindings import Binding, Indexed, unknown
from quantdsl.check.context import Context
from quantdsl.check.expr import prove_index
from quantdsl.check.market import ENGINE, Traded
from quantdsl.check.ticks import BOOK, Ticks
from quantdsl.check.types import FLOAT, INT, MISSING
from quantdsl.check.values import Series, Value, error_value
from quantdsl.events.codes import NO_PRICE
from quantdsl.ir import ops
from quantdsl.lang import ast

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

LEVELS = ("bid", "ask", "bid_qty", "ask_qty")
BID, ASK = ops.i64(0), ops.i64(1)


class BookBinding(Binding):
    """`book` of one instrument."""

    what = "the book"
    builtin = "namespace"
    has_members = True

    def __init__(self, ticks: Ticks, traded: Traded) -> None:
        self.ticks = ticks
        self.traded = traded

    def member(self, name: str) -> Binding | None:
        """A function of the book, or its levels."""
        if name in LEVELS:
            return Levels(self, name)
        return BookFunction(self, name) if name in FUNCTIONS else None

    def members(self) -> list[str]:
        """What may follow the dot."""
        return [*LEVELS, *FUNCTIONS]

    @property
    def depth(self) -> int:
        """How many levels the strategy looks at."""
        return self.ticks.sources[BOOK].depth

    def ask(self, routine: str, *args: ops.Expr) -> ops.Call:
        """A call of std/book.qdsl."""
        place = ops.Elem(ops.Field(ENGINE, "books"), self.traded.ir)
        return ops.Call(self.ticks.strategy.core(f"book.{routine}"), (place, *args))

    def series(self, *args: Value) -> Series | None:
        """Of a figure of the book: a series unless an argument exists only in the handler."""
        of_book = self.ticks.series(self.traded.index, BOOK)
        return arith.joined([Value(FLOAT, BID, series=of_book), *args])


class Levels(Indexed):
    """`book.bid[0]`, `book.ask_qty[i]`: prices and sizes by level, the best one first."""

    what = "the levels of a side"

    def __init__(self, book: BookBinding, name: str) -> None:
        self.book = book
        self.name = name

    def read(self, cx: Context, node: ast.Expr) -> Value:
        """A side is no value, a level of it is one."""
        return cx.error(
            "QD0203",
            f"'book.{self.name}' is a row of levels",
            node.span,
            help=f"'book.{self.name}[0]' is the best one",
        )

    def at(self, cx: Context, node: ast.Index) -> Value:
        """A price, na where the book has no such level, or a quantity, 0 there."""
        index = cx.expr(node.index)
        if index.bad:
            return error_value(node.span)
        if index.type != INT:
            return cx.error(
                "QD0301", f"a level is an int, this is {an(index.type)}", node.index.span
            )
        prove_index(cx, index, self.book.depth, node.index)
        ticks, traded, series = self.book.ticks, self.book.traded, self.book.series(index)
        side = ASK if self.name.startswith("ask") else BID
        if self.name.endswith("qty"):
            value = ticks.sized(traded, self.book.ask("level_lots", side, index.ir), series)
            return _kept(cx, value)
        level = self.book.ask("level_ticks", side, index.ir)
        # Of a tick, the best level is always there.
        if series is not None and index.const == 0:
            return _kept(cx, ticks.priced(traded, level, series))
        there = ops.Binary("ilt", level, ops.i64(NO_PRICE))
        value = ticks.priced(traded, ops.Select(there, level, ops.i64(MISSING)), series)
        value.type = value.type.missing()
        return _kept(cx, value)


def _kept(cx: Context, value: Value) -> Value:
    """A series is evaluated once a message, however often it is read."""
    if value.series is None or cx.home is None:
        return value
    kept: Value = cx.home.keep(cx, value)
    return kept


class _Function(Struct, frozen=True):
    """How a function of the book is called: its only argument, and what makes its value."""

    argument: str  # empty: it takes none
    make: "Callable[[Context, BookBinding, ast.Expr | None, ast.Call], Value]"
    optional: bool = False


class BookFunction(Binding):
    """`book.imbalance(levels = 5)` and its kind."""

    what = "a function of the book"
    builtin = "function"

    def __init__(self, book: BookBinding, name: str) -> None:
        self.book = book
        self.name = name

    def call(self, cx: Context, node: ast.Call) -> Value:
        """The figure: a series where its argument is one."""
        function = FUNCTIONS[self.name]
        wrong = [arg for arg in node.args if arg.name not in (None, function.argument or None)]
        if wrong and wrong[0].name is not None:
            known = [function.argument] if function.argument else []
            place = (wrong[0].span[0], wrong[0].span[0] + len(wrong[0].name))
            return unknown(cx, wrong[0].name, place, known, f"in book.{self.name}")
        least = 0 if function.optional or not function.argument else 1
        most = 1 if function.argument else 0
        if not least <= len(node.args) <= most:
            takes = f"takes {function.argument}" if most else "takes nothing"
            return cx.error("QD0308", f"book.{self.name} {takes}", node.span)
        given = node.args[0].value if node.args else None
        value = function.make(cx, self.book, given, node)
        return value if value.bad else _kept(cx, value)


# ---- what each of them computes ----------------------------------------------------------------


def _levels(cx: Context, book: BookBinding, given: ast.Expr | None) -> Value:
    """How many levels to look at: 1 unless told, at most the depth of the book."""
    if given is None:
        return Value(INT, ops.i64(1), low=1, high=1, series=Series(), const=1)
    value = cx.expr(given)
    if value.bad:
        return value
    known = value.type == INT and value.low is not None and isinstance(value.high, int)
    if not known or not ((value.low or 0) >= 1 and value.high <= book.depth):  # type: ignore[operator]
        return cx.error(
            "QD0603",
            f"levels are a number from 1 to {book.depth}, known when compiling",
            given.span,
            reason=f"this strategy declares 'book depth = {book.depth}'",
            help="use a constant or a param with a range, or a deeper book",
        )
    return value


def _microprice(cx: Context, book: BookBinding, given: ast.Expr | None, node: ast.Call) -> Value:
    levels = _levels(cx, book, given)
    if levels.bad:
        return levels
    ticks = book.ask("microprice", levels.ir)
    return book.ticks.in_currency(book.traded, ticks, book.series(levels))


def _imbalance(cx: Context, book: BookBinding, given: ast.Expr | None, node: ast.Call) -> Value:
    levels = _levels(cx, book, given)
    if levels.bad:
        return levels
    return Value(FLOAT, book.ask("imbalance", levels.ir), series=book.series(levels))


def _flow(cx: Context, book: BookBinding, given: ast.Expr | None, node: ast.Call) -> Value:
    place = ops.Elem(ops.Field(ENGINE, "books"), book.traded.ir)
    return book.ticks.sized(book.traded, ops.Field(place, "ofi"), book.series())


def _depth_to(cx: Context, book: BookBinding, given: ast.Expr | None, node: ast.Call) -> Value:
    """Bids down to a price at or below the best bid, else asks up to it."""
    assert given is not None
    value = arith.plain(cx, cx.expr(given))
    if value.bad:
        return value
    if value.type.kind != "price" or value.type.of not in ("", book.traded.name):
        return cx.error(
            "QD0301",
            f"book.depth_to takes a price, this is {an(value.type)}",
            given.span,
            help="such as book.depth_to(bid - 5 ticks), or snap(x, nearest) of a float",
        )
    bids = ops.Binary("ile", value.ir, book.ask("best", BID))
    lots = book.ask("depth_to", ops.Select(bids, BID, ASK), value.ir)
    return book.ticks.sized(book.traded, lots, book.series(value))


def _vwap(cx: Context, book: BookBinding, given: ast.Expr | None, node: ast.Call) -> Value:
    """What buying a quantity would cost on average, or selling it, where it is below zero."""
    assert given is not None
    value = arith.plain(cx, cx.expr(given))
    if value.bad:
        return value
    if value.type.kind != "qty" or value.type.of not in ("", book.traded.name):
        return cx.error(
            "QD0301",
            f"book.vwap_to_fill takes a quantity, this is {an(value.type)}",
            given.span,
            help="such as book.vwap_to_fill(500 shares); of a sale it is below zero",
        )
    sells = ops.Binary("ilt", value.ir, ops.i64(0))
    lots = ops.Select(sells, ops.Unary("ineg", value.ir), value.ir)
    ticks = book.ask("vwap_to_fill", ops.Select(sells, BID, ASK), lots)
    found = book.ticks.in_currency(book.traded, ticks, book.series(value))
    found.type = FLOAT.missing()
    return found


def _queue_ahead(cx: Context, book: BookBinding, given: ast.Expr | None, node: ast.Call) -> Value:
    """How much rests before one's own order, which is named as `working.bid`."""
    side = given.name if isinstance(given, ast.Attr) else ""
    named = isinstance(given, ast.Attr) and isinstance(given.value, ast.Name)
    if not named or side not in ("bid", "ask") or given.value.id != "working":  # type: ignore[union-attr]
        return cx.error("QD0308", "book.queue_ahead takes working.bid or working.ask", node.span)
    strategy: Strategy = book.ticks.strategy
    if not strategy.acting:
        return cx.error(
            "QD0306",
            "an equation is made of market data and params alone",
            node.span,
            reason="orders belong to handlers",
            help="move this into 'on book:'",
        )
    call = ops.Call(
        strategy.core("engine.queue_ahead"),
        (ENGINE, book.traded.ir, ops.boolean(side == "bid")),
    )
    unit = book.ticks.unit(book.traded, "lot")
    ir = ops.Binary("fdiv", ops.Binary("fmul", call, unit.num), unit.den)
    return Value(FLOAT.missing(), ir)


FUNCTIONS: dict[str, _Function] = {
    "microprice": _Function("levels", _microprice, optional=True),
    "imbalance": _Function("levels", _imbalance, optional=True),
    "order_flow_imbalance": _Function("", _flow),
    "depth_to": _Function("price", _depth_to),
    "vwap_to_fill": _Function("qty", _vwap),
    "queue_ahead": _Function("order", _queue_ahead),
}
