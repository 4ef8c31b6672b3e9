"""C4, C5: compile bombs and huge windows are refused by the name of a limit, soon and cheaply."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quantdsl import limits
from quantdsl.check import check_source
from quantdsl.codegen.jit import object_code
from quantdsl.codegen.target import native
from quantdsl.lang.source import Source
from tests.security.bombs import HEAD, ORDER, REFUSED, SHARED

SECONDS_MAX = 1.0
LEGAL_SECONDS_MAX = 10.0
NAMES = [value.name for value in vars(limits).values() if isinstance(value, limits.Limit)]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcomes():
    run = subprocess.run(
        [sys.executable, "-m", "tests.security.bombs"],
        cwd=ROOT, capture_output=True, text=True, timeout=50, check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits its own memory")
@pytest.mark.parametrize("name", REFUSED)
def test_a_bomb_is_refused_by_name(outcomes, name):
    said, seconds = outcomes[name]
    assert any(limit in said for limit in NAMES), said[:300]
    assert seconds <= SECONDS_MAX


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits its own memory")
@pytest.mark.parametrize("name", SHARED)
def test_what_is_named_is_computed_once(outcomes, name):
    said, seconds = outcomes[name]
    assert not said
    assert seconds <= SECONDS_MAX


def test_the_largest_legal_file_compiles_in_time():
    count = limits.SERIES
    text = HEAD + "".join(f"    let x{n} = ta.sma(close, {n + 1})\n" for n in range(count)) + ORDER
    start = time.process_time()
    checked, found = check_source(Source(text))
    assert checked is not None, found[:1]
    assert object_code(checked.module(), native())
    assert time.process_time() - start <= LEGAL_SECONDS_MAX
