"""How long calls take does not depend on how deep they are: no piece of the stack comes and goes.

A new piece is a new page, and the system counts those.
"""

import resource

import pytest

from quantdsl.frames import in_one_piece

CALLS, DEPTHS = 4_000, 250


def leaf(x: int) -> int:
    return x


def hot() -> int:
    """How many pages come while one function is called again and again."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        leaf(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def deep(depth: int) -> int:
    return deep(depth - 1) if depth else hot()


def pages(measure) -> int:
    """The most of all depths."""
    return max(map(measure, range(DEPTHS)))


def test_no_depth_has_its_calls_ask_for_memory():
    assert pages(in_one_piece(deep)) < CALLS / 10


def test_some_depth_has_where_nothing_is_done():
    """Where this Python needs it no longer, `quantdsl.frames` can go."""
    if pages(deep) < CALLS / 10:
        pytest.skip("this Python keeps the piece of its stack that it needed last")


def test_the_function_is_what_it_was():
    def named(a: int, *, b: int = 2) -> tuple[int, int]:
        """What it promises."""
        return a, b

    wrapped = in_one_piece(named)
    assert wrapped(1, b=3) == (1, 3)
    assert (wrapped.__name__, wrapped.__doc__) == ("named", "What it promises.")
    with pytest.raises(TypeError, match="named"):
        wrapped()
