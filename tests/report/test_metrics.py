"""The formulas, held against empyrical's published cases and backtesting.py's statistics."""

import csv
import gzip
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from quantdsl.report import day_metrics, lane_metrics
from quantdsl.report.day_metrics import Days
from quantdsl.report.lane_metrics import Sums
from quantdsl.report.metrics import ALL_METRICS, BY_NAME, METRICS, evaluate
from tests.report.accumulate import Accumulators
from tests.report.metrics_page import PAGE, text
from tests.report.synthetic import synthetic_run

ROOT = Path(__file__).parents[2]
EXPECTED = ROOT.parent / "shared" / "data" / "expected"
PERIODS = {"daily": 252.0, "weekly": 52.0, "monthly": 12.0, "yearly": 1.0}
needs_expected = pytest.mark.skipif(not EXPECTED.exists(), reason="the expected outputs are absent")


def cases(method: str) -> list[list]:
    path = EXPECTED / "empyrical_cases.json.gz"
    if not path.exists():
        return []
    return json.loads(gzip.decompress(path.read_bytes()))["cases"][method]


def series(argument: dict) -> np.ndarray:
    return np.array([float(value) for value in argument["series"]])


def is_series(argument: object) -> bool:
    return isinstance(argument, dict) and "series" in argument


def sums_of(returns: np.ndarray, periods_per_year: float = 252.0) -> Sums:
    """Accumulates returns as a run would that starts with a million and marks at the samples."""
    kept = Accumulators(10**15)
    equity = 10**15
    for ts, r in enumerate(returns.tolist()):
        kept.period(r)
        equity = equity if math.isnan(r) else round(equity * (1.0 + r))
        kept.mark(ts, equity, in_market=True)
    return Sums(kept.values, 6, periods_per_year)


def same(measured: float, expected: object, tolerance: float = 1e-9) -> bool:
    wanted = float(expected)
    if math.isnan(wanted) or math.isinf(wanted):
        return measured == wanted or (math.isnan(wanted) and math.isnan(measured))
    return measured == pytest.approx(wanted, rel=tolerance, abs=tolerance)


RETURNS_ONLY = [
    ("test_cum_returns_final", lane_metrics.total_return),
    ("test_max_drawdown", lane_metrics.max_drawdown),
    ("test_annual_ret", lane_metrics.annual_return),
    ("test_annual_volatility", lane_metrics.volatility),
    ("test_calmar", lane_metrics.calmar),
    ("test_sharpe_ratio", lane_metrics.sharpe),
    ("test_sortino", lane_metrics.sortino),
    ("test_omega", lane_metrics.omega),
    ("test_cagr", lane_metrics.annual_return),
]

DIFFERENT = {
    # Without a bar the starting equity still stands: return and drawdown are 0 and not unknown.
    ("test_cum_returns_final", 0): 0.0,
    ("test_max_drawdown", 0): 0.0,
}
ROUNDED = {"test_cum_returns_final": 5e-5}
"""Absolute error of what was published with few digits."""


def published() -> list:
    chosen = []
    for method, metric in RETURNS_ONLY:
        for number, (argument, *rest, expected) in enumerate(cases(method)):
            known = isinstance(expected, int | float) or expected in ("nan", "inf")
            plain = all(isinstance(a, str) or a == 0.0 for a in rest)
            if is_series(argument) and known and plain:
                period = next((a for a in rest if isinstance(a, str)), "daily")
                expected = DIFFERENT.get((method, number), expected)
                tolerance = ROUNDED.get(method, 1e-9)
                row = (metric, series(argument), PERIODS[period], expected, tolerance)
                chosen.append(pytest.param(*row, id=f"{method}-{number}"))
    return chosen


@needs_expected
@pytest.mark.parametrize(("metric", "returns", "periods", "expected", "tolerance"), published())
def test_agrees_with_empyrical(metric, returns, periods, expected, tolerance):
    assert same(metric(sums_of(returns, periods)), expected, tolerance)


@needs_expected
def test_enough_published_cases_are_used():
    assert len(published()) >= 35


def days(returns: np.ndarray, benchmark: np.ndarray | None = None) -> Days:
    return Days(np.arange(len(returns), dtype=np.int64), returns, 252.0, benchmark)


@needs_expected
@pytest.mark.parametrize(
    ("method", "metric", "tolerance"),
    [
        ("test_tail_ratio", day_metrics.tail_ratio, 0.05),  # its own test compares one decimal
        ("test_stability_of_timeseries", day_metrics.stability, 1e-9),
    ],
)
def test_day_metrics_agree_with_empyrical(method, metric, tolerance):
    for returns, expected in cases(method):
        assert same(metric(days(series(returns))), expected, tolerance)


@needs_expected
@pytest.mark.parametrize("method", ["test_alpha", "test_beta", "test_alpha_beta"])
def test_alpha_and_beta_agree_with_empyrical(method):
    compared = 0
    for returns, benchmark, expected, *rest in cases(method):
        if not is_series(benchmark):
            continue
        r, b = series(returns), series(benchmark)
        if len(r) != len(b):
            continue  # aligned by date there; a run's benchmark is aligned when it is loaded
        pair = days(r, b)
        values = {"alpha": day_metrics.alpha(pair), "beta": day_metrics.beta(pair)}
        names = method.removeprefix("test_").split("_")
        wanted = expected if len(names) == 2 else [expected]
        tolerance = 10.0 ** -float(rest[0]) if rest else 1e-9
        assert all(same(values[n], w, tolerance) for n, w in zip(names, wanted, strict=True))
        compared += 1
    assert compared >= 3


def test_a_day_that_ends_at_midnight_is_of_the_month_before_it():
    """The return of 31 January was in February, and all of a monthly bar in the month after it."""
    ends = np.array(["2023-12-31", "2024-01-01", "2024-01-31", "2024-02-01", "2024-02-02"])
    ts = ends.astype("datetime64[ns]").astype(np.int64)
    returns = np.array([0.0, 0.5, 0.1, 0.2, -0.1])

    def monthly(first: int) -> list[tuple[int, int, float]]:
        known = Days(ts[first:], returns[first:], 365.0, since_ns=int(ts[first]))
        return [(m.year, m.month, round(m.value, 9)) for m in day_metrics.monthly_returns(known)]

    assert monthly(0) == [(2023, 12, 0.5), (2024, 1, 0.32), (2024, 2, -0.1)]
    returns[1] = 0.0  # at the very start
    assert monthly(1) == [(2024, 1, 0.32), (2024, 2, -0.1)]


def test_quantiles_are_those_of_numpy():
    random = np.random.default_rng(7)
    for count in (1, 2, 3, 20, 21, 251):
        values = random.normal(size=count)
        for share in (0.0, 0.05, 0.5, 0.95, 1.0):
            assert day_metrics.quantile(values, share) == np.quantile(values, share)


def test_tails_of_a_known_series():
    returns = np.arange(-10, 91) / 1000.0
    assert day_metrics.value_at_risk(days(returns)) == pytest.approx(-0.005, abs=1e-12)
    assert day_metrics.conditional_value_at_risk(days(returns)) == pytest.approx(-0.0075)
    assert day_metrics.skew(days(returns)) == pytest.approx(0.0, abs=1e-12)
    n = len(returns)
    uniform = -6.0 / 5.0 * (n * n + 1) / (n * n - 1)
    assert day_metrics.kurtosis(days(returns)) == pytest.approx(uniform)


def test_tail_ratio_of_a_known_series():
    returns = np.arange(-100, 301) / 1000.0  # 5th and 95th percentile: -0.08 and 0.28
    assert day_metrics.tail_ratio(days(returns)) == pytest.approx(3.5)


def test_ulcer_index_of_a_known_fall():
    returns = np.array([0.0, -0.1, 0.0])
    assert day_metrics.ulcer_index(days(returns)) == pytest.approx(0.1 * math.sqrt(2 / 3))


@needs_expected
def test_trade_statistics_agree_with_backtesting_py():
    """Profit factor and SQN follow its definitions, on its own trade list."""
    name = "goog_sma_10_30"
    stats = json.loads((EXPECTED / "backtesting_py_stats.json").read_text())["runs"][name]["stats"]
    kept = Accumulators(10_000_000_000)
    returns = []
    with (EXPECTED / f"backtesting_py_{name}_trades.csv").open() as file:
        for row in csv.DictReader(file):
            net = round(float(row["PnL"]) * 1e6)
            kept.trade(net, 0, int(row["ExitBar"]) - int(row["EntryBar"]), 0, 0)
            returns.append(float(row["ReturnPct"]))
    sums = Sums(kept.values, 6, 252.0)
    assert lane_metrics.trades(sums) == stats["# Trades"]
    assert lane_metrics.win_rate(sums) * 100 == pytest.approx(stats["Win Rate [%]"], rel=1e-9)
    assert lane_metrics.sqn(sums) == pytest.approx(stats["SQN"], rel=1e-9)
    expectancy = day_metrics.expectancy(day_metrics.Trips(np.array(returns)))
    assert expectancy * 100 == pytest.approx(stats["Expectancy [%]"], rel=1e-9)
    # its profit factor sums returns in percent, ours sums money
    won = sum(r for r in returns if r > 0)
    lost = -sum(r for r in returns if r < 0)
    assert won / lost == pytest.approx(stats["Profit Factor"], rel=1e-9)
    assert lane_metrics.profit_factor(sums) != pytest.approx(stats["Profit Factor"], rel=1e-3)


@needs_expected
def test_return_and_drawdown_agree_with_backtesting_py():
    """On its own equity curve, sampled daily as it does."""
    name = "goog_sma_10_30"
    stats = json.loads((EXPECTED / "backtesting_py_stats.json").read_text())["runs"][name]["stats"]
    kept = Accumulators(10_000_000_000)
    with gzip.open(EXPECTED / f"backtesting_py_{name}_equity.csv.gz", "rt") as file:
        for ts, row in enumerate(csv.DictReader(file)):
            equity = round(float(row["Equity"]) * 1e6)
            kept.mark(ts, equity, in_market=True)
            kept.day(equity)
    sums = Sums(kept.values, 6, 252.0)
    total = lane_metrics.total_return(sums)
    assert total * 100 == pytest.approx(stats["Return [%]"], rel=1e-9)
    drawdown = lane_metrics.max_drawdown(sums)
    assert drawdown * 100 == pytest.approx(stats["Max. Drawdown [%]"], rel=1e-9)
    # it leaves out the first day, whose return against the starting cash we count
    theirs = (1.0 + total) ** (252.0 / (kept.values["ret_n"] - 1)) - 1.0
    assert theirs * 100 == pytest.approx(stats["Return (Ann.) [%]"], rel=1e-9)
    assert lane_metrics.annual_return(sums) == pytest.approx(theirs, rel=1e-3)


def test_every_metric_is_documented_and_evaluated():
    values = evaluate(synthetic_run(n_days=30))
    assert list(values) == [metric.name for metric in METRICS]
    assert list(BY_NAME) == [metric.name for metric in ALL_METRICS]
    assert ALL_METRICS[: len(METRICS)] == METRICS
    for metric in METRICS:
        assert metric.title, metric.name
        assert metric.formula, f"{metric.name} has no formula"


def test_the_page_of_the_metrics_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == text(), "run python -m tests.report.metrics_page"


def test_a_run_without_a_day_or_a_trade_is_undefined_not_zero():
    values = evaluate(synthetic_run(n_days=0))
    assert math.isnan(values["sharpe"])
    assert math.isnan(values["win_rate"])
    assert math.isnan(values["value_at_risk"])
    assert values["total_return"] == 0.0


def test_the_core_keeps_every_accumulator():
    text = (ROOT / "quantdsl" / "std" / "metrics.qdsl").read_text()
    struct = text.split("struct Metrics:")[1].split("\nfn ")[0]
    kept = set(re.findall(r"^    (\w+):", struct, re.MULTILINE))
    folded = {name.removesuffix("_lo") for name in kept}
    assert set(Accumulators(1).values) <= folded
