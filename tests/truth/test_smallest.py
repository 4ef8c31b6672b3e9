"""What the outside programs showed to be wrong here once, each as the smallest case of it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.events.layout import Kind
from quantdsl.report import tables
from quantdsl.report.result import RunResult

HOUR_NS = 3_600_000_000_000


def ran(tmp_path: Path, body: str, close: list[float], instrument: str = "") -> RunResult:
    """A strategy of `body` on bars that open and stay at `close`."""
    strategy = tmp_path / "s.qdsl"
    strategy.write_text(f'language 1\n\nstrategy S:\n    "A case."\n\n    bars 1h\n{body}')
    config = tmp_path / "c.toml"
    config.write_text("")
    if instrument:
        (tmp_path / "i.toml").write_text(f"[[instrument]]\n{instrument}\n")
        config.write_text(f'[data]\ninstruments = "{tmp_path / "i.toml"}"\n')
    prices = np.array(close)
    time = pa.array(np.arange(len(prices)) * HOUR_NS, pa.timestamp("ns", "UTC"))
    bars = dict.fromkeys(("open", "high", "low", "close"), prices)
    table = pa.table({"time": time, **bars, "volume": np.full(len(prices), 1e6)})
    return backtest(strategy, data=table, config=config)


def plotted(result: RunResult, name: str) -> np.ndarray:
    return next(plot.values for plot in result.plots if plot.name == name)


def test_a_field_of_a_result_has_history(tmp_path: Path) -> None:
    """It was 0 for ever, so that a supertrend turned on every bar."""
    close = np.round(100 + 5 * np.sin(np.arange(80) / 3), 2).tolist()
    result = ran(
        tmp_path,
        """
    let trend = ta.supertrend(1.0, 3).direction
    let value = ta.supertrend(1.0, 3).value
    plot(trend, "now")
    plot(trend[1], "before")
    plot(value, "value")
    plot(value[2], "earlier")
""",
        close,
    )
    for name, before, steps in (("now", "before", 1), ("value", "earlier", 2)):
        past = plotted(result, before)
        assert np.array_equal(past[10:], plotted(result, name)[10 - steps : -steps])
        assert len(np.unique(past[10:])) > 1


def test_a_price_computed_in_floats_keeps_its_tick(tmp_path: Path) -> None:
    """1.15 * 100 is below 115, so a limit at 1.15 rested at 1.14; a stop a tick below slid too."""
    close = [1.15, 1.13, 1.09, 0.29, 0.57, 1.1, 2.3, 4.35, 8.7]
    result = ran(
        tmp_path,
        """
    let base = ta.lowest(low, 1)

    on bar:
        cancel_all()
        buy(1 units, limit = base - 0.01)
        short(1 units, stop = base - 1 ticks)
        short(1 units, limit = base + 0.01)
""",
        close,
        'symbol = "S"\ntick = "0.01"\nlot = "1"\ncurrency = "USD"',
    )
    orders = tables.orders(result).to_pydict()
    assert orders["type"] == ["limit", "stop", "limit"] * len(close)
    below, above = ([round(price + by, 2) for price in close] for by in (-0.01, 0.01))
    assert orders["limit"][0::3] == below
    assert orders["trigger"][1::3] == below
    assert orders["limit"][2::3] == above


def test_equal_averages_of_prices_are_equal(tmp_path: Path) -> None:
    """Two roundings made an average of 12 and one of 26 equal prices differ, and cross."""
    steps = np.repeat(np.random.default_rng(1).integers(5_000, 50_000, 300) / 100, 26)
    result = ran(
        tmp_path,
        """
    plot(ta.sma(close, 12), "fast")
    plot(ta.sma(close, 26), "slow")
    plot(ta.wma(close, 26), "weighted")
""",
        steps.tolist(),
    )
    for name in ("fast", "slow", "weighted"):
        assert np.array_equal(plotted(result, name)[25::26], steps[25::26]), name


@pytest.mark.parametrize("side", ["buy", "short"])
def test_a_position_of_four_billion_lots_closes(side: str, tmp_path: Path) -> None:
    """Two sizes were multiplied to compare their signs, and 4e9 * 4e9 is no int."""
    result = ran(
        tmp_path,
        f"""
    on bar:
        if flat and bar_index < 3:
            {side}(40 units)
        elif bar_index > 3:
            close_position()
""",
        [10.0] * 8,
        'symbol = "S"\ntick = "0.01"\nlot = "0.00000001"\ncurrency = "USD"',
    )
    assert np.abs(result.of_kind(Kind.FILL)["b"]).tolist() == [4 * 10**9, 4 * 10**9]
    assert len(tables.trades(result)) == 1


def test_an_order_sized_at_its_fill_is_filled(tmp_path: Path) -> None:
    """The table of orders held what it bought against an estimate and called it partly filled."""
    result = ran(
        tmp_path,
        """
    on bar:
        if bar_index == 1:
            buy(value = 100% of equity, size_at = fill)
""",
        [10.0, 10.0, 13.0],
        'symbol = "S"\ntick = "0.01"\nlot = "0.001"\ncurrency = "USD"',
    )
    table = tables.orders(result).to_pydict()
    bought = [7_692.307]
    assert (table["status"], table["quantity"], table["filled"]) == (["filled"], bought, bought)
