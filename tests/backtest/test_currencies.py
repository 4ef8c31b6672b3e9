"""An account holds one currency: another needs a rate, and without one the run is refused."""

import pyarrow as pa
import pytest
from pyarrow import csv

import quantdsl
from quantdsl.errors import ConfigError

SOURCE = """language 1

strategy S:
    instrument "A" as a
    bars 1m

    on bar:
        if bar_index == 1:
            buy(a, 10 shares)
        elif bar_index == 3:
            close_position(a)

    backtest:
        {cash}
        fees     = 0bps
        slippage = 0 ticks

    risk:
        max_position = 10 shares
"""
CLOSES = [10.0, 10.0, 10.0, 12.0, 12.0, 12.0]
BARS = pa.table(
    {"time": [1704189600 + 60 * i for i in range(6)], "volume": [1000] * 6}
    | dict.fromkeys(("open", "high", "low", "close"), CLOSES)
)
INSTRUMENT = '[[instrument]]\nsymbol = "A"\ntick = "0.01"\nlot = "1"\ncurrency = "EUR"\n'


@pytest.fixture
def run(tmp_path):
    def made(cash="cash     = 1_000 USD", account=""):
        (tmp_path / "a.toml").write_text(INSTRUMENT)
        (tmp_path / "s.qdsl").write_text(SOURCE.format(cash=cash))
        config = tmp_path / "c.toml"
        config.write_text(f'[data]\ninstruments = "{tmp_path / "a.toml"}"\n[account]\n{account}\n')
        return quantdsl.backtest(tmp_path / "s.qdsl", BARS, config=config)

    return made


def test_another_currency_without_a_rate_is_refused(run):
    with pytest.raises(ConfigError, match=r"A is in EUR and the account in USD: no rate"):
        run()


def test_a_rate_turns_gains_into_the_accounts_money(run):
    report = run(account="rates = { EUR = 1.25 }")
    assert report.metrics["net_profit"] == 10 * (12 - 10) * 1.25
    assert "1 EUR counts as 1.25 USD, the whole run long" in report.result.notes


@pytest.mark.parametrize(
    ("cash", "account"),
    [("cash     = 1_000 EUR", ""), ("close_at_end = false", "")],
)
def test_an_account_in_the_instruments_own_currency_needs_none(run, cash, account):
    report = run(cash, account)
    assert report.result.currency == "EUR"
    assert report.metrics["net_profit"] == 20


def test_a_file_that_counts_in_another_currency_is_refused(run):
    with pytest.raises(ConfigError, match="the strategy counts in USD and the account in EUR"):
        run("cash     = 1_000 USD", 'currency = "EUR"')


PLAIN = """language 1

strategy S:
    bars 1m

    on bar:
        if flat and close > close[1]:
            buy(10 shares)

    backtest:
        {cash}
        fees = 0bps

    risk:
        max_position = 10 shares
"""


@pytest.mark.parametrize(
    ("name", "cash", "told"),
    [
        ("BTCUSDT", "close_at_end = true", "in USDT, and the account is in USD"),
        ("KO", "cash = 1_000 EUR", "in USD, and the account is in EUR"),
        ("BTCUSDT", "cash = 1_000 USDT", ""),
        ("KO", "close_at_end = true", ""),
    ],
)
def test_an_assumed_currency_that_is_not_the_accounts_is_told(tmp_path, name, cash, told):
    """Once, in place of an account in dollars that trades USDT without a word."""
    path = tmp_path / f"{name}.csv"
    csv.write_csv(BARS, path)
    report = quantdsl.compile(PLAIN.format(cash=cash)).backtest(path)
    found = [note for note in report.result.notes if "the account is in" in note]
    assert len(found) == (told != "")
    assert all(note.startswith(f"{name} is assumed to be {told}: 1 ") for note in found)
