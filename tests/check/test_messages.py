"""The checker's messages as the user sees them, reviewed in the diff of their snapshots."""

from collections import Counter

import pytest

from quantdsl.check import check_source, codes  # noqa: F401 (defines the codes)
from quantdsl.errors import InternalError
from quantdsl.lang.codes import defined
from quantdsl.lang.diagnostics import apply_edits
from quantdsl.lang.render import render_all
from quantdsl.lang.source import Source
from tests.check.cases import PROGRAMS

LINES_MAX = 12
ALONE = {"QD0218", "QD0404", "QD0805", "QD0806"}  # said in one way only


def findings(text):
    return check_source(Source(text, "example.qdsl"))[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_message(name, snapshot):
    source = Source(PROGRAMS[name], "example.qdsl")
    text = render_all(findings(source.text), source)
    assert text
    assert all(len(part.splitlines()) <= LINES_MAX for part in text.split("\n\n"))
    assert "SizeName" not in text
    assert "None" not in text
    assert text == snapshot


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_edit_can_be_applied(name):
    text = PROGRAMS[name]
    for finding in findings(text):
        if finding.edit is not None:
            assert finding.help
            mended = findings(apply_edits(text, [finding.edit]))
            assert finding.code not in [other.code for other in mended]


def test_every_code_is_shown_twice():
    shown = Counter(finding.code for text in PROGRAMS.values() for finding in findings(text))
    wanted = {code.code for code in defined() if "QD02" <= code.code < "QD10"} - {"QD0901"}
    assert {code for code in wanted if shown[code] < 1 + (code not in ALONE)} == set()
    assert InternalError not in shown
