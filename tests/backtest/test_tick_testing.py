"""Test blocks of strategies on ticks: what is fed, what is given, what is said of what fails."""

from pathlib import Path

import pytest

from quantdsl.backtest.testing import run_tests

HEAD = """strategy S:
    {sources}
    param n = 3 in 2..9
    let slow = ts.ewm_mean(mid, 1s) + ts.mean(mid, n)
    state seen = 0
    state traded = 0
    state flow = 0
    on {event} when slow > 0.0:
        seen += 1
    {trades}
    risk:
        max_order = 100 shares
    test "one":
{steps}
"""
TRADES = "on trade:\n        traded += 1\n        flow += sign(trade.signed_qty)\n"


def outcomes(tmp_path: Path, steps: str, sources: str = "quotes", event: str = "quote") -> list:
    path = tmp_path / "s.qdsl"
    lines = "\n".join(f"        {line}" for line in steps.splitlines())
    trades = TRADES if "trades" in sources else ""
    path.write_text(
        HEAD.format(
            sources=sources.replace(" ", "\n    ", 1) if "trades" in sources else sources,
            event=event,
            trades=trades,
            steps=lines,
        )
    )
    return run_tests(path)


def passes(tmp_path: Path, steps: str, **more: str) -> None:
    for one in outcomes(tmp_path, steps, **more):
        assert one.passed, one.message


def test_mids_come_one_after_the_other(tmp_path: Path) -> None:
    steps = "feed mid = [100.00, 100.05, 99.98], spread = 4 ticks, qty = 300 shares\n"
    passes(
        tmp_path,
        steps + "expect float(bid) == 99.96 and float(ask) == 100.0\n"
        "expect bid_qty == 300 shares and mid[1] == 100.05 and seen > 3",
    )


def test_numbers_that_no_event_holds_fail_their_test(tmp_path: Path) -> None:
    """Of ticks and of bars: prices by their finest decimal, volumes, cash."""
    feed = "feed mid = [1e18, 100.5], spread = 4 ticks\nexpect seen > 1"
    said = [one.message for one in outcomes(tmp_path, feed)]
    path = tmp_path / "bars.qdsl"
    path.write_text(
        "language 1\n\nstrategy S:\n    bars 1d\n    on bar:\n        if flat:\n"
        "            buy(1 shares)\n\n    test \"price\":\n        feed close = [1e10, 0.0000001]\n"
        "        expect flat\n    test \"volume\":\n"
        "        feed close = [9, 9], volume = [1e300, 1]\n        expect flat\n"
        "    test \"cash\":\n        given cash = 1e30 USD\n        feed close = [9, 9]\n"
        "        expect flat\n"
    )
    said += [one.message for one in run_tests(path)]
    assert [one.partition(",")[0] for one in said] == [
        f"the test has a {what}" for what in
        ("price of 1e+18", "price of 1e+10", "volume of 1e+300", "cash of 1e+30")
    ]


def test_a_flat_quote_and_a_spread_in_price(tmp_path: Path) -> None:
    passes(
        tmp_path,
        "feed quotes = flat_quote(mid = 50.005, spread = 0.01)\n"
        "expect float(bid) == 50.0 and float(ask) == 50.01",
    )


def test_an_odd_spread_lies_between_two_ticks(tmp_path: Path) -> None:
    passes(tmp_path, "feed mid = [100.005], spread = 1 tick\nexpect spread == 1 tick")


def test_a_flat_book_has_as_much_at_every_level(tmp_path: Path) -> None:
    passes(
        tmp_path,
        "feed book = flat_book(mid = 100.00, spread = 2 ticks, qty = 500 shares)\n"
        "expect book.bid_qty[0] == 500 shares and book.bid_qty[4] == 500 shares\n"
        "expect float(book.depth_to(bid - 2 ticks)) == 1500.0 and book.imbalance() == 0.0\n"
        "expect book.microprice() == 100.0",
        sources="book depth = 5",
        event="book",
    )


def test_trades_take_the_side_that_they_reach(tmp_path: Path) -> None:
    passes(
        tmp_path,
        "feed mid = [100, 100, 100], trades = [100.01, 99.99, 100.02], size = 70 shares\n"
        "expect traded >= 3 and flow == 1 and trade.qty == 70 shares",
        sources="quotes trades",
    )


def test_what_is_given_is_not_held_by_the_limits(tmp_path: Path) -> None:
    passes(
        tmp_path,
        "given position = 800 shares\nfeed book = flat_book(mid = 100.00, qty = 500 shares)\n"
        "expect position == 800 shares and fills.count == 2",
        sources="book depth = 5",
        event="book",
    )


def test_a_wrong_expectation_is_told_with_the_account(tmp_path: Path) -> None:
    (one,) = outcomes(tmp_path, "feed mid = [100]\nexpect mid > 100.5")
    assert not one.passed
    assert "expected mid > 100.5\nposition 0 lots" in one.message


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("feed mid = [100.00], spread = 1 tick\nexpect flat", "leaves the grid"),
        ("feed trades = [100.00]\nexpect flat", "add 'feed mid"),
    ],
)
def test_a_feed_that_cannot_be(tmp_path: Path, steps: str, said: str) -> None:
    (one,) = outcomes(tmp_path, steps, sources="quotes trades")
    assert not one.passed
    assert said in one.message


def test_a_passive_price_may_lie_beyond_the_price_band(tmp_path: Path) -> None:
    text = """strategy S:
    quotes
    on quote:
        if order_count == 0:
            buy(10 shares, limit = bid - 100 ticks)
        elif order_count == 1:
            buy(10 shares, limit = ask + 100 ticks)
    risk:
        price_band = 50bps
    test "one":
        feed mid = [100.00, 100.00, 100.00]
        expect working.bid == 98.99 and flat
"""
    path = tmp_path / "s.qdsl"
    path.write_text(text)
    assert [one.message for one in run_tests(path)] == [""]


SAMPLE = Path(__file__).parents[2].parent / "shared" / "design" / "samples" / "skewed_maker.qdsl"


@pytest.mark.skipif(not SAMPLE.exists(), reason="the samples of the design are not here")
def test_the_maker_of_the_design_passes_its_own_test() -> None:
    assert [one.passed for one in run_tests(SAMPLE)] == [True]
