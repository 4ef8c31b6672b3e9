"""Counts in words."""

import pytest

from quantdsl.data.counts import counted, listed
from quantdsl.data.ticks import WORDS


@pytest.mark.parametrize(
    ("count", "kind", "said"),
    [
        (1, "message not understood", "1 message not understood"),
        (2, "message not understood", "2 messages not understood"),
        (1_000, "change of a book", "1,000 changes of a book"),
        (0, "backward time", "0 backward times"),
        (2, "marked as suspicious by the source", "2 marked as suspicious by the source"),
        (2, "wrong number of cells", "2 wrong numbers of cells"),
    ],
)
def test_one_is_one_and_two_are_several(count, kind, said):
    assert counted(count, kind) == said


def test_every_fault_of_a_recording_has_a_plural():
    alike = [words for words in WORDS.values() if counted(2, words) == f"2 {words}"]
    assert alike == ["marked as suspicious by the source"]


def test_kinds_are_listed_by_how_often_they_came():
    assert listed({"crossed quote": 1, "size off the lot": 3}) == (
        "3 sizes off the lot, 1 crossed quote"
    )
