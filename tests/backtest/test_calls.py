"""Calls whose arguments need statements of their own."""

from quantdsl.ir.ops import StructType
from tests.backtest.test_same_bits import assert_same

DEFAULT = """\
struct Pair:
    a: float
    b: float
fn pair(x: float) -> Pair:
    return Pair(a = x, b = x + 1.0)
fn moved(x: float, by: float = pair(2.0).b) -> float = x + by
strategy S:
    bars 5m
    state z = 0.0
    let q = moved(float(close))
    plot(q[1], "q")
    on bar:
        z = moved(moved(z))
"""


def test_a_default_that_calls_for_a_struct() -> None:
    made = assert_same(DEFAULT, events=10)
    place = next(
        p for p in made.memory.layout.leaves(StructType("State")) if p.path.startswith("u")
    )
    assert made.memory.get(place.path) == 60.0


STRUCTS = """\
struct Pair:
    a: float
    b: int
struct Outer:
    p: Pair
    x: float
strategy S:
    bars 5m
    param q = 2.0 in 1.0..5.0 step 1.0
    require Pair(a = q, b = 1).a < 5.0
    state first = 3.0
    state v = Pair(a = first, b = 7)
    state u = Outer(p = Pair(a = q, b = 2), x = 1.0)
    state z = 0.0
    let w = Pair(a = close / q, b = bar_index)
    let o = Outer(p = w, x = q)
    plot(o.p.a - o.p.a[1], "o")
    plot(Pair(a = w.a, b = 1).a, "w")
    on bar:
        v.b += u.p.b
        z = 100.0 * v.a + float(v.b) + o.x
"""


def test_structs_of_equations_states_and_conditions() -> None:
    made = assert_same(STRUCTS, events=12)
    leaves = made.memory.layout.leaves(StructType("State"))
    assert 300.0 + 7 + 2 * len(made.curve()) + 2.0 in [made.memory.get(p.path) for p in leaves]
