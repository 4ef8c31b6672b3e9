"""The splits of cross-validation on a device: a lane is a split of a share of the sweep's points.

A lane adds up its points' blocks in the order of report/statistics_splits.py, so that both leave
the same bits. It runs twice: once to find the best point of each half, once to count how many
points are below it in the other. There are but thousands of splits, too few lanes for a GPU, so
there each is many lanes, which take a run of neighbouring points each.
"""

import itertools
from collections.abc import Iterable

import numpy as np

from quantdsl.backtest.lane_program import Int64s, program, run_lanes, state
from quantdsl.devices.work import Runner
from quantdsl.ir.ops import (
    BOOL_T,
    F64_T,
    I64_T,
    Assign,
    Binary,
    Elem,
    Expr,
    FieldDecl,
    Let,
    Module,
    Select,
    Stmt,
    Unary,
    Var,
    f64,
    i64,
)
from quantdsl.report.result import Float64s
from quantdsl.report.statistics_splits import Follow, choices

HALVES = ("here", "there")
"""The chosen blocks, and the others."""
PARTS = ("count", "total", "squares")
FIELDS = (
    FieldDecl("choice", I64_T),
    FieldDecl("share", I64_T),
    *(FieldDecl(f"mark.{half}", F64_T) for half in HALVES),  # what the other half is held to
    *(FieldDecl(f"{word}.{half}", F64_T) for half in HALVES for word in ("best", "beyond")),
    *(FieldDecl(f"{word}.{half}", I64_T) for half in HALVES for word in ("below", "equal")),
)
FOUND = tuple(f"{word}.{half}" for half in HALVES for word in ("best", "beyond", "below", "equal"))


def follow_on(runner: Runner, shares: int = 1) -> Follow:
    """`followed_here` of all points on a device, the points of a split dealt to `shares` lanes."""

    def follow(blocks: Float64s) -> Float64s:
        module, columns = splits_module(blocks.shape[1], shares), _columns(blocks, shares)
        masks = choices(blocks.shape[1])

        def ran(here: Float64s, there: Float64s) -> dict[str, Int64s]:
            """The words found, [share, split], of points held to marks in each half."""
            marks = {"mark.here": here, "mark.there": there}
            points = {name: np.tile(mark.view(np.int64), shares) for name, mark in marks.items()}
            points |= {
                "choice": np.tile(masks, shares),
                "share": np.arange(shares).repeat(len(masks)),
            }
            found = run_lanes(runner, module, points, FOUND, columns)
            return {name: words.reshape(shares, -1) for name, words in found.items()}

        none = np.zeros(len(masks))
        first = ran(none, none)
        best = {half: _first_best(first, half) for half in HALVES}
        # What is best here is held to the points there, and the reverse.
        second = ran(here=best["there"][1], there=best["here"][1])
        halves = []
        for here, there in (HALVES, HALVES[::-1]):
            below, equal = (second[f"{word}.{there}"].sum(axis=0) for word in ("below", "equal"))
            rank = (below + (equal + 1) / 2) / (blocks.shape[2] + 1)
            halves.append(np.stack([*best[here], rank]))
        return np.concatenate(halves, axis=1)

    return follow


def _first_best(found: dict[str, Int64s], half: str) -> Float64s:
    """Sharpe ratio in a half and beyond it of the first point that is best there, [2, split]."""
    best, beyond = (found[f"{word}.{half}"].view(np.float64) for word in ("best", "beyond"))
    share = best.argmax(axis=0)[None]
    return np.stack([np.take_along_axis(one, share, 0)[0] for one in (best, beyond)])


def _columns(blocks: Float64s, shares: int) -> Int64s:
    """A row a turn, in it a point of each share: its blocks, part by part, then the part's sums.

    What is missing in the last share is NaN, which is neither best, below nor equal.
    """
    parts, n_blocks, n_points = blocks.shape
    turns = -(-n_points // shares)
    rows = np.full((shares * turns, parts * (n_blocks + 1)), np.nan)
    for number, part in enumerate(blocks):
        rows[:n_points, number * n_blocks : (number + 1) * n_blocks] = part.T
        rows[:n_points, parts * n_blocks + number] = part.sum(axis=0)
    dealt = rows.reshape(shares, turns, -1).swapaxes(0, 1)
    return np.ascontiguousarray(dealt).reshape(turns, -1).view(np.int64)


# ---- the program -----------------------------------------------------------------------------


def splits_module(n_blocks: int, shares: int) -> Module:
    """`init` and `lane` of a split over one of `shares` of points of `n_blocks` blocks."""
    started = tuple(Assign(state(f"best.{half}"), f64(-np.inf)) for half in HALVES)
    width = len(PARTS) * (n_blocks + 1)
    sums = (_part(part, number, n_blocks) for number, part in enumerate(PARTS))
    place: Expr = Binary("imul", Var("k"), i64(shares))
    if shares > 1:  # one share is the same for all lanes, which then read the same words
        place = Binary("iadd", place, state("share"))
    turn = (
        Let("row", I64_T, Binary("imul", place, i64(width))),
        *itertools.chain.from_iterable(sums),
        *itertools.chain.from_iterable(map(_sharpe, HALVES)),
        *_followed("here", "there"),
        *_followed("there", "here"),
    )
    return program(FIELDS, started, turn)


def _word(place: int) -> Expr:
    """A float of the point at hand."""
    return Unary("from_bits", Elem(Var("columns"), Binary("iadd", Var("row"), i64(place))))


def _part(part: str, number: int, n_blocks: int) -> Iterable[Stmt]:
    """One part summed over the chosen blocks, and over the others.

    Each half of the blocks from its last to its first, then both: the order of `unions`.
    """
    first = number * n_blocks
    half = n_blocks // 2
    sums = []
    for low in (0, half):
        total: Expr = f64(0.0)
        for block in range(low + half - 1, low - 1, -1):
            bit = Binary("iand", state("choice"), i64(1 << block))
            chosen = Select(Binary("ine", bit, i64(0)), _word(first + block), f64(0.0))
            total = Binary("fadd", total, chosen)
        sums.append(total)
    whole = _word(len(PARTS) * n_blocks + number)
    yield Let(f"{part}.here", F64_T, Binary("fadd", *sums))
    yield Let(f"{part}.there", F64_T, Binary("fsub", whole, Var(f"{part}.here")))


def _sharpe(half: str) -> Iterable[Stmt]:
    """`sharpes` of the sums of a half."""
    count, total, squares = (Var(f"{part}.{half}") for part in PARTS)
    product = Binary("fsub", Binary("fmul", count, squares), Binary("fmul", total, total))
    least = Binary("fmul", Binary("fmul", f64(1e-12), count), squares)
    yield Let(f"product.{half}", F64_T, product)
    flat = Binary("fle", Var(f"product.{half}"), least)
    yield Let(f"spread.{half}", F64_T, Select(flat, f64(np.inf), Var(f"product.{half}")))
    yield Let(f"number.{half}", F64_T, Binary("fmax", count, f64(1.0)))
    number = Var(f"number.{half}")
    scale = Binary(
        "fdiv",
        Binary("fsub", number, f64(1.0)),
        Binary("fmul", number, Var(f"spread.{half}")),
    )
    yield Let(f"sharpe.{half}", F64_T, Binary("fmul", total, Unary("sqrt", scale)))


def _followed(here: str, there: str) -> Iterable[Stmt]:
    """Keeps the best point of one half, and counts those of the half against its mark."""
    mine, other = Var(f"sharpe.{here}"), Var(f"sharpe.{there}")
    better = f"better.{here}"
    yield Let(better, BOOL_T, Binary("fgt", mine, state(f"best.{here}")))
    for word, value in (("best", mine), ("beyond", other)):
        place = state(f"{word}.{here}")
        yield Assign(place, Select(Var(better), value, place))
    for word, op in (("below", "flt"), ("equal", "feq")):
        place = state(f"{word}.{here}")
        counted = Unary("bool_to_i64", Binary(op, mine, state(f"mark.{here}")))
        yield Assign(place, Binary("iadd", place, counted))
