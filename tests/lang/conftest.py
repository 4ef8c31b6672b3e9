"""The sample strategies: those of the repository, and the design's where it is present."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FOLDERS = (ROOT / "strategies", ROOT / "quantdsl" / "std", ROOT.parent / "shared/design/samples")
SAMPLES = {path.name: path for folder in FOLDERS for path in sorted(folder.rglob("*.qdsl"))}


@pytest.fixture(scope="session")
def sample_texts() -> dict[str, str]:
    if not SAMPLES:
        pytest.skip("no sample strategy is present")
    return {name: path.read_text(encoding="utf-8") for name, path in SAMPLES.items()}


@pytest.fixture(params=sorted(SAMPLES))
def sample(request: pytest.FixtureRequest) -> str:
    return SAMPLES[request.param].read_text(encoding="utf-8")
