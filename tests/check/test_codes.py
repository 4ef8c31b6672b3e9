"""Every code that is emitted anywhere has a page, and its examples show exactly what it says."""

import re
from pathlib import Path

import pytest

import quantdsl.check.codes
import quantdsl.lang.syntax_codes
from quantdsl.check import check_source
from quantdsl.lang import codes
from quantdsl.lang.source import Source

PACKAGE = Path(quantdsl.__path__[0])
CODES = [
    code for code in codes.defined() if "QD02" <= code.code < "QD10" and code.code != "QD0901"
]  # which is found only when the machine code is there


def found(text, path="<input>"):
    return [d.code for d in check_source(Source(text, path))[1]]


def test_every_emitted_code_has_a_page():
    emitted = {
        code
        for path in PACKAGE.rglob("*.py")
        if not path.name.endswith("codes.py")
        for code in re.findall(r'"(QD0[1-9]\d\d)"', path.read_text())
    }
    assert emitted == {code.code for code in codes.defined() if code.code < "QD90"}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
def test_the_wrong_example_shows_the_code_alone(code, tmp_path):
    assert found(code.wrong, str(tmp_path / "s.qdsl")) == [code.code]


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
def test_the_mended_example_is_clean(code):
    assert found(code.mended) == []


def test_a_page_says_which_limits_a_live_session_has():
    """It was said to refuse a strategy without a risk block, and runs it."""
    code = codes.lookup("QD0805")
    assert code is not None
    told = codes.explanation(code)
    assert "refused" not in told
    assert "[limits] of the config" in told
