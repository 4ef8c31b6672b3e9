"""Kernels: the same bits on every target, and those that the order in docs/kernels.md says."""

import numpy as np
import pytest

from quantdsl import cli
from quantdsl.backtest.prepare import arrange
from quantdsl.check import check_source
from quantdsl.codegen.jit import Program, object_code
from quantdsl.codegen.target import native
from quantdsl.lang.source import Source
from tests.backtest.kernel_programs import PROGRAMS as TURNS
from tests.backtest.kernel_programs import THREADED
from tests.backtest.test_every_target import assert_one_hash
from tests.backtest.test_lane_entry import checked_text
from tests.backtest.test_same_bits import assert_same, first_events, run
from tests.std.universe import Panels, table, walks

PROGRAMS = TURNS | THREADED
STRANDS = 256
EVENTS = {
    "analog": 90,
    "sums of f32": 306,
    "sums of float": 306,
    "the rest": 70,
    "product of floats": 60,
    "product of f32": 60,
    "ranks": 50,
    "counts": 306,
    "sorted floats": 50,
    "sorted f32": 50,
    "threads of floats": 206,
    "threads of f32": 206,
    "warps": 45,
    "groups": 200,
    "lanes": 140,
}
"""Some more than the window is long: the interpreter makes each of the turns."""
PLOT = 2  # the first word of a row of the curve that is a plot


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_target_has_the_same_bits(name):
    assert_one_hash(checked_text(PROGRAMS[name]), EVENTS[name])


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_run_has_the_same_bits(name):
    made = assert_same(PROGRAMS[name], events=EVENTS[name])
    assert made.memory.view("e.metrics").any()


def tree(values, neutral, operation):
    """The reduction of docs/kernels.md, written from it."""
    strands = [neutral] * STRANDS
    for turn, value in enumerate(values):
        strands[turn % STRANDS] = operation(strands[turn % STRANDS], value)
    while len(strands) > 1:
        half = len(strands) // 2
        strands = [operation(strands[j], strands[j + half]) for j in range(half)]
    return strands[0]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 255, 256, 300])
def test_the_order_is_what_the_docs_say(kind, n):
    """Against numpy's own float32: no double stands behind its operations."""
    text = PROGRAMS["sums of f32" if kind is np.float32 else "sums of float"]
    text = text.replace("param n = 290", f"param n = {n}").replace(
        "    plot(s", "    plot(log(close), \"x\")\n    plot(s"
    )
    checked, _ = check_source(Source(text, "sums.qdsl"))
    module, target, arranged = checked.module(), native(), arrange(checked)
    program = Program(object_code(module, target), module, target)
    made = run(checked, arranged, module, program, first_events(arranged, 340))
    rows = made.curve()[:, PLOT : PLOT + 2].view(np.float64)
    assert len(rows) > 310
    for at in range(299, len(rows)):
        window = rows[at::-1, 0][:n].astype(kind)
        plus = kind(0.25) + tree(window * kind(1.1), kind(-0.0), lambda x, y: x + y)
        least, most = (window / kind(3)).min(), np.sqrt(window).max()
        assert float(plus + least - most) == rows[at, 1]
    assert np.isnan(rows[:299, 1]).all()


def test_a_sum_in_order_would_differ():
    values = np.random.default_rng(1).normal(size=300)
    assert tree(values, -0.0, lambda x, y: x + y) != sum(values.tolist())


def test_data_shorter_than_the_window_are_told_of(tmp_path, capsys):
    source, data = tmp_path / "analog.qdsl", tmp_path / "short.csv"
    source.write_text(PROGRAMS["analog"])
    rows = "".join(f"2024-01-02T14:{n:02}:00Z,100,101,99,100,1000\n" for n in range(0, 60, 5))
    data.write_text("time,open,high,low,close,volume\n" + rows)
    out = tmp_path / "out"
    assert cli.run(["backtest", str(source), "--data", str(data), "--out", str(out)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "'on bar' reads series that may need 41 bars to be defined" in text
    assert "the data have 12 bars" in text


PANEL = """language 1
kernel drift(r: window[float, 16], n: const int) -> float:
    var s = 0.0
    parallel for i in 0..<min(n, r.len) reduce(s: +):
        s += r[i] * float(n - i)
    return s

strategy Drifts:
    bars 1d
    universe "ALL"
    let c      = float(close)
    let d      = drift(c, 7)
    let weight = xs.scale(d, gross = 50%)
    at session_close - 5m:
        rebalance(weight, via = moc)
    session "XNYS"
    risk:
        max_gross = 60% of equity
    backtest:
        cash = 1_000_000 USD
        fees = 1bps
"""


def test_on_a_universe_the_window_is_that_of_each_instrument():
    """Which counts its own bars: some have gaps, or begin late."""
    ran = Panels(PANEL, data=table(walks(4, 40)))
    own: list[list[float]] = [[] for _ in ran.symbols]
    for bars in ran.bars():
        closes = ran.panel("c")
        for which in bars["instrument"].tolist():
            own[which].append(closes[which])
        for which, found in enumerate(ran.panel("d")):
            last = [own[which][-1 - i] * (7 - i) for i in range(7)] if len(own[which]) > 15 else []
            wanted = tree(last, -0.0, lambda x, y: x + y) if last else np.nan
            np.testing.assert_array_equal(found, wanted)
    assert sum(len(closes) > 15 for closes in own) >= 3
