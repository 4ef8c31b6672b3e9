"""The part of an instant that is about ticks: events into the state, and rows of the curve."""

from collections.abc import Container
from typing import TYPE_CHECKING

from quantdsl.check.bar_step import OWN_TICKED, BarStep, ticks
from quantdsl.check.equations import STATE, THIS
from quantdsl.check.graph import Use
from quantdsl.check.market import ENGINE
from quantdsl.check.ticks import BOOK, PRINT_WORDS, QUOTE, TOUCH_WORDS, TRADE
from quantdsl.events.codes import MORE, NO_PRICE, OUTSIDE, Aggressor, Feed, Kind
from quantdsl.ir import ops

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

EVENT = ops.Var("ev")
TICKED = ops.Field(STATE, "ticked")
ROW_NS = 1_000_000_000
"""The least time between two rows of the curve without a fill."""

WORDS = {QUOTE: TOUCH_WORDS, TRADE: PRINT_WORDS, BOOK: TOUCH_WORDS}
"""The words of the place of each source's last tick."""


class TickStep:
    """Builds it for one strategy."""

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy
        self.ticks = strategy.ticks
        self.bar_step = BarStep(strategy)
        if self.ticks:
            self.row_next = strategy.equations.field("r", ops.I64_T)
            self.row_fills = strategy.equations.field("r", ops.I64_T)

    # ---- events ----

    def ingest(
        self, kind: ops.Expr, instrument: ops.Expr, uses: set[Use], rest: tuple[ops.Stmt, ...]
    ) -> tuple[ops.Stmt, ...]:
        """Take in an event that the engine has taken in already; `rest` is for other kinds."""
        chain = rest
        if self.ticks.stale is not None:
            chain = (ops.If(_is(kind, Kind.FEED), (self._feed(instrument),), chain),)
        if BOOK in self.ticks.sources:
            delta, snapshot = _is(kind, Kind.BOOK_DELTA), _is(kind, Kind.BOOK_SNAPSHOT)
            of_book = ops.Binary("or", delta, snapshot)
            chain = (ops.If(of_book, self._each(BOOK, instrument, uses), chain),)
        if QUOTE in self.ticks.sources:
            quotes = self._each(QUOTE, instrument, uses)
            chain = (ops.If(_is(kind, Kind.QUOTE), quotes, chain),)
        if TRADE in self.ticks.sources:
            trades = self._each(TRADE, instrument, uses)
            chain = (ops.If(_is(kind, Kind.TRADE), trades, chain),)
        return chain

    def _each(self, event: str, instrument: ops.Expr, uses: set[Use]) -> tuple[ops.Stmt, ...]:
        """The event of whichever instrument it is about."""
        stmts: list[ops.Stmt] = []
        several = len(self.strategy.instruments) > 1
        for traded in self.strategy.instruments:
            into = (
                *self._copies(traded.index, event, uses),
                *self.bar_step.add(traded.index, event, self._words(traded.index, event), uses),
                *ticks(self.strategy, traded.index, self.ticks.clock(event)),
            )
            good: tuple[ops.Stmt, ...] = into
            if event == QUOTE:
                good = (ops.If(_two_sided(), into),)
            elif event == BOOK:
                core, book = self.strategy.core, self._book(traded.index)
                both = ops.Call(core("book.two_sided"), (book,))
                good = (ops.If(_heard(), (ops.If(both, into),)),)
            if traded.at is not None:
                return (ops.Let(THIS.name, ops.I64_T, instrument), *good)
            here = ops.Binary("ieq", instrument, ops.i64(traded.index))
            stmts += (ops.If(here, good),) if several else good
        return tuple(stmts)

    def _copies(self, instrument: int, event: str, uses: set[Use]) -> list[ops.Stmt]:
        """The words of the last tick that something reads."""
        place = self.ticks.places.get((instrument, event))
        if place is None:
            return []
        sources = self._words(instrument, event)
        return [
            ops.Assign(ops.Field(place, name), value)
            for name, value in sources.items()
            if not uses.isdisjoint({(place.name, name), (place.name, "")})
        ]

    def _words(self, instrument: int, event: str) -> dict[str, ops.Expr]:
        """What the event at hand says."""
        return {QUOTE: self._quote, TRADE: self._trade, BOOK: self._touch}[event](instrument)

    def _quote(self, _instrument: int) -> dict[str, ops.Expr]:
        return {word: ops.Field(EVENT, at) for word, at in zip(TOUCH_WORDS, "abcd", strict=True)}

    def _trade(self, _instrument: int) -> dict[str, ops.Expr]:
        lots = ops.Field(EVENT, "b")
        side = ops.Var("side")
        sold = ops.Select(_is(side, Aggressor.SELLS), ops.Unary("ineg", lots), ops.i64(0))
        signed = ops.Select(_is(side, Aggressor.BUYS), lots, sold)
        return {"price": ops.Field(EVENT, "a"), "lots": lots, "signed": signed}

    def _touch(self, instrument: int) -> dict[str, ops.Expr]:
        book, core = self._book(instrument), self.strategy.core
        return {
            "bid": ops.Call(core("book.bid"), (book,)),
            "ask": ops.Call(core("book.ask"), (book,)),
            "bid_lots": ops.Call(core("book.best_lots"), (book, ops.i64(0))),
            "ask_lots": ops.Call(core("book.best_lots"), (book, ops.i64(1))),
        }

    def _book(self, instrument: int) -> ops.Elem:
        return ops.Elem(ops.Field(ENGINE, "books"), self.strategy.instruments[instrument].ir)

    def _feed(self, instrument: ops.Expr) -> ops.Stmt:
        """A feed that is stale, has a gap or begins anew is so for all clocks of its instrument."""
        place = self.ticks.stale_bits()
        own = ops.i64((1 << self.strategy.width) - 1)
        worse = ops.Binary("ine", ops.Var("side"), ops.i64(Feed.GOOD))
        of_this = self.ticks.own_stale
        if of_this is not None:
            marks = tuple(ops.Assign(mark, own) for mark in (place, of_this))
            return ops.If(worse, (ops.Let(THIS.name, ops.I64_T, instrument), *marks))
        shift = ops.Binary("imul", instrument, ops.i64(self.strategy.width))
        bits = ops.Binary("ior", place, ops.Binary("shl", own, shift))
        return ops.If(worse, (ops.Assign(place, bits),))

    def clear(self) -> list[ops.Stmt]:
        """What an instant leaves to the next one."""
        stale = self.ticks.stale
        return [] if stale is None else [ops.Assign(stale, ops.i64(0))]

    def histories(
        self, kept: Container[str] | None = None
    ) -> list[tuple[ops.Expr, list[ops.Stmt]]]:
        """What is looked back at of the last ticks, with the clock on which it is kept; of the
        histories those in `kept`, or all."""
        found: list[tuple[ops.Expr, list[ops.Stmt]]] = []
        for (instrument, event), place in self.ticks.places.items():
            one = self.strategy.universe is None
            clock = self.ticks.bit(instrument, event) if one else self.ticks.clock(event)
            mask = ops.Binary("iand", TICKED if one else OWN_TICKED, ops.i64(1 << clock))
            record = self.strategy.equations.record
            due = ops.Binary("ine", mask, ops.i64(0))
            found += [(due, record(ops.Field(place, word), kept)) for word in WORDS[event]]
        return found

    # ---- the curve ----

    def row_due(self) -> ops.Expr:
        """After the step: a second has passed since the last row, or something has filled."""
        fills = ops.Field(ops.Field(ENGINE, "metrics"), "fills")
        later = ops.Binary("ige", ops.Field(ENGINE, "now"), self.row_next)
        return ops.Binary("or", later, ops.Binary("ine", fills, self.row_fills))

    def row_done(self) -> list[ops.Stmt]:
        """What is remembered with a row."""
        fills = ops.Field(ops.Field(ENGINE, "metrics"), "fills")
        then = ops.Binary("iadd", ops.Field(ENGINE, "now"), ops.i64(ROW_NS))
        return [ops.Assign(self.row_next, then), ops.Assign(self.row_fills, fills)]


def _is(code: ops.Expr, number: int) -> ops.Expr:
    return ops.Binary("ieq", code, ops.i64(number))


def _heard() -> ops.Expr:
    """Whether a message of the book is whole with this event, and within the session."""
    flags = ops.Binary("iand", ops.Field(EVENT, "head"), ops.i64((MORE | OUTSIDE) << 48))
    return ops.Binary("ieq", flags, ops.i64(0))


def _two_sided() -> ops.Expr:
    """A quote with both sides that neither cross nor lock; a side that is missing lies at
    NO_PRICE, above every price."""
    bid, ask = ops.Field(EVENT, "a"), ops.Field(EVENT, "b")
    there = ops.Binary("ilt", ask, ops.i64(NO_PRICE))
    return ops.Binary("and", ops.Binary("ilt", bid, ask), there)
