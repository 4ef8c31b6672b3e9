"""A syntax error does not hide what is wrong in other lines, nor does it make errors of them."""

import pytest

from quantdsl.check.checked import check_source
from quantdsl.lang.source import Source

TORN = """language 1

strategy S:
    bars 5m

    let f = ta.smaa(close, 10)

    on bar:
        if f > close
            buy(100)
        elif lng:
            close_position()

    risk:
        max_position = 500
"""


def codes(text: str) -> list[tuple[str, int]]:
    source = Source(text)
    checked, told = check_source(source)
    assert checked is None
    return [(d.code, source.position(d.span[0]).line) for d in told]


def test_every_mistake_is_told_in_one_run():
    expected = [("QD0201", 6), ("QD0118", 9), ("QD0803", 10), ("QD0201", 11)]
    expected += [("QD0804", 15)]
    assert codes(TORN) == expected


@pytest.mark.parametrize(
    "line", ["let f) = ta.sma(close, 10)", "let f = = 3", "let f ta.ema(close, 3)"]
)
def test_a_name_that_a_torn_line_declares_is_not_called_unknown(line):
    text = TORN.replace("let f = ta.smaa(close, 10)", line).replace("close\n", "close:\n", 1)
    text = text.replace("100", "100 shares").replace("lng", "long").replace("500", "500 shares")
    assert {number for _, number in codes(text)} == {6}
