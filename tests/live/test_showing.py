"""What a session shows, from the words of its engine."""

from types import SimpleNamespace

import pytest

from quantdsl.live.showing import _drawdown_max


@pytest.mark.parametrize(
    ("peak", "trough", "drop", "of", "deepest"),
    [
        (1_000, 1_000, 0, 1_000, 0.0),
        (1_000, 900, 0, 1_000, 0.1),  # the first one, not over yet
        (2_000, 2_000, 150, 1_000, 0.15),  # over, and equity is at a new peak
        (2_000, 1_500, 150, 1_000, 0.25),  # the one that lasts is deeper
        (0, 0, 0, 0, 0.0),  # nothing has happened
    ],
)
def test_the_deepest_drawdown_stays_when_equity_comes_back(peak, trough, drop, of, deepest):
    words = {"peak": peak, "trough": trough, "dd_drop": drop, "dd_peak": of}
    one = SimpleNamespace(word=lambda path: words[path.rpartition(".")[2]])
    assert _drawdown_max(one) == pytest.approx(deepest)
