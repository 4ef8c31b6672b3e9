"""The numbers in std are those that their script derives."""

import pytest

from tests.std.math_coefficients import DERIVATIONS, derived_text


@pytest.mark.parametrize("name", DERIVATIONS)
def test_constants_are_as_derived(name: str) -> None:
    written, derived = derived_text(name)
    assert written == derived, "run python -m tests.std.math_coefficients --write"
