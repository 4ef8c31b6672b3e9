"""An inverse contract is recorded and charted; an order on it is refused with its reason."""

import pytest

import quantdsl
from quantdsl.data.instrument import Instrument
from tests.backtest.test_currencies import BARS, INSTRUMENT, SOURCE


@pytest.fixture
def run(tmp_path):
    def made(flag):
        (tmp_path / "a.toml").write_text(INSTRUMENT.replace("EUR", "USD") + flag)
        (tmp_path / "s.qdsl").write_text(SOURCE.format(cash="cash     = 1_000 USD"))
        config = tmp_path / "c.toml"
        config.write_text(f'[data]\ninstruments = "{tmp_path / "a.toml"}"\n')
        return quantdsl.backtest(tmp_path / "s.qdsl", BARS, config=config)

    return made


def test_an_order_on_an_inverse_contract_is_refused(run):
    report = run("inverse = true\n")
    orders = report.orders.to_pylist()
    assert [one["reason"] for one in orders] == ["inverse contract"]
    assert report.metrics["trades"] == 0
    assert report.metrics["net_profit"] == 0
    assert len(report.result.bars) == len(BARS)


def test_what_is_assumed_of_it_says_so():
    assert "inverse: charted, not traded" in Instrument(symbol="A", inverse=True).statement()
    assert "inverse" not in Instrument(symbol="A").statement()


@pytest.mark.parametrize("flag", ["", "inverse = false\n"])
def test_any_other_is_traded(run, flag):
    report = run(flag)
    assert report.metrics["net_profit"] == 10 * (12 - 10)
