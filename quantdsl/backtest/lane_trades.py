"""The bootstrap of trades on a device: a lane is a resample, a turn is one drawn trade.

A lane makes the draws of report/statistics_trades.py, so that both leave the same bits.
"""

import numpy as np

from quantdsl.backtest.lane_program import program, run_lanes, state
from quantdsl.devices.work import Runner
from quantdsl.ir.ops import (
    F64_T,
    I64_T,
    Assign,
    Binary,
    Elem,
    Expr,
    FieldDecl,
    Let,
    Module,
    Stmt,
    Unary,
    Var,
    f64,
    i64,
)
from quantdsl.report.result import Float64s
from quantdsl.report.statistics_trades import GOLDEN, LAST_SHIFT, MIX, Redraw

FOUND = ("level", "lowest")
FIELDS = (
    *(FieldDecl(name, I64_T) for name in ("state", "trades")),
    *(FieldDecl(name, F64_T) for name in ("high", *FOUND)),
)


def redraw_on(runner: Runner) -> Redraw:
    """`redrawn_here` on a device."""

    def redraw(growth: Float64s, n_resamples: int, seed: int) -> Float64s:
        # The generator's state before a resample: its number is known, so no lane waits.
        before = np.arange(n_resamples, dtype=np.uint64) * np.uint64(len(growth))
        points = {
            "state": (np.uint64(seed) + before * np.uint64(GOLDEN)).view(np.int64),
            "trades": np.full(n_resamples, len(growth)),
        }
        columns = np.ascontiguousarray(growth)[:, None].view(np.int64)
        found = run_lanes(runner, trades_module(), points, FOUND, columns)
        return np.stack([found[name].view(np.float64) - 1.0 for name in FOUND])

    return redraw


def trades_module() -> Module:
    """`init` and `lane` of a resample."""
    started = tuple(Assign(state(name), f64(1.0)) for name in ("high", *FOUND))
    z: Expr = state("state")
    turn: list[Stmt] = [Assign(state("state"), Binary("iadd", z, i64(_signed(GOLDEN))))]
    for step, (shift, factor) in enumerate(MIX):
        mixed = Binary("ixor", z, Binary("lshr", z, i64(shift)))
        turn.append(Let(f"z.{step}", I64_T, Binary("imul", mixed, i64(_signed(factor)))))
        z = Var(f"z.{step}")
    turn.append(Let("z", I64_T, Binary("ixor", z, Binary("lshr", z, i64(LAST_SHIFT)))))
    upper = Binary("lshr", Var("z"), i64(32))
    place = Binary("lshr", Binary("imul", upper, state("trades")), i64(32))
    growth = Unary("from_bits", Elem(Var("columns"), place))
    under = Binary("fdiv", state("level"), state("high"))
    turn += [
        Assign(state("level"), Binary("fmul", state("level"), growth)),
        Assign(state("high"), Binary("fmax", state("high"), state("level"))),
        Assign(state("lowest"), Binary("fmin", state("lowest"), under)),
    ]
    return program(FIELDS, started, tuple(turn))


def _signed(word: int) -> int:
    """The i64 with the bits of an unsigned word."""
    return word - (1 << 64) if word >> 63 else word
