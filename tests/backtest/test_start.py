"""Trading that starts later: what comes before it warms up and counts in no figure."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.api import compile
from quantdsl.backtest.run import backtest
from quantdsl.backtest.signals import prepare_signals
from quantdsl.check import compile_file
from quantdsl.errors import ConfigError
from tests.truth.test_oracle import market

ORACLE = Path(__file__).parents[1] / "truth" / "oracle_sma.qdsl"
BARS, START = 6_000, "2020-01-03T00:00"  # the third of some four days


def test_figures_begin_where_trading_begins() -> None:
    whole, late = (backtest(ORACLE, data=market(BARS), start=start) for start in (None, START))
    first = int(np.datetime64(START, "ns").astype(np.int64))
    assert late.curve_ts[0] == first
    assert np.array_equal(late.curve_ts, whole.curve_ts[-len(late.curve_ts) :])
    assert len(late.bars) == len(late.curve_ts)
    sums, of_all = late.accumulators, whole.accumulators
    assert sums["bars"] == len(late.curve_ts) < of_all["bars"]
    assert sums["ts_first"] == first
    # The bar of midnight belongs to the day that ends with it, and is a day of its own here.
    days = late.curve_ts[-1] // 86_400_000_000_000 - first // 86_400_000_000_000 + 2
    assert sums["ret_n"] == days


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"start": "2030-01-01"}, "trading starts at 2030-01-01 00:00 UTC, and the data end at"),
        ({"end": "1999-01-01"}, "the run ends at 1999-01-01 00:00 UTC, and the data begin at"),
    ],
)
def test_dates_beside_the_data_are_why_nothing_was_traded(
    given: dict[str, str], said: str
) -> None:
    (why,) = backtest(ORACLE, data=market(2_000), **given).no_trade_reasons
    assert said in why


def test_a_run_after_signals_says_why_nothing_was_traded() -> None:
    """What computes signals counts ticks that a run does not count."""
    strategy = compile(
        "language 1\nstrategy S:\n    bars 1h\n    let up = close > open\n    on bar:\n"
        "        if up and close > 1_000_000:\n            buy(1 share)\n"
    )
    assert len(strategy.signals()) > 0
    (why,) = strategy.backtest().result.no_trade_reasons
    assert why.startswith("line 6, 'if up and close > 1_000_000', was never true in ")


def test_an_end_before_the_start_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cannot start at 2020-01-03 .* end at 2020-01-02"):
        backtest(ORACLE, data=market(2_000), start=START, end="2020-01-02")


def test_an_earlier_start_than_the_data_changes_nothing() -> None:
    whole, early = (
        backtest(ORACLE, data=market(2_000), start=start) for start in (None, "2019-01-01")
    )
    assert early.accumulators == whole.accumulators
    assert np.array_equal(early.records, whole.records)


def test_dates_are_of_the_zone_that_the_data_are_of() -> None:
    """What a file says at midnight in New York starts at that midnight, as --from says it."""
    span = {"start": START, "end": "2020-01-04"}
    plain, zoned = (
        backtest(ORACLE, data=market(BARS), tz=tz, **span) for tz in (None, "America/New_York")
    )
    assert zoned.curve_ts[0] - plain.curve_ts[0] == 5 * 3_600_000_000_000
    assert len(zoned.curve_ts) == len(plain.curve_ts)
    whole, sliced = (
        prepare_signals(compile_file(ORACLE), data=market(BARS), tz="America/New_York", **given)
        for given in ({}, span)
    )
    assert sliced.table().num_rows == len(plain.curve_ts) < whole.table().num_rows


def test_a_date_that_is_no_text_is_told_how_it_is_written() -> None:
    with pytest.raises(ConfigError, match="20200103 is not a date: write 2024-01-31"):
        backtest(ORACLE, data=market(2_000), start=20200103)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"data": ""}, "--data names nothing"),
        ({"data": ","}, "data ',': a file's name is missing at a comma"),
        ({"start": ""}, "'' is not a date"),
        ({"end": ""}, "--to names nothing"),
        ({"tz": ""}, "--tz names nothing"),
        ({"benchmark": " "}, "--benchmark names nothing"),
    ],
)
def test_an_option_without_a_value_is_refused(given: dict[str, str], said: str) -> None:
    """As `--data "$DATA"` of a shell that knows no DATA: the market would be the built-in one."""
    with pytest.raises(ConfigError, match=said):
        backtest(ORACLE, **{"data": market(2_000), **given})
