"""Every order type and option through the language, on bars made by hand."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.report import tables
from quantdsl.report.result import RunResult
from tests.orders.cases import CASES, FALLS, FEES, FLAT, Bar, Case

START = dt.datetime(2024, 1, 2, 21, tzinfo=dt.UTC)
STOCK = 'symbol = "STOCK"\ntick = "0.01"'
STRATEGY = """language 1

strategy Case:
    "Orders after given bars."

    bars 1h

    {param}
    state bar_count = 0

    on bar:
        bar_count += 1
{orders}
    risk:
        {risk}

    backtest:
        cash = {cash}
        close_at_end = false
        {settings}
"""


def run(folder: Path, case: Case, instrument: str = STOCK) -> RunResult:
    """The strategy of a case on its bars, an hour each."""
    lines = [
        line
        for after, orders in case.orders.items()
        for line in (
            f"        if bar_count == {after}:",
            *(f"            {order}" for order in orders.split("; ")),
        )
    ]
    strategy, config = folder / "case.qdsl", folder / "case.toml"
    text = STRATEGY.format(
        orders="\n".join(lines),
        risk=case.risk,
        cash=case.cash,
        settings=case.settings,
        param=case.param,
    )
    strategy.write_text(text, encoding="utf-8")
    named = f'[data]\ninstruments = "{folder / "instrument.toml"}"\n'
    config.write_text(named, encoding="utf-8")
    (folder / "instrument.toml").write_text(f"[[instrument]]\n{instrument}\n", encoding="utf-8")
    return backtest(strategy, data=table(case.bars), config=config)


def table(bars: tuple[Bar, ...]) -> pa.Table:
    columns = list(zip(*((*bar, 1000)[:5] for bar in bars), strict=True))
    names = ("open", "high", "low", "close", "volume")
    return pa.table(
        {
            "time": [START + dt.timedelta(hours=n) for n in range(len(bars))],
            **{
                name: [float(x) for x in column]
                for name, column in zip(names, columns, strict=True)
            },
        }
    )


def fills(result: RunResult) -> list[tuple[int, float, float]]:
    """(bar, signed quantity, price) of each fill."""
    return [
        (
            int((row["time"] - START) / dt.timedelta(hours=1)) + 1,
            row["quantity"] if row["side"] == "buy" else -row["quantity"],
            row["price"],
        )
        for row in tables.fills(result).to_pylist()
    ]


def ends(result: RunResult) -> list[str]:
    """Why orders ended short of their size, those that the end of the run cut off left out."""
    rows = tables.orders(result).to_pylist()
    return [row["reason"] for row in rows if row["reason"] not in ("", None, "run end")]


@pytest.mark.parametrize("name", CASES)
def test_orders_fill_as_the_rules_say(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    result = run(tmp_path, case)
    assert fills(result) == list(case.fills)
    assert ends(result) == list(case.ends)


@pytest.mark.parametrize("name", FEES)
def test_fees(name: str, tmp_path: Path) -> None:
    order, settings, fee = FEES[name]
    result = run(tmp_path, Case({1: order}, (FLAT, FALLS), settings=settings))
    assert tables.fills(result)["fee"].to_pylist() == [fee]


def test_a_short_pays_borrow_for_the_time_between_two_ends_of_day(tmp_path: Path) -> None:
    """100 shares at 100 for a day at 10 % a year of 365.25 days: 10,000 * 0.1 / 365.25."""
    case = Case({1: "short(100 shares)"}, (FLAT,) * 28, settings="borrow = 10%")
    paid = run(tmp_path, case).accumulators["financing_paid"]
    assert paid == round(10_000 * 0.1 / 365.25 * 10**6)


def test_a_multiplier_multiplies_profit(tmp_path: Path) -> None:
    case = Case(
        {1: "buy(2 contracts, take_profit = 101)"},
        (FLAT, (100, 101, 100, 101)),
        risk="max_position = 9 contracts",
    )
    result = run(tmp_path, case, 'symbol = "ES"\ntick = "0.25"\nmultiplier = "50"')
    assert fills(result) == [(2, 2, 100), (2, -2, 101)]
    assert tables.trades(result)["profit"].to_pylist() == [100.0]


PENDING = """language 1

strategy Waits:
    "Trades whenever no order of its own works."

    bars 1h

    on bar:
        if flat and not pending:
            buy({entry})
        elif long and not pending:
            {exits}

    backtest:
        cash = 100_000
        close_at_end = false
"""


@pytest.mark.parametrize(
    ("entry", "exits", "orders"),
    [
        # An exit of one's own works until it fills: it is sent once.
        ("100 shares", "sell(100 shares, limit = 150)", 2),
        ("100 shares", "sell(100 shares, stop = 50)", 2),
        # Lots of both signs do not make up for each other.
        ("9 shares", "buy(9 shares, limit = 50); sell(9 shares, limit = 150)", 3),
        # The exits of a bracket do not count: a new order on each of ten bars.
        ("100 shares, take_profit = 150, stop_loss = 50", "sell(100 shares)", 10),
    ],
)
def test_pending_tells_of_orders_of_ones_own(
    tmp_path: Path, entry: str, exits: str, orders: int
) -> None:
    path = tmp_path / "waits.qdsl"
    lines = "\n            ".join(exits.split("; "))
    path.write_text(PENDING.format(entry=entry, exits=lines), encoding="utf-8")
    result = backtest(path, data=table((FLAT,) * 10))
    assert result.accumulators["orders"] == orders
    assert result.accumulators["orders_rejected"] == 0


def test_each_order_is_shown_by_its_own_type(tmp_path: Path) -> None:
    orders = (
        "buy(9 shares)",
        "buy(9 shares, limit = 90)",
        "short(9 shares, stop = 90)",
        "buy(9 shares, stop = 110, limit = 111)",
        "buy(9 shares, touch = 90)",
        "short(9 shares, touch = 110, limit = 109)",
        "buy(9 shares, limit = 89, take_profit = 120, stop_loss = 80)",
        "buy(9 shares, limit = 88, trail = 3)",
    )
    case = Case({1: "; ".join(orders), 2: "sell(9 shares, trail = 5%)"}, (FLAT,) * 3, settings="")
    types = tables.orders(run(tmp_path, case))["type"].to_pylist()
    assert types == [
        *("market", "limit", "stop", "stop_limit", "market_if_touched", "limit_if_touched"),
        *("limit", "limit", "stop", "limit", "trailing_stop"),
        "trailing_stop",
    ]
