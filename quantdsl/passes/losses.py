"""Limits on losses as bounds of what an account is worth, one question for a whole stride.

A loss is beyond its limit where the account is worth less than what it was before, less the limit.
A limit of `2% of equity` is another one in each turn, and takes a division there. But it grows with
the account: while that is worth no less than some number, the limit is no less than there. So a
stride asks whether the account comes below the bound that follows, which is computed once. It may
come below it where the exact limit is kept: then the stride is made again, a turn at a time.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from typing import NamedTuple, TypeGuard

from quantdsl.ir.ops import (
    I64_T,
    Assign,
    Binary,
    Break,
    Const,
    Expr,
    If,
    Let,
    Select,
    Stmt,
    Unary,
    Var,
    f64,
    i64,
)
from quantdsl.ir.walk import statements
from quantdsl.passes.scopes import assigned_names, reads_of_names
from quantdsl.passes.straight import alternatives, either, is_rare, only_breaks

Block = tuple[Stmt, ...]
EXACT_BITS = 53
"""Whole numbers of so many bits are exact as floats."""
EXACT = 1 << EXACT_BITS
SHARE_MAX = f64(0.999)
"""A larger share of an amount may be beyond EXACT where the amount is not."""
SCALE_MAX = f64(2.0**512)
"""What an amount may be divided by, and multiplied with again, with nothing lost to the range."""
LESS = f64(1.0 - 2.0**-50)
"""What is a little less than 1, by more than five operations can round."""
MOST = "most@"


class Share(NamedTuple):
    """A limit that is a share of an amount: `share` times what `scale` units of it are, rounded."""

    amount: str
    share: Expr
    scale: Expr
    value: Expr


class Bounded(NamedTuple):
    """Turns whose losses are asked as bounds."""

    body: Block
    before: Block
    """What is computed before the first stride of several."""
    ready: tuple[Expr, ...]
    """What must hold then."""
    shares: Mapping[str, Share]
    """The limits that are to be computed behind the last one."""


def bounded_losses(
    body: Block,
    firm: Set[str],
    uniform: Callable[[Expr], bool],
    steady: Callable[[Expr], bool],
) -> Bounded | None:
    """The turns of `body` so; None where they ask for no loss, or what they ask stands otherwise.

    What is `firm` changes in most turns, and nothing else in a stride. `uniform` tells what the
    words of a row decide, `steady` what is the same in all turns.
    """
    made = _Losses(body, firm, uniform, steady)
    return made.bounded() if made.losses else None


class _Losses:
    def __init__(
        self,
        body: Block,
        firm: Set[str],
        uniform: Callable[[Expr], bool],
        steady: Callable[[Expr], bool],
    ) -> None:
        self.body, self.firm, self.uniform, self.steady = body, firm, uniform, steady
        given = Counter(
            stmt.place.name
            for stmt in statements(body)
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var)
        )
        last = {name: k for k, stmt in enumerate(body) for name in assigned_names((stmt,))}
        self.losses = {
            stmt.name: (stmt.value.x, stmt.value.y)
            for k, stmt in enumerate(body)
            if isinstance(stmt, Let)
            and isinstance(stmt.value, Binary)
            and stmt.value.op == "isub"
            and isinstance(stmt.value.x, Var)
            and isinstance(stmt.value.y, Var)
            and last.get(stmt.value.y.name, -1) < k
        }
        """Locals that are what something has fallen by: from what, and the thing."""
        shares = {
            stmt.place.name: share
            for stmt in body
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var)
            if (share := share_of(stmt.value)) is not None
        }
        self.shares = {
            name: share
            for name, share in shares.items()
            if given[name] == 1 and steady(share.share) and steady(share.scale)
        }
        """Words that each turn makes such a limit."""
        self.once = {name for name, count in given.items() if count == 1}
        self.followed: dict[str, Var] = {}
        """Those that are asked as bounds, and what the loss is of."""

    def bounded(self) -> Bounded | None:
        asked = tuple(map(self.asked, self.body))
        made = {Var(name) for name in self.followed}
        body = tuple(s for s in asked if not (isinstance(s, Assign) and s.place in made))
        reads = reads_of_names(body)
        if asked == self.body or any(reads[limit] for limit in self.followed):
            return None
        body = tuple(s for s in body if not self.is_loss(s) or reads[s.name])
        followed = self.followed.items()
        before = [stmt for limit, day in followed for stmt in self.bound(limit, day)]
        ready = [cond for limit, day in followed for cond in self.holds(limit, day)]
        most = [Let(MOST, I64_T, i64(EXACT - 1))] if before else []
        shares = {limit: self.shares[limit] for limit in self.followed}
        return Bounded(body, (*most, *before), tuple(ready), shares)

    def is_loss(self, stmt: Stmt) -> TypeGuard[Let]:
        return isinstance(stmt, Let) and stmt.name in self.losses

    def asked(self, stmt: Stmt) -> Stmt:
        """A branch by losses as one that breaks by bounds: a stride stops before either."""
        if not isinstance(stmt, If) or not (only_breaks(stmt) or is_rare(stmt)):
            return stmt
        conds = list(alternatives(stmt.cond))
        asked = [one for cond in conds for one in self.bounds(cond)]
        return stmt if asked == conds else If(either(asked), (Break(),), (), stmt.line)

    def bounds(self, cond: Expr) -> Iterator[Expr]:
        """A condition, of a loss as those of its amount that hold where it does."""
        match cond:
            case Binary("igt", Var(name), limit) if name in self.losses:
                day, amount = self.losses[name]
                share = self.shares.get(limit.name) if isinstance(limit, Var) else None
                if isinstance(limit, Var) and share is not None:
                    follows = share.amount == amount.name in self.once and self.steady(day)
                    if follows or (share.amount == day.name and day.name not in self.firm):
                        self.followed[limit.name] = day
                        yield Binary("ilt", amount, Var(_floor(limit.name)))
                        if follows:
                            yield Binary("igt", amount, Var(MOST))
                        return
                elif day.name not in self.firm and self.lasts(limit):
                    yield Binary("ilt", amount, Binary("isub", day, limit))
                    return
        yield cond

    def lasts(self, limit: Expr) -> bool:
        """Whether a limit is one of a row, or the same in all turns."""
        return self.uniform(limit) or (isinstance(limit, Var) and self.steady(limit))

    def bound(self, limit: str, day: Var) -> Iterator[Stmt]:
        """The least that an amount may be worth.

        A limit that is a share of what the loss is of stays as it is now. One of the amount itself
        is no less than where that has lost as much as it may now: there a little less than the
        share is less than the limit, however the limit was rounded.
        """
        share, there, least = self.shares[limit], Var(f"there.{limit}"), Var(f"least.{limit}")
        if share.amount == day.name:
            smaller = Binary("imin", Var(limit), share.value)
            yield Let(_floor(limit), I64_T, Binary("isub", day, smaller))
            return
        yield Let(least.name, I64_T, Binary("isub", day, Var(limit)))
        part = Binary("fmul", Unary("i64_to_f64", least), share.share)
        whole = Unary("f64_to_i64", Unary("floor", Binary("fmul", part, LESS)))
        yield Let(there.name, I64_T, Binary("isub", whole, i64(1)))
        yield Let(_floor(limit), I64_T, Binary("imax", least, Binary("isub", day, there)))

    def holds(self, limit: str, day: Var) -> Iterator[Expr]:
        """That a limit grows with its amount from there on, and is no less now."""
        share, there = self.shares[limit], Var(f"there.{limit}")
        yield exact(day)
        if share.amount == day.name:
            return
        yield from map(exact, (Var(limit), Var(f"least.{limit}")))
        yield Binary("ige", Var(f"least.{limit}"), i64(0))
        yield Binary("ige", Var(limit), there)
        yield Binary("flt", f64(0.0), share.share)
        yield Binary("fle", share.share, SHARE_MAX)
        yield Binary("fle", f64(1.0), share.scale)
        yield Binary("fle", share.scale, SCALE_MAX)


def share_of(value: Expr) -> Share | None:
    """What the checker makes of `2% of equity`, taken apart: a number out of range is none."""
    match value:
        case Select(
            Binary("flt", Unary("fabs", rounded), limit),
            Unary("f64_to_i64", Unary("rint", Binary("fmul", part, scale)) as same),
            Const(),
        ) if rounded == same and limit == f64(float(EXACT)):
            match part:
                case Binary("fmul", share, Binary("fdiv", Unary("i64_to_f64", Var(amount)), by)):
                    pass
                case Binary("fmul", Binary("fdiv", Unary("i64_to_f64", Var(amount)), by), share):
                    pass
                case _:
                    return None
            if by == scale:
                return Share(amount, share, scale, value)
    return None


def beyond(value: Expr) -> Expr:
    """0 for a whole number that is exact as a float."""
    lifted = Binary("iadd", value, i64(EXACT))
    return Binary("lshr", lifted, i64(EXACT_BITS + 1))


def exact(value: Expr) -> Expr:
    """Whether a whole number is exact as a float."""
    return Binary("ieq", beyond(value), i64(0))


def _floor(limit: str) -> str:
    return f"floor.{limit}"
