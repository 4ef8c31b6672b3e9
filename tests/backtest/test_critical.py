"""`@critical_path` is held against the machine code of its handler, at every compile."""

import pytest

from quantdsl.backtest import critical
from quantdsl.backtest.program import native_run
from quantdsl.check import Checked, check_source
from quantdsl.codegen import turn
from quantdsl.codegen.target import native
from quantdsl.lang.diagnostics import SourceError
from quantdsl.lang.source import Source

pytestmark = pytest.mark.skipif(
    not native().triple.startswith("x86_64"), reason="machine code is proven on x86-64 only"
)

MAKER = """\
language 1

strategy Maker:
    quotes

    @critical_path
    on quote:
        quote(bid = bid, bid_qty = 100 shares, ask = ask, ask_qty = 100 shares)

    on stop:
        cancel_all()
"""


def checked(text: str = MAKER) -> Checked:
    found, diagnostics = check_source(Source(text, "maker.qdsl"))
    assert found is not None, diagnostics
    return found


def test_a_handler_that_keeps_it():
    one = checked()
    proof = turn.function_proof(one.module(), one.strategy.handlers[0].func, native(), None)
    assert critical.kept(proof)
    assert proof.instructions > 50


def test_a_handler_that_does_not_is_an_error_at_its_annotation(monkeypatch):
    """With hardly any room to inline, what `quote` does for each side stays a call."""
    monkeypatch.setattr(turn, "WHOLE_NODES", 10)
    monkeypatch.setattr(turn, "COPIED_NODES", (10,))
    one = checked()
    with pytest.raises(SourceError) as raised:
        native_run(one, frozenset(), None)
    [finding] = raised.value.diagnostics
    assert finding.code == "QD0901"
    assert one.source.text[slice(*finding.span)].startswith("@critical_path")
    assert "calls of its own functions" in finding.note


MARKED = """\
language 1

{note}
fn squares(n: const int) -> int:
    var sum = 0
    for i in 0..<n:
        {step}
    return sum

strategy S:
    bars 5m

    on bar:
        if flat and squares(20) > 30:
            buy(1 shares)
"""
WIDE, PRODUCT = "sum = max(sum, i * (12 - i))", "sum = sum * 3 + i"


@pytest.mark.parametrize("name", ["no_allocation", "inline_always", "vectorizable"])
def test_each_annotation_of_a_function_is_held_by_itself(name):
    one = checked(MARKED.format(note=f"@{name}", step=WIDE))
    native_run(one, frozenset(), None)
    module = one.module()
    [found] = critical.marked(one, module)
    assert [mark.name for mark in found.marks] == [name]
    proof = turn.function_proof(module, found.func, native(), None)
    assert critical.kept(proof)
    assert [loop.width_bytes for loop in proof.loops] == [32 if name == "vectorizable" else 8]


def test_a_loop_that_is_not_wide_is_an_error_at_the_loop():
    one = checked(MARKED.format(note="@vectorizable", step=PRODUCT))
    with pytest.raises(SourceError) as raised:
        native_run(one, frozenset(), None)
    [finding] = raised.value.diagnostics
    assert finding.code == "QD0901"
    assert one.source.text[slice(*finding.span)].startswith("for i in 0..<n:")
    assert "depends on" in finding.note
    native_run(checked(MARKED.format(note="@no_allocation", step=PRODUCT)), frozenset(), None)


def test_a_handler_without_a_loop_is_not_vectorizable():
    one = checked(MAKER.replace("@critical_path", "@vectorizable"))
    with pytest.raises(SourceError) as raised:
        native_run(one, frozenset(), None)
    assert raised.value.diagnostics[0].note == "there is no loop in it"


def test_the_proof_shows_what_is_marked():
    one = checked(MARKED.format(note="@vectorizable", step=WIDE))
    titles = [title for title, _ in critical.proofs(one, one.module(), native(), None)]
    assert titles[0] == "on bar"
    assert titles[1].startswith("fn ")
    assert "squares" in titles[1]


def test_other_handlers_promise_nothing(monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError("nothing is to be proven")

    monkeypatch.setattr(critical, "function_proof", never)
    native_run(checked(MAKER.replace("    @critical_path\n", "")), frozenset(), None)
