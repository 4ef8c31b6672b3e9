"""Indicators against TradingView's and TA-Lib's outputs, and the table that reports it."""

import pytest

from tests.std import parity

pytestmark = pytest.mark.skipif(
    not parity.available(), reason="needs the reference outputs in ../shared/data"
)


@pytest.mark.parametrize("row", parity.rows(), ids=lambda row: f"{row.source}: {row.function}")
def test_agrees(row: parity.Row) -> None:
    found = parity.outcome(row)
    assert found.compared >= 10
    assert found.one_sided == 0
    assert found.apart == row.apart


def test_every_exported_column_is_compared() -> None:
    compared = {(row.market, row.column) for row in parity.rows()}
    for name in {row.market for row in parity.rows()}:
        computed = {column for column in parity.market(name).columns
                    if name == "GOOG 1d" or column.startswith("ta.")}
        missing = {column for column in computed if (name, column) not in compared}
        assert missing == ({"HT_TRENDLINE"} if name == "GOOG 1d" else set())


def test_the_committed_table_is_current() -> None:
    expected = "\n".join(parity.lines(parity.rows())) + "\n"
    assert parity.TABLE.read_text(encoding="utf-8") == expected, (
        "run `python -m tests.std.parity`"
    )
