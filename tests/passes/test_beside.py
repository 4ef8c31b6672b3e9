"""An instrument's statements in parts: none needs another, and each is made once."""

import functools
from collections import Counter
from itertools import combinations
from statistics import mean

from bench.live_signals import EQUATIONS, prepared_on
from quantdsl.ir import ops
from quantdsl.ir.show import show_node
from quantdsl.ir.walk import expressions, statements
from quantdsl.live.signal_device import planned
from quantdsl.passes.beside import beside
from quantdsl.passes.effects import Analysis
from quantdsl.passes.instants import VALUES, WHICH, Body, Cut
from quantdsl.passes.places import overlap

PARTS = 8


@functools.cache
def _cut() -> Cut:
    prepared, _ = prepared_on(3, 40)
    return planned(prepared.checked, prepared.uses).cut


def _made(*bodies: Body) -> Counter[str]:
    """What is assigned, and how often."""
    found = (stmt for body in bodies for stmt in statements(body))
    return Counter(show_node(stmt) for stmt in found if isinstance(stmt, ops.Assign))


def test_twenty_signals_fall_into_even_parts_that_need_nothing_of_each_other() -> None:
    cut = _cut()
    piece, analysis = cut.pieces[0], Analysis(cut.module)
    assert piece.beside is not None
    first, parts, last = piece.beside
    assert len(parts) == PARTS
    made = _made(first, *parts, last)
    assert made == _made(piece.body)
    assert sum(place.startswith("told.") for place in made) == 2  # moments of 20 and of 30 returns
    weights = [sum(1 for _ in expressions(part)) for part in parts]
    # Heaviest first is within a third of the best there is (Graham, 1969), which no mean is above:
    # four indicators of these weigh an eighth of all each, so eight parts cannot be alike.
    assert max(weights) < 4 / 3 * mean(weights), weights
    effects = [analysis.body(part) for part in parts]
    for one, other in combinations(effects, 2):
        pairs = ((one.writes, other.reads | other.writes), (other.writes, one.reads))
        for written, touched in pairs:
            mine = {path for path in written if path[0] != VALUES}
            assert not any(overlap(x, y) for x in mine for y in touched if x[0] == y[0])


def test_what_several_read_comes_first_and_what_ends_them_last() -> None:
    cut = _cut()
    beside_ = cut.pieces[0].beside
    assert beside_ is not None
    told = [stmt for stmt in statements(beside_.first) if isinstance(stmt, ops.Assign)]
    assert 0 < len(told) < len(EQUATIONS) / 2
    (end,) = beside_.last
    assert show_node(end) == "s.panel[which].ticked = 0"


def _of(name: str) -> ops.Field:
    return ops.Field(ops.Elem(ops.Var("s"), WHICH), name)


def _adds(to: str, *names: str) -> ops.Assign:
    total: ops.Expr = ops.i64(1)
    for name in names:
        total = ops.Binary("iadd", total, _of(name))
    return ops.Assign(_of(to), total)


def test_a_chain_is_no_parts() -> None:
    cut = _cut()
    chain = (_adds("a"), _adds("b", "a"), _adds("c", "b"))
    assert beside(chain, Analysis(cut.module), PARTS, ()) is None


def test_a_local_keeps_its_uses_together() -> None:
    """Threads of other parts do not see it."""
    let = ops.Let("x", ops.I64_T, _of("a"))
    uses = [ops.Assign(_of(name), ops.Var("x")) for name in ("b", "c")]
    body = (let, uses[0], _adds("d"), uses[1], _adds("e"))
    found = beside(body, Analysis(_cut().module), PARTS, ())
    assert found is not None
    assert sorted(found.parts, key=len)[-1] == (let, *uses)
    assert sorted(map(len, found.parts)) == [1, 1, 3]
