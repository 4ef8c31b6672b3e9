"""Lines for a terminal: nothing is wider than it, nothing of the text is lost, no control codes."""

import os
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantdsl.report.terminal import (
    EMPTY,
    Column,
    Terminal,
    cells,
    indented,
    table,
    text,
    wrapped,
)


def plain(lines) -> list[str]:
    return ["".join(words.text for words in line) for line in lines]


@given(st.text("ab \n界é", max_size=60), st.integers(2, 20))
def test_a_wrapped_text_fits_and_is_whole(said, width):
    lines = plain(wrapped(text(said), width))
    assert all(cells(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(said.split())


def test_lines_break_at_spaces_and_long_words_anywhere():
    assert plain(wrapped(text("one two three"), 8)) == ["one two", "three"]
    assert plain(wrapped(text("abcdefgh ij"), 5)) == ["abcde", "fgh", "ij"]
    assert plain(wrapped(text("one\ntwo"), 8)) == ["one", "two"]
    assert wrapped(EMPTY, 8) == [EMPTY]


def test_styles_follow_their_words_into_the_next_line():
    first, second = wrapped(text("one ", "bold") + text("two three", "red"), 7)
    assert [(words.text, words.style) for words in first] == [("one ", "bold"), ("two", "red")]
    assert [(words.text, words.style) for words in second] == [("three", "red")]


def test_a_wide_character_takes_two_cells():
    assert (cells("abc"), cells("界"), cells("e\u0301")) == (3, 2, 1)


def test_a_table_is_as_wide_as_its_cells_or_the_terminal():
    rows = [[text("a"), text("1,000")], [text("longer name"), text("7")]]
    columns = [Column("name"), Column("value", right=True)]
    assert plain(table(rows, columns, 40)) == [
        "name         value",
        "a            1,000",
        "longer name      7",
    ]
    narrow = plain(table(rows, columns, 12))
    assert max(map(len, narrow)) <= 12
    assert [line.split() for line in narrow] == [
        ["name", "value"],
        ["a", "1,000"],
        ["longe", "7"],
        ["r"],
        ["name"],
    ]


def test_figures_are_not_broken_where_a_table_has_many_columns():
    """One of ten params had `1000` above `0 USD`."""
    columns = [Column(title, right=True) for title in ("money", "Sharpe ratio", "mode")]
    rows = [[text("10000 USD"), text("-20.33 %"), text("both")]]
    assert plain(table(rows, columns, 19)) == [
        "money  Sharpe  mode",
        "        ratio      ",
        "10000  -20.33  both",
        "  USD       %      ",
    ]
    assert plain(table(rows, columns, 18)) == [
        "    money  Sharpe ratio  mode",
        "10000 USD      -20.33 %  both",
    ]


def test_a_mark_stands_before_the_first_line_alone():
    assert plain(indented("· ", text("one two three"), 9)) == ["· one two", "  three"]


@pytest.mark.parametrize("styled", [False, True])
def test_control_characters_do_not_reach_the_terminal(styled):
    out = StringIO()
    Terminal(out, 40, styled=styled).print(text("red\x1b[2J\x07 alert\x9b", "bold red"))
    shown = "red[2J alert"
    assert out.getvalue() == (f"\x1b[1;31m{shown}\x1b[0m\n" if styled else f"{shown}\n")


def test_what_is_no_terminal_gets_no_styles():
    out = StringIO()
    Terminal(out, 40).print(text("said", "bold"), text("x" * 50), wrap=False)
    assert out.getvalue() == "said\n" + "x" * 50 + "\n"


def test_a_reader_that_has_gone_ends_nothing():
    """`quantdsl backtest FILE | head` still writes its report."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        Terminal(out, 40).print(*[text("x" * 39)] * 10_000)
