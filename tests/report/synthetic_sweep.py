"""A finished sweep made by hand: returns of every point drawn, sums and metrics made of them."""

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from quantdsl.events.layout import Kind
from quantdsl.report.result import RunResult
from quantdsl.report.sweep_result import Axis, SweepResult
from quantdsl.report.sweep_walk import WalkForward, step_of, stitched
from tests.report.synthetic import CASH, OPENING, record, synthetic_run

DAY_NS = 86_400_000_000_000
N_BLOCKS, DAYS_A_BLOCK, SAMPLES_A_YEAR = 16, 20, 252.0


def numbers(name: str, values: Sequence[float]) -> Axis:
    return Axis(
        name=name,
        levels=tuple(f"{value:g}" for value in values),
        numbers=np.array(values, np.float64),
    )


def words(name: str, *choices: str) -> Axis:
    places = np.arange(len(choices), dtype=np.float64)
    return Axis(name=name, levels=choices, numbers=places, is_number=False)


def grid(axes: Sequence[Axis]) -> np.ndarray:
    """Levels of every point, the last axis fastest."""
    places = itertools.product(*(range(len(axis.levels)) for axis in axes))
    return np.array(list(places), np.int32).reshape(-1, len(axes)).T


def block_sums(returns: np.ndarray) -> np.ndarray:
    """[3, N_BLOCKS, n_points] of returns [n_days, n_points]."""
    parts = returns.reshape(N_BLOCKS, -1, returns.shape[1])
    count = np.full((N_BLOCKS, returns.shape[1]), float(parts.shape[1]))
    return np.stack([count, parts.sum(axis=1), (parts**2).sum(axis=1)])


def returns_of(levels: np.ndarray, axes: Sequence[Axis], seed: int, edge: float) -> np.ndarray:
    """Noise that neighbours share in part, and an edge that falls off from the grid's middle."""
    rng = np.random.default_rng(seed)
    n_days, n_points = N_BLOCKS * DAYS_A_BLOCK, levels.shape[1]
    own = rng.normal(0.0, 0.008, (n_days, n_points))
    shared = rng.normal(0.0, 0.006, (n_days, 1))
    away = np.zeros(n_points)
    for place, axis in zip(levels, axes, strict=True):
        away += (place / max(1, len(axis.levels) - 1) - 0.5) ** 2
    return own + shared + edge * np.exp(-6.0 * away)


def run_of(returns: np.ndarray) -> RunResult:
    """A run with these returns of days, and trades that have nothing to do with them."""
    run = synthetic_run(15)
    levels = np.rint(CASH * np.cumprod(1.0 + returns)).astype(np.int64)
    days = [
        record(Kind.DAY, OPENING + day * DAY_NS, level) for day, level in enumerate(levels.tolist())
    ]
    others = run.records[run.records["kind"] != Kind.DAY]
    return replace(
        run,
        records=np.concatenate([others, *days]),
        accumulators={
            **run.accumulators,
            "equity_last": int(levels[-1]),
            "ret_n": len(returns),
            "ret_origin": 0.0,
            "ret_sum": float(returns.sum()),
            "ret_sq": float((returns**2).sum()),
        },
        benchmark=None,
    )


def synthetic_sweep(
    axes: Sequence[Axis] | None = None, seed: int = 5, edge: float = 0.0, **changes: object
) -> SweepResult:
    """A sweep of two averages unless `axes` are given; `changes` replace fields of the result."""
    axes = axes or (numbers("fast", range(5, 55, 5)), numbers("slow", range(20, 220, 20)))
    levels = grid(axes)
    returns = returns_of(levels, axes, seed, edge)
    level = np.cumprod(1.0 + returns, axis=0)
    high = np.maximum(np.maximum.accumulate(level), 1.0)
    deviation = returns.std(axis=0, ddof=1)
    columns = {
        "sharpe": returns.mean(axis=0) / deviation * np.sqrt(SAMPLES_A_YEAR),
        "total_return": level[-1] - 1.0,
        "annual_return": level[-1] ** (SAMPLES_A_YEAR / len(returns)) - 1.0,
        "max_drawdown": (level / high - 1.0).min(axis=0),
        "volatility": deviation * np.sqrt(SAMPLES_A_YEAR),
        "trades": np.full(len(deviation), 42.0),
        "win_rate": np.full(len(deviation), 0.5),
        "profit_factor": np.full(len(deviation), 1.2),
    }
    fields: dict[str, object] = {
        "strategy": "SmaCross",
        "source_path": "strategies/sma_cross.qdsl",
        "source_text": "language 1\n",
        "version": "0.1.0",
        "data_name": "synthetic market, seed 7",
        "data_sha256": "0" * 64,
        "instruments": ("TEST",),
        "currency": "USD",
        "periods_per_year": SAMPLES_A_YEAR,
        "axes": tuple(axes),
        "fixed": {"risk": "1%"},
        "levels": levels,
        "table": pa.table({**columns, "point": np.arange(levels.shape[1])}),
        "blocks": block_sums(returns),
        "trials": levels.shape[1],
        "planned": levels.shape[1],
        "objective": "sharpe",
        "start_ns": 1_704_205_800_000_000_000,
        "end_ns": 1_735_741_800_000_000_000,
        "bars": 24_960,
        "moment": "bar",
        "device": "cpu",
        "rerun": "quantdsl backtest strategies/sma_cross.qdsl --data 'my bars.csv'",
        "best": run_of(returns[:, columns["sharpe"].argmax()]),
    }
    return SweepResult(**{**fields, **changes})


def synthetic_walk(n_windows: int = 4) -> WalkForward:
    """A walk-forward of drawn returns, of two params."""
    steps = []
    for number in range(n_windows):
        rng = np.random.default_rng(number)
        runs = [run_of(rng.normal(mean, 0.01, 60)) for mean in (0.005, 0.001)]
        outside = runs[1]
        days = outside.of_kind(Kind.DAY)
        ts = days["ts_event"] + number * 60 * DAY_NS
        runs[1] = replace(
            outside, curve_ts=days["ts_event"].copy(), curve_equity=days["a"].copy(), plots=()
        )
        params = {"fast": str(number), "slow": "20"}
        step = step_of(params, *runs, OPENING - DAY_NS, OPENING - DAY_NS, OPENING + 60 * DAY_NS)
        steps.append(replace(step, curve_ts=ts))
    metrics, curve_ts, level = stitched(steps, runs[1])
    return WalkForward(
        train="1 year",
        test="6 months",
        steady=False,
        objective="sharpe",
        currency="USD",
        cash=100_000.0,
        trials=100,
        steps=tuple(steps),
        metrics=metrics,
        curve_ts=curve_ts,
        level=level,
    )
