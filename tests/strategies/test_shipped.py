"""Every shipped strategy: canonical, clean, tested, honest about its figures, and repeatable."""

from pathlib import Path

import pytest

from quantdsl.backtest.testing import run_tests
from quantdsl.check import compile_file
from quantdsl.lang.format import format_source
from tests.strategies import headers

LIBRARIES = sorted((headers.ROOT / "strategies" / "lib").glob("*.qdsl"))
REJECTED_MAX = 0.01
TRADES_MIN = {"sma_cross": 100, "buy_and_hold": 1, "twap_execution": 1}
"""Filled round trips on the built-in market; 50 where none is named."""


def named(path: Path) -> str:
    return path.stem


@pytest.fixture(scope="module", params=headers.FILES, ids=named)
def ran(request, tmp_path_factory):
    """A strategy's header, the folder of its run, and its metrics."""
    found = headers.header(request.param)
    out = tmp_path_factory.mktemp(request.param.stem)
    return found, out, headers.run(found, out)


def test_every_header_is_complete(ran):
    found, _, _ = ran
    assert list(found.lines) == list(headers.LABELS)
    assert found.lines["Command"] == f"quantdsl backtest strategies/{found.path.name}"


def test_the_expected_figures_are_those_of_the_command(ran):
    found, _, metrics = ran
    assert found.lines["Expected"] == headers.expected(metrics), (
        "run python -m tests.strategies.headers if the change is meant"
    )


def test_it_trades_and_few_orders_are_refused(ran):
    found, _, metrics = ran
    assert metrics["trades"] >= TRADES_MIN.get(found.path.stem, 50)
    assert metrics["rejected_orders"] < REJECTED_MAX * metrics["orders"]
    assert metrics["nan_orders"] == 0


def test_a_second_run_writes_the_same_bytes(ran, tmp_path):
    found, out, _ = ran
    headers.run(found, tmp_path)
    files = sorted(path.name for path in out.iterdir())
    assert files == sorted(path.name for path in tmp_path.iterdir())
    for name in files:
        assert (out / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_the_readme_shows_the_headers_figures():
    assert headers.written() == headers.table(), "run python -m tests.strategies.headers"


@pytest.mark.parametrize("path", [*headers.FILES, *LIBRARIES], ids=named)
def test_the_file_is_in_canonical_form(path):
    text = path.read_text(encoding="utf-8")
    assert format_source(text, str(path)) == text


@pytest.mark.parametrize("path", headers.FILES, ids=named)
def test_the_checker_has_nothing_to_say(path):
    assert compile_file(path).diagnostics == []


WITH_TESTS = sorted({*headers.FILES, *LIBRARIES})


@pytest.mark.parametrize("path", WITH_TESTS, ids=named)
def test_its_own_tests_pass(path):
    outcomes = run_tests(path)
    assert len(outcomes) >= 2
    assert [outcome for outcome in outcomes if not outcome.passed] == []
