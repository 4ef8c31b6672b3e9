"""The step that holds every price is found, and prices come back exactly."""

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdsl.data.feed import to_steps
from quantdsl.data.instrument import (
    Instrument,
    check_exact,
    decimals,
    fraction,
    limits,
    load_instruments,
    money_digits,
    show_fraction,
)
from quantdsl.data.scan import STEP_EVIDENCE, StepFinder
from quantdsl.errors import ConfigError, DataError, LimitError
from tests.data.helpers import bars, csv, one

STEPS = ["1", "0.5", "0.25", "0.1", "0.05", "0.01", "0.025", "0.001", "0.00005", "0.00000001"]


@given(
    step=st.sampled_from(STEPS),
    counts=st.lists(st.integers(1, 2_000_000), min_size=1, max_size=40),
    splits=st.integers(1, 4),
)
def test_step_holds_every_number(step: str, counts: list[int], splits: int) -> None:
    exact = [Decimal(step) * count for count in counts]
    values = np.array([float(value) for value in exact])
    finder = StepFinder()
    for part in np.array_split(values, splits):
        finder.add(part)
    assert finder.exact
    found = finder.step()
    assert all((Fraction(value) / found).denominator == 1 for value in exact)
    ticks = to_steps(values, found)
    assert [Fraction(int(tick)) * found for tick in ticks] == [Fraction(value) for value in exact]
    assert (ticks * found.numerator / found.denominator).tolist() == values.tolist()


@given(st.sampled_from(STEPS), st.randoms(use_true_random=False))
def test_enough_numbers_tell_the_coarsest_step(step: str, random: object) -> None:
    counts = [random.randint(1, 10_000) for _ in range(STEP_EVIDENCE)]  # type: ignore[attr-defined]
    finder = StepFinder()
    finder.add(np.array([float(Decimal(step) * count) for count in counts]))
    assert finder.step() == Fraction(step) * math.gcd(*counts)


def test_adjusted_prices_get_a_fine_tick(tmp_path: Path) -> None:
    prices = [0.264123456789, 0.266987654321, 12.345678901234]
    rows = "".join(f"2024-01-{day:02d},{price}\n" for day, price in enumerate(prices, 1))
    data = one(csv(tmp_path, f"date,close\n{rows}"))
    instrument = data.instruments[0]
    assert instrument.prices == "adjusted"
    assert instrument.tick <= Fraction(prices[0]) / 10**6
    assert any("rounded to a tick of 1e-7" in note for note in data.notes)
    back = bars(data)["close"] * float(instrument.tick)
    assert np.allclose(back, prices, rtol=1e-6, atol=0)


def test_noise_of_computed_prices_is_no_digit(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"time": [1_704_189_600, 1_704_189_660], "close": [0.1 + 0.2, 1.1 * 1.1]})
    assert one(table).instruments[0].tick == Fraction(1, 100)


def test_off_tick_is_an_error_only_where_the_user_named_the_tick(tmp_path: Path) -> None:
    path = csv(tmp_path, "date,close\n2024-01-02,10.05\n2024-01-03,10.07\n")
    assert one(path).instruments[0].tick == Fraction(1, 100)
    toml = tmp_path / "own.toml"
    toml.write_text('symbol = "X"\ntick = "0.05"\n')
    own = load_instruments(toml)["X"]
    assert own.named == {"symbol", "tick"}
    from quantdsl.data.events import open_data
    from quantdsl.data.spec import DataSpec, SourceSpec

    data = open_data(DataSpec(instruments=(SourceSpec(source=path, instrument=own),)))
    with pytest.raises(DataError, match=r"price 10.07 at 2024-01-03 .* tick 0.05 that your"):
        list(data.chunks())


def test_fractional_volume_gives_fractional_lots(tmp_path: Path) -> None:
    path = csv(tmp_path, "date,close,volume\n2024-01-02,10.05,1.25\n2024-01-03,10.07,0.5\n")
    data = one(path)
    assert data.instruments[0].lot == Fraction(1, 100)
    assert bars(data)["volume"].tolist() == [125, 50]


@pytest.mark.parametrize(
    ("symbol", "currency"),
    [("EURUSD", "USD"), ("usdjpy-m1", "JPY"), ("BTCUSDT", "USDT"), ("GOOG", "USD"), ("AUD", "USD")],
)
def test_currency_of_a_pair(tmp_path: Path, symbol: str, currency: str) -> None:
    path = csv(tmp_path, "date,close\n2024-01-02,1\n2024-01-03,2\n", f"{symbol}.csv")
    assert one(path).instruments[0].currency == currency


@given(st.integers(1, 10**9), st.integers(0, 9))
def test_fractions_are_shown_as_they_were_written(whole: int, digits: int) -> None:
    value = Fraction(whole, 10**digits)
    assert Fraction(show_fraction(value)) == value
    assert fraction(show_fraction(value), "tick") == value
    assert value * 10 ** (decimals(value) or 0) == int(value * 10 ** (decimals(value) or 0))


@pytest.mark.parametrize(
    "text",
    ["0", "-1", "x", "1/0", "nan", "inf", "1e400", "1e-999999999", "\uff11", "1" * 50, ""],
)
def test_what_is_no_step(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a positive number"):
        fraction(text, "tick")


def test_limits_hold_products_below_2_53() -> None:
    one_instrument = Instrument(symbol="X", tick=Fraction(1, 100), lot=Fraction(1))
    digits = money_digits([one_instrument])
    found = limits(one_instrument, 500.0, digits)
    assert digits == 6
    assert found.money_per_tick_lot == 10_000
    assert found.price_ticks_max == 200_000
    largest = found.price_ticks_max * found.money_per_tick_lot * found.position_lots_max
    assert largest < 2**53 <= largest + found.price_ticks_max * found.money_per_tick_lot


def test_money_that_cannot_be_exact_is_refused() -> None:
    fine = Instrument(symbol="X", tick=Fraction(1, 10**8), lot=Fraction(1, 10**8))
    with pytest.raises(LimitError, match="coarser tick or lot"):
        money_digits([fine])
    with pytest.raises(LimitError, match=r"highest price .* the limit is 2\^53"):
        check_exact(Instrument(symbol="X", tick=Fraction(1, 10**8)), 1e9, 1.0, 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("symbol = 3", "symbol is 3 but must be text"),
        ("instrument = [3]", "own.toml: this must be a table"),
        ('symbol = "X"\ntikc = 1', "unknown field `tikc`"),
        ('tick = "0.01"', r"holds no \[\[instrument\]\] table"),
        ("[[instrument]]\ntick = 1", "needs a symbol"),
        ("][", "is not TOML"),
    ],
)
def test_instrument_files_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_instruments(path)
