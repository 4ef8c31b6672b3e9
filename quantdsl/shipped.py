"""Where the files that come with quantdsl lie: strategies and configs."""

from pathlib import Path

from quantdsl.errors import InternalError


def shipped(name: str) -> Path:
    """`strategies/sma_cross.qdsl` or `configs/...`: inside the package in a wheel, beside it in
    a checkout."""
    package = Path(__file__).parent
    for base in (package, package.parent):
        if (base / name).exists():
            return base / name
    raise InternalError(f"this installation of quantdsl lacks its file {name}")
