"""The summary in the terminal: what it says first, and that it fits."""

from fractions import Fraction
from io import StringIO

import numpy as np
import pytest
from msgspec.structs import replace

from quantdsl.data.instrument import Instrument
from quantdsl.report.metrics import evaluate
from quantdsl.report.summary import show
from quantdsl.report.terminal import Terminal
from quantdsl.report.words import broken, duration, figure
from tests.report.synthetic import synthetic_run

RUN = synthetic_run(30)


def summary(run, width: int = 100) -> str:
    out = StringIO()
    show(run, evaluate(run), Terminal(out, width))
    return out.getvalue()


def altered(**accumulators):
    return replace(RUN, accumulators={**RUN.accumulators, **accumulators})


def test_the_summary_names_the_run_and_its_figures():
    text = summary(RUN)
    assert text.startswith("SmaCross on XNYS:TEST · 2024-01-02 to")
    for part in (
        "Sharpe ratio",
        "Max drawdown",
        "fast = 10",
        "(strategy)",
        "1 other setting at default",
        "data 000000000000",
    ):
        assert part in text


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_it_fits_the_terminal(width):
    lines = summary(RUN, width).splitlines()
    assert max(map(len, lines)) <= width
    assert any("Total return" in line for line in lines)


def test_a_run_whose_orders_were_mostly_rejected_says_so_first():
    first = summary(altered(orders=10, orders_rejected=6)).splitlines()[0]
    assert first == "Most orders were rejected: 6 of 10. Reasons: max_notional (1)."


def test_a_run_says_why_some_of_its_orders_were_rejected():
    told = summary(altered(orders=10, orders_rejected=1)).splitlines()
    assert "warning: orders were rejected: 1 of 10. Reasons: max_notional (1)." in told
    assert not any("rejected:" in line for line in summary(altered(orders_rejected=0)).splitlines())


def test_a_run_without_a_trade_says_why_first():
    silent = altered(fills=0, orders=0, orders_rejected=0)
    assert summary(silent, 160).splitlines()[0] == (
        "Nothing was traded: the strategy placed no order; a size of less than one lot makes none."
    )
    said = replace(silent, no_trade_reasons=("the warm-up of 300 bars is longer than the data",))
    assert summary(said).startswith("Nothing was traded: the warm-up of 300 bars is longer")
    unfilled = summary(altered(fills=0, orders=2, orders_rejected=0))
    assert unfilled.startswith("Nothing was traded: 2 orders and no fill: max_notional (1).")


def test_markup_in_a_name_is_text():
    assert "[bold]x[/bold]" in summary(replace(RUN, strategy="[bold]x[/bold]"))


def test_a_run_without_bars_has_a_summary():
    assert "Total return" in summary(synthetic_run(0))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.12345, "fraction", "12.35 %"),
        (-1234.5, "money", "-1,234.50 USD"),
        (np.nan, "ratio", "na"),
        (np.inf, "ratio", "∞"),
        (12345.0, "count", "12,345"),
        (29.71, "bars", "29.7 bars"),
        (-0.00001, "fraction", "0.00 %"),
    ],
)
def test_figures_as_text(value, unit, text):
    assert figure(value, unit, "USD") == text


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (40, "40.0 days"),
        (1.5, "36.0 h"),
        (1 / 48, "30 min"),
        (-1.5, "-36.0 h"),
        (0.0, "0 s"),
        (90 / 86_400, "90 s"),
        (0.25 / 86_400, "0.25 s"),
    ],
)
def test_durations_in_the_unit_that_reads_best(days, text):
    assert duration(days) == text


@pytest.mark.parametrize(
    ("limit", "value", "most", "said"),
    [
        ("max drawdown", 1_234_500_000, 1_000_000_000, "1,234.50 against 1,000.00"),
        ("max weight", 30_000_000, 120_000_000, "25.00 % of equity"),
        ("max weight", 30_000_000, -1_000_000, "30.00 against -1.00"),
        ("max weight", 30_000_000, 0, "30.00"),
        ("max position", 21, 20, "2.1 against 2"),
        ("price band", 10_201, 10_100, "102.01 against 101"),
        ("max data age", 90 * 10**9, 5 * 10**8, "90 s against 0.5 s"),
        ("max order rate", 120 * 10**9, 180 * 10**9, "2 min against 3 min"),
        ("max entries", 3, 2, "3 against 2"),
        ("no reference", 10_201, 0, "102.01"),
    ],
)
def test_a_broken_limit_is_told_in_its_unit(limit, value, most, said):
    instrument = Instrument(symbol="KO", lot=Fraction(1, 10))
    assert broken(limit, value, most, instrument, 6) == f"{limit}: {said}"
