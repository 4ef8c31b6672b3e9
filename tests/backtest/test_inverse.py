"""An inverse contract is recorded and charted; an order on it is refused with its reason."""

import gzip
import itertools

import pytest

import quantdsl
from bench.gpu_maker import STRATEGY
from quantdsl.data.instrument import Instrument
from quantdsl.data.scan import coin_margined
from tests.backtest.test_currencies import BARS, INSTRUMENT, SOURCE
from tests.std.book.recordings import path as recording


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


@pytest.mark.parametrize(
    ("symbol", "inverse"),
    [
        ("BTCUSD_PERP", True),
        ("ETHUSD_240927", True),
        ("btcusd_perp", True),
        ("BTCUSDT_240927", False),
        ("BTCUSD", False),
        ("USD_PERP", False),
    ],
)
def test_a_name_says_that_a_contract_is_inverse(symbol, inverse):
    assert coin_margined(symbol) == inverse


def test_an_order_on_a_recorded_coin_margined_contract_is_refused(tmp_path):
    recorded, cut = recording("ws/binance_hftbacktest/cm_btcusd_perp_20240808.gz"), tmp_path / "cut"
    with gzip.open(recorded, "rt") as text:
        cut.write_text("".join(itertools.islice(text, 5_000)))
    report = quantdsl.backtest(STRATEGY, cut)
    assert {one["reason"] for one in report.orders.to_pylist()} == {"inverse contract"}
    assert any("inverse: charted, not traded (by its name)" in note for note in report.result.notes)
