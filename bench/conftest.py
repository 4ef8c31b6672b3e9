"""What the benches share. Outside a bench run they are tests: small, and silent about time."""

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--overload-s",
        type=float,
        default=60.0,
        metavar="S",
        help="how long a bench run holds twice the recorded peak; the promise says 600",
    )


@pytest.fixture
def full(benchmark) -> bool:
    """Whether this is a bench run, whose sizes are those of the promise."""
    return bool(benchmark.enabled)


def pytest_terminal_summary(terminalreporter, config):
    """What benches measured beside their time, a line each: the table has no room for it."""
    session = getattr(config, "_benchmarksession", None)
    if not session or session.disabled:
        return
    told = [one for one in session.benchmarks if one.extra_info]
    if not told:
        return
    terminalreporter.section("figures")
    for one in told:
        for name, value in one.extra_info.items():
            terminalreporter.line(f"{one.name}  {name}  {shown(value)}")


def shown(value: object) -> str:
    """A figure for people: as many digits as it needs."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
