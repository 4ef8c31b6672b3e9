"""Money stays a whole number below 2^53: what an account would pay for beyond that is said."""

import pyarrow as pa
import pytest

import quantdsl
from quantdsl.errors import LimitError

ALL_IN = """language 1

strategy AllIn:
    bars 1d

    on bar:
        if flat and not pending:
            buy(value = 95% of equity)

    backtest:
        cash = {cash} USD
"""


def run(tmp_path, cash: str, closes: list[float], volume: float = 1_000.0):
    (tmp_path / "s.qdsl").write_text(ALL_IN.format(cash=cash))
    days = [19_000 * 86_400 + 86_400 * day for day in range(len(closes))]
    prices = dict.fromkeys(("open", "high", "low", "close"), closes)
    table = pa.table({"time": days, **prices, "volume": [volume] * len(closes)})
    return quantdsl.backtest(tmp_path / "s.qdsl", table)


COIN = [60_000.01, 60_000.02, 60_000.01]
ADJUSTED = [0.26398815170770645, 0.2640123456789, 180.1234567891]


def test_an_account_of_more_money_units_than_are_exact_is_refused(tmp_path):
    """A price of hundredths and a size of millionths make units of 1e-8."""
    with pytest.raises(LimitError) as raised:
        run(tmp_path, "200_000_000", COIN, volume=1.234567)
    assert "account.cash = 200,000,000 USD is 2e+16 money units of 1e-8" in str(raised.value)
    assert "one tick (0.01) of one lot (0.000001)" in str(raised.value)
    bought = run(tmp_path, "20_000_000", COIN, volume=1.234567)
    assert bought.fills["quantity"][0].as_py() == pytest.approx(19e6 / 60_000, rel=1e-3)


@pytest.mark.parametrize(
    ("closes", "volume"),
    [(ADJUSTED, 1_000.0), ([5.55, 5.56, 108_000.01], 2012.25343589)],
    ids=["adjusted", "coin"],
)
def test_inferred_steps_let_the_usual_account_in_at_the_lowest_price(tmp_path, closes, volume):
    """A tick of 1e-8 let it buy for 33,000, lots of 1e-6 for 1,200, and nothing said so."""
    bought = run(tmp_path, "100_000", closes, volume).fills
    worth = bought["quantity"][0].as_py() * bought["price"][0].as_py()
    assert worth == pytest.approx(95_000, rel=0.002)


def test_a_position_that_cannot_be_counted_is_said(tmp_path):
    """Prices of many decimals make a tick so fine that few of their shares fit below 2^53."""
    said = [note for note in run(tmp_path, "1_000_000", ADJUSTED).result.notes if "2^53" in note]
    bought = run(tmp_path, "1_000_000", ADJUSTED).fills["quantity"][0].as_py()
    assert len(said) == 1
    assert f"{bought:,.0f} units are held at most" in said[0]
    assert not any("2^53" in note for note in run(tmp_path, "10_000", ADJUSTED).result.notes)
