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
