"""What the benches share. Outside a bench run they are tests: small, and silent about time."""

import pytest


@pytest.fixture
def full(benchmark) -> bool:
    """Whether this is a bench run, whose sizes are those of the promise."""
    return bool(benchmark.enabled)
