"""docs/kernels.md: its kernels compile, are canonical and race nowhere; no word is left out."""

import re
from pathlib import Path

import numpy as np
import pytest

import quantdsl
from quantdsl.backtest.races import races
from quantdsl.check.checked import check_source
from quantdsl.check.kinds import KINDS
from quantdsl.check.thread_words import HELP
from quantdsl.check.threads import LATER, NAMES
from quantdsl.lang.format import format_source
from quantdsl.lang.source import Source

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "quantdsl" / "docs" / "kernels.md").read_text(encoding="utf-8")
EXAMPLES = {
    re.findall(r"kernel (\w+)\(", text)[0]: text
    for text in re.findall(r"```quantdsl\n(.*?)```", PAGE, re.DOTALL)
}
OF_TENSORS = {"near", "product", "risen", "smoothed", "tally"}
CALLS = {"distance": "distance(close / close[1], 8)"}
STRATEGY = """language 1

{kernel}
strategy Example:
    "A kernel of the page."

    bars 5m

    plot({call})

    on bar:
        close_position()

    risk:
        max_order = 1 share

    backtest:
        fees = 1bps
"""


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - OF_TENSORS))
def test_an_example_compiles_and_its_threads_do_not_race(name):
    call = CALLS.get(name, f"{name}(close / close[1])")
    text = STRATEGY.format(kernel=EXAMPLES[name], call=call)
    checked, diagnostics = check_source(Source(text, "example.qdsl"))
    assert checked is not None, diagnostics
    assert diagnostics == []
    assert format_source(text) == text
    assert [one.faults for one in races(checked)] == [[]]


@pytest.mark.parametrize("name", sorted(OF_TENSORS))
def test_an_example_of_tensors_compiles_and_does_not_race(name):
    text = "language 1\n\n" + EXAMPLES[name]
    assert format_source(text) == text
    checked, diagnostics = check_source(Source(text, "example.qdsl"), library_too=True)
    assert checked is not None, diagnostics
    assert diagnostics == []
    assert [one for one in races(checked) if one.faults] == []


def of_page(name, tmp_path):
    path = tmp_path / "linear.qdsl"
    path.write_text("language 1\n\n" + EXAMPLES[name])
    return quantdsl.kernel(path, name)


def test_the_example_of_blocks_counts(tmp_path):
    x, bins = np.linspace(-5.0, 5.0, 601), np.zeros(64, np.int64)
    found = np.clip((x * 8).astype(int) + 32, 0, 63)
    of_page("tally", tmp_path)(x, bins, device="simulated")
    assert bins.tolist() == np.bincount(found, minlength=64).tolist()


def test_the_example_of_blocks_that_meet_smooths(tmp_path):
    n, x = 700, np.random.default_rng(2).normal(size=700)
    wanted = x.copy()
    for _ in range(3):
        wanted[1 : n - 1] = (wanted[: n - 2] + wanted[2:]) / 2
    for device in ("cpu", "simulated"):
        found, spare = x.copy(), np.zeros(n)
        of_page("smoothed", tmp_path)(found, spare, 3, device=device)
        assert found.tolist() == wanted.tolist()


def test_the_example_of_tensors_runs_where_its_arrays_are(tmp_path):
    a, b, c = np.ones((2, 3), "f4"), np.ones((3, 4), "f4"), np.ones((2, 4), "f4")
    of_page("product", tmp_path)(a, b, c)
    assert (c == 4.0).all()


def test_every_word_and_kind_is_on_the_page():
    said = set(re.findall(r"[a-z_]+", PAGE))
    short = {name.removeprefix("atomic") for name in NAMES}
    missing = [name for name in short if name not in said and f"atomic{name}" not in said]
    assert missing == []
    assert set(HELP) == set(NAMES) - set(LATER)
    assert [name for name in LATER if f"`{name}`" not in PAGE] == []
    assert [kind for kind in KINDS if f"`@kernel({kind})`" not in PAGE] == []
