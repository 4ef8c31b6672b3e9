"""A made-up market for tapes: seeded, one symbol, whole ticks and lots, never crossed.

Every step is one message of a venue: changes of levels as they then are (0 lots: the level is
gone, also one that was not there), and at times a trade.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    at_ns: int
    changes: list[tuple[int, int, int]]
    """(side: 0 bids, 1 asks; price in ticks; lots now there)."""
    trade: tuple[int, int, bool] | None
    """(price in ticks, lots, the seller took)."""


@dataclass
class Market:
    """`start` levels a side first, then steps; equal seeds make equal markets."""

    seed: int
    mid: int = 100_000
    start: int = 40
    start_ns: int = 1_700_000_000_000_000_000
    step_ns: int = 10_000_000
    bids: dict[int, int] = field(default_factory=dict)
    asks: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        for place in range(1, self.start + 1):
            self.bids[self.mid - place] = self._rng.randint(1, 5_000)
            self.asks[self.mid + place] = self._rng.randint(1, 5_000)

    def steps(self, count: int) -> Iterator[Step]:
        """The market's state is that after the step that was given last."""
        rng = self._rng
        for number in range(count):
            changes = [self._change() for _ in range(rng.randint(1, 6))]
            trade = None
            if rng.random() < 0.2:
                sells = rng.random() < 0.5
                price = max(self.bids) if sells else min(self.asks)
                trade = (price, rng.randint(1, 500), sells)
            yield Step(self.start_ns + number * self.step_ns, changes, trade)

    def _change(self) -> tuple[int, int, int]:
        rng = self._rng
        side = rng.randrange(2)
        ours, others = (self.asks, self.bids) if side else (self.bids, self.asks)
        sign = 1 if side else -1
        far = min(others) if sign < 0 else max(others)
        lots = 0 if rng.random() < 0.4 else rng.randint(1, 5_000)
        price = far + sign * rng.randint(1, self.start)
        if lots:
            ours[price] = lots
        elif len(ours) > 5:
            ours.pop(price, None)
        else:
            lots = ours.setdefault(price, 1)
        return side, price, lots
