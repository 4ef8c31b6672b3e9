"""The plain book: a dict a side. What it says is what a venue's messages say."""

import math
from collections.abc import Iterator

from tests.std.book.books import CLEAR, LOSE, NONE, SET


class Plain:
    """Every level, whatever its distance; `seal` as book.seal."""

    def __init__(self) -> None:
        self.sides: tuple[dict[int, int], dict[int, int]] = ({}, {})
        self.synced = self.valid = False
        self.fresh = True
        self.ofi = 0
        self.was = ((NONE, 0), (NONE, 0))

    def apply(self, op: int, side: int, ticks: int, lots: int) -> None:
        if op == SET and lots:
            self.sides[side][ticks] = lots
        elif op == SET:
            self.sides[side].pop(ticks, None)
        elif op == CLEAR:
            self.sides = ({}, {})
            self.synced, self.fresh, self.valid = True, True, False
            self.was = ((NONE, 0), (NONE, 0))
        elif op == LOSE:
            self.synced = self.valid = False
            self.ofi = 0

    def levels(self, side: int) -> list[tuple[int, int]]:
        """(ticks, lots), best first."""
        return sorted(self.sides[side].items(), reverse=side == 0)

    def best(self, side: int) -> tuple[int, int]:
        if not self.sides[side]:
            return NONE, 0
        ticks = (max, min)[side](self.sides[side])
        return ticks, self.sides[side][ticks]

    def seal(self) -> tuple[int, ...]:
        """A message has ended: the row of books.ROW."""
        now = self.best(0), self.best(1)
        flows = [self._flow(side, self.was[side], now[side]) for side in (0, 1)]
        self.ofi = 0 if self.fresh else flows[0] - flows[1]
        self.fresh, self.was = False, now
        apart = not self.sides[0] or not self.sides[1] or now[0][0] < now[1][0]
        self.valid = self.synced and apart
        return (*now[0], *now[1], int(self.valid), self.ofi)

    @staticmethod
    def _flow(side: int, was: tuple[int, int], now: tuple[int, int]) -> int:
        """Cont, Kukanov, Stoikov 2014, e_n of one side."""
        sign = -1 if side == 0 else 1
        old = sign * was[0] if was[0] != NONE else math.inf
        new = sign * now[0] if now[0] != NONE else math.inf
        return (now[1] if new <= old else 0) - (was[1] if new >= old else 0)

    # ---- what is read; floats by the definitions, not by the order of std's operations ----

    def depth_to(self, side: int, ticks: int) -> int:
        better = (lambda p: p >= ticks) if side == 0 else (lambda p: p <= ticks)
        return sum(lots for p, lots in self.sides[side].items() if better(p))

    def imbalance(self, n: int) -> float:
        bids, asks = (sum(lots for _, lots in self.levels(side)[:n]) for side in (0, 1))
        return (bids - asks) / (bids + asks) if self.valid and bids + asks else math.nan

    def microprice(self, n: int) -> float:
        bids, asks = self.levels(0)[:n], self.levels(1)[:n]
        if not (self.valid and bids and asks):
            return math.nan
        low, high = (sum(p * q for p, q in x) / sum(q for _, q in x) for x in (bids, asks))
        thick, other = sum(q for _, q in bids), sum(q for _, q in asks)
        return (low * other + high * thick) / (thick + other)

    def vwap(self, side: int, lots: int) -> float:
        left, paid = lots, 0
        for ticks, there in self.levels(side):
            take = min(there, left)
            left, paid = left - take, paid + take * ticks
        return paid / lots if self.valid and lots > 0 and left == 0 else math.nan


def close(a: float, b: float) -> bool:
    """Equal but for rounding; na equals na."""
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-9)


def replay(rows: list[tuple[int, int, int, int]], seal: int) -> Iterator[tuple[int, ...]]:
    """The rows that a plain book seals."""
    plain = Plain()
    for op, *rest in rows:
        if op == seal:
            yield plain.seal()
        else:
            plain.apply(op, *rest)
