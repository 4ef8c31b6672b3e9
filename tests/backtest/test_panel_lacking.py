"""Kernels of windows are cut in time where instruments lack bars, and have the rows of cores."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from quantdsl.backtest.panel_device import most_lacking
from quantdsl.devices import panels
from tests.backtest.test_panel_device import Both
from tests.backtest.test_panels import LOOKING, whole
from tests.std.universe import compiled, table


@pytest.mark.parametrize("seed", range(6))
def test_kernels_are_cut_where_bars_are_lacking(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Halts, late listings, early ends and single gaps, over several chunks; then none."""
    monkeypatch.setattr(panels, "HEAVY_ROWS", 7)
    closes, random = whole(7, 420), np.random.default_rng(seed)
    kinds = ("none", "single", "single", "halt", "late", "end", "long")
    for name, kind in zip(closes, kinds, strict=True):
        first = int(random.integers(20, 250))
        days = {
            "none": (),
            "single": random.integers(0, 300, 6),
            "halt": range(first, first + 15),
            "late": range(first),
            "end": range(first, 420),
            "long": range(first, first + 120),
        }[kind]
        for day in days:
            closes[name][day] = None
    both = Both(compiled(LOOKING), instants=130, data=table(closes))
    both.hold()
    wanted = both.device.lacking(1).steps[0][0].pieces(130, 0)
    assert sum(one.times for one in wanted) > 10


def test_how_many_bars_are_lacking() -> None:
    """As counted for each bar that is told: the instants without one, back to the first that it
    looks at; so they are enough for who looks at fewer."""
    random = np.random.default_rng(5)
    for _ in range(200):
        seen = random.random((40, 3)) < random.choice([0.2, 0.8, 0.95])
        looks, begun, ended = int(random.integers(1, 12)), random.random(3) < 0.5, [True] * 3
        most = 1
        for who in range(3):
            own = np.flatnonzero(seen[:, who])
            for k, bar in enumerate(own):
                first = own[k - looks] if k >= looks else 0 if begun[who] else own[0]
                most = max(most, int((~seen[first:bar, who]).sum()))
        if not seen.all():
            assert most_lacking(seen, looks, begun, np.array(ended)) == most
    never = np.zeros((40, 1), bool)
    assert most_lacking(never, 5, np.array([True]), np.array([False])) == 40  # its State goes on


SHORTER = """language 1

@kernel(reduce)
kernel far(r: window[float, 13]) -> float:
    "A window that is longer than all bars of one instrument."
    var total = 0.0
    parallel for i in 0..<13 reduce(total: +):
        total += r[i] * float(i)
    return total

@kernel(reduce)
kernel near(r: window[float, 3]) -> float:
    "One that is not."
    var total = 0.0
    parallel for i in 0..<3 reduce(total: +):
        total += r[i] * float(i)
    return total

strategy Shorter:
    bars 1d
    universe "ALL"
    let ret = close / open
    let one = far(ret)
    let two = near(ret)
"""


def test_who_looks_at_fewer_bars_lacks_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three bars of which the last one comes late: a long window is never full of them."""
    monkeypatch.setattr(panels, "HEAVY_ROWS", 5)
    closes = whole(4, 300)
    closes["A002"] = [close if n in (3, 4, 44) else None for n, close in enumerate(closes["A002"])]
    both = Both(compiled(SHORTER), instants=150, data=table(closes))
    rows = both.hold()
    assert np.isfinite(rows[both.names.index("two")].view(float)[rows[1] == 2]).sum() == 1


NESTED = """
    let apart = two - ret
    let later = near(apart)
    let above = near(ret) > two
    let went  = far(ret) - (1.0 if above[2] else 0.0)
"""


@pytest.mark.parametrize("lacks", [range(0), range(130, 133)], ids=["whole", "gaps"])
def test_nobody_keeps_what_is_made_of_an_answer(
    lacks: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel answers of bars that are told, so what looks back at such is not cut."""
    monkeypatch.setattr(panels, "HEAVY_ROWS", 5)
    closes = whole(4, 300)
    for day in lacks:
        closes["A002"][day] = None
    Both(compiled(SHORTER + NESTED), instants=150, data=table(closes)).hold()


def test_who_has_ended_has_no_bar_any_more() -> None:
    """Bars of a month that begin at different days of it close at these."""
    days = [
        (name, month, day) for name, day, n in (("A", 2, 3), ("B", 20, 9)) for month in range(n)
    ]
    times = [dt.datetime(2020, 1 + month, day, 9, 30, tzinfo=dt.UTC) for _, month, day in days]
    prices = dict.fromkeys(("open", "high", "low", "close"), [50.0] * len(days))
    names, volume = [name for name, _, _ in days], [1_000.0] * len(days)
    bars = pa.table({"time": times, "symbol": names, **prices, "volume": volume})
    monthly = SHORTER.replace("1d", "1mo")
    data = Both(compiled(monthly), instants=150, data=bars).data
    events = np.concatenate(list(data.chunks()))
    closes = [events["ts_event"][events["instrument"] == who].max() for who in range(2)]
    for now in np.unique(events["ts_event"]):
        assert not any((data.ended(int(now))) & (now < np.array(closes)))
    assert data.ended(int(events["ts_event"].max())).tolist() == [True, False]
