"""C4, C5: compile bombs and huge windows are refused by the name of a limit, soon and cheaply."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quantdsl import limits
from quantdsl.check import check_source
from quantdsl.codegen.jit import object_code
from quantdsl.codegen.target import native
from quantdsl.lang.source import Source
from tests.counting import CALLS_A_SECOND
from tests.security.bombs import HEAD, ORDER, REFUSED, SHARED

NAMES = [value.name for value in vars(limits).values() if isinstance(value, limits.Limit)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcomes():
    run = subprocess.run(
        [sys.executable, "-m", "tests.security.bombs"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits its own memory")
@pytest.mark.parametrize("name", REFUSED)
def test_a_bomb_is_refused_by_name(outcomes, name):
    said, calls = outcomes[name]
    assert any(limit in said for limit in NAMES), said[:300]
    assert calls <= CALLS_A_SECOND


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits its own memory")
@pytest.mark.parametrize("name", SHARED)
def test_what_is_named_is_computed_once(outcomes, name):
    said, calls = outcomes[name]
    assert not said
    assert calls <= CALLS_A_SECOND


def test_the_largest_legal_file_compiles():
    count = limits.SERIES
    text = HEAD + "".join(f"    let x{n} = ta.sma(close, {n + 1})\n" for n in range(count)) + ORDER
    checked, found = check_source(Source(text))
    assert checked is not None, found[:1]
    assert object_code(checked.module(), native())
