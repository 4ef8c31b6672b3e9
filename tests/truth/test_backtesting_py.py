"""backtesting.py 0.6.6 on the bars it ships: every trade, the equity of every bar, every figure.

Its rules, all expressed by reversing_sma.qdsl: a signal of one bar fills at the open of the next;
first the position is closed, then all of the equity buys as many whole shares as price and fee
allow; the fee is a share of the value on both sides; finalize_trades closes what is left at the
open of the last bar.
"""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from quantdsl.events.layout import Kind
from quantdsl.report import metrics
from quantdsl.report.result import RunResult
from tests.truth.backtesting_py import SAME, curve_statistics, durations, trade_statistics
from tests.truth.outside import column, records, run, trades

NEVER = 100_000
# run, fast, slow, fee in bps, last bar or NEVER, trades
RUNS = [
    ("goog_sma_10_30", 10, 30, 0, 2147, 66),
    ("goog_sma_10_20_exclusive", 10, 20, 20, 2147, 94),
    ("goog_sma_10_20_exclusive_nofinal", 10, 20, 20, NEVER, 93),
]
DAYS_A_YEAR = 252
HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS
SWEEP_EVERY = 21
SWEEP_FEE = Fraction(2, 1000)
CROSSES_AT_THE_END = {(2, 5), (4, 5), (4, 10), (8, 10)}
"""The rows of the sweep, as fast and slow, that act on a cross of the last two bars."""


def settings(fee_bps: int, bars: str = "1d") -> str:
    return f'[data]\nbars = "{bars}"\n[fees]\ntaker_bps = {fee_bps}\nmaker_bps = {fee_bps}\n'


@pytest.fixture(scope="module", params=RUNS, ids=[row[0] for row in RUNS])
def pair(request: Any, shared_data: Path, tmp_path_factory: Any) -> Any:
    """Our run and the name of theirs."""
    name, fast, slow, fee, last, count = request.param
    result = run(
        "reversing_sma",
        str(shared_data / "bars/backtesting.py/GOOG.csv"),
        tmp_path_factory.mktemp("c") / "c.toml",
        settings(fee),
        fast=fast,
        slow=slow,
        last=last,
    )
    return name, slow, result, count


def test_every_trade(pair: Any, shared_data: Path) -> None:
    name, _, result, count = pair
    theirs = records(shared_data / f"expected/backtesting_py_{name}_trades.csv")
    mine = trades(result)
    assert len(mine["size"]) == len(theirs) == count
    for ours, field in (("size", "Size"), ("entry_bar", "EntryBar"), ("exit_bar", "ExitBar")):
        assert np.array_equal(mine[ours], column(theirs, field)), field
    for ours, field in (
        ("entry_price", "EntryPrice"),
        ("exit_price", "ExitPrice"),
        ("profit", "PnL"),
        ("fees", "Commission"),
        ("return", "ReturnPct"),
    ):
        assert np.max(np.abs(mine[ours] - column(theirs, field))) < 1e-9, field


def test_equity_of_every_bar(pair: Any, shared_data: Path) -> None:
    name, _, result, _ = pair
    theirs = records(shared_data / f"expected/backtesting_py_{name}_equity.csv.gz")
    mine = result.money(result.curve_equity)
    assert len(mine) == len(theirs)
    assert np.max(np.abs(mine - column(theirs, "Equity"))) < 1e-9


def statistics(shared_data: Path, name: str) -> dict[str, Any]:
    text = (shared_data / "expected/backtesting_py_stats.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["runs"][name]["stats"]
    return found


def nanoseconds(text: str) -> int:
    """Of `584 days 01:00:00`."""
    days, clock = text.split(" days ")
    hours, minutes, seconds = map(int, clock.split(":"))
    return ((int(days) * 24 + hours) * 3600 + minutes * 60 + seconds) * 1_000_000_000


def compare_statistics(
    result: RunResult, slow: int, theirs: dict[str, Any], bar_ns: int, tolerance: float
) -> None:
    """Every figure of backtesting.py but the two dates."""
    ours, mine = metrics.evaluate(result), trades(result)
    equity, bars = result.money(result.curve_equity), result.bars
    close = bars["close"] * float(result.instruments[0].tick)
    found = {name: ours[metric] * factor for name, (metric, factor) in SAME.items()}
    found |= trade_statistics(mine, len(bars))
    found |= curve_statistics(equity, close, bars["ts_recv"], slow - 1, DAYS_A_YEAR)
    lengths = durations(mine, equity, bars["ts_recv"], bar_ns)
    assert {*found, *lengths, "Start", "End"} == {*theirs, "Commissions [$]"}
    for name, value in found.items():
        expected = theirs.get(name, 0.0)  # a run without fees has no line of commissions
        assert value == pytest.approx(expected, rel=tolerance, abs=tolerance), name
    for name, length in lengths.items():
        assert length == nanoseconds(theirs[name]), name


def test_statistics(pair: Any, shared_data: Path) -> None:
    name, slow, result, _ = pair
    compare_statistics(result, slow, statistics(shared_data, name), DAY_NS, 1e-9)


def test_eurusd_but_for_the_rounding_of_fees(shared_data: Path, tmp_path: Path) -> None:
    """A fee here is money of six decimals, rounded half to even; backtesting.py's is a float.

    The sum of all those roundings, computed exactly, is the whole difference of the two runs.
    """
    theirs = statistics(shared_data, "eurusd_sma_10_20")
    result = run(
        "reversing_sma",
        str(shared_data / "bars/backtesting.py/EURUSD.csv"),
        tmp_path / "c.toml",
        settings(2, "1h"),
        fast=10,
        slow=20,
        last=4999,
    )
    fills = result.of_kind(Kind.FILL)
    unit, rate = Fraction(1, 10**5), Fraction(2, 10**4)
    exact = [
        abs(int(lots)) * int(ticks) * unit * rate * 10**6
        for lots, ticks in zip(fills["b"], fills["c"], strict=True)
    ]
    assert [round(fee) for fee in exact] == fills["d"].tolist()
    assert float(sum(exact)) / 1e6 == pytest.approx(theirs["Commissions [$]"], abs=1e-9)
    rounding = float(sum(exact) - int(fills["d"].sum())) / 1e6
    final = float(result.money(result.curve_equity)[-1])
    assert final - rounding == pytest.approx(theirs["Equity Final [$]"], abs=1e-8)
    compare_statistics(result, 20, theirs, HOUR_NS, 1e-7)


class End(NamedTuple):
    """What backtesting.py does more at the open of the last bar than reversing_sma.qdsl."""

    trades: int
    fees: float
    equity: float


def signals_at_the_end(result: RunResult, fast: int, slow: int) -> End:
    """Crosses of the last two bars: finalize_trades goes over the last bar once more.

    The cross of the last bar but one buys at the last open, where finalising sells again: two
    fees. The cross of the last bar fills at the open of that same bar, which is over: a position
    that stays, marked at the close. Here the last open only closes, and nothing fills in the past.
    """
    bars = result.bars
    opens, close = (Fraction(int(bars[name][-1]), 100) for name in ("open", "close"))
    before = equity = Fraction(int(result.curve_equity[-1]), 10**result.money_digits)
    fees, count = Fraction(0), 0
    for after in (-1, len(bars)):
        closes = bars["close"][:after].astype(np.int64)
        lead = [
            int(part[-fast:].sum() * slow - part[-slow:].sum() * fast)
            for part in (closes[:-1], closes)
        ]
        if not (lead[0] <= 0 < lead[1] or lead[1] < 0 <= lead[0]):
            continue
        size = equity // (opens * (1 + SWEEP_FEE))
        fee = size * opens * SWEEP_FEE
        if after == -1:
            equity, fees, count = equity - 2 * fee, 2 * fee, 1
        else:
            equity += (1 if lead[1] > 0 else -1) * size * (close - opens) - fee
    return End(count, float(fees), float(equity - before))


def test_sampled_rows_of_the_sweep(shared_data: Path, tmp_path: Path) -> None:
    """One in 21 of the 404 runs, the best one, and all that have a cross on the last two bars."""
    rows = records(shared_data / "expected/backtesting_py_goog_sma_sweep.csv")
    best = max(rows, key=lambda row: float(row["equity_final"]))
    late = [row for row in rows if (int(row["n1"]), int(row["n2"])) in CROSSES_AT_THE_END]
    crossed = set()
    for row in [*rows[::SWEEP_EVERY], best, *late]:
        pair = {"fast": int(row["n1"]), "slow": int(row["n2"])}
        result = run(
            "reversing_sma",
            str(shared_data / "bars/backtesting.py/GOOG.csv"),
            tmp_path / "c.toml",
            settings(20),
            **pair,
        )
        end = signals_at_the_end(result, **pair)
        mine, equity = trades(result), result.money(result.curve_equity)
        equity[-1] += end.equity
        figures = curve_statistics(
            equity, result.bars["close"] / 100.0, result.bars["ts_recv"], 0, DAYS_A_YEAR
        )
        found = {
            "trades": len(mine["fees"]) + end.trades,
            "equity_final": equity[-1],
            "return_pct": (equity[-1] / 10_000 - 1) * 100,
            "max_drawdown_pct": 100 * np.min(equity / np.maximum.accumulate(equity) - 1),
            "sharpe": figures["Sharpe Ratio"],
            "commissions": mine["fees"].sum() + end.fees,
        }
        assert found == {name: pytest.approx(float(row[name]), rel=1e-9) for name in found}, row
        crossed |= {tuple(pair.values())} if end.equity else set()
    assert crossed == CROSSES_AT_THE_END
