"""Waiting for what other threads and processes do: until the state comes, and no longer."""

import time
from collections.abc import Callable
from typing import TypeVar

WAIT_S = 300.0
"""A wait ends with the state that it waits for. This is when it is given up and the state seen is
told: beyond what any load of a machine explains, below the limit of a test (pyproject.toml)."""

_LOOK_S = 0.01

T = TypeVar("T")


def until(true: Callable[[], T], seen: Callable[[], object] = lambda: "") -> T:
    """What `true()` gives as soon as that is true; fails with `seen()` where it never is."""
    end = time.monotonic() + WAIT_S
    while not (found := true()):
        assert time.monotonic() < end, f"it never came; seen: {seen()}"
        time.sleep(_LOOK_S)
    return found
