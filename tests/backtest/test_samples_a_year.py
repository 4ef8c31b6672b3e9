"""How many day samples a year has: what annual figures are made with."""

import numpy as np
import pyarrow as pa
import pytest

import quantdsl
from quantdsl.backtest import settings
from quantdsl.backtest.stream import day_samples
from quantdsl.events.layout import Kind

TEXT = """language 1

strategy Held:
    bars {length}
    {session}

    on bar:
        if flat:
            buy(value = 90% of equity)

    risk:
        max_notional = 1_000% of equity

    backtest:
        fees = 1bps
"""
DAY_NS = 86_400_000_000_000


def daily(count, step_ns=DAY_NS):
    """Bars from 2020-01-06 on, a Monday, of a price that goes its way up and down."""
    times = np.datetime64("2020-01-06", "ns").astype(np.int64) + np.arange(count) * step_ns
    rng = np.random.default_rng(4)
    close = np.round(100 * np.exp(np.cumsum(rng.normal(0.0005, 0.01, count))), 2)
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("ns", "UTC")),
            "open": close,
            "high": close,
            "low": close,
            "close": close,
            "volume": np.full(count, 1_000),
        }
    )


def weeks(count):
    """A file of weeks."""
    return daily(count, 7 * DAY_NS)


def weekdays(count):
    """A file of days on which stocks trade."""
    table = daily(count)
    return table.filter(pa.array(np.arange(count) % 7 < 5))


@pytest.mark.parametrize("session", ["", 'session "XNYS"', 'session "24/7"'])
@pytest.mark.parametrize(
    ("length", "table", "samples"), [("1w", weeks(300), 52), ("1d", weekdays(900), 252)]
)
def test_a_session_makes_no_samples_where_a_file_has_no_bars(length, table, samples, session):
    """A file of weeks with a session was annualised by 252, stocks with `24/7` by 365."""
    result = ran(length, session, table)
    equity = np.array([100_000.0, *result.days.column("equity").to_pylist()])
    annual = (equity[-1] / equity[0]) ** (samples / (len(equity) - 1)) - 1
    assert result.metrics["annual_return"] == pytest.approx(annual, rel=1e-9)


def ran(length, session, table):
    text = TEXT.format(length=length, session=session)
    return quantdsl.compile(text).backtest(table)


@pytest.mark.parametrize(
    ("length", "session", "samples"),
    [
        ("1d", "", 252),
        ("1d", 'session "24/7"', 365),
        ("1d", 'session "XNYS"', 252),
        ("1w", "", 52),
        ("1w", 'session "24/7"', 365),
        ("1w", 'session "XNYS"', 252),
        ("1mo", "", 12),
        ("1y", "", 1),
    ],
)
def test_annual_figures_go_by_the_samples_that_a_year_has(length, session, samples):
    result = ran(length, session, daily(1_500))
    equity = np.array([100_000.0, *result.days.column("equity").to_pylist()])
    returns = equity[1:] / equity[:-1] - 1
    metrics = result.metrics
    annual = (equity[-1] / equity[0]) ** (samples / len(returns)) - 1
    assert metrics["annual_return"] == pytest.approx(annual, rel=1e-9)
    deviation = returns.std(ddof=1) * np.sqrt(samples)
    assert metrics["volatility"] == pytest.approx(deviation, rel=1e-9)


@pytest.mark.parametrize(
    ("length", "session", "weekends", "said"),
    [
        ("1d", "", True, True),
        ("1d", "", False, False),
        ("1d", 'session "24/7"', True, False),
        ("1w", "", True, False),
    ],
)
def test_days_of_a_market_that_never_closes_are_noted(length, session, weekends, said):
    table = daily(90)
    if not weekends:
        table = table.filter(pa.array([day % 7 < 5 for day in range(90)]))
    notes = ran(length, session, table).result.notes
    assert any("bars of all days of the week" in note for note in notes) == said


def hours_of(kind, weeks):
    """Hours of stocks, of currencies (from Sunday 22:00 to Friday 22:00), or of coins."""
    hours = np.arange(24 * 7 * weeks)
    day, hour = hours // 24 % 7, hours % 24
    stocks = (day < 5) & (hour >= 14) & (hour < 21)
    currencies = (day < 4) | ((day == 4) & (hour < 22)) | ((day == 6) & (hour >= 22))
    outage = (hours >= 50) & (hours < 90)
    open_ = {"stocks": stocks, "currencies": currencies, "coins": ~outage}[kind]
    return daily(len(hours), DAY_NS // 24).filter(pa.array(open_))


@pytest.mark.parametrize("session", ["", 'session "24/7"'])
@pytest.mark.parametrize(
    ("kind", "weeks", "samples"),
    [("stocks", 60, 252), ("currencies", 60, 313), ("coins", 60, 365), ("coins", 2, 365)],
)
def test_hours_go_by_the_days_of_a_week_that_have_bars(kind, weeks, samples, session):
    """Without a session, or with one that never closes, stocks were annualised by 365."""
    result = ran("1h", session, hours_of(kind, weeks))
    equity = np.array([100_000.0, *result.days.column("equity").to_pylist()])
    annual = (equity[-1] / equity[0]) ** (samples / (len(equity) - 1)) - 1
    assert result.metrics["annual_return"] == pytest.approx(annual, rel=1e-9)


def test_hours_go_by_days_of_utc_or_of_a_market_that_never_closes():
    table = daily(24 * 60, DAY_NS // 24)
    without, never_closed = (ran("1h", session, table) for session in ("", 'session "24/7"'))
    assert never_closed.metrics["sharpe"] == pytest.approx(without.metrics["sharpe"], rel=1e-9)


def test_a_sweep_expects_a_sample_of_each_bar_and_each_session():
    """Blocks of days are cut by this number; of weeks with sessions it counted the bars alone."""
    day, week = np.arange(1, 15) * DAY_NS, np.array([7, 14]) * DAY_NS
    head = [*((Kind.SESSION << 32) | (1 << 40) for _ in day), *(Kind.BAR << 32 for _ in week), 0]
    events = np.zeros((len(head), 8), np.int64)
    events[:, 0] = [*day, *week, 14 * DAY_NS]
    events[:, 2] = head
    assert day_samples(events, settings.DAY_BAR) == len(day)
    assert day_samples(events, settings.DAY_SESSION) == len(day)
