"""Lines of the risk block that limit repeats, and a check of one's own, in a run."""

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.check.checked import check_source
from quantdsl.events.layout import Kind
from quantdsl.lang.source import Source
from tests.std.core.core import members

TEXT = """language 1

fn small(price: float, size: float, position: float, equity: float) -> bool:
    return abs(size) * price <= 0.01 * equity and position < 35.0

strategy Repeats:
    "Buys 10 shares with each bar, at a limit that is never met or at once."

    bars 1h

    on bar:
        {orders}

    risk:
        max_position = 1_000 shares
        {limit}

    backtest:
        cash = 100_000 USD
"""
BARS = 12


def refusals(folder, orders, limit):
    """How many orders and cancels came through, and how many were refused for what."""
    start = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
    table = pa.table({
        "time": [start + dt.timedelta(hours=n) for n in range(BARS)],
        **{name: [100.0] * BARS for name in ("open", "high", "low", "close")},
        "volume": [1_000.0] * BARS,
    })
    path = folder / "repeats.qdsl"
    path.write_text(TEXT.format(orders=orders, limit=limit), encoding="utf-8")
    records = backtest(path, data=table).records
    reasons = members("risk.Reason")
    names = {Kind.ORDER: "sent", Kind.CANCEL: "cancelled", Kind.RISK: "risk"}
    kinds = [names.get(Kind(r["kind"]), reasons[r["flags"]]) for r in records
             if r["kind"] in (*names, Kind.REJECT)]
    return dict(Counter(kinds))


REST = "buy(10 shares, limit = 50 USD)"


@pytest.mark.parametrize(
    ("orders", "limit", "expected"),
    [
        # Two in any three hours: bars 1 and 2, 4 and 5 ...
        (REST, "max_order_rate = 2 / 3h", {"sent": 8, "max_order_rate": 4, "cancelled": 8}),
        (REST, "duplicate = 2h", {"sent": 6, "duplicate": 6, "cancelled": 6}),
        (REST, "max_executions = 3", {"sent": 3, "max_executions": 9, "cancelled": 3}),
        ("buy(10 shares)", "max_executions = 3", {"sent": 3, "max_executions": 9}),
        # 10 shares are the hundredth part of the money; with 40 held the check lets none pass.
        ("buy(10 shares)", "check = small", {"sent": 4, "own_check": 8}),
        ("buy(11 shares)", "check = small", {"own_check": BARS}),
        ("buy(11 shares)", "check = small -> halt", {"own_check": 1, "risk": 1, "halted": 11}),
    ],
)
def test_what_passes(tmp_path, orders, limit, expected):
    assert refusals(tmp_path, orders, limit) == expected


def test_cancels_beyond_their_rate_leave_the_order_where_it_is(tmp_path):
    """Each bar asks to cancel the order of the bar before: two pass in three hours."""
    found = refusals(tmp_path, f"cancel_all()\n        {REST}", "max_cancel_rate = 1 / 24h")
    assert found["sent"] == BARS
    assert found["max_cancel_rate"] == BARS - 2
    assert found["cancelled"] == BARS


def errors(limit):
    checked, found = check_source(Source(TEXT.format(orders=REST, limit=limit), "repeats.qdsl"))
    assert checked is None
    return [(one.code, one.message) for one in found if one.severity == "error"]


def test_a_check_that_does_not_fit_is_refused():
    assert errors("check = 3") == [("QD0804", "check is the name of a fn")]
    assert errors("check = nobody")[0][0] == "QD0804"
    text = TEXT.replace("equity: float) -> bool", "equity: float) -> float")
    text = text.replace("return abs(size) * price <= 0.01 * equity and position < 35.0",
                        "return equity")
    checked, found = check_source(Source(text.format(orders=REST, limit="check = small")))
    assert checked is None
    (error,) = [one for one in found if one.severity == "error"]
    assert error.code == "QD0807"
    assert "price: float" in error.help
