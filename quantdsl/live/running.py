"""Who has the folder of a session: one process makes or runs it, and nobody moves it meanwhile."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quantdsl.errors import ConfigError
from quantdsl.journal.files import lock

LOCK = "session.lock"
ORPHAN_S = 2.0
"""Without word from its supervisor for so long a session halts, and ends."""


def hold(folder: Path) -> int:
    """Keeps other processes from the session until the descriptor is closed, or this one ends.

    ConfigError where another has it.
    """
    try:
        return lock(folder / LOCK)
    except BlockingIOError:
        raise ConfigError(
            f"{folder}: this session is running already\nhelp: stop it first, or name another "
            f"folder with --session; one that has just lost its supervisor ends after {ORPHAN_S:g} "
            "seconds: wait some, and try again"
        ) from None


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """As `hold`, from `with` to its end."""
    descriptor = hold(folder)
    try:
        yield
    finally:
        os.close(descriptor)
