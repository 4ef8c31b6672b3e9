"""Strategies on bars and on ticks in one session on one market, killed and resumed."""

import os
import signal

import numpy as np
import pytest

from quantdsl.backtest.run import backtest
from quantdsl.events.layout import Kind
from tests.live.test_session import (
    MAKER,
    STRATEGY,
    before_the_end,
    child_of,
    count_of,
    ended_when,
    finished,
    journalled,
    outputs_of,
    paper,
    without_commands,
)
from tests.waiting import until

MINUTE = 60 * 10**9


def bars_of_trades(minutes: int, until_ns: int) -> list[tuple[int, ...]]:
    """(close, open, high, low, close, volume) of each whole bar of the invented market's trades."""
    from quantdsl.feeds.synthetic_ticks import SyntheticTicks

    made: dict[int, list[int]] = {}
    for events in SyntheticTicks(0, 1, "XNYS").chunks():
        for trade in events[events["kind"] == Kind.TRADE]:
            close = (int(trade["ts_recv"]) // (minutes * MINUTE) + 1) * minutes * MINUTE
            price, lots = trade["payload"][:2].tolist()
            bar = made.setdefault(close, [price, price, price, price, 0])
            bar[1], bar[2], bar[3] = max(bar[1], price), min(bar[2], price), price
            bar[4] += lots
        if int(events["ts_recv"][-1]) > until_ns:
            break
    return [(close, *bar) for close, bar in sorted(made.items()) if close <= until_ns]


@pytest.mark.slow
def test_bars_are_those_of_the_ticks_beside_them_over_a_kill_too(tmp_path):
    folder = tmp_path / "session"
    files = [tmp_path / "maker.qdsl", tmp_path / "crosser.qdsl"]
    for file, text in zip(files, (MAKER, STRATEGY), strict=True):
        file.write_text(text, encoding="utf-8")
    process = paper(folder, *files, "--speed", "300")
    child = child_of(folder)
    until(lambda: process.poll() is not None or count_of(outputs_of(folder), Kind.FILL) > 2)
    os.kill(child, signal.SIGKILL)
    said = finished(process)
    assert "killed by SIGKILL" in said, said
    before = count_of(outputs_of(folder), Kind.FILL)
    said = ended_when(paper(folder), lambda: count_of(outputs_of(folder), Kind.FILL) > before + 2)
    assert "goes on after" in said, said

    inputs, _ = journalled(folder)
    bars = inputs[(inputs["kind"] == Kind.BAR) & (inputs["side"] == 0)]
    assert len(bars) > 10
    found = [(int(bar["ts_event"]), *bar["payload"].tolist()) for bar in bars]
    assert found == bars_of_trades(2, int(bars["ts_event"][-1]))
    assert set(np.unique(inputs["kind"]).tolist()) <= {Kind.BAR, Kind.SESSION, Kind.COMMAND}

    ticks, outputs = journalled(folder, "Maker")
    assert not np.isin(ticks["kind"], (Kind.BAR,)).any()
    own, whole = without_commands(before_the_end(outputs)), backtest(files[0]).records
    assert count_of(own, Kind.FILL) > 5
    assert own.tobytes() == whole[: len(own)].tobytes()
