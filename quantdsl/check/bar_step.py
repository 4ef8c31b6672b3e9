"""The part of an instant in which bars are built of ticks (std/forming.qdsl)."""

from typing import TYPE_CHECKING

from quantdsl.check import tick_bars, universe
from quantdsl.check.equations import OF_THIS, STATE
from quantdsl.check.functions import BAR_PRICES
from quantdsl.check.graph import Use
from quantdsl.check.market import ENGINE, Traded
from quantdsl.check.tick_bars import Built
from quantdsl.ir import ops

if TYPE_CHECKING:
    from quantdsl.check.strategy import Strategy

EVENT = ops.Var("ev")
TICKED = ops.Field(STATE, "ticked")
OWN_TICKED = ops.Field(OF_THIS, universe.TICKED)
FORMING = ops.StructType("forming.Forming")


class BarStep:
    """Builds it for one strategy: a bar that forms for each instrument and each clock of bars."""

    def __init__(self, strategy: "Strategy") -> None:
        self.strategy = strategy
        self.places: dict[tuple[int, int], ops.Field] = {}  # instrument, clock -> Forming
        self.limits: dict[tuple[int, int], ops.Field] = {}  # what completes a bar
        self.at_start_of_each: list[ops.Stmt] = []  # of a universe: names THIS
        for built in strategy.built:
            for traded in strategy.instruments:
                self._hold(traded, built)

    def _hold(self, traded: Traded, built: Built) -> None:
        key, equations = (traded.index, built.clock), self.strategy.equations
        panel = self.strategy.universe is not None
        self.places[key] = equations.field("f", FORMING, panel=panel)
        if built.kind != tick_bars.TIME:
            self.limits[key] = equations.field("k", ops.I64_T, panel=panel)
            most = ops.Assign(self.limits[key], tick_bars.limit(self.strategy, traded, built))
            (self.at_start_of_each if panel else equations.at_start).append(most)

    def add(
        self, instrument: int, event: str, words: dict[str, ops.Expr], uses: set[Use]
    ) -> list[ops.Stmt]:
        """Take a tick into the bars of its event; `words` are what it says (ticks.*_WORDS)."""
        stmts: list[ops.Stmt] = []
        for built in self.strategy.built:
            if built.event != event:
                continue
            key = (instrument, built.clock)
            of_trade = built.price == "trade"
            price = words["price" if of_trade else built.price]
            lots = words["lots"] if of_trade else ops.i64(0)
            stmts.append(self._do("add", key, price, lots))
            if built.kind == tick_bars.MONEY:
                traded = self.strategy.instruments[instrument]
                of = ops.Elem(ops.Field(ENGINE, "instruments"), traded.ir)
                money = ops.Field(of, "money_per_tick_lot")
                # An inverse contract is one of so much money, whatever its price.
                fixed = ops.Binary("fdiv", ops.Field(of, "tick_den"), ops.Field(of, "tick_num"))
                paid = ops.Unary("i64_to_f64", price)
                ticks = ops.Select(ops.Field(of, "inverse"), fixed, paid)
                stmts.append(self._do("turn_over", key, ticks, lots, money))
            if built.kind != tick_bars.TIME:
                stmts.append(ops.If(self._complete(key, built), tuple(self._close(key, uses))))
        return stmts

    def _do(self, name: str, key: tuple[int, int], *args: ops.Expr) -> ops.Stmt:
        return ops.Do(ops.Call(self.strategy.core(f"forming.{name}"), (self.places[key], *args)))

    def _complete(self, key: tuple[int, int], built: Built) -> ops.Expr:
        place, most = self.places[key], self.limits[key]
        if built.kind == tick_bars.MONEY:
            return ops.Binary("fge", ops.Field(place, "amount"), ops.Unary("i64_to_f64", most))
        word = "count" if built.kind == tick_bars.TICKS else "volume"
        return ops.Binary("ige", ops.Field(place, word), most)

    def _close(self, key: tuple[int, int], uses: set[Use]) -> list[ops.Stmt]:
        """The bar is complete: its words, as far as they are read, and a tick of its clock."""
        stmts: list[ops.Stmt] = []
        forming, place = self.places[key], self.strategy.bars.get(key)
        if place is not None:
            now = ops.Field(ENGINE, "now")
            stmts += [
                ops.Assign(ops.Field(place, name), ops.Field(forming, name))
                for name in (*BAR_PRICES, "volume")
                if not uses.isdisjoint({(place.name, name), (place.name, "")})
            ]
            if not uses.isdisjoint({(place.name, "ts"), (place.name, "")}):
                stmts.append(ops.Assign(ops.Field(place, "ts"), now))
        stmts += ticks(self.strategy, *key)
        stmts.append(ops.Assign(ops.Field(forming, "count"), ops.i64(0)))
        return stmts

    def closes(self, uses: set[Use]) -> tuple[ops.Stmt, ...]:
        """An event says that the bars of a clock close: those in which there is a tick."""
        stmts: list[ops.Stmt] = []
        for key, place in self.places.items():
            named = ops.Binary("ieq", ops.Field(EVENT, "a"), ops.i64(key[1]))
            begun = ops.Binary("igt", ops.Field(place, "count"), ops.i64(0))
            close = tuple(self._close(key, uses))
            if self.strategy.universe is None:
                stmts.append(ops.If(ops.Binary("and", named, begun), close))
            else:
                each = self.strategy.loop((ops.If(begun, close),))
                stmts.append(ops.If(named, (each,)))
        return tuple(stmts)


def ticks(strategy: "Strategy", instrument: int, clock: int) -> list[ops.Stmt]:
    """A clock of an instrument ticks at this instant; on a universe that is THIS."""
    bit = ops.i64(1 << (clock if strategy.universe else strategy.clock_bit(instrument, clock)))
    marks = [TICKED] if strategy.universe is None else [TICKED, OWN_TICKED]
    return [ops.Assign(mark, ops.Binary("ior", mark, bit)) for mark in marks]
