"""An account holds one currency: another needs a rate, and without one the run is refused."""

import pyarrow as pa
import pytest

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
