"""How much work something is, in calls of functions: the same on a slow and on a busy machine."""

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

CALLS_A_SECOND = 1_000_000
"""Of functions, about what a slow machine makes of ours in a second."""


def calls(work: Callable[[], T]) -> tuple[T, int]:
    """What `work` gives, and how many functions it called on this thread, C's too."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        if event in ("call", "c_call"):
            count += 1

    sys.setprofile(note)
    try:
        found = work()
    finally:
        sys.setprofile(None)
    return found, count
