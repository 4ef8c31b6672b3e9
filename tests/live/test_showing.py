"""What a session shows, from the words of its engine."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from quantdsl.data.instrument import Instrument
from quantdsl.events.layout import BAR, EVENT, Kind
from quantdsl.live.showing import PAST_MAX, Chart, _drawdown_max


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


def test_a_chart_goes_on_behind_the_bars_of_the_journal():
    bars = np.zeros(PAST_MAX + 500, BAR)
    bars["kind"], bars["ts_recv"] = Kind.BAR, np.arange(len(bars))
    parts = (bars[:900].view(EVENT), bars[900:].view(EVENT))
    had = [SimpleNamespace(inputs=lambda part=part: part) for part in parts]
    one = SimpleNamespace(
        on_ticks=False, lane=SimpleNamespace(), had=lambda: iter(had),
        prepared=SimpleNamespace(data=SimpleNamespace(instruments=(Instrument(symbol="KO"),))),
    )  # fmt: skip
    chart = Chart(one)
    one.lane.seen(bars[-1:].view(EVENT))
    rows = chart.rows(0, itertools.count(1))
    assert [row.ts for row in rows] == [*range(500, len(bars)), len(bars) - 1]
