"""Indicators that ask the same one have one of it, with the values of those with their own."""

import numpy as np
import pytest

from quantdsl.check.panel_parts import parts
from quantdsl.check.panel_shared import Sharing
from quantdsl.check.signal_turn import Signals
from tests.backtest import test_panel_device, test_panels
from tests.std.universe import compiled, table, walks

ASKING = """language 1
strategy Asking:
    "Some ask the same, some nearly."
    bars 1d
    universe "ALL"
    param n = 5 in 2..9 step 1
    let ret     = close / close[1] - 1
    let wide    = ts.std(ret, 20)
    let z       = ts.zscore(ret, 20)
    let square  = ts.variance(ret, 20)
    let longer  = ts.std(ret, 21)
    let other   = ts.std(float(close), 20)
    let later   = ts.std(close / close[3] - 1, n)
    let latest  = ts.zscore(close / close[3] - 1, n)
    let average = ts.mean(ret, 20)
    let total   = ts.sum(ret, 20)
    let again   = z[2] - wide[1]
    let rank    = xs.rank(z)
    let ranked  = ts.std(rank, 5) + ts.zscore(rank, 5)
"""


def test_who_asks_the_same() -> None:
    """Of the same values, over as many bars, from the same bar on."""
    turn = Signals(compiled(ASKING).assembly)
    equations = turn.strategy.equations.all
    names = {one.value: one.name for one in turn.shown}
    told = Sharing(turn.strategy.library.lookup, equations)
    groups: dict[str, set[str]] = {}
    for one in equations:
        if one.place.name in told.told:
            name = names.get(one.place, "")
            groups.setdefault(told.first(one.place.name), set()).add(name)
    assert sorted(map(sorted, groups.values())) == [
        [""], ["average", "square", "wide", "z"], ["later", "latest"],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["wide", "z", "square", "average", "later", "latest"])
def test_alone_each_has_the_same_values(name: str) -> None:
    """Event by event, where nobody asks the same."""
    lines = ASKING.splitlines(keepends=True)
    wanted = (f"let {other} " for other in ("ret", name))
    own = [line for word in wanted for line in lines if word in line]
    alone = "".join([*lines[: lines.index(own[0])], *own])
    values = []
    for text in (ASKING, alone):
        both = test_panels.Both(text, data=table(walks(9, 120)))
        rows = np.concatenate(list(both.turn.pieces(both.data.chunks())), 1)
        values.append(rows[both.names.index(name)])
    assert np.isfinite(values[0].view(np.float64)).sum() > 300
    np.testing.assert_array_equal(*values)


@pytest.mark.parametrize("gaps", [False, True])
def test_the_same_rows(gaps: bool) -> None:
    """As event by event, on cores, and on a device in pieces."""
    closes = walks(9, 200) if gaps else test_panels.whole(5, 200)
    test_panels.Both(ASKING, data=table(closes)).hold()
    both = test_panel_device.Both(compiled(ASKING), instants=150, data=table(closes))
    both.hold()
    shown = [[both.names[2 + n] for n in part.shown] for part in parts(both.device.signals)[0]]
    assert ["wide", "z", "square", "average", "again"] in shown
