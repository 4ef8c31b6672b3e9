"""What the model is made of: its settings, an order, the book of one instrument."""

from dataclasses import dataclass, field
from typing import Any

NONE, FAULT, NEVER = 1 << 53, -(1 << 53), 1 << 62
KEPT_ENTRIES = 8  # further entries join the newest, at its price


@dataclass
class Config:
    """As engine.Config."""

    cash: int = 10**11
    fee_rate: float = 0.0
    maker_rate: float = 0.0
    fee_per_lot: float = 0.0
    fee_per_order: int = 0
    fee_min: int = 0
    slip_ticks: float = 0.0
    slip_rate: float = 0.0
    slip_impact: float = 0.0
    delay_bars: int = 0
    path: str = "conservative"
    volume_share: float = 0.0
    margin_initial: float = 1.0
    margin_maintenance: float = 0.0
    borrow_rate: float = 0.0
    cut: bool = True
    close_at_end: bool = False
    money: int = 10_000  # of one lot moving one tick
    price_min: int = 1
    price_max: int = 10**7
    lots_max: int = 10**6


@dataclass
class Order:
    """One order and what it has done so far."""

    id: int
    inst: int
    lots: int
    limit: int | None
    trigger: int | None  # stop or touch, until it is met
    stop_like: bool  # the trigger is met by a price moving the order's way
    ask: dict[str, Any]
    exit: bool = False
    opens: int = 0  # lots it may open beyond what it finds to close
    parent: int = 0
    bracket: str = ""  # profit or stop: grows with its parent's fills
    trail: int = 0
    oco: int = 0
    block: int = 0  # the atomic block it is a leg of
    from_bar: int = 0
    sent: int = 0  # when, or when its terms were changed
    asleep: bool = False
    woken: bool = False
    looked: int | None = None  # price at its last look
    filled: int = 0
    fee_due: float = 0.0
    fee_paid: int = 0
    dead: bool = False

    @property
    def may_open(self) -> int:
        return min(self.opens, abs(self.lots))

    @property
    def tif(self) -> str:
        return str(self.ask.get("tif", "gtc"))

    @property
    def tag(self) -> int:
        return int(self.ask.get("tag", 0))


@dataclass
class Book:
    """Position and market of one instrument."""

    bars: int = 0
    ts: int = 0  # close of the last bar
    bar: tuple[int, int, int, int, int] | None = None
    mark: int = 0
    room: int = 0
    entries: list[dict[str, int]] = field(default_factory=list)
    exit_ts: int = 0
    entered: int = 0
    open_ts: int = 0

    @property
    def lots(self) -> int:
        return sum(e["lots"] for e in self.entries)
