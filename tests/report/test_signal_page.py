"""The description of signals in the terminal, on disk and as a page."""

import json
import re
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from rich.console import Console

from quantdsl.report.signal_page import page
from quantdsl.report.signal_report import SignalReport
from quantdsl.report.signal_study import Cells, study
from quantdsl.report.signal_summary import number, show
from tests.report.browser import assert_closed, drawn, needs_browser

HOSTILE = "</script><script>alert(1)</script>\"'&<!--"
DAY_NS = 86_400 * 10**9
START_NS = 1_577_836_800 * 10**9  # 2020-01-01


@cache
def report(*, across: bool = True, name: str = "momentum") -> SignalReport:
    """Twelve names of invented prices over 80 days; the first signal foretells, the others not."""
    random = np.random.default_rng(3)
    days, names = 80, 12 if across else 1
    steps = random.normal(0.0, 0.02, (days, names))
    closes = 50.0 * np.exp(np.cumsum(steps, axis=0))
    foretells = np.vstack([steps[1:], steps[:1]]) + random.normal(0, 0.02, steps.shape)
    foretells[:5] = np.nan
    signals = {name: foretells, "noise": random.normal(0, 1, steps.shape), "one": steps * 0 + 1}
    day, which = (grid.ravel() for grid in np.mgrid[:days, :names])
    inside = np.ones(closes.size, np.bool_)
    cells = Cells.of(START_NS + day * DAY_NS, which, closes.ravel(), inside, across=across)
    order = np.argsort(which, kind="stable")
    columns = (values.ravel()[order] for values in signals.values())
    return SignalReport(
        strategy="Momentum",
        source_path="momentum.qdsl",
        source_text="language 1\n",
        version="0.1.0",
        data_name="invented",
        data_sha256="0" * 64,
        params={"n": "5"},
        instruments=tuple(f"A{n:02}" for n in range(names)),
        across=across,
        rows=days * names,
        start_ns=START_NS,
        end_ns=START_NS + (days - 1) * DAY_NS,
        studies=tuple(study(cells, list(signals), columns)),
        notes=("a note",),
    )


def shown(one: SignalReport, width: int = 80) -> str:
    console = Console(width=width, file=StringIO(), highlight=False)
    show(one, console)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


@pytest.mark.parametrize("across", [True, False])
def test_the_terminal_says_what_was_found(snapshot, across: bool) -> None:
    assert shown(report(across=across)) == snapshot


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width: int) -> None:
    assert max(map(len, shown(report(), width).splitlines())) <= width


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0123456, "0.01235"), (9_999.0, "9999"), (12_345.6, "12,346"), (-14_751_872, "-1.475e+07")],
)
def test_a_figure_is_short(value: float, said: str) -> None:
    """Seven quantiles of millions did not fit the terminal: `4,783,7…`."""
    assert number(value) == said


def test_files_hold_the_same_figures_and_are_the_same_each_time(tmp_path: Path) -> None:
    one = report()
    paths = [one.save(tmp_path / name) for name in ("a", "b")]
    names = {"report.html", "describe.json", "distribution.parquet", "foretold.parquet"}
    assert {path.name for path in (tmp_path / "a").iterdir()} == names
    for name in names:
        assert (paths[0].parent / name).read_bytes() == (paths[1].parent / name).read_bytes()
    document = json.loads((tmp_path / "a" / "describe.json").read_text())
    table = pq.read_table(tmp_path / "a" / "foretold.parquet").to_pylist()
    first = document["signals"][0]
    assert first["foretold"][0] == table[0]
    assert first["coverage"] == one.studies[0].coverage
    assert table[0]["spearman"] == one.studies[0].foretold[0].spearman > 0.3
    assert document["signals"][2]["skew"] is None
    assert table[-1]["pearson"] is None


def test_nothing_is_loaded_from_anywhere() -> None:
    assert_closed(page(report()))
    assert_closed(page(report(across=False)))


def test_texts_of_strategy_and_data_are_escaped() -> None:
    hostile = replace(
        report(name=HOSTILE),
        strategy=HOSTILE,
        source_text=HOSTILE,
        data_name=HOSTILE,
        instruments=(HOSTILE,),
        params={HOSTILE: HOSTILE},
        notes=(HOSTILE,),
    )
    text = page(hostile)
    assert "<script>alert" not in text
    assert text.count("</script>") == page(report()).count("</script>") == 3
    data = re.search(r'id="run">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["lines"][0]["name"] == HOSTILE


@needs_browser
@pytest.mark.parametrize("across", [True, False])
def test_a_browser_draws_it(tmp_path: Path, across: bool) -> None:
    seen = drawn(page(report(across=across)), tmp_path)
    assert ("<canvas" in seen) == across
    assert seen.count("<svg") >= 3 * 3
