"""Params that count ticks, lots or shares, in one and in many."""

from fractions import Fraction

import numpy as np
import pytest

from quantdsl.backtest import values
from quantdsl.backtest.points import ranged
from quantdsl.check import check_source
from quantdsl.check.params import Param
from quantdsl.errors import ConfigError
from quantdsl.lang.source import Source
from tests.backtest.test_lane_entry import checked_text

TEXT = """language 1

strategy Counted:
    bars 1h

    param by   = 20 ticks in 1 tick..40 ticks step 1 tick
    param clip = 3 lots in 1 lot..5 lots step 1 lot
    param many = 1 share in 1 share..5 shares step 1 share

    on bar:
        if flat:
            buy(clip, limit = close - by, stop_loss = close - 4 * by)
        elif position < many:
            close_position()

    backtest:
        fees = 1bps
"""


def test_the_account_keeps_its_currency():
    checked = checked_text(TEXT)
    assert checked.strategy.currency == ""
    assert [p.kind for p in checked.strategy.params] == ["ticks", "lots", "qty"]


@pytest.mark.parametrize("given", ["2", "2 ticks", "2 tick", "2ticks"])
def test_a_count_may_name_its_unit(given):
    params = checked_text(TEXT).strategy.params
    chosen = values.chosen(params, {"by": given})
    assert [p.word(chosen[p.name]) for p in params] == [2, 3, 1.0]


def test_a_part_of_a_tick_is_refused():
    params = checked_text(TEXT).strategy.params
    with pytest.raises(ConfigError, match="whole number"):
        values.chosen(params, {"by": "2.5"})


def test_a_share_given_for_a_percentage_is_told_as_one():
    """0.05 of a param in percent is 0.05 %; the help was to widen the range."""
    param = "    bars 1h\n    param far = 5% in 1%..9% step 1%\n"
    params = checked_text(TEXT.replace("    bars 1h\n", param)).strategy.params
    assert values.chosen(params, {"far": "3%"})["far"] == 3
    with pytest.raises(ConfigError, match=r"it counts in %; did you mean far=8%\?"):
        values.chosen(params, {"far": 0.08})
    with pytest.raises(ConfigError, match="widen the range"):
        values.chosen(params, {"far": "12%"})


def only(declared: str) -> Param:
    """A param that is declared so."""
    text = TEXT.replace("    bars 1h\n", f"    bars 1h\n    param far = {declared}\n")
    return checked_text(text).strategy.params[0]


@pytest.mark.parametrize(("declared", "unit", "numbers"), [
    ("2h in 30m..4h step 15m", "m", (120, 30, 240, 15)),
    ("90s in 1m..1h step 500ms", "ms", (90_000, 60_000, 3_600_000, 500)),
    ("1d in 0..2w step 12h", "h", (24, 0, 336, 12)),
    ("1% in 50bps..2% step 25bps", "bps", (100, 50, 200, 25)),
    ("2h in 1h..4h step 1h", "h", (2, 1, 4, 1)),
])  # fmt: skip
def test_a_range_may_have_other_units_of_its_kind(
    declared: str, unit: str, numbers: tuple[int, ...]
):
    """All its numbers are in the finest one, in which they are decimals."""
    param = only(declared)
    assert param.unit == unit
    assert (param.default, param.low, param.high, param.step) == numbers


@pytest.mark.parametrize(("declared", "given", "place"), [
    ("true in {true, false}", False, 1),
    ("true in {true, false}", np.bool_(True), 0),
    ("10 in {5, 10, 20}", 20.0, 2),
    ("10 in {5, 10, 20}", np.float64(5), 0),
    ("0.5 in {0.5, 1.0}", 1, 1),
    ('"1.0" in {"1", "1.0"}', "1.0", 1),
])  # fmt: skip
def test_a_choice_may_be_a_number_or_truth_value_of_python(
    declared: str, given: object, place: int
):
    """TOML's too: `both = true` of a config was refused as True."""
    assert values.value(only(declared), given) == place


def test_what_is_no_choice_is_told_with_those_that_are():
    with pytest.raises(ConfigError, match=r"^far is one of 5, 10, not 7\.5$"):
        values.value(only("10 in {5, 10}"), 7.5)
    with pytest.raises(ConfigError, match=r"^far is one of up, down, not Up$"):
        values.value(only('"up" in {"up", "down"}'), "Up")


@pytest.mark.parametrize("declared", ["2h in 1..4 step 1", "2h in 1%..2% step 1%", "5 in 1m..9m"])
def test_a_range_of_another_kind_is_refused(declared: str):
    text = TEXT.replace("    bars 1h\n", f"    bars 1h\n    param far = {declared}\n")
    checked, diagnostics = check_source(Source(text))
    assert checked is None
    assert [one.code for one in diagnostics if one.severity == "error"] == ["QD0703"]


@pytest.mark.parametrize(("given", "hours"), [
    ("2h", 2), ("120m", 2), ("7200 s", 2), ("0.5h", Fraction(1, 2)), ("30m", Fraction(1, 2)),
])  # fmt: skip
def test_a_value_may_have_another_unit_of_its_kind(given: str, hours: Fraction):
    param = only("2h in 0.5h..4h step 0.5h")
    assert values.value(param, given) == hours
    assert values.value(only("1%"), "50bps") == Fraction(1, 2)


def test_a_value_that_is_no_decimal_of_the_unit_is_refused():
    """What is told of it could not be given again."""
    with pytest.raises(ConfigError, match="no decimal number of h\nhelp: write the default of far"):
        values.value(only("2h in 0.25h..4h step 0.25h"), "20m")
    with pytest.raises(ConfigError, match="far = 99999999999999999999w lies outside its range"):
        values.value(only("2h in 0.25h..4h step 0.25h"), "99999999999999999999w")
    with pytest.raises(ConfigError, match="a number in h is needed"):
        values.value(only("2h in 0.25h..4h step 0.25h"), "20%")


def test_a_sweep_may_step_in_another_unit():
    param = only("2h in 0.5h..4h step 0.5h")
    assert list(ranged(param, "1h..2h:30m")) == [1, Fraction(3, 2), 2]


def percent(declared: str, given: object) -> float:
    """What a param in percent becomes."""
    param = f"    bars 1h\n    param far = {declared}\n"
    params = checked_text(TEXT.replace("    bars 1h\n", param)).strategy.params
    return float(values.chosen(params, {"far": given})["far"])


@pytest.mark.parametrize(
    ("declared", "given", "told"),
    [
        ("5%", 0.05, r"is 5% meant, or 0.05%\?"),
        ("5%", "0.05", "write far=5% or far=0.05%"),
        ("0.5%", "0.6", "write far=60% or far=0.6%"),
        ("5% in 0%..90% step 1%", "0.5", "write far=50% or far=0.5%"),
        ("-5%", "-0.05", "write far=-5% or far=-0.05%"),
        ("5bps", "0.0005", "write far=5bps or far=0.0005bps"),
    ],
)
def test_a_bare_number_that_may_be_a_share_is_refused(declared: str, given: object, told: str):
    """With a range and without one: it was 0.05 % where there was none."""
    with pytest.raises(ConfigError, match=told):
        percent(declared, given)


@pytest.mark.parametrize(
    ("declared", "given", "meant"),
    [
        ("5%", "0.05%", 0.05),
        ("5%", "5%", 5),
        ("5%", 8, 8),
        ("5%", 1, 1),
        ("5%", 0, 0),
        ("1% in 0.5%..8% step 0.1%", 0.6, 0.6),  # 60 % is no value of it
        ("5bps", 0.5, 0.5),
    ],
)
def test_a_number_that_is_none_counts_in_percent(declared: str, given: object, meant: float):
    assert percent(declared, given) == meant
