"""What a report notes of a strategy and its data before the first event."""

import pytest

from quantdsl.backtest.prepare import arrange
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
