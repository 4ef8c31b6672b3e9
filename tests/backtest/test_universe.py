"""A strategy on a universe: files, membership over time, rebalances, and what is missing."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.run import run_checked
from quantdsl.backtest.signals import prepare_signals
from quantdsl.check import check_source
from quantdsl.errors import ConfigError, DataError
from quantdsl.events.layout import Kind
from quantdsl.lang.source import Source
from tests.std.universe import Panels, compiled, table, walks, write

TEXT = """language 1
strategy Members:
    "Half of equity in the members, in equal parts."
    bars 1d
    universe "ALL", point_in_time = true
    let one    = close / close
    let weight = xs.scale(one, gross = 50%)
    let there  = xs.count(one)
    at session_close - 5m:
        rebalance(weight, via = moc)
    plot(there)
    session "XNYS"
    risk:
        max_gross = 60% of equity
    backtest:
        cash = 1_000_000 USD
        fees = 1bps
"""


def members(folder: Path, rows: list[str]) -> dict[str, object]:
    return {"universe.members": write(folder, "members.csv", "symbol,entry,exit", rows)}


def test_membership_counts_from_its_day_on(tmp_path: Path) -> None:
    closes: dict[str, list[float | None]] = {name: [10.0] * 40 for name in ("A", "B", "C")}
    more = members(tmp_path, ["A,,", "B,2020-01-15,2020-01-24", "C,,2020-01-10"])
    run = Panels(TEXT, data=table(closes), more=more)
    seen = {}
    for bars in run.bars():
        day = str(np.datetime64(int(bars["ts_recv"][0]), "ns"))[:10]
        seen[day] = np.flatnonzero(~np.isnan(run.panel("weight"))).tolist()
    assert seen["2020-01-09"] == [0, 2]
    assert seen["2020-01-10"] == [0]
    assert seen["2020-01-14"] == [0]
    assert seen["2020-01-15"] == [0, 1]
    assert seen["2020-01-23"] == [0, 1]
    assert seen["2020-01-24"] == [0]


def test_a_rebalance_holds_the_weights_within_a_lot(tmp_path: Path) -> None:
    closes = walks(8, 60)
    more = members(tmp_path, [f"{name},," for name in closes])
    ran = run_checked(compiled(TEXT), Path("x"), data=table(closes), more=more)
    fills = ran.records[ran.records["kind"] == Kind.FILL]
    assert len(fills) > 100
    assert not np.any(ran.records["kind"] == Kind.REJECT)


def test_a_weight_of_own_bars_is_one_of_who_takes_part(tmp_path: Path) -> None:
    """B leaves the universe and is closed, C never passes, and D waits for its day."""
    text = TEXT.replace("point_in_time = true", "point_in_time = true, filter = close > 6")
    text = text.replace("xs.scale(one, gross = 50%)", "10% if one == 1 else 0%")
    closes: dict[str, list[float | None]] = {"A": [10.0] * 20, "B": [10.0] * 20}
    closes |= {"C": [5.0] * 20, "D": [10.0] * 20}
    more = members(tmp_path, ["A,,", "B,,2020-01-10", "C,,", "D,2020-01-15,"])
    ran = run_checked(compiled(text), Path("x"), data=table(closes), more=more)
    fills = ran.records[ran.records["kind"] == Kind.FILL]
    told = [
        (str(np.datetime64(int(fill["ts_recv"]), "ns"))[8:10], int(fill["instrument"]))
        for fill in fills
    ]
    assert told == [("03", 0), ("03", 1), ("10", 1), ("15", 3)]



def test_a_declared_maximum_changes_no_decision(tmp_path: Path) -> None:
    """The code is that of twelve, whoever is there; nobody trades in the places that are free."""
    most = TEXT.replace("point_in_time = true", "point_in_time = true, max = 12")
    closes = walks(8, 60)
    more = members(tmp_path, [f"{name},," for name in closes])
    one, other = (
        run_checked(compiled(text), Path("x"), data=table(closes), more=more)
        for text in (TEXT, most)
    )
    assert len(one.records) > 100
    assert one.records.tobytes() == other.records.tobytes()
    assert compiled(most).instruments == 12
    sizes = {
        arrange(compiled(most), data=table(walks(n, 9)), more=more).sized(compiled(most)).universe
        for n in (8, 11)
    }
    assert sizes == {12}


def test_more_than_the_declared_maximum_are_refused(tmp_path: Path) -> None:
    most = TEXT.replace("point_in_time = true", "point_in_time = true, max = 7")
    closes = walks(8, 30)
    more = members(tmp_path, [f"{name},," for name in closes])
    with pytest.raises(ConfigError, match="has 8 instruments and the strategy says max = 7"):
        run_checked(compiled(most), Path("x"), data=table(closes), more=more)


@pytest.mark.parametrize(
    ("universe", "message"),
    [
        ('"ALL", max = 2.5', "max is a number of instruments"),
        ('"ALL", max = 0', "max is a number of instruments"),
        ('"A", "B", "C", max = 2', "at most 2, and 3 are listed"),
    ],
)
def test_a_maximum_that_is_none_is_refused(universe: str, message: str) -> None:
    text = TEXT.replace('"ALL", point_in_time = true', universe)
    checked, diagnostics = check_source(Source(text, "x.qdsl"))
    assert checked is None
    assert any(message in one.message for one in diagnostics), diagnostics


@pytest.mark.parametrize(
    ("condition", "message"),
    [("close > 6", "nothing here asks the filter"), ("closed > 6", "there is no 'closed' here")],
)
def test_a_filter_that_nothing_asks_is_checked_and_told_of(condition: str, message: str) -> None:
    text = TEXT.split("    let one")[0] + "    on bar:\n        buy(1 share)\n"
    text = text.replace("point_in_time = true", f"filter = {condition}")
    _, diagnostics = check_source(Source(text, "x.qdsl"))
    assert message in [one.message for one in diagnostics]


def test_a_universe_that_never_gets_warm_is_told_of(tmp_path: Path) -> None:
    text = TEXT.split("    let one")[0] + """    let slow = ta.sma(close, 50)
    on bar:
        if flat and close > slow:
            buy(1 share)
    session "XNYS"
"""
    closes = walks(3, 20)
    more = members(tmp_path, [f"{name},," for name in closes])
    ran = run_checked(compiled(text), Path("x"), data=table(closes), more=more)
    (reason,) = ran.no_trade_reasons
    told = "'on bar' reads series that may need 50 bars to be defined, and the data have"
    assert 0 < len(ran.bars) <= 20
    assert reason == f"{told} {len(ran.bars)} bars"


def test_a_filter_that_lets_nobody_in_is_told_of(tmp_path: Path) -> None:
    """And a universe without a member before a warm-up that a range makes too long."""
    text = """language 1
strategy S:
    bars 1d
    universe "U", POINT
    session "XNYS"
    param n = 2 in 2..500
    let dear = close > 1_000_000 USD
    let x    = close / close[n] - 1
    at 15:45:
        rebalance(xs.weights(x))
"""
    closes = walks(3, 20)
    filtered = text.replace("POINT", "filter = dear").replace("2..500", "2..5")
    (reason,) = run_checked(compiled(filtered), Path("x"), data=table(closes)).no_trade_reasons
    assert reason.endswith("below its min_trade, or the filter let nobody in")
    more = members(tmp_path, [f"{name},2030-01-01," for name in closes])
    text = text.replace("POINT", "point_in_time = true")
    ran = run_checked(compiled(text), Path("x"), data=table(closes), more=more)
    assert ran.no_trade_reasons == (
        "no instrument was a member of the universe on a day of the data",
    )


def test_a_universe_without_a_member_is_told_of(tmp_path: Path) -> None:
    closes = walks(3, 20)
    spans = (",2019-01-01", "2030-01-01,", "2018-01-01,2019-01-01")
    more = members(tmp_path, [f"{name},{span}" for name, span in zip(closes, spans, strict=True)])
    ran = run_checked(compiled(TEXT), Path("x"), data=table(closes), more=more)
    assert ran.no_trade_reasons == (
        "no instrument was a member of the universe on a day of the data",
    )
    assert prepare_signals(compiled(TEXT), data=table(closes), more=more).empty_reasons == (
        ran.no_trade_reasons
    )


@pytest.mark.parametrize(
    ("universe", "told"),
    [('"S1"', True), ('"XNYS:s1"', True), ('"ALL"', False), ('"S1", "S2"', False)],
)
def test_a_universe_called_like_an_instrument_is_told_of(universe: str, told: bool) -> None:
    """It trades all of the data, where somebody may have meant the one."""
    text = TEXT.replace('"ALL", point_in_time = true', universe)
    closes = dict(zip(("S1", "S2", "S3"), walks(3, 5).values(), strict=True))
    found = prepare_signals(compiled(text), data=table(closes))
    assert told == any("whose instruments are all 3 of the data" in note for note in found.notes)


@pytest.mark.parametrize("universe", ['"ALL"', '"S1", "S2"'])
def test_a_table_that_does_not_say_whose_its_rows_are_is_refused(universe: str) -> None:
    """All of its text was taken for the symbol of an instrument."""
    text = TEXT.replace('"ALL", point_in_time = true', universe)
    rows = table(walks(1, 5)).drop_columns(["symbol"])
    with pytest.raises(DataError, match="no column says whose its rows are; it has date, open"):
        prepare_signals(compiled(text), data=rows)


def test_who_is_in_no_group_is_told_of(tmp_path: Path) -> None:
    text = TEXT.replace("xs.scale(one, gross = 50%)", "xs.demean(one, by = sector)")
    closes = walks(3, 20)
    first, second, third = closes
    more = members(tmp_path, [f"{name},," for name in closes])
    rows = [f"{first},tech", f"{second},"]
    more["universe.groups"] = write(tmp_path, "sectors.csv", "symbol,sector", rows)
    (note, *_) = prepare_signals(compiled(text), data=table(closes), more=more).notes
    assert note == (
        f"no file tells the sector of {second}, {third}: missing in what is done by sector"
    )


@pytest.mark.parametrize("rows", [["ZZ,tech"], ["ZZ,"], []], ids=["others", "blank", "empty"])
def test_a_file_of_groups_of_nobody_here_is_refused(rows: list[str], tmp_path: Path) -> None:
    text = TEXT.replace("xs.scale(one, gross = 50%)", "xs.demean(one, by = sector)")
    closes = walks(3, 20)
    more = members(tmp_path, [f"{name},," for name in closes])
    more["universe.groups"] = write(tmp_path, "sectors.csv", "symbol,sector", rows)
    with pytest.raises(DataError, match=r"sectors.csv: its column 'sector' is .*the run has "):
        run_checked(compiled(text), Path("x"), data=table(closes), more=more)


def test_one_instrument_in_two_groups_at_once_is_refused(tmp_path: Path) -> None:
    text = TEXT.replace("xs.scale(one, gross = 50%)", "xs.demean(one, by = sector)")
    closes = walks(2, 20)
    first, second = closes
    more = members(tmp_path, [f"{name},," for name in closes])

    def told(*rows: str) -> list[str]:
        more["universe.groups"] = write(tmp_path, "sectors.csv", "symbol,sector,from", [*rows])
        return prepare_signals(compiled(text), data=table(closes), more=more).notes

    once = (f"{first},tech,", f"{second},tech,")
    assert told(*once, f"{first},tech,") == told(*once, f"{first},oil,2030-01-02") == told(*once)
    with pytest.raises(DataError, match=rf"sectors.csv:4: {first} has another sector in line 2"):
        told(*once, f"{first},oil,")


def test_rebalances_that_leave_all_as_it_was_are_told_of(tmp_path: Path) -> None:
    text = TEXT.replace("via = moc", "via = moc, min_trade = 60%")
    more = members(tmp_path, ["A,,", "B,,"])
    closes: dict[str, list[float | None]] = {name: [10.0] * 9 for name in ("A", "B")}
    ran = run_checked(compiled(text), Path("x"), data=table(closes), more=more)
    (reason,) = ran.no_trade_reasons
    assert reason.startswith("no 'rebalance' changed a position: its weights were na, 0")


def test_what_is_held_of_who_ended_is_told_of(tmp_path: Path) -> None:
    closes: dict[str, list[float | None]] = {name: [10.0] * 40 for name in ("A", "B", "C")}
    closes["B"] = [10.0] * 14 + [None] * 26  # its last bar is that of the 14th
    more = members(tmp_path, ["A,,", "B,,", "C,,2020-01-10"])  # C is sold while it has bars
    ran = run_checked(compiled(TEXT), Path("x"), data=table(closes), more=more)
    told = [note for note in ran.notes if "held to the end" in note]
    assert told == ["B: held to the end at the price of 2020-01-14 21:00 UTC: no bar came since"]


def test_adjusted_prices_that_no_file_adjusts_are_told_of() -> None:
    text = """language 1
strategy Adjusted:
    bars 1d, adjust = splits
    universe "ALL"
    let ret = adj.close / adj.close[1] - 1
    plot(xs.mean(ret))
"""
    told = "adjust = splits, and data.actions names no file of splits: adj.close is close"
    assert told in prepare_signals(compiled(text), data=table(walks(2, 9))).notes
    assert told not in prepare_signals(compiled(text)).notes  # of the built-in market


def test_what_no_file_tells_is_one_error_that_names_the_file() -> None:
    text = TEXT.replace("xs.scale(one", "xs.scale(xs.demean(one, by = sector)")
    with pytest.raises(ConfigError, match=r"members = .*line 5(.|\n)*groups = .*sector, line 7"):
        Panels(text, data=table(walks(3, 9)))


def test_a_symbol_without_bars_is_named(tmp_path: Path) -> None:
    more = members(tmp_path, ["A000,,", "ZZZ,,"])
    with pytest.raises(DataError, match=r"no bars of ZZZ, which .*members.csv names"):
        Panels(TEXT, data=table(walks(3, 9)), more=more)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["A000,2020-02-01,2020-01-01"], r"members.csv:2: A000 leaves on 2020-01-01"),
        (["A000,,2020-02-01", "A000,2020-01-15,"], r"members.csv:3: A000 enters before it has"),
        (["A000,soon,"], r"members.csv:2: 'soon' is no date"),
        (["", "A000,soon,"], r"members.csv:3: 'soon' is no date"),
        (["A000,2020-01-011,"], r"members.csv:2: '2020-01-011' is no date"),
        (["A000,,", ",2020-01-01,"], r"members.csv:3: has no symbol"),
        (["A000,,", "A001,,,x"], r"members.csv:3: has more cells than the header has columns"),
        (["A" * 200_000 + ",,"], r"members.csv: is no table of comma-separated values: field"),
    ],
)
def test_a_bad_line_is_named(rows: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        Panels(TEXT, data=table(walks(1, 9)), more=members(tmp_path, rows))


def test_a_list_that_names_nobody_is_refused(tmp_path: Path) -> None:
    """It stood for all that the data hold."""
    listed = write(tmp_path, "list.csv", "symbol", [])
    with pytest.raises(DataError, match=r"list.csv: names no instrument"):
        Panels(TEXT, data=table(walks(3, 9)), more={"universe.symbols": listed})


@pytest.mark.parametrize(("sign", "word"), [(";", "semicolons"), ("\t", "tabs")])
def test_another_separator_than_commas_is_named(sign: str, word: str, tmp_path: Path) -> None:
    header = sign.join(("symbol", "entry", "exit"))
    file = write(tmp_path, "members.csv", header, [f"A000{sign}{sign}"])
    with pytest.raises(DataError, match=f"members.csv: its first line is separated by {word}"):
        Panels(TEXT, data=table(walks(1, 9)), more={"universe.members": file})


EACH = """language 1
strategy Each:
    "Long who rises."
    bars 1d
    universe "ALL"
    let up = {close} > {close}[1]
    on bar:
        if up and {position} == 0 shares:
            buy({buys}20 shares)
        elif not up:
            close_position({closes})
    session "XNYS"
    risk:
        max_gross = 100% of equity
    backtest:
        fees = 1bps
"""
BARE = {"close": "close", "position": "position", "buys": "", "closes": ""}
OWN = {"close": "this.close", "position": "this.position", "buys": "this, ", "closes": "this"}


def test_this_is_the_instrument_that_a_bare_name_is_about() -> None:
    data = table(walks(5, 60))
    bare, own = (
        run_checked(compiled(EACH.format(**words)), Path("x"), data=data) for words in (BARE, OWN)
    )
    assert np.count_nonzero(own.records["kind"] == Kind.FILL) > 50
    assert own.records.tobytes() == bare.records.tobytes()


def test_this_is_nobody_where_a_handler_runs_once() -> None:
    text = EACH.format(**OWN).replace("on bar:", "at 15:45:")
    checked, diagnostics = check_source(Source(text, "each.qdsl"))
    assert checked is None
    assert "QD0307" in {one.code for one in diagnostics}
