"""Fixtures that every test may use: golden files, the hypothesis profile, the data folder."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"

# Hundreds of processes are started, each of which would compile all that it imports anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

settings.register_profile("default", deadline=None, derandomize=True, database=None)
settings.register_profile("deep", deadline=None, max_examples=10_000, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files with what tests see"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` holds `text` equal to golden/NAME beside the test, or rewrites it."""

    def check(name: str, text: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; run with --update-golden and read the diff")
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data, which is no part of the repository."""
    path = SHARED / "data"
    if not path.is_dir():
        pytest.skip("the shared data folder is not beside the repository")
    return path
