"""Promise: twenty equations over a universe, equal to pandas and polars at 1e-9, and faster.

The goal is 10 times pandas and 3 times polars on two cores. All begin with their own form of the
same bars in memory: wide frames, a long frame, events; the ratio that counts the way from a long
table through checks, sessions and clocks to events is noted beside it. Rounds of all of them take
turns; told are medians, of the time that passed and of the time that all threads worked.

    python -m bench.bench_signals 500 2520      # instruments, days: prints the ratios
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from quantdsl.backtest.signals import prepare_signals
from quantdsl.check import compile_file

STRATEGY = Path(__file__).parent / "signals.qdsl"
SMALL, LARGE = (20, 120), (500, 2_520)
ROUNDS = 5
TIGHT = 1e-9
RANKED = {"rankz": "z60", "rankgap": "gap"}


class Market(NamedTuple):
    """Invented bars [day, instrument], and as a long table in order of time."""

    close: np.ndarray
    high: np.ndarray
    low: np.ndarray
    table: pa.Table


def market(count: int, days: int) -> Market:
    """Walks in cents, none so low that windows stand still: there pandas is off by 1e-7."""
    random = np.random.default_rng(1)
    walk = np.cumsum(random.normal(0.0, 0.01, (days, count)), axis=0)
    close = np.round(50.0 * np.exp(walk), 2)
    high, low = np.round(close * 1.01, 2), np.round(close * 0.99, 2)
    dates = np.repeat(np.datetime64("2010-01-01") + np.arange(days), count)
    names = pa.array([f"S{n:05d}" for n in range(count)])
    symbols = names.take(pa.array(np.tile(np.arange(count), days)))
    prices = {"open": close, "high": high, "low": low, "close": close}
    columns = {name: pa.array(one.ravel()) for name, one in prices.items()}
    volume = pa.array(np.full(close.size, 1_000.0))
    table = pa.table({"date": dates, "symbol": symbols, **columns, "volume": volume})
    return Market(close, high, low, table)


def of_pandas(bars: Market) -> dict[str, np.ndarray]:
    """The twenty equations on wide frames, as one writes them."""
    close, high, low = (pd.DataFrame(one) for one in (bars.close, bars.high, bars.low))

    def smoothed(x: pd.DataFrame, weight: float, length: int, first: int = 0) -> pd.DataFrame:
        begins = first + length - 1
        x = x.copy()
        x.iloc[begins] = x.iloc[first : begins + 1].mean()
        x.iloc[:begins] = np.nan
        return x.ewm(alpha=weight, adjust=False).mean()

    ret, ret5, ret21 = (close / close.shift(k) - 1 for k in (1, 5, 21))
    mean20, mean60 = ret.rolling(20).mean(), ret.rolling(60).mean()
    std20, std60 = ret.rolling(20).std(), ret.rolling(60).std()
    z20 = (ret - mean20) / std20
    z60 = (close - close.rolling(60).mean()) / close.rolling(60).std()
    fast, slow = smoothed(close, 2 / 13, 12), smoothed(close, 2 / 27, 26)
    gap = fast / slow - 1
    moved = close.diff()
    up, down = (smoothed(x.clip(lower=0), 1 / 14, 14, 1) for x in (moved, -moved))
    rsi = 100 * up / (up + down)
    before = close.shift(1)
    reach = np.fmax(high - low, np.fmax((high - before).abs(), (low - before).abs()))
    atr = smoothed(reach, 1 / 14, 14)
    span = atr / close
    both = gap.where(span.notna()), span.where(gap.notna())
    left, right = (x.sub(x.mean(axis=1), axis=0) for x in both)
    slope = (left * right).sum(axis=1) / (right**2).sum(axis=1)
    cuts = [z20.quantile(p, axis=1) for p in (0.01, 0.99)]
    found = {
        "ret": ret, "ret5": ret5, "ret21": ret21, "mean20": mean20, "mean60": mean60,
        "std20": std20, "std60": std60, "z20": z20, "z60": z60, "fast": fast, "slow": slow,
        "gap": gap, "rsi": rsi, "atr": atr, "range": span,
        "rankz": z60.rank(axis=1, pct=True), "rankgap": gap.rank(axis=1, pct=True),
        "neutral": left - right.mul(slope, axis=0),
        "trimmed": z20.clip(cuts[0], cuts[1], axis=0),
        "score": rsi.sub(rsi.mean(axis=1), axis=0).div(rsi.std(axis=1), axis=0),
    }  # fmt: skip
    return {name: one.to_numpy() for name, one in found.items()}


def of_polars(frame: Any) -> Any:
    """The twenty equations on a long frame in order of symbol and time."""
    import polars as pl

    each, day = "symbol", "date"
    close, row = pl.col("close"), pl.int_range(pl.len()).over(each)
    moved = close.diff().over(each)
    before = close.shift(1).over(each)
    frame = frame.with_columns(
        row=row, moved=moved, before=before,
        **{f"ret{k}": (close / close.shift(k) - 1).over(each) for k in (1, 5, 21)},
    )  # fmt: skip
    ret = pl.col("ret1")
    high, low, before, moved = (pl.col(name) for name in ("high", "low", "before", "moved"))
    reach = pl.max_horizontal(high - low, (high - before).abs(), (low - before).abs())
    frame = frame.with_columns(
        mean20=ret.rolling_mean(20).over(each), mean60=ret.rolling_mean(60).over(each),
        std20=ret.rolling_std(20).over(each), std60=ret.rolling_std(60).over(each),
        mid=close.rolling_mean(60).over(each), wide=close.rolling_std(60).over(each),
        reach=reach, rises=moved.clip(lower_bound=0), falls=(-moved).clip(lower_bound=0),
    )  # fmt: skip
    frame = frame.with_columns(
        z20=(ret - pl.col("mean20")) / pl.col("std20"),
        z60=(close - pl.col("mid")) / pl.col("wide"),
        fast=_smoothed(close, 2 / 13, 12), slow=_smoothed(close, 2 / 27, 26),
        up=_smoothed(pl.col("rises"), 1 / 14, 14, 1),
        down=_smoothed(pl.col("falls"), 1 / 14, 14, 1),
        atr=_smoothed(pl.col("reach"), 1 / 14, 14),
    )  # fmt: skip
    frame = frame.with_columns(
        gap=pl.col("fast") / pl.col("slow") - 1,
        rsi=100 * pl.col("up") / (pl.col("up") + pl.col("down")),
        range=pl.col("atr") / close,
    )
    left = pl.col("gap") - pl.col("gap").mean()
    right = pl.when(pl.col("gap").is_not_null()).then(pl.col("range"))
    right = right - right.mean()
    z20, rsi = pl.col("z20"), pl.col("rsi")
    low_cut, high_cut = (z20.quantile(p, "linear") for p in (0.01, 0.99))
    return frame.with_columns(
        rankz=(pl.col("z60").rank() / pl.col("z60").count()).over(day),
        rankgap=(pl.col("gap").rank() / pl.col("gap").count()).over(day),
        neutral=(left - right * (left * right).sum() / (right * right).sum()).over(day),
        trimmed=z20.clip(low_cut, high_cut).over(day),
        score=((rsi - rsi.mean()) / rsi.std()).over(day),
    )


def _smoothed(x: Any, weight: float, length: int, first: int = 0) -> Any:
    """A recursive mean that starts from the mean of its first values, of each symbol."""
    import polars as pl

    row, begins = pl.col("row"), first + length - 1
    start = x.slice(first, length).mean()
    seeded = pl.when(row < begins).then(None).when(row == begins).then(start).otherwise(x)
    return seeded.ewm_mean(alpha=weight, adjust=False, ignore_nulls=True).over("symbol")


def of_us(bars: Market) -> tuple[Callable[[], pa.Table], Callable[[], pa.Table]]:
    """What computes the signals from the table, and from its events."""
    checked = compile_file(STRATEGY)

    def whole() -> pa.Table:
        return prepare_signals(checked, data=bars.table, bars="1d").table()

    prepared = prepare_signals(checked, data=bars.table, bars="1d")
    chunks = list(prepared.data.chunks())
    return whole, lambda: prepared.table(chunks)


def equal(found: pa.Table, expected: dict[str, np.ndarray]) -> None:
    """Both have the same values at 1e-9, and the same ones missing; ranks are those of the values.

    The last digits of two values decide which comes first: ours rank exactly as pandas ranks ours.
    """
    assert len(found.schema.names) == 22
    days = found[found.schema.names[0]].to_numpy()
    for name in found.schema.names[2:]:
        ours, theirs = found[name].to_numpy(), expected[name].ravel()
        assert np.array_equal(np.isnan(ours), np.isnan(theirs)), name
        if name in RANKED:
            ranked = pd.Series(found[RANKED[name]].to_numpy()).groupby(days).rank(pct=True)
            assert np.array_equal(ours, ranked, equal_nan=True), name
            continue
        scale = max(float(np.nanmax(np.abs(theirs))), 1e-3)
        assert np.nanmax(np.abs(ours - theirs)) <= TIGHT * scale, name


class Took(NamedTuple):
    """Seconds: those that passed, and those that all threads of the process worked."""

    passed: float
    worked: float


def timed(work: Callable[[], object]) -> Took:
    """What one round of it takes."""
    passed, worked = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - passed, time.process_time() - worked)


def measured(count: int, days: int, rounds: int = ROUNDS) -> dict[str, Took]:
    """The medians of each, once the results are the same."""
    bars = market(count, days)
    whole, resident = of_us(bars)
    expected = of_pandas(bars)
    equal(whole(), expected)
    equal(resident(), expected)
    works = {"from a table": whole, "from events": resident, "pandas": lambda: of_pandas(bars)}
    try:
        import polars as pl
    except ImportError:
        pass
    else:
        frame = pl.from_arrow(bars.table).sort("symbol", "date")
        done = of_polars(frame).sort("date", "symbol").rename({"ret1": "ret"})
        same = {name: done[name].cast(pl.Float64).to_numpy() for name in expected}
        equal(resident(), {name: np.asarray(one, float) for name, one in same.items()})
        works["polars"] = lambda: of_polars(frame)
    took = [{name: timed(work) for name, work in works.items()} for _ in range(rounds)]
    middle = statistics.median
    return {
        name: Took(
            middle(one[name].passed for one in took), middle(one[name].worked for one in took)
        )
        for name in works
    }


def test_signals(benchmark: Any, full: bool) -> None:
    """Equal results always; the times are noted where they are measured."""
    bars = market(*(LARGE if full else SMALL))
    _, resident = of_us(bars)
    equal(resident(), of_pandas(bars))
    if not full:
        benchmark.pedantic(resident, rounds=1)
        return
    found = measured(*LARGE)
    benchmark.extra_info.update({name: one.passed for name, one in found.items()})
    benchmark.pedantic(resident, rounds=ROUNDS)
    assert found["pandas"].worked > found["from events"].worked


def test_polars_has_the_same_values() -> None:
    """Held at a small size, so that the comparison stays one."""
    pytest.importorskip("polars")
    assert set(measured(*SMALL, rounds=1)) == {"from a table", "from events", "pandas", "polars"}


def main() -> None:
    """Print what each takes, and the ratios."""
    count, days = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else LARGE
    found = measured(count, days)
    ours = found["from events"]
    for name, (passed, worked) in found.items():
        sys.stdout.write(
            f"{name:14} {passed:8.3f} s {passed / ours.passed:6.2f}   "
            f"worked {worked:8.3f} s {worked / ours.worked:6.2f}\n"
        )


if __name__ == "__main__":
    main()
