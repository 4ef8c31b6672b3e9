"""What a stride asks of a row as a change: of how numbers compared in the last row, or at first.

A crossing is that x > y has become so. Whether any row has one is asked as: does x > y hold now
where it did not when the stride began, or the other way round?
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from quantdsl.ir.ops import Assign, Binary, Expr, Stmt, Unary, Var
from quantdsl.passes.straight import all_of, alternatives, either, requirements

Block = tuple[Stmt, ...]
BECOMES = frozenset({("fgt", "fle"), ("flt", "fge")})


def loosened(
    cond: Expr,
    last: Mapping[str, str],
    begun: Callable[[Binary, Sequence[Expr]], Expr],
    beside: Sequence[Expr] = (),
) -> Expr:
    """A condition that holds for a row of a stride where the given one does, and rarely besides.

    What is denied of one alternative, as `elif` does it of all before, need not be asked of it.
    That x > y has become so since the last row is asked as: has x > y changed? `last` tells the
    names of what a local was in the last row, `begun` what a comparison of those is, if these
    others are asked too; `beside` is asked besides all of it.
    """
    alts = list(alternatives(cond))
    if len(alts) > 1:
        kept = (
            all_of([x for x in requirements(alt) if not (isinstance(x, Unary) and x.x in alts)])
            for alt in alts
        )
        return either(loosened(alt, last, begun, beside) for alt in kept)
    parts = list(requirements(cond))
    if len(parts) > 1:
        parts = [
            loosened(part, last, begun, (*beside, *parts[:k], *parts[k + 1 :]))
            for k, part in enumerate(parts)
        ]
    for now in parts:
        for part in parts:
            if _has_become(now, part, last):
                assert isinstance(now, Binary)
                assert isinstance(part, Binary)
                rest = [one for one in parts if one is not now and one is not part]
                before = begun(Binary(now.op, part.x, part.y), (*beside, *rest))
                return all_of([*rest, Binary("xor", now, before)])
    return cond


def _has_become(now: Expr, part: Expr, last: Mapping[str, str]) -> bool:
    """Whether x > y is asked, or x < y, and that it was not so in the last row."""
    match now, part:
        case Binary(op, Var(x), Var(y)), Binary(was, Var(u), Var(v)):
            return (op, was) in BECOMES and (last.get(u), last.get(v)) == (x, y)
    return False


class Change(NamedTuple):
    """What is asked of a row: whether a comparison is another than where the stride began."""

    begun: Var
    now: Binary


def changes(alts: Iterable[Expr], op: str) -> list[Change]:
    """The alternatives of that kind."""
    return [
        Change(begun, now)
        for alt in alts
        if isinstance(alt, Binary) and alt.op == "xor"
        for now, begun in ((alt.x, alt.y),)
        if isinstance(now, Binary) and now.op == op and isinstance(begun, Var)
    ]


class Kept(NamedTuple):
    """What a turn copies from a word that the turn before gave the value of a local."""

    word: str
    of: str


def in_last_row(body: Block) -> dict[str, Kept]:
    """What of the last row each word of a turn holds."""
    copied = {
        stmt.place.name: stmt.value.name
        for stmt in body
        if isinstance(stmt, Assign) and isinstance(stmt.place, Var) and isinstance(stmt.value, Var)
    }
    return {name: Kept(word, copied[word]) for name, word in copied.items() if word in copied}
