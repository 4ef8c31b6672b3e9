"""`return` leaves the action that it stands in: no more and no less."""

import pytest

from quantdsl.ir.ops import StructType
from tests.backtest.test_same_bits import assert_same

BARS = 50
ACTIONS = {
    "a loop": (
        """\
        for i in 0..<3:
            if i == 1:
                return
        n += 100
""",
        BARS,
    ),
    "a while": (
        """\
        while n > 5 max 3:
            return
        n += 100
""",
        101 + BARS - 1,
    ),
    "loops in loops": (
        """\
        for i in 0..<3:
            for k in 0..<3:
                n += 10
                if i == 1 and k == 1:
                    return
            n += 1
        n += 1000
""",
        BARS * (5 * 10 + 1 + 1),
    ),
    "a loop that is not left": (
        """\
        for i in 0..<3:
            if i > 5:
                return
        n += 100
""",
        BARS * 101,
    ),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_a_return_inside(name: str) -> None:
    body, total = ACTIONS[name]
    text = (
        "strategy S:\n    bars 5m\n    state n = 0\n    action act():\n"
        + body
        + "    on bar:\n        act()\n        n += 1\n"
    )
    made = assert_same(text, events=BARS)
    leaves = made.memory.layout.leaves(StructType("State"))
    state = next(leaf for leaf in leaves if leaf.path.startswith("u"))
    assert made.memory.words[state.offset_words] == total
