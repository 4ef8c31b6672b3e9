"""The README's strategies are what they claim to be: canonical, and checked without a finding."""

import re
from pathlib import Path

import pytest

from quantdsl.check import check_source
from quantdsl.lang.format import format_source
from quantdsl.lang.source import Source

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
STRATEGIES = re.findall(r"```quantdsl\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("text", STRATEGIES)
def test_a_strategy_of_the_readme(text):
    assert format_source(text) == text
    checked, diagnostics = check_source(Source(text))
    assert checked is not None
    assert not diagnostics


def test_there_is_one():
    assert STRATEGIES
