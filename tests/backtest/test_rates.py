"""Rates as they are written: decimals that are rounded to a float once, where they are used."""

import pytest

import quantdsl
from quantdsl.backtest.settings import rate

TEXT = """language 1

strategy Rates:
    bars 1d

    on bar:
        if flat:
            buy(1 share)

    backtest:
        {line}
"""


def test_basis_points_are_the_float_of_their_share():
    """0.3 / 10_000 is 2.9999999999999997e-05: a fee of a tie went the other way."""
    tenths = range(1, 10_000)
    assert [rate(n / 10) for n in tenths] == [float(f"{n}e-5") for n in tenths]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("fees = 0.07%", "fees.taker_bps", "7.0"),
        ("fees = 0.3bps", "fees.maker_bps", "0.3"),
        ("fees = 0.00007", "fees.taker_bps", "0.7"),
        ("borrow = 1.1%", "account.borrow_bps", "110.0"),
        ("volume_share = 0.7%", "fills.volume_share", "0.007"),
    ],
)
def test_a_setting_is_told_as_it_was_written(line, name, value):
    result = quantdsl.compile(TEXT.format(line=line)).backtest(end="2022-02-01").result
    assert {setting.name: setting.value for setting in result.settings}[name] == value
