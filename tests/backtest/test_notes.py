"""What a report notes of a strategy and its data."""

import datetime as dt
from pathlib import Path

import pytest

from quantdsl.backtest.prepare import arrange
from quantdsl.backtest.run import run_checked
from quantdsl.check import compile_file
from quantdsl.errors import ConfigError
from quantdsl.report.metrics import evaluate
from quantdsl.shipped import shipped
from tests.backtest.test_lane_entry import checked_text

TEXT = """language 1

strategy Woken:
    bars {bars}
    session "XNYS"

    {when}:
        if flat:
            buy(10 shares)

    backtest:
        fees = 1bps
"""


@pytest.mark.parametrize(
    ("bars", "when", "said"),
    [
        ("1d", "at 15:45", "at 15:45 lies inside a bar of 1d"),
        ("30m", "at 15:45", "at 15:45 lies inside a bar of 30m"),
        ("15m", "at 15:45", ""),
        ("5m", "every 2m", "every 2m lies inside a bar of 5m"),
        ("1m", "every 2m", ""),
        ("1d", "at 16:00", ""),
    ],
)
def test_a_timer_inside_a_bar_is_noted(bars, when, said):
    notes = arrange(checked_text(TEXT.format(bars=bars, when=when))).notes
    assert [note for note in notes if "lies inside" in note] == [
        note for note in notes if said and note.startswith(said)
    ]
    assert any(said in note for note in notes) or not said


MAKER = """language 1

strategy Maker:
    book depth = 5

    on book:
        buy(1 lot)

    backtest:
        fees = 1bps
"""
AT = 1_704_292_200_000_000_000
BOTH = [f"{AT},bid,300.00,5,true", f"{AT},ask,300.02,5,true"]
FAR = [f"{AT},bid,{299.99 - 0.01 * level:.2f},5,true" for level in range(20_000)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], None),
        (FAR[:10_000], None),
        (FAR, "T: 10,290 levels were more than the book keeps, until a snapshot"),
        (
            [f"{AT + 1},bid,300.05,5,false", f"{AT + 2},ask,300.05,5,false"],
            "T: the book was crossed after 2 messages: no order met it then",
        ),
        (
            [f"{AT + 1},bid,300.02,5,false", f"{AT + 2},bid,300.03,1,false"],
            "T: the book was crossed after 1 messages, locked after 1 messages: "
            "no order met it then",
        ),
    ],
)
def test_a_book_that_was_no_market_is_noted(rows, said, tmp_path):
    """The core counted it; nobody was told."""
    path = tmp_path / "T.csv"
    path.write_text("\n".join(["time,side,price,size,is_snapshot", *BOTH, *rows, ""]))
    notes = run_checked(checked_text(MAKER), Path("maker.qdsl"), data=str(path)).notes
    assert [note for note in notes if "the book" in note and note.startswith("T:")] == (
        [said] if said else []
    )


@pytest.mark.parametrize(
    ("source", "rows", "said"),
    [
        ("quotes", ["time,bid,ask", f"{AT},10.00,10.02"], []),
        (
            "trades",
            ["time,price,size", f"{AT},10.00,5"],
            ["without quotes mark-outs go by the last trade, or are na"],
        ),
        (
            "book depth = 5",
            ["time,side,price,size,is_snapshot", *BOTH],
            ["mark-outs go by the middle of the book"],
        ),
    ],
)
def test_what_mark_outs_go_by_is_said(source, rows, said, tmp_path):
    path = tmp_path / "T.csv"
    path.write_text("\n".join([*rows, ""]))
    event = source.split()[0].removesuffix("s")
    text = MAKER.replace("book depth = 5", source).replace("on book", f"on {event}")
    execution = run_checked(checked_text(text), Path("maker.qdsl"), data=str(path)).execution
    assert [one for one in execution.assumptions if "mark-outs" in one] == said


MISTAKES = [
    ("sma_cross", 'session = "MOON"', "own.toml:3: data.session: calendar 'MOON' is not known"),
    ("skewed_maker", 'session = "MOON"', "own.toml:3: data.session: calendar 'MOON' is not known"),
    ("skewed_maker", "[venue]\nlatency_file = 'no'", "own.toml:4: venue.latency_file: no: "),
]


@pytest.mark.parametrize(("name", "line", "said"), MISTAKES)
def test_what_only_the_data_show_is_told_with_the_line_that_asks_for_it(tmp_path, name, line, said):
    config = tmp_path / "own.toml"
    config.write_text(f"[data]\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        arrange(compile_file(shipped(f"strategies/{name}.qdsl")), config=config)


def test_a_session_of_no_calendar_is_told_with_the_line_of_the_strategy(tmp_path):
    config = tmp_path / "own.toml"
    config.write_text("[data]\nseed = 2\n", encoding="utf-8")
    path = tmp_path / "moon.qdsl"
    text = TEXT.format(bars="5m", when="on bar").replace("XNYS", "MOON")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^\S*moon.qdsl:5: calendar 'MOON' is not known"):
        arrange(compile_file(path), config=config)


def test_bars_of_a_config_that_ticks_do_not_take_are_noted(tmp_path):
    config = tmp_path / "own.toml"
    config.write_text('[data]\nbars = "1d"\n', encoding="utf-8")
    notes = arrange(compile_file(shipped("strategies/skewed_maker.qdsl")), config=config).notes
    assert sum(n.startswith("config own.toml: data.bars = 1d is not used") for n in notes) == 1


CONTRACTS = """language 1

strategy Contracts:
    bars 1d

    on bar:
        if flat:
            buy({size})

    backtest:
        fees = {fees}
"""
INSTRUMENT_FILE = """
[[instrument]]
symbol = "SYN1"
tick = "0.01"
lot = "1"
currency = "USD"
{multiplier}
"""


@pytest.mark.parametrize(
    ("size", "fees", "file", "said"),
    [
        ("1 contract", "1bps", "", True),
        ("1 unit", "per_contract(2 USD)", "", True),
        ("1 unit", "1bps", "", False),
        ("1 contract", "1bps", INSTRUMENT_FILE.format(multiplier=""), True),
        ("1 contract", "1bps", INSTRUMENT_FILE.format(multiplier="multiplier = 50"), False),
        ("1 contract", "1bps", INSTRUMENT_FILE.format(multiplier="multiplier = 1"), False),
    ],
)
def test_a_contract_of_unknown_size_is_noted(tmp_path, size, fees, file, said):
    """A future without its multiplier earned a hundred-thousandth, and nothing told."""
    config = None
    if file:
        (tmp_path / "one.toml").write_text(file)
        config = tmp_path / "run.toml"
        config.write_text(f'[data]\ninstruments = "{tmp_path / "one.toml"}"\n')
    checked = checked_text(CONTRACTS.format(size=size, fees=fees))
    notes = arrange(checked, config=config).notes
    assert any("a contract is taken for one unit" in note for note in notes) == said


@pytest.mark.parametrize(
    ("session", "fridays"), [("", 0), ('    session "XNYS"\n', 12)], ids=["none", "XNYS"]
)
def test_a_timer_of_days_that_do_not_come_is_counted(tmp_path, session, fridays):
    """Without a session a week ends on a Sunday, on which no stock has a bar."""
    days = [dt.date(2024, 1, 8) + dt.timedelta(days=n) for n in range(84)]
    lines = [f"{day},10,10,10,10,100" for day in days if day.weekday() < 5]
    bars = tmp_path / "KO.csv"
    bars.write_text("\n".join(["date,open,high,low,close,volume", *lines]))
    text = TEXT.replace('    session "XNYS"\n', session).replace("        if flat:\n    ", "")
    checked = checked_text(text.format(bars="1d", when="at 15:45 on week_end"))
    run = run_checked(checked, Path("s.qdsl"), data=str(bars), params={})
    assert evaluate(run)["orders"] == fridays
    said = [note for note in run.notes if "at 15:45 on week_end fell on a day without" in note]
    assert [note.rpartition(": ")[2] for note in said] == ([] if session else ["11"])
    assert all("--session XNYS leaves them out" in note for note in said)
