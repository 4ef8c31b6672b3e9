"""Kernels in the checker: their kinds, what is printed of them, and what is proven of an index."""

import pytest

from quantdsl import cli
from quantdsl.check import check_source
from quantdsl.lang.source import Source
from tests.check.cases import kernel

KINDS = {
    "elementwise": "return r[0] - r[1]",
    "reduce": (
        "var s = 0.0\nparallel for i in 0..<r.len reduce(s: +):\n    for k in 0..<3:\n"
        "        s += r[i]\nfor k in 0..<n:\n    s = s / 2.0\nreturn s"
    ),
    "scan": "var s = 0.0\nfor i in 0..<r.len:\n    s = s / 2.0 + r[i]\nreturn s",
    "general": (
        "var s = 0.0\nparallel for i in 0..<r.len reduce(s: +):\n    s += r[i]\n"
        "for i in 0..<r.len:\n    s = s / 2.0 + r[i]\nreturn s"
    ),
}
PROVEN = {
    "the window's own length": "for i in 0..<r.len:\n    s += r[i]",
    "a loop to the smaller of two": "for i in 0..<min(n, r.len):\n    s += r[i]",
    "two counters": "for i in 0..<(r.len - n):\n    for k in 0..<n:\n        s += r[i + k]",
    "a loop with turns": "for i in 0..<(r.len - n):\n    for k in 0..<n:\n        s += r[k]",
    "back from a counter": "for i in n..<r.len:\n    for k in 1..n:\n        s += r[i - k]",
}
NOT_PROVEN = {
    "one too far": "for i in 0..r.len:\n    s += r[i]",
    "behind a loop with turns": (
        "for i in 0..<(r.len - n):\n    s += r[i]\nfor k in 0..<n:\n    s += r[k]"
    ),
    "two counters too far": "for i in 0..<(r.len - n):\n    for k in 0..n:\n        s += r[i + k]",
    "before the start": "for i in 0..<r.len:\n    for k in 1..n:\n        s += r[i - k]",
    "a changed end": (
        "var m = n\nfor i in 0..<(r.len - m):\n    m = 0\n    for k in 0..<m:\n        s += r[k]"
    ),
}


def checked(body, head="k(r: window[float, 64], n: const int) -> float"):
    return check_source(Source(kernel(body, head), "example.qdsl"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_kind_is_recognised_and_printed(kind):
    found, diagnostics = checked(KINDS[kind])
    assert found is not None, diagnostics
    (facts,) = found.library.kernels.values()
    assert facts.kind == kind
    assert ("kernel k", str(facts)) in found.facts
    assert str(facts).startswith(f"{kind}, over 64 values")


@pytest.mark.parametrize("name", PROVEN)
def test_an_index_is_proven(name):
    found, diagnostics = checked(f"var s = 0.0\n{PROVEN[name]}\nreturn s")
    assert [d.code for d in diagnostics if d.severity == "error"] == []
    assert found is not None


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_an_index_is_not_proven(name):
    _, diagnostics = checked(f"var s = 0.0\n{NOT_PROVEN[name]}\nreturn s")
    assert {d.code for d in diagnostics if d.severity == "error"} <= {"QD0601", "QD0602"}
    assert diagnostics


def test_the_warm_up_is_that_of_the_window():
    found, _ = checked("return r[0]")
    assert found is not None
    (plot,) = found.strategy.plots
    assert plot.value.series is not None
    assert [warm.most for _, warm in plot.value.series.warm] == [64]


def test_explain_shows_a_kernel_as_ptx(tmp_path, capsys):
    path = tmp_path / "example.qdsl"
    path.write_text(kernel(KINDS["reduce"]))
    assert cli.run(["explain", str(path), "--stage", "kernels"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("// k: reduce, over 64 values")
    assert "shfl.sync" in text
    path.write_text("strategy S:\n    bars 5m\n    on bar:\n        buy(1 shares)\n")
    assert cli.run(["explain", str(path), "--stage", "kernels"]) == 2
    assert "calls no kernel" in capsys.readouterr().err
