"""What the committed records of one strategy say, in units for people: orders, fills, positions."""

import math
from collections.abc import Mapping, Set

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from quantdsl.data.instrument import Instrument, show_fraction
from quantdsl.events.layout import Command, KilledBy, Kind
from quantdsl.live.view import FillRow, Level, Side, WorkingOrder
from quantdsl.report.words import broken, plural

NONE = 1 << 53
"""A price that is none, as the core has it."""
CHANGED = 1
LATCHED = {"house loss": "daily_loss", "house drawdown": "drawdown"}
"""The key of the limit of the house that halts for this reason."""

Records = npt.NDArray[np.void]


def _told(command: Command, by: KilledBy, killed: KilledBy) -> tuple[Level, str]:
    """A command that was carried out, in words; `killed` is the kill switch after it."""
    if by == KilledBy.SESSION:
        if command == Command.KILL:
            return "info", "orders are held: the session ends or catches up"
        if killed:  # a person or a limit did so before, and the session's own end undoes neither
            return "warning", "it stays halted: no order passes until it is armed again"
        return "info", "orders pass"
    if command == Command.FLATTEN and KilledBy.SESSION in killed:
        return "error", "no position is closed: the session ends or catches up"
    words = {
        Command.KILL: "halted: all orders are cancelled, none passes until it is armed again",
        Command.REDUCE: "only orders that reduce a position pass from here on",
        Command.CANCEL: "all working orders are cancelled",
        Command.FLATTEN: "all orders are cancelled, and one is sent that closes each position",
        Command.ARM: "armed again: orders pass",
    }
    return "warning", words[command]


class Holding(Struct):
    """A position at its average price."""

    lots: int = 0
    ticks: float = 0.0
    """Average of entry."""
    realised: float = 0.0


class Ledger(Struct):
    """Reads records in their order; `fills` and `said` are what has come since they were taken."""

    strategy: str
    instruments: tuple[Instrument, ...]
    money_digits: int
    reasons: Mapping[int, str]
    holdings: list[Holding] = field(default_factory=list)
    working: dict[int, WorkingOrder] = field(default_factory=dict)
    fills: list[FillRow] = field(default_factory=list)
    said: list[tuple[int, Level, str]] = field(default_factory=list)
    orders: int = 0
    rejected: int = 0
    filled: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    entered_lots: int = 0
    """Signed, of the newest order that has a size."""
    broken: str = ""
    """The limit of the house that was broken last and halted the strategy."""
    missing: set[int] = field(default_factory=set)
    """Orders of `working` that the core did not have when it was looked at last."""

    def __post_init__(self) -> None:
        self.holdings = [Holding() for _ in self.instruments]

    def standing(self, *, kept: bool) -> str:
        """What a session that goes on finds: positions, and whether their orders were `kept`."""
        held = [
            f"{'+' if one.lots > 0 else ''}{show_fraction(one.lots * own.lot)} {own.symbol}"
            for one, own in zip(self.holdings, self.instruments, strict=True)
            if one.lots
        ]
        works = len(self.working)
        told = [f"holds {', '.join(held)}"] if held else []
        if works:
            told.append(f"{plural(works, 'working order')} {'kept' if kept else 'cancelled'}")
        if held and not (works and kept):
            told.append("no order guards what is held until the strategy places one")
        return "; ".join(told)

    def keep(self, known: Set[int]) -> None:
        """Leave out working orders that the core, which is ahead of its records, has no more.

        A record of new terms may be written after the venue has filled the order by the old ones;
        then no record says that it is over. `known` was read while the engine wrote: what is
        missing in it twice is gone.
        """
        missing = self.working.keys() - known
        for number in missing & self.missing:
            del self.working[number]
        self.missing = missing

    def read(self, records: Records) -> None:
        """The next records."""
        for one in records.tolist():
            ts, _, index, kind, side, flags, a, b, c, d = one[:10]
            if kind == Kind.ORDER:
                self._ordered(ts, index, flags, a, b, c, d)
            elif kind == Kind.FILL:
                self._filled(ts, index, flags, a, b, c, d)
            elif kind == Kind.CANCEL:
                self.working.pop(a, None)
            elif kind == Kind.REJECT:
                self.orders += 1
                self.rejected += 1
                why = self.reasons.get(flags, f"reason {flags}")
                self.refused[why] = self.refused.get(why, 0) + 1
                if self.refused[why] == 1:
                    self.said.append((ts, "warning", f"an order was refused: {why}"))
            elif kind == Kind.RISK:
                why = self.reasons.get(a, f"reason {a}")
                self.broken = LATCHED.get(why, self.broken)
                said = broken(why, b, c, self.instruments[index], self.money_digits)
                self.said.append((ts, "error", f"a limit was broken: {said}"))
            elif kind == Kind.COMMAND:
                self.said.append((ts, *_told(Command(side), KilledBy(a), KilledBy(b))))

    def _ordered(self, ts: int, index: int, flags: int, a: int, b: int, c: int, d: int) -> None:
        one = self.instruments[index]
        price = c if c < NONE else (d if abs(d) < NONE else None)
        kind = "market" if price is None else ("limit" if c < NONE else "stop")
        before = self.working.get(a)
        if b:
            self.entered_lots = b
        else:  # its size is that of the position it guards, which the order before it enters
            kind = f"{kind} exit"
        side: Side = "buy" if (b or -self.entered_lots) > 0 else "sell"
        self.orders += not flags & CHANGED
        self.working[a] = WorkingOrder(
            id=a,
            strategy=self.strategy,
            symbol=one.symbol,
            side=before.side if before and not b else side,
            type=kind,
            quantity=abs(b) * float(one.lot),
            filled=before.filled if before else 0.0,
            price=None if price is None else price * float(one.tick),
            ts=ts,
        )

    def _filled(self, ts: int, index: int, flags: int, a: int, b: int, c: int, d: int) -> None:
        one, held = self.instruments[index], self.holdings[index]
        value = float(one.tick_value)
        fee = d / 10.0**self.money_digits
        closing = min(abs(b), abs(held.lots)) if b * held.lots < 0 else 0
        profit = math.copysign(closing, held.lots) * (c - held.ticks) * value
        after = held.lots + b
        if closing < abs(b):  # it opens or adds
            kept = held.lots if b * held.lots > 0 else 0
            held.ticks = (kept * held.ticks + (after - kept) * c) / after
        held.lots, held.realised = after, held.realised + profit - fee
        self.filled += 1
        self.fills.append(
            FillRow(
                seq=self.filled,
                ts=ts,
                strategy=self.strategy,
                symbol=one.symbol,
                side="buy" if b > 0 else "sell",
                quantity=abs(b) * float(one.lot),
                price=c * float(one.tick),
                fee=fee,
                profit=profit - fee if closing else 0.0,
                order=a,
                maker=flags != 0,
            )
        )
        side = "bought" if b > 0 else "sold"
        self.said.append(
            (
                ts,
                "info",
                f"{side} {show_fraction(abs(b) * one.lot)} {one.symbol} at "
                f"{show_fraction(c * one.tick)}",
            )
        )
        self._reduce(a, abs(b) * float(one.lot), float(one.lot))

    def _reduce(self, number: int, quantity: float, lot: float) -> None:
        order = self.working.get(number)
        if order is None:
            return
        filled = order.filled + quantity
        if filled >= order.quantity - lot / 2:
            del self.working[number]
            return
        self.working[number] = WorkingOrder(
            id=order.id, strategy=order.strategy, symbol=order.symbol, side=order.side,
            type=order.type, quantity=order.quantity, filled=filled, price=order.price, ts=order.ts,
        )  # fmt: skip
