"""Test blocks of strategies on a universe: what is fed, what is given, what is told of failures."""

from pathlib import Path

import pytest

from quantdsl.backtest.testing import run_tests
from quantdsl.lang.diagnostics import SourceError

HEAD = """strategy S:
    bars {bars}
    universe "ALL"{universe}
    session "XNYS"
    param n = 3 in 2..4
    let move   = close - ts.mean(close, n)
    let weight = xs.weights({move}, gross = 80%)
    let crowd  = xs.count(close)
    state bars_seen = 0
    on bar:
        bars_seen += 1
    at {when}:
        rebalance(weight, via = {via})
    risk:
        max_gross = 200% of equity
    test "one":
{steps}
"""
PLAIN = {"bars": "1d", "universe": "", "move": "move", "when": "15:45", "via": "moc"}
THREE = "feed A = [10, 10, 11, 12], B = [10, 10, 9, 8], C = [10, 10, 10, 10]\n"


def outcomes(tmp_path: Path, steps: str, **more: str) -> list:
    lines = "\n".join(f"        {line}" for line in steps.splitlines())
    path = tmp_path / "s.qdsl"
    path.write_text(HEAD.format(**{**PLAIN, **more}, steps=lines))
    return run_tests(path)


def passes(tmp_path: Path, steps: str, **more: str) -> None:
    for one in outcomes(tmp_path, steps, **more):
        assert one.passed, one.message


def refused(tmp_path: Path, steps: str) -> str:
    with pytest.raises(SourceError) as error:
        outcomes(tmp_path, steps)
    return str(error.value)


def test_each_instrument_is_asked_by_its_name(tmp_path: Path) -> None:
    # At 15:45 of the fourth day three closes are known: 11, 9 and 10 against 31/3, 29/3 and 10.
    passes(
        tmp_path,
        THREE + "expect A.weight == 0.4 and B.weight == -0.4 and C.weight == 0.0\n"
        "expect A.long and B.position < 0 shares and C.flat\n"
        "expect float(A.close) == 12.0 and A.close > B.close and crowd == 3",
    )


def test_a_bar_has_the_close_before_as_its_open_and_a_range_around(tmp_path: Path) -> None:
    steps = "feed A = [10, 12], B = [10, 10], range = 1\n"
    passes(
        tmp_path,
        steps + "expect float(A.open) == 10.0 and float(A.high) == 12.5\n"
        "expect float(A.low) == 9.5 and float(B.high) == 10.5",
    )


def test_a_gap_an_end_and_a_late_listing(tmp_path: Path) -> None:
    steps = "feed A = [10, 10, 10, 12], B = [10, 10, 9], C = [na, na, 10, 11], D = [10, na, 9, 8]\n"
    passes(
        tmp_path,
        steps + "expect crowd == 3 and A.weight is not na\n"
        "expect B.weight is na and C.weight is na and D.weight is not na",
    )


def test_one_instrument_needs_no_name(tmp_path: Path) -> None:
    steps = "feed close = [10, 11, 12]\n"
    passes(tmp_path, steps + "expect float(close) == 12.0 and long and crowd == 1")


def test_bars_within_the_day_close_within_sessions(tmp_path: Path) -> None:
    # 13 bars a session: the timer at 12:00 comes when the fifth bar has closed.
    rise = "feed A = repeat([10], 12) + [11, 12, 13, 14, 15, 16], B = repeat([10], 18)\n"
    passes(
        tmp_path,
        rise + "expect A.flat and B.flat",
        bars="30m",
        when="12:00",
        via="market",
    )
    longer = rise.replace("15, 16]", "15, 16, 17]").replace("18)", "19)")
    passes(tmp_path, longer + "expect A.long", bars="30m", when="12:00", via="market")


def test_groups_and_members_are_given(tmp_path: Path) -> None:
    steps = "given sector = [0, 0, 1, 1], member = [1, 1, 1, 0]\n"
    steps += THREE.replace(", C", ", D = [10, 10, 12, 12], C")
    passes(
        tmp_path,
        steps + "expect C.weight is na and crowd == 3\n"
        "expect A.weight == 0.4 and B.weight == -0.4 and D.weight == 0.0",
        universe=", point_in_time = true",
        move="xs.demean(move, by = sector)",
    )


def test_days_and_weeks_are_those_of_the_calendar(tmp_path: Path) -> None:
    # Tuesday to Friday: the week ends with the fourth bar.
    short = THREE.replace(", 12]", "]").replace(", 8]", "]").replace("10, 10]", "10]")
    passes(tmp_path, short + "expect A.flat", when="15:45 on week_end")
    passes(tmp_path, THREE + "expect A.long", when="15:45 on week_end")


def test_an_expectation_that_fails_names_who_holds_what(tmp_path: Path) -> None:
    (one,) = outcomes(tmp_path, THREE + "expect B.long")
    assert not one.passed
    assert "expected B.long\nposition A 3636, B -4444, C 0 lots" in one.message


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("feed A = [1, 2]\nexpect flat", "of which instrument"),
        ("feed A = [1, 2]\nexpect B.flat", "there is no 'B' here"),
        ("feed A = [1, 2]\nexpect A.nothing", "there is no 'nothing' in an instrument of the test"),
        ("feed A = [1, 2]\nexpect A.close[1] > 1.0", "write it as an equation"),
        ("feed A = [1, 2], close = [1, 2]\nexpect crowd == 1", "of which instrument"),
        ("feed close = [1, 2], A = [1, 2]\nexpect crowd == 1", "one instrument without a name"),
        ("given sector = [0]\nfeed A = [1], B = [2]\nexpect crowd == 1", "sector of 1"),
        ("given sector = 3\nfeed A = [1]\nexpect crowd == 1", "a list of whole numbers"),
        ("given position = 3 shares\nfeed A = [1]\nexpect crowd == 1", "no 'position' to be given"),
    ],
)
def test_a_feed_that_cannot_be(tmp_path: Path, steps: str, said: str) -> None:
    assert said in refused(tmp_path, steps)
