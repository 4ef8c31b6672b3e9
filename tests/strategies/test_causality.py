"""No shipped strategy knows the future: a run on data that end earlier begins in the same way.

The check itself is tried on leaks put in by hand, one where bars are made and one where the machine
code is fed; each must turn it red.
"""

import numpy as np
import pytest
from msgspec.structs import replace

from quantdsl.backtest import causality
from quantdsl.backtest.program import Run
from quantdsl.events.layout import Kind
from tests.strategies import headers

SMA_CROSS = headers.ROOT / "strategies" / "sma_cross.qdsl"


@pytest.mark.parametrize("path", headers.FILES, ids=lambda path: path.stem)
def test_nothing_changes_when_the_future_is_cut_away(path):
    assert causality.check(path) == []


def with_the_next_close(events):
    """Each bar closes where the bar after it does: what a shifted column does to a file."""
    leaking = events.copy()
    bars = np.flatnonzero(events["kind"] == Kind.BAR)
    closes = events["payload"][bars, 3]
    leaking["payload"][bars[:-1], 3] = closes[1:]
    return leaking


class Leaking:
    """Data whose bars know the next close, as far as the data go."""

    def __init__(self, data):
        self.data = data

    def chunks(self):
        yield with_the_next_close(np.concatenate(list(self.data.chunks())))

    def __getattr__(self, name):
        return getattr(self.data, name)


def test_a_leak_in_the_data_is_found(monkeypatch):
    honest = causality.prepare

    def leaking(*args, **kwargs):
        prepared = honest(*args, **kwargs)
        return replace(prepared, data=Leaking(prepared.data))

    monkeypatch.setattr(causality, "prepare", leaking)
    found = causality.check(SMA_CROSS)
    assert any(difference.startswith("fast at ") for difference in found)


def test_a_leak_in_the_run_is_found(monkeypatch):
    honest = Run.feed
    monkeypatch.setattr(Run, "feed", lambda run, events: honest(run, with_the_next_close(events)))
    assert causality.check(SMA_CROSS) != []


def test_figures_of_the_whole_sample_are_found(monkeypatch):
    """Demeaning by the mean of the whole file is the leak that is easiest to overlook."""
    honest = Run.feed

    def normalised(run, events):
        leaking = events.copy()
        bars = events["kind"] == Kind.BAR
        mean = int(events["payload"][bars, 3].mean())
        leaking["payload"][bars, :4] += 10_000 - mean
        honest(run, leaking)

    monkeypatch.setattr(Run, "feed", normalised)
    assert causality.check(SMA_CROSS) != []
